#include "cpu/gemm.h"

#include <float.h>
#include <math.h>

#include "kernel_test.h"

/* The sizes of one product, its operands (alignments drawn at random) and scratch. */
struct problem {
    size_t rows, in, out;
    struct input x, w, dz, bias;
    void *scratch;
};

static struct problem problem_new(struct draw *draw, size_t rows, size_t in, size_t out)
{
    struct problem p = {.rows = rows, .in = in, .out = out};
    p.x = input_new(draw, rows * in, 4 * draw_size(draw, 0, 15));
    p.w = input_new(draw, in * out, 4 * draw_size(draw, 0, 15));
    p.dz = input_new(draw, rows * out, 4 * draw_size(draw, 0, 15));
    p.bias = input_new(draw, out, 4 * draw_size(draw, 0, 15));
    p.scratch = weir_alloc_tensor(weir_gemm_scratch_bytes(rows, in, out), "a test's scratch");
    memset(p.scratch, 0xff, weir_gemm_scratch_bytes(rows, in, out)); /* NaN: reading what was not written shows */
    return p;
}

static void problem_free(struct problem *p)
{
    free(p->x.memory);
    free(p->w.memory);
    free(p->dz.memory);
    free(p->bias.memory);
    free(p->scratch);
}

/* One element as gemm.h defines it: a chain in ascending order. Products of two floats are exact in double. */
struct chain {
    float bits;           /* with fused multiply-adds */
    double exact, weight; /* in double, and the sum of magnitudes that bounds the error */
};

static struct chain chain_of(float start, const float *a, size_t a_step, const float *b, size_t b_step, size_t depth)
{
    struct chain chain = {start, start, fabs(start)};
    for (size_t k = 0; k < depth; k++) {
        double product = (double)a[k * a_step] * b[k * b_step];
        chain.bits = fmaf(a[k * a_step], b[k * b_step], chain.bits);
        chain.exact += product;
        chain.weight += fabs(product);
    }
    return chain;
}

/* All vector instruction sets give exactly the chain; plain C is within its error bound. */
static void check(enum weir_isa isa, float got, struct chain chain, size_t depth)
{
    if (isa != WEIR_ISA_PLAIN)
        assert_memory_equal(&got, &chain.bits, sizeof got);
    assert_true(fabs(got - chain.exact) <= chain.weight * (double)(depth + 2) * FLT_EPSILON);
}

static void check_forward(enum weir_isa isa, const struct problem *p, bool bias, bool relu)
{
    struct output y = output_new(p->rows * p->out, 4 * (p->in % 16));
    weir_gemm_forward(y.at, p->x.at, p->w.at, bias ? p->bias.at : NULL, p->rows, p->in, p->out, relu, p->scratch);
    for (size_t m = 0; m < p->rows; m++)
        for (size_t n = 0; n < p->out; n++) {
            struct chain chain = chain_of(bias ? p->bias.at[n] : 0, p->x.at + m * p->in, 1, p->w.at + n, p->out, p->in);
            if (relu) {
                chain.bits = chain.bits > 0 ? chain.bits : 0;
                chain.exact = chain.exact > 0 ? chain.exact : 0;
            }
            check(isa, y.at[m * p->out + n], chain, p->in);
        }
    output_free(&y);
}

static void check_input_gradient(enum weir_isa isa, const struct problem *p)
{
    struct output dx = output_new(p->rows * p->in, 4 * (p->out % 16));
    weir_gemm_input_gradient(dx.at, p->dz.at, p->w.at, p->rows, p->in, p->out, p->scratch);
    for (size_t m = 0; m < p->rows; m++)
        for (size_t k = 0; k < p->in; k++)
            check(isa, dx.at[m * p->in + k], chain_of(0, p->dz.at + m * p->out, 1, p->w.at + k * p->out, 1, p->out),
                  p->out);
    output_free(&dx);
}

static void check_weight_gradient(enum weir_isa isa, const struct problem *p)
{
    struct weir_row_range all = {0, (uint32_t)p->rows};
    struct output dw = output_new(p->in * p->out, 4 * (p->rows % 16)), db = output_new(p->out, 4 * (p->rows % 16));
    weir_gemm_weight_gradient(dw.at, p->x.at, p->dz.at, &all, 1, p->in, p->out, NULL, p->scratch);
    weir_gemm_bias_gradient(db.at, p->dz.at, &all, 1, p->out, p->scratch);
    const float one = 1;
    for (size_t n = 0; n < p->out; n++) {
        for (size_t k = 0; k < p->in; k++)
            check(isa, dw.at[k * p->out + n], chain_of(0, p->x.at + k, p->in, p->dz.at + n, p->out, p->rows), p->rows);
        check(isa, db.at[n], chain_of(0, &one, 0, p->dz.at + n, p->out, p->rows), p->rows);
    }
    output_free(&dw);
    output_free(&db);
}

