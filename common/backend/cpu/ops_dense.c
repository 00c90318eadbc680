/* Dense layers: by weir's own kernels (gemm.h) or by dnnl_sgemm, both on Keras's (in, out) layout without packing.
 *
 * Which of them depends on the layer's widths only, never on the number of rows, so that a row's bits stay the same.
 * The own kernels' rows do not depend on each other. With dnnl_sgemm x W has that for two rows or more, dz W^T for
 * multiples of 16 (seen over many sizes; the tests look again), so rows are padded; x^T dz is made per replica, in
 * slices of the kernel's rows that fit into the cache, each summed along the tree before the next, and the slices do
 * not depend on the replicas either.
 */
#include "cpu/op.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/gemm.h"

#define USUAL_ROWS 64 /* for which the kernels are compared */
#define FORWARD_ROWS_MIN 2
#define GRADIENT_ROWS 16

struct dense {
    struct weir_op op;
    bool own;
    struct weir_row_range *ranges; /* of a call: the replicas' in positions instead of rows; grown when needed */
    size_t range_room;
};

static struct weir_op *dense_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                  uint32_t max_rows, struct weir_error *err)
{
    size_t rows = ((size_t)max_rows + WEIR_ROWS_PAD) * desc->positions;
    if (rows > UINT32_MAX) {
        weir_error_set(err, "%u samples of %zu vectors are too many; use a smaller fit.batch_size", max_rows,
                       desc->positions);
        return NULL;
    }
    struct dense *dense = weir_alloc(1, sizeof *dense, "a dense layer");
    dense->op = (struct weir_op){&weir_cpu_dense, context, *desc, max_rows};
    dense->own = weir_gemm_wins(USUAL_ROWS, desc->in_width, desc->out_width);
    weir_cpu_reserve(context, weir_gemm_scratch_bytes(rows, desc->in_width, desc->out_width) +
                                  FORWARD_ROWS_MIN * desc->in_width * sizeof(float));
    return &dense->op;
}

static void dense_destroy(struct weir_op *op)
{
    free(((struct dense *)op)->ranges);
    free(op);
}

/* ---- dnnl_sgemm */

static void gemm(char trans_a, char trans_b, size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b,
                 size_t ldb, float *c, size_t ldc)
{
    dnnl_status_t status = dnnl_sgemm(trans_a, trans_b, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a,
                                      (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, 0.0f, c, (dnnl_dim_t)ldc);
    assert(status == dnnl_success); /* sizes were checked when the model was read */
    (void)status;
}

static void sgemm_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    size_t rows = pass->rows * d->positions;
    const float *x = pass->x;
    if (rows < FORWARD_ROWS_MIN) { /* x may have no room behind its rows */
        float *two = op->context->scratch;
        memcpy(two, x, d->in_width * sizeof *two);
        memset(two + d->in_width, 0, d->in_width * sizeof *two);
        x = two;
        rows = FORWARD_ROWS_MIN;
    }
    gemm('N', 'N', rows, d->out_width, d->in_width, x, d->in_width, pass->kernel, d->out_width, pass->y, d->out_width);
    weir_cpu_add_bias(pass->y, d->has_bias ? pass->bias : NULL, pass->rows * d->positions, d->out_width, d->relu);
}

struct kernel_leaf {
    const struct weir_op_desc *desc;
    const float *x, *dz;
    size_t first, count; /* rows of the kernel */
};

static void kernel_leaf(void *context, const struct weir_row_range *rows, float *out)
{
    const struct kernel_leaf *leaf = context;
    const struct weir_op_desc *d = leaf->desc;
    size_t first = rows->first * d->positions, count = rows->count * d->positions;
    gemm('T', 'N', leaf->count, d->out_width, count, leaf->x + first * d->in_width + leaf->first, d->in_width,
         leaf->dz + first * d->out_width, d->out_width, out, d->out_width);
}

/* Kernels with more than a tile in one row are cut into columns, too. */
struct wide_leaf {
    const struct weir_op_desc *desc;
    const float *x, *dz;
    size_t row, column, columns;
};

static void wide_leaf(void *context, const struct weir_row_range *rows, float *out)
{
    const struct wide_leaf *leaf = context;
    const struct weir_op_desc *d = leaf->desc;
    size_t first = rows->first * d->positions, count = rows->count * d->positions;
    gemm('T', 'N', 1, leaf->columns, count, leaf->x + first * d->in_width + leaf->row, d->in_width,
         leaf->dz + first * d->out_width + leaf->column, d->out_width, out, leaf->columns);
}

