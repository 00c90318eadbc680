#include "worker/worker.h"

#include <assert.h>

struct weir_worker {
    struct weir_worker_config config;
    uint8_t state;
    bool has_record, done; /* done: (step, round) of the record was computed */
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
        worker->done = true;
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
