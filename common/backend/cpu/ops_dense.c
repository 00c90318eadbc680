/* Dense by dnnl_sgemm, on Keras's (in, out) layout without packing.
 *
 * Rows must not depend on their number. x W has that for two rows or more, dz W^T for multiples of 16 (seen over many
 * sizes; the tests look again), so the rows are padded. x^T dz is made per replica, in slices of the kernel's rows that
 * fit into the cache, each summed along the tree before the next; the slices do not depend on the replicas either.
 */
#include "cpu/op.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#define FORWARD_ROWS_MIN 2
#define GRADIENT_ROWS 16

static void gemm(char trans_a, char trans_b, size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b,
                 size_t ldb, float *c, size_t ldc)
{
    dnnl_status_t status = dnnl_sgemm(trans_a, trans_b, (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a,
                                      (dnnl_dim_t)lda, b, (dnnl_dim_t)ldb, 0.0f, c, (dnnl_dim_t)ldc);
    assert(status == dnnl_success); /* sizes were checked when the model was read */
    (void)status;
}

static struct weir_op *dense_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                  uint32_t max_rows, struct weir_error *err)
{
    weir_cpu_reserve(context, 2 * desc->in_width * sizeof(float));
    return weir_cpu_op_make(context, desc, max_rows, err);
}

static void dense_forward(struct weir_op *op, const struct weir_op_pass *pass)
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

/* Kernels with more than a tile in one row are cut into columns, too: copied out tile by tile. */
static void wide_kernel_gradient(struct weir_op *op, const struct weir_op_pass *pass,
                                 const struct weir_op_gradient *gradient);

static void kernel_gradient(struct weir_op *op, const struct weir_op_pass *pass,
                            const struct weir_op_gradient *gradient)
{
    const struct weir_op_desc *d = &op->desc;
    if (d->out_width > WEIR_TREE_TILE) {
        wide_kernel_gradient(op, pass, gradient);
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

static void wide_kernel_gradient(struct weir_op *op, const struct weir_op_pass *pass,
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

static void dense_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    size_t rows = pass->rows * d->positions;
    if (d->relu)
        weir_cpu_relu_gradient(pass->dy, pass->y, rows * d->out_width);
    if (pass->dx) {
        size_t padded = (rows + GRADIENT_ROWS - 1) / GRADIENT_ROWS * GRADIENT_ROWS;
        gemm('N', 'T', padded, d->in_width, d->out_width, pass->dy, d->out_width, pass->kernel, d->out_width, pass->dx,
             d->in_width);
    }
    for (size_t g = 0; g < pass->gradient_count; g++) {
        kernel_gradient(op, pass, &pass->gradients[g]);
        if (d->has_bias)
            weir_cpu_bias_gradient(op->context->tree, &pass->gradients[g], pass->dy, d->positions, d->out_width);
    }
}

const struct weir_op_class weir_cpu_dense = {.make = dense_make, .forward = dense_forward, .backward = dense_backward};
