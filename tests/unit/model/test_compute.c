#include "models.h"

#include <math.h>
#include <stdio.h>

#include "model/plan.h"
#include "cpu/cpu.h"
#include "reference/reference.h"

/* ---- against the float64 reference */

struct reference_run {
    struct weir_plan plan;
    double **y;
    double *gradient; /* flat */
    double loss;
};

static double *doubles(const float *from, size_t count)
{
    double *out = weir_alloc(count, sizeof *out, "test");
    for (size_t i = 0; from && i < count; i++)
        out[i] = (double)from[i];
    return out;
}

static const double *at(const struct fixture *f, const double *flat, size_t variable)
{
    const struct weir_variable *variables;
    weir_model_variables(f->model, &variables);
    return variable == WEIR_NO_VARIABLE ? NULL : flat + variables[variable].offset;
}

/* The gradient of the sum of losses of `rows` rows, operation by operation. */
static void reference_step(struct fixture *f, size_t rows, struct reference_run *run)
{
    weir_plan_make(&run->plan, f->model, weir_backend_cpu());
    size_t count = run->plan.count, loss_op = count - 1;
    double *weights = doubles(f->weights, f->flat), *x = doubles(f->x, rows * f->x_elements);
    run->y = weir_alloc(count, sizeof *run->y, "test");
    run->gradient = doubles(NULL, f->flat);
    for (size_t i = 0; i < count; i++) {
        const struct weir_plan_op *op = &run->plan.ops[i];
        run->y[i] = doubles(NULL, rows * op->desc.out);
        weir_reference_forward(&op->desc, rows, i ? run->y[i - 1] : x, at(f, weights, op->kernel),
                               at(f, weights, op->bias), run->y[i]);
    }
    if (weir_loss_from_last_logits(&f->model->loss.loss, f->model->loss.last))
        loss_op--;
    double *dy = doubles(NULL, rows * run->plan.ops[loss_op].desc.out);
    for (size_t r = 0; r < rows; r++)
        run->loss += weir_reference_loss(&f->model->loss, run->y[loss_op] + r * 10, f->y + r, dy + r * 10);
    for (size_t i = loss_op + 1; i-- > 0;) {
        const struct weir_plan_op *op = &run->plan.ops[i];
        double *dx = doubles(NULL, rows * op->desc.in);
        weir_reference_backward(&op->desc, rows, i ? run->y[i - 1] : x, at(f, weights, op->kernel),
                                at(f, weights, op->bias), run->y[i], dy, dx,
                                (double *)(uintptr_t)at(f, run->gradient, op->kernel),
                                (double *)(uintptr_t)at(f, run->gradient, op->bias));
        free(dy);
        dy = dx;
    }
    free(dy);
    free(x);
    free(weights);
}

static void reference_free(struct reference_run *run)
{
    for (size_t i = 0; i < run->plan.count; i++)
        free(run->y[i]);
    free(run->y);
    free(run->gradient);
    free(run->plan.ops);
}

static struct weir_compute *compute_new(const struct fixture *f, uint32_t rows)
{
    struct weir_error err;
    struct weir_compute *compute = weir_compute_new(f->model, &f->job, rows, &err);
    if (!compute)
        fail_msg("%s", err.text);
    return compute;
}

/* One replica with all the rows. */
static void step_of_one(struct fixture *f, uint32_t rows, float scale, float *gradient, struct weir_sums *sums)
{
    struct weir_compute *compute = compute_new(f, rows);
    struct weir_replica_rows all = {0, rows};
    uint32_t id = 0, row0 = 0;
    struct weir_gradient_node node = {0, 1, gradient, false};
    struct weir_step_input input = {.weights = f->weights,
                                    .x = f->x,
                                    .y = f->y,
                                    .replicas = &all,
                                    .replica_ids = &id,
                                    .replica_row0 = &row0,
                                    .replica_count = 1,
                                    .loss_scale = scale,
                                    .nodes = &node,
                                    .node_count = 1};
    weir_compute_step(compute, &input, sums);
    assert_false(node.empty);
    weir_compute_free(compute);
}

