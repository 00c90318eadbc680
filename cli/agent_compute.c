#include "cli/agent_compute.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "cli/agent_node.h"
#include "model/team.h"

/* ---- gradients */

static struct weir_gradient_set *take_set(struct weir_agent_compute *compute, uint64_t step)
{
    for (;;) {
        for (int i = 0; i < WEIR_GRADIENT_SETS; i++) {
            struct weir_gradient_set *set = &compute->sets[i];
            if (atomic_load_explicit(&set->references, memory_order_acquire) > 0)
                continue;
            for (size_t n = 0; n < compute->node_count; n++)
                if (!set->nodes[n].gradient)
                    set->nodes[n].gradient =
                        weir_alloc_tensor((size_t)compute->process->flat_elements * sizeof(float), "a gradient");
            atomic_store(&set->step, step);
            return set;
        }
        sched_yield(); /* messages of broken streams still refer to all of them; they are on their way back */
    }
}

struct weir_gradient_set *weir_agent_compute_ref(struct weir_agent_compute *compute, uint64_t step)
{
    for (int i = 0; i < WEIR_GRADIENT_SETS; i++)
        if (atomic_load(&compute->sets[i].step) == step) {
            atomic_fetch_add(&compute->sets[i].references, 1);
            return &compute->sets[i];
        }
    return NULL;
}

void weir_agent_compute_unref(void *set)
{
    struct weir_gradient_set *used = set;
    atomic_fetch_sub_explicit(&used->references, 1, memory_order_release);
}

/* ---- a step */

/* Rows of the global batch that this worker's replicas take: consecutive, from the first replica's first row on. */
static uint32_t hosted_rows(const struct weir_agent_compute *compute, uint32_t batch, uint32_t *first)
{
    uint32_t last_first, last_count;
    weir_walk_replica(&compute->walk, batch, compute->first_replica, first, &last_count);
    weir_walk_replica(&compute->walk, batch, compute->first_replica + compute->replica_count - 1, &last_first,
                      &last_count);
    return last_first + last_count - *first;
}

static size_t rows_of_step(void *context, uint64_t step, uint64_t *index)
{
    const struct weir_agent_compute *compute = context;
    if (step >= compute->last_step)
        return 0;
    uint32_t first, count = hosted_rows(compute, weir_walk_batch(&compute->walk, step), &first);
    weir_walk_indices(&compute->walk, step, first, count, index);
    return count;
}

/* Tells lanes that more chunks are final, when a whole one more is. */
static void tell_ready(void *context, uint64_t offset)
{
    struct weir_agent_compute *compute = context;
    const struct weir_layout *layout = &compute->process->layout;
    uint32_t chunk = (uint32_t)((offset + layout->chunk_elements - 1) / layout->chunk_elements);
    if (chunk >= compute->told_chunk)
        return;
    compute->told_chunk = chunk;
    for (uint32_t l = 0; l < compute->lane_count; l++) {
        struct weir_event event = {.kind = WEIR_ON_READY, .step = compute->record.step, .offset = offset, .text = ""};
        weir_post(compute->lanes[l], &event);
    }
}

static void tell_seals(struct weir_agent_compute *compute)
{
    for (uint32_t i = 0; i < compute->replica_count; i++) {
        const struct weir_sums *sums = &compute->sums[i];
        struct weir_message_body body = {.type = WEIR_SEAL};
        body.seal = (struct weir_seal){
            .generation = compute->record.generation,
            .step = compute->record.step,
            .round = compute->record.round,
            .replica = compute->first_replica + i,
            .samples = sums->samples,
            .loss = sums->loss,
        };
        memcpy(body.seal.metrics, sums->metric, sizeof body.seal.metrics);
        struct weir_event event = {.kind = WEIR_ON_SEAL, .body = &body, .text = ""};
        weir_post(compute->lanes[0], &event);
    }
}

/* Which of the hosted replicas the nodes are made of. */
static void set_ranges(const struct weir_agent_compute *compute, struct weir_gradient_node *nodes)
{
    for (size_t n = 0; n < compute->node_count; n++) {
        uint32_t first, count;
        weir_tree_range(compute->process->replicas, compute->tree_nodes[n], &first, &count);
        nodes[n].first_replica = first - compute->first_replica;
        nodes[n].replica_count = count;
    }
}

static void train(struct weir_agent_compute *compute)
{
    const struct weir_record *record = &compute->record;
    struct weir_gradient_set *set = take_set(compute, record->step);
    uint32_t batch = weir_walk_batch(&compute->walk, record->step), first;
    hosted_rows(compute, batch, &first);
    for (uint32_t i = 0; i < compute->replica_count; i++) {
        uint32_t row, count;
        weir_walk_replica(&compute->walk, batch, compute->first_replica + i, &row, &count);
        compute->rows[i] = (struct weir_replica_rows){row - first, count};
        compute->ids[i] = compute->first_replica + i;
        compute->row0[i] = row;
    }
    set_ranges(compute, set->nodes);
    struct weir_step_input input = {
        .step = record->step,
        .seed = compute->process->job.seed,
        .weights = compute->weights[record->step & 1],
        .replicas = compute->rows,
        .replica_ids = compute->ids,
        .replica_row0 = compute->row0,
        .replica_count = compute->replica_count,
        .loss_scale = 1.0f / (float)batch,
        .nodes = set->nodes,
        .node_count = (uint32_t)compute->node_count,
        .ready = tell_ready,
        .ready_context = compute,
    };
    weir_prefetch_take(compute->prefetch, record->step, &input.x, &input.y);
    compute->told_chunk = UINT32_MAX;
    weir_team_step(compute->team, &input, compute->sums);
    tell_ready(compute, 0);
}

