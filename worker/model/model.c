/* What a model says about itself, and how it meets loss and data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/cpu.h"
#include "model/layer.h"

size_t weir_model_variables(const struct weir_model *model, const struct weir_variable **variables)
{
    *variables = model->variables;
    return model->variable_count;
}

uint64_t weir_model_flat_elements(const struct weir_model *model)
{
    return model->flat_elements;
}

static size_t copy_shape(const struct weir_shape *from, size_t shape[WEIR_DIMS_MAX])
{
    memcpy(shape, from->dim, sizeof from->dim);
    return from->dims;
}

size_t weir_model_input(const struct weir_model *model, size_t shape[WEIR_DIMS_MAX])
{
    return copy_shape(&model->input, shape);
}

size_t weir_model_output(const struct weir_model *model, size_t shape[WEIR_DIMS_MAX])
{
    return copy_shape(&model->output, shape);
}

/* ---- bind */

static struct weir_shape shape_of(const size_t *dim, size_t dims)
{
    struct weir_shape shape = {.dims = dims < WEIR_DIMS_MAX ? dims : WEIR_DIMS_MAX};
    for (size_t i = 0; i < shape.dims; i++)
        shape.dim[i] = dim[i];
    return shape;
}

static bool equal(const struct weir_shape *a, const struct weir_shape *b)
{
    return a->dims == b->dims && memcmp(a->dim, b->dim, a->dims * sizeof *a->dim) == 0;
}

/* The shape with (on) or without a last dimension of 1. */
static struct weir_shape without_last_one(const struct weir_shape *shape)
{
    struct weir_shape out = *shape;
    if (out.dims > 0 && out.dim[out.dims - 1] == 1)
        out.dims--;
    return out;
}

/* Keras squeezes or expands a last dimension of 1 of labels next to outputs. */
static bool labels_match_outputs(const struct weir_shape *y, const struct weir_shape *output)
{
    struct weir_shape a = without_last_one(y), b = without_last_one(output);
    return equal(y, output) || (equal(&a, &b) && (y->dims != output->dims));
}

/* Class numbers: the output's shape without its last dimension, with or without a 1 there. */
static bool labels_are_classes(const struct weir_shape *y, const struct weir_shape *output)
{
    struct weir_shape expected = *output, squeezed = without_last_one(y);
    expected.dims--;
    return equal(y, &expected) || (y->dims == output->dims && equal(&squeezed, &expected));
}

struct use {
    const char *what; /* "loss" or a metric's name */
    bool classes;     /* needs class numbers, else one label per output */
};

static bool check_use(const struct weir_model *model, const struct use *use, const struct weir_shape *y,
                      struct weir_error *err)
{
    char labels[96], output[96];
    const struct weir_layer *last = &model->layers[model->layer_count - 1];
    if (use->classes ? labels_are_classes(y, &model->output) : labels_match_outputs(y, &model->output))
        return true;
    weir_shape_print(y, labels);
    weir_shape_print(&model->output, output);
    if (!use->classes && labels_are_classes(y, &model->output))
        return weir_error_set(
            err,
            "%s: %s needs labels of the output's shape: layer %zu (%s) gives %s a sample, a label has "
            "the shape %s; for class numbers use the sparse form",
            model->path, use->what, last->index, last->name, output, labels);
    return weir_error_set(err, "%s: %s does not fit: layer %zu (%s) gives %s a sample, a label has the shape %s%s",
                          model->path, use->what, last->index, last->name, output, labels,
                          use->classes ? "; class numbers must have the output's shape without its last dimension"
                                       : "");
}

static bool loss_needs_classes(const struct weir_loss_config *loss)
{
    return loss->kind == WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
}

/* Keras's rule, from the shapes alone. */
static enum weir_metric_kind resolve_accuracy(const struct weir_model *model, const struct weir_shape *y)
{
    size_t width = model->output.dim[model->output.dims - 1];
    if (width == 1)
        return WEIR_METRIC_BINARY_ACCURACY;
    bool sparse = y->dims < model->output.dims || y->dim[y->dims - 1] == 1;
    return sparse ? WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY : WEIR_METRIC_CATEGORICAL_ACCURACY;
}

