/* Elementwise operations, softmax and dropout. */
#include "cpu/op.h"
#include "cpu/variants.h"

#include <stdlib.h>
#include <string.h>

#include "backend/formulas.h"
#include "base/memory.h"
#include "base/random.h"

/* One loop per kind: in each the kind is a constant, so that the formula's switch folds away. */
#define ALL_KINDS(CASE)                                                                                                \
    CASE(WEIR_ACTIVATION_LINEAR)                                                                                       \
    CASE(WEIR_ACTIVATION_RELU)                                                                                         \
    CASE(WEIR_ACTIVATION_SIGMOID)                                                                                      \
    CASE(WEIR_ACTIVATION_TANH)                                                                                         \
    CASE(WEIR_ACTIVATION_ELU)                                                                                          \
    CASE(WEIR_ACTIVATION_SELU)                                                                                         \
    CASE(WEIR_ACTIVATION_GELU)                                                                                         \
    CASE(WEIR_ACTIVATION_GELU_TANH)                                                                                    \
    CASE(WEIR_ACTIVATION_SOFTPLUS)                                                                                     \
    CASE(WEIR_ACTIVATION_SOFTSIGN)                                                                                     \
    CASE(WEIR_ACTIVATION_SILU)                                                                                         \
    CASE(WEIR_ACTIVATION_EXPONENTIAL)

WEIR_CPU_BODY activate_body(const struct weir_activation *activation, const float *restrict x, float *restrict y,
                            size_t count)
{
    const struct weir_activation a = *activation; /* a copy that y cannot alias */
#define FORWARD(kind_)                                                                                                 \
    case kind_:                                                                                                        \
        for (size_t i = 0; i < count; i++)                                                                             \
            y[i] = weir_activate(kind_, &a, x[i]);                                                                     \
        break;
    switch (a.kind) {
        ALL_KINDS(FORWARD)
    default:
        break;
    }
#undef FORWARD
}

WEIR_CPU_VARIANTS(static, activate, (const struct weir_activation *activation, const float *x, float *y, size_t count),
                  (activation, x, y, count))

WEIR_CPU_BODY slope_body(const struct weir_activation *activation, const float *restrict x, const float *restrict y,
                         const float *restrict dy, float *restrict dx, size_t count)
{
    const struct weir_activation a = *activation;
#define BACKWARD(kind_)                                                                                                \
    case kind_:                                                                                                        \
        for (size_t i = 0; i < count; i++)                                                                             \
            dx[i] = dy[i] * weir_activate_slope(kind_, &a, x[i], y[i]);                                                \
        break;
    switch (a.kind) {
        ALL_KINDS(BACKWARD)
    default:
        break;
    }
#undef BACKWARD
}

WEIR_CPU_VARIANTS(static, slope,
                  (const struct weir_activation *activation, const float *x, const float *y, const float *dy, float *dx,
                   size_t count),
                  (activation, x, y, dy, dx, count))

static void activation_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    activate(&op->desc.activation, pass->x, pass->y, pass->rows * op->desc.in);
}

static void activation_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    if (pass->dx)
        slope(&op->desc.activation, pass->x, pass->y, pass->dy, pass->dx, pass->rows * op->desc.in);
}

/* ---- softmax */

WEIR_CPU_BODY softmax_body(const float *restrict x, float *restrict y, size_t width)
{
    float most = x[0], sum = 0;
    for (size_t i = 1; i < width; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < width; i++)
        y[i] = weir_exp(x[i] - most);
    for (size_t i = 0; i < width; i++)
        sum += y[i];
    for (size_t i = 0; i < width; i++)
        y[i] /= sum;
}

WEIR_CPU_VARIANTS(static, softmax, (const float *x, float *y, size_t width), (x, y, width))

static void softmax_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    size_t width = op->desc.in_width;
    for (size_t i = 0; i < pass->rows * op->desc.positions; i++)
        softmax(pass->x + i * width, pass->y + i * width, width);
}

