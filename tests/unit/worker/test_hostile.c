/* No server can make a worker's exchange, or the worker behind it, crash or lose a payload. */
#include "../protocol/hostile.h"

#include "worker/exchange.h"
#include "worker/worker.h"

#define SERVERS 2
#define CHUNKS 5
#define ELEMENTS 10
#define ROOM 64

/* The rest of the worker's process: its core, and the computation. */
#define REPLICAS 5

struct house {
    struct weir_exchange_config config;
    struct weir_worker *worker;
    struct weir_actions told; /* the worker's */
    uint64_t version[CHUNKS];
    struct weir_record record; /* that is computed */
    uint32_t part, replicas[REPLICAS], replica_count;
    uint32_t left; /* pieces of the computation to come; 0: none runs */
    uint32_t computed, failures;
};

static void tell_worker(struct house *house, struct weir_event *event)
{
    event->text = "";
    house->told.count = 0;
    weir_worker_step(house->worker, event, &house->told);
    for (size_t i = 0; i < house->told.count; i++) {
        assert_int_equal(house->told.list[i].kind, WEIR_DO_COMPUTE);
        assert_int_equal(house->left, 0);
        house->record = house->told.list[i].body.record;
        house->part = house->told.list[i].part;
        house->replica_count = (uint32_t)house->told.list[i].replica_count;
        memcpy(house->replicas, house->told.list[i].replicas, house->replica_count * sizeof(uint32_t));
        house->left = 3;
    }
}

static void on_action(struct hostile *world, const struct weir_action *action)
{
    struct house *house = world->context;
    if (action->kind == WEIR_DO_STORE)
        house->version[action->chunk] = action->step;
    if (action->kind != WEIR_DO_TELL)
        return;
    house->failures += action->actor == WEIR_ACTOR_NODE;
    if (action->actor != WEIR_ACTOR_WORKER)
        return;
    struct weir_event event = {.kind = action->tell, .lane = action->lane, .step = action->step, .body = &action->body};
    tell_worker(house, &event);
}

static void give(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    char text[WEIR_WAIT_BYTES];
    weir_exchange_step(core, event, actions);
    weir_exchange_waiting(core, text, sizeof text);
}

static uint64_t deadline(const void *core)
{
    return weir_exchange_deadline(core);
}

static struct hostile *new_exchange(uint32_t seed, struct house *house)
{
    static const char *const names[] = {"ps/0 at here", "ps/1 at there"};
    static const uint64_t incarnations[] = {7, 7};
    static const uint32_t hosts[REPLICAS] = {0, 0, 0, 1, 1};
    *house = (struct house){0};
    house->config = (struct weir_exchange_config){
        .incarnation = 7,
        .view = 1,
        .job_hash = "job",
        .numerics = "",
        .self = 0,
        .replicas = REPLICAS,
        .hosts = hosts,
        .layout = weir_layout_make(CHUNKS * ELEMENTS, ELEMENTS, SERVERS, 1),
        .credit = 2,
        .server_names = names,
        .server_incarnations = incarnations,
        .chief_name = "chief/0",
        .start_timeout_ns = UINT64_MAX / 2,
        .patience_ns = UINT64_MAX / 2,
    };
    struct hostile *world = hostile_world(seed, weir_exchange_actions_max(&house->config));
    struct weir_worker_config worker = {.lanes = 1, .replicas = REPLICAS, .hosts = hosts};
    house->told = rig_actions(&world->arena, WEIR_WORKER_ACTIONS_MAX);
    house->worker = weir_worker_init(&world->arena, &worker);
    world->core = weir_exchange_init(&world->arena, &house->config);
    world->give = give;
    world->deadline = deadline;
    world->act = on_action;
    world->context = house;
    world->peer_count = SERVERS;
    world->chunks = CHUNKS;
    world->replicas = REPLICAS;
    world->nodes = 2;
    world->chunk_bytes = 4 * ELEMENTS;
    hostile_happens(world, WEIR_ON_START);
    return world;
}

/* The computation goes on: gradients in two parts, then the end, then the Seals. */
static void compute(struct hostile *world)
{
    struct house *house = world->context;
    bool train = house->record.order == WEIR_ORDER_TRAIN;
    struct weir_event ready = {.kind = WEIR_ON_READY,
                               .step = house->record.step,
                               .part = house->part,
                               .replicas = house->replicas,
                               .replica_count = house->replica_count};
    ready.offset = house->left == 3 ? 2 * ELEMENTS : 0;
    if (--house->left > 0) {
        if (train)
            hostile_give(world, &ready);
        return;
    }
    struct weir_event done = {.kind = WEIR_ON_COMPUTED, .step = house->record.step, .round = house->record.round};
    struct weir_record sealed = house->record;
    uint32_t count = house->replica_count, list[REPLICAS];
    memcpy(list, house->replicas, sizeof list);
    tell_worker(house, &done);
    for (uint32_t i = 0; i < count; i++) {
        struct weir_message_body body = {.type = WEIR_SEAL};
        body.seal = (struct weir_seal){.step = sealed.step, .round = sealed.round, .replica = list[i]};
        struct weir_event seal = {.kind = WEIR_ON_SEAL, .body = &body};
        hostile_give(world, &seal);
    }
    house->computed++;
    world->step = sealed.step;
}

/* What an honest server says: the next record, or the next version of a chunk. */
static void honest(struct hostile *world)
{
    struct house *house = world->context;
    uint32_t server = hostile_below(world, SERVERS), chunk = 2 * hostile_below(world, 3 - server) + server;
    struct weir_message_body body = {.type = WEIR_WEIGHTS};
    if (world->peers[server].state == STREAM_CONNECTING)
        hostile_answer(world, server, WEIR_NODE_PS);
    if (world->peers[server].state != STREAM_OPEN)
        return;
    if (server > 0 || hostile_below(world, 2)) {
        bool next = house->computed > 0 && house->left == 0;
        body.weights = (struct weir_weights){.chunk = chunk, .version = house->version[chunk] + next};
    } else {
        body = (struct weir_message_body){.type = WEIR_RECORD};
        body.record =
            (struct weir_record){.step = house->record.step + (house->computed > 0), .order = WEIR_ORDER_TRAIN};
    }
    hostile_say(world, server, &body);
}

static void no_server_crashes_a_worker(void **state)
{
    (void)state;
    uint32_t computed = 0, failures = 0;
    for (uint32_t seed = 0; seed < 1500; seed++) {
        struct house house;
        struct hostile *world = new_exchange(seed, &house);
        uint32_t peace = hostile_below(world, 300);
        for (uint32_t i = 0; i < 600; i++) {
            if (house.left > 0 && hostile_below(world, 3) == 0)
                compute(world);
            else if (i < peace || hostile_below(world, 4) == 0)
                honest(world);
            else
                hostile_event(world);
        }
        assert_int_equal(hostile_owned(world), 0);
        assert_true(house.failures <= 1);
        computed += house.computed;
        failures += house.failures;
        hostile_free(world);
    }
    print_message("%u computed, %u failures\n", computed, failures);
    assert_true(computed > 1500 && failures > 500); /* the storm got through to both */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_server_crashes_a_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
