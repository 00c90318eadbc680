#include "engine/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Two live versions, and those that slow peers are still being sent. Each peer's stream has at most two unsent
 * messages, so there is always an end to them; more buffers are made as they are needed. */
struct pool {
    struct weir_version **versions;
    size_t count;
};

struct stored_chunk {
    uint32_t elements;
    struct weir_version *live[2]; /* by version & 1 */
    struct pool pool;
    float *slots[WEIR_SLOTS_MAX];
    float *sum; /* gated */
};

struct weir_store {
    struct weir_store_config config;
    struct stored_chunk *chunks;
    double *squares;
};

static float *tensor(uint32_t elements)
{
    return weir_alloc_tensor((size_t)elements * sizeof(float), "a chunk of the model");
}

static void init_chunk(struct weir_store *store, size_t i, uint32_t elements)
{
    struct stored_chunk *chunk = &store->chunks[i];
    struct weir_engine *engine = store->config.engine;
    chunk->elements = elements;
    for (size_t s = 0; s < weir_engine_slots(engine); s++) {
        chunk->slots[s] = tensor(elements);
        float initial = weir_engine_slot_initial(engine, s);
        for (uint32_t e = 0; initial != 0 && e < elements; e++)
            chunk->slots[s][e] = initial;
    }
    if (store->config.gated)
        chunk->sum = tensor(elements);
}

static void *copy(const void *from, size_t count, size_t size)
{
    return memcpy(weir_alloc(count, size, "the store"), from, count * size);
}

struct weir_store *weir_store_new(const struct weir_store_config *config)
{
    struct weir_store *store = weir_alloc(1, sizeof *store, "the store");
    size_t n = config->chunks, most = 0;
    store->config = *config;
    store->config.in_place = config->in_place ? copy(config->in_place, n, sizeof(float *)) : NULL;
    store->config.pieces = copy(config->pieces, n, sizeof(struct weir_piece *));
    store->config.piece_count = copy(config->piece_count, n, sizeof(size_t));
    store->config.elements = NULL;
    store->chunks = weir_alloc(n, sizeof *store->chunks, "the store");
    for (size_t i = 0; i < n; i++) {
        init_chunk(store, i, config->elements[i]);
        most = config->piece_count[i] > most ? config->piece_count[i] : most;
    }
    store->squares = weir_alloc(most, sizeof(double), "the store");
    return store;
}

void weir_store_free(struct weir_store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->config.chunks; i++) {
        struct stored_chunk *chunk = &store->chunks[i];
        for (size_t v = 0; v < chunk->pool.count; v++) {
            if (!store->config.in_place)
                free(chunk->pool.versions[v]->weights);
            free(chunk->pool.versions[v]);
        }
        free(chunk->pool.versions);
        for (size_t s = 0; s < WEIR_SLOTS_MAX; s++)
            free(chunk->slots[s]);
        free(chunk->sum);
    }
    free((void *)store->config.in_place);
    free((void *)store->config.pieces);
    free((void *)store->config.piece_count);
    free(store->chunks);
    free(store->squares);
    free(store);
}

/* A buffer that nobody refers to, with the store's own reference. */
static struct weir_version *take(struct weir_store *store, size_t i)
{
    struct pool *pool = &store->chunks[i].pool;
    for (size_t v = 0; v < pool->count; v++)
        if (atomic_load_explicit(&pool->versions[v]->references, memory_order_acquire) == 0) {
            atomic_store(&pool->versions[v]->references, 1);
            return pool->versions[v];
        }
    struct weir_version **more = weir_alloc(pool->count + 1, sizeof *more, "a version");
    if (pool->count)
        memcpy(more, pool->versions, pool->count * sizeof *more);
    free(pool->versions);
    pool->versions = more;
    struct weir_version *version = weir_alloc(1, sizeof *version, "a version");
    version->weights = store->config.in_place ? store->config.in_place[i] : tensor(store->chunks[i].elements);
    atomic_init(&version->references, 1);
    return pool->versions[pool->count++] = version;
}

float *weir_store_initial(struct weir_store *store, size_t chunk, uint64_t version)
{
    struct weir_version *first = take(store, chunk);
    store->chunks[chunk].live[version & 1] = first;
    return first->weights;
}

struct weir_version *weir_store_ref(struct weir_store *store, size_t chunk, uint64_t version)
{
    struct weir_version *live = store->chunks[chunk].live[version & 1];
    assert(live);
    atomic_fetch_add(&live->references, 1);
    return live;
}

void weir_version_unref(void *version)
{
    struct weir_version *freed = version;
    atomic_fetch_sub_explicit(&freed->references, 1, memory_order_release);
}

const float *weir_store_slot(const struct weir_store *store, size_t chunk, size_t slot)
{
    return store->chunks[chunk].slots[slot];
}

/* The kept sum as the only operand of a sum: its bits are the same as if it were made now. */
static void apply_kept_sum(struct weir_store *store, size_t i, const struct weir_update *update, const float *from,
                           float *to)
{
    struct stored_chunk *chunk = &store->chunks[i];
    struct weir_slice slice = {chunk->sum, (size_t)chunk->elements * sizeof(float)};
    struct weir_operand operand = {&slice, 1};
    const int16_t code = 0;
    struct weir_sum_program program = {&code, 1, &operand, 1};
    weir_engine_apply(store->config.engine, &program, update, store->config.pieces[i], store->config.piece_count[i],
                      from, to, chunk->slots, chunk->elements, store->config.stream);
}

void weir_store_apply(struct weir_store *store, size_t i, uint64_t step, const struct weir_sum_program *sum,
                      const struct weir_update *update)
{
    struct stored_chunk *chunk = &store->chunks[i];
    const float *from = chunk->live[step & 1]->weights;
    struct weir_version *next = take(store, i);
    if (!update) {
        if (next->weights != from)
            memcpy(next->weights, from, (size_t)chunk->elements * sizeof(float));
    } else if (sum) {
        weir_engine_apply(store->config.engine, sum, update, store->config.pieces[i], store->config.piece_count[i],
                          from, next->weights, chunk->slots, chunk->elements, store->config.stream);
    } else {
        apply_kept_sum(store, i, update, from, next->weights);
    }
    assert(!chunk->live[(step + 1) & 1]);
    chunk->live[(step + 1) & 1] = next;
}

const double *weir_store_sum(struct weir_store *store, size_t i, const struct weir_sum_program *sum)
{
    struct stored_chunk *chunk = &store->chunks[i];
    weir_engine_sum(store->config.engine, sum, store->config.pieces[i], store->config.piece_count[i], chunk->sum,
                    store->squares, chunk->elements);
    return store->squares;
}

void weir_store_drop(struct weir_store *store, size_t i, uint64_t version)
{
    struct weir_version **live = &store->chunks[i].live[version & 1];
    assert(*live);
    weir_version_unref(*live);
    *live = NULL;
}