static void add_sums(struct weir_sums *to, const struct weir_sums *from)
{
    to->samples += from->samples;
    to->loss += from->loss;
    for (int m = 0; m < WEIR_METRICS_MAX; m++)
        to->metric[m] += from->metric[m];
}

/* A replica's share of a round of validation, in pieces of a size that is the job's, so that sums don't depend on who
 * hosts what. */
static void evaluate_replica(void *context, struct weir_compute *thread_compute, uint32_t thread, uint32_t replica)
{
    const struct weir_agent_compute *compute = context;
    struct weir_sums *sums = &compute->sums[replica];
    uint64_t *index = compute->index + (size_t)thread * compute->piece_rows;
    float *x = compute->x + thread * compute->x_floats, *y = compute->y + thread * compute->y_floats;
    uint64_t samples = weir_dataset_samples(compute->validation);
    uint32_t rows = weir_process_validation_rows(compute->process);
    uint64_t begin = (uint64_t)compute->record.round * rows; /* a round beyond the data has no samples */
    uint64_t left = begin < samples ? samples - begin : 0;
    uint32_t present = left < rows ? (uint32_t)left : rows, first, count;
    weir_walk_replica(&compute->walk, present, compute->first_replica + replica, &first, &count);
    memset(sums, 0, sizeof *sums);
    for (uint32_t done = 0; done < count;) {
        uint32_t n = count - done < compute->piece_rows ? count - done : compute->piece_rows;
        for (uint32_t i = 0; i < n; i++)
            index[i] = begin + first + done + i;
        weir_dataset_gather(compute->validation, index, n, x, y);
        struct weir_sums piece;
        weir_compute_evaluate(thread_compute, compute->weights[compute->record.step & 1], x, y, n, &piece);
        add_sums(sums, &piece);
        done += n;
    }
}

static void carry_out(struct weir_agent_compute *compute)
{
    if (compute->record.order == WEIR_ORDER_TRAIN) {
        train(compute);
        atomic_fetch_add(&compute->process->replicas_computed, compute->replica_count);
    } else {
        weir_team_each(compute->team, evaluate_replica, compute);
    }
    struct weir_event event = {
        .kind = WEIR_ON_COMPUTED, .step = compute->record.step, .round = compute->record.round, .text = ""};
    weir_post(compute->worker, &event); /* before the Seals, which the next record may follow at once */
    tell_seals(compute);
}

/* ---- the thread */

static size_t product(const size_t *shape, size_t dims)
{
    size_t n = 1;
    for (size_t i = 0; i < dims; i++)
        n *= shape[i];
    return n;
}

static void take_scratch(struct weir_agent_compute *compute)
{
    size_t shape[4], replicas = compute->replica_count, rows = compute->piece_rows;
    compute->rows = weir_alloc(replicas, sizeof *compute->rows, "a worker");
    compute->ids = weir_alloc(replicas, sizeof *compute->ids, "a worker");
    compute->row0 = weir_alloc(replicas, sizeof *compute->row0, "a worker");
    compute->sums = weir_alloc(replicas, sizeof *compute->sums, "a worker");
    if (!compute->validation)
        return;
    compute->index = weir_alloc(compute->threads * rows, sizeof *compute->index, "a worker");
    compute->x_floats = rows * product(shape, weir_dataset_x_shape(compute->validation, shape));
    compute->y_floats = rows * product(shape, weir_dataset_y_shape(compute->validation, shape));
    compute->x = weir_alloc_tensor(compute->threads * compute->x_floats * sizeof(float), "validation samples");
    compute->y = weir_alloc_tensor(compute->threads * compute->y_floats * sizeof(float), "validation labels");
}

static void take_weights(struct weir_agent_compute *compute)
{
    struct weir_process *process = compute->process;
    size_t bytes = (size_t)process->flat_elements * sizeof(float);
    for (int i = 0; i < 2; i++)
        compute->weights[i] = process->local ? process->weights : weir_alloc_tensor(bytes, "the weights");
}

static bool make_team(struct weir_agent_compute *compute, struct weir_error *err)
{
    struct weir_gradient_node nodes[WEIR_TREE_COVER_MAX] = {0};
    set_ranges(compute, nodes);
    struct weir_team_config config = {
        .model = compute->process->model,
        .job = &compute->process->job,
        .nodes = nodes,
        .node_count = (uint32_t)compute->node_count,
        .replica_count = compute->replica_count,
        .replica_rows = compute->piece_rows,
        .threads = compute->threads,
        .held_bytes = weir_process_model_bytes(compute->process),
    };
    compute->team = weir_team_new(&config, err);
    return compute->team != NULL;
}

