/* Every operation of the CPU against the float64 reference, and the promises of backend.h about bits. */
#include "cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "reference/cases.h"
#include "reference/reference.h"

#define ROWS_MAX 33
#define TOLERANCE 4e-6 /* of the largest element: fp32 sums of up to some hundred terms */

struct run {
    const struct weir_op_desc *desc;
    uint32_t rows;
    size_t kernel_elements, bias_elements;
    float *x, *kernel, *bias, *y, *dy, *dx, *dkernel, *dbias;
};

/* Numbers in [-2, 2): the stream `stream`, always the same. */
static float *numbers(size_t count, uint32_t stream)
{
    float *out = weir_alloc_tensor((count + 4) * sizeof *out, "test");
    struct weir_random_key key = weir_random_key(2, WEIR_RANDOM_TEST, stream, 0);
    for (size_t i = 0; i < count; i += 4) {
        uint32_t word[4];
        weir_random_block(key, i / 4, 0, word);
        for (size_t k = 0; k < 4; k++)
            out[i + k] = 4.0f * weir_random_unit(word[k]) - 2.0f;
    }
    return out;
}

static struct run run_new(const struct weir_op_desc *desc, uint32_t rows)
{
    size_t room = (size_t)(ROWS_MAX + WEIR_ROWS_PAD);
    struct run run = {.desc = desc,
                      .rows = rows,
                      .kernel_elements = weir_reference_kernel_elements(desc),
                      .bias_elements = weir_reference_bias_elements(desc)};
    run.x = numbers(rows * desc->in, 1);
    run.kernel = numbers(run.kernel_elements, 2);
    run.bias = numbers(run.bias_elements, 3);
    run.y = weir_alloc_tensor(room * desc->out * sizeof(float), "test");
    run.dy = weir_alloc_tensor(room * desc->out * sizeof(float), "test");
    run.dx = weir_alloc_tensor(room * desc->in * sizeof(float), "test");
    run.dkernel = weir_alloc_tensor(run.kernel_elements * sizeof(float), "test");
    run.dbias = weir_alloc_tensor(run.bias_elements * sizeof(float), "test");
    float *dy = numbers(rows * desc->out, 4);
    memcpy(run.dy, dy, rows * desc->out * sizeof *dy);
    free(dy);
    return run;
}

static void run_free(struct run *run)
{
    float *all[] = {run->x, run->kernel, run->bias, run->y, run->dy, run->dx, run->dkernel, run->dbias};
    for (size_t i = 0; i < 8; i++)
        free(all[i]);
}

static struct weir_op *op_new(struct weir_backend_context *context, const struct weir_op_desc *desc)
{
    struct weir_error err;
    struct weir_op *op = weir_backend_cpu()->op_new(context, desc, ROWS_MAX, &err);
    if (!op)
        fail_msg("%s", err.text);
    return op;
}

/* Forward and backward; dy is used up. */
static void run_op(struct weir_op *op, struct run *run, const struct weir_row_range *replicas, size_t replica_count)
{
    const struct weir_backend *cpu = weir_backend_cpu();
    struct weir_op_gradient gradient = {replicas, replica_count, run->dkernel, run->bias_elements ? run->dbias : NULL};
    struct weir_op_pass pass = {.rows = run->rows,
                                .x = run->x,
                                .y = run->y,
                                .kernel = run->kernel,
                                .bias = run->bias,
                                .dy = run->dy,
                                .dx = run->desc->first ? NULL : run->dx,
                                .gradients = &gradient,
                                .gradient_count = run->kernel_elements > 0};
    cpu->forward(op, &pass);
    cpu->backward(op, &pass);
}

static double *as_double(const float *x, size_t count)
{
    double *out = weir_alloc(count, sizeof *out, "test");
    for (size_t i = 0; i < count; i++)
        out[i] = (double)x[i];
    return out;
}

static void compare(const char *name, const char *what, const float *got, const double *expected, size_t count)
{
    double largest = 1e-3;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - expected[i]) <= TOLERANCE * largest))
            fail_msg("%s: %s[%zu] is %.9g, should be %.9g", name, what, i, (double)got[i], expected[i]);
}

