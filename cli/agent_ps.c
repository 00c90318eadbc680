/* A parameter server: its lanes, each a core with an engine and a store on a thread of its own; the recorder beside
 * lane 0 of the first server. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/agent_node.h"
#include "engine/store.h"
#include "ps/lane.h"
#include "ps/recorder.h"

#define OBSERVERS 8

struct agent_ps;

struct ps_lane {
    struct agent_ps *ps;
    uint32_t lane;
    struct weir_actor actor;
    char name[64];
    struct weir_arena arena;
    struct weir_engine *engine;
    uint64_t copied_bytes; /* by the engine, as far as they are told */
    struct weir_store *store;
    struct weir_operand *operands; /* scratch */
    int16_t *code;
};

struct agent_ps {
    struct weir_agent agent;
    struct weir_process *process;
    uint32_t position;
    struct weir_agent_node node;
    struct ps_lane lanes[WEIR_LANES_MAX];
    bool gated;
    struct weir_actor recorder;
    struct weir_arena arena;
    struct weir_piece **pieces; /* by chunk of the model */
    size_t *piece_count;
    struct weir_schedule_piece *schedule_pieces;
};

/* ---- what the lane core's actions do */

static uint32_t local_of(const struct ps_lane *lane, uint32_t chunk)
{
    const struct weir_layout *layout = &lane->ps->process->layout;
    return chunk / layout->servers / layout->lanes;
}

/* The tree's contributions as the engine reads them: where they were received. The tree names them by first replica,
 * the engine by their place among the operands. */
static struct weir_sum_program program_of(struct ps_lane *lane, const struct weir_tree *tree)
{
    size_t length = weir_tree_program(tree, lane->code), operands = 0;
    for (size_t i = 0; i < length; i++) {
        if (lane->code[i] == WEIR_TREE_ADD) {
            lane->code[i] = WEIR_SUM_ADD;
            continue;
        }
        const struct weir_payload *payload = weir_payload_of(tree->first[lane->code[i]].payload);
        lane->operands[operands] = (struct weir_operand){payload->slices, payload->slice_count};
        lane->code[i] = (int16_t)operands++;
    }
    return (struct weir_sum_program){lane->code, length, lane->operands, operands};
}

static void post_to_self(struct ps_lane *lane, enum weir_event_kind kind, uint32_t chunk, const double *numbers,
                         size_t count)
{
    struct weir_event event = {.kind = kind, .chunk = chunk, .numbers = numbers, .number_count = count, .text = ""};
    weir_post(&lane->actor, &event);
}

static void tell_copies(struct ps_lane *lane)
{
    uint64_t straddled_floats, copied = weir_engine_copied_bytes(lane->engine, &straddled_floats);
    if (copied != lane->copied_bytes)
        atomic_fetch_add(&lane->ps->process->copied_bytes, copied - lane->copied_bytes);
    lane->copied_bytes = copied;
}

static void apply(struct ps_lane *lane, const struct weir_action *action)
{
    struct weir_sum_program program;
    struct weir_update update = {
        .learning_rate = action->record->learning_rate,
        .iteration = action->record->iterations,
        .scale = action->verdict ? action->verdict->scale : 1,
        .variable_scale = action->verdict ? action->verdict->norms : NULL,
    };
    if (action->tree)
        program = program_of(lane, action->tree);
    weir_store_apply(lane->store, local_of(lane, action->chunk), action->step, action->tree ? &program : NULL,
                     action->skip ? NULL : &update);
    tell_copies(lane);
    atomic_fetch_add(&lane->ps->process->chunks_applied, 1);
    post_to_self(lane, WEIR_ON_APPLIED, action->chunk, NULL, 0);
}

static void sum(struct ps_lane *lane, const struct weir_action *action)
{
    struct weir_sum_program program = program_of(lane, action->tree);
    const double *squares = weir_store_sum(lane->store, local_of(lane, action->chunk), &program);
    tell_copies(lane);
    post_to_self(lane, WEIR_ON_SUMMED, action->chunk, squares, lane->ps->piece_count[action->chunk]);
}

static void perform_lane(void *context, const struct weir_action *action)
{
    struct ps_lane *lane = context;
    switch (action->kind) {
    case WEIR_DO_APPLY:
        apply(lane, action);
        break;
    case WEIR_DO_SUM:
        sum(lane, action);
        break;
    case WEIR_DO_FREE:
        weir_store_drop(lane->store, local_of(lane, action->chunk), action->step);
        break;
    default:
        assert(!"an action that a lane does not have");
    }
}

/* Slots that are sent no longer change, and live as long as the transport. */
static void keep_slot(void *context)
{
    (void)context;
}

