#include "cpu/op.h"
#include "cpu/variants.h"

#include <assert.h>
#include <string.h>

WEIR_CPU_BODY weir_cpu_add_body(float *restrict out, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] += x[i];
}

WEIR_CPU_VARIANTS(, weir_cpu_add, (float *out, const float *x, size_t count), (out, x, count))

WEIR_CPU_BODY weir_cpu_add_bias_body(float *restrict y, const float *restrict bias, size_t rows, size_t width,
                                     bool relu)
{
    for (size_t r = 0; r < rows; r++) {
        float *row = y + r * width;
        if (relu)
            for (size_t i = 0; i < width; i++) {
                float z = bias ? row[i] + bias[i] : row[i];
                row[i] = z < 0 ? 0 : z; /* lets NaN through: a diverged run must show */
            }
        else
            for (size_t i = 0; i < width && bias; i++)
                row[i] += bias[i];
    }
}

WEIR_CPU_VARIANTS(, weir_cpu_add_bias, (float *y, const float *bias, size_t rows, size_t width, bool relu),
                  (y, bias, rows, width, relu))

WEIR_CPU_BODY weir_cpu_column_sum_body(float *restrict out, const float *restrict x, const struct weir_row_range *rows,
                                       size_t repeat, size_t width)
{
    const float *from = x + (size_t)rows->first * repeat * width;
    memcpy(out, from, width * sizeof *out);
    for (size_t r = 1; r < rows->count * repeat; r++)
        for (size_t i = 0; i < width; i++)
            out[i] += from[r * width + i];
}

WEIR_CPU_VARIANTS(, weir_cpu_column_sum,
                  (float *out, const float *x, const struct weir_row_range *rows, size_t repeat, size_t width),
                  (out, x, rows, repeat, width))

/* ---- the tree */

struct tree {
    size_t count;
    weir_tree_leaf leaf;
    void *context;
};

static size_t lower_power_of_two(size_t n)
{
    size_t p = 1;
    while (p * 2 < n)
        p *= 2;
    return p;
}

/* True if there were rows. `spare`: tiles for the right halves that wait for their left ones. */
static bool sum(const struct tree *tree, const struct weir_row_range *replicas, size_t n, float *out, float *spare)
{
    if (n == 1) {
        if (replicas->count)
            tree->leaf(tree->context, replicas, out);
        return replicas->count > 0;
    }
    size_t p = lower_power_of_two(n);
    if (!sum(tree, replicas, p, out, spare))
        return sum(tree, replicas + p, n - p, out, spare);
    if (sum(tree, replicas + p, n - p, spare, spare + tree->count))
        weir_cpu_add(out, spare, tree->count);
    return true;
}

void weir_cpu_tree_sum(float *spare, const struct weir_row_range *replicas, size_t replica_count, size_t count,
                       weir_tree_leaf leaf, void *leaf_context, float *out)
{
    assert(replica_count > 0 && replica_count <= UINT32_MAX);
    struct tree tree = {count, leaf, leaf_context};
    bool any = sum(&tree, replicas, replica_count, out, spare);
    assert(any); /* the caller leaves nodes without rows out */
    (void)any;
}

/* ---- bias */

struct bias_leaf {
    const float *dz;
    size_t repeat, width;
    size_t from, count; /* a strip of columns */
};

static void bias_leaf(void *context, const struct weir_row_range *rows, float *out)
{
    const struct bias_leaf *leaf = context;
    weir_cpu_column_sum(out, leaf->dz, rows, leaf->repeat, leaf->width);
}

/* Too wide for a tile: strips of columns, added up in the same order. */
static void bias_strip_leaf(void *context, const struct weir_row_range *rows, float *out)
{
    const struct bias_leaf *leaf = context;
    const float *from = leaf->dz + (size_t)rows->first * leaf->repeat * leaf->width + leaf->from;
    memcpy(out, from, leaf->count * sizeof *out);
    for (size_t r = 1; r < rows->count * leaf->repeat; r++)
        weir_cpu_add(out, from + r * leaf->width, leaf->count);
}

void weir_cpu_bias_gradient(float *tree, const struct weir_op_gradient *gradient, const float *dz, size_t repeat,
                            size_t width)
{
    struct bias_leaf leaf = {.dz = dz, .repeat = repeat, .width = width};
    if (width <= WEIR_TREE_TILE) {
        weir_cpu_tree_sum(tree, gradient->replicas, gradient->replica_count, width, bias_leaf, &leaf, gradient->bias);
        return;
    }
    for (leaf.from = 0; leaf.from < width; leaf.from += leaf.count) {
        leaf.count = width - leaf.from < WEIR_TREE_TILE ? width - leaf.from : WEIR_TREE_TILE;
        weir_cpu_tree_sum(tree, gradient->replicas, gradient->replica_count, leaf.count, bias_strip_leaf, &leaf,
                          gradient->bias + leaf.from);
    }
}