/* `period` > 0: the input repeats itself after that many elements. */
static void compare_with_reference(struct weir_op *op, const struct weir_op_case *c, uint32_t rows, size_t period)
{
    struct run run = run_new(&c->desc, rows);
    for (size_t i = period; period && i < rows * c->desc.in; i++)
        run.x[i] = run.x[i - period];
    size_t in = rows * c->desc.in, out = rows * c->desc.out;
    double *x = as_double(run.x, in), *kernel = as_double(run.kernel, run.kernel_elements);
    double *bias = as_double(run.bias, run.bias_elements), *dy = as_double(run.dy, out), *y = as_double(run.y, out);
    double *dx = as_double(run.dx, in), *dkernel = as_double(run.kernel, run.kernel_elements);
    double *dbias = as_double(run.bias, run.bias_elements);
    weir_reference_forward(&c->desc, rows, x, kernel, bias, y);
    weir_reference_backward(&c->desc, rows, x, kernel, bias, y, dy, dx, dkernel, dbias);
    struct weir_row_range all = {0, rows};
    run_op(op, &run, &all, 1);
    compare(c->name, "y", run.y, y, out);
    if (!c->desc.first)
        compare(c->name, "dx", run.dx, dx, in);
    compare(c->name, "dkernel", run.dkernel, dkernel, run.kernel_elements);
    compare(c->name, "dbias", run.dbias, dbias, run.bias_elements);
    double *all_doubles[] = {x, kernel, bias, dy, y, dx, dkernel, dbias};
    for (size_t i = 0; i < 8; i++)
        free(all_doubles[i]);
    run_free(&run);
}

static void every_operation_agrees_with_the_reference(void **state)
{
    struct weir_op_case c;
    for (size_t n = 0; weir_op_case(n, &c); n++) {
        struct weir_op *op = op_new(*state, &c.desc);
        compare_with_reference(op, &c, 1, 0);
        compare_with_reference(op, &c, 3, 0);
        compare_with_reference(op, &c, 17, 0);
        weir_backend_cpu()->op_free(op);
    }
}

static void same_bits(const char *name, const char *what, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: %s[%zu]: %a and %a", name, what, i, (double)a[i], (double)b[i]);
}

/* The rows of `whole` again, in calls of `part` rows. */
static void compare_parts(struct weir_op *op, const char *name, const struct run *whole, const float *dy, uint32_t part)
{
    size_t in = whole->desc->in, out = whole->desc->out;
    for (uint32_t first = 0; first < ROWS_MAX; first += part) {
        uint32_t rows = first + part <= ROWS_MAX ? part : ROWS_MAX - first;
        struct run some = run_new(whole->desc, rows);
        struct weir_row_range range = {0, rows};
        memcpy(some.x, whole->x + first * in, rows * in * sizeof *some.x);
        memcpy(some.dy, dy + first * out, rows * out * sizeof *dy);
        run_op(op, &some, &range, 1);
        same_bits(name, "y", some.y, whole->y + first * out, rows * out);
        same_bits(name, "dx", some.dx, whole->dx + first * in, rows * in);
        run_free(&some);
    }
}

static void a_row_does_not_depend_on_the_rows_around_it(void **state)
{
    struct weir_op_case c;
    for (size_t n = 0; weir_op_case(n, &c); n++) {
        struct weir_op *op = op_new(*state, &c.desc);
        struct run whole = run_new(&c.desc, ROWS_MAX);
        float *dy = numbers(ROWS_MAX * c.desc.out, 4);
        struct weir_row_range all = {0, ROWS_MAX};
        run_op(op, &whole, &all, 1);
        for (uint32_t part = 1; part <= 16; part *= 4)
            compare_parts(op, c.name, &whole, dy, part);
        free(dy);
        run_free(&whole);
        weir_backend_cpu()->op_free(op);
    }
}

/* The tree over 5 replicas, one without rows, by hand: ((0 + 1) + 3) + 4; replica 2 is passed over. */
static void weight_gradients_are_summed_along_the_tree(void **state)
{
    const struct weir_row_range replicas[] = {{0, 3}, {3, 4}, {7, 0}, {7, 2}, {9, 5}};
    struct weir_op_case c;
    for (size_t n = 0; weir_op_case(n, &c); n++) {
        size_t kernel = weir_reference_kernel_elements(&c.desc), bias = weir_reference_bias_elements(&c.desc);
        if (kernel == 0)
            continue;
        struct run merged = run_new(&c.desc, 14), part[5];
        struct weir_op *op = op_new(*state, &c.desc);
        float *dy = numbers(14 * c.desc.out, 4);
        run_op(op, &merged, replicas, 5);
        for (size_t r = 0; r < 5; r++) {
            if (replicas[r].count == 0)
                continue;
            struct weir_row_range range = {0, replicas[r].count};
            part[r] = run_new(&c.desc, range.count);
            memcpy(part[r].x, merged.x + replicas[r].first * c.desc.in, range.count * c.desc.in * sizeof *dy);
            memcpy(part[r].dy, dy + replicas[r].first * c.desc.out, range.count * c.desc.out * sizeof *dy);
            run_op(op, &part[r], &range, 1);
        }
        for (size_t i = 0; i < kernel; i++)
            part[0].dkernel[i] = ((part[0].dkernel[i] + part[1].dkernel[i]) + part[3].dkernel[i]) + part[4].dkernel[i];
        for (size_t i = 0; i < bias; i++)
            part[0].dbias[i] = ((part[0].dbias[i] + part[1].dbias[i]) + part[3].dbias[i]) + part[4].dbias[i];
        same_bits(c.name, "dkernel", merged.dkernel, part[0].dkernel, kernel);
        same_bits(c.name, "dbias", merged.dbias, part[0].dbias, bias);
        for (size_t r = 0; r < 5; r++)
            if (replicas[r].count)
                run_free(&part[r]);
        free(dy);
        run_free(&merged);
        weir_backend_cpu()->op_free(op);
    }
}

