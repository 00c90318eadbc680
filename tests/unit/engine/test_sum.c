/* The tree sum, and the squares of the gated path. */
#include "fixture.h"

#include <math.h>

#define ELEMENTS 3000
#define REPLICAS_MAX 9

static const struct weir_optimizer_config any_optimizer = {.kind = WEIR_OPTIMIZER_SGD};
static const enum weir_isa isas[] = {WEIR_ISA_PLAIN, WEIR_ISA_AVX2, WEIR_ISA_AVX512};

struct tree {
    int16_t code[2 * WEIR_OPERANDS_MAX];
    size_t length;
};

/* The node (level, index) of the tree over `replicas`, of which those in the bit set `present` have contributed:
 * appends its program and writes its value for one element; false if nobody below it has. */
static bool tree_node(struct tree *tree, unsigned level, unsigned index, unsigned replicas, unsigned present,
                      const float *values, float *value)
{
    if (index << level >= replicas)
        return false;
    if (level == 0) {
        if (!(present >> index & 1))
            return false;
        tree->code[tree->length++] = (int16_t)index;
        *value = values[index];
        return true;
    }
    float left, right;
    bool has_left = tree_node(tree, level - 1, 2 * index, replicas, present, values, &left);
    bool has_right = tree_node(tree, level - 1, 2 * index + 1, replicas, present, values, &right);
    if (has_left && has_right)
        tree->code[tree->length++] = WEIR_SUM_ADD;
    *value = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

static void sum_with(enum weir_isa isa, const struct weir_sum_program *sum, float *out, size_t elements)
{
    struct weir_engine *engine = weir_engine_new(&any_optimizer, isa);
    weir_engine_sum(engine, sum, NULL, 0, out, NULL, elements);
    weir_engine_free(engine);
}

static void every_subset_of_nine_replicas_is_summed_in_the_shape_of_the_tree(void **state)
{
    (void)state;
    static float payload[REPLICAS_MAX][ELEMENTS], out[ELEMENTS];
    struct source source = source_new(40);
    struct whole wholes[REPLICAS_MAX];
    struct weir_operand operands[REPLICAS_MAX];
    size_t elements = 37;
    for (unsigned r = 0; r < REPLICAS_MAX; r++) {
        for (size_t i = 0; i < ELEMENTS; i++)
            payload[r][i] = source_symmetric(&source) * (i % 3 ? 1 : 1e6f);
        operands[r] = *whole_set(&wholes[r], payload[r], elements);
    }
    for (unsigned replicas = 1; replicas <= REPLICAS_MAX; replicas++)
        for (unsigned present = 0; present < 1u << replicas; present++) {
            struct tree tree = {.length = 0};
            float none;
            const float zeros[REPLICAS_MAX] = {0};
            bool any = tree_node(&tree, 4, 0, replicas, present, zeros, &none);
            struct weir_sum_program sum = {tree.code, tree.length, operands, replicas};
            sum_with(WEIR_ISA_BEST, &sum, out, elements);
            for (size_t i = 0; i < elements; i++) {
                float values[REPLICAS_MAX], expected = 0;
                for (unsigned r = 0; r < replicas; r++)
                    values[r] = payload[r][i];
                tree.length = 0;
                if (any)
                    tree_node(&tree, 4, 0, replicas, present, values, &expected);
                assert_memory_equal(&out[i], &expected, sizeof expected);
            }
        }
}

static void minus_zero_is_kept(void **state)
{
    (void)state;
    static const int16_t code[] = {0, 1, WEIR_SUM_ADD};
    const float minus_zero[] = {-0.0f, -0.0f, -0.0f};
    float out[3];
    struct whole wholes[2];
    struct weir_operand operands[] = {*whole_set(&wholes[0], minus_zero, 3), *whole_set(&wholes[1], minus_zero, 3)};
    struct weir_sum_program alone = {code, 1, operands, 1}, both = {code, 3, operands, 2};
    sum_with(WEIR_ISA_BEST, &alone, out, 3);
    assert_memory_equal(out, minus_zero, sizeof out);
    sum_with(WEIR_ISA_BEST, &both, out, 3);
    assert_memory_equal(out, minus_zero, sizeof out);
}

/* ((0 + 1) + 2) + ..., and 0 + (1 + (2 + ...)): the fewest and the most open sums and operands. */
static void programs_of_any_depth_are_summed(void **state)
{
    (void)state;
    enum { COUNT = WEIR_OPERANDS_MAX };
    static int16_t left[2 * COUNT], right[2 * COUNT], pairs[2 * COUNT];
    static struct whole wholes[COUNT];
    static struct weir_operand operands[COUNT];
    static float payload[COUNT][2];
    size_t at = 0, pair_at = 0;
    for (int16_t i = 0; i < COUNT; i++) {
        payload[i][0] = (float)i, payload[i][1] = 1;
        operands[i] = *whole_set(&wholes[i], payload[i], 2);
        left[at++] = right[i] = i;
        if (i > 0)
            left[at++] = right[COUNT + i - 1] = WEIR_SUM_ADD;
        pairs[pair_at++] = i;
        if (i % 2)
            pairs[pair_at++] = WEIR_SUM_ADD;
    }
    while (pair_at < at) /* 512 sums are open, then added from the right */
        pairs[pair_at++] = WEIR_SUM_ADD;
    const int16_t *codes[] = {left, right, pairs};
    for (size_t k = 0; k < 3; k++) {
        struct weir_sum_program sum = {codes[k], at, operands, COUNT};
        float out[2];
        sum_with(WEIR_ISA_BEST, &sum, out, 2);
        assert_true(out[0] == COUNT * (COUNT - 1) / 2 && out[1] == COUNT);
    }
}

static void a_sum_of_nothing_is_zero_but_still_a_step(void **state)
{
    (void)state;
    struct weir_optimizer_config config = {.kind = WEIR_OPTIMIZER_SGD, .momentum = 0.5};
    struct weir_engine *engine = weir_engine_new(&config, WEIR_ISA_BEST);
    struct weir_sum_program nothing = {0};
    float weights[] = {1, 2, 3}, momentum[] = {8, 8, 8}, out[] = {7, 7, 7}, *slots[] = {momentum};
    weir_engine_sum(engine, &nothing, NULL, 0, out, NULL, 3);
    weir_engine_apply(engine, &nothing, &plain_update, NULL, 0, weights, weights, slots, 3, false);
    for (size_t i = 0; i < 3; i++)
        assert_true(out[i] == 0 && momentum[i] == 4 && weights[i] == (float)(i + 1) + 4);
    weir_engine_free(engine);
}

/* ---- squares */

/* Element i in lane i mod 32, lanes in pairs: 0 + 16, 1 + 17, ... and so on down to one. */
static double squares_by_lanes(const float *in, size_t count)
{
    double lane[63] = {0}; /* 32 lanes, behind them the 16 sums of pairs, behind them 8, ... */
    for (size_t i = 0; i < count; i++)
        lane[i % 32] += (double)in[i] * (double)in[i];
    size_t from = 0;
    for (size_t width = 16, to = 32; width > 0; from = to, to += width, width /= 2)
        for (size_t k = 0; k < width; k++)
            lane[to + k] = lane[from + k] + lane[from + width + k];
    return lane[62];
}

static void squares_are_summed_in_one_order_on_all_instruction_sets_and_cuts(void **state)
{
    (void)state;
    static float payload[ELEMENTS], out[ELEMENTS];
    struct source source = source_new(41);
    for (size_t i = 0; i < ELEMENTS; i++) /* of many sizes, so that every order of additions rounds in its own way */
        payload[i] = source_symmetric(&source) * (float)(1 << source_below(&source, 20));
    const struct weir_piece pieces[] = {{0, 0, 1}, {0, 1, 37}, {1, 40, 1500}, {2, 1540, 0}, {3, 1540, 1459}};
    double first[5];
    for (int round = 0; round < 60; round++) {
        size_t cut = source_below(&source, ELEMENTS * 4);
        const struct weir_slice slices[] = {{payload, cut}, {(const char *)payload + cut, ELEMENTS * 4 - cut}};
        const struct weir_operand operand = {slices, 2};
        struct weir_sum_program sum = program_of_one(&operand);
        struct weir_engine *engine = weir_engine_new(&any_optimizer, isas[round % 3]);
        double squares[5];
        weir_engine_sum(engine, &sum, pieces, 5, out, squares, ELEMENTS);
        weir_engine_free(engine);
        assert_memory_equal(out, payload, sizeof out); /* padding between and after pieces too */
        if (round == 0)
            memcpy(first, squares, sizeof first);
        assert_memory_equal(squares, first, sizeof first);
    }
    for (size_t p = 0; p < 5; p++) /* also between versions of weir: nodes of one job compare them */
        assert_true(first[p] == squares_by_lanes(payload + pieces[p].first, pieces[p].count));
}

static void what_is_not_finite_shows_in_its_piece_alone(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const struct weir_piece pieces[] = {{0, 0, 50}, {1, 50, 50}};
    for (size_t b = 0; b < 3; b++)
        for (size_t at = 0; at < 50; at++) {
            float payload[100], out[100];
            double squares[2];
            for (size_t i = 0; i < 100; i++)
                payload[i] = 3e38f; /* squares of huge floats are finite */
            payload[at] = bad[b];
            struct whole whole;
            struct weir_sum_program sum = program_of_one(whole_set(&whole, payload, 100));
            struct weir_engine *engine = weir_engine_new(&any_optimizer, WEIR_ISA_BEST);
            weir_engine_sum(engine, &sum, pieces, 2, out, squares, 100);
            weir_engine_free(engine);
            assert_true(!isfinite(squares[0]) && isfinite(squares[1]));
        }
}

/* The gated path applies the stored sum later; it must be the same step. */
static void sum_then_apply_is_apply(void **state)
{
    (void)state;
    static const int16_t code[] = {0, 1, WEIR_SUM_ADD, 2, WEIR_SUM_ADD};
    static float payload[3][ELEMENTS], stored[ELEMENTS], weights[2][ELEMENTS], memory[2][WEIR_SLOTS_MAX][ELEMENTS];
    struct source source = source_new(42);
    struct whole wholes[3], whole;
    struct weir_operand operands[3];
    for (size_t k = 0; k < 3; k++) {
        source_fill(&source, payload[k], ELEMENTS);
        operands[k] = *whole_set(&wholes[k], payload[k], ELEMENTS);
    }
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (size_t count = 2; count <= 3; count++) {
            struct weir_sum_program sum = {code, 2 * count - 1, operands, count};
            struct weir_sum_program later = program_of_one(whole_set(&whole, stored, ELEMENTS));
            const struct weir_sum_program *const programs[] = {&sum, &later};
            struct weir_engine *engine = weir_engine_new(&all_optimizers[o], WEIR_ISA_BEST);
            memset(memory, 0, sizeof memory);
            weir_engine_sum(engine, &sum, NULL, 0, stored, NULL, ELEMENTS);
            for (size_t k = 0; k < 2; k++) {
                float *slots[] = {memory[k][0], memory[k][1], memory[k][2]};
                weir_engine_apply(engine, programs[k], &plain_update, NULL, 0, payload[0], weights[k], slots, ELEMENTS,
                                  false);
            }
            assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
            assert_memory_equal(memory[0], memory[1], sizeof memory[0]);
            weir_engine_free(engine);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subset_of_nine_replicas_is_summed_in_the_shape_of_the_tree),
        cmocka_unit_test(minus_zero_is_kept),
        cmocka_unit_test(programs_of_any_depth_are_summed),
        cmocka_unit_test(a_sum_of_nothing_is_zero_but_still_a_step),
        cmocka_unit_test(squares_are_summed_in_one_order_on_all_instruction_sets_and_cuts),
        cmocka_unit_test(what_is_not_finite_shows_in_its_piece_alone),
        cmocka_unit_test(sum_then_apply_is_apply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
