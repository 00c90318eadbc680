/* Conv2D by oneDNN's direct convolution, image by image.
 *
 * The primitives are made for one image: so a row's bits cannot depend on the number of rows, and a replica's weight
 * gradient is the sum over its images in order, whoever computes it. A JIT convolution loops over images anyway. The
 * kernel is put into the layout that the primitives like once per pass, which is little next to the convolution.
 */
#include "cpu/op.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/gemm.h"

#define DIMS 4
#define ARGS_MAX 6

/* A memory object of oneDNN; its buffer may be ours or change with every image. */
struct tensor {
    dnnl_memory_t memory;
    float *buffer; /* NULL: set by hand */
};

struct conv {
    struct weir_op op;
    dnnl_memory_desc_t src, dst, bias, kernel; /* one image; the kernel as Keras has it */
    dnnl_memory_desc_t kernel_any;
    dnnl_dims_t strides, pad_before, pad_after;
    dnnl_primitive_attr_t attr, relu_attr;
    dnnl_primitive_t forward, input_gradient, kernel_gradient;
    dnnl_primitive_t to_forward, to_input_gradient, from_kernel_gradient; /* reorders of kernels */
    struct tensor x, y, dx, b, user_kernel, scratchpad[3];
    struct tensor forward_kernel, input_kernel, image_gradient; /* in the primitives' layouts */
    float *sum; /* a replica's kernel gradient, laid out as image_gradient */
    size_t sum_floats;
    float *tree;
};

static bool tensor_new(struct conv *conv, struct tensor *tensor, const dnnl_memory_desc_t *desc, bool own,
                       struct weir_error *err)
{
    if (own)
        tensor->buffer = weir_alloc_tensor(dnnl_memory_desc_get_size(desc), "a convolution");
    dnnl_status_t status =
        dnnl_memory_create(&tensor->memory, desc, conv->op.context->engine, own ? tensor->buffer : DNNL_MEMORY_NONE);
    return status == dnnl_success || weir_cpu_dnnl_error(err, "memory_create", status);
}

static void tensor_free(struct tensor *tensor)
{
    dnnl_memory_destroy(tensor->memory);
    free(tensor->buffer);
}

static bool describe(struct conv *conv, struct weir_error *err)
{
    const struct weir_op_desc *d = &conv->op.desc;
    const struct weir_image *in = &d->image, *out = &d->result;
    dnnl_dims_t src = {1, (dnnl_dim_t)in->channels, (dnnl_dim_t)in->height, (dnnl_dim_t)in->width};
    dnnl_dims_t dst = {1, (dnnl_dim_t)out->channels, (dnnl_dim_t)out->height, (dnnl_dim_t)out->width};
    dnnl_dims_t bias = {dst[1]}, kernel = {dst[1], src[1], (dnnl_dim_t)d->kernel_h, (dnnl_dim_t)d->kernel_w};
    conv->strides[0] = (dnnl_dim_t)d->stride_h;
    conv->strides[1] = (dnnl_dim_t)d->stride_w;
    conv->pad_before[0] = (dnnl_dim_t)d->pad_top;
    conv->pad_before[1] = (dnnl_dim_t)d->pad_left;
    for (int i = 0; i < 2; i++) {
        dnnl_dim_t needed = (dst[2 + i] - 1) * conv->strides[i] + kernel[2 + i] - src[2 + i] - conv->pad_before[i];
        conv->pad_after[i] = needed > 0 ? needed : 0;
    }
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(&conv->src, DIMS, src, dnnl_f32, dnnl_nhwc);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&conv->dst, DIMS, dst, dnnl_f32, dnnl_nhwc);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&conv->kernel, DIMS, kernel, dnnl_f32, dnnl_hwio);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&conv->kernel_any, DIMS, kernel, dnnl_f32, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&conv->bias, 1, bias, dnnl_f32, dnnl_x);
    return status == dnnl_success || weir_cpu_dnnl_error(err, "memory_desc_init", status);
}

