/* The cluster: processes, their actors, and what happens inside a process. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint32_t server_process(const struct sim *sim, uint32_t server)
{
    (void)sim;
    return 1 + server;
}

uint32_t worker_process(const struct sim *sim, uint32_t worker)
{
    return 1 + sim->config.servers + worker;
}

const struct weir_view_chunk *holders_of(const struct sim *sim, uint32_t process, uint32_t chunk)
{
    return &sim->holders[process].chunks[chunk];
}

uint32_t actor_of(const struct sim *sim, uint32_t process, enum actor_kind kind, uint32_t lane)
{
    for (uint32_t a = 0; a < sim->actor_count; a++)
        if (sim->actors[a].process == process && sim->actors[a].kind == kind && sim->actors[a].lane == lane)
            return a;
    assert(!"no such actor");
    return 0;
}

/* The clock of a process runs at its own rate from its own start: no rule may depend on it (invariant 7). */
uint64_t cluster_clock(const struct sim *sim, uint32_t process)
{
    const struct process *p = &sim->processes[process];
    return (uint64_t)((int64_t)(sim->now / 100 * p->clock_rate_percent) + p->clock_offset);
}

static uint64_t global_time(const struct sim *sim, uint32_t process, uint64_t local)
{
    const struct process *p = &sim->processes[process];
    int64_t since = (int64_t)local - p->clock_offset;
    return since < 0 ? sim->now : (uint64_t)since / p->clock_rate_percent * 100 + 100;
}

static uint32_t add_actor(struct sim *sim, enum actor_kind kind, uint32_t process, uint32_t lane, uint32_t peers,
                          size_t actions_max)
{
    uint32_t id = 0; /* of a process that is started again, or has its view, they are there */
    while (id < sim->actor_count &&
           (sim->actors[id].process != process || sim->actors[id].kind != kind || sim->actors[id].lane != lane))
        id++;
    assert(id < MAX_ACTORS && peers <= MAX_PEERS);
    struct actor *actor = &sim->actors[id];
    uint64_t timer_id = id < sim->actor_count ? actor->timer_id + 1 : 0;
    *actor = (struct actor){.kind = kind, .process = process, .lane = lane, .peers = peers, .timer_id = timer_id};
    for (uint32_t p = 0; p < MAX_PEERS; p++)
        actor->slot[p] = -1;
    actor->actions.capacity = actions_max;
    actor->actions.list = weir_arena_take(&sim->arena, actions_max, sizeof(struct weir_action));
    if (id == sim->actor_count)
        sim->actor_count++;
    return id;
}

static struct weir_hello hello_of(enum weir_node_role role, uint32_t index, uint64_t incarnation)
{
    return (struct weir_hello){.role = role,
                               .index = index,
                               .incarnation = incarnation,
                               .job_hash = SIM_HASH,
                               .numerics = "",
                               .address = "",
                               .canonical = ""};
}

static void build_chief(struct sim *sim)
{
    const struct sim_config *config = &sim->config;
    struct weir_chief_config chief = {
        .hello = hello_of(WEIR_NODE_CHIEF, 0, sim->processes[0].incarnation),
        .name = sim->processes[0].name,
        .members = sim->members,
        .servers = config->servers,
        .workers = config->workers,
        .replicas = config->replicas,
        .min_workers = config->min_workers,
        .copies = config->copies,
        .restarts = {.most = 5, .window_ns = 600000 * MS},
        .layout = sim->layout,
        .slot_count = config->slots,
        .generation = config->generation,
        .start_timeout_ns = 60000 * MS,
        .lease_ns = 5000 * MS,
        .heartbeat_ns = 100 * MS,
        .observers = 1,
        .elastic = config->elastic,
    };
    uint32_t peers = config->servers + config->workers + config->servers * config->lanes + 1;
    uint32_t a = add_actor(sim, ACTOR_CHIEF, 0, 0, peers, weir_chief_actions_max(&chief));
    sim->actors[a].core = weir_chief_init(&sim->arena, &chief);
    sim->actors[a].running = true;
}

void cluster_build_node(struct sim *sim, uint32_t process)
{
    struct process *p = &sim->processes[process];
    struct weir_node_config node = {
        .hello = hello_of(p->kind == SERVER ? WEIR_NODE_PS : WEIR_NODE_WORKER, p->index, p->incarnation),
        .name = p->name,
        .chief_name = sim->processes[0].name,
        .start_timeout_ns = 60000 * MS,
        .lease_ns = 5000 * MS,
        .heartbeat_ns = 100 * MS,
    };
    node.hello.train_samples = 1000 + (sim->differs == (int32_t)process);
    uint32_t a = add_actor(sim, ACTOR_NODE, process, 0, 1, WEIR_NODE_ACTIONS_MAX);
    sim->actors[a].core = weir_node_init(&sim->arena, &node);
    sim->actors[a].running = true;
}

