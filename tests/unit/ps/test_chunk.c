/* One chunk: what it takes, what it drops, what it calls wrong, and when it asks for the next step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ps/chunk.h"

#define BYTES 40
#define REPLICAS 3

struct rig {
    struct weir_arena arena;
    struct weir_chunk chunk;
    struct weir_machine_counts counts;
    struct weir_action list[32];
    struct weir_actions actions;
};

static int start(void **state)
{
    static struct rig rig;
    rig = (struct rig){.actions.capacity = 32};
    rig.actions.list = rig.list;
    weir_chunk_init(&rig.chunk, &rig.arena, 9, 5, BYTES, REPLICAS);
    rig.chunk.held = true;
    *state = &rig;
    return 0;
}

static int end(void **state)
{
    struct rig *rig = *state;
    weir_arena_free(&rig->arena);
    return 0;
}

static const char *give(struct rig *rig, uint64_t step, uint32_t level, uint32_t index, uint64_t payload)
{
    struct weir_contribution contribution = {
        .step = step, .chunk = 9, .level = level, .index = index, .empty = !payload};
    rig->actions.count = 0;
    return weir_chunk_contribution(&rig->chunk, &contribution, payload, payload ? BYTES : 0, &rig->actions);
}

static bool released(const struct rig *rig, uint64_t payload)
{
    uint32_t times = 0;
    for (size_t i = 0; i < rig->actions.count; i++)
        times += rig->list[i].kind == WEIR_DO_RELEASE && rig->list[i].payload == payload;
    assert_true(times <= 1);
    return times == 1;
}

static const struct weir_action *asked(const struct rig *rig, enum weir_action_kind kind)
{
    for (size_t i = 0; i < rig->actions.count; i++)
        if (rig->list[i].kind == kind)
            return &rig->list[i];
    return NULL;
}

static void what_does_not_belong_is_named_and_its_payload_released(void **state)
{
    struct rig *rig = *state;
    const uint32_t wrong[][2] = {{0, REPLICAS}, {3, 0}, {1, 2}, {31, 0}, {32, 0}, {UINT32_MAX, 0}, {0, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_non_null(give(rig, 5, wrong[i][0], wrong[i][1], 77));
        assert_true(released(rig, 77));
    }
    assert_non_null(give(rig, 6, 0, 0, 77)); /* nobody can have the weights for it */
    assert_true(released(rig, 77));
    for (uint64_t bytes = 0; bytes < 2 * BYTES; bytes++) {
        struct weir_contribution contribution = {.step = 5, .chunk = 9, .empty = bytes % 2};
        rig->actions.count = 0;
        const char *said = weir_chunk_contribution(&rig->chunk, &contribution, 78, bytes, &rig->actions);
        if (bytes == BYTES)
            continue; /* as long as it has to be: held */
        assert_non_null(said);
        assert_true(released(rig, 78));
    }
    assert_int_equal(rig->chunk.tree.covered, 1);
}

static void what_is_late_or_comes_again_is_dropped_without_a_word(void **state)
{
    struct rig *rig = *state;
    assert_null(give(rig, 4, 0, 0, 1));
    assert_true(released(rig, 1));
    assert_null(give(rig, 5, 1, 0, 2));
    assert_false(released(rig, 2));
    assert_null(give(rig, 5, 1, 0, 3));
    assert_true(released(rig, 3) && !released(rig, 2));
    assert_null(give(rig, 5, 0, 1, 4));
    assert_true(released(rig, 4));
    assert_null(give(rig, 5, 2, 0, 5)); /* above: replaces */
    assert_true(released(rig, 2) && !released(rig, 5));
    assert_true(weir_chunk_complete(&rig->chunk, false, &rig->counts, &rig->actions));
    assert_false(weir_chunk_complete(&rig->chunk, false, &rig->counts, &rig->actions)); /* said once */
    assert_null(give(rig, 5, 2, 0, 6));
    assert_true(released(rig, 6));
}

static void apply_once(struct rig *rig, uint64_t step, bool gated)
{
    struct weir_record record = {.step = step}, verdict = {.step = step + 1, .skip = step % 2};
    rig->actions.count = 0;
    if (gated)
        weir_chunk_summed(&rig->chunk, &rig->counts, &rig->actions);
    weir_chunk_apply(&rig->chunk, &record, gated ? &verdict : NULL, &rig->counts, &rig->actions);
    const struct weir_action *apply = asked(rig, WEIR_DO_APPLY);
    assert_non_null(apply);
    assert_int_equal(apply->step, step);
    assert_int_equal(apply->skip, gated && step % 2);
    assert_int_equal(apply->tree == NULL, gated);
    assert_null(asked(rig, WEIR_DO_FREE));
    weir_chunk_applied(&rig->chunk, &rig->counts, &rig->actions);
    assert_null(asked(rig, WEIR_DO_FREE)); /* not by the apply */
    assert_int_equal(rig->chunk.version, step + 1);
}

static void the_first_contribution_of_a_step_frees_the_version_before(void **state)
{
    struct rig *rig = *state;
    give(rig, 5, 2, 0, 1);
    assert_null(asked(rig, WEIR_DO_FREE)); /* there is none before */
    assert_true(weir_chunk_complete(&rig->chunk, false, &rig->counts, &rig->actions));
    apply_once(rig, 5, false);
    assert_true(released(rig, 1) && rig->chunk.has_old);
    give(rig, 5, 2, 0, 2); /* of the step before: says nothing of what its sender holds */
    assert_null(asked(rig, WEIR_DO_FREE));
    assert_null(give(rig, 6, 0, 2, 3));
    const struct weir_action *gone = asked(rig, WEIR_DO_FREE);
    assert_non_null(gone);
    assert_int_equal(gone->step, 5);
    give(rig, 6, 0, 1, 4);
    assert_null(asked(rig, WEIR_DO_FREE)); /* once */
}

static void a_gated_chunk_is_summed_first_and_applied_by_the_verdict(void **state)
{
    struct rig *rig = *state;
    for (uint64_t step = 5; step < 8; step++) {
        give(rig, step, 1, 0, 2 * step);
        assert_false(weir_chunk_complete(&rig->chunk, true, &rig->counts, &rig->actions));
        give(rig, step, 0, 2, 0); /* empty */
        assert_true(weir_chunk_complete(&rig->chunk, true, &rig->counts, &rig->actions));
        assert_non_null(asked(rig, WEIR_DO_SUM));
        apply_once(rig, step, true);
        assert_true(released(rig, 2 * step)); /* and not once more by the apply */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_does_not_belong_is_named_and_its_payload_released, start, end),
        cmocka_unit_test_setup_teardown(what_is_late_or_comes_again_is_dropped_without_a_word, start, end),
        cmocka_unit_test_setup_teardown(the_first_contribution_of_a_step_frees_the_version_before, start, end),
        cmocka_unit_test_setup_teardown(a_gated_chunk_is_summed_first_and_applied_by_the_verdict, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
