/* What a worker says that it waits for. */
#include "../protocol/rig.h"

#include "worker/exchange.h"
#include "worker/worker.h"

#define SERVERS 2
#define CHUNKS 8 /* four at each server */
#define ELEMENTS 10
#define CREDIT 2

static const uint64_t incarnations[SERVERS] = {11, 12};
static const char *const servers[SERVERS] = {"ps/0 at a:1", "ps/1 at b:1"};

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_exchange_step(core, event, actions);
}

static const uint32_t hosts[1] = {0};

static struct rig new_exchange(void)
{
    struct weir_exchange_config config = {
        .incarnation = 7,
        .view = 1,
        .job_hash = "job",
        .numerics = "",
        .replicas = 1,
        .hosts = hosts,
        .layout = weir_layout_make(CHUNKS * ELEMENTS, ELEMENTS, SERVERS, 1),
        .credit = CREDIT,
        .server_names = servers,
        .server_incarnations = incarnations,
        .chief_name = "chief/0 at c:1",
        .start_timeout_ns = UINT64_MAX / 2,
        .patience_ns = UINT64_MAX / 2,
    };
    struct rig rig = {.step = step, .chunk_bytes = 4 * ELEMENTS};
    rig.actions = rig_actions(&rig.arena, weir_exchange_actions_max(&config));
    rig.core = weir_exchange_init(&rig.arena, &config);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
    return rig;
}

static void waits_for(const struct rig *rig, const char *expected)
{
    char text[WEIR_WAIT_BYTES];
    weir_exchange_waiting(rig->core, text, sizeof text);
    assert_string_equal(text, expected);
}

static void connect(struct rig *rig, uint32_t server)
{
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_OPENED, .peer = server});
    struct weir_message_body hello = {.type = WEIR_HELLO};
    hello.hello = (struct weir_hello){.role = WEIR_NODE_PS, .incarnation = incarnations[server], .job_hash = "job"};
    rig_say(rig, server, hello, 0);
}

static void weights(struct rig *rig, uint32_t server, uint64_t version)
{
    for (uint32_t chunk = server; chunk < CHUNKS; chunk += SERVERS) {
        struct weir_message_body body = {.type = WEIR_WEIGHTS};
        body.weights = (struct weir_weights){.chunk = chunk, .version = version};
        rig_say(rig, server, body, 1);
    }
}

static void record(struct rig *rig, uint64_t step, enum weir_order order)
{
    struct weir_message_body body = {.type = WEIR_RECORD};
    body.record = (struct weir_record){.step = step, .order = order, .scale = 1};
    rig_say(rig, 0, body, 0);
}

/* The worker has computed a step; all that can be sent is taken by the transport. */
static void compute(struct rig *rig, uint64_t step)
{
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_READY, .step = step, .replicas = hosts, .replica_count = 1});
    struct weir_message_body body = {.type = WEIR_SEAL};
    body.seal = (struct weir_seal){.step = step};
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_SEAL, .body = &body});
    for (int i = 0; i < 10; i++)
        for (uint32_t server = 0; server < SERVERS; server++)
            rig_give(rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = server});
}

static void covered(struct rig *rig, uint32_t chunk, uint64_t step)
{
    struct weir_message_body body = {.type = WEIR_COVERED};
    body.covered = (struct weir_covered){.step = step, .chunk = chunk};
    rig_say(rig, chunk % SERVERS, body, 0);
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = chunk % SERVERS});
}

static struct rig in_step_0(void)
{
    struct rig rig = new_exchange();
    connect(&rig, 0);
    connect(&rig, 1);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    weights(&rig, 0, 0);
    weights(&rig, 1, 0);
    return rig;
}

static void a_connection(void **state)
{
    (void)state;
    struct rig rig = new_exchange();
    waits_for(&rig, "ps/0 at a:1: a connection (lane 0: no answer)");
    connect(&rig, 0);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 1, .text = "connection refused"});
    record(&rig, 0, WEIR_ORDER_TRAIN);
    weights(&rig, 0, 0);
    waits_for(&rig, "ps/1 at b:1: a connection (lane 0: connection refused)");
    weir_arena_free(&rig.arena);
}

static void the_first_weights_and_record(void **state)
{
    (void)state;
    struct rig rig = new_exchange();
    connect(&rig, 0);
    connect(&rig, 1);
    waits_for(&rig, "ps/0 at a:1: its first weights (chunk 6, lane 0)");
    weights(&rig, 0, 0);
    waits_for(&rig, "ps/1 at b:1: weights of version 0 (chunk 7, lane 0)");
    weights(&rig, 1, 0);
    waits_for(&rig, "ps/0 at a:1: its first record");
    record(&rig, 0, WEIR_ORDER_TRAIN);
    waits_for(&rig, ""); /* it computes */
    weir_arena_free(&rig.arena);
}

