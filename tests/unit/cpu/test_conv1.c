#include "cpu/conv1.h"

#include <float.h>
#include <math.h>

#include "kernel_test.h"

struct problem {
    struct weir_conv1_shape shape;
    size_t images, rows, columns, taps; /* rows and columns of y */
    struct input x, w, bias;
    void *scratch;
};

static struct problem problem_new(struct draw *draw, size_t images, struct weir_conv1_shape shape)
{
    struct problem p = {.shape = shape, .images = images};
    p.rows = shape.height - shape.kernel_height + 1;
    p.columns = shape.width - shape.kernel_width + 1;
    p.taps = shape.kernel_height * shape.kernel_width;
    p.x = input_new(draw, images * shape.height * shape.width, 4 * draw_size(draw, 0, 15));
    p.w = input_new(draw, p.taps * shape.filters, 4 * draw_size(draw, 0, 15));
    p.bias = input_new(draw, shape.filters, 4 * draw_size(draw, 0, 15));
    p.scratch = weir_alloc_tensor(weir_conv1_scratch_bytes(images, &shape) + 1, "a test's scratch");
    return p;
}

static void problem_free(struct problem *p)
{
    free(p->x.memory);
    free(p->w.memory);
    free(p->bias.memory);
    free(p->scratch);
}

static struct problem problem_draw(struct draw *draw)
{
    struct weir_conv1_shape shape = {.kernel_height = draw_size(draw, 1, 7), .kernel_width = draw_size(draw, 1, 7)};
    if (draw_word(draw) & 1)
        shape.kernel_height = shape.kernel_width = 3;
    shape.height = shape.kernel_height + draw_size(draw, 0, 12);
    shape.width = shape.kernel_width + draw_size(draw, 0, 27);
    shape.filters = draw_size(draw, 1, 40);
    return problem_new(draw, draw_size(draw, 1, 6), shape);
}

/* The input of tap (i, j) at output (r, c) of an image. */
static float input_at(const struct problem *p, size_t image, size_t r, size_t c, size_t tap)
{
    size_t i = tap / p->shape.kernel_width, j = tap % p->shape.kernel_width;
    return p->x.at[(image * p->shape.height + r + i) * p->shape.width + c + j];
}

/* One output in double; `bound` is what rounding may do to it. */
static double output_at(const struct problem *p, size_t image, size_t position, size_t filter, double *bound)
{
    double sum = p->bias.at[filter], weight = fabs(sum);
    for (size_t t = 0; t < p->taps; t++) {
        double product = (double)input_at(p, image, position / p->columns, position % p->columns, t) *
                         p->w.at[t * p->shape.filters + filter];
        sum += product;
        weight += fabs(product);
    }
    *bound = weight * (double)(p->taps + 2) * FLT_EPSILON;
    return sum;
}

/* ---- the general form */

static void forward_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 1};
    for (int n = 0; n < 60; n++) {
        struct problem p = problem_draw(&draw);
        size_t positions = p.rows * p.columns, filters = p.shape.filters;
        struct output y = output_new(p.images * positions * filters, 4 * (filters % 16));
        weir_conv1_forward(y.at, p.x.at, p.w.at, p.bias.at, p.images, &p.shape, n & 1);
        for (size_t i = 0; i < y.count; i++) {
            double bound, want = output_at(&p, i / filters / positions, i / filters % positions, i % filters, &bound);
            if (n & 1)
                want = want > 0 ? want : 0;
            assert_true(fabs(y.at[i] - want) <= bound);
        }
        output_free(&y);
        problem_free(&p);
    }
}

static void outputs_are_convolutions_with_bias_and_relu(void **state)
{
    (void)state;
    on_every_isa(forward_on);
}

