#include "cpu/conv1.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "cpu/isa_ops.h"

#define POSITIONS_MOST ((size_t)1 << 24) /* a float counts them exactly up to here */

static size_t positions_of(const struct weir_conv1_shape *s)
{
    return (s->height - s->kernel_height + 1) * (s->width - s->kernel_width + 1);
}

static size_t taps_of(const struct weir_conv1_shape *s)
{
    return s->kernel_height * s->kernel_width;
}

bool weir_conv1_supports(const struct weir_conv1_shape *s)
{
    return s->kernel_height >= 1 && s->kernel_height <= WEIR_CONV1_SIDE_MOST && s->kernel_width >= 1 &&
           s->kernel_width <= WEIR_CONV1_SIDE_MOST && s->kernel_height <= s->height && s->kernel_width <= s->width &&
           s->height <= POSITIONS_MOST / s->width;
}

void weir_conv1_forward(float *y, const float *x, const float *w, const float *bias_or_null, size_t images,
                        const struct weir_conv1_shape *shape, bool relu)
{
    assert(weir_conv1_supports(shape));
    weir_isa_ops()->conv1_forward(y, x, w, bias_or_null, images, shape, relu);
}

/* ---- Sums over replicas. A leaf makes the gradients of some filters: `sums` is [taps + 1][width], bias last. */

struct gradient {
    const struct weir_isa_ops *ops;
    const struct weir_conv1_shape *shape;
    const struct weir_row_range *replicas;
    const float *x, *w, *bias;
    const float *dz;     /* of y, or of pooled */
    const float *pooled; /* NULL: the general form */
    const int32_t *where;
    size_t filter; /* the first of those in work */
    size_t sums;   /* floats in a leaf */
    void (*leaf)(const struct gradient *g, const struct weir_row_range *images, float *sums);
};

#define SUMS_MOST ((WEIR_CONV1_TAPS_MOST + 1) * WEIR_LANES_MOST)

/* As tree_tile in gemm.c; a level of the recursion halves `count`, so there are at most 33. */
static bool tree_sum(const struct gradient *g, size_t first, size_t count, float *sums)
{
    if (count == 1) {
        if (g->replicas[first].count)
            g->leaf(g, &g->replicas[first], sums);
        return g->replicas[first].count != 0;
    }
    size_t left = 1;
    while (left * 2 < count)
        left *= 2;
    if (!tree_sum(g, first, left, sums))
        return tree_sum(g, first + left, count - left, sums);
    float other[SUMS_MOST];
    if (tree_sum(g, first + left, count - left, other))
        for (size_t i = 0; i < g->sums; i++)
            sums[i] += other[i];
    return true;
}

/* All filters, `width` at a time. */
static void sum_filters(struct gradient *g, size_t replica_count, size_t width, float *dw, float *db)
{
    const size_t taps = taps_of(g->shape), filters = g->shape->filters;
    g->sums = (taps + 1) * width;
    for (g->filter = 0; g->filter < filters; g->filter += width) {
        float sums[SUMS_MOST];
        size_t some = filters - g->filter < width ? filters - g->filter : width;
        if (!replica_count || !tree_sum(g, 0, replica_count, sums))
            memset(sums, 0, g->sums * sizeof *sums);
        for (size_t t = 0; t < taps; t++)
            memcpy(dw + t * filters + g->filter, sums + t * width, some * sizeof *dw);
        if (db)
            memcpy(db + g->filter, sums + taps * width, some * sizeof *db);
    }
}

static void general_leaf(const struct gradient *g, const struct weir_row_range *images, float *sums)
{
    const struct weir_conv1_shape *s = g->shape;
    memset(sums, 0, g->sums * sizeof *sums);
    g->ops->conv1_weight_gradient(sums, sums + taps_of(s) * g->ops->lanes, g->x + images->first * s->height * s->width,
                                  g->dz + images->first * positions_of(s) * s->filters, images->count, s, g->filter);
}

void weir_conv1_weight_gradient(float *dw, float *db_or_null, const float *x, const float *dz,
                                const struct weir_row_range *replicas, size_t replica_count,
                                const struct weir_conv1_shape *shape)
{
    assert(weir_conv1_supports(shape));
    struct gradient g = {
        .ops = weir_isa_ops(), .shape = shape, .replicas = replicas, .x = x, .dz = dz, .leaf = general_leaf};
    sum_filters(&g, replica_count, g.ops->lanes, dw, db_or_null);
}

