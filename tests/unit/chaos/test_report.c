/* Reports: the same findings as text, JSON and a page that stands alone. */
#include "chaos/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <jansson.h>
#include <cmocka.h>

#include "scenarios.h"
#include "seen.h"

static struct weir_chaos_scenario scenario;
static struct weir_chaos_fault fault;
static struct weir_chaos_seen calm, hurt;
static struct weir_chaos_verdict verdict;
static struct weir_text out;

static int set_up(void **state)
{
    (void)state;
    scenario = good_scenario("{\"name\": \"<b>&x\", \"cluster\": {}, \"swarm\": {\"faults\": 1}}");
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
    free(out.bytes);
    out = (struct weir_text){0};
    return 0;
}

static void report(void (*form)(const struct weir_chaos_report *, struct weir_text *))
{
    weir_chaos_judge(&scenario, &fault, &calm, &hurt, &verdict);
    const struct weir_chaos_report all = {&scenario, "job.json", 7, &fault, &calm, &hurt, &verdict};
    form(&all, &out);
}

static void assert_has(const char *text)
{
    if (!strstr(out.bytes, text))
        fail_msg("no \"%s\" in: %s", text, out.bytes);
}

static void assert_has_not(const char *text)
{
    if (strstr(out.bytes, text))
        fail_msg("\"%s\" in: %s", text, out.bytes);
}

static void text_says_what_was_found(void **state)
{
    (void)state;
    report(weir_chaos_report_text);
    assert_has("job.json, 3 workers, 2 ps, seed 7\n");
    assert_has("  good     digest     equal: 0123456789abcdef...\n");
    assert_has("        11          -         -     0.309     0.299  kill worker/1\n");
    assert_has("\nnothing was lost\n");
    assert_has_not("FAILED");
}

static void text_says_what_failed(void **state)
{
    (void)state;
    hurt.done = false;
    weir_text_add(&hurt.last, "chief/0 error: why\n");
    report(weir_chaos_report_text);
    assert_has("  bad      end        the job failed\n");
    assert_has("last errors:\nchief/0 error: why\n");
    assert_has("\nFAILED\n");
    assert_has_not("nothing was lost");
}

static void json_has_the_same(void **state)
{
    (void)state;
    hurt.summary.chunks_applied++;
    report(weir_chaos_report_json);
    json_t *root = json_loads(out.bytes, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_false(json_object_get(root, "passed")));
    assert_string_equal(json_string_value(json_object_get(root, "scenario")), "<b>&x");
    assert_int_equal(json_integer_value(json_object_get(root, "seed")), 7);
    assert_int_equal(json_array_size(json_object_get(root, "checks")), WEIR_CHAOS_CHECKS);
    json_t *one = json_array_get(json_object_get(root, "faults"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "kind")), "kill");
    assert_string_equal(json_string_value(json_object_get(one, "node")), "worker/1");
    assert_int_equal(json_integer_value(json_object_get(one, "in_step")), 11);
    assert_true(json_is_null(json_object_get(one, "detected_s")));
    assert_true(json_real_value(json_object_get(one, "step_s")) > .3);
    json_t *kind = json_object_get(json_object_get(root, "kinds"), "kill");
    assert_int_equal(json_integer_value(json_object_get(kind, "fired")), 1);
    json_decref(root);
}

static void a_page_stands_alone(void **state)
{
    (void)state;
    hurt.hits[0].over_ns = hurt.hits[0].ns + 50 * MS;
    report(weir_chaos_report_html);
    assert_has("<!doctype html>");
    assert_has("&#60;b&#62;&#38;x");
    assert_has_not("<b>");
    assert_has_not("<script");
    assert_has_not("http");
    assert_has_not(" src=");
    assert_has("<svg ");
    assert_has("<title>1: kill worker/1</title>");
    assert_has("nothing was lost");
    assert_has("</body></html>");
    assert_has_not("nan");
    assert_has_not("inf");
}

static void a_page_of_a_run_without_steps_is_still_one(void **state)
{
    (void)state;
    calm.step_count = hurt.step_count = 0;
    hurt.done = false;
    report(weir_chaos_report_html);
    assert_has("No step was seen");
    assert_has("<span class=\"bad\">failed</span>");
}

#define REPORTED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REPORTED(text_says_what_was_found),
        REPORTED(text_says_what_failed),
        REPORTED(json_has_the_same),
        REPORTED(a_page_stands_alone),
        REPORTED(a_page_of_a_run_without_steps_is_still_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
