/* What the cores' actions do in the simulated world. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* An event for an actor of the same process, after all that it was told before. */
static struct sim_event *tell(struct sim *sim, uint32_t to, enum weir_event_kind kind, uint64_t delay)
{
    struct actor *actor = &sim->actors[to];
    /* Lane 0 and the worker share a thread, so what is told to one after the other arrives in that order. */
    uint64_t *at = &actor->local_at;
    if (actor->kind == ACTOR_WORKER)
        at = &sim->actors[actor_of(sim, actor->process, ACTOR_EXCHANGE, 0)].local_at;
    *at = sim->now + delay > *at ? sim->now + delay : *at + 1;
    struct sim_event *event = sim_schedule(sim, *at, LOCAL);
    event->actor = to;
    event->life = sim->processes[actor->process].life;
    event->local = kind;
    return event;
}

static uint64_t hop(struct sim *sim)
{
    return sim->config.fixed ? 10000 : 1 + sim_random(sim) % 50000;
}

/* The engine's work on a chunk: short, and now and then long enough for anything to happen meanwhile. */
static uint64_t work(struct sim *sim)
{
    return !sim->config.fixed && sim_below(sim, 8) == 0 ? sim_delay(sim) : hop(sim);
}

static void tell_action(struct sim *sim, uint32_t to, const struct weir_action *action)
{
    struct sim_event *event = tell(sim, to, action->tell, hop(sim));
    event->lane = action->lane;
    event->step = action->step;
    event->round = action->round;
    snprintf(event->text, sizeof event->text, "%s", action->text);
    if (action->has_body)
        parcel_copy(&event->parcel, &action->body);
}

static void do_tell(struct sim *sim, const struct actor *actor, const struct weir_action *action)
{
    bool server = sim->processes[actor->process].kind == SERVER;
    enum actor_kind lane_kind = server ? ACTOR_LANE : ACTOR_EXCHANGE;
    switch (action->actor) {
    case WEIR_ACTOR_NODE:
        tell_action(sim, actor_of(sim, actor->process, ACTOR_NODE, 0), action);
        break;
    case WEIR_ACTOR_WORKER:
        tell_action(sim, actor_of(sim, actor->process, ACTOR_WORKER, 0), action);
        break;
    case WEIR_ACTOR_RECORDER:
        tell_action(sim, actor_of(sim, actor->process, ACTOR_RECORDER, 0), action);
        break;
    case WEIR_ACTOR_LANE:
        tell_action(sim, actor_of(sim, actor->process, lane_kind, action->lane), action);
        break;
    case WEIR_ACTOR_LANES:
        for (uint32_t l = 0; l < sim->config.lanes; l++)
            if (l != action->lane)
                tell_action(sim, actor_of(sim, actor->process, lane_kind, l), action);
    }
    if (action->tell == WEIR_ON_RECORD && actor->kind == ACTOR_RECORDER) {
        check_record(sim, &action->body.record);
        check_record_known(sim, actor->process, &action->body.record);
        if (sim->config.kill_late && action->body.record.order == WEIR_ORDER_STOP) {
            sim->coverage->count[COUNT_LATE_KILLS]++;
            sim_schedule(sim, sim->now + sim_delay(sim), KILL);
        }
        sim_say(sim, "%s: record of step %llu round %u: %s", sim->processes[actor->process].name,
                (unsigned long long)action->body.record.step, action->body.record.round,
                action->body.record.order == WEIR_ORDER_TRAIN      ? "train"
                : action->body.record.order == WEIR_ORDER_EVALUATE ? "evaluate"
                                                                   : "stop");
    }
}

/* ---- servers */

static void do_apply(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    uint32_t turn = shard_apply(sim, sim->actors[id].process, action);
    if (sim->failed)
        return;
    struct sim_event *event = tell(sim, id, WEIR_ON_APPLIED, work(sim));
    event->chunk = action->chunk;
    event->step = action->step;
    event->turn = turn;
}

static void do_sum(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    uint32_t count = sim->pieces_of[action->chunk];
    uint64_t sum = shard_sum(sim, sim->actors[id].process, action);
    if (sim->failed)
        return;
    struct sim_event *event = tell(sim, id, WEIR_ON_SUMMED, work(sim));
    event->chunk = action->chunk;
    event->parcel.numbers = malloc(count * sizeof(double));
    assert(event->parcel.numbers);
    for (uint32_t i = 0; i < count; i++)
        event->parcel.numbers[i] = reference_square(&sim->config, sum, action->step, i);
}

