#include "support.h"

#include "config/address.h"

#define MAP "\"cluster\":{\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"c:1\"]}"

static struct weir_cluster good_cluster(const char *text)
{
    struct weir_cluster cluster;
    struct weir_problems problems = {0};
    bool good = weir_cluster_parse(&cluster, text, &problems);
    for (size_t i = 0; i < problems.count; i++)
        print_error("%s\n", problems.lines[i]);
    assert_true(good);
    return cluster;
}

static void assert_cluster_refused(const char *text, const char *expected)
{
    struct weir_cluster cluster;
    struct weir_problems problems = {0};
    assert_false(weir_cluster_parse(&cluster, text, &problems));
    assert_lines(&problems, expected);
    weir_problems_free(&problems);
    weir_cluster_free(&cluster);
}

static void unset_means_one_process(void **state)
{
    (void)state;
    struct weir_cluster cluster = good_cluster(NULL);
    assert_false(cluster.present);
    assert_int_equal(cluster.task_count, 0);
    cluster = good_cluster("{}");
    assert_false(cluster.present);
}

static void lists_are_numbered_by_position(void **state)
{
    (void)state;
    struct weir_cluster cluster = good_cluster("{" MAP ",\"task\":{\"type\":\"worker\",\"index\":1}}");
    assert_true(cluster.present);
    assert_int_equal(weir_cluster_count(&cluster, WEIR_WORKER), 2);
    assert_int_equal(weir_cluster_count(&cluster, WEIR_PS), 1);
    assert_int_equal(weir_cluster_count(&cluster, WEIR_CHIEF), 0);
    assert_int_equal(cluster.self_role, WEIR_WORKER);
    assert_int_equal(cluster.self_index, 1);
    assert_string_equal(weir_cluster_find(&cluster, WEIR_WORKER, 1)->address, "b:1");
    assert_null(weir_cluster_find(&cluster, WEIR_WORKER, 2));
    assert_true(cluster.chief_in_worker_0);
    weir_cluster_free(&cluster);
}

static void sparse_maps_keep_their_numbers(void **state)
{
    (void)state;
    struct weir_cluster cluster =
        good_cluster("{\"cluster\":{\"worker\":{\"7\":\"b:1\",\"2\":\"a:1\"},\"ps\":[\"c:1\"],"
                     "\"chief\":{\"0\":\"d:1\"}},"
                     "\"task\":{\"type\":\"worker\",\"index\":\"7\"}}");
    assert_int_equal(cluster.self_index, 7);
    assert_false(cluster.chief_in_worker_0);
    const enum weir_role roles[] = {WEIR_CHIEF, WEIR_PS, WEIR_WORKER, WEIR_WORKER};
    const uint32_t indices[] = {0, 0, 2, 7};
    assert_int_equal(cluster.task_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(cluster.tasks[i].role, roles[i]);
        assert_int_equal(cluster.tasks[i].index, indices[i]);
    }
    weir_cluster_free(&cluster);
}

static void a_missing_index_is_0(void **state)
{
    (void)state;
    struct weir_cluster cluster = good_cluster("{" MAP ",\"task\":{\"type\":\"ps\"},\"environment\":\"cloud\"}");
    assert_int_equal(cluster.self_role, WEIR_PS);
    assert_int_equal(cluster.self_index, 0);
    weir_cluster_free(&cluster);
}

/* TF#30121, KF#1139 */
static void an_evaluator_may_stand_inside_or_outside(void **state)
{
    (void)state;
    struct weir_cluster cluster = good_cluster("{" MAP ",\"task\":{\"type\":\"evaluator\",\"index\":0}}");
    assert_int_equal(cluster.self_role, WEIR_EVALUATOR);
    assert_int_equal(cluster.task_count, 3);
    weir_cluster_free(&cluster);
    cluster = good_cluster("{\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[\"c:1\"],\"evaluator\":[\"e:1\"]},"
                           "\"task\":{\"type\":\"evaluator\"}}");
    assert_int_equal(weir_cluster_count(&cluster, WEIR_EVALUATOR), 1);
    weir_cluster_free(&cluster);
}

