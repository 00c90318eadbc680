/* The lane core: whom it lets in, what it refuses from whom, and what a peer that comes back is told. */
#include "lane_rig.h"

static void members_of_the_view_are_let_in_and_nobody_else(void **state)
{
    (void)state;
    struct rig first = new_lane(0, 2), second = new_lane(1, 2);
    assert_true(admits(&first, hello_of(WEIR_NODE_WORKER, 0), 0));
    assert_true(admits(&first, hello_of(WEIR_NODE_WORKER, 1), 1));
    assert_true(admits(&first, hello_of(WEIR_NODE_PS, 1), WORKERS + 1));
    assert_true(admits(&first, hello_of(WEIR_NODE_CHIEF, 0), CHIEF));
    assert_true(admits(&first, hello_of(WEIR_NODE_OBSERVER, 500), OBSERVER));
    assert_false(admits(&first, hello_of(WEIR_NODE_WORKER, WORKERS), 0));
    assert_false(admits(&first, hello_of(WEIR_NODE_WORKER, UINT32_MAX), 0));
    assert_false(admits(&first, hello_of(WEIR_NODE_PS, SERVERS), 0));
    assert_false(admits(&first, hello_of(WEIR_NODE_PS, 0), 0));  /* itself */
    assert_false(admits(&second, hello_of(WEIR_NODE_PS, 0), 0)); /* it is the second that connects */
    struct weir_hello other = hello_of(WEIR_NODE_WORKER, 1);
    other.incarnation++;
    assert_false(admits(&first, other, 0));
    other = hello_of(WEIR_NODE_CHIEF, 0);
    other.incarnation++;
    assert_false(admits(&first, other, 0));
    for (uint32_t role = 0; role < WEIR_NODE_ROLES; role++) {
        other = hello_of((enum weir_node_role)role, 1);
        other.generation = 2;
        assert_false(admits(&first, other, 0));
        other = hello_of((enum weir_node_role)role, 1);
        other.job_hash = "jo";
        assert_false(admits(&first, other, 0));
    }
    weir_arena_free(&first.arena);
    weir_arena_free(&second.arena);
}

static void observers_are_let_in_as_long_as_there_is_room(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 2);
    for (uint32_t o = 0; o < 2; o++) {
        assert_true(admits(&rig, hello_of(WEIR_NODE_OBSERVER, 0), OBSERVER + o));
        greet(&rig, OBSERVER + o, hello_of(WEIR_NODE_OBSERVER, 0));
    }
    assert_false(admits(&rig, hello_of(WEIR_NODE_OBSERVER, 0), 0));
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = OBSERVER});
    assert_true(admits(&rig, hello_of(WEIR_NODE_OBSERVER, 0), OBSERVER));
    weir_arena_free(&rig.arena);
}

/* Which messages each kind of peer may send to the first server's lane: bits by type. */
static void each_peer_may_say_what_is_its_own(void **state)
{
    (void)state;
    const uint32_t fetch = 1u << WEIR_FETCH;
    const struct {
        uint32_t peer, allowed;
        struct weir_hello hello;
    } peers[] = {
        {1, fetch | 1u << WEIR_CONTRIBUTION | 1u << WEIR_SEAL, hello_of(WEIR_NODE_WORKER, 1)},
        {WORKERS + 1, fetch | 1u << WEIR_PARTIAL, hello_of(WEIR_NODE_PS, 1)},
        {CHIEF, fetch, hello_of(WEIR_NODE_CHIEF, 0)},
        {OBSERVER, fetch, hello_of(WEIR_NODE_OBSERVER, 0)},
    };
    for (size_t p = 0; p < sizeof peers / sizeof peers[0]; p++)
        for (uint32_t type = 1; type < WEIR_MESSAGE_TYPES; type++) {
            struct rig rig = new_lane(0, 2);
            struct weir_message_body body = {.type = (enum weir_message_type)type};
            if (type == WEIR_CONTRIBUTION)
                body.contribution = (struct weir_contribution){.generation = 3, .index = 1};
            if (type == WEIR_SEAL)
                body.seal.replica = 1;
            if (type == WEIR_PARTIAL)
                body.partial.chunk = 1;
            if (type == WEIR_REFUSED)
                body.refused.reason = "";
            greet(&rig, peers[p].peer, peers[p].hello);
            rig_say(&rig, peers[p].peer, body, type == WEIR_CONTRIBUTION ? 5 : 0);
            bool allowed = peers[p].allowed & 1u << type;
            assert_int_equal(count_asked(&rig, WEIR_DO_CLOSE), !allowed);
            bool member = peers[p].peer < CHIEF;
            uint32_t tells = count_asked(&rig, WEIR_DO_TELL); /* the recorder; or the node: a member ends the job */
            bool to_recorder = type == WEIR_SEAL || type == WEIR_PARTIAL;
            assert_int_equal(tells, allowed ? to_recorder : member);
            assert_int_equal(count_asked(&rig, WEIR_DO_RELEASE), type == WEIR_CONTRIBUTION && !allowed);
            weir_arena_free(&rig.arena);
        }
}