static void weight_gradient_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 2};
    for (int n = 0; n < 40; n++) {
        struct problem p = problem_draw(&draw);
        size_t positions = p.rows * p.columns, filters = p.shape.filters;
        struct input dz = input_new(&draw, p.images * positions * filters, 4 * (filters % 16));
        struct output dw = output_new(p.taps * filters, 4 * (p.taps % 16)), db = output_new(filters, 0);
        struct weir_row_range all = {0, (uint32_t)p.images};
        weir_conv1_weight_gradient(dw.at, db.at, p.x.at, dz.at, &all, 1, &p.shape);
        for (size_t i = 0; i < (p.taps + 1) * filters; i++) {
            double want = 0, weight = 0;
            for (size_t q = 0; q < p.images * positions; q++) {
                size_t tap = i / filters, at = q % positions;
                double x = tap < p.taps ? input_at(&p, q / positions, at / p.columns, at % p.columns, tap) : 1;
                want += x * dz.at[q * filters + i % filters];
                weight += fabs(x * dz.at[q * filters + i % filters]);
            }
            double got = i < p.taps * filters ? dw.at[i] : db.at[i - p.taps * filters];
            assert_true(fabs(got - want) <= weight * (double)(positions + p.images) * FLT_EPSILON);
        }
        output_free(&dw);
        output_free(&db);
        free(dz.memory);
        problem_free(&p);
    }
}

static void gradients_are_sums_over_images_and_positions(void **state)
{
    (void)state;
    on_every_isa(weight_gradient_on);
}

/* ---- the fused form, against the general one */

/* Whole numbers make equal maxima common and all sums exact. */
static void round_inputs(struct problem *p)
{
    for (size_t i = 0; i < p->images * p->shape.height * p->shape.width; i++)
        p->x.at[i] = rintf(p->x.at[i]);
    for (size_t i = 0; i < p->taps * p->shape.filters; i++)
        p->w.at[i] = rintf(2 * p->w.at[i]);
    for (size_t i = 0; i < p->shape.filters; i++)
        p->bias.at[i] = rintf(2 * p->bias.at[i]);
}

struct fused {
    struct output pooled;
    int32_t *where;
    bool ties;
};

static struct fused fused_forward(const struct problem *p)
{
    struct fused f = {.pooled = output_new(p->images * p->shape.filters, 4 * (p->taps % 16))};
    f.where = weir_alloc(f.pooled.count, sizeof *f.where, "positions");
    f.ties = weir_conv1_relu_global_max_forward(f.pooled.at, f.where, p->x.at, p->w.at, p->bias.at, p->images,
                                                &p->shape, p->scratch);
    return f;
}

static void fused_free(struct fused *f)
{
    output_free(&f->pooled);
    free(f->where);
}

/* The first position of the maximum of y over an image's positions for one filter, and how many there are. */
static size_t maximum(const struct problem *p, const float *y, size_t image, size_t filter, size_t *count)
{
    size_t positions = p->rows * p->columns, first = 0;
    const float *z = y + image * positions * p->shape.filters + filter;
    *count = 0;
    for (size_t q = 0; q < positions; q++) {
        if (z[q * p->shape.filters] > z[first * p->shape.filters])
            first = q, *count = 0;
        *count += z[q * p->shape.filters] == z[first * p->shape.filters];
    }
    return first;
}

static void check_fused_forward(const struct problem *p)
{
    size_t positions = p->rows * p->columns, filters = p->shape.filters;
    struct output y = output_new(p->images * positions * filters, 0);
    weir_conv1_forward(y.at, p->x.at, p->w.at, p->bias.at, p->images, &p->shape, true);
    struct fused f = fused_forward(p);
    bool ties = false;
    for (size_t i = 0; i < f.pooled.count; i++) {
        size_t count, at = maximum(p, y.at, i / filters, i % filters, &count);
        float most = y.at[(i / filters * positions + at) * filters + i % filters];
        assert_true(f.pooled.at[i] == most);
        assert_int_equal(f.where[i], most > 0 ? count > 1 ? -2 - (int32_t)at : (int32_t)at : -1);
        ties |= most > 0 && count > 1;
    }
    assert_int_equal(f.ties, ties);
    fused_free(&f);
    output_free(&y);
}

static void fused_forward_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 3};
    for (int n = 0; n < 60; n++) {
        struct problem p = problem_draw(&draw);
        if (n % 2)
            round_inputs(&p);
        check_fused_forward(&p);
        problem_free(&p);
    }
}

