/* The judge: each kind of loss is found, and what can't be known is said so. */
#include "chaos/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "scenarios.h"
#include "seen.h"

#define CHIEF_SAYS "2026-01-01T00:00:00.000Z chief/0 warning: "

static struct weir_chaos_scenario scenario;
static struct weir_chaos_fault fault;
static struct weir_chaos_seen calm, hurt;
static struct weir_chaos_verdict verdict;

static int set_up(void **state)
{
    (void)state;
    scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 1}}");
    fault = (struct weir_chaos_fault){.kind = WEIR_CHAOS_KILL, .node = 4, .peer = WEIR_CHAOS_ALL, .at_step = 10};
    calm = a_run(0, 0);
    hurt = a_run(11, 300);
    hit(&hurt, 10);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chaos_verdict_free(&verdict);
    weir_chaos_seen_free(&calm);
    weir_chaos_seen_free(&hurt);
    weir_chaos_scenario_free(&scenario);
    return 0;
}

static void judge(void)
{
    weir_chaos_judge(&scenario, &fault, &calm, &hurt, &verdict);
}

/* Only this check is bad. */
static void assert_only(int bad, const char *text)
{
    judge();
    assert_false(verdict.passed);
    for (int i = 0; i < WEIR_CHAOS_CHECKS; i++)
        if (i == bad)
            assert_int_equal(verdict.checks[i].result, WEIR_CHAOS_BAD);
        else
            assert_int_not_equal(verdict.checks[i].result, WEIR_CHAOS_BAD);
    assert_string_equal(verdict.checks[bad].text, text);
}

static void a_run_that_lost_nothing_passes(void **state)
{
    (void)state;
    judge();
    assert_true(verdict.passed);
    for (int i = 0; i < WEIR_CHAOS_CHECKS; i++)
        assert_int_equal(verdict.checks[i].result, WEIR_CHAOS_GOOD);
    assert_string_equal(verdict.checks[WEIR_CHAOS_CHECK_SAMPLES].text,
                        "each counted once: equal samples after all of 20 steps");
    assert_int_equal(verdict.steps_lost, 0);
}

static void other_weights_fail(void **state)
{
    (void)state;
    snprintf(hurt.summary.digest, WEIR_DIGEST_HEX, "%s", OTHER_DIGEST);
    assert_only(WEIR_CHAOS_CHECK_DIGEST, "differs: 0123456789abcdef... undisturbed, 1123456789abcdef... disturbed");
}

static void another_state_fails(void **state)
{
    (void)state;
    snprintf(hurt.summary.state_digest, WEIR_DIGEST_HEX, "%s", OTHER_DIGEST);
    assert_only(WEIR_CHAOS_CHECK_STATE, "differs: 0123456789abcdef... undisturbed, 1123456789abcdef... disturbed");
}

static void a_gradient_that_did_not_count_fails(void **state)
{
    (void)state;
    for (size_t i = 12; i <= STEPS; i++)
        hurt.steps[i].samples -= 32;
    assert_only(WEIR_CHAOS_CHECK_SAMPLES,
                "after 9 of 20 steps another number of samples had counted; first after step 12");
}

static void a_gradient_that_counted_twice_fails(void **state)
{
    (void)state;
    hurt.steps[STEPS].samples += 32;
    assert_only(WEIR_CHAOS_CHECK_SAMPLES,
                "after 1 of 20 steps another number of samples had counted; first after step 20");
}

static void steps_that_were_done_again_fail(void **state)
{
    (void)state;
    for (size_t i = 13; i <= STEPS; i++) /* ... 12, 10, 11 ... */
        hurt.steps[i].step -= 3, hurt.steps[i].samples -= 3 * BATCH;
    assert_only(WEIR_CHAOS_CHECK_STEPS, "2 lost; 20 done, 20 undisturbed");
    assert_int_equal(verdict.steps_lost, 2);
}

static void fewer_steps_fail(void **state)
{
    (void)state;
    hurt.summary.steps = 19;
    assert_only(WEIR_CHAOS_CHECK_STEPS, "0 lost; 19 done, 20 undisturbed");
}