static void softmax_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    size_t width = op->desc.in_width;
    for (size_t i = 0; pass->dx && i < pass->rows * op->desc.positions; i++) {
        const float *y = pass->y + i * width, *dy = pass->dy + i * width;
        float inner = 0;
        for (size_t k = 0; k < width; k++)
            inner += dy[k] * y[k];
        for (size_t k = 0; k < width; k++)
            pass->dx[i * width + k] = y[k] * (dy[k] - inner);
    }
}

/* ---- dropout */

struct dropout {
    struct weir_op op;
    float *factor; /* [max_rows][in]: of the last forward pass: 0, or 1 / (1 - rate) */
};

static struct weir_op *dropout_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                    uint32_t max_rows, struct weir_error *err)
{
    (void)err;
    struct dropout *dropout = weir_alloc(1, sizeof *dropout, "a dropout");
    dropout->op = (struct weir_op){&weir_cpu_dropout, context, *desc, max_rows};
    dropout->factor = weir_alloc_tensor((size_t)max_rows * desc->in * sizeof(float), "a dropout's mask");
    return &dropout->op;
}

static void dropout_destroy(struct weir_op *op)
{
    free(((struct dropout *)op)->factor);
    free(op);
}

/* The factors of one row, by its number in the global batch. */
static void draw(const struct weir_op_desc *d, struct weir_random_key key, uint64_t row, float *factor)
{
    float keep = 1.0f / (1.0f - d->rate);
    for (size_t i = 0; i < d->in; i += 4) {
        uint32_t word[4];
        weir_random_block(key, row, i / 4, word);
        for (size_t k = 0; k < 4 && i + k < d->in; k++)
            factor[i + k] = weir_random_unit(word[k]) >= d->rate ? keep : 0.0f;
    }
}

static void dropout_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    struct dropout *dropout = (struct dropout *)op;
    const struct weir_op_desc *d = &op->desc;
    if (!pass->training) {
        memcpy(pass->y, pass->x, pass->rows * d->in * sizeof(float));
        return;
    }
    struct weir_random_key key = weir_random_key(pass->seed, WEIR_RANDOM_DROPOUT, d->stream, pass->step);
    for (size_t r = 0; r < pass->replica_count; r++)
        for (uint32_t i = 0; i < pass->replicas[r].count; i++)
            draw(d, key, (uint64_t)pass->replica_row0[r] + i,
                 dropout->factor + ((size_t)pass->replicas[r].first + i) * d->in);
    for (size_t i = 0; i < pass->rows * d->in; i++)
        pass->y[i] = pass->x[i] * dropout->factor[i];
}

static void dropout_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const float *factor = ((const struct dropout *)op)->factor;
    for (size_t i = 0; pass->dx && i < pass->rows * op->desc.in; i++)
        pass->dx[i] = pass->dy[i] * factor[i];
}

/* ---- scale and offset */

static void scale_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    float scale = op->desc.scale, offset = op->desc.offset;
    for (size_t i = 0; i < pass->rows * op->desc.in; i++)
        pass->y[i] = pass->x[i] * scale + offset;
}

static void scale_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    for (size_t i = 0; pass->dx && i < pass->rows * op->desc.in; i++)
        pass->dx[i] = pass->dy[i] * op->desc.scale;
}

const struct weir_op_class weir_cpu_activation = {
    .make = weir_cpu_op_make, .forward = activation_forward, .backward = activation_backward};
const struct weir_op_class weir_cpu_softmax = {
    .make = weir_cpu_op_make, .forward = softmax_forward, .backward = softmax_backward};
const struct weir_op_class weir_cpu_dropout = {
    .make = dropout_make, .destroy = dropout_destroy, .forward = dropout_forward, .backward = dropout_backward};
const struct weir_op_class weir_cpu_scale = {
    .make = weir_cpu_op_make, .forward = scale_forward, .backward = scale_backward};
