/* Workers that go and come while a job trains: who takes their place, who is taken back, who is not, and when the job
 * is over. */
#include "../protocol/rig.h"

#include "chief/chief.h"

#define SERVERS 1
#define WORKERS 3
#define MEMBERS (SERVERS + WORKERS)
#define REPLICAS 4
#define MS UINT64_C(1000000)
#define LEASE_NS (5000 * MS)
#define START_NS (60000 * MS)

static const struct weir_chief_member members[MEMBERS] = {
    {WEIR_NODE_PS, 0, "ps/0 at a", ""},
    {WEIR_NODE_WORKER, 0, "worker/0 at b", ""},
    {WEIR_NODE_WORKER, 1, "worker/1 at c", ""},
    {WEIR_NODE_WORKER, 2, "worker/2 at d", ""},
};

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_event at = *event;
    static uint64_t offset;
    if (event->kind == WEIR_ON_START)
        offset = 0;
    offset += event->offset; /* a test passes time by it */
    at.now_ns = event->now_ns + offset;
    at.offset = 0;
    weir_chief_step(core, &at, actions);
}

static struct weir_hello hello_of(uint32_t worker, uint64_t incarnation)
{
    return (struct weir_hello){.role = WEIR_NODE_WORKER,
                               .index = worker,
                               .incarnation = incarnation,
                               .job_hash = "job",
                               .numerics = "",
                               .address = "",
                               .canonical = "",
                               .train_samples = 60};
}

static void arrive(struct rig *rig, uint32_t member, struct weir_hello hello)
{
    struct weir_message_body body = {.type = WEIR_HELLO, .hello = hello};
    rig_say(rig, member, body, 0);
}

static struct rig new_chief_of(uint32_t min_workers)
{
    struct weir_chief_config config = {
        .hello = {.role = WEIR_NODE_CHIEF, .incarnation = 7, .job_hash = "job", .numerics = "", .address = ""},
        .name = "chief/0",
        .members = members,
        .servers = SERVERS,
        .workers = WORKERS,
        .replicas = REPLICAS,
        .min_workers = min_workers,
        .copies = 1,
        .layout = weir_layout_make(30, 10, SERVERS, 1),
        .train_samples_min = 10,
        .start_timeout_ns = START_NS,
        .lease_ns = LEASE_NS,
        .heartbeat_ns = 100 * MS,
        .elastic = true,
    };
    struct rig rig = {.step = step};
    rig.actions = rig_actions(&rig.arena, weir_chief_actions_max(&config));
    rig.core = weir_chief_init(&rig.arena, &config);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
    struct weir_hello ps = hello_of(0, 1);
    ps.role = WEIR_NODE_PS;
    arrive(&rig, 0, ps);
    for (uint32_t w = 0; w < WORKERS; w++)
        arrive(&rig, SERVERS + w, hello_of(w, 10 + w));
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_TRAINING);
    return rig;
}

static struct rig new_chief(void)
{
    return new_chief_of(1);
}

/* The view that went out in the newest step, to ps/0; NULL: none. */
static const struct weir_view *view(const struct rig *rig)
{
    for (size_t i = 0; i < rig->actions.count; i++)
        if (rig->actions.list[i].kind == WEIR_DO_SEND && rig->actions.list[i].peer == 0 &&
            rig->actions.list[i].body.type == WEIR_VIEW)
            return &rig->actions.list[i].body.view;
    return NULL;
}

static bool refused(const struct rig *rig, uint32_t member)
{
    for (size_t i = 0; i < rig->actions.count; i++)
        if (rig->actions.list[i].kind == WEIR_DO_SEND && rig->actions.list[i].peer == member &&
            rig->actions.list[i].body.type == WEIR_REFUSED)
            return true;
    return false;
}

static void hosts_are(const struct rig *rig, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const struct weir_view *newest = view(rig);
    const uint32_t expected[REPLICAS] = {a, b, c, d};
    assert_non_null(newest);
    assert_int_equal(newest->state, WEIR_VIEW_RUNNING);
    assert_memory_equal(newest->hosts, expected, sizeof expected);
}

static void beat(struct rig *rig, uint32_t member, const char *error)
{
    struct weir_message_body body = {.type = WEIR_HEARTBEAT};
    body.heartbeat = (struct weir_heartbeat){.error = error, .waiting = "", .numerics = ""};
    rig_say(rig, member, body, 0);
}

