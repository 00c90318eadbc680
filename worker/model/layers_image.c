/* Layers over images: height x width x channels. */
#include "model/layer.h"
#include "model/reader.h"

#include <string.h>

static const char *const paddings[] = {"valid", "same", NULL};
static const char *const formats[] = {"channels_last", NULL};
static const size_t ones[2] = {1, 1};

static bool need_image(const struct weir_layer *layer, struct weir_error *err)
{
    char in[96];
    return layer->in.dims == 3 ||
           weir_error_set(err, "needs images (height, width, channels), but its input has the shape %s",
                          weir_shape_print(&layer->in, in));
}

static bool read_layout(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    size_t padding, format;
    if (!weir_read_choice(config, "padding", paddings, &padding, err) ||
        !weir_read_choice(config, "data_format", formats, &format, err))
        return false;
    layer->same = padding == 1;
    return true;
}

/* TensorFlow's rule: "same" gives ceil(in / stride), padded more behind than in front if the number is odd. */
static size_t windows_along(const struct weir_layer *layer, size_t axis)
{
    size_t in = layer->in.dim[axis], stride = layer->strides[axis], window = layer->window[axis];
    if (layer->same)
        return (in + stride - 1) / stride;
    return window > in ? 0 : (in - window) / stride + 1;
}

static size_t pad_before(const struct weir_layer *layer, size_t axis)
{
    size_t in = layer->in.dim[axis], needed = (layer->out.dim[axis] - 1) * layer->strides[axis] + layer->window[axis];
    return layer->same && needed > in ? (needed - in) / 2 : 0;
}

static bool infer_windows(struct weir_layer *layer, size_t channels, struct weir_error *err)
{
    if (!need_image(layer, err))
        return false;
    char in[96];
    layer->out = (struct weir_shape){.dim = {windows_along(layer, 0), windows_along(layer, 1), channels}, .dims = 3};
    if (layer->out.dim[0] == 0 || layer->out.dim[1] == 0)
        return weir_error_set(err, "a window of %zu x %zu does not fit into an input of shape %s", layer->window[0],
                              layer->window[1], weir_shape_print(&layer->in, in));
    return true;
}

static struct weir_image image_of(const struct weir_shape *shape)
{
    return (struct weir_image){.height = shape->dim[0], .width = shape->dim[1], .channels = shape->dim[2]};
}

static size_t pixels_times_channels(const struct weir_image *image)
{
    return image->height * image->width * image->channels;
}

static struct weir_op_desc window_desc(const struct weir_layer *layer, enum weir_op_kind kind)
{
    struct weir_op_desc desc = {.kind = kind,
                                .image = image_of(&layer->in),
                                .result = image_of(&layer->out),
                                .kernel_h = layer->window[0],
                                .kernel_w = layer->window[1],
                                .stride_h = layer->strides[0],
                                .stride_w = layer->strides[1],
                                .pad_top = pad_before(layer, 0),
                                .pad_left = pad_before(layer, 1)};
    desc.in = pixels_times_channels(&desc.image);
    desc.out = pixels_times_channels(&desc.result);
    return desc;
}

/* ---- Conv2D */

static const char *const conv_keys[] = {"filters",     "kernel_size",        "strides",          "padding",
                                        "data_format", "dilation_rate",      "groups",           "activation",
                                        "use_bias",    "kernel_initializer", "bias_initializer", NULL};
static const char *const conv_nulls[] = {"kernel_regularizer", "bias_regularizer",    "activity_regularizer",
                                         "kernel_constraint",  "bias_constraint",     "lora_rank",
                                         "lora_alpha",         "quantization_config", NULL};

static bool conv_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    size_t dilation[2], groups = 1;
    if (!weir_read_size(config, "filters", 1, &layer->units, err) ||
        !weir_read_pair(config, "kernel_size", NULL, layer->window, err) ||
        !weir_read_pair(config, "strides", ones, layer->strides, err) || !read_layout(layer, config, err) ||
        !weir_read_pair(config, "dilation_rate", ones, dilation, err) ||
        !weir_read_activation(config, "activation", &layer->activation, err) ||
        !weir_read_bool(config, "use_bias", true, &layer->use_bias, err) ||
        !weir_read_initializer(config, "kernel_initializer", "GlorotUniform", &layer->kernel_initializer, err) ||
        !weir_read_initializer(config, "bias_initializer", "Zeros", &layer->bias_initializer, err))
        return false;
    if (dilation[0] != 1 || dilation[1] != 1)
        return weir_error_set(err, "dilation_rate: only 1 is supported");
    if (json_object_get(config, "groups") && !weir_read_size(config, "groups", 1, &groups, err))
        return false;
    return groups == 1 || weir_error_set(err, "groups: only 1 is supported");
}

