/* One thread's forward and backward passes over a plan. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/cpu.h"
#include "model/plan.h"

struct weir_compute {
    const struct weir_model *model;
    const struct weir_backend *backend;
    struct weir_backend_context *context;
    struct weir_plan plan;
    struct weir_op **ops;
    float **y;    /* [ops]: each operation's output, [max_rows padded][out] */
    float *dy[2]; /* gradients of the current operation's output and input, in turn */
    uint32_t max_rows;
    size_t first_trained; /* the first operation with weights: backward ends there */
    struct weir_metric_config metrics[WEIR_METRICS_MAX];
    struct weir_loss_desc loss;
    float *values; /* [1 + metrics][max_rows] */
    /* Of the call in progress; grown when a call needs more. */
    struct weir_row_range *ranges;
    struct weir_op_gradient *gradients;
    size_t range_room, gradient_room;
};

/* The composition root will choose, once there is a second backend. */
static const struct weir_backend *choose_backend(void)
{
    return weir_backend_cpu();
}

void weir_compute_fingerprint(char *text, size_t bytes)
{
    choose_backend()->fingerprint(text, bytes);
}

static size_t padded(uint32_t rows)
{
    return ((size_t)rows + WEIR_ROWS_PAD - 1) / WEIR_ROWS_PAD * WEIR_ROWS_PAD;
}

static size_t widest(const struct weir_plan *plan)
{
    size_t most = 1;
    for (size_t i = 0; i < plan->count; i++) {
        most = plan->ops[i].desc.in > most ? plan->ops[i].desc.in : most;
        most = plan->ops[i].desc.out > most ? plan->ops[i].desc.out : most;
    }
    return most;
}

double weir_compute_bytes(const struct weir_model *model, uint32_t max_rows)
{
    struct weir_plan plan;
    weir_plan_make(&plan, model, choose_backend());
    double row = 2.0 * (double)widest(&plan);
    for (size_t i = 0; i < plan.count; i++)
        row += (double)plan.ops[i].desc.out;
    free(plan.ops);
    return row * (double)padded(max_rows) * sizeof(float);
}

static bool make_ops(struct weir_compute *compute, struct weir_error *err)
{
    size_t rows = padded(compute->max_rows), count = compute->plan.count;
    compute->ops = weir_alloc(count, sizeof(struct weir_op *), "operations");
    compute->y = weir_alloc(count, sizeof(float *), "activations");
    compute->first_trained = count;
    for (size_t i = 0; i < count; i++) {
        const struct weir_plan_op *op = &compute->plan.ops[i];
        const struct weir_layer *layer = &compute->model->layers[op->layer];
        compute->ops[i] = compute->backend->op_new(compute->context, &op->desc, compute->max_rows, err);
        if (!compute->ops[i])
            return weir_error_wrap(err, "%s: layer %zu (%s)", compute->model->path, layer->index, layer->name);
        compute->y[i] = weir_alloc_tensor(rows * op->desc.out * sizeof(float), "activations");
        if (op->kernel != WEIR_NO_VARIABLE && compute->first_trained == count)
            compute->first_trained = i;
    }
    for (size_t i = 0; i < 2; i++)
        compute->dy[i] = weir_alloc_tensor(rows * widest(&compute->plan) * sizeof(float), "gradients");
    return true;
}

struct weir_compute *weir_compute_new(const struct weir_model *model, const struct weir_job *job, uint32_t max_rows,
                                      struct weir_error *err)
{
    assert(model->bound && max_rows > 0);
    struct weir_compute *compute = weir_alloc(1, sizeof *compute, "compute");
    compute->model = model;
    compute->max_rows = max_rows;
    compute->backend = choose_backend();
    weir_plan_make(&compute->plan, model, compute->backend);
    memcpy(compute->metrics, job->metrics, sizeof compute->metrics);
    compute->loss = model->loss;
    compute->loss.metrics = compute->metrics;
    compute->loss.metric_count = job->metric_count;
    compute->values = weir_alloc((1 + job->metric_count) * (size_t)max_rows, sizeof(float), "losses");
    compute->context = compute->backend->context_new(err);
    if (compute->context && make_ops(compute, err))
        return compute;
    weir_compute_free(compute);
    return NULL;
}

