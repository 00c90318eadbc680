#include "worker/worker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A (step, round), and what was asked for of it. */
struct round {
    bool valid;
    struct weir_record record;
    bool *asked; /* by replica */
    uint32_t parts;
};

/* The newest record, and the one before it: where not all chunks are at the newest one's version yet, its step may
 * still lack what another worker has sealed but not brought before it was lost. */
struct weir_worker {
    struct weir_worker_config config;
    uint8_t state;
    bool began; /* has computed anything */
    bool draining, drained;
    uint64_t complete_step; /* as the view says */
    uint32_t complete_round;
    struct round newest, older;
    uint32_t *hosts, *missing; /* by replica; replicas to be asked for: scratch */
    uint64_t *held, *before;   /* by lane: the newest version at which it held all its chunks, and the one before */
    struct weir_machine_counts counts;
};

static const struct weir_transition rows[] = {
    {WEIR_WORKER_WAITING, WEIR_WORKER_COMPUTING, "the record and all chunks of its version are there"},
    {WEIR_WORKER_COMPUTING, WEIR_WORKER_WAITING, "computed: waits for the record that follows, or more replicas"},
    {WEIR_WORKER_WAITING, WEIR_WORKER_STOPPED, "the record says stop"},
};
const struct weir_machine weir_worker_machine = {"worker", rows, sizeof rows / sizeof rows[0]};

struct weir_worker *weir_worker_init(struct weir_arena *arena, const struct weir_worker_config *config)
{
    struct weir_worker *worker = weir_arena_take(arena, 1, sizeof *worker);
    worker->config = *config;
    worker->state = WEIR_WORKER_WAITING;
    worker->hosts = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    memcpy(worker->hosts, config->hosts, config->replicas * sizeof(uint32_t));
    worker->missing = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    worker->newest.asked = weir_arena_take(arena, config->replicas, sizeof(bool));
    worker->older.asked = weir_arena_take(arena, config->replicas, sizeof(bool));
    worker->held = weir_arena_take(arena, config->lanes, sizeof(uint64_t));
    worker->before = weir_arena_take(arena, config->lanes, sizeof(uint64_t));
    for (uint32_t l = 0; l < config->lanes; l++)
        worker->held[l] = worker->before[l] = WEIR_NO_VERSION;
    return worker;
}

static void move(struct weir_worker *worker, enum weir_worker_state to)
{
    weir_machine_move(&weir_worker_machine, &worker->counts, &worker->state, (uint8_t)to);
}

/* A lane may be one version ahead, where others have computed this worker's replicas: it keeps both. Of a step that is
 * not finished no chunk is further. */
static bool holds_all(const struct weir_worker *worker, uint64_t version)
{
    for (uint32_t l = 0; l < worker->config.lanes; l++) {
        bool ahead = worker->held[l] == version + 1 && worker->before[l] == version;
        if (worker->held[l] != version && worker->held[l] != WEIR_HOLDS_ALWAYS && !ahead)
            return false;
    }
    return true;
}

static bool is_complete(const struct weir_worker *worker, const struct weir_record *record)
{
    return record->step < worker->complete_step ||
           (record->step == worker->complete_step && record->round < worker->complete_round);
}

/* Hosted replicas that were not asked for, of a round that is not complete: into `missing`; how many. */
static size_t list_missing(const struct weir_worker *worker, const struct round *round)
{
    size_t count = 0;
    if (is_complete(worker, &round->record))
        return 0;
    for (uint32_t r = 0; r < worker->config.replicas; r++)
        if (worker->hosts[r] == worker->config.self && !round->asked[r])
            worker->missing[count++] = r;
    return count;
}

static void compute(struct weir_worker *worker, struct round *round, struct weir_actions *actions)
{
    size_t count = list_missing(worker, round);
    if (count == 0)
        return;
    move(worker, WEIR_WORKER_COMPUTING);
    worker->began = true;
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_COMPUTE);
    action->step = round->record.step;
    action->round = round->record.round;
    action->part = round->parts++;
    action->replicas = worker->missing;
    action->replica_count = count;
    action->has_body = true;
    action->body.type = WEIR_RECORD;
    action->body.record = round->record;
    for (size_t i = 0; i < count; i++)
        round->asked[worker->missing[i]] = true;
}