/* ---- workers */

static bool in_tree(const struct sim_config *config, uint32_t level, uint32_t index)
{
    return level <= reference_root(config->replicas) && reference_replicas(config->replicas, level, index);
}

uint64_t gradient_payload(struct sim *sim, const struct process *worker, struct weir_contribution *contribution)
{
    if (!worker->has_gradient || worker->gradient_step != contribution->step)
        sim_fail(sim, "%s sends the gradient of step %llu, which it does not keep", worker->name,
                 (unsigned long long)contribution->step);
    uint32_t level = contribution->level, index = contribution->index;
    if (!in_tree(&sim->config, level, index)) {
        sim_fail(sim, "%s sends node (%u, %u), which the tree does not have", worker->name, level, index);
        return 0;
    }
    if (reference_replicas(sim->config.replicas, level, index) & ~worker->gradient_replicas)
        sim_fail(sim, "%s sends node (%u, %u) of step %llu, not all of which it has computed", worker->name, level,
                 index, (unsigned long long)contribution->step);
    uint64_t value = reference_gradient(&sim->config, worker->gradient_step, contribution->chunk,
                                        worker->gradient_weights, level, index);
    contribution->empty = value == SUM_OF_NOTHING;
    sim->coverage->count[COUNT_EMPTY] += contribution->empty;
    if (contribution->empty)
        return 0;
    return payload_new(sim, value, reference_replicas(sim->config.replicas, level, index));
}

static void tell_seals(struct sim *sim, uint32_t process, const struct weir_action *compute, uint64_t all,
                       uint64_t delay)
{
    const struct weir_record *record = &compute->body.record;
    for (size_t i = 0; i < compute->replica_count; i++) {
        uint32_t r = compute->replicas[i];
        struct weir_message_body body = {.type = WEIR_SEAL};
        body.seal = (struct weir_seal){
            .generation = record->generation, .step = record->step, .round = record->round, .replica = r};
        body.seal.samples = reference_number(all, record->step, record->round, r, 0);
        body.seal.loss = reference_number(all, record->step, record->round, r, 1);
        for (uint32_t m = 0; m < WEIR_METRIC_SUMS; m++)
            body.seal.metrics[m] = reference_number(all, record->step, record->round, r, 2 + m);
        parcel_copy(&tell(sim, actor_of(sim, process, ACTOR_EXCHANGE, 0), WEIR_ON_SEAL, delay)->parcel, &body);
    }
}

/* Of this step a chunk was made that shows that it is finished: nobody waits for what would be computed. */
static bool is_finished(const struct process *worker, const struct sim *sim, uint64_t step)
{
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        if (worker->version[step & 1][c] != UINT64_MAX && worker->version[step & 1][c] > step)
            return true;
    return false;
}

/* Gradients become final from the last layer on. */
static void tell_ready(struct sim *sim, uint32_t process, const struct weir_action *compute, uint64_t delay)
{
    uint64_t end = sim->layout.flat_elements;
    for (uint32_t piece = 0; piece < 3; piece++)
        for (uint32_t l = 0; l < sim->config.lanes; l++) {
            struct sim_event *event =
                tell(sim, actor_of(sim, process, ACTOR_EXCHANGE, l), WEIR_ON_READY, delay * (piece + 1));
            event->step = compute->step;
            event->part = compute->part;
            event->offset = piece == 2 ? 0 : end * (2 - piece) / 3;
            event->replica_count = (uint32_t)compute->replica_count;
            memcpy(event->replicas, compute->replicas, compute->replica_count * sizeof(uint32_t));
        }
}

static void keep_gradient(struct process *worker, const struct weir_action *compute, uint64_t all)
{
    if (!worker->has_gradient || worker->gradient_step != compute->step)
        worker->gradient_replicas = 0;
    worker->has_gradient = true;
    worker->gradient_step = compute->step;
    worker->gradient_weights = all;
    for (size_t i = 0; i < compute->replica_count; i++)
        worker->gradient_replicas |= UINT64_C(1) << compute->replicas[i];
}