/* What takes long with a large model or batch: heartbeats go on meanwhile. */
static bool prepare(struct weir_agent_compute *compute, struct weir_error *err)
{
    take_weights(compute);
    pthread_mutex_lock(&compute->lock);
    compute->has_weights = true;
    pthread_cond_broadcast(&compute->changed);
    pthread_mutex_unlock(&compute->lock);
    take_scratch(compute);
    if (!make_team(compute, err))
        return false;
    compute->prefetch = weir_prefetch_start(compute->train, rows_of_step, compute, 0, compute->max_rows,
                                            compute->process->job.prefetch);
    if (!compute->prefetch)
        return weir_error_set(err, "the prefetch thread could not be started: %s", strerror(errno));
    return true;
}

static void *run(void *argument)
{
    struct weir_agent_compute *compute = argument;
    struct weir_error err;
    weir_team_enter(0);
    if (!prepare(compute, &err)) {
        weir_agent_node_fail(compute->node, err.text);
        return NULL;
    }
    pthread_mutex_lock(&compute->lock);
    for (;;) {
        while (!compute->asked && !compute->stopping)
            pthread_cond_wait(&compute->changed, &compute->lock);
        if (compute->stopping)
            break;
        compute->asked = false;
        pthread_mutex_unlock(&compute->lock);
        carry_out(compute);
        pthread_mutex_lock(&compute->lock);
    }
    pthread_mutex_unlock(&compute->lock);
    return NULL;
}

/* ---- life */

bool weir_agent_compute_start(struct weir_agent_compute *compute, uint32_t position, uint64_t train_samples,
                              uint64_t steps, struct weir_error *err)
{
    struct weir_process *process = compute->process;
    weir_layout_hosted(position, process->replicas, process->worker_count, &compute->first_replica,
                       &compute->replica_count);
    pthread_mutex_init(&compute->lock, NULL);
    pthread_cond_init(&compute->changed, NULL);
    if (compute->replica_count == 0)
        return true; /* stands by */
    compute->node_count =
        weir_tree_cover(process->replicas, compute->first_replica, compute->replica_count, compute->tree_nodes);
    compute->walk = weir_process_walk(process, train_samples);
    compute->last_step = steps;
    uint32_t batch = weir_walk_batch(&compute->walk, 0); /* the largest: fit.batch_size may be more than there are */
    compute->piece_rows = (batch + process->replicas - 1) / process->replicas;
    compute->max_rows = compute->piece_rows * compute->replica_count;
    for (int i = 0; i < WEIR_GRADIENT_SETS; i++)
        atomic_store(&compute->sets[i].step, UINT64_MAX);
    compute->threads =
        weir_team_threads(compute->replica_count, weir_process_cpus(), weir_process_workers_here(process, position));
    int code = pthread_create(&compute->thread, NULL, run, compute);
    if (code != 0)
        return weir_error_set(err, "the compute thread could not be started: %s", strerror(code));
    compute->started = true;
    return true;
}

void weir_agent_compute_wait(struct weir_agent_compute *compute)
{
    pthread_mutex_lock(&compute->lock);
    while (compute->started && !compute->has_weights)
        pthread_cond_wait(&compute->changed, &compute->lock);
    pthread_mutex_unlock(&compute->lock);
}

void weir_agent_compute_ask(struct weir_agent_compute *compute, const struct weir_record *record)
{
    pthread_mutex_lock(&compute->lock);
    assert(!compute->asked);
    compute->record = *record;
    compute->asked = true;
    pthread_cond_broadcast(&compute->changed);
    pthread_mutex_unlock(&compute->lock);
}

void weir_agent_compute_stop(struct weir_agent_compute *compute)
{
    if (!compute->started)
        return;
    pthread_mutex_lock(&compute->lock);
    compute->stopping = true;
    pthread_cond_broadcast(&compute->changed);
    pthread_mutex_unlock(&compute->lock);
}

void weir_agent_compute_join(struct weir_agent_compute *compute)
{
    if (compute->started)
        pthread_join(compute->thread, NULL);
    weir_prefetch_stop(compute->prefetch);
}

void weir_agent_compute_free(struct weir_agent_compute *compute)
{
    weir_team_free(compute->team);
    for (int i = 0; i < WEIR_GRADIENT_SETS; i++)
        for (size_t n = 0; n < compute->node_count; n++)
            free(compute->sets[i].nodes[n].gradient);
    for (int i = 0; i < 2 && !compute->process->local; i++)
        free(compute->weights[i]);
    free(compute->rows);
    free(compute->ids);
    free(compute->row0);
    free(compute->sums);
    free(compute->index);
    free(compute->x);
    free(compute->y);
    weir_dataset_close(compute->train);
    if (compute->validation)
        weir_dataset_close(compute->validation);
}