static void kubeflow_writes_what_we_read(void **state)
{
    (void)state;
    struct weir_cluster cluster =
        good_cluster("{\"cluster\":{\"chief\":[\"mnist-chief-0.team.svc:2222\"],\"ps\":[\"mnist-ps-0.team.svc:2222\"],"
                     "\"worker\":[\"mnist-worker-0.team.svc:2222\"]},\"task\":{\"type\":\"chief\",\"index\":0},"
                     "\"environment\":\"cloud\",\"rpc_layer\":\"grpc\",\"session_options\":{}}");
    assert_string_equal(weir_cluster_find(&cluster, WEIR_PS, 0)->address, "mnist-ps-0.team.svc:2222");
    weir_cluster_free(&cluster);
}

static void text_that_is_no_object_is_refused(void **state)
{
    (void)state;
    assert_cluster_refused("", "TF_CONFIG: is set, but empty; unset it to run without a cluster\n");
    assert_cluster_refused("[]", "TF_CONFIG:1:1: must be an object ({...}), not a list\n");
    assert_cluster_refused("{\"cluster\"", "TF_CONFIG:1:11: the JSON ends too early: the file seems to be cut short\n");
    char *large = malloc((64 << 10) + 2);
    memset(large, ' ', (64 << 10) + 1);
    large[(64 << 10) + 1] = '\0';
    assert_cluster_refused(large, "TF_CONFIG: is larger than 64 KiB\n");
    free(large);
}

/* TF#17854 */
static void wrong_job_names_are_named_with_the_right_ones(void **state)
{
    (void)state;
    assert_cluster_refused(
        "{\"cluster\":{\"ps_hosts\":[\"a:1\"],\"worker_hosts\":[\"b:2\"]},\"task\":{\"type\":\"worker\"}}",
        "TF_CONFIG:1:13: cluster.ps_hosts: unknown job; did you mean \"ps\"? Allowed are chief, worker, ps and "
        "evaluator\n"
        "TF_CONFIG:1:32: cluster.worker_hosts: unknown job; did you mean \"worker\"? Allowed are chief, worker, ps and "
        "evaluator\n");
    assert_cluster_refused("{\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[\"c:1\"],\"master\":[\"d:1\"]},"
                           "\"task\":{\"type\":\"master\"}}",
                           "TF_CONFIG:1:43: cluster.master: \"master\" is the old name of the chief; write \"chief\"\n"
                           "TF_CONFIG:1:76: task.type: \"master\" is the old name of the chief; write \"chief\"\n");
    assert_cluster_refused("{" MAP ",\"task\":{\"type\":\"trainer\"}}",
                           "TF_CONFIG:1:65: task.type: unknown type \"trainer\"; allowed are chief, worker, ps and "
                           "evaluator\n");
}

/* KF#894 */
static void there_is_one_chief_and_one_evaluator_at_most(void **state)
{
    (void)state;
    assert_cluster_refused("{\"cluster\":{\"chief\":[\"d:1\",\"e:1\"],\n\"evaluator\":{\"0\":\"f:1\",\"1\":\"g:1\"},\n"
                           "\"worker\":[\"a:1\"],\"ps\":[\"c:1\"]},\"task\":{\"type\":\"ps\"}}",
                           "TF_CONFIG:1:21: cluster.chief: there can be at most one chief, not 2\n"
                           "TF_CONFIG:2:13: cluster.evaluator: there can be at most one evaluator, not 2\n");
    assert_cluster_refused("{\"cluster\":{\"chief\":{\"1\":\"d:1\"},\"worker\":[\"a:1\"],\"ps\":[\"c:1\"]},"
                           "\"task\":{\"type\":\"ps\"}}",
                           "TF_CONFIG:1:22: cluster.chief.1: the chief's index must be 0\n");
    assert_cluster_refused("{" MAP ",\"task\":{\"type\":\"evaluator\",\n\"index\":1}}",
                           "TF_CONFIG:2:9: task.index: there can be at most one evaluator, so its index is 0, not 1\n");
}