static void sgemm_wide_kernel_gradient(struct weir_op *op, const struct weir_op_pass *pass,
                                       const struct weir_op_gradient *gradient)
{
    const struct weir_op_desc *d = &op->desc;
    struct wide_leaf leaf = {.desc = d, .x = pass->x, .dz = pass->dy};
    for (leaf.row = 0; leaf.row < d->in_width; leaf.row++)
        for (leaf.column = 0; leaf.column < d->out_width; leaf.column += leaf.columns) {
            size_t left = d->out_width - leaf.column;
            leaf.columns = left < WEIR_TREE_TILE ? left : WEIR_TREE_TILE;
            weir_cpu_tree_sum(op->context->tree, gradient->replicas, gradient->replica_count, leaf.columns, wide_leaf,
                              &leaf, gradient->kernel + leaf.row * d->out_width + leaf.column);
        }
}

static void sgemm_kernel_gradient(struct weir_op *op, const struct weir_op_pass *pass,
                                  const struct weir_op_gradient *gradient)
{
    const struct weir_op_desc *d = &op->desc;
    if (d->out_width > WEIR_TREE_TILE) {
        sgemm_wide_kernel_gradient(op, pass, gradient);
        return;
    }
    struct kernel_leaf leaf = {.desc = d, .x = pass->x, .dz = pass->dy};
    size_t slice = WEIR_TREE_TILE / d->out_width;
    for (leaf.first = 0; leaf.first < d->in_width; leaf.first += leaf.count) {
        leaf.count = d->in_width - leaf.first < slice ? d->in_width - leaf.first : slice;
        weir_cpu_tree_sum(op->context->tree, gradient->replicas, gradient->replica_count, leaf.count * d->out_width,
                          kernel_leaf, &leaf, gradient->kernel + leaf.first * d->out_width);
    }
}

static void sgemm_input_gradient(const struct weir_op_desc *d, const struct weir_op_pass *pass)
{
    size_t rows = pass->rows * d->positions;
    size_t padded = (rows + GRADIENT_ROWS - 1) / GRADIENT_ROWS * GRADIENT_ROWS;
    gemm('N', 'T', padded, d->in_width, d->out_width, pass->dy, d->out_width, pass->kernel, d->out_width, pass->dx,
         d->in_width);
}

/* ---- weir's own kernels */

static void own_kernel_gradient(struct dense *dense, const struct weir_op_pass *pass,
                                const struct weir_op_gradient *gradient, const struct weir_op_watcher *watcher)
{
    const struct weir_op_desc *d = &dense->op.desc;
    const struct weir_row_range *replicas = gradient->replicas;
    if (d->positions > 1) {
        if (gradient->replica_count > dense->range_room) {
            free(dense->ranges);
            dense->range_room = gradient->replica_count;
            dense->ranges = weir_alloc(dense->range_room, sizeof *dense->ranges, "replicas");
        }
        uint32_t positions = (uint32_t)d->positions;
        for (size_t i = 0; i < gradient->replica_count; i++)
            dense->ranges[i] = (struct weir_row_range){replicas[i].first * positions, replicas[i].count * positions};
        replicas = dense->ranges;
    }
    weir_gemm_weight_gradient(gradient->kernel, pass->x, pass->dy, replicas, gradient->replica_count, d->in_width,
                              d->out_width, watcher, dense->op.context->scratch);
}

/* ---- both */

static void dense_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    if (((struct dense *)op)->own)
        weir_gemm_forward(pass->y, pass->x, pass->kernel, d->has_bias ? pass->bias : NULL, pass->rows * d->positions,
                          d->in_width, d->out_width, d->relu, op->context->scratch);
    else
        sgemm_forward(op, pass);
}

static void dense_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    struct dense *dense = (struct dense *)op;
    const struct weir_op_desc *d = &op->desc;
    size_t rows = pass->rows * d->positions;
    if (d->relu)
        weir_relu_gradient(pass->dy, pass->y, rows * d->out_width);
    if (pass->dx && dense->own)
        weir_gemm_input_gradient(pass->dx, pass->dy, pass->kernel, rows, d->in_width, d->out_width,
                                 op->context->scratch);
    else if (pass->dx)
        sgemm_input_gradient(d, pass);
    for (size_t g = 0; g < pass->gradient_count && d->has_bias; g++)
        weir_cpu_bias_gradient(op->context->tree, &pass->gradients[g], pass->dy, d->positions, d->out_width);
    for (size_t g = 0; g < pass->gradient_count; g++) {
        if (dense->own)
            own_kernel_gradient(dense, pass, &pass->gradients[g], g + 1 == pass->gradient_count ? pass->watcher : NULL);
        else
            sgemm_kernel_gradient(op, pass, &pass->gradients[g]);
    }
}

const struct weir_op_class weir_cpu_dense = {
    .make = dense_make, .destroy = dense_destroy, .forward = dense_forward, .backward = dense_backward};
