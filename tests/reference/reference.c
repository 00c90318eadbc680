#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* ---- activations */

double weir_reference_activate(const struct weir_activation *a, double x)
{
    const double selu_scale = 1.0507009873554805, selu_alpha = 1.6732632423543772;
    switch (a->kind) {
    case WEIR_ACTIVATION_RELU:
        if (x >= (double)a->max_value)
            return (double)a->max_value;
        return x >= (double)a->threshold ? x : (double)a->negative_slope * (x - (double)a->threshold);
    case WEIR_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case WEIR_ACTIVATION_TANH:
        return tanh(x);
    case WEIR_ACTIVATION_ELU:
        return x > 0 ? x : (double)a->alpha * expm1(x);
    case WEIR_ACTIVATION_SELU:
        return selu_scale * (x > 0 ? x : selu_alpha * expm1(x));
    case WEIR_ACTIVATION_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case WEIR_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case WEIR_ACTIVATION_SOFTPLUS:
        return x > 30 ? x : log1p(exp(x));
    case WEIR_ACTIVATION_SOFTSIGN:
        return x / (1 + fabs(x));
    case WEIR_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case WEIR_ACTIVATION_EXPONENTIAL:
        return exp(x);
    default:
        return x;
    }
}

double weir_reference_activate_slope(const struct weir_activation *a, double x)
{
    const double selu_scale = 1.0507009873554805, selu_alpha = 1.6732632423543772, pi = acos(-1);
    double s = 1 / (1 + exp(-x)), t, inner;
    switch (a->kind) {
    case WEIR_ACTIVATION_RELU:
        if (x >= (double)a->max_value)
            return 0;
        return x > (double)a->threshold ? 1 : (double)a->negative_slope;
    case WEIR_ACTIVATION_SIGMOID:
        return s * (1 - s);
    case WEIR_ACTIVATION_TANH:
        return 1 - tanh(x) * tanh(x);
    case WEIR_ACTIVATION_ELU:
        return x > 0 ? 1 : (double)a->alpha * exp(x);
    case WEIR_ACTIVATION_SELU:
        return selu_scale * (x > 0 ? 1 : selu_alpha * exp(x));
    case WEIR_ACTIVATION_GELU:
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * pi);
    case WEIR_ACTIVATION_GELU_TANH:
        t = tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x));
        inner = sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
    case WEIR_ACTIVATION_SOFTPLUS:
        return s;
    case WEIR_ACTIVATION_SOFTSIGN:
        return 1 / ((1 + fabs(x)) * (1 + fabs(x)));
    case WEIR_ACTIVATION_SILU:
        return s + x * s * (1 - s);
    case WEIR_ACTIVATION_EXPONENTIAL:
        return exp(x);
    default:
        return 1;
    }
}

/* ---- one visit of all terms: for each, the elements that meet */

/* Called for each product y[i] += x[j] kernel[k] of a dense layer or convolution, in one row. */
typedef void (*visit_term)(void *context, size_t y, size_t x, size_t kernel);

static void visit_dense(const struct weir_op_desc *d, visit_term visit, void *context)
{
    for (size_t p = 0; p < d->positions; p++)
        for (size_t o = 0; o < d->out_width; o++)
            for (size_t i = 0; i < d->in_width; i++)
                visit(context, p * d->out_width + o, p * d->in_width + i, i * d->out_width + o);
}

/* The pixel of the input under place (kh, kw) of the window at (h, w); false if it lies in the padding. */
static bool pixel_under(const struct weir_op_desc *d, size_t h, size_t w, size_t kh, size_t kw, size_t *pixel)
{
    long row = (long)(h * d->stride_h + kh) - (long)d->pad_top,
         column = (long)(w * d->stride_w + kw) - (long)d->pad_left;
    if (row < 0 || column < 0 || row >= (long)d->image.height || column >= (long)d->image.width)
        return false;
    *pixel = (size_t)row * d->image.width + (size_t)column;
    return true;
}

