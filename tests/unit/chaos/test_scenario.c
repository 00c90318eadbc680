/* Scenario files: what is taken, and the exact words for what is not. */
#include "chaos/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "scenarios.h"

static void assert_refused(const char *text, const char *expected)
{
    struct weir_chaos_scenario scenario;
    struct weir_problems problems = {0};
    char told[8192] = "";
    assert_false(load_scenario(text, &scenario, &problems));
    for (size_t i = 0; i < problems.count; i++)
        snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", problems.lines[i]);
    assert_string_equal(told, expected);
    weir_problems_free(&problems);
    weir_chaos_scenario_free(&scenario);
}

static void a_scenario_is_read_with_its_defaults(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario(
        "{\"job\": \"jobs/job.json\", \"cluster\": {\"workers\": 4}, \"set\": {\"fit.epochs\": 2, \"name\": \"x\"},\n"
        " \"faults\": [{\"kind\": \"restart\", \"node\": \"worker/3\", \"at_step\": 7},\n"
        "  {\"kind\": \"partition\", \"node\": \"ps/*\", \"peer\": \"chief/0\", \"ways\": \"to_peer\", \"at_s\": 1.5,\n"
        "   \"for_s\": 2, \"times\": 3, \"every_s\": 4}]}");
    assert_string_equal(scenario.name, "s");
    assert_string_equal(scenario.job, "jobs/job.json");
    assert_int_equal(scenario.workers, 4);
    assert_int_equal(scenario.ps, 2);
    assert_int_equal(scenario.set_count, 2);
    assert_string_equal(scenario.set[0].key, "fit.epochs");
    assert_string_equal(scenario.set[0].value, "2");
    assert_string_equal(scenario.set[1].value, "\"x\"");
    assert_int_equal(scenario.entry_count, 2);
    const struct weir_chaos_entry *restart = &scenario.entries[0], *cut = &scenario.entries[1];
    assert_int_equal(restart->kind, WEIR_CHAOS_RESTART);
    assert_int_equal(restart->node.role, WEIR_WORKER);
    assert_int_equal(restart->node.index, 3);
    assert_int_equal(restart->at_step, 7);
    assert_true(restart->after_s > 0.09 && restart->after_s < 0.11);
    assert_true(restart->peer.none);
    assert_int_equal(cut->kind, WEIR_CHAOS_PARTITION);
    assert_true(cut->node.any_index && !cut->node.any_role && cut->node.role == WEIR_PS);
    assert_true(!cut->peer.none && cut->peer.role == WEIR_CHIEF);
    assert_int_equal(cut->ways, WEIR_CHAOS_TO_PEER);
    assert_true(cut->at_s == 1.5 && cut->for_s == 2 && cut->every_s == 4 && cut->times == 3 && cut->at_step == 0);
    weir_chaos_scenario_free(&scenario);
}

static void keys_and_values_are_checked_by_name(void **state)
{
    (void)state;
    assert_refused("{\"cluster\": {\"pss\": 1}, \"fault\": [], \"seed\": -1}",
                   "s.json:1:14: cluster.pss: unknown key; did you mean \"ps\"?\n"
                   "s.json:1:25: fault: unknown key; did you mean \"faults\"?\n"
                   "s.json:1:46: seed: must be an integer from 0 to 9223372036854775807, not -1\n");
    assert_refused("{\"cluster\": {\"workers\": 25, \"ps\": 9}}",
                   "s.json:1:25: cluster.workers: must be an integer from 1 to 24, not 25\n"
                   "s.json:1:35: cluster.ps: must be an integer from 1 to 8, not 9\n");
    assert_refused("{\"faults\": []}", "s.json:1:1: cluster: required, but missing\n");
    assert_refused("{\"cluster\": {}, \"faults\": []}",
                   "s.json:1:1: nothing is done to the cluster: give \"faults\" or a \"swarm\"\n");
    assert_refused("{\"cluster\": {}, \"faults\": {\"kind\": \"kill\"}}",
                   "s.json:1:27: faults: must be a list ([...]), not an object\n");
    assert_refused("{\"cluster\": {}, \"faults\": [",
                   "s.json:1:28: the JSON ends too early: the file seems to be cut short\n");
}

#define WITH(fault) "{\"cluster\": {\"workers\": 2, \"ps\": 1}, \"faults\": [\n" fault "]}"

static void a_fault_has_the_keys_of_its_kind(void **state)
{
    (void)state;
    assert_refused(WITH("{\"kind\": \"kil\", \"node\": \"worker/0\", \"at_s\": 1}"),
                   "s.json:2:10: faults[0].kind: must be \"kill\", \"stop\", \"restart\", \"terminate\", "
                   "\"partition\", \"delay\", \"bandwidth\", \"reset\", \"full_disk\" or \"slow_cpu\", not \"kil\"; "
                   "did you mean \"kill\"?\n");
    assert_refused(WITH("{\"kind\": \"stop\", \"node\": \"worker/0\", \"at_s\": 1, \"share\": 0.5}"),
                   "s.json:2:1: faults[0].for_s: required for the kind \"stop\", but missing\n"
                   "s.json:2:49: faults[0].share: a fault of the kind \"stop\" has no such key\n");
    assert_refused(WITH("{\"kind\": \"slow_cpu\", \"node\": \"worker/0\", \"at_s\": 1, \"share\": 1}"),
                   "s.json:2:62: faults[0].share: must be a number > 0 and < 1, or null, not 1\n");
    assert_refused(WITH("{\"kind\": \"delay\", \"node\": \"ps/0\", \"at_step\": 1, \"for_s\": 1}"),
                   "s.json:2:1: faults[0].delay_ms: required for the kind \"delay\", but missing\n");
}