/* All but one say that they live, for that long. */
static void pass(struct rig *rig, uint64_t duration, uint32_t silent)
{
    for (uint64_t passed = 0; passed < duration; passed += 50 * MS) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            if (m != silent)
                beat(rig, m, "");
        rig_give(rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
        if (view(rig))
            return;
    }
}

static void a_silent_worker_is_replaced_and_taken_back(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    pass(&rig, 2 * LEASE_NS, 2);
    hosts_are(&rig, 0, 0, 2, 2);
    assert_int_equal(view(&rig)->nodes[3].incarnation, 0);
    assert_int_equal(view(&rig)->number, 2);
    beat(&rig, 2, ""); /* it was only slow */
    hosts_are(&rig, 0, 0, 1, 2);
    assert_int_equal(view(&rig)->nodes[3].incarnation, 11);
    weir_arena_free(&rig.arena);
}

static void a_worker_that_fails_may_go(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    beat(&rig, 1, "worker/0 at b: no memory");
    assert_true(refused(&rig, 1));
    hosts_are(&rig, 1, 1, 2, 2);
    beat(&rig, 1, "worker/0 at b: no memory"); /* it has not heard it yet */
    assert_true(refused(&rig, 1));
    assert_null(view(&rig));
    weir_arena_free(&rig.arena);
}

static void a_new_process_takes_the_place_and_the_old_one_stays_out(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    struct weir_hello again = hello_of(1, 99), old = hello_of(1, 11);
    uint32_t peer;
    const char *reason;
    bool differs;
    assert_true(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "replaced"});
    arrive(&rig, 2, again);
    hosts_are(&rig, 0, 0, 1, 2);
    assert_int_equal(view(&rig)->nodes[3].incarnation, 99);
    assert_false(weir_chief_admit(rig.core, &old, &peer, &reason, &differs));
    assert_non_null(strstr(reason, "another process has that role"));
    weir_arena_free(&rig.arena);
}

static void other_data_than_the_jobs_is_refused(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    struct weir_hello again = hello_of(1, 99);
    uint32_t peer;
    const char *reason;
    bool differs;
    again.train_samples = 61;
    assert_false(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
    assert_non_null(strstr(reason, "data set"));
    weir_arena_free(&rig.arena);
}

/* However quickly it comes back each time. */
static void one_that_keeps_dying_is_given_up(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    uint32_t peer;
    const char *reason;
    bool differs;
    uint64_t incarnation = 100;
    for (int i = 0; i < WEIR_CHIEF_RESTARTS_MAX; i++) {
        struct weir_hello again = hello_of(1, ++incarnation);
        assert_true(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
        arrive(&rig, 2, again);
    }
    struct weir_hello again = hello_of(1, ++incarnation);
    assert_false(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
    assert_non_null(strstr(reason, "given up"));
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_TRAINING);
    for (uint64_t passed = 0; passed < WEIR_CHIEF_RESTARTS_NS; passed += 50 * MS) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            beat(&rig, m, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    }
    assert_true(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
    weir_arena_free(&rig.arena);
}

/* Its process is gone, as a rule: silence alone is given more time. */
static void a_broken_stream_is_a_loss_sooner_than_silence(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    uint64_t passed = 0;
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 1, .text = "connection reset"});
    for (; !view(&rig) && passed < LEASE_NS; passed += 50 * MS) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            if (m != 1)
                beat(&rig, m, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    }
    hosts_are(&rig, 1, 1, 2, 2);
    assert_true(passed >= WEIR_CHIEF_BROKEN_HEARTBEATS * 100 * MS && passed < LEASE_NS / 2);
    weir_arena_free(&rig.arena);
}

static void where_all_are_given_up_the_job_ends(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    uint64_t incarnation = 100;
    for (int i = 0; i < WEIR_CHIEF_RESTARTS_MAX; i++)
        for (uint32_t w = 0; w < WORKERS; w++) {
            rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = SERVERS + w, .text = "reset"});
            arrive(&rig, SERVERS + w, hello_of(w, ++incarnation));
        }
    for (uint32_t m = SERVERS; m < MEMBERS; m++)
        beat(&rig, m, "worker: no memory");
    beat(&rig, 0, "");
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 100 * MS});
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_FAILING);
    assert_non_null(
        strstr(view(&rig)->reason, "0 of at least 1 workers are there, and others were started again too often"));
    weir_arena_free(&rig.arena);
}

