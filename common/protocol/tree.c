#include "protocol/tree.h"

#include <assert.h>

bool weir_tree_range(uint32_t replicas, struct weir_tree_node node, uint32_t *first, uint32_t *count)
{
    if (node.level > 31 || (uint64_t)node.index << node.level >= replicas)
        return false;
    uint64_t start = (uint64_t)node.index << node.level;
    uint64_t end = start + (UINT64_C(1) << node.level);
    /* A node more than one level above the root is no part of the tree: it would be a third name for the same sum. */
    if (node.level > 0 && UINT64_C(1) << (node.level - 1) >= replicas)
        return false;
    *first = (uint32_t)start;
    *count = (uint32_t)((end < replicas ? end : replicas) - start);
    return true;
}

uint32_t weir_tree_left(uint32_t count)
{
    assert(count > 1);
    return UINT32_C(1) << (31 - (uint32_t)__builtin_clz(count - 1));
}

/* The largest node that starts at `first` and ends within `end`: its level. */
static uint32_t largest_level(uint32_t replicas, uint32_t first, uint32_t end)
{
    uint32_t level = 0;
    for (;; level++) { /* climb while the parent starts here and ends within what is hosted */
        uint32_t size = UINT32_C(1) << (level + 1);
        uint32_t parent_end = first + size < replicas ? first + size : replicas;
        if (first % size || parent_end > end || UINT32_C(1) << level >= replicas)
            return level;
    }
}

size_t weir_tree_cover(uint32_t replicas, const uint32_t *list, size_t count, struct weir_tree_node *nodes)
{
    size_t written = 0;
    for (size_t i = 0, run = 0; i < count; i = run) {
        for (run = i + 1; run < count && list[run] == list[run - 1] + 1;)
            run++;
        uint32_t first = list[i], end = list[run - 1] + 1;
        assert(end <= replicas);
        while (first < end) {
            uint32_t level = largest_level(replicas, first, end);
            nodes[written++] = (struct weir_tree_node){level, first >> level};
            uint64_t next = (uint64_t)first + (UINT64_C(1) << level);
            first = next < end ? (uint32_t)next : end;
        }
    }
    return written;
}

/* The held node that covers all of [first, first + count), or NULL. */
static const struct weir_held_node *holder_of(const struct weir_tree *tree, uint32_t first, uint32_t count)
{
    for (uint32_t level = 0; level < 32; level++) {
        uint32_t start = first >> level << level;
        const struct weir_held_node *held = &tree->first[start];
        if (held->count && start + held->count >= first + count)
            return held;
        if (start == 0)
            break;
    }
    return NULL;
}

enum weir_tree_answer weir_tree_add(struct weir_tree *tree, struct weir_tree_node node, bool empty, uint64_t payload,
                                    uint64_t *replaced, size_t *replaced_count)
{
    uint32_t first, count;
    *replaced_count = 0;
    bool in_tree = weir_tree_range(tree->replicas, node, &first, &count);
    assert(in_tree);
    if (!in_tree || holder_of(tree, first, count))
        return WEIR_TREE_DROPPED;
    for (uint32_t r = first; r < first + count; r++) {
        struct weir_held_node *below = &tree->first[r];
        if (!below->count)
            continue;
        tree->covered -= below->count;
        if (!below->empty)
            replaced[(*replaced_count)++] = below->payload;
        below->count = 0;
    }
    tree->first[first] = (struct weir_held_node){.count = count, .empty = empty, .payload = payload};
    tree->covered += count;
    assert(tree->covered <= tree->replicas);
    return WEIR_TREE_HELD;
}

bool weir_tree_complete(const struct weir_tree *tree)
{
    return tree->covered == tree->replicas;
}

void weir_tree_clear(struct weir_tree *tree)
{
    for (uint32_t r = 0; r < tree->replicas; r++)
        tree->first[r] = (struct weir_held_node){0};
    tree->covered = 0;
}

/* Appends the sum of [first, first + count); false if nothing in it has a sample. */
static bool emit(const struct weir_tree *tree, uint32_t first, uint32_t count, int16_t *code, size_t *length)
{
    const struct weir_held_node *held = &tree->first[first];
    if (held->count >= count) {
        if (held->empty)
            return false;
        code[(*length)++] = (int16_t)first;
        return true;
    }
    uint32_t left = weir_tree_left(count);
    bool has_left = emit(tree, first, left, code, length);
    bool has_right = emit(tree, first + left, count - left, code, length);
    if (has_left && has_right)
        code[(*length)++] = WEIR_TREE_ADD;
    return has_left || has_right;
}

size_t weir_tree_program(const struct weir_tree *tree, int16_t *code)
{
    assert(weir_tree_complete(tree));
    size_t length = 0;
    emit(tree, 0, tree->replicas, code, &length);
    return length;
}

static bool sum_range(uint32_t first, uint32_t count, const double *number, size_t stride, const bool *present,
                      double *sum)
{
    if (count == 1) {
        *sum = number[first * stride];
        return !present || present[first];
    }
    uint32_t left = weir_tree_left(count);
    double a = 0, b = 0;
    bool has_a = sum_range(first, left, number, stride, present, &a);
    bool has_b = sum_range(first + left, count - left, number, stride, present, &b);
    *sum = has_a && has_b ? a + b : has_a ? a : b;
    return has_a || has_b;
}

double weir_tree_sum(uint32_t replicas, const double *number, size_t stride, const bool *present)
{
    double sum = 0;
    return replicas && sum_range(0, replicas, number, stride, present, &sum) ? sum : 0;
}
