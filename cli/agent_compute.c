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

static struct weir_gradient_set *find_set(struct weir_agent_compute *compute, uint64_t step)
{
    for (int i = 0; i < WEIR_GRADIENT_SETS; i++)
        if (atomic_load(&compute->sets[i].step) == step)
            return &compute->sets[i];
    return NULL;
}

static struct weir_gradient_set *take_set(struct weir_agent_compute *compute, uint64_t step)
{
    for (;;) {
        for (int i = 0; i < WEIR_GRADIENT_SETS; i++) {
            struct weir_gradient_set *set = &compute->sets[i];
            if (atomic_load_explicit(&set->references, memory_order_acquire) > 0)
                continue;
            atomic_store(&set->node_count, 0);
            atomic_store(&set->step, step);
            return set;
        }
        sched_yield(); /* messages of broken streams still refer to all of them; they are on their way back */
    }
}

/* The crew's nodes, behind those of the parts before. */
static struct weir_gradient_node *add_nodes(struct weir_agent_compute *compute, struct weir_gradient_set *set)
{
    const struct weir_crew *crew = compute->crew;
    uint32_t before = atomic_load(&set->node_count);
    assert(before + crew->node_count <= compute->process->replicas);
    for (uint32_t n = 0; n < crew->node_count; n++) {
        struct weir_gradient_node *node = &set->nodes[before + n];
        if (!node->gradient)
            node->gradient = weir_alloc_tensor((size_t)compute->process->flat_elements * sizeof(float), "a gradient");
        set->names[before + n] = crew->names[n];
        node->first_replica = crew->nodes[n].first_replica;
        node->replica_count = crew->nodes[n].replica_count;
    }
    atomic_store(&set->node_count, before + crew->node_count);
    return set->nodes + before;
}

struct weir_gradient_set *weir_agent_compute_ref(struct weir_agent_compute *compute, uint64_t step)
{
    struct weir_gradient_set *set = find_set(compute, step);
    if (set)
        atomic_fetch_add(&set->references, 1);
    return set;
}

void weir_agent_compute_unref(void *set)
{
    struct weir_gradient_set *used = set;
    atomic_fetch_sub_explicit(&used->references, 1, memory_order_release);
}

/* ---- a step */

/* On the prefetch thread. */
static size_t rows_of_step(void *context, uint64_t step, uint64_t *index)
{
    const struct weir_agent_compute *compute = context;
    const struct weir_crew *crew = compute->crew;
    size_t at = 0;
    uint32_t batch = step < compute->last_step ? weir_walk_batch(&compute->walk, step) : 0;
    for (uint32_t i = 0; batch && i < crew->count; i++) {
        uint32_t first, count;
        weir_walk_replica(&compute->walk, batch, crew->ids[i], &first, &count);
        weir_walk_indices(&compute->walk, step, first, count, index + at);
        at += count;
    }
    return at;
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
        struct weir_event event = {
            .kind = WEIR_ON_READY,
            .step = compute->record.step,
            .part = compute->part,
            .offset = offset,
            .replicas = compute->crew->ids,
            .replica_count = compute->crew->count,
            .text = "",
        };
        weir_post(compute->lanes[l], &event);
    }
}

static void tell_seals(struct weir_agent_compute *compute)
{
    for (uint32_t i = 0; i < compute->crew->count; i++) {
        const struct weir_sums *sums = &compute->crew->sums[i];
        struct weir_message_body body = {.type = WEIR_SEAL};
        body.seal = (struct weir_seal){
            .generation = compute->record.generation,
            .step = compute->record.step,
            .round = compute->record.round,
            .replica = compute->crew->ids[i],
            .samples = sums->samples,
            .loss = sums->loss,
        };
        memcpy(body.seal.metrics, sums->metric, sizeof body.seal.metrics);
        struct weir_event event = {.kind = WEIR_ON_SEAL, .body = &body, .text = ""};
        weir_post(compute->lanes[0], &event);
    }
}