static void a_chunk_that_was_applied_once_more_fails(void **state)
{
    (void)state;
    hurt.summary.chunks_applied++;
    assert_only(WEIR_CHAOS_CHECK_CHUNKS, "61 times a chunk was applied, 60 undisturbed");
}

static void counters_of_an_ended_ps_are_not_judged(void **state)
{
    (void)state;
    fault.node = 1;
    hurt.summary.chunks_applied = 7;
    judge();
    assert_true(verdict.passed);
    assert_int_equal(verdict.checks[WEIR_CHAOS_CHECK_CHUNKS].result, WEIR_CHAOS_UNKNOWN);
}

static void a_fault_that_never_fired_fails(void **state)
{
    (void)state;
    hurt.hits[0] = (struct weir_chaos_hit){0};
    assert_only(WEIR_CHAOS_CHECK_FIRED, "0 of 1 fired; the job was over before the others");
    assert_true(verdict.recoveries[0].step_s == -1 && verdict.recoveries[0].at_s == -1);
}

static void a_process_that_ends_by_itself_fails(void **state)
{
    (void)state;
    weir_chaos_see_end(&hurt, 5, "exit status 1", 2100 * MS);
    assert_only(WEIR_CHAOS_CHECK_ENDS, "1 ended that no fault had ended; first worker/2, with exit status 1");
}

static void a_job_that_does_not_end_fails(void **state)
{
    (void)state;
    hurt.done = false;
    hurt.timed_out = true;
    assert_only(WEIR_CHAOS_CHECK_END, "the job did not end within the time limit");
    assert_int_equal(verdict.checks[WEIR_CHAOS_CHECK_DIGEST].result, WEIR_CHAOS_UNKNOWN);
    hurt.timed_out = false;
    weir_chaos_verdict_free(&verdict);
    assert_only(WEIR_CHAOS_CHECK_END, "the job failed");
}

static void see(uint32_t from, const char *line, uint64_t ns)
{
    weir_chaos_see_line(&hurt, &scenario, from, line, strlen(line), ns);
}

static void assert_near(double value, double expected)
{
    if (value < expected - 1e-6 || value > expected + 1e-6)
        fail_msg("%g is not %g", value, expected);
}

/* The fault is 1 ms after step 10 was done; step 11 takes 310 ms. */
static void times_of_recovery_are_counted_from_the_fault(void **state)
{
    (void)state;
    uint64_t at = hurt.hits[0].ns;
    weir_chaos_see_view(&hurt, 1, at - 50 * MS);
    see(2, CHIEF_SAYS "lost worker/1 at 127.0.0.1:1: of a ps' log", at + 5 * MS);
    see(0, CHIEF_SAYS "lost worker/2 at 127.0.0.1:1: another", at + 10 * MS);
    see(0, CHIEF_SAYS "lost worker/1 at 127.0.0.1:1: connection lost; 2 of 3 workers are there", at + 200 * MS);
    weir_chaos_see_view(&hurt, 2, at + 210 * MS);
    weir_chaos_see_view(&hurt, 3, at + 250 * MS);
    judge();
    const struct weir_chaos_recovery *times = &verdict.recoveries[0];
    assert_near(times->at_s, .101);
    assert_near(times->detected_s, .2);
    assert_near(times->view_s, .21);
    assert_near(times->step_s, .309);
    assert_near(times->pause_s, .299);
    assert_near(verdict.undisturbed_step_s, .01);
    assert_near(verdict.undisturbed_rate, 100);
    assert_near(verdict.disturbed_rate, 40);
    const struct weir_chaos_kind_times *kind = &verdict.kinds[WEIR_CHAOS_KILL];
    assert_true(kind->count == 1 && kind->detected == 1);
    assert_near(kind->step_worst_s, .309);
    assert_near(kind->pause_median_s, .299);
}

/* Told to go, it is not lost, and the chief knows just as well that it is gone. */
static void a_drained_process_is_found_out_too(void **state)
{
    (void)state;
    uint64_t at = hurt.hits[0].ns;
    see(0, CHIEF_SAYS "worker/1 at 127.0.0.1:1 is drained; 2 of 3 workers are there", at + 20 * MS);
    weir_chaos_see_view(&hurt, 2, at + 30 * MS);
    judge();
    assert_near(verdict.recoveries[0].detected_s, .02);
    assert_near(verdict.recoveries[0].view_s, .03);
}

