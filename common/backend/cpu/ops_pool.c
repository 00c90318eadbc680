/* Pooling. Channels lie innermost, so every loop over them is one of vectors. */
#include "cpu/op.h"
#include "cpu/variants.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The part of a window that lies in the image. */
struct window {
    size_t top, bottom, left, right; /* past the end: bottom, right */
};

static inline struct window window_at(const struct weir_op_desc *d, size_t row, size_t column)
{
    size_t top = row * d->stride_h, left = column * d->stride_w;
    size_t bottom = top + d->kernel_h - d->pad_top, right = left + d->kernel_w - d->pad_left;
    return (struct window){
        .top = top > d->pad_top ? top - d->pad_top : 0,
        .left = left > d->pad_left ? left - d->pad_left : 0,
        .bottom = bottom < d->image.height ? bottom : d->image.height,
        .right = right < d->image.width ? right : d->image.width,
    };
}

/* ---- maximum */

struct max_pool {
    struct weir_op op;
    uint32_t *first; /* [max_rows][out]: the pixel of the input where the maximum stands first */
};

static struct weir_op *max_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                uint32_t max_rows, struct weir_error *err)
{
    (void)err;
    struct max_pool *pool = weir_alloc(1, sizeof *pool, "a pooling");
    pool->op = (struct weir_op){&weir_cpu_max_pool2d, context, *desc, max_rows};
    pool->first = weir_alloc_tensor((size_t)max_rows * desc->out * sizeof *pool->first, "a pooling's maxima");
    return &pool->op;
}

static void max_destroy(struct weir_op *op)
{
    free(((struct max_pool *)op)->first);
    free(op);
}

/* One window: the first pixel, then what is greater. */
static inline __attribute__((always_inline)) void max_window(const struct weir_image *image,
                                                             const struct window *window, const float *restrict x,
                                                             float *restrict y, uint32_t *restrict first)
{
    size_t channels = image->channels;
    uint32_t start = (uint32_t)(window->top * image->width + window->left);
    for (size_t c = 0; c < channels; c++) {
        y[c] = x[start * channels + c];
        first[c] = start;
    }
    for (size_t h = window->top; h < window->bottom; h++)
        for (size_t w = window->left; w < window->right; w++) {
            uint32_t pixel = (uint32_t)(h * image->width + w);
            const float *from = x + pixel * channels;
            for (size_t c = 0; c < channels; c++) {
                float now = from[c], before = y[c];
                uint32_t at = first[c];
                y[c] = now > before ? now : before;
                first[c] = now > before ? pixel : at;
            }
        }
}

WEIR_CPU_BODY max_image_body(const struct weir_op_desc *d, const float *x, float *y, uint32_t *first)
{
    for (size_t i = 0; i < d->result.height * d->result.width; i++) {
        struct window window = window_at(d, i / d->result.width, i % d->result.width);
        size_t at = i * d->result.channels;
        max_window(&d->image, &window, x, y + at, first + at);
    }
}

WEIR_CPU_VARIANTS(static, max_image, (const struct weir_op_desc *d, const float *x, float *y, uint32_t *first),
                  (d, x, y, first))

static void max_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    struct max_pool *pool = (struct max_pool *)op;
    const struct weir_op_desc *d = &op->desc;
    for (size_t row = 0; row < pass->rows; row++)
        max_image(d, pass->x + row * d->in, pass->y + row * d->out, pool->first + row * d->out);
}

static void max_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct max_pool *pool = (const struct max_pool *)op;
    const struct weir_op_desc *d = &op->desc;
    if (!pass->dx)
        return;
    memset(pass->dx, 0, pass->rows * d->in * sizeof(float));
    size_t channels = d->image.channels;
    for (size_t row = 0; row < pass->rows; row++) {
        float *dx = pass->dx + row * d->in;
        for (size_t i = 0; i < d->out; i += channels) {
            const float *dy = pass->dy + row * d->out + i;
            const uint32_t *first = pool->first + row * d->out + i;
            for (size_t c = 0; c < channels; c++)
                dx[first[c] * channels + c] += dy[c];
        }
    }
}

/* ---- average */

static float window_share(const struct window *window)
{
    return (float)((window->bottom - window->top) * (window->right - window->left));
}

static void average_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    size_t channels = d->image.channels;
    for (size_t row = 0; row < pass->rows; row++)
        for (size_t i = 0; i < d->result.height * d->result.width; i++) {
            struct window window = window_at(d, i / d->result.width, i % d->result.width);
            const float *x = pass->x + row * d->in;
            float *y = pass->y + row * d->out + i * channels;
            memset(y, 0, channels * sizeof *y);
            for (size_t h = window.top; h < window.bottom; h++)
                for (size_t w = window.left; w < window.right; w++)
                    weir_cpu_add(y, x + (h * d->image.width + w) * channels, channels);
            float share = window_share(&window);
            for (size_t c = 0; c < channels; c++)
                y[c] /= share;
        }
}

