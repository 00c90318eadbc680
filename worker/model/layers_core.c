/* Layers that know nothing of images. */
#include "model/layer.h"
#include "model/reader.h"

#include <assert.h>
#include <string.h>

static size_t elements_of(const struct weir_shape *shape)
{
    size_t elements;
    bool fits = weir_shape_elements(shape, WEIR_ROW_ELEMENTS_MAX, &elements);
    assert(fits); /* inferred shapes were checked */
    (void)fits;
    return elements;
}

/* ---- Dense */

static const char *const dense_keys[] = {"units", "activation", "use_bias", "kernel_initializer", "bias_initializer",
                                         NULL};
static const char *const dense_nulls[] = {"kernel_regularizer",  "bias_regularizer", "activity_regularizer",
                                          "kernel_constraint",   "bias_constraint",  "lora_rank",
                                          "quantization_config", "lora_alpha",       NULL};

static bool dense_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    return weir_read_size(config, "units", 1, &layer->units, err) &&
           weir_read_activation(config, "activation", &layer->activation, err) &&
           weir_read_bool(config, "use_bias", true, &layer->use_bias, err) &&
           weir_read_initializer(config, "kernel_initializer", "GlorotUniform", &layer->kernel_initializer, err) &&
           weir_read_initializer(config, "bias_initializer", "Zeros", &layer->bias_initializer, err);
}

static bool dense_infer(struct weir_model *model, struct weir_layer *layer, struct weir_error *err)
{
    size_t last = layer->in.dims - 1;
    struct weir_shape kernel = {.dim = {layer->in.dim[last], layer->units}, .dims = 2};
    struct weir_shape bias = {.dim = {layer->units}, .dims = 1};
    layer->out = layer->in;
    layer->out.dim[last] = layer->units;
    return weir_model_add_variable(model, layer, "kernel", &kernel, &layer->kernel_initializer, &layer->kernel, err) &&
           (!layer->use_bias ||
            weir_model_add_variable(model, layer, "bias", &bias, &layer->bias_initializer, &layer->bias, err));
}

static void dense_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    size_t in = elements_of(&layer->in), in_width = layer->in.dim[layer->in.dims - 1];
    struct weir_op_desc desc = {.kind = WEIR_OP_DENSE,
                                .in = in,
                                .out = in / in_width * layer->units,
                                .positions = in / in_width,
                                .in_width = in_width,
                                .out_width = layer->units,
                                .has_bias = layer->use_bias};
    struct weir_plan_op *op = weir_plan_add(plan, &desc);
    op->kernel = layer->kernel;
    op->bias = layer->bias;
    weir_plan_add_activation(plan, &layer->activation, &layer->out);
}

/* ---- activations */

static const char *const activation_keys[] = {"activation", NULL};
static const char *const activation_nulls[] = {"activity_regularizer", NULL};

static bool activation_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    if (!json_object_get(config, "activation"))
        return weir_error_set(err, "activation: is missing");
    return weir_read_activation(config, "activation", &layer->activation, err);
}

static bool activation_layer_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    return weir_read_activation_layer(layer->class->name, config, &layer->activation, err);
}

static void activation_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    weir_plan_add_activation(plan, &layer->activation, &layer->out);
}

/* ---- shapes */

static const char *const flatten_keys[] = {"data_format", NULL};

static bool flatten_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    (void)layer;
    static const char *const formats[] = {"channels_last", NULL};
    size_t format;
    return weir_read_choice(config, "data_format", formats, &format, err);
}

static bool flatten_infer(struct weir_model *model, struct weir_layer *layer, struct weir_error *err)
{
    (void)model;
    (void)err;
    layer->out = (struct weir_shape){.dim = {elements_of(&layer->in)}, .dims = 1};
    return true;
}

static const char *const reshape_keys[] = {"target_shape", NULL};

static bool reshape_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    const json_t *target = json_object_get(config, "target_shape");
    size_t n = json_array_size(target), open = 0;
    if (!json_is_array(target) || n < 1 || n > WEIR_DIMS_MAX)
        return weir_error_set(err, "target_shape: must be a list of 1 to %d dimensions", WEIR_DIMS_MAX);
    layer->target_dims = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(target, i);
        layer->target[i] = json_integer_value(dim);
        open += layer->target[i] == -1;
        if (!json_is_integer(dim) || layer->target[i] < -1 || layer->target[i] == 0 ||
            layer->target[i] > (json_int_t)WEIR_DIM_MAX)
            return weir_error_set(err, "target_shape: dimension %zu must be an integer > 0, or -1", i);
    }
    return open <= 1 || weir_error_set(err, "target_shape: only one dimension may be -1");
}

