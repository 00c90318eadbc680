/* Plans: what a seed makes of a scenario. */
#include "chaos/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "scenarios.h"

#define STEPS 400

static void nodes_are_counted_as_they_start(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 1}}");
    const char *const names[] = {"chief/0", "ps/0", "ps/1", "worker/0", "worker/1", "worker/2"};
    assert_int_equal(weir_chaos_nodes(&scenario), 6);
    for (uint32_t i = 0; i < 6; i++) {
        char name[32];
        weir_chaos_node_name(&scenario, i, name, sizeof name);
        assert_string_equal(name, names[i]);
    }
    assert_int_equal(weir_chaos_node(&scenario, WEIR_WORKER, 2), 5);
    weir_chaos_scenario_free(&scenario);
}

static void a_list_is_expanded_in_its_order(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario(
        "{\"cluster\": {}, \"faults\": [\n"
        "{\"kind\": \"restart\", \"node\": \"worker/1\", \"at_step\": 10, \"times\": 3, \"every_steps\": 5},\n"
        "{\"kind\": \"stop\", \"node\": \"ps/1\", \"at_s\": 2, \"for_s\": 1, \"times\": 2, \"every_s\": 3}]}");
    size_t count;
    struct weir_chaos_fault *plan = weir_chaos_plan(&scenario, 7, STEPS, &count);
    assert_int_equal(count, 5);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(plan[i].node, 4);
        assert_int_equal(plan[i].at_step, 10 + 5 * i);
        assert_true(plan[i].within >= 0 && plan[i].within < 1);
        assert_int_equal(plan[i].peer, WEIR_CHAOS_ALL);
    }
    assert_int_equal(plan[3].node, 2);
    assert_true(plan[3].at_step == 0 && plan[3].at_s == 2 && plan[4].at_s == 5);
    free(plan);
    weir_chaos_scenario_free(&scenario);
}

/* Which is how often the chief must take that one back. */
static void the_restarts_of_one_process_are_counted(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario(
        "{\"cluster\": {}, \"faults\": [\n"
        "{\"kind\": \"restart\", \"node\": \"worker/1\", \"at_step\": 10, \"times\": 3, \"every_steps\": 5},\n"
        "{\"kind\": \"terminate\", \"node\": \"worker/1\", \"at_step\": 90, \"after_s\": 1},\n"
        "{\"kind\": \"kill\", \"node\": \"worker/1\", \"at_step\": 99},\n"
        "{\"kind\": \"restart\", \"node\": \"worker/2\", \"at_step\": 10, \"times\": 2, \"every_steps\": 5},\n"
        "{\"kind\": \"stop\", \"node\": \"worker/2\", \"at_s\": 2, \"for_s\": 1, \"times\": 9, \"every_s\": 3}]}");
    size_t count;
    struct weir_chaos_fault *plan = weir_chaos_plan(&scenario, 7, STEPS, &count);
    assert_int_equal(weir_chaos_restarts_of_one(plan, count), 4);
    assert_int_equal(weir_chaos_restarts_of_one(plan, 0), 0);
    free(plan);
    weir_chaos_scenario_free(&scenario);
}

static bool equal(const struct weir_chaos_fault *a, const struct weir_chaos_fault *b)
{
    return a->kind == b->kind && a->node == b->node && a->peer == b->peer && a->ways == b->ways &&
           a->at_step == b->at_step && a->within == b->within && a->for_s == b->for_s && a->after_s == b->after_s &&
           a->delay_ms == b->delay_ms && a->bytes_per_s == b->bytes_per_s && a->share == b->share;
}

static void check_swarm_fault(const struct weir_chaos_fault *fault)
{
    assert_true(fault->at_step > STEPS / 50 && fault->at_step < STEPS * 9 / 10);
    assert_true(fault->node < 6);
    assert_true(fault->peer == WEIR_CHAOS_ALL || (fault->peer < 6 && fault->peer != fault->node));
    if (fault->kind == WEIR_CHAOS_KILL)
        assert_true(fault->after_s >= 0.5 && fault->after_s <= 2);
    if (fault->kind == WEIR_CHAOS_STOP)
        assert_true(fault->for_s >= 0.5 && fault->for_s <= 2);
    if (fault->kind == WEIR_CHAOS_DELAY)
        assert_true(fault->delay_ms > 0);
    if (fault->kind == WEIR_CHAOS_BANDWIDTH)
        assert_true(fault->bytes_per_s >= 1e6);
    if (fault->kind == WEIR_CHAOS_SLOW_CPU)
        assert_true(fault->share > 0 && fault->share < 1);
}

