/* No peer can make a parameter server's lane, or its recorder, crash or lose a payload; none from outside ends the job.
 */
#include "../protocol/hostile.h"

#include "ps/lane.h"
#include "ps/recorder.h"

#define WORKERS 2
#define SERVERS 2
#define REPLICAS 3
#define CHUNKS 5
#define ELEMENTS 10
#define ROOM 64

/* What the lane asked its process to do. */
struct house {
    struct weir_ps_lane_config config;
    struct weir_recorder *recorder;
    struct weir_actions told; /* the recorder's */
    uint64_t version[CHUNKS];
    bool applying[CHUNKS], summing[CHUNKS];
    struct weir_record records[ROOM]; /* on their way to the lane */
    double norms[ROOM][CHUNKS + 1];
    uint32_t record_count;
    uint32_t failures, applies;
};

static const uint64_t incarnations[] = {7, 7};
static const uint32_t pieces[CHUNKS] = {1, 2, 1, 2, 1};
static const struct weir_schedule_piece all_pieces[] = {{0, 0}, {1, 0}, {1, 1}, {2, 1}, {3, 1}, {3, 2}, {4, 2}};

static void keep_record(struct house *house, const struct weir_record *record)
{
    assert_true(house->record_count < ROOM);
    struct weir_record *kept = &house->records[house->record_count];
    *kept = *record;
    for (size_t v = 0; v < record->norm_count; v++)
        house->norms[house->record_count][v] = record->norms[v];
    kept->norms = record->norm_count ? house->norms[house->record_count] : NULL;
    house->record_count++;
}

static void tell_recorder(struct house *house, enum weir_event_kind kind, const struct weir_message_body *body)
{
    struct weir_event event = {.kind = kind, .body = body, .text = ""};
    house->told.count = 0;
    weir_recorder_step(house->recorder, &event, &house->told);
    for (size_t i = 0; i < house->told.count; i++)
        keep_record(house, &house->told.list[i].body.record);
}

static void on_action(struct hostile *world, const struct weir_action *action)
{
    struct house *house = world->context;
    switch (action->kind) {
    case WEIR_DO_APPLY:
        assert_false(house->applying[action->chunk]);
        assert_int_equal(action->step, house->version[action->chunk]);
        house->applying[action->chunk] = true;
        break;
    case WEIR_DO_SUM:
        house->summing[action->chunk] = true;
        break;
    case WEIR_DO_SEND:
        if (action->body.type == WEIR_WEIGHTS && action->body.weights.part > 0) /* slots only once they rest */
            assert_false(house->applying[action->body.weights.chunk]);
        if (action->body.type == WEIR_WEIGHTS)
            assert_true(action->body.weights.version <= house->version[action->body.weights.chunk]);
        break;
    case WEIR_DO_TELL:
        if (action->actor == WEIR_ACTOR_NODE)
            house->failures++;
        if (action->actor == WEIR_ACTOR_RECORDER)
            tell_recorder(house, action->tell, &action->body);
        break;
    default:
        break;
    }
}

static void give(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    char text[WEIR_WAIT_BYTES];
    weir_ps_lane_step(core, event, actions);
    weir_ps_lane_waiting(core, text, sizeof text);
}

static uint64_t deadline(const void *core)
{
    return weir_ps_lane_deadline(core);
}

static bool admit(const void *core, const struct weir_hello *hello, uint32_t *peer)
{
    const char *reason = NULL;
    bool again, ok = weir_ps_lane_admit(core, hello, peer, &reason, &again);
    assert_true(ok || reason);
    return ok;
}

static const char *const worker_names[WORKERS] = {"worker/0", "worker/1"};
static const char *const server_names[SERVERS] = {"ps/0 at there", "ps/1 at there"};
static const uint32_t hosts[REPLICAS] = {0, 0, 1};