/* ---- Global maximum. */

size_t weir_conv1_scratch_bytes(size_t max_images, const struct weir_conv1_shape *shape)
{
    return 2 * max_images * shape->filters * sizeof(float);
}

/* 0, or NaN if any of `count` floats, `step` apart, is NaN or infinite. */
static float poison(const float *from, size_t count, size_t step)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += 0 * from[i * step];
    return sum;
}

/* Comparisons are false for NaN, so a maximum would hide it: a diverged model has to show. */
static void poison_outputs(float *pooled, int32_t *where, const float *x, const float *w, const float *bias,
                           size_t images, const struct weir_conv1_shape *s)
{
    for (size_t f = 0; f < s->filters; f++)
        if (isnan(poison(w + f, taps_of(s), s->filters)) || (bias && isnan(poison(bias + f, 1, 1))))
            for (size_t i = 0; i < images; i++) {
                pooled[i * s->filters + f] = NAN;
                where[i * s->filters + f] = -1;
            }
    for (size_t i = 0; i < images; i++)
        if (isnan(poison(x + i * s->height * s->width, s->height * s->width, 1)))
            for (size_t f = 0; f < s->filters; f++) {
                pooled[i * s->filters + f] = NAN;
                where[i * s->filters + f] = -1;
            }
}

bool weir_conv1_relu_global_max_forward(float *pooled, int32_t *where, const float *x, const float *w,
                                        const float *bias_or_null, size_t images, const struct weir_conv1_shape *shape,
                                        void *scratch)
{
    assert(weir_conv1_supports(shape));
    const size_t outputs = images * shape->filters;
    float *first = scratch, *last = first + outputs;
    weir_isa_ops()->conv1_best(pooled, first, last, x, w, bias_or_null, images, shape);
    bool ties = false;
    for (size_t i = 0; i < outputs; i++) {
        int32_t at = (int32_t)first[i];
        bool tie = at >= 0 && last[i] > first[i];
        where[i] = tie ? -2 - at : at;
        ties |= tie;
    }
    poison_outputs(pooled, where, x, w, bias_or_null, images, shape);
    return ties;
}

/* One image's share of one filter's sums: the patch under the maximum, or the mean of the patches under equal ones. */
static void add_patch(const struct gradient *g, size_t image, float *sums)
{
    const struct weir_conv1_shape *s = g->shape;
    const size_t taps = taps_of(s), output = image * s->filters + g->filter;
    const size_t columns = s->width - s->kernel_width + 1;
    const float *x = g->x + image * s->height * s->width;
    const int32_t where = g->where[output];
    float d = g->dz[output];
    if (where == -1)
        return;
    sums[taps] += d;
    if (where >= 0) {
        const float *patch = x + (size_t)where / columns * s->width + (size_t)where % columns;
        for (size_t i = 0, t = 0; i < s->kernel_height; i++)
            for (size_t j = 0; j < s->kernel_width; j++, t++)
                sums[t] += d * patch[i * s->width + j];
        return;
    }
    float patches[WEIR_CONV1_TAPS_MOST] = {0};
    size_t count =
        g->ops->conv1_ties(patches, x, g->w + g->filter, g->bias ? g->bias + g->filter : NULL, g->pooled[output], s);
    for (size_t t = 0; t < taps && count; t++)
        sums[t] += d / (float)count * patches[t];
}

static void max_leaf(const struct gradient *g, const struct weir_row_range *images, float *sums)
{
    memset(sums, 0, g->sums * sizeof *sums);
    for (size_t i = 0; i < images->count; i++)
        add_patch(g, images->first + i, sums);
}

void weir_conv1_relu_global_max_gradient(float *dw, float *db_or_null, const float *d_pooled, const float *pooled,
                                         const int32_t *where, const float *x, const float *w,
                                         const float *bias_or_null, const struct weir_row_range *replicas,
                                         size_t replica_count, const struct weir_conv1_shape *shape)
{
    assert(weir_conv1_supports(shape));
    struct gradient g = {.ops = weir_isa_ops(),
                         .shape = shape,
                         .replicas = replicas,
                         .x = x,
                         .w = w,
                         .bias = bias_or_null,
                         .dz = d_pooled,
                         .pooled = pooled,
                         .where = where,
                         .leaf = max_leaf};
    sum_filters(&g, replica_count, 1, dw, db_or_null);
}