/* The first hit a process that the chief did not know yet; the second one, another time, it noticed. */
static void what_follows_from_the_next_fault_is_not_ascribed_to_this_one(void **state)
{
    (void)state;
    struct weir_chaos_fault plan[2] = {fault, fault};
    struct weir_chaos_hit hits[2] = {hurt.hits[0], hurt.hits[0]};
    struct weir_chaos_hit *one = hurt.hits;
    hits[0].over_ns = hits[0].ns + 100 * MS;
    hits[1].ns = hits[0].over_ns + 100 * MS;
    hurt.hits = hits;
    hurt.hit_count = 2;
    see(0, CHIEF_SAYS "lost worker/1 at 127.0.0.1:1: connection lost; 2 of 3 workers are there", hits[1].ns + 20 * MS);
    weir_chaos_judge(&scenario, plan, &calm, &hurt, &verdict);
    hurt.hits = one;
    hurt.hit_count = 1;
    assert_true(verdict.recoveries[0].detected_s == -1);
    assert_near(verdict.recoveries[1].detected_s, .02);
}

static void who_is_back_is_not_lost(void **state)
{
    (void)state;
    see(0, CHIEF_SAYS "worker/1 at 127.0.0.1:1 is back; 3 of 3 workers are there", hurt.hits[0].ns + MS);
    judge();
    assert_int_equal(hurt.word_count, 1);
    assert_false(hurt.words[0].lost);
    assert_true(verdict.recoveries[0].detected_s == -1 && verdict.recoveries[0].view_s == -1);
    assert_near(verdict.recoveries[0].step_s, .309);
}

static void a_pause_without_end_lasts_to_the_end(void **state)
{
    (void)state;
    hurt.done = false;
    hurt.step_count = 11; /* none after the fault */
    judge();
    assert_true(verdict.recoveries[0].step_s == -1);
    assert_near(verdict.recoveries[0].pause_s, (double)(hurt.ended_ns - hurt.hits[0].ns) / 1e9 - .01);
}

static void a_summary_is_read(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_chaos_seen seen = {0};
    assert_false(weir_chaos_see_summary(&seen, &err));
    weir_text_add(&seen.result,
                  "{\"digest\": \"" DIGEST "\", \"state_digest\": \"" OTHER_DIGEST
                  "\", \"steps\": 7, \"replicas\": 3,\n"
                  "\"roles\": [{\"replicas_computed\": 4, \"chunks_applied\": 1}, {\"replicas_computed\": 5}]}");
    assert_true(weir_chaos_see_summary(&seen, &err));
    assert_true(seen.done);
    assert_string_equal(seen.summary.state_digest, OTHER_DIGEST);
    assert_int_equal(seen.summary.steps, 7);
    assert_int_equal(seen.summary.replicas_computed, 9);
    assert_int_equal(seen.summary.chunks_applied, 1);
    weir_chaos_seen_free(&seen);
    weir_text_add(&seen.result, "{\"digest\": \"12\"}");
    assert_false(weir_chaos_see_summary(&seen, &err));
    assert_false(seen.done);
    weir_chaos_seen_free(&seen);
}

#define JUDGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        JUDGED(a_run_that_lost_nothing_passes),
        JUDGED(other_weights_fail),
        JUDGED(another_state_fails),
        JUDGED(a_gradient_that_did_not_count_fails),
        JUDGED(a_gradient_that_counted_twice_fails),
        JUDGED(steps_that_were_done_again_fail),
        JUDGED(fewer_steps_fail),
        JUDGED(a_chunk_that_was_applied_once_more_fails),
        JUDGED(counters_of_an_ended_ps_are_not_judged),
        JUDGED(a_fault_that_never_fired_fails),
        JUDGED(a_process_that_ends_by_itself_fails),
        JUDGED(a_job_that_does_not_end_fails),
        JUDGED(times_of_recovery_are_counted_from_the_fault),
        JUDGED(a_drained_process_is_found_out_too),
        JUDGED(what_follows_from_the_next_fault_is_not_ascribed_to_this_one),
        JUDGED(who_is_back_is_not_lost),
        JUDGED(a_pause_without_end_lasts_to_the_end),
        cmocka_unit_test(a_summary_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
