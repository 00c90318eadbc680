/* The connecting side of a stream: when it tries, when it gives up, and what it says then; and the machine below it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "protocol/link.h"

#define PEER 3
#define PATIENCE_NS (4 * WEIR_LINK_RETRY_NS)

struct rig {
    struct weir_link link;
    struct weir_machine_counts counts;
    struct weir_action list[4];
    struct weir_actions actions;
};

static void start(struct rig *rig, uint64_t now)
{
    *rig = (struct rig){.actions.capacity = 4};
    rig->actions.list = rig->list;
    const struct weir_link_target target = {
        .peer = PEER,
        .name = "ps/1 at there",
        .role = WEIR_NODE_PS,
        .incarnation = 7,
        .job_hash = "job",
        .start_patience_ns = PATIENCE_NS,
        .patience_ns = PATIENCE_NS,
    };
    weir_link_start(&rig->link, &target, now, &rig->counts, &rig->actions);
}

/* Whether exactly one connect was asked for since the last time. */
static bool tried(struct rig *rig)
{
    bool once = rig->actions.count == 1 && rig->list[0].kind == WEIR_DO_CONNECT && rig->list[0].peer == PEER;
    assert_true(once || rig->actions.count == 0);
    rig->actions.count = 0;
    return once;
}

static const struct weir_hello hello = {.role = WEIR_NODE_PS, .incarnation = 7, .job_hash = "job"};

static void come_up(struct rig *rig)
{
    weir_link_opened(&rig->link);
    assert_false(weir_link_up(&rig->link)); /* not before their Hello */
    assert_true(weir_link_greeted(&rig->link, &hello));
    assert_true(weir_link_up(&rig->link));
}

/* Patience is over: one more attempt, and that was it. */
static void gives_up(struct rig *rig, uint64_t at)
{
    rig->actions.count = 0;
    assert_false(weir_link_time(&rig->link, at, &rig->actions));
    assert_true(tried(rig));
    weir_link_closed(&rig->link, at, "connection refused");
    assert_true(weir_link_deadline(&rig->link) <= at);
    assert_true(weir_link_time(&rig->link, at, &rig->actions));
}

static void it_tries_at_once_and_then_at_intervals(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 1000);
    assert_true(tried(&rig));
    for (uint64_t at = 1000; at < 1000 + PATIENCE_NS - WEIR_LINK_RETRY_NS; at += WEIR_LINK_RETRY_NS) {
        weir_link_closed(&rig.link, at, "connection refused");
        assert_true(weir_link_deadline(&rig.link) == at + WEIR_LINK_RETRY_NS);
        assert_false(weir_link_time(&rig.link, at + WEIR_LINK_RETRY_NS - 1, &rig.actions));
        assert_false(tried(&rig));
        assert_false(weir_link_time(&rig.link, at + WEIR_LINK_RETRY_NS, &rig.actions));
        assert_true(tried(&rig));
    }
}

static void while_it_connects_it_does_not_try_again(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 0);
    assert_true(tried(&rig));
    assert_false(weir_link_time(&rig.link, 3 * WEIR_LINK_RETRY_NS, &rig.actions));
    assert_false(tried(&rig));
    uint64_t end = PATIENCE_NS + WEIR_LINK_LAST_NS; /* it does not wait for ever */
    for (uint64_t at = PATIENCE_NS; at < end; at = weir_link_deadline(&rig.link)) {
        assert_false(weir_link_time(&rig.link, at, &rig.actions));
        assert_true(weir_link_deadline(&rig.link) > at);
    }
    assert_true(weir_link_time(&rig.link, end, &rig.actions));
}

static void patience_is_over_at_its_end_and_not_before(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 500);
    weir_link_closed(&rig.link, 500, "connection refused");
    assert_false(weir_link_time(&rig.link, 500 + PATIENCE_NS - 1, &rig.actions));
    weir_link_closed(&rig.link, 500 + PATIENCE_NS - 1, "connection refused");
    gives_up(&rig, 500 + PATIENCE_NS);
    assert_string_equal(weir_link_lost(&rig.link), "lost ps/1 at there: connection refused");
}