static void gradient_and_loss_agree_with_the_reference(void **state)
{
    (void)state;
    static const char *const models[] = {PLAIN_MLP, CNN, DEEP_CNN, STRIDED_CNN};
    for (size_t m = 0; m < 4; m++)
        for (uint32_t rows = 1; rows <= 13; rows += 6) {
            struct fixture f;
            struct reference_run run = {0};
            struct weir_sums sums;
            fixture_open(&f, models[m], m != 2);
            float *gradient = weir_alloc_tensor(f.flat * sizeof *gradient, "test");
            memset(gradient, 0xff, f.flat * sizeof *gradient);
            reference_step(&f, rows, &run);
            step_of_one(&f, rows, 0.25f, gradient, &sums);
            assert_float_equal(sums.loss, run.loss, 1e-5 * run.loss);
            assert_true(sums.samples == rows);
            double largest = 0;
            for (size_t i = 0; i < f.flat; i++)
                largest = fmax(largest, fabs(run.gradient[i]));
            for (size_t i = 0; i < f.flat; i++) /* NaN, the padding's old content, fails too */
                if (!(fabs((double)gradient[i] - 0.25 * run.gradient[i]) <= 1e-5 * largest))
                    fail_msg("model %zu: gradient[%zu] is %.9g, should be %.9g", m, i, (double)gradient[i],
                             0.25 * run.gradient[i]);
            free(gradient);
            reference_free(&run);
            fixture_close(&f);
        }
}

/* ---- replicas: together and apart */

#define REPLICAS_MAX 8

struct split {
    uint32_t count;
    struct weir_replica_rows rows[REPLICAS_MAX];
    uint32_t ids[REPLICAS_MAX], row0[REPLICAS_MAX];
};

static struct split split_rows(uint32_t replicas, uint32_t batch)
{
    struct split s = {.count = replicas};
    for (uint32_t r = 0; r < replicas; r++) {
        uint32_t first = r * batch / replicas;
        s.ids[r] = r;
        s.row0[r] = first;
        s.rows[r] = (struct weir_replica_rows){first, (r + 1) * batch / replicas - first};
    }
    return s;
}

static struct weir_step_input input_of(const struct fixture *f, const struct split *s)
{
    return (struct weir_step_input){.step = 3,
                                    .seed = 5,
                                    .weights = f->weights,
                                    .x = f->x,
                                    .y = f->y,
                                    .replicas = s->rows,
                                    .replica_ids = s->ids,
                                    .replica_row0 = s->row0,
                                    .replica_count = s->count,
                                    .loss_scale = 1.0f / 64};
}

/* A call with replica `r` only. */
static bool one_replica(struct fixture *f, struct weir_compute *compute, const struct split *s, uint32_t r,
                        float *gradient, struct weir_sums *sums)
{
    struct split one = {.count = 1, .rows = {{0, s->rows[r].count}}, .ids = {r}, .row0 = {s->row0[r]}};
    struct weir_gradient_node node = {0, 1, gradient, false};
    struct weir_step_input input = input_of(f, &one);
    input.x += s->rows[r].first * f->x_elements;
    input.y += s->rows[r].first;
    input.nodes = &node;
    input.node_count = 1;
    weir_compute_step(compute, &input, sums);
    return !node.empty;
}

/* The sum along the tree over replicas [a, a + n) of separate gradients, into the first that is there; NULL if none. */
static float *tree(float *const *leaves, size_t a, size_t n, uint64_t flat, float *scratch)
{
    if (n == 1)
        return leaves[a];
    size_t p = 1;
    while (p * 2 < n)
        p *= 2;
    float *left = tree(leaves, a, p, flat, scratch), *right;
    float *sum = scratch;
    if (left) {
        memcpy(scratch, left, flat * sizeof *sum);
        left = scratch;
    }
    right = tree(leaves, a + p, n - p, flat, scratch + flat);
    if (!left || !right)
        return left ? left : right;
    for (uint64_t i = 0; i < flat; i++)
        sum[i] += right[i];
    return sum;
}

struct bits_run {
    struct fixture f;
    struct split s;
    float *leaves[REPLICAS_MAX], *memory, *merged, *scratch;
    struct weir_sums apart[REPLICAS_MAX];
};