/* By process: the chief, the servers, the workers. */
static const uint64_t *incarnations_of(struct sim *sim, const struct weir_view *view)
{
    uint64_t *incarnations = weir_arena_take(&sim->arena, MAX_PROCESSES, sizeof(uint64_t));
    for (uint32_t i = 0; i < sim->process_count; i++)
        incarnations[i] = view ? view->nodes[i].incarnation : sim->processes[i].incarnation;
    return incarnations;
}

/* By replica: of the view, or before there is one as if all were there. */
static const uint32_t *hosts_of(struct sim *sim, const struct weir_view *view)
{
    bool present[MAX_WORKERS];
    uint32_t *hosts = weir_arena_take(&sim->arena, MAX_REPLICAS, sizeof(uint32_t));
    memset(present, true, sizeof present);
    weir_layout_place(hosts, sim->config.replicas, present, sim->config.workers);
    for (uint32_t r = 0; view && r < sim->config.replicas; r++)
        hosts[r] = view->hosts[r];
    return hosts;
}

static void build_server_lanes(struct sim *sim, uint32_t process, const struct weir_view *view)
{
    const struct sim_config *config = &sim->config;
    struct process *p = &sim->processes[process];
    const uint64_t *incarnations = incarnations_of(sim, view);
    struct holders *holders = weir_arena_take(&sim->arena, 1, sizeof *holders);
    *holders = sim->holders[process];
    for (uint32_t l = 0; l < config->lanes; l++) {
        struct weir_ps_lane_config lane = {
            .generation = config->generation,
            .incarnation = p->incarnation,
            .view = 1,
            .job_hash = SIM_HASH,
            .numerics = "",
            .self = p->index,
            .lane = l,
            .workers = config->workers,
            .observers = 1,
            .replicas = config->replicas,
            .layout = sim->layout,
            .gated = config->gate != WEIR_GATE_NONE,
            .variables = sim->schedule.variables,
            .pieces = sim->pieces_of,
            .slots = config->slots,
            .copies = config->copies,
            .chunks = holders->chunks,
            .record = holders->record,
            .server_names = sim->server_names,
            .chief_name = sim->processes[0].name,
            .worker_names = sim->worker_names,
            .hosts = hosts_of(sim, view),
            .start_timeout_ns = 60000 * MS,
            .patience_ns = 5000 * MS,
            .worker_incarnations = incarnations + 1 + config->servers,
            .server_incarnations = incarnations + 1,
            .chief_incarnation = incarnations[0],
        };
        uint32_t a = add_actor(sim, ACTOR_LANE, process, l, config->workers + config->servers + 2,
                               weir_ps_lane_actions_max(&lane));
        sim->actors[a].core = weir_ps_lane_init(&sim->arena, &lane);
    }
    if (config->copies < 2 && p->index != 0)
        return;
    struct weir_recorder_config recorder = {.generation = config->generation,
                                            .self = p->index,
                                            .primary = holders->record.primary,
                                            .holders = holders->chunks,
                                            .replicas = config->replicas,
                                            .hosts = hosts_of(sim, view),
                                            .chief_name = sim->processes[0].name,
                                            .worker_names = sim->worker_names,
                                            .server_names = sim->server_names,
                                            .schedule = sim->schedule};
    uint32_t a = add_actor(sim, ACTOR_RECORDER, process, 0, 1, WEIR_RECORDER_ACTIONS_MAX);
    sim->actors[a].core = weir_recorder_init(&sim->arena, &recorder);
}

static void build_worker_lanes(struct sim *sim, uint32_t process, const struct weir_view *view)
{
    const struct sim_config *config = &sim->config;
    struct process *p = &sim->processes[process];
    for (uint32_t l = 0; l < config->lanes; l++) {
        struct weir_exchange_config exchange = {
            .generation = config->generation,
            .incarnation = p->incarnation,
            .view = 1,
            .job_hash = SIM_HASH,
            .numerics = "",
            .self = p->index,
            .lane = l,
            .replicas = config->replicas,
            .hosts = hosts_of(sim, view),
            .layout = sim->layout,
            .credit = config->credit,
            .server_names = sim->server_names,
            .server_incarnations = incarnations_of(sim, view) + 1,
            .chief_name = sim->processes[0].name,
            .start_timeout_ns = 60000 * MS,
            .patience_ns = 5000 * MS,
        };
        uint32_t a = add_actor(sim, ACTOR_EXCHANGE, process, l, config->servers, weir_exchange_actions_max(&exchange));
        sim->actors[a].core = weir_exchange_init(&sim->arena, &exchange);
    }
    struct weir_worker_config worker = {.self = p->index,
                                        .lanes = config->lanes,
                                        .replicas = config->replicas,
                                        .hosts = hosts_of(sim, view),
                                        .layout = sim->layout,
                                        .server_names = sim->server_names};
    uint32_t a = add_actor(sim, ACTOR_WORKER, process, 0, 1, WEIR_WORKER_ACTIONS_MAX);
    sim->actors[a].core = weir_worker_init(&sim->arena, &worker);
}