static void the_fused_maximum_is_the_first_maximum_of_the_general_form(void **state)
{
    (void)state;
    on_every_isa(fused_forward_on);
}

/* dz of y: each maximum's gradient, split evenly among equal ones. */
static struct input spread(struct draw *draw, const struct problem *p, const float *d)
{
    size_t positions = p->rows * p->columns, filters = p->shape.filters;
    struct output y = output_new(p->images * positions * filters, 0);
    struct input dz = input_new(draw, y.count, 0);
    weir_conv1_forward(y.at, p->x.at, p->w.at, p->bias.at, p->images, &p->shape, true);
    for (size_t i = 0; i < y.count; i++) {
        size_t image = i / filters / positions, count, at = maximum(p, y.at, image, i % filters, &count);
        float most = y.at[(image * positions + at) * filters + i % filters];
        dz.at[i] = most > 0 && y.at[i] == most ? d[image * filters + i % filters] / (float)count : 0;
    }
    output_free(&y);
    return dz;
}

static void check_fused_gradient(struct draw *draw, const struct problem *p)
{
    size_t filters = p->shape.filters;
    struct fused f = fused_forward(p);
    struct input d = input_new(draw, p->images * filters, 0), dz = spread(draw, p, d.at);
    struct output dw = output_new(p->taps * filters, 4 * (p->taps % 16)), db = output_new(filters, 0);
    struct output want_w = output_new(p->taps * filters, 0), want_b = output_new(filters, 0);
    struct weir_row_range all = {0, (uint32_t)p->images};
    weir_conv1_relu_global_max_gradient(dw.at, db.at, d.at, f.pooled.at, f.where, p->x.at, p->w.at, p->bias.at, &all, 1,
                                        &p->shape);
    weir_conv1_weight_gradient(want_w.at, want_b.at, p->x.at, dz.at, &all, 1, &p->shape);
    for (size_t i = 0; i < dw.count; i++)
        assert_true(fabsf(dw.at[i] - want_w.at[i]) <= 1e-5f * (float)p->images);
    for (size_t i = 0; i < db.count; i++)
        assert_true(fabsf(db.at[i] - want_b.at[i]) <= 1e-5f * (float)p->images);
    output_free(&dw);
    output_free(&db);
    output_free(&want_w);
    output_free(&want_b);
    free(d.memory);
    free(dz.memory);
    fused_free(&f);
}

static void fused_gradient_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 4};
    for (int n = 0; n < 60; n++) {
        struct problem p = problem_draw(&draw);
        if (n % 2)
            round_inputs(&p);
        check_fused_gradient(&draw, &p);
        problem_free(&p);
    }
}

static void equal_maxima_share_their_gradient_evenly(void **state)
{
    (void)state;
    on_every_isa(fused_gradient_on);
}

/* ---- replicas */

static void images_alone_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 5};
    struct problem p = problem_new(&draw, 7, (struct weir_conv1_shape){28, 28, 3, 3, 32});
    size_t size = 28 * 28, filters = 32;
    struct fused all = fused_forward(&p);
    for (size_t i = 0; i < p.images; i++) {
        float alone[32];
        int32_t where[32];
        weir_conv1_relu_global_max_forward(alone, where, p.x.at + i * size, p.w.at, p.bias.at, 1, &p.shape, p.scratch);
        assert_memory_equal(alone, all.pooled.at + i * filters, sizeof alone);
        assert_memory_equal(where, all.where + i * filters, sizeof where);
    }
    fused_free(&all);
    problem_free(&p);
}

static void the_bits_of_an_image_do_not_depend_on_the_others(void **state)
{
    (void)state;
    on_every_isa(images_alone_on);
}

