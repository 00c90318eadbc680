/* Memory for one owner's whole life: taken piece by piece at start, given back all at once.
 *
 * The pure cores take everything they will ever need in their init, so that nothing allocates afterwards.
 */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include <stddef.h>

struct weir_arena_block;

/* Starts as {0}. Not locked: one owner. */
struct weir_arena {
    struct weir_arena_block *blocks;
};

/* Zeroed memory for `count` things of `size` bytes, aligned for any type; never NULL (see memory.h). */
void *weir_arena_take(struct weir_arena *arena, size_t count, size_t size);
void weir_arena_free(struct weir_arena *arena);

#endif