static void each_address_is_checked(void **state)
{
    (void)state;
    assert_cluster_refused(
        "{\"cluster\":{\"ps\":[\"p:1\"],\"worker\":[\n\"a\",\n\":1\",\n\"a:0\",\n\"a:65536\",\n\"a:1x\",\n\"::1:5\",\n"
        "\"[::1]\",\n\"[x]:1\",\n\"grpc://a:1\",\n\"a b:1\",\n\"10.0.0.256:1\",\n5,\nnull,\n\"a:01\",\n\"a..b:1\"]},"
        "\"task\":{\"type\":\"ps\"}}",
        "TF_CONFIG:2:1: cluster.worker[0]: address \"a\": it must be host:port; the port is missing\n"
        "TF_CONFIG:3:1: cluster.worker[1]: address \":1\": it must be host:port; the host is missing\n"
        "TF_CONFIG:4:1: cluster.worker[2]: address \"a:0\": the port must be a number from 1 to 65535\n"
        "TF_CONFIG:5:1: cluster.worker[3]: address \"a:65536\": the port must be a number from 1 to 65535\n"
        "TF_CONFIG:6:1: cluster.worker[4]: address \"a:1x\": the port must be a number from 1 to 65535\n"
        "TF_CONFIG:7:1: cluster.worker[5]: address \"::1:5\": an IPv6 address must stand in brackets, as in "
        "[::1]:2222\n"
        "TF_CONFIG:8:1: cluster.worker[6]: address \"[::1]\": a ':' and the port must follow the brackets\n"
        "TF_CONFIG:9:1: cluster.worker[7]: address \"[x]:1\": no IPv6 address stands in the brackets\n"
        "TF_CONFIG:10:1: cluster.worker[8]: address \"grpc://a:1\": it must be host:port, without a scheme\n"
        "TF_CONFIG:11:1: cluster.worker[9]: address \"a b:1\": the host is no name or address\n"
        "TF_CONFIG:12:1: cluster.worker[10]: address \"10.0.0.256:1\": the host is no name or address\n"
        "TF_CONFIG:13:1: cluster.worker[11]: must be a string host:port, not 5\n"
        "TF_CONFIG:14:1: cluster.worker[12]: must be a string host:port, not null\n"
        "TF_CONFIG:15:1: cluster.worker[13]: address \"a:01\": the port must be a number from 1 to 65535\n"
        "TF_CONFIG:16:1: cluster.worker[14]: address \"a..b:1\": the host is no name or address\n");
}

static void good_addresses_pass(void **state)
{
    (void)state;
    struct weir_cluster cluster =
        good_cluster("{\"cluster\":{\"ps\":[\"[fe80::1]:65535\"],\"worker\":[\"127.0.0.1:1\",\"my-host.x_y.:22\"]},"
                     "\"task\":{\"type\":\"ps\"}}");
    weir_cluster_free(&cluster);
}

static void no_two_tasks_share_an_address(void **state)
{
    (void)state;
    assert_cluster_refused("{\"cluster\":{\"worker\":[\"host:1\",\"b:1\",\"b:1\"],\"ps\":[\"HOST:1\"]},"
                           "\"task\":{\"type\":\"ps\"}}",
                           "TF_CONFIG:1:38: cluster.worker[2]: address \"b:1\" is that of worker 1 too\n"
                           "TF_CONFIG:1:51: cluster.ps[0]: address \"HOST:1\" is that of worker 0 too\n");
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    assert_cluster_refused(
        "{\"cluster\":5,\"task\":[]}",
        "TF_CONFIG:1:12: cluster: must be an object, not 5\nTF_CONFIG:1:21: task: must be an object, not a list\n");
    assert_cluster_refused("{\"cluster\":{\"worker\":\"a:1\",\"ps\":{\"x\":\"c:1\",\"-1\":\"d:1\",\"01\":\"e:1\"}},"
                           "\"task\":{\"type\":1,\"index\":1.5}}",
                           "TF_CONFIG:1:22: cluster.worker: must be a list of addresses or an object {\"index\": "
                           "address}, not \"a:1\"\n"
                           "TF_CONFIG:1:34: cluster.ps.x: the key must be an index from 0 to 65535\n"
                           "TF_CONFIG:1:44: cluster.ps.-1: the key must be an index from 0 to 65535\n"
                           "TF_CONFIG:1:55: cluster.ps.01: the key must be an index from 0 to 65535\n"
                           "TF_CONFIG:1:83: task.type: must be a string, not 1\n"
                           "TF_CONFIG:1:93: task.index: must be an integer from 0 to 65535, not 1.5\n");
    assert_cluster_refused("{" MAP ",\"task\":{\"type\":\"ps\"},\"rpc_layer\":\"mpi\"}",
                           "TF_CONFIG:1:83: rpc_layer: \"mpi\" is not supported; roles speak \"grpc\"\n");
}