/* The newest round that can be computed: its record and all chunks of its version are there. NULL: none. */
static struct round *find_round(struct weir_worker *worker)
{
    if (worker->newest.valid && holds_all(worker, worker->newest.record.step))
        return &worker->newest;
    if (worker->older.valid && holds_all(worker, worker->older.record.step))
        return &worker->older;
    return NULL;
}

/* It can go where it could begin a round and has not: what it has begun is complete then, for its record follows. Or
 * where it has no part. */
static void try_drain(struct weir_worker *worker, struct weir_actions *actions)
{
    const struct weir_worker_config *config = &worker->config;
    const struct round *round = find_round(worker);
    bool between = round && round->parts == 0;
    bool has_part = weir_layout_hosted(worker->hosts, config->replicas, config->self) > 0;
    if (!worker->draining || worker->drained || worker->state == WEIR_WORKER_COMPUTING || (has_part && !between))
        return;
    worker->drained = true;
    struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_NODE, 0, WEIR_ON_DRAINED);
    action->step = between ? round->record.step : 0;
    action->round = between ? round->record.round : 0;
}

static void try_compute(struct weir_worker *worker, struct weir_actions *actions)
{
    struct round *round = find_round(worker);
    if (worker->state != WEIR_WORKER_WAITING || !round || worker->drained)
        return;
    if (round->record.order == WEIR_ORDER_STOP)
        move(worker, WEIR_WORKER_STOPPED);
    else
        compute(worker, round, actions);
}

static void on_record(struct weir_worker *worker, const struct weir_record *record)
{
    struct round *newest = &worker->newest;
    if (newest->valid && newest->record.step < record->step) {
        struct round older = worker->older;
        worker->older = *newest;
        *newest = older;
    }
    newest->valid = true;
    newest->parts = 0;
    newest->record = *record;
    newest->record.norms = NULL; /* the verdict is the servers' business */
    newest->record.norm_count = 0;
    memset(newest->asked, 0, worker->config.replicas * sizeof(bool));
}

static void on_holds(struct weir_worker *worker, uint32_t lane, uint64_t version)
{
    assert(lane < worker->config.lanes);
    worker->before[lane] = worker->held[lane];
    worker->held[lane] = version;
}

void weir_worker_step(struct weir_worker *worker, const struct weir_event *event, struct weir_actions *actions)
{
    switch (event->kind) {
    case WEIR_ON_START:
        break;
    case WEIR_ON_HOLDS:
        on_holds(worker, event->lane, event->step);
        break;
    case WEIR_ON_RECORD:
        on_record(worker, &event->body->record);
        break;
    case WEIR_ON_COMPUTED:
        move(worker, WEIR_WORKER_WAITING);
        break;
    case WEIR_ON_VIEW:
        memcpy(worker->hosts, event->body->view.hosts, worker->config.replicas * sizeof(uint32_t));
        worker->complete_step = event->body->view.complete_step;
        worker->complete_round = event->body->view.complete_round;
        break;
    case WEIR_ON_DRAIN:
        worker->draining = true;
        break;
    default:
        assert(!"an event that a worker does not have");
    }
    try_drain(worker, actions);
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
    const struct round *newest = &worker->newest;
    text[0] = '\0';
    if (worker->state != WEIR_WORKER_WAITING || !newest->valid || worker->began || !list_missing(worker, newest))
        return 0;
    for (uint32_t l = 0; l < worker->config.lanes; l++) {
        uint64_t step = newest->record.step, held = worker->held[l];
        if (held == step || held == WEIR_NO_VERSION || held == WEIR_HOLDS_ALWAYS)
            continue;
        size_t at = 0;
        for (uint32_t k = 0; k < layout->servers && at < bytes; k++)
            if (weir_layout_count(layout, l))
                at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", worker->config.server_names[k]);
        if (at < bytes)
            snprintf(text + at, bytes - at, ": weights of version %llu, as the record says (lane %u has version %llu)",
                     (unsigned long long)step, l, (unsigned long long)held);
        return step;
    }
    return 0;
}