static void check_all(enum weir_isa isa, struct draw *draw, size_t rows, size_t in, size_t out)
{
    struct problem p = problem_new(draw, rows, in, out);
    check_forward(isa, &p, draw_word(draw) & 1, draw_word(draw) & 1);
    check_input_gradient(isa, &p);
    check_weight_gradient(isa, &p);
    problem_free(&p);
}

/* ---- tests */

static void small_sizes_on(enum weir_isa isa)
{
    struct draw draw = {.seed = 1};
    for (int i = 0; i < 150; i++) {
        size_t rows = draw_size(&draw, 1, 70), in = draw_size(&draw, 1, 70), out = draw_size(&draw, 1, 70);
        check_all(isa, &draw, rows, in, out);
    }
}

static void every_element_is_its_chain_at_small_sizes(void **state)
{
    (void)state;
    on_every_isa(small_sizes_on);
}

static void remainders_on(enum weir_isa isa)
{
    struct draw draw = {.seed = 2};
    for (size_t n = 1; n <= 34; n++) {
        check_all(isa, &draw, n, 19, 33);
        check_all(isa, &draw, 9, n, 35);
        check_all(isa, &draw, 9, 21, n);
    }
}

static void every_remainder_of_every_dimension_is_right(void **state)
{
    (void)state;
    on_every_isa(remainders_on);
}

/* Beyond every block: rows, depth of panels, panels of dz and of dz^T; rows a multiple of 4 KiB apart. */
static void large_sizes_on(enum weir_isa isa)
{
    struct draw draw = {.seed = 3};
    const size_t sizes[][3] = {{1, 300, 5},    {64, 784, 130},  {600, 9, 20},   {515, 65, 3},
                               {17, 12, 2100}, {3, 5, 4500},    {40, 2, 8200},  {70, 530, 16},
                               {30, 1024, 99}, {530, 1024, 70}, {20, 300, 1024}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_all(isa, &draw, sizes[i][0], sizes[i][1], sizes[i][2]);
}

static void sizes_beyond_every_block_are_right(void **state)
{
    (void)state;
    on_every_isa(large_sizes_on);
}

static void empty_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 4};
    check_all(isa, &draw, 0, 5, 6);
    check_all(isa, &draw, 5, 0, 6);
    check_all(isa, &draw, 5, 6, 0);
}

static void a_dimension_of_0_gives_zeros_or_nothing(void **state)
{
    (void)state;
    on_every_isa(empty_on);
}

/* Row m of a product of many rows, and of a product of that row and a few more at another alignment. */
static void rows_alone_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 5};
    const size_t sizes[][3] = {{64, 100, 70}, {100, 37, 33}, {600, 20, 40}};
    for (size_t s = 0; s < 3; s++) {
        struct problem p = problem_new(&draw, sizes[s][0], sizes[s][1], sizes[s][2]);
        struct output y = output_new(p.rows * p.out, 0), dx = output_new(p.rows * p.in, 0);
        weir_gemm_forward(y.at, p.x.at, p.w.at, p.bias.at, p.rows, p.in, p.out, true, p.scratch);
        weir_gemm_input_gradient(dx.at, p.dz.at, p.w.at, p.rows, p.in, p.out, p.scratch);
        for (int i = 0; i < 40; i++) {
            size_t m = draw_size(&draw, 0, p.rows - 1), rows = draw_size(&draw, 1, p.rows - m);
            struct output some_y = output_new(rows * p.out, 4 * (m % 16)),
                          some_dx = output_new(rows * p.in, 4 * (m % 16));
            weir_gemm_forward(some_y.at, p.x.at + m * p.in, p.w.at, p.bias.at, rows, p.in, p.out, true, p.scratch);
            weir_gemm_input_gradient(some_dx.at, p.dz.at + m * p.out, p.w.at, rows, p.in, p.out, p.scratch);
            assert_memory_equal(some_y.at, y.at + m * p.out, rows * p.out * sizeof(float));
            assert_memory_equal(some_dx.at, dx.at + m * p.in, rows * p.in * sizeof(float));
            output_free(&some_y);
            output_free(&some_dx);
        }
        output_free(&y);
        output_free(&dx);
        problem_free(&p);
    }
}