/* Even images make every position a maximum; others tie where the image repeats itself. */
static void the_fused_maximum_shares_among_equal_ones(void **state)
{
    struct weir_op_case c;
    for (size_t n = 0; weir_op_case(n, &c); n++) {
        if (c.desc.kind != WEIR_OP_CONV2D_GLOBAL_MAX)
            continue;
        struct weir_op *op = op_new(*state, &c.desc);
        compare_with_reference(op, &c, 3, 1);
        compare_with_reference(op, &c, 3, 4);
        weir_backend_cpu()->op_free(op);
    }
}

static void maxima_that_tie_share_in_global_pooling_and_the_first_wins_in_windows(void **state)
{
    struct weir_op_desc global = {.kind = WEIR_OP_GLOBAL_MAX_POOL, .in = 4, .out = 1, .image = {2, 2, 1}};
    struct weir_op_desc window = {.kind = WEIR_OP_MAX_POOL2D,
                                  .in = 4,
                                  .out = 1,
                                  .image = {2, 2, 1},
                                  .result = {1, 1, 1},
                                  .kernel_h = 2,
                                  .kernel_w = 2,
                                  .stride_h = 2,
                                  .stride_w = 2};
    const float x[] = {1, 7, 7, 2}, shared[] = {0, 1.5f, 1.5f, 0}, first[] = {0, 3, 0, 0};
    const struct weir_op_desc *descs[] = {&global, &window};
    for (size_t i = 0; i < 2; i++) {
        struct run run = run_new(descs[i], 1);
        memcpy(run.x, x, sizeof x);
        run.dy[0] = 3;
        struct weir_op *op = op_new(*state, descs[i]);
        run_op(op, &run, NULL, 0);
        weir_backend_cpu()->op_free(op);
        assert_true(run.y[0] == 7);
        same_bits("ties", "dx", run.dx, i == 0 ? shared : first, 4);
        run_free(&run);
    }
}

static void forward_dropout(struct weir_backend_context *context, uint32_t rows, uint32_t row0, uint64_t step,
                            bool training, float *y)
{
    const struct weir_backend *cpu = weir_backend_cpu();
    struct weir_op_desc desc = {.kind = WEIR_OP_DROPOUT, .in = 101, .out = 101, .rate = 0.25f, .stream = 3};
    struct weir_error err;
    struct weir_op *op = cpu->op_new(context, &desc, rows, &err);
    struct weir_row_range all = {0, rows};
    float *x = weir_alloc(rows * desc.in, sizeof *x, "test");
    for (size_t i = 0; i < rows * desc.in; i++)
        x[i] = 1;
    struct weir_op_pass pass = {.rows = rows,
                                .x = x,
                                .y = y,
                                .training = training,
                                .seed = 9,
                                .step = step,
                                .replicas = &all,
                                .replica_row0 = &row0,
                                .replica_count = 1};
    cpu->begin(context);
    cpu->forward(op, &pass);
    cpu->op_free(op);
    free(x);
}

static void dropout_is_keyed_by_step_and_global_row(void **state)
{
    static float all[64 * 101], some[64 * 101];
    forward_dropout(*state, 64, 0, 5, true, all);
    forward_dropout(*state, 10, 20, 5, true, some);
    assert_memory_equal(some, all + 20 * 101, 10 * 101 * sizeof *all);
    forward_dropout(*state, 10, 20, 6, true, some);
    assert_memory_not_equal(some, all + 20 * 101, 10 * 101 * sizeof *all);
    size_t dropped = 0;
    for (size_t i = 0; i < 64 * 101; i++) {
        assert_true(all[i] == 0 || all[i] == 1.0f / 0.75f);
        dropped += all[i] == 0;
    }
    assert_in_range(dropped, 64 * 101 / 4 - 200, 64 * 101 / 4 + 200); /* 5 deviations are 174 */
    forward_dropout(*state, 10, 20, 5, false, some);
    for (size_t i = 0; i < 10 * 101; i++)
        assert_true(some[i] == 1);
}

static int open_context(void **state)
{
    struct weir_error err;
    *state = weir_backend_cpu()->context_new(&err);
    return *state ? 0 : -1;
}

static int close_context(void **state)
{
    weir_backend_cpu()->context_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_agrees_with_the_reference),
        cmocka_unit_test(a_row_does_not_depend_on_the_rows_around_it),
        cmocka_unit_test(weight_gradients_are_summed_along_the_tree),
        cmocka_unit_test(the_fused_maximum_shares_among_equal_ones),
        cmocka_unit_test(maxima_that_tie_share_in_global_pooling_and_the_first_wins_in_windows),
        cmocka_unit_test(dropout_is_keyed_by_step_and_global_row),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