static void a_link_that_is_up_has_no_deadline_and_all_its_patience(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 0);
    come_up(&rig);
    uint64_t later = 100 * PATIENCE_NS;
    assert_true(weir_link_deadline(&rig.link) == WEIR_NEVER);
    assert_false(weir_link_time(&rig.link, later, &rig.actions));
    weir_link_closed(&rig.link, later, "reset");
    assert_false(weir_link_time(&rig.link, later + PATIENCE_NS - 1, &rig.actions));
    weir_link_closed(&rig.link, later + PATIENCE_NS - 1, "refused");
    gives_up(&rig, later + PATIENCE_NS);
}

/* A peer that accepts and never greets is as lost as one that refuses: only a Hello starts patience anew. */
static void streams_without_a_hello_do_not_renew_patience(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 0);
    uint64_t at = 0;
    while (!weir_link_time(&rig.link, at, &rig.actions)) {
        assert_true(at <= PATIENCE_NS + WEIR_LINK_LAST_NS);
        rig.actions.count = 0;
        if (rig.link.state == WEIR_LINK_CONNECTING)
            weir_link_opened(&rig.link);
        else if (rig.link.state == WEIR_LINK_GREETING)
            weir_link_closed(&rig.link, at, "no Hello");
        at += WEIR_LINK_RETRY_NS / 5;
    }
    assert_true(at >= PATIENCE_NS);
}

/* Nothing happened for longer than an attempt takes: the process stood still. */
/* However long it is put off, before its patience is over and in the attempt after that. */
static void who_is_told_to_come_later_has_all_its_patience(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 1000);
    uint64_t now = 1000;
    for (int round = 0; round < 20; round++) {
        rig.actions.count = 0;
        weir_link_opened(&rig.link);
        weir_link_put_off(&rig.link, now);
        weir_link_closed(&rig.link, now, "not yet");
        now += round % 2 ? PATIENCE_NS : WEIR_LINK_RETRY_NS;
        assert_false(weir_link_time(&rig.link, now, &rig.actions));
        assert_true(tried(&rig));
    }
    weir_link_opened(&rig.link);
    weir_link_put_off(&rig.link, now);
    weir_link_closed(&rig.link, now, "not yet");
    gives_up(&rig, now + PATIENCE_NS); /* of others that do not answer it has no more than before */
}

static void its_own_pause_is_no_time_down(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t pause = 20 * PATIENCE_NS + 2 * WEIR_LINK_STILL_NS;
    start(&rig, 0);
    weir_link_closed(&rig.link, 0, "reset");
    assert_false(weir_link_time(&rig.link, pause, &rig.actions));
    weir_link_closed(&rig.link, pause, "refused");
    assert_false(weir_link_time(&rig.link, pause + PATIENCE_NS - 1, &rig.actions));
    weir_link_closed(&rig.link, pause + PATIENCE_NS - 1, "refused");
    gives_up(&rig, pause + PATIENCE_NS);
}

/* It wakes after its patience, and has not heard yet what came of the attempt that ran before: that is not the last. */
static void a_short_pause_leaves_it_one_more_attempt(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 0);
    uint64_t awake = PATIENCE_NS + WEIR_LINK_LAST_NS - 1;
    assert_false(weir_link_time(&rig.link, awake, &rig.actions));
    weir_link_closed(&rig.link, awake, "reset");
    gives_up(&rig, awake);
}

static void a_link_that_is_not_used_wants_nothing(void **state)
{
    (void)state;
    struct rig rig = {0};
    assert_true(weir_link_deadline(&rig.link) == WEIR_NEVER);
    assert_false(weir_link_time(&rig.link, UINT64_MAX, &rig.actions));
}

