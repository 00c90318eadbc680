#include "base/arena.h"

#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct weir_arena_block {
    struct weir_arena_block *next;
    max_align_t memory[];
};

void *weir_arena_take(struct weir_arena *arena, size_t count, size_t size)
{
    size_t bytes = count * size;
    if (size && bytes / size != count)
        bytes = SIZE_MAX / 2; /* weir_alloc says that there is no memory */
    struct weir_arena_block *block = weir_alloc(1, sizeof *block + bytes, "a core's state");
    block->next = arena->blocks;
    arena->blocks = block;
    return block->memory;
}

void weir_arena_free(struct weir_arena *arena)
{
    while (arena->blocks) {
        struct weir_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