static bool reshape_infer(struct weir_model *model, struct weir_layer *layer, struct weir_error *err)
{
    (void)model;
    size_t elements = elements_of(&layer->in), known = 1;
    char in[96], out[96];
    struct weir_shape target = {.dims = layer->target_dims};
    for (size_t i = 0; i < target.dims; i++)
        target.dim[i] = layer->target[i] > 0 ? (size_t)layer->target[i] : 1;
    bool fits = weir_shape_elements(&target, WEIR_ROW_ELEMENTS_MAX, &known) && elements % known == 0;
    for (size_t i = 0; fits && i < target.dims; i++)
        if (layer->target[i] == -1) {
            target.dim[i] = elements / known;
            known = elements;
        }
    if (!fits || known != elements)
        return weir_error_set(err, "target_shape: an input of shape %s has %zu elements and can't become %s",
                              weir_shape_print(&layer->in, in), elements, weir_shape_print(&target, out));
    layer->out = target;
    return true;
}

/* ---- Dropout and Rescaling */

static const char *const dropout_keys[] = {"rate", "seed", NULL};
static const char *const dropout_nulls[] = {"noise_shape", NULL};

/* The layer's own seed is not used: the job's seed keys all random numbers. */
static bool dropout_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    if (!weir_read_number(config, "rate", 0, &layer->rate, err))
        return false;
    return (layer->rate >= 0 && layer->rate < 1) || weir_error_set(err, "rate: must be >= 0 and < 1");
}

static void dropout_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    size_t elements = elements_of(&layer->in);
    struct weir_op_desc desc = {.kind = WEIR_OP_DROPOUT,
                                .in = elements,
                                .out = elements,
                                .rate = (float)layer->rate,
                                .stream = (uint32_t)plan->layer};
    if (desc.rate > 0)
        weir_plan_add(plan, &desc);
}

static const char *const rescaling_keys[] = {"scale", "offset", NULL};

static bool rescaling_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    if (!json_object_get(config, "scale"))
        return weir_error_set(err, "scale: is missing");
    return weir_read_number(config, "scale", 1, &layer->scale, err) &&
           weir_read_number(config, "offset", 0, &layer->offset, err);
}

static void rescaling_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    size_t elements = elements_of(&layer->in);
    struct weir_op_desc desc = {.kind = WEIR_OP_SCALE,
                                .in = elements,
                                .out = elements,
                                .scale = (float)layer->scale,
                                .offset = (float)layer->offset};
    weir_plan_add(plan, &desc);
}

/* The keys of activation layers are checked where they are read, since an activation may be one, too. */
static const char *const relu_keys[] = {"max_value", "negative_slope", "threshold", NULL};
static const char *const leaky_relu_keys[] = {"alpha", "negative_slope", NULL};
static const char *const elu_keys[] = {"alpha", NULL};
static const char *const softmax_keys[] = {"axis", NULL};

const struct weir_layer_class weir_layers_core[] = {
    {"Dense", "dense", dense_keys, dense_nulls, dense_read, dense_infer, dense_lower},
    {"Flatten", "flatten", flatten_keys, NULL, flatten_read, flatten_infer, NULL},
    {"Reshape", "reshape", reshape_keys, NULL, reshape_read, reshape_infer, NULL},
    {"Activation", "activation", activation_keys, activation_nulls, activation_read, NULL, activation_lower},
    {"ReLU", "re_lu", relu_keys, NULL, activation_layer_read, NULL, activation_lower},
    {"LeakyReLU", "leaky_re_lu", leaky_relu_keys, NULL, activation_layer_read, NULL, activation_lower},
    {"ELU", "elu", elu_keys, NULL, activation_layer_read, NULL, activation_lower},
    {"Softmax", "softmax", softmax_keys, NULL, activation_layer_read, NULL, activation_lower},
    {"Dropout", "dropout", dropout_keys, dropout_nulls, dropout_read, NULL, dropout_lower},
    {"Rescaling", "rescaling", rescaling_keys, NULL, rescaling_read, NULL, rescaling_lower},
    {.name = NULL},
};