/* The scratchpad is ours: oneDNN's own belongs to the thread that made the primitive. */
static bool make_attributes(struct conv *conv, struct weir_error *err)
{
    dnnl_post_ops_t relu = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&conv->attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(conv->attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_clone(&conv->relu_attr, conv->attr);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&relu);
    if (status == dnnl_success)
        status = dnnl_post_ops_append_eltwise(relu, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(conv->relu_attr, relu);
    dnnl_post_ops_destroy(relu);
    return status == dnnl_success || weir_cpu_dnnl_error(err, "primitive_attr", status);
}

static bool make_reorder(struct conv *conv, dnnl_primitive_t *reorder, const dnnl_memory_desc_t *from,
                         const dnnl_memory_desc_t *to, struct weir_error *err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_engine_t engine = conv->op.context->engine;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(reorder, pd);
    dnnl_primitive_desc_destroy(pd);
    return status == dnnl_success || weir_cpu_dnnl_error(err, "reorder", status);
}

/* Makes the primitive of `pd` with its scratchpad and its kernel's tensor. */
static bool make_primitive(struct conv *conv, const_dnnl_primitive_desc_t pd, dnnl_query_t kernel_query,
                           dnnl_primitive_t *primitive, struct tensor *scratchpad, struct tensor *kernel,
                           struct weir_error *err)
{
    dnnl_status_t status = dnnl_primitive_create(primitive, pd);
    if (status != dnnl_success)
        return weir_cpu_dnnl_error(err, "primitive_create (convolution)", status);
    return tensor_new(conv, scratchpad, dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0), true, err) &&
           tensor_new(conv, kernel, dnnl_primitive_desc_query_md(pd, kernel_query, 0), true, err);
}

static bool make_forward(struct conv *conv, dnnl_primitive_desc_t *pd, struct weir_error *err)
{
    const struct weir_op_desc *d = &conv->op.desc;
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, &conv->src, &conv->kernel_any,
        d->has_bias ? &conv->bias : NULL, &conv->dst, conv->strides, conv->pad_before, conv->pad_after);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(pd, &desc, d->relu ? conv->relu_attr : conv->attr, conv->op.context->engine,
                                            NULL);
    if (status != dnnl_success)
        return weir_cpu_dnnl_error(err, "convolution_forward", status);
    return make_primitive(conv, *pd, dnnl_query_weights_md, &conv->forward, &conv->scratchpad[0], &conv->forward_kernel,
                          err) &&
           make_reorder(conv, &conv->to_forward, &conv->kernel,
                        dnnl_primitive_desc_query_md(*pd, dnnl_query_weights_md, 0), err);
}

static bool make_input_gradient(struct conv *conv, dnnl_primitive_desc_t hint, struct weir_error *err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_convolution_desc_t desc;
    dnnl_status_t status =
        dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &conv->src, &conv->kernel_any,
                                                 &conv->dst, conv->strides, conv->pad_before, conv->pad_after);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&pd, &desc, conv->attr, conv->op.context->engine, hint);
    if (status != dnnl_success)
        return weir_cpu_dnnl_error(err, "convolution_backward_data", status);
    bool ok = make_primitive(conv, pd, dnnl_query_weights_md, &conv->input_gradient, &conv->scratchpad[1],
                             &conv->input_kernel, err) &&
              make_reorder(conv, &conv->to_input_gradient, &conv->kernel,
                           dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), err);
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

static bool make_kernel_gradient(struct conv *conv, dnnl_primitive_desc_t hint, struct weir_error *err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_convolution_desc_t desc;
    dnnl_status_t status =
        dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &conv->src, &conv->kernel_any, NULL,
                                                    &conv->dst, conv->strides, conv->pad_before, conv->pad_after);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&pd, &desc, conv->attr, conv->op.context->engine, hint);
    if (status != dnnl_success)
        return weir_cpu_dnnl_error(err, "convolution_backward_weights", status);
    const dnnl_memory_desc_t *kernel = dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
    conv->sum_floats = dnnl_memory_desc_get_size(kernel) / sizeof(float);
    bool ok = make_primitive(conv, pd, dnnl_query_diff_weights_md, &conv->kernel_gradient, &conv->scratchpad[2],
                             &conv->image_gradient, err) &&
              make_reorder(conv, &conv->from_kernel_gradient, kernel, &conv->kernel, err);
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