static void compare_node(struct bits_run *run, const struct weir_gradient_node *node)
{
    float *expected = tree(run->leaves, node->first_replica, node->replica_count, run->f.flat, run->scratch);
    assert_int_equal(node->empty, expected == NULL);
    for (uint64_t i = 0; expected && i < run->f.flat; i++)
        if (memcmp(&node->gradient[i], &expected[i], sizeof(float)) != 0)
            fail_msg("%u replicas, node %u+%u: gradient[%llu] is %a merged, %a apart", run->s.count,
                     node->first_replica, node->replica_count, (unsigned long long)i, (double)node->gradient[i],
                     (double)expected[i]);
}

/* Every aligned subtree, cut at the end, in one call with all the replicas. */
static void compare_all_nodes(struct bits_run *run, struct weir_compute *compute)
{
    struct weir_gradient_node nodes[4 * REPLICAS_MAX];
    struct weir_sums together[REPLICAS_MAX];
    uint32_t count = 0, n = run->s.count;
    for (uint32_t size = 1; size < 2 * n; size *= 2)
        for (uint32_t first = 0; first < n; first += size) {
            nodes[count] = (struct weir_gradient_node){first, first + size <= n ? size : n - first,
                                                       run->merged + count * run->f.flat, false};
            count++;
        }
    struct weir_step_input input = input_of(&run->f, &run->s);
    input.nodes = nodes;
    input.node_count = count;
    weir_compute_step(compute, &input, together);
    for (uint32_t i = 0; i < count; i++)
        compare_node(run, &nodes[i]);
    assert_memory_equal(together, run->apart, n * sizeof *together);
}

static void check_bits(const char *model, bool from_logits, uint32_t replicas, uint32_t batch)
{
    struct bits_run run = {.s = split_rows(replicas, batch)};
    fixture_open(&run.f, model, from_logits);
    struct weir_compute *large = compute_new(&run.f, TEST_BATCH), *small = compute_new(&run.f, batch / replicas + 1);
    run.memory = weir_alloc_tensor(REPLICAS_MAX * run.f.flat * sizeof(float), "test");
    run.merged = weir_alloc_tensor(4 * REPLICAS_MAX * run.f.flat * sizeof(float), "test");
    run.scratch = weir_alloc_tensor(REPLICAS_MAX * run.f.flat * sizeof(float), "test");
    for (uint32_t r = 0; r < replicas; r++) {
        float *gradient = run.memory + r * run.f.flat;
        run.leaves[r] = one_replica(&run.f, small, &run.s, r, gradient, &run.apart[r]) ? gradient : NULL;
    }
    compare_all_nodes(&run, large);
    weir_compute_free(large);
    weir_compute_free(small);
    free(run.memory);
    free(run.merged);
    free(run.scratch);
    fixture_close(&run.f);
}

static void hosted_together_or_apart_replicas_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const models[] = {MLP, CNN, DEEP_CNN};
    static const uint32_t replicas[] = {1, 3, 4, 6, 8}, batches[] = {64, 37, 5, 1};
    for (size_t m = 0; m < 3; m++)
        for (size_t r = 0; r < 5; r++)
            for (size_t b = 0; b < 4; b++) /* 5 and 1: replicas without rows */
                check_bits(models[m], m != 2, replicas[r], batches[b]);
}

/* ---- the rest of the contract */

struct ready_log {
    uint64_t offsets[16];
    size_t count;
    float *gradient;
    uint64_t flat;
    bool final; /* whether what was ready was written, and offsets fell */
};

static void on_ready(void *context, uint64_t offset)
{
    struct ready_log *log = context;
    uint64_t before = log->count ? log->offsets[log->count - 1] : log->flat;
    log->final = log->final && offset <= before;
    for (uint64_t i = offset; i < before; i++)
        log->final = log->final && !isnan(log->gradient[i]);
    assert_true(log->count < sizeof log->offsets / sizeof log->offsets[0]);
    log->offsets[log->count++] = offset;
}