static void slips_in_keys_are_noticed(void **state)
{
    (void)state;
    assert_cluster_refused("{" MAP ",\"tasks\":{\"type\":\"ps\"}}",
                           "TF_CONFIG:1:1: task: required, but missing: it says which of the cluster's tasks this is\n"
                           "TF_CONFIG:1:50: tasks: unknown key; did you mean \"task\"?\n");
    assert_cluster_refused("{" MAP ",\"task\":{\"type\":\"worker\",\"indx\":1}}",
                           "TF_CONFIG:1:74: task.indx: unknown key; did you mean \"index\"?\n");
}

static void the_task_must_be_in_the_cluster(void **state)
{
    (void)state;
    assert_cluster_refused(
        "{" MAP ",\"task\":{\"type\":\"worker\",\"index\":2}}",
        "TF_CONFIG:1:82: task.index: worker 2 is not in the cluster; the largest index there is 1\n");
    assert_cluster_refused("{" MAP ",\"task\":{\"type\":\"worker\",\"index\":-1}}",
                           "TF_CONFIG:1:82: task.index: must be an integer from 0 to 65535, not -1\n");
    assert_cluster_refused("{" MAP ",\"task\":{\"type\":\"chief\"}}",
                           "TF_CONFIG:1:65: task.type: the cluster has no chief\n");
    assert_cluster_refused("{" MAP ",\"task\":{}}",
                           "TF_CONFIG:1:57: task.type: required, but missing; allowed are chief, worker, ps and "
                           "evaluator\n");
}

static void workers_and_ps_are_needed(void **state)
{
    (void)state;
    assert_cluster_refused("{\"cluster\":{\"worker\":[\"a:1\"],\"ps\":[]},\"task\":{\"type\":\"worker\"}}",
                           "TF_CONFIG:1:12: cluster: there is no ps; training without parameter servers (all-reduce) "
                           "is not there yet\n");
    assert_cluster_refused("{\"cluster\":{\"ps\":{\"0\":\"a:1\"}},\"task\":{\"type\":\"ps\"}}",
                           "TF_CONFIG:1:12: cluster: there is no worker; a job needs at least one\n");
}

static void hosts_are_compared_without_their_ports(void **state)
{
    (void)state;
    assert_true(weir_address_same_host("a:1", "a:1"));
    assert_true(weir_address_same_host("127.0.0.1:2222", "127.0.0.1:40000"));
    assert_true(weir_address_same_host("Node-1.Local:2222", "node-1.local:2223"));
    assert_true(weir_address_same_host("[fd00::4]:1", "[fd00::4]:22"));
    assert_false(weir_address_same_host("[fd00::4]:1", "[fd00::5]:1"));
    assert_false(weir_address_same_host("a:1", "ab:1"));
    assert_false(weir_address_same_host("ab:1", "a:1"));
    assert_false(weir_address_same_host("127.0.0.1:2222", "127.0.0.2:2222"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_means_one_process),
        cmocka_unit_test(lists_are_numbered_by_position),
        cmocka_unit_test(sparse_maps_keep_their_numbers),
        cmocka_unit_test(a_missing_index_is_0),
        cmocka_unit_test(an_evaluator_may_stand_inside_or_outside),
        cmocka_unit_test(kubeflow_writes_what_we_read),
        cmocka_unit_test(text_that_is_no_object_is_refused),
        cmocka_unit_test(wrong_job_names_are_named_with_the_right_ones),
        cmocka_unit_test(there_is_one_chief_and_one_evaluator_at_most),
        cmocka_unit_test(each_address_is_checked),
        cmocka_unit_test(good_addresses_pass),
        cmocka_unit_test(no_two_tasks_share_an_address),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(slips_in_keys_are_noticed),
        cmocka_unit_test(the_task_must_be_in_the_cluster),
        cmocka_unit_test(workers_and_ps_are_needed),
        cmocka_unit_test(hosts_are_compared_without_their_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