static void visit_place(const struct weir_op_desc *d, size_t y_pixel, size_t x_pixel, size_t place, visit_term visit,
                        void *context)
{
    size_t in = d->image.channels, out = d->result.channels;
    for (size_t c = 0; c < in; c++)
        for (size_t o = 0; o < out; o++)
            visit(context, y_pixel * out + o, x_pixel * in + c, (place * in + c) * out + o);
}

static void visit_conv(const struct weir_op_desc *d, visit_term visit, void *context)
{
    size_t pixel;
    for (size_t h = 0; h < d->result.height; h++)
        for (size_t w = 0; w < d->result.width; w++)
            for (size_t kh = 0; kh < d->kernel_h; kh++)
                for (size_t kw = 0; kw < d->kernel_w; kw++)
                    if (pixel_under(d, h, w, kh, kw, &pixel))
                        visit_place(d, h * d->result.width + w, pixel, kh * d->kernel_w + kw, visit, context);
}

static void visit_terms(const struct weir_op_desc *d, visit_term visit, void *context)
{
    if (d->kind == WEIR_OP_DENSE)
        visit_dense(d, visit, context);
    else
        visit_conv(d, visit, context);
}

struct product {
    const double *x, *kernel, *dy;
    double *y, *dx, *dkernel;
};

static void forward_term(void *context, size_t y, size_t x, size_t kernel)
{
    struct product *p = context;
    p->y[y] += p->x[x] * p->kernel[kernel];
}

static void backward_term(void *context, size_t y, size_t x, size_t kernel)
{
    struct product *p = context;
    p->dx[x] += p->dy[y] * p->kernel[kernel];
    p->dkernel[kernel] += p->dy[y] * p->x[x];
}

static bool is_product(const struct weir_op_desc *d)
{
    return d->kind == WEIR_OP_DENSE || d->kind == WEIR_OP_CONV2D || d->kind == WEIR_OP_CONV2D_GLOBAL_MAX;
}

size_t weir_reference_bias_elements(const struct weir_op_desc *d)
{
    if (!is_product(d) || !d->has_bias)
        return 0;
    return d->kind == WEIR_OP_DENSE ? d->out_width : d->result.channels;
}

size_t weir_reference_kernel_elements(const struct weir_op_desc *d)
{
    if (!is_product(d))
        return 0;
    if (d->kind == WEIR_OP_DENSE)
        return d->in_width * d->out_width;
    return d->kernel_h * d->kernel_w * d->image.channels * d->result.channels;
}

static void product_forward(const struct weir_op_desc *d, const double *x, const double *kernel, const double *bias,
                            double *y)
{
    size_t width = d->kind == WEIR_OP_DENSE ? d->out_width : d->result.channels;
    for (size_t i = 0; i < d->out; i++)
        y[i] = d->has_bias ? bias[i % width] : 0;
    struct product product = {.x = x, .kernel = kernel, .y = y};
    visit_terms(d, forward_term, &product);
    for (size_t i = 0; d->relu && i < d->out; i++)
        y[i] = y[i] > 0 ? y[i] : 0;
}

static void product_backward(const struct weir_op_desc *d, const double *x, const double *kernel, const double *y,
                             const double *dy, double *dx, double *dkernel, double *dbias)
{
    size_t width = d->kind == WEIR_OP_DENSE ? d->out_width : d->result.channels;
    double *dz = weir_alloc(d->out, sizeof *dz, "a gradient");
    for (size_t i = 0; i < d->out; i++)
        dz[i] = d->relu && !(y[i] > 0) ? 0 : dy[i];
    struct product product = {.x = x, .kernel = kernel, .dy = dz, .dx = dx, .dkernel = dkernel};
    visit_terms(d, backward_term, &product);
    for (size_t i = 0; d->has_bias && i < d->out; i++)
        dbias[i % width] += dz[i];
    free(dz);
}

/* ---- pooling: y is a function of the list of a window's inputs */