static void slots_are_sent_when_the_last_apply_is_done(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 1);
    struct weir_message_body fetch = {.type = WEIR_FETCH};
    fetch.fetch = (struct weir_fetch){.chunk = 0, .version = WEIR_NEWEST, .part = 1};
    greet(&rig, CHIEF, hello_of(WEIR_NODE_CHIEF, 0));
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = CHIEF});
    record(&rig, 0, WEIR_ORDER_TRAIN);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = CHIEF});
    cover(&rig, 0, 0);
    assert_int_equal(count_asked(&rig, WEIR_DO_APPLY), 1);
    rig_say(&rig, CHIEF, fetch, 0); /* it may have the stop record from another lane, before this one has it */
    assert_int_equal(rig.actions.count, 0);
    record(&rig, 1, WEIR_ORDER_STOP); /* all Seals were there; the apply still writes the slots */
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = CHIEF});
    assert_int_equal(count_sent(&rig, CHIEF, WEIR_WEIGHTS), 0);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_APPLIED, .chunk = 0});
    assert_int_equal(count_sent(&rig, CHIEF, WEIR_WEIGHTS), 1);
    weir_arena_free(&rig.arena);
}

static void the_stop_record_frees_fetches_of_slots_that_wait(void **state)
{
    (void)state;
    for (int from_recorder = 0; from_recorder < 2; from_recorder++) {
        struct rig rig = new_lane(1, 1);
        struct weir_message_body fetch = {.type = WEIR_FETCH}, stop = {.type = WEIR_RECORD};
        fetch.fetch = (struct weir_fetch){.chunk = 1, .part = 1};
        stop.record = (struct weir_record){.generation = 3, .order = WEIR_ORDER_STOP, .scale = 1};
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_OPENED, .peer = WORKERS});
        greet(&rig, WORKERS, hello_of(WEIR_NODE_PS, 0));
        greet(&rig, CHIEF, hello_of(WEIR_NODE_CHIEF, 0));
        rig_say(&rig, CHIEF, fetch, 0);
        assert_int_equal(rig.actions.count, 0);
        if (from_recorder)
            rig_say(&rig, WORKERS, stop, 0);
        else
            rig_give(&rig, (struct weir_event){.kind = WEIR_ON_RECORD, .body = &stop});
        assert_int_equal(count_sent(&rig, CHIEF, WEIR_WEIGHTS), 1);
        weir_arena_free(&rig.arena);
    }
}

static void a_worker_speaks_for_replicas_that_the_job_has(void **state)
{
    (void)state;
    static const struct weir_tree_node others[] = {{2, 0}, {0, 2}, {31, 0}, {5, UINT32_MAX}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct rig rig = new_lane(0, 1);
        contribute_node(&rig, 0, others[i], 0, 0);
        assert_int_equal(count_asked(&rig, WEIR_DO_CLOSE), 1);
        assert_int_equal(count_asked(&rig, WEIR_DO_RELEASE), 1);
        weir_arena_free(&rig.arena);
    }
    for (uint32_t replica = 0; replica < 4; replica++) {
        struct rig rig = new_lane(0, 1);
        struct weir_message_body body = {.type = WEIR_SEAL};
        body.seal.generation = 3;
        body.seal.replica = replica;
        rig_say(&rig, 1, body, 0);
        assert_int_equal(count_asked(&rig, WEIR_DO_CLOSE), replica >= 2);
        assert_int_equal(count_asked(&rig, WEIR_DO_TELL), 1); /* the recorder, or the node that the stream is cut off */
        weir_arena_free(&rig.arena);
    }
}

