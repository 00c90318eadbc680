/* The sum tree: one shape, whoever pre-summed what and in whatever order it came. The sum that the tests compare with
 * follows the definition of the nodes from the leaves up, and "adds" with a function that no other order survives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "protocol/layout.h"
#include "protocol/tree.h"

#define MOST 40

struct dice {
    struct weir_random_key key;
    uint64_t counter;
};

static uint32_t below(struct dice *dice, uint32_t n)
{
    uint32_t out[4];
    weir_random_block(dice->key, dice->counter++, 0, out);
    return (uint32_t)((uint64_t)out[0] * n >> 32);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t z = (a * UINT64_C(0x9E3779B97F4A7C15) + 1) ^ (b * UINT64_C(0xC2B2AE3D27D4EB4F) + 3);
    return (z ^ z >> 29) | 1;
}

/* The sum of node (level, index) of R replicas by definition; 0: nothing in it has a sample. */
static uint64_t sum_of(uint32_t replicas, uint32_t level, uint32_t index, const uint64_t *leaves)
{
    if ((uint64_t)index << level >= replicas)
        return 0;
    if (level == 0)
        return leaves[index];
    uint64_t a = sum_of(replicas, level - 1, 2 * index, leaves);
    uint64_t b = sum_of(replicas, level - 1, 2 * index + 1, leaves);
    return a && b ? add(a, b) : a ? a : b;
}

/* Payloads are numbers of sums. */
static uint64_t run_program(const struct weir_tree *tree, const uint64_t *payloads)
{
    int16_t code[2 * MOST];
    uint64_t stack[MOST];
    size_t top = 0, length = weir_tree_program(tree, code);
    assert_true(length <= 2 * tree->replicas);
    for (size_t i = 0; i < length; i++) {
        if (code[i] == WEIR_TREE_ADD) {
            assert_true(top >= 2);
            top--;
            stack[top - 1] = add(stack[top - 1], stack[top]);
        } else {
            stack[top++] = payloads[tree->first[code[i]].payload];
        }
    }
    assert_true(top <= 1);
    return top ? stack[0] : 0;
}

struct sum {
    struct weir_held_node nodes[MOST];
    struct weir_tree tree;
    uint64_t payloads[4096];
    uint64_t count; /* payload handles given: 1... */
    bool owned[4096];
};

static void start(struct sum *sum, uint32_t replicas)
{
    *sum = (struct sum){.tree = {.replicas = replicas}};
    sum->tree.first = sum->nodes;
}

/* Adds a node as a worker sends it; keeps account of payloads. */
static enum weir_tree_answer arrive(struct sum *sum, struct weir_tree_node node, const uint64_t *leaves)
{
    uint64_t value = sum_of(sum->tree.replicas, node.level, node.index, leaves), replaced[MOST], handle = 0;
    size_t replaced_count;
    if (value) {
        handle = ++sum->count;
        sum->payloads[handle] = value;
        sum->owned[handle] = true;
    }
    enum weir_tree_answer answer = weir_tree_add(&sum->tree, node, value == 0, handle, replaced, &replaced_count);
    if (answer == WEIR_TREE_DROPPED)
        sum->owned[handle] = false;
    for (size_t i = 0; i < replaced_count; i++) {
        assert_true(sum->owned[replaced[i]]);
        sum->owned[replaced[i]] = false;
    }
    return answer;
}

/* What is owned is what the tree holds, and nothing else. */
static void owns_what_it_holds(struct sum *sum)
{
    uint64_t owned = 0, held = 0;
    for (uint64_t h = 1; h <= sum->count; h++)
        owned += sum->owned[h];
    for (uint32_t r = 0; r < sum->tree.replicas; r++) {
        if (!sum->nodes[r].count || sum->nodes[r].empty)
            continue;
        assert_true(sum->owned[sum->nodes[r].payload]);
        held++;
    }
    assert_int_equal(owned, held);
}