static void conv_destroy(struct weir_op *op)
{
    struct conv *conv = (struct conv *)op;
    dnnl_primitive_t *primitives[] = {&conv->forward,    &conv->input_gradient,    &conv->kernel_gradient,
                                      &conv->to_forward, &conv->to_input_gradient, &conv->from_kernel_gradient};
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++)
        dnnl_primitive_destroy(*primitives[i]);
    struct tensor *tensors[] = {&conv->x,
                                &conv->y,
                                &conv->dx,
                                &conv->b,
                                &conv->user_kernel,
                                &conv->scratchpad[0],
                                &conv->scratchpad[1],
                                &conv->scratchpad[2],
                                &conv->forward_kernel,
                                &conv->input_kernel,
                                &conv->image_gradient};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        tensor_free(tensors[i]);
    dnnl_primitive_attr_destroy(conv->attr);
    dnnl_primitive_attr_destroy(conv->relu_attr);
    free(conv->sum);
    free(conv->tree);
    free(conv);
}

static bool conv_init(struct conv *conv, struct weir_error *err)
{
    dnnl_primitive_desc_t hint = NULL;
    bool ok =
        describe(conv, err) && make_attributes(conv, err) && make_forward(conv, &hint, err) &&
        make_input_gradient(conv, hint, err) && make_kernel_gradient(conv, hint, err) &&
        tensor_new(conv, &conv->x, &conv->src, false, err) && tensor_new(conv, &conv->y, &conv->dst, false, err) &&
        tensor_new(conv, &conv->dx, &conv->src, false, err) && tensor_new(conv, &conv->b, &conv->bias, false, err) &&
        tensor_new(conv, &conv->user_kernel, &conv->kernel, false, err);
    dnnl_primitive_desc_destroy(hint);
    return ok;
}

static struct weir_op *conv_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                 uint32_t max_rows, struct weir_error *err)
{
    struct conv *conv = weir_alloc(1, sizeof *conv, "a convolution");
    conv->op = (struct weir_op){&weir_cpu_conv2d, context, *desc, max_rows};
    if (!conv_init(conv, err)) {
        conv_destroy(&conv->op);
        return NULL;
    }
    conv->sum = weir_alloc_tensor(conv->sum_floats * sizeof(float), "a convolution's gradient");
    size_t levels = max_rows < WEIR_TREE_LEVELS ? max_rows : WEIR_TREE_LEVELS;
    size_t kernel = desc->kernel_h * desc->kernel_w * desc->image.channels * desc->result.channels;
    conv->tree = weir_alloc(levels * kernel, sizeof(float), "a convolution's sums"); /* pages appear when touched */
    return &conv->op;
}

/* ---- passes */

static void set(struct tensor *tensor, const float *buffer)
{
    union {
        const float *in;
        void *out;
    } handle = {buffer}; /* oneDNN has no const handles; sources are only read */
    dnnl_status_t status = dnnl_memory_set_data_handle(tensor->memory, handle.out);
    assert(status == dnnl_success);
    (void)status;
}

static void execute(struct conv *conv, dnnl_primitive_t primitive, const dnnl_exec_arg_t *args, int count)
{
    dnnl_status_t status = dnnl_primitive_execute(primitive, conv->op.context->stream, count, args);
    assert(status == dnnl_success); /* all that can fail was made in conv_make */
    (void)status;
}

static void reorder(struct conv *conv, dnnl_primitive_t primitive, const struct tensor *from, const struct tensor *to)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from->memory}, {DNNL_ARG_TO, to->memory}};
    execute(conv, primitive, args, 2);
}

