/* Times a model's computation: bench_model MODEL.json [ROWS [REPLICAS [THREADS]]]. The loss is of class numbers, the
 * data are random. First whole steps, on so many threads, and evaluations, then each operation by itself. Each figure
 * is the least of many runs, since what disturbs a run only makes it longer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "cpu/cpu.h"
#include "model/graph.h"
#include "model/plan.h"
#include "model/team.h"

#define RUNS 41
#define REPLICAS_MAX 64

struct bench {
    struct weir_model *model;
    struct weir_job job;
    uint32_t rows, replicas, threads;
    float *weights, *gradient, *x, *y;
    struct weir_row_range ranges[REPLICAS_MAX];
};

static double least_ms(void (*run)(void *context), void *context)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < RUNS; i++) {
        uint64_t start = weir_clock_ns();
        run(context);
        uint64_t ns = weir_clock_ns() - start;
        least = ns < least ? ns : least;
    }
    return (double)least / (double)WEIR_NS_PER_MS;
}

static void fill(float *x, size_t count, float scale)
{
    struct weir_random_key key = weir_random_key(1, WEIR_RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < count; i++) {
        uint32_t word[4];
        weir_random_block(key, i, 0, word);
        x[i] = scale * weir_random_unit(word[0]);
    }
}

/* ---- whole steps */

struct step {
    struct bench *bench;
    struct weir_team *team;
    struct weir_compute *compute;
};

static void run_step(void *context)
{
    const struct step *step = context;
    struct bench *b = step->bench;
    struct weir_replica_rows replicas[REPLICAS_MAX];
    uint32_t ids[REPLICAS_MAX], row0[REPLICAS_MAX];
    struct weir_sums sums[REPLICAS_MAX];
    for (uint32_t r = 0; r < b->replicas; r++) {
        replicas[r] = (struct weir_replica_rows){b->ranges[r].first, b->ranges[r].count};
        ids[r] = r;
        row0[r] = b->ranges[r].first;
    }
    struct weir_gradient_node node = {0, b->replicas, b->gradient, false};
    struct weir_step_input input = {.weights = b->weights,
                                    .x = b->x,
                                    .y = b->y,
                                    .replicas = replicas,
                                    .replica_ids = ids,
                                    .replica_row0 = row0,
                                    .replica_count = b->replicas,
                                    .loss_scale = 1.0f / (float)b->rows,
                                    .nodes = &node,
                                    .node_count = 1};
    weir_team_step(step->team, &input, sums);
}

static void run_evaluation(void *context)
{
    const struct step *step = context;
    struct weir_sums sums;
    weir_compute_evaluate(step->compute, step->bench->weights, step->bench->x, step->bench->y, step->bench->rows,
                          &sums);
}

static bool whole_steps(struct bench *b, struct weir_error *err)
{
    struct weir_gradient_node node = {0, b->replicas, NULL, false};
    struct weir_team_config config = {.model = b->model,
                                      .job = &b->job,
                                      .nodes = &node,
                                      .node_count = 1,
                                      .replica_count = b->replicas,
                                      .replica_rows = (b->rows + b->replicas - 1) / b->replicas,
                                      .threads = b->threads};
    struct step step = {.bench = b, .team = weir_team_new(&config, err)};
    step.compute = step.team ? weir_compute_new(b->model, &b->job, b->rows, err) : NULL;
    if (!step.compute) {
        weir_team_free(step.team);
        return false;
    }
    double step_ms = least_ms(run_step, &step), evaluation_ms = least_ms(run_evaluation, &step);
    printf("step of %u rows, %u replicas, %u threads: %.3f ms, %.0f samples/s; evaluation: %.3f ms\n", b->rows,
           b->replicas, b->threads, step_ms, b->rows * 1e3 / step_ms, evaluation_ms);
    weir_team_free(step.team);
    weir_compute_free(step.compute);
    return true;
}

/* ---- operation by operation */

struct single {
    const struct weir_backend *cpu;
    struct weir_op *op;
    struct weir_op_pass pass;
};

static void run_forward(void *context)
{
    const struct single *single = context;
    single->cpu->forward(single->op, &single->pass);
}

static void run_backward(void *context)
{
    const struct single *single = context;
    single->cpu->backward(single->op, &single->pass);
}

static const char *kind_name(enum weir_op_kind kind)
{
    static const char *const names[WEIR_OP_KINDS] = {
        [WEIR_OP_DENSE] = "dense",
        [WEIR_OP_CONV2D] = "conv2d",
        [WEIR_OP_CONV2D_GLOBAL_MAX] = "conv2d + relu + global max",
        [WEIR_OP_MAX_POOL2D] = "max pool",
        [WEIR_OP_AVERAGE_POOL2D] = "average pool",
        [WEIR_OP_GLOBAL_MAX_POOL] = "global max",
        [WEIR_OP_GLOBAL_AVERAGE_POOL] = "global average",
        [WEIR_OP_ACTIVATION] = "activation",
        [WEIR_OP_SOFTMAX] = "softmax",
        [WEIR_OP_DROPOUT] = "dropout",
        [WEIR_OP_SCALE] = "scale",
    };
    return names[kind];
}