static void train(struct weir_agent_compute *compute)
{
    const struct weir_record *record = &compute->record;
    struct weir_crew *crew = compute->crew;
    struct weir_gradient_set *set = compute->part ? find_set(compute, record->step) : NULL;
    if (!set)
        set = take_set(compute, record->step);
    uint32_t batch = weir_walk_batch(&compute->walk, record->step);
    weir_crew_rows(crew, compute, batch);
    struct weir_step_input input = {
        .step = record->step,
        .seed = compute->process->job.seed,
        .weights = compute->weights[record->step & 1],
        .replicas = crew->rows,
        .replica_ids = crew->ids,
        .replica_row0 = crew->row0,
        .replica_count = crew->count,
        .loss_scale = 1.0f / (float)batch,
        .nodes = add_nodes(compute, set),
        .node_count = crew->node_count,
        .ready = tell_ready,
        .ready_context = compute,
    };
    weir_prefetch_take(crew->prefetch, record->step, &input.x, &input.y);
    compute->told_chunk = UINT32_MAX;
    weir_team_step(crew->team, &input, crew->sums);
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
    const struct weir_crew *crew = compute->crew;
    struct weir_sums *sums = &crew->sums[replica];
    uint64_t *index = crew->index + (size_t)thread * compute->piece_rows;
    float *x = crew->x + thread * crew->x_floats, *y = crew->y + thread * crew->y_floats;
    uint64_t samples = weir_dataset_samples(compute->validation);
    uint32_t rows = weir_process_validation_rows(compute->process);
    uint64_t begin = (uint64_t)compute->record.round * rows; /* a round beyond the data has no samples */
    uint64_t left = begin < samples ? samples - begin : 0;
    uint32_t present = left < rows ? (uint32_t)left : rows, first, count;
    weir_walk_replica(&compute->walk, present, crew->ids[replica], &first, &count);
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

static bool prepare_crew(struct weir_agent_compute *compute, const uint32_t *replicas, uint32_t count,
                         struct weir_error *err)
{
    if (!weir_crew_is_of(compute->crew, replicas, count)) {
        weir_crew_free(compute->crew);
        compute->crew = weir_crew_new(compute, replicas, count, err);
    }
    return compute->crew != NULL;
}

static bool prepare_step(struct weir_agent_compute *compute, struct weir_error *err)
{
    struct weir_crew *crew = compute->crew;
    if (compute->record.order != WEIR_ORDER_TRAIN || crew->prefetch)
        return true;
    crew->prefetch = weir_prefetch_start(compute->train, rows_of_step, compute, compute->record.step,
                                         (size_t)compute->piece_rows * crew->count, compute->process->job.prefetch);
    return crew->prefetch || weir_error_set(err, "the prefetch thread could not be started: %s", strerror(errno));
}

/* False: that step is finished, and its weights are no longer there. */
static bool begin(struct weir_agent_compute *compute)
{
    uint64_t version = compute->record.step;
    pthread_mutex_lock(&compute->lock);
    bool there = compute->newest_stored < version + 2;
    compute->busy = there;
    compute->busy_with = version;
    pthread_mutex_unlock(&compute->lock);
    return there;
}

static void end(struct weir_agent_compute *compute)
{
    pthread_mutex_lock(&compute->lock);
    compute->busy = false;
    pthread_cond_broadcast(&compute->changed);
    pthread_mutex_unlock(&compute->lock);
}

void weir_agent_compute_store(struct weir_agent_compute *compute, uint64_t version)
{
    pthread_mutex_lock(&compute->lock);
    if (version > compute->newest_stored)
        compute->newest_stored = version;
    while (compute->busy && compute->busy_with + 2 <= version)
        pthread_cond_wait(&compute->changed, &compute->lock);
    pthread_mutex_unlock(&compute->lock);
}

static bool carry_out(struct weir_agent_compute *compute, struct weir_error *err)
{
    bool there = begin(compute);
    if (there &&
        (!prepare_crew(compute, compute->replicas, compute->replica_count, err) || !prepare_step(compute, err)))
        return false;
    if (there && compute->record.order == WEIR_ORDER_TRAIN) {
        train(compute);
        atomic_fetch_add(&compute->process->replicas_computed, compute->replica_count);
    } else if (there) {
        weir_team_each(compute->crew->team, evaluate_replica, compute);
    }
    end(compute);
    struct weir_event event = {
        .kind = WEIR_ON_COMPUTED, .step = compute->record.step, .round = compute->record.round, .text = ""};
    if (there)
        tell_seals(compute);
    weir_post(compute->worker, &event); /* last: the next order may come at once, and changes what is computed */
    return true;
}

/* ---- the thread */

static void take_weights(struct weir_agent_compute *compute)
{
    struct weir_process *process = compute->process;
    size_t bytes = (size_t)process->flat_elements * sizeof(float);
    for (int i = 0; i < 2; i++)
        compute->weights[i] = process->local ? process->weights : weir_alloc_tensor(bytes, "the weights");
}

/* What takes long with a large model or batch: heartbeats go on meanwhile. */
static bool prepare(struct weir_agent_compute *compute, struct weir_error *err)
{
    take_weights(compute);
    pthread_mutex_lock(&compute->lock);
    compute->has_weights = true;
    pthread_cond_broadcast(&compute->changed);
    pthread_mutex_unlock(&compute->lock);
    return compute->replica_count == 0 || prepare_crew(compute, compute->replicas, compute->replica_count, err);
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
        if (!carry_out(compute, &err)) {
            end(compute); /* who waits to store goes on */
            weir_agent_node_fail(compute->node, err.text);
            return NULL;
        }
        pthread_mutex_lock(&compute->lock);
    }
    pthread_mutex_unlock(&compute->lock);
    return NULL;
}

