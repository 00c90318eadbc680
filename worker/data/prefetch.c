/* A ring of batches between one thread that gathers and one that takes. Batch `step` lives in slot step % slots; of
 * depth + 1 slots one belongs to the taker and the others to the thread.
 */
#include "data/data.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"

struct slot {
    float *x, *y;
    size_t rows;
};

struct weir_prefetch {
    const struct weir_dataset *dataset;
    weir_prefetch_rows rows;
    void *context;
    uint64_t *index; /* of the thread alone */
    size_t max_rows;
    struct slot *slots;
    uint64_t slot_count;

    pthread_t thread;
    pthread_mutex_t lock; /* guards all that follows, and slots[].rows; tensors belong to whom the counters say */
    pthread_cond_t filled, wanted;
    uint64_t next_take; /* the step that is taken next */
    uint64_t next_fill; /* the step that is gathered next: steps [next_take, next_fill) are there */
    uint64_t restarts;  /* a batch begun before the last restart is thrown away */
    bool ended;         /* a batch without rows was made: wait until it is taken */
    bool stopping;
};

/* ---- the named waits; all hold the lock */

static bool has_room(const struct weir_prefetch *p)
{
    return !p->ended && p->next_fill - p->next_take < p->slot_count - 1;
}

/* False: stop. */
static bool wait_for_room(struct weir_prefetch *p)
{
    while (!p->stopping && !has_room(p))
        pthread_cond_wait(&p->wanted, &p->lock);
    return !p->stopping;
}

static void wait_until_filled(struct weir_prefetch *p, uint64_t step)
{
    while (p->next_fill <= step)
        pthread_cond_wait(&p->filled, &p->lock);
}

/* ---- the gathering thread */

static size_t fill(struct weir_prefetch *p, uint64_t step)
{
    struct slot *slot = &p->slots[step % p->slot_count];
    size_t rows = p->rows(p->context, step, p->index);
    assert(rows <= p->max_rows);
    weir_dataset_gather(p->dataset, p->index, rows, slot->x, slot->y);
    return rows;
}

static void *gather_ahead(void *argument)
{
    struct weir_prefetch *p = argument;
    pthread_mutex_lock(&p->lock);
    while (wait_for_room(p)) {
        uint64_t step = p->next_fill, restarts = p->restarts;
        pthread_mutex_unlock(&p->lock);
        size_t rows = fill(p, step);
        pthread_mutex_lock(&p->lock);
        if (restarts == p->restarts) {
            p->slots[step % p->slot_count].rows = rows;
            p->ended = rows == 0;
            p->next_fill = step + 1;
        }
        pthread_cond_broadcast(&p->filled);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- for the taker */

static void free_all(struct weir_prefetch *p)
{
    pthread_cond_destroy(&p->filled);
    pthread_cond_destroy(&p->wanted);
    pthread_mutex_destroy(&p->lock);
    for (uint64_t i = 0; i < p->slot_count; i++) {
        free(p->slots[i].x);
        free(p->slots[i].y);
    }
    free(p->slots);
    free(p->index);
    free(p);
}

static size_t elements(size_t dims, const size_t *shape)
{
    size_t product = 1;
    for (size_t i = 0; i < dims; i++)
        product *= shape[i];
    return product;
}

struct weir_prefetch *weir_prefetch_start(const struct weir_dataset *dataset, weir_prefetch_rows rows, void *context,
                                          uint64_t first_step, size_t max_rows, uint32_t depth)
{
    assert(depth >= 1);
    size_t shape[4];
    size_t x_elements = elements(weir_dataset_x_shape(dataset, shape), shape);
    size_t y_elements = elements(weir_dataset_y_shape(dataset, shape), shape);
    struct weir_prefetch *p = weir_alloc(1, sizeof *p, "the prefetch thread");
    *p = (struct weir_prefetch){
        .dataset = dataset,
        .rows = rows,
        .context = context,
        .index = weir_alloc(max_rows, sizeof(uint64_t), "the prefetch thread"),
        .max_rows = max_rows,
        .slots = weir_alloc((size_t)depth + 1, sizeof(struct slot), "the prefetch thread"),
        .slot_count = (uint64_t)depth + 1,
        .next_take = first_step,
        .next_fill = first_step,
    };
    for (uint64_t i = 0; i < p->slot_count; i++) {
        p->slots[i].x = weir_alloc_tensor(max_rows * x_elements * sizeof(float), "batches ahead");
        p->slots[i].y = weir_alloc_tensor(max_rows * y_elements * sizeof(float), "batches ahead");
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->filled, NULL);
    pthread_cond_init(&p->wanted, NULL);
    int failed = pthread_create(&p->thread, NULL, gather_ahead, p);
    if (failed) {
        free_all(p);
        errno = failed;
        return NULL;
    }
    return p;
}

/* What was gathered is for other steps. What is being gathered is thrown away when it is done, before its one thread
 * begins anything else, so no slot is written to twice at once. */
static void restart_at(struct weir_prefetch *p, uint64_t step)
{
    p->restarts++;
    p->next_take = step;
    p->next_fill = step;
    p->ended = false;
}

size_t weir_prefetch_take(struct weir_prefetch *p, uint64_t step, const float **x, const float **y)
{
    pthread_mutex_lock(&p->lock);
    if (step != p->next_take || (p->ended && p->next_fill == step))
        restart_at(p, step);
    pthread_cond_signal(&p->wanted);
    wait_until_filled(p, step);
    p->next_take = step + 1; /* its slot is this thread's until the next take; the one before goes back */
    const struct slot *slot = &p->slots[step % p->slot_count];
    size_t rows = slot->rows;
    *x = slot->x;
    *y = slot->y;
    pthread_cond_signal(&p->wanted);
    pthread_mutex_unlock(&p->lock);
    return rows;
}

void weir_prefetch_stop(struct weir_prefetch *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->wanted);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    free_all(p);
}
