/* Workers that go and come while a job trains: who takes their place, who is taken back, who is not, and when the job
 * is over. */
#include "crew.h"

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
    for (int i = 0; i < RESTARTS; i++) {
        struct weir_hello again = hello_of(1, ++incarnation);
        assert_true(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
        arrive(&rig, 2, again);
    }
    struct weir_hello again = hello_of(1, ++incarnation);
    assert_false(weir_chief_admit(rig.core, &again, &peer, &reason, &differs));
    assert_non_null(strstr(reason, "given up"));
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_TRAINING);
    for (uint64_t passed = 0; passed < WINDOW_NS; passed += 50 * MS) {
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
    for (int i = 0; i < RESTARTS; i++)
        for (uint32_t w = 0; w < WORKERS; w++) {
            rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = SERVERS + w, .text = "reset"});
            arrive(&rig, SERVERS + w, hello_of(w, ++incarnation));
        }
    for (uint32_t m = SERVERS; m < MEMBERS; m++)
        beat(&rig, m, "worker: no memory");
    beat(&rig, 0, "");
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 100 * MS});
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_FAILING);
    assert_non_null(strstr(view(&rig)->reason, "0 of at least 1 workers are there, and others have failed more often"));
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
    for (int i = 0; i < RESTARTS; i++) {
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
    assert_non_null(strstr(view(&rig)->reason, "2 of at least 3 workers are there, and others have failed"));
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
        cmocka_unit_test(a_lost_server_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