static bool conv_infer(struct weir_model *model, struct weir_layer *layer, struct weir_error *err)
{
    if (!infer_windows(layer, layer->units, err))
        return false;
    struct weir_shape kernel = {.dim = {layer->window[0], layer->window[1], layer->in.dim[2], layer->units}, .dims = 4};
    struct weir_shape bias = {.dim = {layer->units}, .dims = 1};
    return weir_model_add_variable(model, layer, "kernel", &kernel, &layer->kernel_initializer, &layer->kernel, err) &&
           (!layer->use_bias ||
            weir_model_add_variable(model, layer, "bias", &bias, &layer->bias_initializer, &layer->bias, err));
}

static void conv_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    struct weir_op_desc desc = window_desc(layer, WEIR_OP_CONV2D);
    desc.has_bias = layer->use_bias;
    struct weir_plan_op *op = weir_plan_add(plan, &desc);
    op->kernel = layer->kernel;
    op->bias = layer->bias;
    weir_plan_add_activation(plan, &layer->activation, &layer->out);
}

/* ---- pooling */

static const char *const pool_keys[] = {"pool_size", "strides", "padding", "data_format", NULL};

static bool pool_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    static const size_t twos[2] = {2, 2};
    return weir_read_pair(config, "pool_size", twos, layer->window, err) &&
           weir_read_pair(config, "strides", layer->window, layer->strides, err) && read_layout(layer, config, err);
}

static bool pool_infer(struct weir_model *model, struct weir_layer *layer, struct weir_error *err)
{
    (void)model;
    return infer_windows(layer, layer->in.dims == 3 ? layer->in.dim[2] : 0, err);
}

static void max_pool_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    struct weir_op_desc desc = window_desc(layer, WEIR_OP_MAX_POOL2D);
    weir_plan_add(plan, &desc);
}

static void average_pool_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    struct weir_op_desc desc = window_desc(layer, WEIR_OP_AVERAGE_POOL2D);
    weir_plan_add(plan, &desc);
}

static const char *const global_keys[] = {"data_format", "keepdims", NULL};

static bool global_read(struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    size_t format;
    return weir_read_choice(config, "data_format", formats, &format, err) &&
           weir_read_bool(config, "keepdims", false, &layer->keepdims, err);
}

static bool global_infer(struct weir_model *model, struct weir_layer *layer, struct weir_error *err)
{
    (void)model;
    if (!need_image(layer, err))
        return false;
    size_t channels = layer->in.dim[2];
    layer->out = layer->keepdims ? (struct weir_shape){.dim = {1, 1, channels}, .dims = 3}
                                 : (struct weir_shape){.dim = {channels}, .dims = 1};
    return true;
}

static void add_global(struct weir_plan *plan, const struct weir_layer *layer, enum weir_op_kind kind)
{
    struct weir_op_desc desc = {.kind = kind, .image = image_of(&layer->in)};
    desc.in = pixels_times_channels(&desc.image);
    desc.out = desc.image.channels;
    weir_plan_add(plan, &desc);
}

static void global_max_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    add_global(plan, layer, WEIR_OP_GLOBAL_MAX_POOL);
}

static void global_average_lower(struct weir_plan *plan, const struct weir_layer *layer)
{
    add_global(plan, layer, WEIR_OP_GLOBAL_AVERAGE_POOL);
}

const struct weir_layer_class weir_layers_image[] = {
    {"Conv2D", "conv2d", conv_keys, conv_nulls, conv_read, conv_infer, conv_lower},
    {"MaxPooling2D", "max_pooling2d", pool_keys, NULL, pool_read, pool_infer, max_pool_lower},
    {"AveragePooling2D", "average_pooling2d", pool_keys, NULL, pool_read, pool_infer, average_pool_lower},
    {"GlobalMaxPooling2D", "global_max_pooling2d", global_keys, NULL, global_read, global_infer, global_max_lower},
    {"GlobalAveragePooling2D", "global_average_pooling2d", global_keys, NULL, global_read, global_infer,
     global_average_lower},
    {.name = NULL},
};