static struct hostile *new_lane(uint32_t seed, struct house *house, uint32_t self, bool gated)
{
    struct weir_layout layout = weir_layout_make(CHUNKS * ELEMENTS, ELEMENTS, SERVERS, 1);
    struct weir_view_chunk holders[CHUNKS], record_holders;
    weir_layout_hold(&layout, 1, holders, &record_holders);
    *house = (struct house){0};
    house->config = (struct weir_ps_lane_config){
        .incarnation = 7,
        .view = 1,
        .job_hash = "job",
        .numerics = "",
        .self = self,
        .workers = WORKERS,
        .observers = 2,
        .replicas = REPLICAS,
        .layout = layout,
        .gated = gated,
        .variables = gated ? 3 : 0,
        .pieces = pieces,
        .slots = 1,
        .copies = 1,
        .chunks = holders,
        .record = record_holders,
        .server_names = server_names,
        .chief_name = "chief/0",
        .worker_names = worker_names,
        .hosts = hosts,
        .start_timeout_ns = UINT64_MAX / 2,
        .patience_ns = UINT64_MAX / 2,
        .worker_incarnations = incarnations,
        .server_incarnations = incarnations,
        .chief_incarnation = 7,
    };
    struct hostile *world = hostile_world(seed, weir_ps_lane_actions_max(&house->config));
    struct weir_recorder_config recorder = {
        .replicas = REPLICAS,
        .hosts = hosts,
        .holders = holders,
        .schedule = {.steps_per_epoch = 2, .epochs = 2, .validation_rounds = 1, .learning_rate = .1},
    };
    if (gated) {
        recorder.schedule.gate = WEIR_GATE_CLIPNORM;
        recorder.schedule.clip = 1;
        recorder.schedule.pieces = all_pieces;
        recorder.schedule.piece_count = sizeof all_pieces / sizeof all_pieces[0];
        recorder.schedule.variables = 3;
    }
    house->told = rig_actions(&world->arena, WEIR_RECORDER_ACTIONS_MAX);
    house->recorder = weir_recorder_init(&world->arena, &recorder);
    world->core = weir_ps_lane_init(&world->arena, &house->config);
    world->give = give;
    world->deadline = deadline;
    world->admit = admit;
    world->act = on_action;
    world->context = house;
    world->peer_count = WORKERS + SERVERS + 1 + 2;
    world->chunks = CHUNKS;
    world->replicas = REPLICAS;
    world->nodes = 2;
    world->chunk_bytes = 4 * ELEMENTS;
    hostile_happens(world, WEIR_ON_START);
    if (self == 0)
        tell_recorder(house, WEIR_ON_START, NULL);
    return world;
}

/* Something inside of the process comes to its end. */
static void work(struct hostile *world)
{
    struct house *house = world->context;
    uint32_t chunk = hostile_below(world, CHUNKS);
    double squares[2] = {hostile_number(world), hostile_number(world)};
    if (house->record_count && hostile_below(world, 2)) {
        struct weir_message_body body = {.type = WEIR_RECORD};
        body.record = house->records[0];
        double norms[CHUNKS + 1];
        memcpy(norms, house->norms[0], sizeof norms);
        body.record.norms = body.record.norm_count ? norms : NULL;
        uint32_t rest = --house->record_count;
        for (uint32_t i = 0; i < rest; i++) {
            bool norm = house->records[i + 1].norm_count > 0;
            house->records[i] = house->records[i + 1];
            memcpy(house->norms[i], house->norms[i + 1], sizeof house->norms[i]);
            house->records[i].norms = norm ? house->norms[i] : NULL;
        }
        world->step = body.record.step;
        world->round = body.record.round;
        struct weir_event event = {.kind = WEIR_ON_RECORD, .body = &body};
        hostile_give(world, &event);
    } else if (house->applying[chunk]) {
        struct weir_event event = {.kind = WEIR_ON_APPLIED, .chunk = chunk};
        house->applying[chunk] = false;
        house->version[chunk]++;
        house->applies++;
        hostile_give(world, &event);
    } else if (house->summing[chunk]) {
        struct weir_event event = {
            .kind = WEIR_ON_SUMMED, .chunk = chunk, .numbers = squares, .number_count = pieces[chunk]};
        house->summing[chunk] = false;
        hostile_give(world, &event);
    }
}