void weir_compute_free(struct weir_compute *compute)
{
    if (!compute)
        return;
    for (size_t i = 0; compute->ops && i < compute->plan.count; i++) {
        compute->backend->op_free(compute->ops[i]);
        free(compute->y[i]);
    }
    if (compute->context)
        compute->backend->context_free(compute->context);
    free(compute->ops);
    free(compute->y);
    free(compute->dy[0]);
    free(compute->dy[1]);
    free(compute->plan.ops);
    free(compute->values);
    free(compute->ranges);
    free(compute->gradients);
    free(compute);
}

/* ---- passes */

/* Common to forward and backward of operation i. */
static struct weir_op_pass pass_of(const struct weir_compute *compute, size_t i, const float *weights, const float *x,
                                   uint32_t rows)
{
    const struct weir_plan_op *op = &compute->plan.ops[i];
    const struct weir_variable *variables = compute->model->variables;
    return (struct weir_op_pass){
        .rows = rows,
        .x = i == 0 ? x : compute->y[i - 1],
        .y = compute->y[i],
        .kernel = op->kernel == WEIR_NO_VARIABLE ? NULL : weights + variables[op->kernel].offset,
        .bias = op->bias == WEIR_NO_VARIABLE ? NULL : weights + variables[op->bias].offset,
    };
}

/* `input` is NULL outside training. */
static void forward(struct weir_compute *compute, const struct weir_step_input *input, const float *weights,
                    const float *x, uint32_t rows)
{
    for (size_t i = 0; i < compute->plan.count; i++) {
        struct weir_op_pass pass = pass_of(compute, i, weights, x, rows);
        if (input) {
            pass.training = true;
            pass.seed = input->seed;
            pass.step = input->step;
            pass.replicas = compute->ranges;
            pass.replica_row0 = input->replica_row0;
            pass.replica_count = input->replica_count;
        }
        compute->backend->forward(compute->ops[i], &pass);
    }
}

static void take_loss(struct weir_compute *compute, const float *y, uint32_t rows, float *dy, float scale)
{
    size_t last = compute->plan.count - 1;
    struct weir_loss_pass pass = {
        .rows = rows,
        .prediction = compute->y[last],
        .logits = last > 0 ? compute->y[last - 1] : NULL,
        .labels = y,
        .values = compute->values,
        .dy = dy,
        .scale = scale,
    };
    compute->backend->loss(compute->context, &compute->loss, &pass);
}

static void sum_values(const struct weir_compute *compute, uint32_t rows, const struct weir_row_range *range,
                       struct weir_sums *sums)
{
    *sums = (struct weir_sums){.samples = range->count};
    for (uint32_t row = range->first; row < range->first + range->count; row++)
        sums->loss += (double)compute->values[row];
    for (size_t m = 0; m < compute->loss.metric_count; m++)
        for (uint32_t row = range->first; row < range->first + range->count; row++)
            sums->metric[m] += (double)compute->values[(m + 1) * rows + row];
}

/* ---- the step */

/* Converts the replicas, finds out which nodes are empty; returns the number of rows. */
static uint32_t take_replicas(struct weir_compute *compute, const struct weir_step_input *input)
{
    if (input->replica_count > compute->range_room) {
        free(compute->ranges);
        compute->range_room = input->replica_count;
        compute->ranges = weir_alloc(compute->range_room, sizeof *compute->ranges, "replicas");
    }
    if (input->node_count > compute->gradient_room) {
        free(compute->gradients);
        compute->gradient_room = input->node_count;
        compute->gradients = weir_alloc(compute->gradient_room, sizeof *compute->gradients, "gradient nodes");
    }
    uint32_t rows = 0;
    for (uint32_t r = 0; r < input->replica_count; r++) {
        assert(input->replicas[r].first == rows && input->replicas[r].count <= compute->max_rows - rows);
        compute->ranges[r] = (struct weir_row_range){rows, input->replicas[r].count};
        rows += input->replicas[r].count;
    }
    for (uint32_t n = 0; n < input->node_count; n++) {
        struct weir_gradient_node *node = &input->nodes[n];
        assert(node->replica_count > 0 && node->first_replica < input->replica_count &&
               node->replica_count <= input->replica_count - node->first_replica);
        node->empty = true;
        for (uint32_t r = 0; r < node->replica_count; r++)
            node->empty = node->empty && compute->ranges[node->first_replica + r].count == 0;
    }
    return rows;
}