static void draw_leaves(struct dice *dice, uint64_t *leaves)
{
    uint32_t mode = below(dice, 3);
    for (uint32_t r = 0; r < MOST; r++)
        leaves[r] = mode == 0 || below(dice, 3) ? 2 * below(dice, 1000000) + 1 : 0;
    if (mode == 2)
        memset(leaves, 0, below(dice, 2) * MOST * sizeof *leaves);
}

static uint32_t root_level(uint32_t replicas)
{
    uint32_t level = 0;
    while (UINT32_C(1) << level < replicas)
        level++;
    return level;
}

static void any_hosting_in_any_order_gives_the_same_sum(void **state)
{
    (void)state;
    static struct sum sum;
    struct dice dice = {weir_random_key(1, WEIR_RANDOM_TEST, 0, 0), 0};
    for (uint32_t replicas = 1; replicas <= MOST; replicas++)
        for (uint32_t workers = 1; workers <= replicas + 1; workers++) {
            struct weir_tree_node nodes[3 * MOST];
            uint64_t leaves[MOST];
            size_t count = 0;
            draw_leaves(&dice, leaves);
            for (uint32_t w = 0; w < workers; w++) { /* any replicas, not only neighbours */
                uint32_t list[MOST], hosted = 0;
                for (uint32_t r = 0; r < replicas; r++)
                    if ((workers % 2 ? r % workers : r * workers / replicas) == w)
                        list[hosted++] = r;
                count += weir_tree_cover(replicas, list, hosted, nodes + count);
            }
            size_t needed = count;
            for (size_t i = 0; i < needed && count < 3 * MOST; i++) /* some are sent again */
                if (below(&dice, 2))
                    nodes[count++] = nodes[i];
            for (size_t i = count - 1; i > 0; i--) {
                size_t j = below(&dice, (uint32_t)i + 1);
                struct weir_tree_node swap = nodes[i];
                nodes[i] = nodes[j];
                nodes[j] = swap;
            }
            start(&sum, replicas);
            for (size_t i = 0; i < count; i++)
                arrive(&sum, nodes[i], leaves);
            assert_true(weir_tree_complete(&sum.tree));
            owns_what_it_holds(&sum);
            assert_true(run_program(&sum.tree, sum.payloads) == sum_of(replicas, root_level(replicas), 0, leaves));
        }
}

static void any_nodes_until_all_is_covered_give_the_same_sum(void **state)
{
    (void)state;
    static struct sum sum;
    struct dice dice = {weir_random_key(2, WEIR_RANDOM_TEST, 0, 0), 0};
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t replicas = 1 + below(&dice, MOST), before, first, count;
        uint64_t leaves[MOST];
        draw_leaves(&dice, leaves);
        start(&sum, replicas);
        while (!weir_tree_complete(&sum.tree)) {
            struct weir_tree_node node = {below(&dice, root_level(replicas) + 2), below(&dice, replicas)};
            before = sum.tree.covered;
            if (weir_tree_range(replicas, node, &first, &count))
                arrive(&sum, node, leaves);
            assert_true(sum.tree.covered >= before && sum.tree.covered <= replicas); /* never less, never too much */
            owns_what_it_holds(&sum);
        }
        assert_true(run_program(&sum.tree, sum.payloads) == sum_of(replicas, root_level(replicas), 0, leaves));
    }
}

static void what_is_below_or_again_is_dropped_and_what_is_above_replaces(void **state)
{
    (void)state;
    static struct sum sum;
    uint64_t leaves[MOST];
    for (uint32_t r = 0; r < MOST; r++)
        leaves[r] = r + 1;
    start(&sum, 7);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){1, 1}, leaves), WEIR_TREE_HELD);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){1, 1}, leaves), WEIR_TREE_DROPPED);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){0, 2}, leaves), WEIR_TREE_DROPPED);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){0, 3}, leaves), WEIR_TREE_DROPPED);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){0, 0}, leaves), WEIR_TREE_HELD);
    assert_int_equal(sum.tree.covered, 3);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){2, 0}, leaves), WEIR_TREE_HELD);
    assert_int_equal(sum.tree.covered, 4);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){0, 6}, leaves), WEIR_TREE_HELD);
    assert_int_equal(arrive(&sum, (struct weir_tree_node){1, 3}, leaves), WEIR_TREE_DROPPED); /* its other name */
    assert_false(weir_tree_complete(&sum.tree));
    assert_int_equal(arrive(&sum, (struct weir_tree_node){1, 2}, leaves), WEIR_TREE_HELD);
    assert_true(weir_tree_complete(&sum.tree));
    owns_what_it_holds(&sum);
}