/* Lists the elements of the input under output element `y`; returns their number. */
static size_t under(const struct weir_op_desc *d, size_t y, size_t *list)
{
    size_t channels = d->image.channels, c = y % channels, count = 0, pixel;
    if (d->kind == WEIR_OP_GLOBAL_MAX_POOL || d->kind == WEIR_OP_GLOBAL_AVERAGE_POOL) {
        for (; count < d->image.height * d->image.width; count++)
            list[count] = count * channels + c;
        return count;
    }
    size_t h = y / channels / d->result.width, w = y / channels % d->result.width;
    for (size_t kh = 0; kh < d->kernel_h; kh++)
        for (size_t kw = 0; kw < d->kernel_w; kw++)
            if (pixel_under(d, h, w, kh, kw, &pixel))
                list[count++] = pixel * channels + c;
    return count;
}

static bool is_average(const struct weir_op_desc *d)
{
    return d->kind == WEIR_OP_AVERAGE_POOL2D || d->kind == WEIR_OP_GLOBAL_AVERAGE_POOL;
}

static void pool_forward(const struct weir_op_desc *d, const double *x, double *y)
{
    size_t *list = weir_alloc(d->in, sizeof *list, "a window");
    for (size_t i = 0; i < d->out; i++) {
        size_t count = under(d, i, list);
        y[i] = is_average(d) ? 0 : -INFINITY;
        for (size_t k = 0; k < count; k++)
            y[i] = is_average(d) ? y[i] + x[list[k]] / (double)count : fmax(y[i], x[list[k]]);
    }
    free(list);
}

static void pool_backward(const struct weir_op_desc *d, const double *x, const double *y, const double *dy, double *dx)
{
    size_t *list = weir_alloc(d->in, sizeof *list, "a window");
    for (size_t i = 0; i < d->out; i++) {
        size_t count = under(d, i, list), equal = 0;
        for (size_t k = 0; k < count; k++)
            equal += x[list[k]] == y[i];
        for (size_t k = 0; k < count; k++) {
            if (is_average(d)) {
                dx[list[k]] += dy[i] / (double)count;
            } else if (x[list[k]] == y[i]) {
                bool first_only = d->kind == WEIR_OP_MAX_POOL2D;
                dx[list[k]] += first_only ? dy[i] : dy[i] / (double)equal;
                if (first_only)
                    break;
            }
        }
    }
    free(list);
}

/* ---- softmax */

static void softmax_forward(const struct weir_op_desc *d, const double *x, double *y)
{
    for (size_t p = 0; p < d->in; p += d->in_width) {
        double sum = 0, most = -INFINITY;
        for (size_t i = 0; i < d->in_width; i++)
            most = fmax(most, x[p + i]);
        for (size_t i = 0; i < d->in_width; i++)
            sum += exp(x[p + i] - most);
        for (size_t i = 0; i < d->in_width; i++)
            y[p + i] = exp(x[p + i] - most) / sum;
    }
}

static void softmax_backward(const struct weir_op_desc *d, const double *y, const double *dy, double *dx)
{
    for (size_t p = 0; p < d->in; p += d->in_width)
        for (size_t i = 0; i < d->in_width; i++)
            for (size_t k = 0; k < d->in_width; k++)
                dx[p + i] += dy[p + k] * y[p + k] * ((i == k ? 1 : 0) - y[p + i]);
}

/* ---- rows */

static void forward_row(const struct weir_op_desc *d, const double *x, const double *kernel, const double *bias,
                        double *y)
{
    switch (d->kind) {
    case WEIR_OP_DENSE:
    case WEIR_OP_CONV2D:
        product_forward(d, x, kernel, bias, y);
        break;
    case WEIR_OP_SOFTMAX:
        softmax_forward(d, x, y);
        break;
    case WEIR_OP_ACTIVATION:
        for (size_t i = 0; i < d->in; i++)
            y[i] = weir_reference_activate(&d->activation, x[i]);
        break;
    case WEIR_OP_SCALE:
        for (size_t i = 0; i < d->in; i++)
            y[i] = x[i] * (double)d->scale + (double)d->offset;
        break;
    default:
        pool_forward(d, x, y);
    }
}