static bool bind_metrics(const struct weir_model *model, struct weir_job *job, const struct weir_shape *y,
                         struct weir_error *err)
{
    for (size_t i = 0; i < job->metric_count; i++) {
        struct weir_metric_config *metric = &job->metrics[i];
        if (metric->kind == WEIR_METRIC_ACCURACY) {
            metric->kind = resolve_accuracy(model, y);
            if (metric->kind == WEIR_METRIC_BINARY_ACCURACY && metric->threshold == 0)
                metric->threshold = 0.5;
        }
        struct use use = {.what = metric->name,
                          .classes = metric->kind == WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY ||
                                     (metric->kind == WEIR_METRIC_LOSS_MEAN && loss_needs_classes(&metric->loss))};
        if (!check_use(model, &use, y, err))
            return false;
    }
    return true;
}

static bool check_input(const struct weir_model *model, const struct weir_shape *x, struct weir_error *err)
{
    char data[96], input[96];
    if (equal(x, &model->input))
        return true;
    const struct weir_layer *first = &model->layers[0];
    return weir_error_set(
        err, "%s: layer %zu (%s) takes %s a sample, but the data's samples have the shape %s%s", model->path,
        first->index, first->name, weir_shape_print(&model->input, input), weir_shape_print(x, data),
        x->dims + 1 == model->input.dims ? "; give the model that input and start with a Reshape" : "");
}

bool weir_model_bind(struct weir_model *model, struct weir_job *job, const size_t *x_shape, size_t x_dims,
                     const size_t *y_shape, size_t y_dims, uint64_t *label_limit, struct weir_error *err)
{
    struct weir_shape x = shape_of(x_shape, x_dims), y = shape_of(y_shape, y_dims);
    struct use loss = {.what = "the loss", .classes = loss_needs_classes(&job->loss)};
    if (!check_input(model, &x, err) || !check_use(model, &loss, &y, err) || !bind_metrics(model, job, &y, err))
        return false;
    size_t elements, width = model->output.dim[model->output.dims - 1];
    if (!weir_shape_elements(&model->output, WEIR_ROW_ELEMENTS_MAX, &elements))
        return weir_error_set(err, "%s: the output is too large", model->path);
    struct weir_plan plan;
    weir_plan_make(&plan, model, weir_backend_cpu());
    model->loss = (struct weir_loss_desc){.loss = job->loss,
                                          .positions = elements / width,
                                          .width = width,
                                          .label_width = loss.classes ? 1 : width,
                                          .last = weir_plan_last_activation(&plan)};
    free(plan.ops);
    *label_limit = loss.classes ? width : 0;
    model->bound = true;
    return true;
}

/* ---- describe */

static uint64_t parameters(const struct weir_model *model, const struct weir_layer *layer)
{
    uint64_t count = 0;
    if (layer->kernel != WEIR_NO_VARIABLE)
        count += model->variables[layer->kernel].elements;
    if (layer->bias != WEIR_NO_VARIABLE)
        count += model->variables[layer->bias].elements;
    return count;
}

static void print_row(FILE *out, const char *name, const char *shape, uint64_t count)
{
    fprintf(out, "%-44s  %-24s  %12llu\n", name, shape, (unsigned long long)count);
}

/* Keras prints the batch dimension, too: (None, 28, 28). */
static const char *with_batch(const struct weir_shape *shape, char text[112])
{
    char plain[96];
    weir_shape_print(shape, plain);
    snprintf(text, 112, "(None, %.*s)", (int)strcspn(plain + 1, ")"), plain + 1);
    char *comma = strstr(text, ",)"); /* one dimension is printed as (10,) */
    if (comma)
        memcpy(comma, ")", 2);
    return text;
}

char *weir_model_describe(const struct weir_model *model)
{
    char *text = NULL, shape[112], name[WEIR_LAYER_NAME_MAX + 64];
    size_t bytes;
    uint64_t total = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return weir_strdup("");
    fprintf(out, "Model: \"%s\", input %s\n", model->name, with_batch(&model->input, shape));
    fprintf(out, "%-44s  %-24s  %12s\n", "layer (class)", "output shape", "parameters");
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct weir_layer *layer = &model->layers[i];
        snprintf(name, sizeof name, "%s (%s)", layer->name, layer->class->name);
        print_row(out, name, with_batch(&layer->out, shape), parameters(model, layer));
        total += parameters(model, layer);
    }
    fprintf(out, "parameters: %llu (%.1f MiB as fp32)\n", (unsigned long long)total, (double)total * 4 / (1 << 20));
    fclose(out);
    return text;
}
