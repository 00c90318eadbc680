/* Convolutions of one channel by weir's own kernels (conv1.h), alone or with relu and global maximum in one pass. Only
 * where nobody asks for dx, that is for the first layer of a CNN. */
#include "cpu/op.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cpu/conv1.h"

struct conv1 {
    struct weir_op op;
    struct weir_conv1_shape shape;
    int32_t *where; /* fused: [max_rows][filters], of the last forward pass */
};

static struct weir_conv1_shape shape_of(const struct weir_op_desc *desc)
{
    return (struct weir_conv1_shape){.height = desc->image.height,
                                     .width = desc->image.width,
                                     .kernel_height = desc->kernel_h,
                                     .kernel_width = desc->kernel_w,
                                     .filters = desc->result.channels};
}

bool weir_cpu_conv1_supports(const struct weir_op_desc *desc)
{
    struct weir_conv1_shape shape = shape_of(desc);
    bool valid = desc->image.height + 1 == desc->result.height + desc->kernel_h &&
                 desc->image.width + 1 == desc->result.width + desc->kernel_w;
    return desc->first && desc->image.channels == 1 && desc->stride_h == 1 && desc->stride_w == 1 && valid &&
           weir_conv1_supports(&shape);
}

static struct weir_op *conv1_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                  uint32_t max_rows, struct weir_error *err)
{
    (void)err;
    struct conv1 *conv = weir_alloc(1, sizeof *conv, "a convolution");
    bool fused = desc->kind == WEIR_OP_CONV2D_GLOBAL_MAX;
    conv->op = (struct weir_op){fused ? &weir_cpu_conv1_global_max : &weir_cpu_conv1, context, *desc, max_rows};
    conv->shape = shape_of(desc);
    if (fused) {
        conv->where = weir_alloc_tensor((size_t)max_rows * desc->out * sizeof *conv->where, "a convolution's maxima");
        weir_cpu_reserve(context, weir_conv1_scratch_bytes(max_rows, &conv->shape));
    }
    return &conv->op;
}

static void conv1_destroy(struct weir_op *op)
{
    free(((struct conv1 *)op)->where);
    free(op);
}

static const float *bias_of(const struct weir_op *op, const struct weir_op_pass *pass)
{
    return op->desc.has_bias ? pass->bias : NULL;
}

static void conv1_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct conv1 *conv = (const struct conv1 *)op;
    weir_conv1_forward(pass->y, pass->x, pass->kernel, bias_of(op, pass), pass->rows, &conv->shape, op->desc.relu);
}

static void conv1_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct conv1 *conv = (const struct conv1 *)op;
    assert(!pass->dx);
    if (op->desc.relu)
        weir_relu_gradient(pass->dy, pass->y, pass->rows * op->desc.out);
    for (size_t g = 0; g < pass->gradient_count; g++) {
        const struct weir_op_gradient *gradient = &pass->gradients[g];
        weir_conv1_weight_gradient(gradient->kernel, gradient->bias, pass->x, pass->dy, gradient->replicas,
                                   gradient->replica_count, &conv->shape);
    }
}

static void global_max_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct conv1 *conv = (const struct conv1 *)op;
    weir_conv1_relu_global_max_forward(pass->y, conv->where, pass->x, pass->kernel, bias_of(op, pass), pass->rows,
                                       &conv->shape, op->context->scratch);
}

static void global_max_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct conv1 *conv = (const struct conv1 *)op;
    assert(!pass->dx);
    for (size_t g = 0; g < pass->gradient_count; g++) {
        const struct weir_op_gradient *gradient = &pass->gradients[g];
        weir_conv1_relu_global_max_gradient(gradient->kernel, gradient->bias, pass->dy, pass->y, conv->where, pass->x,
                                            pass->kernel, bias_of(op, pass), gradient->replicas,
                                            gradient->replica_count, &conv->shape);
    }
}

const struct weir_op_class weir_cpu_conv1 = {
    .make = conv1_make, .destroy = conv1_destroy, .forward = conv1_forward, .backward = conv1_backward};
const struct weir_op_class weir_cpu_conv1_global_max = {
    .make = conv1_make, .destroy = conv1_destroy, .forward = global_max_forward, .backward = global_max_backward};