static void without_workers_it_waits_but_not_for_ever(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    for (uint32_t m = SERVERS; m < MEMBERS; m++)
        beat(&rig, m, "worker: told to stop");
    hosts_are(&rig, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST);
    uint64_t passed = 0;
    while (weir_chief_state(rig.core) == WEIR_CHIEF_TRAINING) {
        beat(&rig, 0, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
        passed += 50 * MS;
        assert_true(passed <= 2 * START_NS);
        if (passed == 5000 * MS)
            assert_string_equal(weir_chief_waiting(rig.core),
                                "worker/0 at b, worker/1 at c, worker/2 at d: to come back "
                                "(0 of at least 1 workers are there)");
    }
    assert_true(passed >= START_NS);
    assert_non_null(strstr(view(&rig)->reason, "no other one came back within start_timeout_s"));
    weir_arena_free(&rig.arena);
}

/* Who is there computes nothing meanwhile. */
static void below_the_minimum_it_waits(void **state)
{
    (void)state;
    struct rig rig = new_chief_of(2);
    beat(&rig, 1, "worker/0 at b: no memory");
    hosts_are(&rig, 1, 1, 2, 2);
    beat(&rig, 2, "worker/1 at c: no memory");
    hosts_are(&rig, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST);
    assert_int_equal(view(&rig)->nodes[4].incarnation, 12);
    for (uint64_t passed = 0; passed < 3000 * MS; passed += 50 * MS) {
        beat(&rig, 0, "");
        beat(&rig, 3, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    }
    assert_string_equal(weir_chief_waiting(rig.core), "worker/0 at b, worker/1 at c: to come back "
                                                      "(1 of at least 2 workers are there)");
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
    arrive(&rig, 2, hello_of(1, 99));
    hosts_are(&rig, 1, 1, 2, 2);
    weir_arena_free(&rig.arena);
}

/* Where the others may still come, those that were given up do not end the job; silence alone gives nobody up. */
static void who_is_only_silent_is_not_given_up(void **state)
{
    (void)state;
    struct rig rig = new_chief_of(3);
    uint64_t incarnation = 100;
    for (int i = 0; i < WEIR_CHIEF_RESTARTS_MAX; i++) {
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
        arrive(&rig, 2, hello_of(1, ++incarnation));
    }
    for (uint64_t passed = 0; passed < 2 * LEASE_NS; passed += 50 * MS) {
        beat(&rig, 0, "");
        beat(&rig, 1, "");
        beat(&rig, 3, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    }
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_TRAINING);
    beat(&rig, 2, "");
    hosts_are(&rig, 0, 0, 1, 2);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
    for (uint64_t passed = 0; passed < 2 * LEASE_NS && weir_chief_state(rig.core) == WEIR_CHIEF_TRAINING;
         passed += 50 * MS) {
        beat(&rig, 0, "");
        beat(&rig, 1, "");
        beat(&rig, 3, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    }
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_FAILING);
    assert_non_null(strstr(view(&rig)->reason, "2 of at least 3 workers are there, and others were started again"));
    weir_arena_free(&rig.arena);
}

/* ---- workers that are told to go */

static void say_drained(struct rig *rig, uint32_t member, uint64_t at, uint32_t round)
{
    struct weir_message_body body = {.type = WEIR_HEARTBEAT};
    body.heartbeat = (struct weir_heartbeat){.error = "", .waiting = "", .numerics = "", .drained = true};
    body.heartbeat.drained_step = at;
    body.heartbeat.drained_round = round;
    rig_say(rig, member, body, 0);
}

static const char *said(const struct rig *rig)
{
    for (size_t i = 0; i < rig->actions.count; i++)
        if (rig->actions.list[i].kind == WEIR_DO_SAY)
            return rig->actions.list[i].text;
    return "";
}

/* Where worker/0 is lost, all move: (1, 1, 2, 2). */
static void only_the_replicas_of_a_drained_worker_move(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    say_drained(&rig, 1, 7, 2);
    hosts_are(&rig, 1, 2, 1, 2);
    assert_int_equal(view(&rig)->nodes[2].incarnation, 0);
    assert_int_equal(view(&rig)->complete_step, 7);
    assert_int_equal(view(&rig)->complete_round, 2);
    assert_string_equal(said(&rig), "worker/0 at b is drained; 2 of 3 workers are there");
    say_drained(&rig, 1, 7, 2); /* until it has the view */
    assert_null(view(&rig));
    say_drained(&rig, 3, 6, 9); /* that one was behind */
    hosts_are(&rig, 1, 1, 1, 1);
    assert_int_equal(view(&rig)->complete_step, 7);
    assert_int_equal(view(&rig)->complete_round, 2);
    weir_arena_free(&rig.arena);
}

static void a_drained_worker_is_not_taken_back_when_it_says_hello_again(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    say_drained(&rig, 2, 1, 0);
    hosts_are(&rig, 0, 0, 2, 2);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
    arrive(&rig, 2, hello_of(1, 11));
    assert_string_equal(said(&rig), "");
    assert_null(view(&rig));
    bool told = false;
    for (size_t i = 0; i < rig.actions.count; i++)
        told |= rig.actions.list[i].kind == WEIR_DO_SEND && rig.actions.list[i].peer == 2 &&
                rig.actions.list[i].body.type == WEIR_VIEW;
    assert_true(told); /* the one without it, which it has missed */
    weir_arena_free(&rig.arena);
}

/* Nor does it count as lost: who is drained and started again for ever is not given up. */
static void to_be_drained_is_no_failure(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    uint64_t incarnation = 100;
    for (int i = 0; i <= 2 * WEIR_CHIEF_RESTARTS_MAX; i++) {
        struct weir_hello again = hello_of(1, ++incarnation);
        uint32_t peer;
        const char *reason;
        bool differs;
        say_drained(&rig, 2, 1, 0);
        assert_non_null(strstr(said(&rig), " is drained"));
        assert_true(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "it left"});
        arrive(&rig, 2, again);
        hosts_are(&rig, 0, 0, 1, 2);
    }
    weir_arena_free(&rig.arena);
}

static void below_the_minimum_the_job_waits_for_drained_workers_as_for_others(void **state)
{
    (void)state;
    struct rig rig = new_chief_of(3);
    say_drained(&rig, 1, 1, 0);
    hosts_are(&rig, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST);
    say_drained(&rig, 2, 0, 0);
    say_drained(&rig, 3, 0, 0);
    hosts_are(&rig, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST);
    for (uint64_t passed = 0; weir_chief_state(rig.core) == WEIR_CHIEF_TRAINING; passed += 50 * MS) {
        beat(&rig, 0, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
        assert_true(passed <= 2 * START_NS);
    }
    assert_non_null(strstr(view(&rig)->reason, "0 of at least 3 workers are there, and no other one came back within "
                                               "start_timeout_s; the last one: worker/2 at d is drained"));
    weir_arena_free(&rig.arena);
}

/* A parameter server is still needed. */
static void a_lost_server_ends_the_job(void **state)
{
    (void)state;
    struct rig rig = new_chief();
    pass(&rig, 2 * LEASE_NS, 0);
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_FAILING);
    weir_arena_free(&rig.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_worker_is_replaced_and_taken_back),
        cmocka_unit_test(a_worker_that_fails_may_go),
        cmocka_unit_test(a_new_process_takes_the_place_and_the_old_one_stays_out),
        cmocka_unit_test(other_data_than_the_jobs_is_refused),
        cmocka_unit_test(one_that_keeps_dying_is_given_up),
        cmocka_unit_test(a_broken_stream_is_a_loss_sooner_than_silence),
        cmocka_unit_test(where_all_are_given_up_the_job_ends),
        cmocka_unit_test(without_workers_it_waits_but_not_for_ever),
        cmocka_unit_test(below_the_minimum_it_waits),
        cmocka_unit_test(who_is_only_silent_is_not_given_up),
        cmocka_unit_test(only_the_replicas_of_a_drained_worker_move),
        cmocka_unit_test(a_drained_worker_is_not_taken_back_when_it_says_hello_again),
        cmocka_unit_test(to_be_drained_is_no_failure),
        cmocka_unit_test(below_the_minimum_the_job_waits_for_drained_workers_as_for_others),
        cmocka_unit_test(a_lost_server_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