static float *place_in(const struct weir_compute *compute, const struct weir_gradient_node *node, size_t number)
{
    if (number == WEIR_NO_VARIABLE)
        return NULL;
    const struct weir_variable *variable = &compute->model->variables[number];
    float *place = node->gradient + variable->offset;
    size_t tail = (WEIR_VARIABLE_ALIGN - variable->elements % WEIR_VARIABLE_ALIGN) % WEIR_VARIABLE_ALIGN;
    memset(place + variable->elements, 0, tail * sizeof *place);
    return place;
}

/* Where operation `op`'s weight gradients go, for all nodes that have rows. */
static size_t set_gradients(struct weir_compute *compute, const struct weir_step_input *input,
                            const struct weir_plan_op *op)
{
    size_t count = 0;
    for (uint32_t n = 0; n < input->node_count; n++) {
        const struct weir_gradient_node *node = &input->nodes[n];
        if (!node->empty)
            compute->gradients[count++] = (struct weir_op_gradient){.replicas = compute->ranges + node->first_replica,
                                                                    .replica_count = node->replica_count,
                                                                    .kernel = place_in(compute, node, op->kernel),
                                                                    .bias = place_in(compute, node, op->bias)};
    }
    return count;
}

/* Passes on which rows of a kernel's gradient are final: a row is one of its last dimension, its bias lies behind. */
struct watched {
    const struct weir_step_input *input;
    const struct weir_variable *kernel;
};

static void tell_rows(void *context, size_t row)
{
    const struct watched *watched = context;
    const struct weir_variable *kernel = watched->kernel;
    watched->input->ready(watched->input->ready_context, kernel->offset + row * kernel->shape[kernel->dims - 1]);
}

/* From operation `from`, whose output's gradient is dy[0], down to the first with weights. */
static void backward(struct weir_compute *compute, const struct weir_step_input *input, size_t from, uint32_t rows)
{
    float *dy = compute->dy[0], *dx = compute->dy[1];
    for (size_t i = from + 1; i-- > compute->first_trained;) {
        const struct weir_plan_op *op = &compute->plan.ops[i];
        struct weir_op_pass pass = pass_of(compute, i, input->weights, input->x, rows);
        pass.dy = dy;
        pass.dx = i > compute->first_trained ? dx : NULL;
        struct watched watched = {.input = input};
        struct weir_op_watcher watcher = {tell_rows, &watched};
        if (op->kernel != WEIR_NO_VARIABLE) {
            pass.gradients = compute->gradients;
            pass.gradient_count = set_gradients(compute, input, op);
            watched.kernel = &compute->model->variables[op->kernel];
            pass.watcher = input->ready ? &watcher : NULL;
        }
        compute->backend->backward(compute->ops[i], &pass);
        if (op->kernel != WEIR_NO_VARIABLE && input->ready)
            input->ready(input->ready_context, compute->model->variables[op->kernel].offset);
        dx = dy;
        dy = pass.dx;
    }
}

void weir_compute_step(struct weir_compute *compute, const struct weir_step_input *input, struct weir_sums *sums)
{
    compute->backend->begin(compute->context);
    uint32_t rows = take_replicas(compute, input);
    if (rows == 0) {
        memset(sums, 0, input->replica_count * sizeof *sums);
        if (input->ready)
            input->ready(input->ready_context, 0);
        return;
    }
    forward(compute, input, input->weights, input->x, rows);
    take_loss(compute, input->y, rows, compute->dy[0], input->loss_scale);
    for (uint32_t r = 0; r < input->replica_count; r++)
        sum_values(compute, rows, &compute->ranges[r], &sums[r]);
    size_t last = compute->plan.count - 1;
    bool from_logits = weir_loss_from_last_logits(&compute->loss.loss, compute->loss.last);
    backward(compute, input, from_logits ? last - 1 : last, rows);
}

void weir_compute_evaluate(struct weir_compute *compute, const float *weights, const float *x, const float *y,
                           uint32_t rows, struct weir_sums *sums)
{
    assert(rows <= compute->max_rows);
    struct weir_row_range all = {0, rows};
    *sums = (struct weir_sums){0};
    if (rows == 0)
        return;
    compute->backend->begin(compute->context);
    forward(compute, NULL, weights, x, rows);
    take_loss(compute, y, rows, NULL, 0);
    sum_values(compute, rows, &all, sums);
}

void weir_compute_add(const struct weir_compute *compute, float *to, const float *from, size_t count)
{
    compute->backend->add(to, from, count);
}