static void do_compute(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    uint32_t process = sim->actors[id].process;
    struct process *worker = &sim->processes[process];
    const struct weir_record *record = &action->body.record;
    uint64_t delay = sim_delay(sim);
    bool in_vain = sim->config.elastic && is_finished(worker, sim, record->step);
    sim_say(sim, "%s computes step %llu round %u, %zu replicas from %u on%s", worker->name,
            (unsigned long long)record->step, record->round, action->replica_count, action->replicas[0],
            in_vain ? ", in vain" : "");
    sim->coverage->count[COUNT_TAKEN_OVER] += action->part > 0;
    if (!in_vain) {
        drain_computed(sim, worker, action);
        check_compute(sim, process, record->step);
        uint64_t all = reference_all(worker->weights[record->step & 1], sim->layout.chunks);
        worker->computing = true;
        worker->overwritten = false;
        worker->compute_step = record->step;
        if (record->order == WEIR_ORDER_TRAIN) {
            keep_gradient(worker, action, all);
            tell_ready(sim, process, action, delay);
        }
        tell_seals(sim, process, action, all, 3 * delay + hop(sim));
    }
    struct sim_event *done = tell(sim, id, WEIR_ON_COMPUTED, 3 * delay);
    done->step = record->step;
    done->round = record->round;
}

static void store(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    struct process *process = &sim->processes[sim->actors[id].process];
    uint64_t value = payload_at(sim, action->payload)->value;
    payload_release(sim, action->payload);
    if (process->kind == SERVER) {
        shard_copy(sim, sim->actors[id].process, action, value);
        return;
    }
    if (process->kind == CHIEF) {
        uint64_t last = (uint64_t)sim->config.steps_per_epoch * sim->config.epochs;
        uint64_t weights = reference_weights(sim->reference, action->chunk, last);
        if (action->step != last || action->part > sim->config.slots ||
            value != (action->part ? reference_slot(weights, action->part - 1) : weights))
            sim_fail(sim, "the chief got something else for part %u of chunk %u", action->part, action->chunk);
        sim->fetched[action->chunk] |= UINT32_C(1) << action->part;
        return;
    }
    uint64_t parity = action->step & 1;
    bool used = process->computing && action->step != process->compute_step && (process->compute_step & 1) == parity;
    process->overwritten |= used; /* it is computed to the end first, so its gradient is whole */
    if (used && !sim->config.elastic)
        sim_fail(sim, "invariant 3: %s overwrites version %llu while it computes with it", process->name,
                 (unsigned long long)process->compute_step);
    if (value != reference_weights(sim->reference, action->chunk, action->step))
        sim_fail(sim, "invariant 4: %s got other weights for chunk %u version %llu", process->name, action->chunk,
                 (unsigned long long)action->step);
    if (process->version[parity][action->chunk] == action->step)
        sim_fail(sim, "%s is given chunk %u version %llu twice", process->name, action->chunk,
                 (unsigned long long)action->step);
    process->version[parity][action->chunk] = action->step;
    process->weights[parity][action->chunk] = value;
}

/* ---- all */

static void enter_view(struct sim *sim, uint32_t process, const struct weir_view *view)
{
    struct holders *holders = &sim->holders[process];
    holders->entered = true;
    holders->number = view->number;
    holders->record = view->record;
    memcpy(holders->chunks, view->chunks, sim->layout.chunks * sizeof *holders->chunks);
}

static void start_lanes(struct sim *sim, uint32_t process, const struct weir_view *view)
{
    bool first = !sim->processes[process].lanes_up;
    enter_view(sim, process, view);
    sim->processes[process].lanes_up = true;
    if (first && sim->config.elastic)
        cluster_build_lanes(sim, process, view);
    sim->coverage->count[COUNT_VIEWS] += !first;
    for (uint32_t a = 0; a < sim->actor_count; a++) {
        struct actor *actor = &sim->actors[a];
        if (actor->process != process || actor->kind == ACTOR_NODE || actor->kind == ACTOR_CHIEF)
            continue;
        struct sim_event *event = tell(sim, a, first ? WEIR_ON_START : WEIR_ON_VIEW, hop(sim));
        struct weir_message_body body = {.type = WEIR_VIEW, .view = *view};
        if (!first)
            parcel_copy(&event->parcel, &body);
    }
}

static void stop_process(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    uint32_t process = sim->actors[id].process;
    struct process *p = &sim->processes[process];
    sim_say(sim, "%s exits %d%s%s", p->name, action->code, action->text[0] ? ": " : "", action->text);
    p->exited = true;
    p->alive = false;
    p->code = action->code;
    snprintf(p->reason, sizeof p->reason, "%s", action->text);
    check_exit(sim, p);
    for (uint32_t a = 0; a < sim->actor_count; a++)
        if (sim->actors[a].process == process)
            sim->actors[a].running = false;
    net_process_died(sim, process);
}

