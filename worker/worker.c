#include "worker/worker.h"

#include <assert.h>
#include <stdio.h>

struct weir_worker {
    struct weir_worker_config config;
    uint8_t state;
    bool has_record, done; /* done: (step, round) of the record was computed */
    bool began;            /* has computed anything */
    struct weir_record record;
    uint64_t *held; /* by lane: the version at which it holds all its chunks */
    struct weir_machine_counts counts;
};

static const struct weir_transition rows[] = {
    {WEIR_WORKER_WAITING, WEIR_WORKER_COMPUTING, "the record and all chunks of its version are there"},
    {WEIR_WORKER_COMPUTING, WEIR_WORKER_WAITING, "computed: waits for the record that follows"},
    {WEIR_WORKER_WAITING, WEIR_WORKER_STOPPED, "the record says stop"},
};
const struct weir_machine weir_worker_machine = {"worker", rows, sizeof rows / sizeof rows[0]};

struct weir_worker *weir_worker_init(struct weir_arena *arena, const struct weir_worker_config *config)
{
    struct weir_worker *worker = weir_arena_take(arena, 1, sizeof *worker);
    worker->config = *config;
    worker->state = WEIR_WORKER_WAITING;
    worker->held = weir_arena_take(arena, config->lanes, sizeof(uint64_t));
    for (uint32_t l = 0; l < config->lanes; l++)
        worker->held[l] = WEIR_NO_VERSION;
    return worker;
}

static void move(struct weir_worker *worker, enum weir_worker_state to)
{
    weir_machine_move(&weir_worker_machine, &worker->counts, &worker->state, (uint8_t)to);
}

/* No lane can hold a newer version than that of the record: it would need what this worker has still to compute. */
static bool holds_all(const struct weir_worker *worker, uint64_t version)
{
    for (uint32_t l = 0; l < worker->config.lanes; l++)
        if (worker->held[l] != version && worker->held[l] != WEIR_HOLDS_ALWAYS)
            return false;
    return true;
}

static void try_compute(struct weir_worker *worker, struct weir_actions *actions)
{
    if (worker->state != WEIR_WORKER_WAITING || !worker->has_record || worker->done)
        return;
    if (worker->record.order == WEIR_ORDER_STOP) {
        move(worker, WEIR_WORKER_STOPPED);
        return;
    }
    if (worker->config.stands_by || !holds_all(worker, worker->record.step))
        return;
    move(worker, WEIR_WORKER_COMPUTING);
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_COMPUTE);
    action->step = worker->record.step;
    action->round = worker->record.round;
    action->has_body = true;
    action->body.type = WEIR_RECORD;
    action->body.record = worker->record;
}

static void on_record(struct weir_worker *worker, const struct weir_record *record)
{
    assert(worker->state != WEIR_WORKER_COMPUTING); /* a record follows all Seals, ours included */
    worker->has_record = true;
    worker->done = false;
    worker->record = *record;
    worker->record.norms = NULL; /* the verdict is the servers' business */
    worker->record.norm_count = 0;
}

void weir_worker_step(struct weir_worker *worker, const struct weir_event *event, struct weir_actions *actions)
{
    switch (event->kind) {
    case WEIR_ON_START:
        break;
    case WEIR_ON_HOLDS:
        assert(event->lane < worker->config.lanes);
        worker->held[event->lane] = event->step;
        break;
    case WEIR_ON_RECORD:
        on_record(worker, &event->body->record);
        break;
    case WEIR_ON_COMPUTED:
        assert(event->step == worker->record.step && event->round == worker->record.round);
        move(worker, WEIR_WORKER_WAITING);
        worker->done = worker->began = true;
        break;
    default:
        assert(!"an event that a worker does not have");
    }
    try_compute(worker, actions);
}

const struct weir_machine_counts *weir_worker_counts(const struct weir_worker *worker)
{
    return &worker->counts;
}

/* A lane knows what it lacks once this worker has computed a step. Until then only here is it known that what a lane
 * holds is not of the record's step. */
uint64_t weir_worker_waiting(const struct weir_worker *worker, char *text, size_t bytes)
{
    const struct weir_layout *layout = &worker->config.layout;
    text[0] = '\0';
    if (worker->state != WEIR_WORKER_WAITING || !worker->has_record || worker->began || worker->config.stands_by)
        return 0;
    for (uint32_t l = 0; l < worker->config.lanes; l++) {
        uint64_t step = worker->record.step, held = worker->held[l];
        if (held == step || held == WEIR_NO_VERSION || held == WEIR_HOLDS_ALWAYS)
            continue;
        size_t at = 0;
        for (uint32_t k = 0; k < layout->servers && at < bytes; k++)
            if (weir_layout_count(layout, k, l))
                at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", worker->config.server_names[k]);
        if (at < bytes)
            snprintf(text + at, bytes - at, ": weights of version %llu, as the record says (lane %u has version %llu)",
                     (unsigned long long)step, l, (unsigned long long)held);
        return step;
    }
    return 0;
}