/* Worker 1 brings what worker 0 was to bring, whatever this lane's view says: it counts, once. */
static void a_server_speaks_for_its_own_chunks_only(void **state)
{
    (void)state;
    for (uint32_t chunk = 0; chunk < 2 * SERVERS + 1; chunk++) {
        struct rig rig = new_lane(0, 2);
        struct weir_message_body body = {.type = WEIR_PARTIAL};
        body.partial = (struct weir_partial){.generation = 3, .chunk = chunk};
        rig_say(&rig, WORKERS + 1, body, 0);
        bool own = chunk < 2 * SERVERS && chunk % SERVERS == 1;
        assert_int_equal(count_asked(&rig, WEIR_DO_CLOSE), !own);
        assert_int_equal(count_asked(&rig, WEIR_DO_TELL), 1); /* the recorder; or the node: a member ends the job */
        weir_arena_free(&rig.arena);
    }
}

static void another_process_in_the_recorders_place_ends_the_job(void **state)
{
    (void)state;
    struct rig rig = new_lane(1, 1);
    struct weir_hello restarted = hello_of(WEIR_NODE_PS, 0);
    restarted.incarnation++;
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_OPENED, .peer = WORKERS});
    greet(&rig, WORKERS, restarted);
    assert_int_equal(count_asked(&rig, WEIR_DO_TELL), 1); /* the node: this server can't go on */
    weir_arena_free(&rig.arena);
}

static void fetches_are_bounded(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 1);
    struct weir_message_body fetch = {.type = WEIR_FETCH};
    fetch.fetch = (struct weir_fetch){.chunk = 0, .version = 100};
    greet(&rig, OBSERVER, hello_of(WEIR_NODE_OBSERVER, 0));
    for (uint32_t i = 0; i < WEIR_FETCHES_MAX; i++) {
        rig_say(&rig, OBSERVER, fetch, 0);
        assert_int_equal(rig.actions.count, 0); /* it waits */
    }
    rig_say(&rig, OBSERVER, fetch, 0);
    assert_int_equal(count_asked(&rig, WEIR_DO_CLOSE), 1);
    weir_arena_free(&rig.arena);
}

/* Says Hello as worker 1, holding `held` of chunk 0, and counts what it is sent. */
static uint32_t weights_for(struct rig *rig, bool holds, uint64_t version)
{
    struct weir_held held = {.chunk = 0, .version = version};
    struct weir_hello hello = hello_of(WEIR_NODE_WORKER, 1);
    hello.held = &held;
    hello.held_count = holds;
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 1});
    greet(rig, 1, hello);
    uint32_t count = 0;
    for (int i = 0; i < 8; i++) {
        count += count_sent(rig, 1, WEIR_WEIGHTS);
        rig_give(rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = 1});
    }
    return count;
}

static void who_comes_back_is_sent_the_live_versions_that_it_lacks(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 1);
    assert_int_equal(weights_for(&rig, false, 0), 1);
    assert_int_equal(weights_for(&rig, true, 0), 0);
    for (uint64_t step = 0; step < 2; step++) {
        record(&rig, step, WEIR_ORDER_TRAIN);
        cover(&rig, 0, step);
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_APPLIED, .chunk = 0});
    }
    assert_int_equal(weights_for(&rig, false, 0), 2); /* versions 1 and 2 live */
    assert_int_equal(weights_for(&rig, true, 0), 2);
    assert_int_equal(weights_for(&rig, true, 1), 1);
    assert_int_equal(weights_for(&rig, true, 2), 0);
    weir_arena_free(&rig.arena);
}