static void do_send(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    struct weir_action copy = *action;
    uint64_t payload = 0, value = 0;
    check_generation(sim, &sim->actors[id], &action->body);
    if (action->body.type == WEIR_VIEW)
        check_view(sim, &action->body.view);
    else if (action->body.type == WEIR_COVERED)
        check_covered(sim, sim->actors[id].process, &action->body.covered);
    else if (action->body.type == WEIR_WEIGHTS)
        payload = weights_payload(sim, sim->actors[id].process, action->peer, &action->body.weights);
    else if (action->body.type == WEIR_RECORD)
        check_record_sent(sim, sim->actors[id].process, action->peer, &action->body.record);
    else if (action->body.type == WEIR_FORWARD)
        payload = forward_payload(sim, sim->actors[id].process, &action->body.forward);
    else if (action->body.type == WEIR_CONTRIBUTION)
        payload = gradient_payload(sim, &sim->processes[sim->actors[id].process], &copy.body.contribution);
    if (sim->failed)
        return;
    if (payload)
        value = payload_at(sim, payload)->value;
    if (action->body.type == WEIR_CONTRIBUTION)
        credit_sent(sim, id, action->peer, action->body.contribution.chunk);
    observer_told(sim, &sim->actors[id], action->peer, &copy.body);
    repeat_before(sim, id, &copy);
    net_send(sim, id, &copy, payload);
    repeat_after(sim, id, &copy, value);
}

/* A lane closes the streams of those that its view no longer names. */
static bool may_close(const struct sim *sim, const struct actor *actor, uint32_t peer)
{
    uint32_t nodes = sim->config.workers + (sim->config.copies > 1 ? sim->config.servers : 0);
    return actor->kind == ACTOR_LANE && sim->config.elastic && peer < nodes;
}

void interpret(struct sim *sim, uint32_t id, const struct weir_action *action)
{
    switch (action->kind) {
    case WEIR_DO_CONNECT:
        net_connect(sim, id, action->peer);
        break;
    case WEIR_DO_CLOSE:
        if (may_close(sim, &sim->actors[id], action->peer))
            net_close(sim, id, action->peer, action->text);
        else if (!observer_cut_off(&sim->actors[id], action->peer))
            sim_fail(sim, "%s cuts off a stream of the cluster, whose nodes keep the rules: %s",
                     sim->processes[sim->actors[id].process].name, action->text);
        break;
    case WEIR_DO_SEND:
        do_send(sim, id, action);
        break;
    case WEIR_DO_TELL:
        do_tell(sim, &sim->actors[id], action);
        break;
    case WEIR_DO_RELEASE:
        payload_release(sim, action->payload);
        break;
    case WEIR_DO_APPLY:
        do_apply(sim, id, action);
        break;
    case WEIR_DO_SUM:
        do_sum(sim, id, action);
        break;
    case WEIR_DO_FREE:
        shard_free(sim, sim->actors[id].process, action->chunk, action->step);
        break;
    case WEIR_DO_STORE:
        store(sim, id, action);
        break;
    case WEIR_DO_DROP:
        shard_drop(sim, sim->actors[id].process, action->chunk);
        break;
    case WEIR_DO_COMPUTE:
        do_compute(sim, id, action);
        break;
    case WEIR_DO_LANES:
        sim_say(sim, "%s has view %llu", sim->processes[sim->actors[id].process].name,
                (unsigned long long)action->body.view.number);
        start_lanes(sim, sim->actors[id].process, &action->body.view);
        break;
    case WEIR_DO_SAY:
        sim_say(sim, "chief/0: %s", action->text);
        drain_said(sim, action->text);
        for (uint32_t p = 0; p < sim->process_count; p++)
            sim->said_lost[p] |= strncmp(action->text, "lost ", 5) == 0 && strstr(action->text, sim->processes[p].name);
        break;
    case WEIR_DO_PROGRESS:
        break;
    case WEIR_DO_RESULTS:
        sim_say(sim, "chief/0 has fetched the result");
        check_fetched(sim);
        sim->results_written = !sim->config.no_results;
        snprintf(tell(sim, id, WEIR_ON_RESULTS, sim_delay(sim))->text, 200, "%s",
                 sim->config.no_results ? "weights.safetensors: no space left" : "");
        break;
    case WEIR_DO_STOP:
        stop_process(sim, id, action);
    }
}