static void outgoing_lane(void *context, struct weir_message_body *body, struct weir_attachment *attachment)
{
    struct ps_lane *lane = context;
    if (body->type != WEIR_WEIGHTS)
        return;
    const struct weir_weights *weights = &body->weights;
    uint32_t local = local_of(lane, weights->chunk);
    attachment->slices = 1;
    attachment->slice.count = 4 * (size_t)weir_layout_elements(&lane->ps->process->layout, weights->chunk);
    if (weights->part > 0) {
        attachment->slice.bytes = weir_store_slot(lane->store, local, weights->part - 1);
        attachment->release = keep_slot;
        return;
    }
    struct weir_version *version = weir_store_ref(lane->store, local, weights->version);
    attachment->slice.bytes = version->weights;
    attachment->release = weir_version_unref;
    attachment->release_context = version;
}

static bool admit_lane(void *context, const struct weir_hello *hello, uint32_t *peer, char *reason, size_t bytes,
                       bool *again)
{
    const struct ps_lane *lane = context;
    const char *text;
    if (weir_ps_lane_admit(lane->actor.core, hello, peer, &text, again))
        return true;
    snprintf(reason, bytes, "%s: %s", lane->ps->process->servers[lane->ps->position].name, text);
    return false;
}

static const char *address_lane(void *context, uint32_t peer, uint32_t *channel)
{
    const struct ps_lane *lane = context;
    (void)peer; /* the only one that a lane connects to: the recorder's */
    *channel = WEIR_CHANNEL_LANE(0);
    return lane->ps->process->servers[0].address;
}

static struct weir_actor *find(struct agent_ps *ps, enum weir_actor_name actor, uint32_t lane)
{
    switch (actor) {
    case WEIR_ACTOR_NODE:
        return &ps->node.actor;
    case WEIR_ACTOR_RECORDER:
        return &ps->recorder;
    case WEIR_ACTOR_LANE:
        return &ps->lanes[lane].actor;
    default:
        return NULL;
    }
}

static struct weir_actor *find_from_lane(void *context, enum weir_actor_name actor, uint32_t lane)
{
    return find(((struct ps_lane *)context)->ps, actor, lane);
}

static struct weir_actor *find_from_recorder(void *context, enum weir_actor_name actor, uint32_t lane)
{
    return find(context, actor, lane);
}

static void step_lane(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_ps_lane_step(core, event, actions);
}

static uint64_t deadline_lane(const void *core)
{
    return weir_ps_lane_deadline(core);
}

static uint64_t waiting_lane(const void *core, char *text, size_t bytes)
{
    return weir_ps_lane_waiting(core, text, bytes);
}

static uint64_t waiting_recorder(const void *core, char *text, size_t bytes)
{
    return weir_recorder_waiting(core, text, bytes);
}

static void step_recorder(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_recorder_step(core, event, actions);
}

/* ---- making the lanes, once the view is there */

static void make_pieces(struct agent_ps *ps, struct weir_schedule *schedule)
{
    const struct weir_process *process = ps->process;
    uint32_t chunks = process->layout.chunks;
    size_t all = 0;
    ps->pieces = weir_arena_take(&ps->arena, chunks, sizeof(struct weir_piece *));
    ps->piece_count = weir_arena_take(&ps->arena, chunks, sizeof(size_t));
    for (uint32_t c = 0; c < chunks; c++) {
        size_t count = weir_process_pieces(process, c, NULL);
        ps->pieces[c] = weir_arena_take(&ps->arena, count, sizeof(struct weir_piece));
        ps->piece_count[c] = weir_process_pieces(process, c, ps->pieces[c]);
        all += count;
    }
    if (schedule->gate == WEIR_GATE_NONE)
        return;
    ps->schedule_pieces = weir_arena_take(&ps->arena, all, sizeof(struct weir_schedule_piece));
    size_t n = 0;
    for (uint32_t c = 0; c < chunks; c++)
        for (size_t i = 0; i < ps->piece_count[c]; i++)
            ps->schedule_pieces[n++] = (struct weir_schedule_piece){c, ps->pieces[c][i].variable};
    schedule->pieces = ps->schedule_pieces;
    schedule->piece_count = all;
    schedule->variables = (uint32_t)process->variable_count;
}

static uint32_t chunk_of(const struct ps_lane *lane, uint32_t local)
{
    const struct weir_layout *layout = &lane->ps->process->layout;
    return (local * layout->lanes + lane->lane) * layout->servers + lane->ps->position;
}