static void conv_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    struct conv *conv = (struct conv *)op;
    set(&conv->user_kernel, pass->kernel);
    reorder(conv, conv->to_forward, &conv->user_kernel, &conv->forward_kernel);
    dnnl_exec_arg_t args[ARGS_MAX] = {{DNNL_ARG_SRC, conv->x.memory},
                                      {DNNL_ARG_WEIGHTS, conv->forward_kernel.memory},
                                      {DNNL_ARG_DST, conv->y.memory},
                                      {DNNL_ARG_SCRATCHPAD, conv->scratchpad[0].memory}};
    int count = 4;
    if (op->desc.has_bias) {
        set(&conv->b, pass->bias);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, conv->b.memory};
    }
    for (uint32_t row = 0; row < pass->rows; row++) {
        set(&conv->x, pass->x + row * op->desc.in);
        set(&conv->y, pass->y + row * op->desc.out);
        execute(conv, conv->forward, args, count);
    }
}

static void input_gradient(struct conv *conv, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &conv->op.desc;
    set(&conv->user_kernel, pass->kernel);
    reorder(conv, conv->to_input_gradient, &conv->user_kernel, &conv->input_kernel);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_DIFF_SRC, conv->dx.memory},
                              {DNNL_ARG_WEIGHTS, conv->input_kernel.memory},
                              {DNNL_ARG_DIFF_DST, conv->y.memory},
                              {DNNL_ARG_SCRATCHPAD, conv->scratchpad[1].memory}};
    for (uint32_t row = 0; row < pass->rows; row++) {
        set(&conv->y, pass->dy + row * d->out);
        set(&conv->dx, pass->dx + row * d->in);
        execute(conv, conv->input_gradient, args, 4);
    }
}

struct kernel_leaf {
    struct conv *conv;
    const struct weir_op_pass *pass;
};

static void kernel_leaf(void *context, const struct weir_row_range *rows, float *out)
{
    const struct kernel_leaf *leaf = context;
    struct conv *conv = leaf->conv;
    const struct weir_op_desc *d = &conv->op.desc;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, conv->x.memory},
                              {DNNL_ARG_DIFF_DST, conv->y.memory},
                              {DNNL_ARG_DIFF_WEIGHTS, conv->image_gradient.memory},
                              {DNNL_ARG_SCRATCHPAD, conv->scratchpad[2].memory}};
    for (uint32_t i = 0; i < rows->count; i++) {
        size_t row = (size_t)rows->first + i;
        set(&conv->x, leaf->pass->x + row * d->in);
        set(&conv->y, leaf->pass->dy + row * d->out);
        set(&conv->image_gradient, i == 0 ? conv->sum : conv->image_gradient.buffer);
        execute(conv, conv->kernel_gradient, args, 4);
        if (i > 0)
            weir_cpu_add(conv->sum, conv->image_gradient.buffer, conv->sum_floats);
    }
    set(&conv->image_gradient, conv->sum);
    set(&conv->user_kernel, out);
    reorder(conv, conv->from_kernel_gradient, &conv->image_gradient, &conv->user_kernel);
}

static void conv_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    struct conv *conv = (struct conv *)op;
    const struct weir_op_desc *d = &op->desc;
    if (d->relu)
        weir_relu_gradient(pass->dy, pass->y, pass->rows * d->out);
    if (pass->dx)
        input_gradient(conv, pass);
    size_t kernel = d->kernel_h * d->kernel_w * d->image.channels * d->result.channels;
    for (size_t g = 0; g < pass->gradient_count; g++) {
        const struct weir_op_gradient *gradient = &pass->gradients[g];
        struct kernel_leaf leaf = {conv, pass};
        weir_cpu_tree_sum(conv->tree, gradient->replicas, gradient->replica_count, kernel, kernel_leaf, &leaf,
                          gradient->kernel);
        if (d->has_bias)
            weir_cpu_bias_gradient(op->context->tree, gradient, pass->dy, d->result.height * d->result.width,
                                   d->result.channels);
    }
}

const struct weir_op_class weir_cpu_conv2d = {
    .make = conv_make, .destroy = conv_destroy, .forward = conv_forward, .backward = conv_backward};