static bool time_operation(struct bench *b, struct weir_backend_context *context, const struct weir_plan_op *op,
                           bool first, struct weir_error *err)
{
    const struct weir_backend *cpu = weir_backend_cpu();
    size_t rows = ((size_t)b->rows + WEIR_ROWS_PAD - 1) / WEIR_ROWS_PAD * WEIR_ROWS_PAD;
    const struct weir_variable *v = b->model->variables;
    bool has_kernel = op->kernel != WEIR_NO_VARIABLE, has_bias = op->bias != WEIR_NO_VARIABLE;
    struct single single = {cpu, cpu->op_new(context, &op->desc, b->rows, err), {.rows = b->rows}};
    if (!single.op)
        return false;
    float *x = weir_alloc_tensor(rows * op->desc.in * sizeof *x, "bench");
    float *dx = weir_alloc_tensor(rows * op->desc.in * sizeof *x, "bench");
    float *y = weir_alloc_tensor(rows * op->desc.out * sizeof *x, "bench");
    float *dy = weir_alloc_tensor(rows * op->desc.out * sizeof *x, "bench");
    fill(x, b->rows * op->desc.in, 1);
    fill(dy, b->rows * op->desc.out, 1e-3f);
    struct weir_op_gradient gradient = {b->ranges, b->replicas, has_kernel ? b->gradient + v[op->kernel].offset : NULL,
                                        has_bias ? b->gradient + v[op->bias].offset : NULL};
    single.pass.x = x;
    single.pass.y = y;
    single.pass.dy = dy;
    single.pass.dx = first ? NULL : dx;
    single.pass.kernel = has_kernel ? b->weights + v[op->kernel].offset : NULL;
    single.pass.bias = has_bias ? b->weights + v[op->bias].offset : NULL;
    single.pass.gradients = &gradient;
    single.pass.gradient_count = has_kernel;
    double forward_ms = least_ms(run_forward, &single), backward_ms = least_ms(run_backward, &single);
    printf("  %-28s %-28s forward %8.3f ms, backward %8.3f ms\n", b->model->layers[op->layer].name,
           kind_name(op->desc.kind), forward_ms, backward_ms);
    cpu->op_free(single.op);
    free(x);
    free(dx);
    free(y);
    free(dy);
    return true;
}

static bool single_operations(struct bench *b, struct weir_error *err)
{
    const struct weir_backend *cpu = weir_backend_cpu();
    struct weir_plan plan;
    struct weir_backend_context *context = cpu->context_new(err);
    if (!context)
        return false;
    weir_plan_make(&plan, b->model, cpu);
    cpu->begin(context);
    bool ok = true, first = true;
    for (size_t i = 0; ok && i < plan.count; i++) {
        ok = time_operation(b, context, &plan.ops[i], first, err);
        first = first && plan.ops[i].kernel == WEIR_NO_VARIABLE;
    }
    free(plan.ops);
    cpu->context_free(context);
    return ok;
}

/* ---- set-up */

static bool read_model(const char *path, struct bench *b, struct weir_error *err)
{
    size_t room = (size_t)1 << 26;
    char *text = weir_alloc(room, 1, "a model file");
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(text, 1, room, file) : 0;
    if (file)
        fclose(file);
    b->model = weir_model_parse(text, bytes, path, err);
    free(text);
    return b->model != NULL;
}

static bool prepare(struct bench *b, struct weir_error *err)
{
    size_t shape[WEIR_DIMS_MAX], dims = weir_model_input(b->model, shape), elements = 1;
    uint64_t classes, flat = weir_model_flat_elements(b->model);
    b->job.loss = (struct weir_loss_config){.kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true};
    if (!weir_model_bind(b->model, &b->job, shape, dims, NULL, 0, &classes, err))
        return false;
    for (size_t i = 0; i < dims; i++)
        elements *= shape[i];
    b->weights = weir_alloc_tensor(flat * sizeof(float), "bench");
    b->gradient = weir_alloc_tensor(flat * sizeof(float), "bench");
    b->x = weir_alloc_tensor(b->rows * elements * sizeof(float), "bench");
    b->y = weir_alloc_tensor(b->rows * sizeof(float), "bench");
    weir_model_initial(b->model->variables, b->model->variable_count, 1, 0, flat, b->weights);
    fill(b->x, b->rows * elements, 1);
    for (uint32_t i = 0; i < b->rows; i++)
        b->y[i] = (float)(i % classes);
    for (uint32_t r = 0; r < b->replicas; r++) {
        uint32_t first = r * b->rows / b->replicas;
        b->ranges[r] = (struct weir_row_range){first, (r + 1) * b->rows / b->replicas - first};
    }
    return true;
}

static uint32_t number(const char *text, uint32_t otherwise, uint32_t most)
{
    uint32_t value = 0;
    for (; text && *text >= '0' && *text <= '9' && value <= most; text++)
        value = value * 10 + (uint32_t)(*text - '0');
    return value >= 1 && value <= most ? value : otherwise;
}

int main(int argc, char **argv)
{
    struct weir_error err = {""};
    struct bench b = {.rows = number(argc > 2 ? argv[2] : NULL, 64, 1 << 16),
                      .replicas = number(argc > 3 ? argv[3] : NULL, 1, REPLICAS_MAX)};
    b.threads = number(argc > 4 ? argv[4] : NULL, 1, b.replicas);
    bool ok = argc > 1 || weir_error_set(&err, "usage: bench_model MODEL.json [ROWS [REPLICAS [THREADS]]]");
    char text[256];
    ok = ok && read_model(argv[1], &b, &err) && prepare(&b, &err);
    weir_compute_fingerprint(text, sizeof text);
    printf("%s\n", text);
    ok = ok && whole_steps(&b, &err) && single_operations(&b, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    weir_model_free(b.model);
    free(b.weights);
    free(b.gradient);
    free(b.x);
    free(b.y);
    return ok ? 0 : 1;
}
