/* Workers that go and come, as a lane sees it: by its view, and by what they bring. */
#include "lane_rig.h"

static struct weir_view view_of(const struct weir_view_node *nodes, const uint32_t *by_replica)
{
    return (struct weir_view){
        .generation = 3, .number = 2, .replicas = 2, .nodes = nodes, .node_count = WORKERS + 1, .hosts = by_replica};
}

static void a_replica_counts_whoever_brings_it(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 1);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    contribute_node(&rig, 1, (struct weir_tree_node){0, 0}, 0, 0);
    assert_int_equal(count_asked(&rig, WEIR_DO_RELEASE), 0);
    contribute_node(&rig, 0, (struct weir_tree_node){0, 0}, 0, 0);
    assert_int_equal(count_asked(&rig, WEIR_DO_RELEASE), 1);
    contribute_node(&rig, 1, (struct weir_tree_node){0, 1}, 0, 0);
    assert_int_equal(count_asked(&rig, WEIR_DO_APPLY), 1);
    weir_arena_free(&rig.arena);
}

static void a_view_lets_in_whom_it_names_and_shuts_out_the_others(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 1);
    struct weir_hello old = hello_of(WEIR_NODE_WORKER, 1), new = old;
    const struct weir_view_node nodes[] = {
        {WEIR_NODE_PS, 0, 11, ""}, {WEIR_NODE_WORKER, 0, 0, ""}, {WEIR_NODE_WORKER, 1, 99, ""}};
    const uint32_t by_replica[] = {1, 1};
    struct weir_message_body body = {.type = WEIR_VIEW, .view = view_of(nodes, by_replica)};
    uint32_t peer;
    const char *reason;
    bool again = false;
    new.incarnation = 99;
    greet(&rig, 1, old);
    assert_false(weir_ps_lane_admit(rig.core, &new, &peer, &reason, &again));
    assert_true(again); /* its view may come here later than there */
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_VIEW, .body = &body});
    assert_int_equal(count_asked(&rig, WEIR_DO_CLOSE), 1);
    assert_true(admits(&rig, new, 1));
    assert_false(admits(&rig, old, 1));
    assert_false(admits(&rig, hello_of(WEIR_NODE_WORKER, 0), 0));
    weir_arena_free(&rig.arena);
}

/* Who comes late may have to compute the step before as well: it is sent both versions, also where the newer one was
 * made while the older one waited to be sent. */
static void a_late_worker_gets_both_versions(void **state)
{
    (void)state;
    struct rig rig = new_lane(0, 3);
    struct weir_hello late = hello_of(WEIR_NODE_WORKER, 1);
    greet(&rig, 1, late);
    uint32_t sent = count_sent(&rig, 1, WEIR_WEIGHTS), last = 4; /* local chunk 2 waits: two messages are unsent */
    record(&rig, 0, WEIR_ORDER_TRAIN);
    cover(&rig, last, 0);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_APPLIED, .chunk = last});
    uint64_t versions = 0;
    for (int i = 0; i < 12; i++) {
        rig_give(&rig, (struct weir_event){.kind = WEIR_ON_SENT, .peer = 1});
        for (size_t a = 0; a < rig.actions.count; a++)
            if (rig.actions.list[a].kind == WEIR_DO_SEND && rig.actions.list[a].body.type == WEIR_WEIGHTS) {
                sent++;
                if (rig.actions.list[a].body.weights.chunk == last)
                    versions |= UINT64_C(1) << rig.actions.list[a].body.weights.version;
            }
    }
    assert_int_equal(sent, 4);
    assert_int_equal(versions, 3);
    weir_arena_free(&rig.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_counts_whoever_brings_it),
        cmocka_unit_test(a_view_lets_in_whom_it_names_and_shuts_out_the_others),
        cmocka_unit_test(a_late_worker_gets_both_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
