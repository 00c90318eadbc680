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

static void hosts_complete(struct rig *rig, const uint32_t hosts[REPLICAS], uint64_t step, uint32_t round)
{
    struct weir_message_body body = {.type = WEIR_VIEW, .view = {.replicas = REPLICAS, .hosts = hosts}};
    body.view.complete_step = step;
    body.view.complete_round = round;
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_VIEW, .body = &body});
}

static void told_to_go(struct rig *rig)
{
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_DRAIN});
}

/* The newest event made it say that all before that (step, round) is complete; and nothing else. */
static void drained(const struct rig *rig, uint64_t at, uint32_t round)
{
    assert_int_equal(rig->actions.count, 1);
    const struct weir_action *action = &rig->actions.list[0];
    assert_int_equal(action->kind, WEIR_DO_TELL);
    assert_int_equal(action->actor, WEIR_ACTOR_NODE);
    assert_int_equal(action->tell, WEIR_ON_DRAINED);
    assert_int_equal(action->step, at);
    assert_int_equal(action->round, round);
}

static void who_is_told_to_go_finishes_the_step_and_begins_no_other(void **state)
{
    (void)state;
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    computes(&rig, 0, 0, 2, 2);
    told_to_go(&rig);
    computes(&rig, 0, 0, 0, 0);
    computed(&rig, 0);
    computes(&rig, 0, 0, 0, 0); /* its contributions may not be there yet */
    hosts_now(&rig, all);       /* another worker was lost meanwhile */
    computes(&rig, 0, 1, 2, 0);
    computed(&rig, 0);
    record(&rig, 1, WEIR_ORDER_TRAIN);
    holds(&rig, 0, 1);
    computes(&rig, 0, 0, 0, 0);
    holds(&rig, 1, 1); /* now step 0 is complete */
    drained(&rig, 1, 0);
    hosts_now(&rig, some); /* not the view that it waits for */
    computes(&rig, 0, 0, 0, 0);
    weir_arena_free(&rig.arena);
}

static void who_waits_between_two_steps_or_for_the_end_goes_at_once(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        struct rig rig = new_worker(stops ? some : none);
        holds(&rig, 0, 0);
        holds(&rig, 1, 0);
        record(&rig, 0, stops ? WEIR_ORDER_STOP : WEIR_ORDER_TRAIN);
        told_to_go(&rig);
        drained(&rig, 0, 0);
        weir_arena_free(&rig.arena);
    }
}

/* Below cluster.min_workers the step does not go on. */
static void who_has_no_part_any_more_goes_in_mid_step(void **state)
{
    (void)state;
    const uint32_t nobody[REPLICAS] = {WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST, WEIR_NO_HOST};
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    told_to_go(&rig);
    hosts_now(&rig, nobody);
    computes(&rig, 0, 0, 0, 0); /* what it computes it brings to its end */
    computed(&rig, 0);
    drained(&rig, 0, 0);
    weir_arena_free(&rig.arena);
}

static void what_is_complete_is_not_computed_again(void **state)
{
    (void)state;
    struct rig rig = new_worker(some);
    holds(&rig, 0, 0);
    holds(&rig, 1, 0);
    record(&rig, 0, WEIR_ORDER_TRAIN);
    computed(&rig, 0);
    hosts_complete(&rig, all, 1, 0); /* who hosted 0 and 1 has brought them, and was drained */
    computes(&rig, 0, 0, 0, 0);
    record(&rig, 1, WEIR_ORDER_EVALUATE);
    holds(&rig, 0, 1);
    holds(&rig, 1, 1);
    computes(&rig, 1, 0, 4, 0);
    computed(&rig, 1);
    hosts_complete(&rig, all, 1, 1);
    struct weir_message_body body = {.type = WEIR_RECORD, .record = {.step = 1, .round = 1}};
    body.record.order = WEIR_ORDER_TRAIN;
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_RECORD, .body = &body});
    computes(&rig, 1, 0, 4, 0);
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
        cmocka_unit_test(who_is_told_to_go_finishes_the_step_and_begins_no_other),
        cmocka_unit_test(who_waits_between_two_steps_or_for_the_end_goes_at_once),
        cmocka_unit_test(who_has_no_part_any_more_goes_in_mid_step),
        cmocka_unit_test(what_is_complete_is_not_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
