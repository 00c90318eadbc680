/* Memory of one message, taken bit by bit and given back at once: first from a buffer that stands in the structure
 * (lane messages need no more), then in blocks from the heap, up to a budget. So bytes from the network can't ask for
 * more than they are worth. Private to wire/, though a frame holds one.
 */
#ifndef WEIR_WIRE_STORE_H
#define WEIR_WIRE_STORE_H

#include <stddef.h>

#include "base/arena.h"

#define WEIR_WIRE_STORE_FIRST 2048

/* Points into itself: not to be copied. */
struct weir_wire_store {
    char *at;    /* of the current block */
    size_t left; /* bytes of it */
    size_t budget;
    struct weir_arena blocks;
    _Alignas(max_align_t) char first[WEIR_WIRE_STORE_FIRST];
};

/* Empty; `budget`: the most bytes that it will take from the heap. */
void weir_wire_store_init(struct weir_wire_store *store, size_t budget);
/* Not zeroed, aligned for any number or pointer; NULL beyond the budget. */
void *weir_wire_store_take(struct weir_wire_store *store, size_t bytes);
void weir_wire_store_free(struct weir_wire_store *store);

#endif