static void first_weights_of_another_version_than_the_records(void **state)
{
    (void)state;
    struct rig rig = new_exchange();
    connect(&rig, 0);
    connect(&rig, 1);
    weights(&rig, 0, 3);
    weights(&rig, 1, 2);
    waits_for(&rig, "ps/1 at b:1: weights of version 3 (chunk 7, lane 0; version 2 is here)");
    record(&rig, 4, WEIR_ORDER_TRAIN);
    waits_for(&rig, "ps/0 at a:1: weights of version 4 (chunk 6, lane 0; version 3 is here)");
    weir_arena_free(&rig.arena);
    rig = new_exchange();
    connect(&rig, 0);
    connect(&rig, 1);
    weights(&rig, 0, 3);
    weights(&rig, 1, 3);
    record(&rig, 2, WEIR_ORDER_TRAIN);
    waits_for(&rig, "ps/0 at a:1: the record of step 3 (that of step 2 is here)");
    weir_arena_free(&rig.arena);
}

static void room_to_send_then_covered_then_weights_then_the_record(void **state)
{
    (void)state;
    struct rig rig = in_step_0();
    compute(&rig, 0);
    waits_for(&rig, "ps/0 at a:1: word that it has all contributions to step 0 of the chunks sent (chunk 6, lane 0)");
    for (uint32_t chunk = CHUNKS; chunk-- > 1;)
        covered(&rig, chunk, 0);
    waits_for(&rig, "ps/0 at a:1: weights of version 1 (chunk 6, lane 0; version 0 is here)");
    weights(&rig, 0, 1);
    waits_for(&rig, "ps/1 at b:1: weights of version 1 (chunk 7, lane 0; version 0 is here)");
    weights(&rig, 1, 1);
    waits_for(&rig, "ps/0 at a:1: the record that follows step 0, round 0");
    record(&rig, 1, WEIR_ORDER_STOP);
    waits_for(&rig, "chief/0 at c:1: the end of the job (training is over)");
    weir_arena_free(&rig.arena);
}

static void a_peer_that_does_not_read(void **state)
{
    (void)state;
    struct rig rig = in_step_0();
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = 0}); /* Hello */
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = 1});
    rig_give(&rig,
             (struct weir_event){
                 .kind = WEIR_ON_READY, .step = 0, .offset = 6 * ELEMENTS, .replicas = hosts, .replica_count = 1});
    waits_for(&rig, "");
    weir_arena_free(&rig.arena);
    rig = in_step_0();
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_READY, .step = 0, .replicas = hosts, .replica_count = 1});
    waits_for(&rig, "ps/0 at a:1: to take contributions to step 0 (chunk 6, lane 0)");
    weir_arena_free(&rig.arena);
}

static void a_record_of_another_step_than_the_lanes_hold(void **state)
{
    (void)state;
    struct weir_arena arena = {0};
    struct weir_worker_config config = {
        .lanes = 2,
        .replicas = 1,
        .hosts = hosts,
        .layout = weir_layout_make(CHUNKS * ELEMENTS, ELEMENTS, SERVERS, 2),
        .server_names = servers,
    };
    struct weir_action list[WEIR_WORKER_ACTIONS_MAX];
    struct weir_actions actions = {list, 0, WEIR_WORKER_ACTIONS_MAX};
    struct weir_worker *worker = weir_worker_init(&arena, &config);
    struct weir_message_body body = {.type = WEIR_RECORD};
    struct weir_event events[] = {{.kind = WEIR_ON_HOLDS, .lane = 0, .step = 5},
                                  {.kind = WEIR_ON_HOLDS, .lane = 1, .step = 4},
                                  {.kind = WEIR_ON_RECORD, .body = &body}};
    char text[WEIR_WAIT_BYTES];
    body.record = (struct weir_record){.step = 5, .order = WEIR_ORDER_TRAIN};
    for (int i = 0; i < 3; i++) {
        weir_worker_waiting(worker, text, sizeof text);
        assert_string_equal(text, ""); /* the lanes say what is missing */
        weir_worker_step(worker, &events[i], &actions);
    }
    weir_worker_waiting(worker, text, sizeof text);
    assert_string_equal(text,
                        "ps/0 at a:1, ps/1 at b:1: weights of version 5, as the record says (lane 1 has version 4)");
    events[1].step = 5;
    weir_worker_step(worker, &events[1], &actions);
    weir_worker_waiting(worker, text, sizeof text);
    assert_string_equal(text, "");
    weir_worker_waiting(worker, text, 1); /* any room will do */
    weir_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection),
        cmocka_unit_test(the_first_weights_and_record),
        cmocka_unit_test(first_weights_of_another_version_than_the_records),
        cmocka_unit_test(room_to_send_then_covered_then_weights_then_the_record),
        cmocka_unit_test(a_peer_that_does_not_read),
        cmocka_unit_test(a_record_of_another_step_than_the_lanes_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