static void gradients_become_ready_from_the_last_layer_to_the_first(void **state)
{
    (void)state;
    struct fixture f;
    struct weir_sums sums;
    fixture_open(&f, MLP, true);
    const struct weir_variable *v;
    assert_int_equal(weir_model_variables(f.model, &v), 6);
    struct ready_log log = {
        .gradient = weir_alloc_tensor(f.flat * sizeof(float), "test"), .flat = f.flat, .final = true};
    memset(log.gradient, 0xff, f.flat * sizeof(float));
    struct split s = split_rows(1, 8);
    struct weir_gradient_node node = {0, 1, log.gradient, false};
    struct weir_step_input input = input_of(&f, &s);
    input.nodes = &node;
    input.node_count = 1;
    input.ready = on_ready;
    input.ready_context = &log;
    struct weir_compute *compute = compute_new(&f, 8);
    weir_compute_step(compute, &input, &sums);
    assert_true(log.final);
    assert_int_equal(log.offsets[log.count - 1], 0);
    for (size_t layer = 0; layer < 3; layer++) { /* each kernel's first row was told */
        size_t told = 0;
        for (size_t i = 0; i < log.count; i++)
            told += log.offsets[i] == v[2 * layer].offset;
        assert_true(told > 0);
    }
    weir_compute_free(compute);
    free(log.gradient);
    fixture_close(&f);
}

static void evaluation_does_not_depend_on_how_rows_are_cut(void **state)
{
    (void)state;
    static const char *const models[] = {MLP, CNN, DEEP_CNN};
    for (size_t m = 0; m < 3; m++) {
        struct fixture f;
        struct weir_sums all, one, sum = {0};
        fixture_open(&f, models[m], m != 2);
        struct weir_compute *compute = compute_new(&f, TEST_BATCH);
        weir_compute_evaluate(compute, f.weights, f.x, f.y, TEST_BATCH, &all);
        for (uint32_t i = 0; i < TEST_BATCH; i++) {
            weir_compute_evaluate(compute, f.weights, f.x + i * f.x_elements, f.y + i, 1, &one);
            sum.samples += one.samples;
            sum.loss += one.loss;
            sum.metric[0] += one.metric[0];
        }
        assert_memory_equal(&all, &sum, sizeof all);
        assert_true(all.metric[0] >= 0 && all.metric[0] <= TEST_BATCH);
        weir_compute_free(compute);
        fixture_close(&f);
    }
}

/* Plain descent on one batch must bring its loss far down: signs and scales are right from end to end. */
static void descent_learns_a_batch_by_heart(void **state)
{
    (void)state;
    static const char *const models[] = {PLAIN_MLP, CNN}; /* the deep one averages the noise away */
    for (size_t m = 0; m < 2; m++) {
        struct fixture f;
        struct weir_sums first, sums;
        fixture_open(&f, models[m], true);
        float *gradient = weir_alloc_tensor(f.flat * sizeof *gradient, "test");
        step_of_one(&f, 16, 1.0f / 16, gradient, &first);
        for (int step = 0; step < 150; step++) {
            step_of_one(&f, 16, 1.0f / 16, gradient, &sums);
            for (size_t i = 0; i < f.flat; i++)
                f.weights[i] -= 0.5f * gradient[i];
        }
        if (!(sums.loss < 0.5 * first.loss))
            fail_msg("model %zu: loss %g after 150 steps, %g before", m, sums.loss, first.loss);
        free(gradient);
        fixture_close(&f);
    }
}

static void the_fingerprint_names_processor_and_library(void **state)
{
    (void)state;
    char text[256];
    weir_compute_fingerprint(text, sizeof text);
    assert_non_null(strstr(text, "cpu "));
    assert_non_null(strstr(text, "oneDNN "));
    assert_non_null(strstr(text, " l2 "));
    const char *most = getenv("ONEDNN_MAX_CPU_ISA");
    if (most && strcmp(most, "AVX2") == 0)
        assert_null(strstr(strstr(text, "oneDNN "), "avx512"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_and_loss_agree_with_the_reference),
        cmocka_unit_test(hosted_together_or_apart_replicas_give_the_same_bits),
        cmocka_unit_test(gradients_become_ready_from_the_last_layer_to_the_first),
        cmocka_unit_test(evaluation_does_not_depend_on_how_rows_are_cut),
        cmocka_unit_test(descent_learns_a_batch_by_heart),
        cmocka_unit_test(the_fingerprint_names_processor_and_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