/* Three replicas (one empty) of a tree ((0, 1), 2): the merged gradient is that of 0 plus that of 2. */
static void trees_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 6};
    struct problem p = problem_new(&draw, 9, (struct weir_conv1_shape){12, 13, 3, 3, 21});
    struct weir_row_range parts[] = {{0, 4}, {4, 0}, {4, 5}, {1, 0}}, none[] = {{0, 0}, {3, 0}};
    size_t positions = p.rows * p.columns, elements = p.taps * 21;
    struct input dz = input_new(&draw, 9 * positions * 21, 0), d = input_new(&draw, 9 * 21, 0);
    struct fused f = fused_forward(&p);
    float *sums = weir_alloc(6 * elements, sizeof *sums, "gradients");
    const size_t counts[] = {4, 1, 1};
    const struct weir_row_range *ranges[] = {parts, &parts[0], &parts[2]};
    for (size_t i = 0; i < 3; i++) {
        weir_conv1_weight_gradient(sums + i * elements, NULL, p.x.at, dz.at, ranges[i], counts[i], &p.shape);
        weir_conv1_relu_global_max_gradient(sums + (3 + i) * elements, NULL, d.at, f.pooled.at, f.where, p.x.at, p.w.at,
                                            p.bias.at, ranges[i], counts[i], &p.shape);
    }
    for (size_t i = 0; i < elements; i++) {
        assert_true(sums[i] == sums[elements + i] + sums[2 * elements + i]);
        assert_true(sums[3 * elements + i] == sums[4 * elements + i] + sums[5 * elements + i]);
    }
    weir_conv1_weight_gradient(sums, NULL, p.x.at, dz.at, none, 2, &p.shape);
    for (size_t i = 0; i < elements; i++)
        assert_true(sums[i] == 0);
    free(sums);
    free(dz.memory);
    free(d.memory);
    fused_free(&f);
    problem_free(&p);
}

static void replicas_are_summed_along_the_tree(void **state)
{
    (void)state;
    on_every_isa(trees_on);
}

/* ---- what is not a number */

static void nan_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 7};
    struct problem p = problem_new(&draw, 3, (struct weir_conv1_shape){9, 9, 3, 3, 18});
    p.x.at[81 + 40] = NAN;
    p.w.at[5] = INFINITY;
    struct fused f = fused_forward(&p);
    for (size_t i = 0; i < f.pooled.count; i++)
        assert_int_equal(isnan(f.pooled.at[i]) != 0, i / 18 == 1 || i % 18 == 5);
    struct input d = input_new(&draw, f.pooled.count, 0);
    float dw[9 * 18], db[18];
    struct weir_row_range all = {0, 3};
    weir_conv1_relu_global_max_gradient(dw, db, d.at, f.pooled.at, f.where, p.x.at, p.w.at, p.bias.at, &all, 1,
                                        &p.shape);
    free(d.memory);
    fused_free(&f);
    problem_free(&p);
}

static void nan_and_infinity_show_in_the_outputs_that_they_reach(void **state)
{
    (void)state;
    on_every_isa(nan_on);
}

static void shapes_beyond_the_kernels_are_not_supported(void **state)
{
    (void)state;
    const struct weir_conv1_shape good = {28, 28, 3, 3, 32}, wide = {28, 28, 3, 8, 32}, tall = {28, 28, 8, 3, 32},
                                  none = {28, 28, 0, 3, 32}, small = {2, 28, 3, 3, 32}, huge = {5000, 5000, 3, 3, 32};
    assert_true(weir_conv1_supports(&good));
    assert_false(weir_conv1_supports(&wide));
    assert_false(weir_conv1_supports(&tall));
    assert_false(weir_conv1_supports(&none));
    assert_false(weir_conv1_supports(&small));
    assert_false(weir_conv1_supports(&huge));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_convolutions_with_bias_and_relu),
        cmocka_unit_test(gradients_are_sums_over_images_and_positions),
        cmocka_unit_test(the_fused_maximum_is_the_first_maximum_of_the_general_form),
        cmocka_unit_test(equal_maxima_share_their_gradient_evenly),
        cmocka_unit_test(the_bits_of_an_image_do_not_depend_on_the_others),
        cmocka_unit_test(replicas_are_summed_along_the_tree),
        cmocka_unit_test(nan_and_infinity_show_in_the_outputs_that_they_reach),
        cmocka_unit_test(shapes_beyond_the_kernels_are_not_supported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