static void a_fault_has_one_moment(void **state)
{
    (void)state;
    assert_refused(WITH("{\"kind\": \"kill\", \"node\": \"worker/0\"}"),
                   "s.json:2:1: faults[0]: needs one of at_s and at_step: it has none\n");
    assert_refused(WITH("{\"kind\": \"kill\", \"node\": \"worker/0\", \"at_s\": 1, \"at_step\": 1}"),
                   "s.json:2:1: faults[0]: needs one of at_s and at_step: it has both\n");
    assert_refused(WITH("{\"kind\": \"reset\", \"node\": \"worker/0\", \"at_s\": 1, \"times\": 2, \"every_steps\": 1}"),
                   "s.json:2:62: faults[0].every_steps: goes with at_step, not with at_s\n");
    assert_refused(WITH("{\"kind\": \"reset\", \"node\": \"worker/0\", \"at_s\": 1, \"times\": 2}"),
                   "s.json:2:50: faults[0].times: needs every_s or every_steps: how far apart\n");
}

static void a_fault_hits_what_is_there(void **state)
{
    (void)state;
    assert_refused(WITH("{\"kind\": \"kill\", \"node\": \"worker/2\", \"at_s\": 1}"),
                   "s.json:2:26: faults[0].node: there is no worker/2: the cluster has 2 workers, and indexes begin at "
                   "0\n");
    assert_refused(WITH("{\"kind\": \"kill\", \"node\": \"worker\", \"at_s\": 1}"),
                   "s.json:2:26: faults[0].node: must be a process as in \"worker/1\", \"ps/0\" or \"chief/0\", or one "
                   "that the seed chooses, \"worker/*\", \"ps/*\" or \"*\"; not \"worker\"\n");
    assert_refused(WITH("{\"kind\": \"reset\", \"node\": \"ps/0\", \"peer\": \"ps/0\", \"at_s\": 1}"),
                   "s.json:2:43: faults[0].peer: is the node itself\n");
}

static void faults_are_limited_in_number(void **state)
{
    (void)state;
    assert_refused("{\"cluster\": {}, \"swarm\": {\"faults\": 1500}, \"faults\": [\n"
                   "{\"kind\": \"kill\", \"node\": \"worker/0\", \"at_step\": 1, \"times\": 501, \"every_steps\": 1}]}",
                   "s.json:1:54: faults: 2001 faults, each counted as often as it comes, are more than 2000\n");
}

static void a_swarm_is_read_with_its_defaults(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 5}}");
    assert_int_equal(scenario.swarm.faults, 5);
    assert_int_equal(scenario.swarm.node_count, 1);
    assert_int_equal(scenario.swarm.nodes[0].role, WEIR_WORKER);
    assert_true(scenario.swarm.nodes[0].any_index && scenario.swarm.for_s == 1);
    assert_false(scenario.swarm.kinds & 1u << WEIR_CHAOS_KILL);
    weir_chaos_scenario_free(&scenario);
    scenario = good_scenario("{\"cluster\": {}, \"swarm\": {\"faults\": 5, \"kinds\": [\"kill\", \"reset\"],\n"
                             "\"nodes\": [\"ps/0\", \"*\"]}}");
    assert_int_equal(scenario.swarm.kinds, 1u << WEIR_CHAOS_KILL | 1u << WEIR_CHAOS_RESET);
    assert_int_equal(scenario.swarm.node_count, 2);
    assert_true(scenario.swarm.nodes[1].any_role);
    weir_chaos_scenario_free(&scenario);
    assert_refused("{\"cluster\": {}, \"swarm\": {\"faults\": 1, \"kinds\": [], \"nodes\": [\"chief/1\"]}}",
                   "s.json:1:49: swarm.kinds: is empty; leave it out for all that a worker survives\n"
                   "s.json:1:63: swarm.nodes[0]: there is no chief/1: the cluster has 1 chief, and indexes begin at "
                   "0\n");
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct weir_chaos_scenario scenario;
    struct weir_problems problems = {0};
    assert_false(weir_chaos_scenario_load(&scenario, "/nowhere/s.json", &problems));
    assert_string_equal(problems.lines[0], "/nowhere/s.json: can't read the scenario: No such file or directory");
    weir_problems_free(&problems);
    weir_chaos_scenario_free(&scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scenario_is_read_with_its_defaults), cmocka_unit_test(keys_and_values_are_checked_by_name),
        cmocka_unit_test(a_fault_has_the_keys_of_its_kind),     cmocka_unit_test(a_fault_has_one_moment),
        cmocka_unit_test(a_fault_hits_what_is_there),           cmocka_unit_test(faults_are_limited_in_number),
        cmocka_unit_test(a_swarm_is_read_with_its_defaults),    cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