static void average_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    if (!pass->dx)
        return;
    size_t channels = d->image.channels;
    memset(pass->dx, 0, pass->rows * d->in * sizeof(float));
    for (size_t row = 0; row < pass->rows; row++)
        for (size_t i = 0; i < d->result.height * d->result.width; i++) {
            struct window window = window_at(d, i / d->result.width, i % d->result.width);
            float *dx = pass->dx + row * d->in, *dy = pass->dy + row * d->out + i * channels;
            float share = window_share(&window);
            for (size_t c = 0; c < channels; c++)
                dy[c] /= share;
            for (size_t h = window.top; h < window.bottom; h++)
                for (size_t w = window.left; w < window.right; w++)
                    weir_cpu_add(dx + (h * d->image.width + w) * channels, dy, channels);
        }
}

/* ---- global */

WEIR_CPU_BODY pixel_max_body(float *restrict y, const float *restrict x, size_t pixels, size_t channels)
{
    memcpy(y, x, channels * sizeof *y);
    for (size_t p = 1; p < pixels; p++)
        for (size_t c = 0; c < channels; c++)
            y[c] = x[p * channels + c] > y[c] ? x[p * channels + c] : y[c];
}

WEIR_CPU_VARIANTS(static, pixel_max, (float *y, const float *x, size_t pixels, size_t channels),
                  (y, x, pixels, channels))

static void global_max_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    for (size_t row = 0; row < pass->rows; row++)
        pixel_max(pass->y + row * d->out, pass->x + row * d->in, d->image.height * d->image.width, d->image.channels);
}

/* Spreads one image's gradient over its maxima. `share`: scratch for the channels. */
WEIR_CPU_BODY pixel_spread_body(float *restrict dx, const float *restrict dy, const float *restrict x,
                                const float *restrict y, float *restrict share, size_t pixels, size_t channels)
{
    memset(share, 0, channels * sizeof *share);
    for (size_t p = 0; p < pixels; p++)
        for (size_t c = 0; c < channels; c++)
            share[c] += x[p * channels + c] == y[c] ? 1.0f : 0.0f;
    for (size_t c = 0; c < channels; c++)
        share[c] = dy[c] / share[c];
    for (size_t p = 0; p < pixels; p++)
        for (size_t c = 0; c < channels; c++)
            dx[p * channels + c] = x[p * channels + c] == y[c] ? share[c] : 0.0f;
}

WEIR_CPU_VARIANTS(static, pixel_spread,
                  (float *dx, const float *dy, const float *x, const float *y, float *share, size_t pixels,
                   size_t channels),
                  (dx, dy, x, y, share, pixels, channels))

static struct weir_op *global_max_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                       uint32_t max_rows, struct weir_error *err)
{
    weir_cpu_reserve(context, desc->out * sizeof(float));
    return weir_cpu_op_make(context, desc, max_rows, err);
}

static void global_max_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    for (size_t row = 0; pass->dx && row < pass->rows; row++)
        pixel_spread(pass->dx + row * d->in, pass->dy + row * d->out, pass->x + row * d->in, pass->y + row * d->out,
                     op->context->scratch, d->image.height * d->image.width, d->image.channels);
}

static void global_average_forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    size_t pixels = d->image.height * d->image.width;
    for (uint32_t row = 0; row < pass->rows; row++) {
        float *y = pass->y + row * d->out;
        struct weir_row_range one = {row, 1};
        weir_cpu_column_sum(y, pass->x, &one, pixels, d->image.channels);
        for (size_t c = 0; c < d->out; c++)
            y[c] /= (float)pixels;
    }
}

static void global_average_backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    const struct weir_op_desc *d = &op->desc;
    size_t pixels = d->image.height * d->image.width;
    for (size_t row = 0; pass->dx && row < pass->rows; row++) {
        float *dx = pass->dx + row * d->in, *dy = pass->dy + row * d->out;
        for (size_t c = 0; c < d->out; c++)
            dy[c] /= (float)pixels;
        for (size_t p = 0; p < pixels; p++)
            memcpy(dx + p * d->out, dy, d->out * sizeof *dx);
    }
}

const struct weir_op_class weir_cpu_max_pool2d = {
    .make = max_make, .destroy = max_destroy, .forward = max_forward, .backward = max_backward};
const struct weir_op_class weir_cpu_average_pool2d = {
    .make = weir_cpu_op_make, .forward = average_forward, .backward = average_backward};
const struct weir_op_class weir_cpu_global_max_pool = {
    .make = global_max_make, .forward = global_max_forward, .backward = global_max_backward};
const struct weir_op_class weir_cpu_global_average_pool = {
    .make = weir_cpu_op_make, .forward = global_average_forward, .backward = global_average_backward};