static void a_seed_gives_one_plan_and_another_seed_another(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 300, \"nodes\": "
                                                        "[\"*\"], \"for_s\": 2, \"kinds\": [\"kill\", \"stop\",\n"
                                                        "\"restart\", \"terminate\", \"partition\", \"delay\", "
                                                        "\"bandwidth\", \"reset\", \"full_disk\", \"slow_cpu\"]}}");
    size_t count, again, other, same = 0;
    struct weir_chaos_fault *plan = weir_chaos_plan(&scenario, 1, STEPS, &count);
    struct weir_chaos_fault *plan_again = weir_chaos_plan(&scenario, 1, STEPS, &again);
    struct weir_chaos_fault *plan_other = weir_chaos_plan(&scenario, 2, STEPS, &other);
    unsigned kinds = 0, nodes = 0, ways = 0;
    assert_true(count == 300 && again == 300 && other == 300);
    for (size_t i = 0; i < count; i++) {
        assert_true(equal(&plan[i], &plan_again[i]));
        same += equal(&plan[i], &plan_other[i]);
        assert_true(i == 0 || plan[i].at_step >= plan[i - 1].at_step);
        check_swarm_fault(&plan[i]);
        kinds |= 1u << plan[i].kind;
        nodes |= 1u << plan[i].node;
        ways |= 1u << plan[i].ways;
    }
    assert_true(same < 5);
    assert_int_equal(kinds, (1u << WEIR_CHAOS_KINDS) - 1);
    assert_int_equal(nodes, 63);
    assert_int_equal(ways, 7);
    free(plan);
    free(plan_again);
    free(plan_other);
    weir_chaos_scenario_free(&scenario);
}

/* The first faults of a plan are printed in docs and bug reports: they must never change by themselves. */
static void a_plan_is_the_same_for_ever(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 3}}");
    size_t count;
    struct weir_chaos_fault *plan = weir_chaos_plan(&scenario, 1, STEPS, &count);
    char told[512] = "";
    for (size_t i = 0; i < count; i++) {
        char text[128];
        weir_chaos_describe(&scenario, &plan[i], text, sizeof text);
        snprintf(told + strlen(told), sizeof told - strlen(told), "%d: %s\n", (int)plan[i].at_step, text);
    }
    assert_string_equal(told, "250: stop worker/2 for 0.594 s\n"
                              "258: cut between worker/1 and ps/0 for 0.259 s\n"
                              "273: at most 6.71 MB/s to worker/0 from ps/1 for 0.558 s\n");
    free(plan);
    weir_chaos_scenario_free(&scenario);
}

static void faults_are_told_in_words(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 1}}");
    const struct {
        struct weir_chaos_fault fault;
        const char *words;
    } cases[] = {
        {{.kind = WEIR_CHAOS_KILL, .node = 3}, "kill worker/0"},
        {{.kind = WEIR_CHAOS_RESTART, .node = 0, .after_s = .5}, "restart chief/0, started again after 0.5 s"},
        {{.kind = WEIR_CHAOS_TERMINATE, .node = 1}, "SIGTERM to ps/0"},
        {{.kind = WEIR_CHAOS_PARTITION, .node = 3, .peer = 1, .for_s = 2}, "cut between worker/0 and ps/0 for 2 s"},
        {{.kind = WEIR_CHAOS_PARTITION, .node = 3, .peer = WEIR_CHAOS_ALL, .ways = WEIR_CHAOS_TO_PEER},
         "cut from worker/0 to all others"},
        {{.kind = WEIR_CHAOS_DELAY, .node = 3, .peer = 0, .ways = WEIR_CHAOS_FROM_PEER, .delay_ms = 5, .jitter_ms = 2},
         "delay 5 ms (+ up to 2 ms) to worker/0 from chief/0"},
        {{.kind = WEIR_CHAOS_BANDWIDTH, .node = 3, .peer = 0, .bytes_per_s = 2e6},
         "at most 2 MB/s between worker/0 and chief/0"},
        {{.kind = WEIR_CHAOS_SLOW_CPU, .node = 5, .share = .25, .for_s = 1}, "worker/2 gets 25 % of the time for 1 s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        weir_chaos_describe(&scenario, &cases[i].fault, text, sizeof text);
        assert_string_equal(text, cases[i].words);
    }
    weir_chaos_scenario_free(&scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_counted_as_they_start),
        cmocka_unit_test(a_list_is_expanded_in_its_order),
        cmocka_unit_test(the_restarts_of_one_process_are_counted),
        cmocka_unit_test(a_seed_gives_one_plan_and_another_seed_another),
        cmocka_unit_test(a_plan_is_the_same_for_ever),
        cmocka_unit_test(faults_are_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