/* On the lane's thread: to draw a large model's initial weights takes seconds, and heartbeats have to go on. */
static void make_store(void *context)
{
    struct ps_lane *lane = context;
    const struct agent_ps *ps = lane->ps;
    const struct weir_process *process = ps->process;
    uint32_t count = 0;
    while ((uint64_t)chunk_of(lane, count) < process->layout.chunks)
        count++;
    uint32_t *elements = weir_arena_take(&lane->arena, count, sizeof(uint32_t));
    float **in_place = weir_arena_take(&lane->arena, count, sizeof(float *));
    const struct weir_piece **pieces = weir_arena_take(&lane->arena, count, sizeof(struct weir_piece *));
    size_t *piece_count = weir_arena_take(&lane->arena, count, sizeof(size_t));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chunk = chunk_of(lane, i);
        elements[i] = weir_layout_elements(&process->layout, chunk);
        in_place[i] = process->local ? process->weights + weir_layout_first(&process->layout, chunk) : NULL;
        pieces[i] = ps->pieces[chunk];
        piece_count[i] = ps->piece_count[chunk];
    }
    struct weir_store_config config = {
        .engine = lane->engine,
        .chunks = count,
        .elements = elements,
        .in_place = process->local ? in_place : NULL,
        .gated = ps->gated,
        .pieces = pieces,
        .piece_count = piece_count,
        .stream = !process->local && weir_process_large(process->flat_elements / process->server_count),
    };
    lane->store = weir_store_new(&config);
    for (uint32_t i = 0; i < count; i++)
        weir_model_initial(process->variables, process->variable_count, process->job.seed,
                           weir_layout_first(&process->layout, chunk_of(lane, i)), elements[i],
                           weir_store_initial(lane->store, i, 0));
    weir_log_info("%s: serving %u chunk%s of %u", lane->name, count, count == 1 ? "" : "s", process->layout.chunks);
}

static struct weir_ps_lane *make_core(struct ps_lane *lane, const struct weir_view *view)
{
    struct agent_ps *ps = lane->ps;
    const struct weir_process *process = ps->process;
    uint32_t *pieces = weir_arena_take(&lane->arena, process->layout.chunks, sizeof(uint32_t));
    for (uint32_t c = 0; c < process->layout.chunks; c++)
        pieces[c] = (uint32_t)ps->piece_count[c];
    struct weir_ps_lane_config config = {
        .generation = view->generation,
        .view = view->number,
        .incarnation = process->incarnation,
        .job_hash = process->job.hash,
        .numerics = process->numerics,
        .self = ps->position,
        .lane = lane->lane,
        .workers = process->worker_count,
        .observers = OBSERVERS,
        .replicas = process->replicas,
        .layout = process->layout,
        .gated = ps->gated,
        .variables = ps->gated ? (uint32_t)process->variable_count : 0,
        .pieces = pieces,
        .slots = (uint32_t)weir_engine_slots(lane->engine),
        .copies = 1,
        .chunks = view->chunks,
        .record = view->record,
        .server_names = process->server_names,
        .chief_name = process->chief.name,
        .worker_names = process->worker_names,
        .hosts = view->hosts,
        .start_timeout_ns = process->job.start_timeout_s * WEIR_NS_PER_S,
        .patience_ns = weir_process_lease_ns(process),
        .worker_incarnations = weir_agent_incarnations(view, WEIR_NODE_WORKER, process->worker_count, &lane->arena),
        .server_incarnations = weir_agent_incarnations(view, WEIR_NODE_PS, process->server_count, &lane->arena),
        .chief_incarnation = weir_agent_incarnations(view, WEIR_NODE_CHIEF, 1, &lane->arena)[0],
    };
    lane->actor.actions_max = weir_ps_lane_actions_max(&config);
    lane->actor.peers = config.workers + config.layout.servers + 1 + config.observers;
    return weir_ps_lane_init(&lane->arena, &config);
}

static void make_recorder(struct agent_ps *ps, const struct weir_view *view, const struct weir_schedule *schedule)
{
    struct weir_recorder_config config = {
        .generation = view->generation,
        .replicas = ps->process->replicas,
        .hosts = view->hosts,
        .chief_name = ps->process->chief.name,
        .self = ps->position,
        .primary = view->record.primary,
        .holders = view->chunks,
        .worker_names = ps->process->worker_names,
        .server_names = ps->process->server_names,
        .schedule = *schedule,
    };
    ps->recorder = (struct weir_actor){
        .name = "recorder",
        .core = weir_recorder_init(&ps->arena, &config),
        .context = ps,
        .step = step_recorder,
        .waiting = waiting_recorder,
        .wait_number = WEIR_LANES_MAX,
        .actions_max = WEIR_RECORDER_ACTIONS_MAX,
        .find = find_from_recorder,
        .lanes = ps->process->lanes,
    };
    weir_thread_add(ps->node.lane_threads[0], &ps->recorder);
}