static void the_bits_of_a_row_do_not_depend_on_the_other_rows(void **state)
{
    (void)state;
    on_every_isa(rows_alone_on);
}

/* The tree of gemm.h over separate gradients; returns whether there was anything to sum. */
static bool tree_sum(float *to, const float *parts, const struct weir_row_range *replicas, size_t first, size_t count,
                     size_t elements)
{
    if (count == 1) {
        memcpy(to, parts + first * elements, elements * sizeof *to);
        return replicas[first].count != 0;
    }
    size_t left = 1;
    while (left * 2 < count)
        left *= 2;
    float *other = weir_alloc(elements, sizeof *other, "a subtree");
    bool has_left = tree_sum(to, parts, replicas, first, left, elements);
    bool has_right = tree_sum(other, parts, replicas, first + left, count - left, elements);
    for (size_t i = 0; i < elements && has_right; i++)
        to[i] = has_left ? to[i] + other[i] : other[i];
    free(other);
    return has_left || has_right;
}

static void check_tree(struct draw *draw, size_t replica_count)
{
    struct weir_row_range replicas[20];
    size_t rows = 0, in = draw_size(draw, 1, 70), out = draw_size(draw, 1, 100);
    for (size_t r = 0; r < replica_count; r++) {
        uint32_t count = draw_word(draw) % 3 ? draw_word(draw) % 20 : 0;
        replicas[r] = (struct weir_row_range){(uint32_t)rows, count};
        rows += count;
    }
    struct problem p = problem_new(draw, rows, in, out);
    for (size_t i = 0; i < rows * out; i += 3)
        p.dz.at[i] = -0.0f; /* sums that are -0 must stay so */
    float *parts = weir_alloc(replica_count * (in + 1) * out, sizeof *parts, "separate gradients");
    float *biases = parts + replica_count * in * out;
    for (size_t r = 0; r < replica_count; r++) {
        weir_gemm_weight_gradient(parts + r * in * out, p.x.at, p.dz.at, &replicas[r], 1, in, out, NULL, p.scratch);
        weir_gemm_bias_gradient(biases + r * out, p.dz.at, &replicas[r], 1, out, p.scratch);
    }
    struct output dw = output_new(in * out, 4 * (rows % 16)), db = output_new(out, 0);
    float *want = weir_alloc(in * out + 1, sizeof *want, "the sum");
    weir_gemm_weight_gradient(dw.at, p.x.at, p.dz.at, replicas, replica_count, in, out, NULL, p.scratch);
    weir_gemm_bias_gradient(db.at, p.dz.at, replicas, replica_count, out, p.scratch);
    tree_sum(want, parts, replicas, 0, replica_count, in * out);
    assert_memory_equal(dw.at, want, in * out * sizeof *want);
    tree_sum(want, biases, replicas, 0, replica_count, out);
    assert_memory_equal(db.at, want, out * sizeof *want);
    output_free(&dw);
    output_free(&db);
    free(want);
    free(parts);
    problem_free(&p);
}

static void trees_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 6};
    for (size_t replicas = 1; replicas <= 20; replicas++)
        for (int i = 0; i < 4; i++)
            check_tree(&draw, replicas);
}

static void merged_replicas_have_the_bits_of_separate_ones_summed_by_the_tree(void **state)
{
    (void)state;
    on_every_isa(trees_on);
}

/* A replica of one row with x = 1, dz = -0 gives fma(1, -0, +0) = +0; x = -1e-30, dz = 1e-30 underflows to -0. Alone or
 * beside empty ones the gradient is the same, whatever its sign. */
static void empty_on_both_sides_on(enum weir_isa isa)
{
    (void)isa;
    const float x[2] = {-1, 3}, dz[2] = {2, 5};
    struct weir_row_range one[] = {{1, 1}}, padded[] = {{7, 0}, {0, 0}, {1, 1}, {9, 0}, {2, 0}},
                          none[] = {{0, 0}, {4, 0}};
    void *scratch = weir_alloc_tensor(weir_gemm_scratch_bytes(2, 1, 1), "scratch");
    float alone = 0, beside = 0, empty = 1;
    weir_gemm_weight_gradient(&alone, x, dz, one, 1, 1, 1, NULL, scratch);
    weir_gemm_weight_gradient(&beside, x, dz, padded, 5, 1, 1, NULL, scratch);
    weir_gemm_weight_gradient(&empty, x, dz, none, 2, 1, 1, NULL, scratch);
    assert_memory_equal(&alone, &beside, sizeof alone);
    assert_true(alone == 15);
    assert_true(empty == 0 && !signbit(empty));
    weir_gemm_bias_gradient(&empty, dz, none, 2, 1, scratch);
    assert_true(empty == 0);
    free(scratch);
}