static void a_range_is_what_the_name_says(void **state)
{
    (void)state;
    uint32_t first, count;
    for (uint32_t replicas = 1; replicas <= MOST; replicas++)
        for (uint32_t level = 0; level < 70; level++)
            for (uint32_t index = 0; index < MOST + 3; index++) {
                bool there = level <= root_level(replicas) && (uint64_t)index << level < replicas;
                assert_int_equal(weir_tree_range(replicas, (struct weir_tree_node){level, index}, &first, &count),
                                 there);
                if (!there)
                    continue;
                uint64_t end = ((uint64_t)index + 1) << level;
                assert_int_equal(first, (uint64_t)index << level);
                assert_int_equal(first + count, end < replicas ? end : replicas);
            }
    assert_false(weir_tree_range(MOST, (struct weir_tree_node){31, UINT32_MAX}, &first, &count));
    assert_false(weir_tree_range(MOST, (struct weir_tree_node){UINT32_MAX, 0}, &first, &count));
}

/* A cover is the replicas, each once, in order; and no node of it could be larger. */
static void a_cover_is_whole_and_as_large_as_can_be(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= MOST; replicas++)
        for (uint32_t from = 0; from < replicas; from++)
            for (uint32_t hosted = 0; from + hosted <= replicas; hosted++) {
                struct weir_tree_node nodes[MOST], parent;
                uint32_t list[MOST];
                for (uint32_t r = 0; r < hosted; r++)
                    list[r] = from + r;
                size_t n = weir_tree_cover(replicas, list, hosted, nodes);
                uint32_t at = from, first, count;
                for (size_t i = 0; i < n; i++) {
                    assert_true(weir_tree_range(replicas, nodes[i], &first, &count));
                    assert_int_equal(first, at);
                    at += count;
                    parent = (struct weir_tree_node){nodes[i].level + 1, nodes[i].index / 2};
                    if (weir_tree_range(replicas, parent, &first, &count))
                        assert_true(first < from || first + count > from + hosted);
                }
                assert_int_equal(at, from + hosted);
            }
}

static void numbers_are_added_along_the_same_tree(void **state)
{
    (void)state;
    struct dice dice = {weir_random_key(3, WEIR_RANDOM_TEST, 0, 0), 0};
    for (uint32_t replicas = 1; replicas <= MOST; replicas++) {
        double number[MOST], level[MOST];
        for (uint32_t r = 0; r < replicas; r++)
            number[r] = level[r] = (double)below(&dice, 1000000) * 1e-7 + below(&dice, 3) * 1e9;
        for (uint32_t n = replicas; n > 1; n = (n + 1) / 2)
            for (uint32_t i = 0; i < n; i += 2)
                level[i / 2] = i + 1 < n ? level[i] + level[i + 1] : level[i];
        double sum = weir_tree_sum(replicas, number, 1, NULL);
        assert_memory_equal(&sum, &level[0], sizeof sum);
    }
    const double minus[2] = {-0., 5};
    const bool present[2] = {true, false}, none[2] = {false, false};
    double sum = weir_tree_sum(2, minus, 1, present);
    assert_memory_equal(&sum, &minus[0], sizeof sum); /* no zero is added: it would turn -0 into +0 */
    assert_true(weir_tree_sum(2, minus, 1, none) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_hosting_in_any_order_gives_the_same_sum),
        cmocka_unit_test(any_nodes_until_all_is_covered_give_the_same_sum),
        cmocka_unit_test(what_is_below_or_again_is_dropped_and_what_is_above_replaces),
        cmocka_unit_test(a_range_is_what_the_name_says),
        cmocka_unit_test(a_cover_is_whole_and_as_large_as_can_be),
        cmocka_unit_test(numbers_are_added_along_the_same_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
