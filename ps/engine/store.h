/* Where a lane's chunks live: the buffers of their versions, slots and sums.
 *
 * Applying step t makes a new buffer for version t + 1; a buffer is used again when its version was freed and no
 * message refers to it any more (references are counted; any thread may drop one). In place (one process that plays all
 * roles, where nobody else can need the old version) both versions are the same memory.
 *
 * One owner, the lane's thread, but for weir_version_unref.
 */
#ifndef WEIR_ENGINE_STORE_H
#define WEIR_ENGINE_STORE_H

#include <stdatomic.h>

#include "engine/engine.h"

struct weir_version {
    atomic_uint references; /* the store's own, while its version lives, and one per message on its way */
    float *weights;
};

struct weir_store;

struct weir_store_config {
    struct weir_engine *engine; /* outlives the store */
    size_t chunks;
    const uint32_t *elements; /* by local chunk number */
    float *const *in_place;   /* by local chunk number: the one buffer of its weights; NULL: not in place */
    bool gated;               /* keeps sums until they are judged */
    const struct weir_piece *const *pieces; /* by local chunk number; outlive the store */
    const size_t *piece_count;
    bool stream; /* write new versions past the caches: for models larger than they are */
};

/* Copies the configuration's arrays, not what they point at. All slots have their initial value, weights are the
 * caller's to fill in (weir_store_initial). */
struct weir_store *weir_store_new(const struct weir_store_config *config);
/* No message may refer to a buffer any more. */
void weir_store_free(struct weir_store *store);

/* The buffer for the first version, to be filled in. */
float *weir_store_initial(struct weir_store *store, size_t chunk, uint64_t version);

/* A live version's buffer, with one more reference, for a message. */
struct weir_version *weir_store_ref(struct weir_store *store, size_t chunk, uint64_t version);
void weir_version_unref(void *version);
/* A slot's floats: valid as long as the store, constant while nothing is applied. */
const float *weir_store_slot(const struct weir_store *store, size_t chunk, size_t slot);

/* Version step + 1 from version step. `sum` NULL: what weir_store_sum left (gated). `update` NULL: unchanged. */
void weir_store_apply(struct weir_store *store, size_t chunk, uint64_t step, const struct weir_sum_program *sum,
                      const struct weir_update *update);
/* Sums and keeps the sum; returns the pieces' squares, valid until the next call. */
const double *weir_store_sum(struct weir_store *store, size_t chunk, const struct weir_sum_program *sum);
/* The version is over. */
void weir_store_drop(struct weir_store *store, size_t chunk, uint64_t version);

#endif