static void tell_view(void *owner, const struct weir_view *view)
{
    struct agent_ps *ps = owner;
    struct weir_message_body body = {.type = WEIR_VIEW, .view = *view};
    struct weir_event event = {.kind = WEIR_ON_VIEW, .body = &body, .text = ""};
    if (ps->node.started < ps->process->lanes)
        return; /* it could not be started, and is about to end */
    for (uint32_t l = 0; l < ps->process->lanes; l++)
        weir_post(&ps->lanes[l].actor, &event);
    if (ps->position == 0)
        weir_post(&ps->recorder, &event);
}

static void start_lanes(void *owner, const struct weir_view *view)
{
    struct agent_ps *ps = owner;
    struct weir_process *process = ps->process;
    struct weir_schedule schedule = weir_process_schedule(process, view->train_samples, view->validation_samples);
    ps->gated = schedule.gate != WEIR_GATE_NONE;
    make_pieces(ps, &schedule);
    for (uint32_t l = 0; l < process->lanes; l++) {
        struct ps_lane *lane = &ps->lanes[l];
        lane->engine = weir_engine_new(&process->job.optimizer, WEIR_ISA_BEST);
        lane->operands = weir_arena_take(&lane->arena, process->replicas, sizeof(struct weir_operand));
        lane->code = weir_arena_take(&lane->arena, 2 * (size_t)process->replicas, sizeof(int16_t));
        lane->actor.core = make_core(lane, view);
        weir_thread_add(ps->node.lane_threads[l], &lane->actor);
        weir_thread_accept(ps->node.lane_threads[l], WEIR_CHANNEL_LANE(l), &lane->actor);
    }
    if (ps->position == 0)
        make_recorder(ps, view, &schedule);
    weir_agent_node_start_lanes(&ps->node);
}

/* ---- the agent */

static uint64_t at_step(void *owner)
{
    (void)owner;
    return 0;
}

static bool start(void *self, struct weir_error *err)
{
    struct agent_ps *ps = self;
    return weir_thread_start(ps->node.thread, err);
}

static void fail(void *self, const char *why)
{
    weir_agent_node_fail(&((struct agent_ps *)self)->node, why);
}

static void stop(void *self)
{
    weir_agent_node_stop(&((struct agent_ps *)self)->node);
}

static void join(void *self)
{
    struct agent_ps *ps = self;
    weir_thread_join(ps->node.thread);
    weir_agent_node_join_lanes(&ps->node);
}

static void free_all(void *self)
{
    struct agent_ps *ps = self;
    for (uint32_t l = 0; l < ps->process->lanes; l++) {
        struct ps_lane *lane = &ps->lanes[l];
        weir_store_free(lane->store);
        if (lane->engine)
            weir_engine_free(lane->engine);
        weir_arena_free(&lane->arena);
    }
    weir_agent_node_free(&ps->node);
    weir_arena_free(&ps->arena);
    free(ps);
}

static void init_lane(struct agent_ps *ps, uint32_t l)
{
    struct ps_lane *lane = &ps->lanes[l];
    lane->ps = ps;
    lane->lane = l;
    snprintf(lane->name, sizeof lane->name, "ps/%u lane %u", ps->process->servers[ps->position].index, l);
    ps->node.lane_threads[l] = weir_thread_new(ps->process->transport, lane->name);
    lane->actor = (struct weir_actor){
        .name = lane->name,
        .context = lane,
        .begin = make_store,
        .step = step_lane,
        .deadline = deadline_lane,
        .waiting = waiting_lane,
        .wait_number = l,
        .admit = admit_lane,
        .address = address_lane,
        .outgoing = outgoing_lane,
        .perform = perform_lane,
        .find = find_from_lane,
        .lanes = ps->process->lanes,
        .message_limit_bytes = weir_process_message_limit(ps->process),
    };
}

struct weir_agent *weir_agent_ps_new(struct weir_process *process, uint32_t position)
{
    struct agent_ps *ps = weir_alloc(1, sizeof *ps, "a parameter server");
    ps->process = process;
    ps->position = position;
    ps->agent = (struct weir_agent){process, ps, start, fail, NULL, stop, join, free_all};
    ps->node.owner = ps;
    ps->node.lanes = start_lanes;
    ps->node.view = tell_view;
    ps->node.step = at_step;
    const struct weir_member *self = &process->servers[position];
    struct weir_hello hello = weir_process_hello(process, WEIR_NODE_PS, self->index);
    hello.address = self->address;
    weir_agent_node_init(&ps->node, process, self, &hello);
    for (uint32_t l = 0; l < process->lanes; l++)
        init_lane(ps, l);
    return &ps->agent;
}

struct weir_poller *weir_agent_ps_poller(struct weir_agent *agent, uint32_t lane)
{
    return weir_thread_poller(((struct agent_ps *)agent->self)->node.lane_threads[lane]);
}