/* A server that has much to make ready is waited for as long as everybody is at the start. */
static void until_the_first_hello_it_has_the_patience_of_the_start(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 0);
    rig.link.target.start_patience_ns = 10 * PATIENCE_NS;
    weir_link_opened(&rig.link);
    weir_link_closed(&rig.link, 10 * PATIENCE_NS - 1, "reset");
    assert_false(weir_link_time(&rig.link, 10 * PATIENCE_NS - 1, &rig.actions));
    gives_up(&rig, 10 * PATIENCE_NS);
    start(&rig, 0);
    come_up(&rig);
    weir_link_closed(&rig.link, 1000, "reset");
    gives_up(&rig, 1000 + PATIENCE_NS);
}

static void only_who_is_meant_is_greeted(void **state)
{
    (void)state;
    const struct weir_hello others[] = {{.role = WEIR_NODE_CHIEF, .incarnation = 7, .job_hash = "job"},
                                        {.role = WEIR_NODE_PS, .incarnation = 8, .job_hash = "job"},
                                        {.role = WEIR_NODE_PS, .incarnation = 7, .job_hash = "another"},
                                        {.role = WEIR_NODE_PS, .incarnation = 0, .job_hash = "job"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct rig rig;
        start(&rig, 0);
        weir_link_opened(&rig.link);
        assert_false(weir_link_greeted(&rig.link, &others[i]));
        assert_false(weir_link_up(&rig.link));
        const char *text = weir_link_lost(&rig.link);
        assert_non_null(strstr(text, "lost ps/1 at there: "));
        assert_non_null(strstr(text, "answers at its address"));
    }
}

static void who_answers_first_is_meant_from_then_on(void **state)
{
    (void)state;
    struct rig rig;
    const struct weir_hello later = {.role = WEIR_NODE_PS, .incarnation = 8, .job_hash = "job"};
    start(&rig, 0);
    rig.link.target.incarnation = 0;
    come_up(&rig);
    weir_link_closed(&rig.link, 1, "reset");
    assert_false(weir_link_greeted(&rig.link, &later));
}

static void a_second_hello_changes_nothing(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 0);
    weir_link_greeted(&rig.link, &hello); /* too early: nothing is open */
    assert_false(weir_link_up(&rig.link));
    come_up(&rig);
    weir_link_greeted(&rig.link, &hello);
    assert_true(weir_link_up(&rig.link));
}

static void moves_of_the_table_are_counted_and_no_others_are_made(void **state)
{
    (void)state;
    static const struct weir_transition rows[] = {{0, 1, "begins"}, {1, 0, "ends"}, {1, 1, "goes on"}};
    static const struct weir_machine machine = {"test", rows, 3};
    struct weir_machine_counts counts = {0};
    uint8_t at = 0;
    weir_machine_move(&machine, &counts, &at, 1);
    weir_machine_move(&machine, &counts, &at, 1);
    weir_machine_move(&machine, &counts, &at, 1);
    weir_machine_move(&machine, &counts, &at, 0);
    assert_int_equal(at, 0);
    const uint64_t expected[3] = {1, 1, 2};
    assert_memory_equal(counts.row, expected, sizeof expected);
    pid_t child = fork(); /* an assertion ends it */
    if (child == 0) {
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        weir_machine_move(&machine, &counts, &at, 0);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tries_at_once_and_then_at_intervals),
        cmocka_unit_test(while_it_connects_it_does_not_try_again),
        cmocka_unit_test(patience_is_over_at_its_end_and_not_before),
        cmocka_unit_test(a_link_that_is_up_has_no_deadline_and_all_its_patience),
        cmocka_unit_test(streams_without_a_hello_do_not_renew_patience),
        cmocka_unit_test(who_is_told_to_come_later_has_all_its_patience),
        cmocka_unit_test(its_own_pause_is_no_time_down),
        cmocka_unit_test(a_short_pause_leaves_it_one_more_attempt),
        cmocka_unit_test(a_link_that_is_not_used_wants_nothing),
        cmocka_unit_test(until_the_first_hello_it_has_the_patience_of_the_start),
        cmocka_unit_test(only_who_is_meant_is_greeted),
        cmocka_unit_test(who_answers_first_is_meant_from_then_on),
        cmocka_unit_test(a_second_hello_changes_nothing),
        cmocka_unit_test(moves_of_the_table_are_counted_and_no_others_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
