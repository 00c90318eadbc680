/* A worker: its lanes, the step core beside lane 0, and the compute threads. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/agent_compute.h"
#include "cli/agent_node.h"
#include "worker/exchange.h"
#include "worker/worker.h"

struct agent_worker;

struct worker_lane {
    struct agent_worker *worker;
    uint32_t lane;
    struct weir_actor actor;
    char name[64];
    struct weir_arena arena;
};

struct agent_worker {
    struct weir_agent agent;
    struct weir_process *process;
    uint32_t position;
    struct weir_agent_node node;
    struct worker_lane lanes[WEIR_LANES_MAX];
    struct weir_actor step_actor;
    struct weir_arena arena;
    struct weir_agent_compute compute;
    atomic_ullong at_step;
};

/* ---- lanes */

/* A new version's chunk is copied to where the model reads it; in place it lies there already. */
static void store(struct worker_lane *lane, const struct weir_action *action)
{
    struct weir_agent_compute *compute = &lane->worker->compute;
    struct weir_payload *payload = weir_payload_of(action->payload);
    weir_agent_compute_store(compute, action->step);
    float *to = compute->weights[action->step & 1] + weir_layout_first(&lane->worker->process->layout, action->chunk);
    weir_payload_read(payload, to, weir_process_large(lane->worker->process->flat_elements));
    weir_payload_free(payload);
}

static void perform_lane(void *context, const struct weir_action *action)
{
    assert(action->kind == WEIR_DO_STORE);
    store(context, action);
}

/* Which of the step's nodes a contribution is of. */
static size_t node_number(struct weir_gradient_set *set, const struct weir_contribution *contribution)
{
    size_t count = atomic_load(&set->node_count);
    for (size_t n = 0; n < count; n++)
        if (set->names[n].level == contribution->level && set->names[n].index == contribution->index)
            return n;
    assert(!"a contribution of a node that this worker does not compute");
    return 0;
}

static void outgoing_lane(void *context, struct weir_message_body *body, struct weir_attachment *attachment)
{
    struct worker_lane *lane = context;
    struct weir_agent_compute *compute = &lane->worker->compute;
    if (body->type != WEIR_CONTRIBUTION)
        return;
    struct weir_contribution *contribution = &body->contribution;
    const struct weir_layout *layout = &lane->worker->process->layout;
    struct weir_gradient_set *set = weir_agent_compute_ref(compute, contribution->step);
    assert(set); /* kept until every chunk is at the next version */
    const struct weir_gradient_node *node = &set->nodes[node_number(set, contribution)];
    contribution->empty = node->empty;
    if (node->empty) {
        weir_agent_compute_unref(set);
        return;
    }
    attachment->slices = 1;
    attachment->slice.bytes = node->gradient + weir_layout_first(layout, contribution->chunk);
    attachment->slice.count = 4 * (size_t)weir_layout_elements(layout, contribution->chunk);
    attachment->release = weir_agent_compute_unref;
    attachment->release_context = set;
}

static const char *address_lane(void *context, uint32_t peer, uint32_t *channel)
{
    const struct worker_lane *lane = context;
    *channel = WEIR_CHANNEL_LANE(lane->lane);
    return lane->worker->process->servers[peer].address;
}

static struct weir_actor *find(struct agent_worker *worker, enum weir_actor_name actor, uint32_t lane)
{
    switch (actor) {
    case WEIR_ACTOR_NODE:
        return &worker->node.actor;
    case WEIR_ACTOR_WORKER:
        return &worker->step_actor;
    case WEIR_ACTOR_LANE:
        return &worker->lanes[lane].actor;
    default:
        return NULL;
    }
}

static struct weir_actor *find_from_lane(void *context, enum weir_actor_name actor, uint32_t lane)
{
    return find(((struct worker_lane *)context)->worker, actor, lane);
}

static void wait_for_weights(void *context)
{
    weir_agent_compute_wait(&((struct worker_lane *)context)->worker->compute);
}

static void step_lane(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_exchange_step(core, event, actions);
}

static uint64_t deadline_lane(const void *core)
{
    return weir_exchange_deadline(core);
}

static uint64_t waiting_lane(const void *core, char *text, size_t bytes)
{
    return weir_exchange_waiting(core, text, bytes);
}

static void perform_step(void *context, const struct weir_action *action)
{
    struct agent_worker *worker = context;
    assert(action->kind == WEIR_DO_COMPUTE);
    atomic_store(&worker->at_step, action->step);
    weir_agent_compute_ask(&worker->compute, action);
}

static void step_worker(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_worker_step(core, event, actions);
}

static uint64_t waiting_worker(const void *core, char *text, size_t bytes)
{
    return weir_worker_waiting(core, text, bytes);
}

static struct weir_actor *find_from_step(void *context, enum weir_actor_name actor, uint32_t lane)
{
    return find(context, actor, lane);
}

