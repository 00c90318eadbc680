/* Workers that are told to go while a job trains: only their replicas move, and they are welcome again. */
#include "crew.h"

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
    for (int i = 0; i <= 2 * RESTARTS; i++) {
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

/* Who fails stays away; who was drained comes back, and for who is only cut off the job waits. */
static void without_restarts_only_failures_are_final(void **state)
{
    (void)state;
    struct rig rig = new_chief_with(3, 0);
    struct weir_hello again = hello_of(0, 99);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 2, .text = "reset"});
    for (uint64_t passed = 0; passed < 2 * LEASE_NS; passed += 50 * MS) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            if (m != 2)
                beat(&rig, m, "");
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    }
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_TRAINING);
    arrive(&rig, 2, hello_of(1, 11));
    hosts_are(&rig, 0, 0, 1, 2);
    assert_false(takes(&rig, &again));
    say_drained(&rig, 1, 1, 0);
    assert_true(takes(&rig, &again));
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_CLOSED, .peer = 1, .text = "it left"});
    arrive(&rig, 1, again);
    hosts_are(&rig, 0, 0, 1, 2);
    beat(&rig, 1, "worker/0 at b: no memory");
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_FAILING);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_replicas_of_a_drained_worker_move),
        cmocka_unit_test(a_drained_worker_is_not_taken_back_when_it_says_hello_again),
        cmocka_unit_test(to_be_drained_is_no_failure),
        cmocka_unit_test(without_restarts_only_failures_are_final),
        cmocka_unit_test(below_the_minimum_the_job_waits_for_drained_workers_as_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