/* ---- life */

bool weir_agent_compute_start(struct weir_agent_compute *compute, uint32_t position, const uint32_t *hosts,
                              uint64_t train_samples, uint64_t steps, struct weir_error *err)
{
    struct weir_process *process = compute->process;
    pthread_mutex_init(&compute->lock, NULL);
    pthread_cond_init(&compute->changed, NULL);
    compute->position = position;
    compute->replicas = weir_alloc(process->replicas, sizeof *compute->replicas, "a worker");
    for (uint32_t r = 0; r < process->replicas; r++)
        if (hosts[r] == position)
            compute->replicas[compute->replica_count++] = r;
    compute->walk = weir_process_walk(process, train_samples);
    compute->last_step = steps;
    uint32_t batch = weir_walk_batch(&compute->walk, 0); /* the largest: fit.batch_size may be more than there are */
    compute->piece_rows = (batch + process->replicas - 1) / process->replicas;
    for (int i = 0; i < WEIR_GRADIENT_SETS; i++) {
        struct weir_gradient_set *set = &compute->sets[i];
        atomic_store(&set->step, UINT64_MAX);
        set->names = weir_alloc(process->replicas, sizeof *set->names, "a worker");
        set->nodes = weir_alloc(process->replicas, sizeof *set->nodes, "a worker");
    }
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

void weir_agent_compute_ask(struct weir_agent_compute *compute, const struct weir_action *action)
{
    pthread_mutex_lock(&compute->lock);
    assert(!compute->asked);
    compute->record = action->body.record;
    compute->part = action->part;
    compute->replica_count = (uint32_t)action->replica_count;
    memcpy(compute->replicas, action->replicas, action->replica_count * sizeof *compute->replicas);
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
}

void weir_agent_compute_free(struct weir_agent_compute *compute)
{
    weir_crew_free(compute->crew); /* before the data sets, which its prefetch thread reads */
    for (int i = 0; i < WEIR_GRADIENT_SETS; i++) {
        for (size_t n = 0; compute->sets[i].nodes && n < compute->process->replicas; n++)
            free(compute->sets[i].nodes[n].gradient);
        free(compute->sets[i].nodes);
        free(compute->sets[i].names);
    }
    for (int i = 0; i < 2 && !compute->process->local; i++)
        free(compute->weights[i]);
    free(compute->replicas);
    weir_dataset_close(compute->train);
    if (compute->validation)
        weir_dataset_close(compute->validation);
}
