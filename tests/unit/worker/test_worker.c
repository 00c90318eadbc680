/* The worker's step core: what it computes, with which version, when a view gives it more to do in mid-step. */
#include "../protocol/rig.h"

#include "worker/worker.h"

#define LANES 2
#define REPLICAS 4

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_worker_step(core, event, actions);
}

static struct rig new_worker(const uint32_t hosts[REPLICAS])
{
    struct weir_worker_config config = {.self = 1, .lanes = LANES, .replicas = REPLICAS, .hosts = hosts};
    config.layout = weir_layout_make(10, 10, 1, LANES);
    struct rig rig = {.step = step};
    rig.actions = rig_actions(&rig.arena, WEIR_WORKER_ACTIONS_MAX);
    rig.core = weir_worker_init(&rig.arena, &config);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
    return rig;
}

static void record(struct rig *rig, uint64_t at, enum weir_order order)
{
    struct weir_message_body body = {.type = WEIR_RECORD, .record = {.step = at, .order = order}};
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_RECORD, .body = &body});
}

static void holds(struct rig *rig, uint32_t lane, uint64_t version)
{
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_HOLDS, .lane = lane, .step = version});
}

static void hosts_now(struct rig *rig, const uint32_t hosts[REPLICAS])
{
    struct weir_message_body body = {.type = WEIR_VIEW, .view = {.replicas = REPLICAS, .hosts = hosts}};
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_VIEW, .body = &body});
}

static void computed(struct rig *rig, uint64_t at)
{
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_COMPUTED, .step = at});
}

/* What the newest event made it compute; `count` 0: nothing. */
static void computes(const struct rig *rig, uint64_t at, uint32_t part, size_t count, uint32_t first)
{
    assert_int_equal(rig->actions.count, count > 0);
    if (!count)
        return;
    const struct weir_action *action = &rig->actions.list[0];
    assert_int_equal(action->kind, WEIR_DO_COMPUTE);
    assert_int_equal(action->step, at);
    assert_int_equal(action->part, part);
    assert_int_equal(action->replica_count, count);
    assert_int_equal(action->replicas[0], first);
}

static const uint32_t some[REPLICAS] = {0, 0, 1, 1}, all[REPLICAS] = {1, 1, 1, 1}, none[REPLICAS] = {0, 0, 0, 0};

static void it_computes_what_it_hosts_once(void **state)
{
    (void)state;
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    computes(&rig, 0, 0, 0, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    computes(&rig, 0, 0, 2, 2);
    computed(&rig, 0);
    computes(&rig, 0, 0, 0, 0);
    weir_arena_free(&rig.arena);
}

static void what_a_view_adds_is_the_next_part_of_the_step(void **state)
{
    (void)state;
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    hosts_now(&rig, all); /* while it computes */
    computes(&rig, 0, 0, 0, 0);
    computed(&rig, 0);
    computes(&rig, 0, 1, 2, 0);
    computed(&rig, 0);
    hosts_now(&rig, none);
    hosts_now(&rig, all); /* nothing that it has not done */
    computes(&rig, 0, 0, 0, 0);
    weir_arena_free(&rig.arena);
}

/* The record of step 1 needs all Seals of step 0, not all contributions: who sealed may have died before it had brought
 * them all. Where a lane lacks a chunk of version 1, step 0 is not finished. */
static void the_step_before_the_newest_record_is_taken_over_too(void **state)
{
    (void)state;
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    computed(&rig, 0);
    holds(&rig, 0, 1);
    record(&rig, 1, WEIR_ORDER_STOP);
    computes(&rig, 0, 0, 0, 0);
    hosts_now(&rig, all);
    computes(&rig, 0, 1, 2, 0);
    computed(&rig, 0);
    holds(&rig, 1, 1);
    computes(&rig, 0, 0, 0, 0); /* it has stopped */
    weir_arena_free(&rig.arena);
}

static void a_record_may_come_while_it_computes_the_one_before(void **state)
{
    (void)state;
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    record(&rig, 1, WEIR_ORDER_TRAIN); /* others were quicker with its replicas */
    holds(&rig, 0, 1);
    holds(&rig, 1, 1);
    computes(&rig, 0, 0, 0, 0);
    computed(&rig, 0);
    computes(&rig, 1, 0, 2, 2);
    weir_arena_free(&rig.arena);
}

static void without_replicas_it_stands_by(void **state)
{
    (void)state;
    struct rig rig = new_worker(none);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    computes(&rig, 0, 0, 0, 0);
    hosts_now(&rig, some);
    computes(&rig, 0, 0, 2, 2);
    weir_arena_free(&rig.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_computes_what_it_hosts_once),
        cmocka_unit_test(what_a_view_adds_is_the_next_part_of_the_step),
        cmocka_unit_test(the_step_before_the_newest_record_is_taken_over_too),
        cmocka_unit_test(a_record_may_come_while_it_computes_the_one_before),
        cmocka_unit_test(without_replicas_it_stands_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