/* Between all the lies, what an honest peer says: a contribution, a Seal, or Squares of the other server. */
static void honest(struct hostile *world)
{
    struct house *house = world->context;
    struct weir_message_body body;
    bool worker = hostile_below(world, 2) || house->config.self == 1;
    uint32_t peer = worker ? hostile_below(world, WORKERS) : WORKERS + 1;
    uint64_t lowest = house->version[1] < house->version[3] ? house->version[1] : house->version[3];
    if (world->peers[WORKERS].state == STREAM_CONNECTING) {
        hostile_answer(world, WORKERS, WEIR_NODE_PS);
        return;
    }
    if (house->config.self == 1 && world->peers[WORKERS].state == STREAM_OPEN && hostile_below(world, 4) == 0) {
        body = (struct weir_message_body){.type = WEIR_RECORD};
        body.record = (struct weir_record){.step = lowest + hostile_below(world, 2), .order = WEIR_ORDER_TRAIN};
        peer = WORKERS;
    } else if (world->peers[peer].state != STREAM_OPEN) {
        struct weir_hello hello = hostile_member(worker ? WEIR_NODE_WORKER : WEIR_NODE_PS, worker ? peer : 1);
        hostile_join(world, &hello);
        return;
    } else if (!worker) {
        uint32_t chunk = 2 * hostile_below(world, 2) + 1;
        body = (struct weir_message_body){.type = WEIR_PARTIAL};
        body.partial = (struct weir_partial){
            .step = world->step, .chunk = chunk, .squares = world->numbers, .square_count = pieces[chunk]};
    } else if (hostile_below(world, 2) && house->config.self == 0) {
        body = (struct weir_message_body){.type = WEIR_SEAL};
        body.seal =
            (struct weir_seal){.step = world->step, .round = world->round, .replica = hostile_below(world, REPLICAS)};
    } else {
        uint32_t chunk = 2 * hostile_below(world, 3 - house->config.self) + house->config.self;
        body = (struct weir_message_body){.type = WEIR_CONTRIBUTION};
        body.contribution =
            (struct weir_contribution){.step = house->version[chunk], .chunk = chunk, .level = 1, .index = peer};
    }
    hostile_say(world, peer, &body);
}

static void storm(uint32_t seeds, uint32_t self, bool gated)
{
    uint32_t failures = 0, applies = 0;
    for (uint32_t seed = 0; seed < seeds; seed++) {
        struct house house;
        struct hostile *world = new_lane(seed, &house, self, gated);
        for (int i = 0; i < 4000; i++) {
            if (hostile_below(world, 4) == 0)
                work(world);
            else if (i < 200 || hostile_below(world, 4) == 0)
                honest(world);
            else
                hostile_event(world);
        }
        assert_true(hostile_owned(world) <= CHUNKS * REPLICAS); /* the trees' */
        assert_true(house.failures <= 1);                       /* said once */
        failures += house.failures;
        applies += house.applies;
        hostile_free(world);
    }
    assert_true(applies > 0 && failures > 0); /* the storm got through to both */
}

static void no_peer_crashes_the_lane_with_the_record(void **state)
{
    (void)state;
    storm(60, 0, false);
}

static void no_peer_crashes_it_in_a_gated_job(void **state)
{
    (void)state;
    storm(60, 0, true);
}

static void no_peer_crashes_a_lane_that_follows_the_record(void **state)
{
    (void)state;
    storm(60, 1, false);
    storm(60, 1, true);
}

/* Observers come from outside of the cluster: whatever they say, they are cut off at most. */
static void no_observer_ends_or_changes_the_job(void **state)
{
    (void)state;
    for (uint32_t type = 1; type < WEIR_MESSAGE_TYPES; type++)
        for (uint32_t seed = 0; seed < 200; seed++) {
            struct house house;
            struct hostile *world = new_lane(seed, &house, seed % 2, seed / 2 % 2);
            struct weir_hello hello = hostile_member(WEIR_NODE_OBSERVER, 0);
            uint32_t peer = hostile_join(world, &hello);
            struct weir_message_body body = {.type = (enum weir_message_type)type};
            hostile_fill(world, &body);
            hostile_say(world, peer, &body);
            for (uint32_t r = 0; r < REPLICAS && type == WEIR_SEAL && world->peers[peer].state == STREAM_OPEN; r++) {
                body.seal = (struct weir_seal){.replica = r};
                hostile_say(world, peer, &body);
            }
            assert_int_equal(house.failures, 0);
            assert_int_equal(weir_recorder_newest(house.recorder)->step, 0);
            if (type != WEIR_FETCH)
                assert_true(world->peers[peer].state == STREAM_NONE || body.type == WEIR_CONTRIBUTION);
            hostile_free(world);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_peer_crashes_the_lane_with_the_record),
        cmocka_unit_test(no_peer_crashes_it_in_a_gated_job),
        cmocka_unit_test(no_peer_crashes_a_lane_that_follows_the_record),
        cmocka_unit_test(no_observer_ends_or_changes_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