static void empty_replicas_add_nothing(void **state)
{
    (void)state;
    on_every_isa(empty_on_both_sides_on);
}

struct watched {
    const float *dw;
    size_t out, end, told;
};

/* What is new must be written already; what is told may only fall. */
static void on_rows_final(void *context, size_t row)
{
    struct watched *watched = context;
    assert_true(row < watched->end);
    for (size_t i = row * watched->out; i < watched->end * watched->out; i++)
        assert_false(isnan(watched->dw[i]));
    watched->end = row;
    watched->told++;
}

static void watcher_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 9};
    const size_t sizes[][3] = {{3, 700, 1100}, {1, 5, 3}, {300, 40, 1000}}; /* in pieces, at once, too wide for L2 */
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t rows = sizes[i][0], in = sizes[i][1], out = sizes[i][2];
        struct problem p = problem_new(&draw, rows, in, out);
        struct weir_row_range all = {0, (uint32_t)rows};
        float *dw = weir_alloc_tensor(in * out * sizeof *dw, "a gradient");
        memset(dw, 0xff, in * out * sizeof *dw);
        struct watched watched = {.dw = dw, .out = out, .end = in};
        struct weir_op_watcher watcher = {on_rows_final, &watched};
        weir_gemm_weight_gradient(dw, p.x.at, p.dz.at, &all, 1, in, out, &watcher, p.scratch);
        assert_int_equal(watched.end, 0);
        assert_true(i != 0 || watched.told > 2);
        free(dw);
        problem_free(&p);
    }
}

static void rows_told_final_are_written_and_fall_to_zero(void **state)
{
    (void)state;
    on_every_isa(watcher_on);
}

static void nan_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 7};
    struct problem p = problem_new(&draw, 3, 40, 5);
    p.x.at[40 + 7] = NAN;
    float y[15];
    weir_gemm_forward(y, p.x.at, p.w.at, p.bias.at, 3, 40, 5, true, p.scratch);
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(isnan(y[i]) != 0, i / 5 == 1);
    problem_free(&p);
}

static void nan_passes_through_relu_and_stays_in_its_row(void **state)
{
    (void)state;
    on_every_isa(nan_on);
}

static void relu_gradient_on(enum weir_isa isa)
{
    (void)isa;
    struct draw draw = {.seed = 8};
    for (size_t count = 0; count <= 70; count++) {
        struct input y = input_new(&draw, count, 4 * (count % 16)), before = input_new(&draw, count, 0);
        struct output dz = output_new(count, 4 * (count % 15));
        if (count > 3)
            y.at[1] = NAN, y.at[2] = 0, y.at[3] = -0.0f;
        memcpy(dz.at, before.at, count * sizeof(float));
        weir_relu_gradient(dz.at, y.at, count);
        for (size_t i = 0; i < count; i++)
            assert_true(dz.at[i] == (y.at[i] > 0 ? before.at[i] : 0));
        output_free(&dz);
        free(y.memory);
        free(before.memory);
    }
}

static void relu_gradient_passes_where_the_output_is_positive(void **state)
{
    (void)state;
    on_every_isa(relu_gradient_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_its_chain_at_small_sizes),
        cmocka_unit_test(every_remainder_of_every_dimension_is_right),
        cmocka_unit_test(sizes_beyond_every_block_are_right),
        cmocka_unit_test(a_dimension_of_0_gives_zeros_or_nothing),
        cmocka_unit_test(the_bits_of_a_row_do_not_depend_on_the_other_rows),
        cmocka_unit_test(merged_replicas_have_the_bits_of_separate_ones_summed_by_the_tree),
        cmocka_unit_test(empty_replicas_add_nothing),
        cmocka_unit_test(rows_told_final_are_written_and_fall_to_zero),
        cmocka_unit_test(nan_passes_through_relu_and_stays_in_its_row),
        cmocka_unit_test(relu_gradient_passes_where_the_output_is_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