/* NULL where it could not be started, and is about to end. */
static struct weir_actor *find_from_node(void *context, enum weir_actor_name actor, uint32_t lane)
{
    struct agent_worker *worker = ((struct weir_agent_node *)context)->owner;
    return worker->node.started < worker->process->lanes ? NULL : find(worker, actor, lane);
}

/* ---- once the view is there */

static void make_exchange(struct worker_lane *lane, const struct weir_view *view)
{
    const struct agent_worker *worker = lane->worker;
    const struct weir_process *process = worker->process;
    struct weir_exchange_config config = {
        .generation = view->generation,
        .view = view->number,
        .incarnation = process->incarnation,
        .job_hash = process->job.hash,
        .numerics = process->numerics,
        .self = worker->position,
        .lane = lane->lane,
        .replicas = process->replicas,
        .hosts = view->hosts,
        .layout = process->layout,
        .credit = weir_process_credit(process),
        .server_names = process->server_names,
        .server_incarnations = weir_agent_incarnations(view, WEIR_NODE_PS, process->server_count, &lane->arena),
        .chief_name = process->chief.name,
        .start_timeout_ns = process->job.start_timeout_s * WEIR_NS_PER_S,
        .patience_ns = weir_process_lease_ns(process),
    };
    lane->actor.core = weir_exchange_init(&lane->arena, &config);
    lane->actor.actions_max = weir_exchange_actions_max(&config);
    lane->actor.peers = process->server_count;
    weir_thread_add(worker->node.lane_threads[lane->lane], &lane->actor);
}

static void make_step_core(struct agent_worker *worker, const struct weir_view *view)
{
    struct weir_worker_config config = {
        .self = worker->position,
        .lanes = worker->process->lanes,
        .replicas = worker->process->replicas,
        .hosts = view->hosts,
        .layout = worker->process->layout,
        .server_names = worker->process->server_names,
    };
    worker->step_actor = (struct weir_actor){
        .name = "step",
        .core = weir_worker_init(&worker->arena, &config),
        .context = worker,
        .step = step_worker,
        .waiting = waiting_worker,
        .wait_number = WEIR_LANES_MAX,
        .find = find_from_step,
        .actions_max = WEIR_WORKER_ACTIONS_MAX,
        .perform = perform_step,
    };
    weir_thread_add(worker->node.lane_threads[0], &worker->step_actor);
}

static uint64_t incarnation_in(const struct weir_view *view, uint32_t position)
{
    for (size_t n = 0, w = 0; n < view->node_count; n++)
        if (view->nodes[n].role == WEIR_NODE_WORKER && w++ == position)
            return view->nodes[n].incarnation;
    return 0;
}

/* Why it has no replicas. */
static void say_idle(const struct agent_worker *worker, const struct weir_view *view)
{
    if (incarnation_in(view, worker->position) != worker->process->incarnation)
        weir_log_warning("counts as lost: others compute its replicas until the chief hears of it again");
    else if (view->hosts[0] == WEIR_NO_HOST)
        weir_log_info("computes nothing: fewer workers are there than cluster.min_workers");
    else
        weir_log_info("stands by: there are more workers than the %u replicas of the job", worker->process->replicas);
}

static void say_replicas(const struct agent_worker *worker, const struct weir_view *view)
{
    const struct weir_process *process = worker->process;
    uint32_t count = weir_layout_hosted(view->hosts, process->replicas, worker->position);
    if (count == 0) {
        say_idle(worker, view);
        return;
    }
    uint32_t threads =
        weir_team_threads(count, weir_process_cpus(), weir_process_workers_here(process, worker->position));
    weir_log_info("computes %u of %u replicas on %u thread%s", count, process->replicas, threads,
                  threads > 1 ? "s" : "");
}

static void start_lanes(void *owner, const struct weir_view *view)
{
    struct agent_worker *worker = owner;
    struct weir_process *process = worker->process;
    struct weir_error err;
    struct weir_schedule schedule = weir_process_schedule(process, view->train_samples, view->validation_samples);
    worker->compute.worker = &worker->step_actor;
    worker->compute.node = &worker->node;
    worker->compute.lane_count = process->lanes;
    for (uint32_t l = 0; l < process->lanes; l++)
        worker->compute.lanes[l] = &worker->lanes[l].actor;
    if (!weir_agent_compute_start(&worker->compute, worker->position, view->hosts, view->train_samples,
                                  weir_schedule_steps(&schedule), &err)) {
        weir_agent_node_fail(&worker->node, err.text);
        return;
    }
    for (uint32_t l = 0; l < process->lanes; l++)
        make_exchange(&worker->lanes[l], view);
    make_step_core(worker, view);
    if (weir_agent_node_start_lanes(&worker->node))
        say_replicas(worker, view);
}

static void tell_view(void *owner, const struct weir_view *view)
{
    struct agent_worker *worker = owner;
    struct weir_message_body body = {.type = WEIR_VIEW, .view = *view};
    struct weir_event event = {.kind = WEIR_ON_VIEW, .body = &body, .text = ""};
    if (worker->node.started < worker->process->lanes)
        return; /* it could not be started, and is about to end */
    for (uint32_t l = 0; l < worker->process->lanes; l++)
        weir_post(&worker->lanes[l].actor, &event);
    weir_post(&worker->step_actor, &event);
    say_replicas(worker, view);
}

