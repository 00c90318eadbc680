#include "wire/store.h"

#define ALIGNMENT ((size_t)8)
#define BLOCK_BYTES ((size_t)8192)

void weir_wire_store_init(struct weir_wire_store *store, size_t budget)
{
    store->at = store->first;
    store->left = sizeof store->first;
    store->budget = budget;
    store->blocks = (struct weir_arena){0};
}

void *weir_wire_store_take(struct weir_wire_store *store, size_t bytes)
{
    if (bytes > store->left && bytes > store->budget)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes > store->left) {
        size_t block = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        store->budget -= block < store->budget ? block : store->budget;
        store->at = weir_arena_take(&store->blocks, block, 1);
        store->left = block;
    }
    void *taken = store->at;
    store->at += bytes;
    store->left -= bytes;
    return taken;
}

void weir_wire_store_free(struct weir_wire_store *store)
{
    weir_arena_free(&store->blocks);
    weir_wire_store_init(store, 0);
}