static void backward_row(const struct weir_op_desc *d, const double *x, const double *kernel, const double *y,
                         const double *dy, double *dx, double *dkernel, double *dbias)
{
    switch (d->kind) {
    case WEIR_OP_DENSE:
    case WEIR_OP_CONV2D:
        product_backward(d, x, kernel, y, dy, dx, dkernel, dbias);
        break;
    case WEIR_OP_SOFTMAX:
        softmax_backward(d, y, dy, dx);
        break;
    case WEIR_OP_ACTIVATION:
        for (size_t i = 0; i < d->in; i++)
            dx[i] = dy[i] * weir_reference_activate_slope(&d->activation, x[i]);
        break;
    case WEIR_OP_SCALE:
        for (size_t i = 0; i < d->in; i++)
            dx[i] = dy[i] * (double)d->scale;
        break;
    default:
        pool_backward(d, x, y, dy, dx);
    }
}

/* The fused operation as the two that it stands for. */
static struct weir_op_desc convolution_of(const struct weir_op_desc *fused)
{
    struct weir_op_desc conv = *fused;
    conv.kind = WEIR_OP_CONV2D;
    conv.out = fused->result.height * fused->result.width * fused->result.channels;
    return conv;
}

static struct weir_op_desc maximum_of(const struct weir_op_desc *fused)
{
    return (struct weir_op_desc){
        .kind = WEIR_OP_GLOBAL_MAX_POOL, .in = convolution_of(fused).out, .out = fused->out, .image = fused->result};
}

void weir_reference_forward(const struct weir_op_desc *desc, size_t rows, const double *x, const double *kernel,
                            const double *bias, double *y)
{
    if (desc->kind == WEIR_OP_CONV2D_GLOBAL_MAX) {
        struct weir_op_desc conv = convolution_of(desc), maximum = maximum_of(desc);
        double *between = weir_alloc(rows * conv.out, sizeof *between, "a convolution");
        weir_reference_forward(&conv, rows, x, kernel, bias, between);
        weir_reference_forward(&maximum, rows, between, NULL, NULL, y);
        free(between);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        forward_row(desc, x + r * desc->in, kernel, bias, y + r * desc->out);
}

/* The two in a row; what lies between them is made again. */
static void fused_backward(const struct weir_op_desc *desc, size_t rows, const double *x, const double *kernel,
                           const double *bias, const double *y, const double *dy, double *dx, double *dkernel,
                           double *dbias)
{
    struct weir_op_desc conv = convolution_of(desc), maximum = maximum_of(desc);
    double *between = weir_alloc(rows * conv.out, sizeof *between, "a convolution");
    double *dbetween = weir_alloc(rows * conv.out, sizeof *dbetween, "a gradient");
    weir_reference_forward(&conv, rows, x, kernel, bias, between);
    weir_reference_backward(&maximum, rows, between, NULL, NULL, y, dy, dbetween, NULL, NULL);
    weir_reference_backward(&conv, rows, x, kernel, bias, between, dbetween, dx, dkernel, dbias);
    free(between);
    free(dbetween);
}

void weir_reference_backward(const struct weir_op_desc *desc, size_t rows, const double *x, const double *kernel,
                             const double *bias, const double *y, const double *dy, double *dx, double *dkernel,
                             double *dbias)
{
    memset(dx, 0, rows * desc->in * sizeof *dx);
    if (dkernel)
        memset(dkernel, 0, weir_reference_kernel_elements(desc) * sizeof *dkernel);
    if (dbias)
        memset(dbias, 0, weir_reference_bias_elements(desc) * sizeof *dbias);
    if (desc->kind == WEIR_OP_CONV2D_GLOBAL_MAX) {
        fused_backward(desc, rows, x, kernel, bias, y, dy, dx, dkernel, dbias);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        backward_row(desc, x + r * desc->in, kernel, y + r * desc->out, dy + r * desc->out, dx + r * desc->in, dkernel,
                     dbias);
}