void cluster_build_lanes(struct sim *sim, uint32_t process, const struct weir_view *view)
{
    if (sim->processes[process].kind == SERVER)
        build_server_lanes(sim, process, view);
    else
        build_worker_lanes(sim, process, view);
}

static void add_process(struct sim *sim, enum process_kind kind, uint32_t index)
{
    static const char *const names[] = {"chief", "ps", "worker"};
    struct process *p = &sim->processes[sim->process_count++];
    *p = (struct process){.kind = kind, .index = index, .alive = true, .clock_rate_percent = 100};
    p->incarnation = sim_random(sim) | 1;
    if (!sim->config.fixed) {
        p->clock_offset = (int64_t)(sim_random(sim) % (1000 * MS));
        p->clock_rate_percent = 90 + sim_below(sim, 21);
    }
    snprintf(p->name, sizeof p->name, "%s/%u", names[kind], index);
    memset(p->version, 0xff, sizeof p->version);
}

void cluster_build(struct sim *sim)
{
    const struct sim_config *config = &sim->config;
    add_process(sim, CHIEF, 0);
    for (uint32_t k = 0; k < config->servers; k++)
        add_process(sim, SERVER, k);
    for (uint32_t w = 0; w < config->workers; w++)
        add_process(sim, WORKER, w);
    for (uint32_t p = 1; p < sim->process_count; p++)
        sim->members[p - 1] =
            (struct weir_chief_member){.role = sim->processes[p].kind == SERVER ? WEIR_NODE_PS : WEIR_NODE_WORKER,
                                       .index = sim->processes[p].index,
                                       .name = sim->processes[p].name,
                                       .address = ""};
    for (uint32_t k = 0; k < config->servers; k++)
        sim->server_names[k] = sim->processes[server_process(sim, k)].name;
    for (uint32_t w = 0; w < config->workers; w++)
        sim->worker_names[w] = sim->processes[worker_process(sim, w)].name;
    for (uint32_t p = 0; p < sim->process_count; p++)
        weir_layout_hold(&sim->layout, config->copies, sim->holders[p].chunks, &sim->holders[p].record);
    build_chief(sim);
    for (uint32_t p = 1; p < sim->process_count; p++) {
        cluster_build_node(sim, p);
        cluster_build_lanes(sim, p, NULL);
    }
    for (uint32_t a = 0; a < sim->actor_count; a++) {
        if (sim->actors[a].kind != ACTOR_CHIEF && sim->actors[a].kind != ACTOR_NODE)
            continue;
        struct sim_event *start = sim_schedule(sim, config->fixed ? 0 : sim_random(sim) % (300 * MS), LOCAL);
        start->actor = a;
        sim_schedule(sim, 0, LOOK)->actor = a;
        start->local = WEIR_ON_START;
    }
    shard_build(sim);
}

/* ---- steps */

static uint64_t deadline_of(const struct actor *actor)
{
    switch (actor->kind) {
    case ACTOR_CHIEF:
        return weir_chief_deadline(actor->core);
    case ACTOR_NODE:
        return weir_node_deadline(actor->core);
    case ACTOR_LANE:
        return weir_ps_lane_deadline(actor->core);
    case ACTOR_EXCHANGE:
        return weir_exchange_deadline(actor->core);
    default:
        return WEIR_NEVER;
    }
}

static void core_step(const struct actor *actor, const struct weir_event *event, struct weir_actions *actions)
{
    switch (actor->kind) {
    case ACTOR_CHIEF:
        weir_chief_step(actor->core, event, actions);
        break;
    case ACTOR_NODE:
        weir_node_step(actor->core, event, actions);
        break;
    case ACTOR_LANE:
        weir_ps_lane_step(actor->core, event, actions);
        break;
    case ACTOR_EXCHANGE:
        weir_exchange_step(actor->core, event, actions);
        break;
    case ACTOR_RECORDER:
        weir_recorder_step(actor->core, event, actions);
        break;
    default:
        weir_worker_step(actor->core, event, actions);
    }
}