static void who_lacks_two_records_is_sent_both(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 1);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    record(&rig, 1, WEIR_ORDER_TRAIN);
    greet(&rig, WORKERS + 1, hello_of(WEIR_NODE_PS, 1));
    uint32_t count = count_sent(&rig, WORKERS + 1, WEIR_RECORD);
    for (int i = 0; i < 4; i++) {
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = WORKERS + 1});
        count += count_sent(&rig, WORKERS + 1, WEIR_RECORD);
    }
    assert_int_equal(count, 2);
    weir_arena_free(&rig.arena);
}

/* Returns the wait's step. */
static uint64_t waits_for(const struct rig *rig, const char *expected)
{
    char text[WEIR_WAIT_BYTES];
    uint64_t step = weir_ps_lane_waiting(rig->core, text, sizeof text);
    assert_string_equal(text, expected);
    return step;
}

static void a_lane_names_the_worker_whose_contribution_is_missing(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 2);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    waits_for(&rig, "worker/0 at a: its contribution to step 0 (chunk 2, lane 0, not connected; and 1 more)");
    greet(&rig, 0, hello_of(WEIR_NODE_WORKER, 0));
    greet(&rig, 1, hello_of(WEIR_NODE_WORKER, 1));
    contribute(&rig, 0, 2, 0);
    waits_for(&rig, "worker/1 at b: its contribution to step 0 (chunk 2, lane 0)");
    contribute(&rig, 1, 2, 0);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_APPLIED, .chunk = 2});
    record(&rig, 1, WEIR_ORDER_TRAIN);
    contribute(&rig, 1, 0, 0); /* the older step is what holds up the others */
    waits_for(&rig, "worker/0 at a: its contribution to step 0 (chunk 0, lane 0)");
    weir_arena_free(&rig.arena);
}

static void a_lane_names_who_makes_the_record_then_the_chief(void **state)
{
    (void)state;
    struct rig rig = new_lane(1, 1);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
    waits_for(&rig, "ps/0: a connection (lane 0: no answer)");
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_OPENED, .peer = WORKERS});
    greet(&rig, WORKERS, hello_of(WEIR_NODE_PS, 0));
    waits_for(&rig, "ps/0: its first record (lane 0)");
    record(&rig, 0, WEIR_ORDER_TRAIN);
    greet(&rig, 0, hello_of(WEIR_NODE_WORKER, 0));
    cover(&rig, 1, 0);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_APPLIED, .chunk = 1});
    waits_for(&rig, "ps/0: the record of step 1 (chunk 1, lane 0)");
    record(&rig, 1, WEIR_ORDER_EVALUATE);
    waits_for(&rig, "");
    record(&rig, 1, WEIR_ORDER_STOP);
    weir_arena_free(&rig.arena);
    rig = new_lane(0, 1);
    record(&rig, 1, WEIR_ORDER_STOP);
    /* Of the last version: a lane that lacks contributions to the step before it comes first. */
    assert_int_equal(waits_for(&rig, "chief/0 at c: the end of the job (training is over)"), 1);
    weir_arena_free(&rig.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_names_the_worker_whose_contribution_is_missing),
        cmocka_unit_test(a_lane_names_who_makes_the_record_then_the_chief),
        cmocka_unit_test(members_of_the_view_are_let_in_and_nobody_else),
        cmocka_unit_test(observers_are_let_in_as_long_as_there_is_room),
        cmocka_unit_test(each_peer_may_say_what_is_its_own),
        cmocka_unit_test(slots_are_sent_when_the_last_apply_is_done),
        cmocka_unit_test(the_stop_record_frees_fetches_of_slots_that_wait),
        cmocka_unit_test(a_worker_speaks_for_replicas_that_the_job_has),
        cmocka_unit_test(a_server_speaks_for_its_own_chunks_only),
        cmocka_unit_test(another_process_in_the_recorders_place_ends_the_job),
        cmocka_unit_test(fetches_are_bounded),
        cmocka_unit_test(who_comes_back_is_sent_the_live_versions_that_it_lacks),
        cmocka_unit_test(who_lacks_two_records_is_sent_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