/* ---- the agent */

static uint64_t at_step(void *owner)
{
    return atomic_load(&((struct agent_worker *)owner)->at_step);
}

static bool start(void *self, struct weir_error *err)
{
    struct agent_worker *worker = self;
    return weir_thread_start(worker->node.thread, err);
}

static void fail(void *self, const char *why)
{
    weir_agent_node_fail(&((struct agent_worker *)self)->node, why);
}

static void drain(void *self, const char *why)
{
    struct weir_event event = {.kind = WEIR_ON_DRAIN, .text = why};
    weir_post(&((struct agent_worker *)self)->node.actor, &event);
}

static void stop(void *self)
{
    weir_agent_node_stop(&((struct agent_worker *)self)->node);
}

static void join(void *self)
{
    struct agent_worker *worker = self;
    weir_thread_join(worker->node.thread); /* it starts the compute thread, for which lanes may wait */
    weir_agent_compute_stop(&worker->compute);
    weir_agent_compute_join(&worker->compute);
    weir_agent_node_join_lanes(&worker->node);
}

static void free_all(void *self)
{
    struct agent_worker *worker = self;
    weir_agent_compute_free(&worker->compute);
    for (uint32_t l = 0; l < worker->process->lanes; l++)
        weir_arena_free(&worker->lanes[l].arena);
    weir_agent_node_free(&worker->node);
    weir_arena_free(&worker->arena);
    free(worker);
}

static void init_lane(struct agent_worker *worker, uint32_t l)
{
    struct worker_lane *lane = &worker->lanes[l];
    lane->worker = worker;
    lane->lane = l;
    snprintf(lane->name, sizeof lane->name, "worker/%u lane %u", worker->process->workers[worker->position].index, l);
    worker->node.lane_threads[l] = weir_thread_new(worker->process->transport, lane->name);
    lane->actor = (struct weir_actor){
        .name = lane->name,
        .context = lane,
        .begin = wait_for_weights,
        .step = step_lane,
        .deadline = deadline_lane,
        .waiting = waiting_lane,
        .wait_number = l,
        .address = address_lane,
        .outgoing = outgoing_lane,
        .perform = perform_lane,
        .find = find_from_lane,
        .lanes = worker->process->lanes,
        .message_limit_bytes = weir_process_message_limit(worker->process),
    };
}

/* Opens a data set and checks that it fits the model. */
static struct weir_dataset *open_data(struct weir_process *process, const struct weir_data_config *config,
                                      const char *key, struct weir_error *err)
{
    size_t x[4], y[4];
    uint64_t labels = 0;
    struct weir_dataset *dataset = weir_dataset_open(config, err);
    if (!dataset) {
        weir_error_wrap(err, "%s: %s", process->job.path, key);
        return NULL;
    }
    size_t x_dims = weir_dataset_x_shape(dataset, x), y_dims = weir_dataset_y_shape(dataset, y);
    if (weir_model_bind(process->model, &process->job, x, x_dims, y, y_dims, &labels, err) &&
        (labels == 0 || weir_dataset_check_labels(dataset, labels, err)))
        return dataset;
    weir_error_wrap(err, "%s: %s", process->job.path, key);
    weir_dataset_close(dataset);
    return NULL;
}

struct weir_agent *weir_agent_worker_new(struct weir_process *process, uint32_t position, struct weir_error *err)
{
    struct weir_dataset *validation = NULL;
    struct weir_dataset *training = open_data(process, &process->job.train, "data.train", err);
    if (!training)
        return NULL;
    bool ok = weir_job_has_steps(&process->job, weir_dataset_samples(training), err);
    if (ok && process->job.validation.present)
        validation = open_data(process, &process->job.validation, "data.validation", err);
    if (!ok || (process->job.validation.present && !validation)) {
        weir_dataset_close(training);
        return NULL;
    }
    struct agent_worker *worker = weir_alloc(1, sizeof *worker, "a worker");
    worker->process = process;
    worker->position = position;
    worker->compute.process = process;
    worker->compute.train = training;
    worker->compute.validation = validation;
    worker->agent = (struct weir_agent){process, worker, start, fail, drain, stop, join, free_all};
    worker->node.owner = worker;
    worker->node.lanes = start_lanes;
    worker->node.view = tell_view;
    worker->node.step = at_step;
    const struct weir_member *self = &process->workers[position];
    struct weir_hello hello = weir_process_hello(process, WEIR_NODE_WORKER, self->index);
    hello.train_samples = weir_dataset_samples(training);
    hello.validation_samples = validation ? weir_dataset_samples(validation) : 0;
    weir_agent_node_init(&worker->node, process, self, &hello);
    worker->node.actor.find = find_from_node;
    for (uint32_t l = 0; l < process->lanes; l++)
        init_lane(worker, l);
    return &worker->agent;
}