void cluster_step(struct sim *sim, uint32_t id, struct weir_event *event)
{
    struct actor *actor = &sim->actors[id];
    if (!actor->running || !sim->processes[actor->process].alive || sim->failed)
        return;
    event->now_ns = cluster_clock(sim, actor->process);
    sim->coverage->events[actor->kind][event->kind]++;
    sim->coverage->steps++;
    actor->actions.count = 0;
    core_step(actor, event, &actor->actions);
    for (size_t i = 0; i < actor->actions.count && !sim->failed; i++)
        interpret(sim, id, &actor->actions.list[i]);
    if (actor->kind == ACTOR_EXCHANGE)
        credit_check(sim, id);
    uint64_t deadline = deadline_of(actor);
    actor->timer_id++; /* an earlier timer is void */
    if (deadline == WEIR_NEVER || !sim->processes[actor->process].alive)
        return;
    uint64_t at = global_time(sim, actor->process, deadline);
    struct sim_event *timer = sim_schedule(sim, at > sim->now ? at : sim->now, TIMER);
    timer->actor = id;
    timer->id = actor->timer_id;
}

void cluster_timer(struct sim *sim, struct sim_event *event)
{
    struct actor *actor = &sim->actors[event->actor];
    if (event->id != actor->timer_id || !actor->running)
        return;
    if (deadline_of(actor) > cluster_clock(sim, actor->process)) { /* rounded too early */
        struct sim_event *again = sim_schedule(sim, sim->now + 200, TIMER);
        again->actor = event->actor;
        again->id = event->id;
        return;
    }
    struct weir_event out = {.kind = WEIR_ON_TIME};
    cluster_step(sim, event->actor, &out);
    if (sim->processes[actor->process].alive && deadline_of(actor) <= out.now_ns)
        sim_fail(sim, "%s was given the time, and its deadline is still over: it would spin",
                 sim->processes[actor->process].name);
}

static uint64_t core_waiting(const struct actor *actor, char *text, size_t bytes)
{
    switch (actor->kind) {
    case ACTOR_LANE:
        return weir_ps_lane_waiting(actor->core, text, bytes);
    case ACTOR_EXCHANGE:
        return weir_exchange_waiting(actor->core, text, bytes);
    case ACTOR_RECORDER:
        return weir_recorder_waiting(actor->core, text, bytes);
    default:
        return weir_worker_waiting(actor->core, text, bytes);
    }
}

void cluster_look(struct sim *sim, struct sim_event *event)
{
    uint32_t process = sim->actors[event->actor].process;
    if (!sim->processes[process].alive || event->life != sim->processes[process].life)
        return;
    if (process == 0)
        check_killed_is_named(sim);
    for (uint32_t a = 0; a < sim->actor_count; a++) {
        struct actor *actor = &sim->actors[a];
        if (actor->process != process || !actor->running || actor->kind == ACTOR_CHIEF || actor->kind == ACTOR_NODE)
            continue;
        char text[WEIR_WAIT_BYTES];
        uint64_t step = core_waiting(actor, text, sizeof text);
        check_waiting(sim, text);
        if (!weir_wait_look(&actor->wait, text, cluster_clock(sim, process)))
            continue;
        struct weir_event told = {.kind = WEIR_ON_WAITING, .lane = actor->lane, .step = step};
        if (actor->kind == ACTOR_RECORDER || actor->kind == ACTOR_WORKER)
            told.lane = MAX_LANES;
        told.text = actor->wait.is_long ? text : "";
        sim_say(sim, "%s has waited for %s", sim->processes[process].name, text);
        cluster_step(sim, event->actor, &told);
    }
    struct sim_event *next = sim_schedule(sim, sim->now + WEIR_WAIT_LOOK_NS, LOOK);
    next->actor = event->actor;
    next->life = event->life;
}

void cluster_local(struct sim *sim, struct sim_event *event)
{
    struct actor *actor = &sim->actors[event->actor];
    struct process *process = &sim->processes[actor->process];
    if (event->life != process->life)
        return;
    if (event->local == WEIR_ON_START)
        actor->running = process->alive;
    if (event->local == WEIR_ON_READY)
        credit_ready(sim, actor, event);
    if (event->local == WEIR_ON_APPLIED)
        shard_applied(sim, actor->process, event->chunk, event->step, event->turn);
    if (event->local == WEIR_ON_COMPUTED && process->computing && process->alive) {
        if (!process->overwritten)
            check_compute(sim, actor->process, process->compute_step); /* nothing was overwritten meanwhile */
        process->computing = false;
    }
    struct weir_event out = {
        .kind = event->local,
        .body = event->parcel.has_body ? &event->parcel.body : NULL,
        .lane = event->lane,
        .round = event->round,
        .part = event->part,
        .replicas = event->replicas,
        .replica_count = event->replica_count,
        .step = event->step,
        .offset = event->offset,
        .chunk = event->chunk,
        .text = event->text,
    };
    if (event->local == WEIR_ON_SUMMED) {
        out.numbers = event->parcel.numbers;
        out.number_count = sim->pieces_of[event->chunk];
    }
    cluster_step(sim, event->actor, &out);
}
