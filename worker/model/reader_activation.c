/* Activations and initializers, in the forms in which Keras 2 and 3 write them. */
#include "model/reader.h"

#include <math.h>
#include <string.h>

#define RELU(maximum, slope)                                                                                           \
    {                                                                                                                  \
        .kind = WEIR_ACTIVATION_RELU, .max_value = maximum, .negative_slope = slope                                    \
    }

static const struct {
    const char *name;
    struct weir_activation activation;
} activations[] = {
    {"linear", {.kind = WEIR_ACTIVATION_LINEAR}},
    {"relu", RELU(INFINITY, 0)},
    {"sigmoid", {.kind = WEIR_ACTIVATION_SIGMOID}},
    {"tanh", {.kind = WEIR_ACTIVATION_TANH}},
    {"softmax", {.kind = WEIR_ACTIVATION_SOFTMAX}},
    {"elu", {.kind = WEIR_ACTIVATION_ELU, .alpha = 1}},
    {"selu", {.kind = WEIR_ACTIVATION_SELU}},
    {"gelu", {.kind = WEIR_ACTIVATION_GELU}},
    {"gelu_approximate", {.kind = WEIR_ACTIVATION_GELU_TANH}}, /* KerasHub's name */
    {"softplus", {.kind = WEIR_ACTIVATION_SOFTPLUS}},
    {"softsign", {.kind = WEIR_ACTIVATION_SOFTSIGN}},
    {"silu", {.kind = WEIR_ACTIVATION_SILU}},
    {"swish", {.kind = WEIR_ACTIVATION_SILU}},
    {"exponential", {.kind = WEIR_ACTIVATION_EXPONENTIAL}},
    {"leaky_relu", RELU(INFINITY, 0.2f)},
    {"relu6", RELU(6, 0)},
};
#define ACTIVATIONS (sizeof activations / sizeof *activations)

static bool activation_by_name(const char *key, const char *name, struct weir_activation *activation,
                               struct weir_error *err)
{
    const char *names[ACTIVATIONS + 1] = {NULL};
    for (size_t i = 0; i < ACTIVATIONS; i++) {
        if (strcmp(name, activations[i].name) == 0) {
            *activation = activations[i].activation;
            return true;
        }
        names[i] = activations[i].name;
    }
    return weir_not_in_list(err, key, name, names);
}

static const char *const layer_keys[] = {"name", "trainable", "dtype", "batch_input_shape", "batch_shape", NULL};

static bool read_relu(const json_t *config, struct weir_activation *a, struct weir_error *err)
{
    static const char *const keys[] = {"max_value", "negative_slope", "threshold", NULL};
    double maximum, slope, threshold;
    if (!weir_read_only_keys(config, keys, layer_keys, err) ||
        !weir_read_number(config, "max_value", INFINITY, &maximum, err) ||
        !weir_read_number(config, "negative_slope", 0, &slope, err) ||
        !weir_read_number(config, "threshold", 0, &threshold, err))
        return false;
    if (maximum < 0 || slope < 0 || threshold < 0)
        return weir_error_set(err, "max_value, negative_slope and threshold must be >= 0");
    *a = (struct weir_activation){.kind = WEIR_ACTIVATION_RELU,
                                  .max_value = (float)maximum,
                                  .negative_slope = (float)slope,
                                  .threshold = (float)threshold};
    return true;
}

/* "alpha" in Keras 2, "negative_slope" in Keras 3. */
static bool read_leaky_relu(const json_t *config, struct weir_activation *a, struct weir_error *err)
{
    static const char *const keys[] = {"alpha", "negative_slope", NULL};
    double old, slope;
    if (!weir_read_only_keys(config, keys, layer_keys, err) || !weir_read_number(config, "alpha", 0.3, &old, err) ||
        !weir_read_number(config, "negative_slope", old, &slope, err))
        return false;
    *a = (struct weir_activation)RELU(INFINITY, (float)slope);
    return true;
}

static bool read_elu(const json_t *config, struct weir_activation *a, struct weir_error *err)
{
    static const char *const keys[] = {"alpha", NULL};
    double alpha;
    if (!weir_read_only_keys(config, keys, layer_keys, err) || !weir_read_number(config, "alpha", 1, &alpha, err))
        return false;
    *a = (struct weir_activation){.kind = WEIR_ACTIVATION_ELU, .alpha = (float)alpha};
    return true;
}

/* The axis is checked against the input's rank where that is known; here only -1 or the same as one of a list. */
static bool read_softmax(const json_t *config, struct weir_activation *a, struct weir_error *err)
{
    static const char *const keys[] = {"axis", NULL};
    if (!weir_read_only_keys(config, keys, layer_keys, err))
        return false;
    const json_t *axis = json_object_get(config, "axis");
    if (json_is_array(axis) && json_array_size(axis) == 1)
        axis = json_array_get(axis, 0);
    if (axis && !json_is_null(axis) && (!json_is_integer(axis) || json_integer_value(axis) != -1))
        return weir_error_set(err, "axis: only -1, the last one, is supported");
    *a = (struct weir_activation){.kind = WEIR_ACTIVATION_SOFTMAX};
    return true;
}

static const struct {
    const char *class_name;
    bool (*read)(const json_t *config, struct weir_activation *activation, struct weir_error *err);
} activation_classes[] = {
    {"ReLU", read_relu},
    {"LeakyReLU", read_leaky_relu},
    {"ELU", read_elu},
    {"Softmax", read_softmax},
};
#define ACTIVATION_CLASSES (sizeof activation_classes / sizeof *activation_classes)

bool weir_is_activation_class(const char *class_name)
{
    for (size_t i = 0; i < ACTIVATION_CLASSES; i++)
        if (strcmp(class_name, activation_classes[i].class_name) == 0)
            return true;
    return false;
}

bool weir_read_activation_layer(const char *class_name, const json_t *config, struct weir_activation *activation,
                                struct weir_error *err)
{
    for (size_t i = 0; i < ACTIVATION_CLASSES; i++)
        if (strcmp(class_name, activation_classes[i].class_name) == 0)
            return activation_classes[i].read(config, activation, err);
    return weir_error_set(err, "no activation layer");
}

bool weir_read_activation(const json_t *config, const char *key, struct weir_activation *activation,
                          struct weir_error *err)
{
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value)) {
        *activation = activations[0].activation;
        return true;
    }
    if (json_is_string(value))
        return activation_by_name(key, json_string_value(value), activation, err);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    const json_t *inner = json_object_get(value, "config");
    if (class_name && json_is_object(inner) && weir_is_activation_class(class_name))
        return weir_read_activation_layer(class_name, inner, activation, err) || weir_error_wrap(err, "%s", key);
    if (class_name && json_is_string(inner)) /* Keras 3's function objects */
        return activation_by_name(key, json_string_value(inner), activation, err);
    if (class_name)
        return activation_by_name(key, class_name, activation, err);
    return weir_error_set(err, "%s: must be a name, as \"relu\"", key);
}

/* ---- initializers */

enum { TRUNCATED, UNTRUNCATED, UNIFORM };

/* Keras's constant: the deviation of a normal distribution cut at two deviations. */
#define TRUNCATED_DEVIATION 0.87962566103423978

#define SCALED(kind_, scale_, fan_)                                                                                    \
    {                                                                                                                  \
        .form = WEIR_INITIALIZER_SCALED, .kind = kind_, .scale = scale_, .fan = fan_                                   \
    }

static const struct {
    const char *class_name, *name;
    struct weir_initializer initializer; /* with Keras's defaults */
} initializers[] = {
    {"GlorotUniform", "glorot_uniform", SCALED(WEIR_INIT_UNIFORM, 1, WEIR_FAN_AVERAGE)},
    {"GlorotNormal", "glorot_normal", SCALED(WEIR_INIT_TRUNCATED_NORMAL, 1, WEIR_FAN_AVERAGE)},
    {"HeUniform", "he_uniform", SCALED(WEIR_INIT_UNIFORM, 2, WEIR_FAN_IN)},
    {"HeNormal", "he_normal", SCALED(WEIR_INIT_TRUNCATED_NORMAL, 2, WEIR_FAN_IN)},
    {"LecunUniform", "lecun_uniform", SCALED(WEIR_INIT_UNIFORM, 1, WEIR_FAN_IN)},
    {"LecunNormal", "lecun_normal", SCALED(WEIR_INIT_TRUNCATED_NORMAL, 1, WEIR_FAN_IN)},
    {"VarianceScaling", "variance_scaling", SCALED(WEIR_INIT_TRUNCATED_NORMAL, 1, WEIR_FAN_IN)},
    {"RandomUniform", "random_uniform", {.kind = WEIR_INIT_UNIFORM, .a = -0.05, .b = 0.05}},
    {"RandomNormal", "random_normal", {.kind = WEIR_INIT_NORMAL, .b = 0.05}},
    {"TruncatedNormal", "truncated_normal", {.kind = WEIR_INIT_TRUNCATED_NORMAL, .b = 0.05}},
    {"Zeros", "zeros", {.kind = WEIR_INIT_ZEROS}},
    {"Ones", "ones", {.kind = WEIR_INIT_ONES}},
    {"Constant", "constant", {.kind = WEIR_INIT_CONSTANT}},
};
#define INITIALIZERS (sizeof initializers / sizeof *initializers)

static bool initializer_by_name(const char *key, const char *name, struct weir_initializer *initializer,
                                struct weir_error *err)
{
    const char *names[INITIALIZERS + 1] = {NULL};
    for (size_t i = 0; i < INITIALIZERS; i++) {
        if (strcmp(name, initializers[i].class_name) == 0 || strcmp(name, initializers[i].name) == 0) {
            *initializer = initializers[i].initializer;
            return true;
        }
        names[i] = initializers[i].class_name;
    }
    return weir_not_in_list(err, key, name, names);
}

static bool read_variance_scaling(const json_t *config, struct weir_initializer *initializer, struct weir_error *err)
{
    static const char *const keys[] = {"scale", "mode", "distribution", "seed", NULL};
    static const char *const modes[] = {"fan_in", "fan_out", "fan_avg", NULL};
    static const char *const distributions[] = {"truncated_normal", "normal", "untruncated_normal", "uniform", NULL};
    static const enum weir_initializer_kind kinds[] = {WEIR_INIT_TRUNCATED_NORMAL, WEIR_INIT_TRUNCATED_NORMAL,
                                                       WEIR_INIT_NORMAL, WEIR_INIT_UNIFORM};
    size_t mode, distribution;
    if (!weir_read_only_keys(config, keys, NULL, err) ||
        !weir_read_number(config, "scale", 1, &initializer->scale, err) ||
        !weir_read_choice(config, "mode", modes, &mode, err) ||
        !weir_read_choice(config, "distribution", distributions, &distribution, err))
        return false;
    if (initializer->scale <= 0)
        return weir_error_set(err, "scale: must be > 0");
    initializer->fan = mode == 0 ? WEIR_FAN_IN : mode == 1 ? WEIR_FAN_OUT : WEIR_FAN_AVERAGE;
    initializer->kind = kinds[distribution];
    return true;
}

static bool read_initializer_config(const json_t *config, struct weir_initializer *initializer, bool variance_scaling,
                                    struct weir_error *err)
{
    static const char *const seed[] = {"seed", NULL};
    static const char *const uniform[] = {"minval", "maxval", NULL}, *const normal[] = {"mean", "stddev", NULL};
    static const char *const constant[] = {"value", NULL};
    if (variance_scaling)
        return read_variance_scaling(config, initializer, err);
    if (initializer->form == WEIR_INITIALIZER_SCALED)
        return weir_read_only_keys(config, seed, NULL, err);
    switch (initializer->kind) {
    case WEIR_INIT_UNIFORM:
        if (!weir_read_only_keys(config, uniform, seed, err) ||
            !weir_read_number(config, "minval", initializer->a, &initializer->a, err) ||
            !weir_read_number(config, "maxval", initializer->b, &initializer->b, err))
            return false;
        return initializer->a <= initializer->b || weir_error_set(err, "minval: must not be above maxval");
    case WEIR_INIT_NORMAL:
    case WEIR_INIT_TRUNCATED_NORMAL:
        if (!weir_read_only_keys(config, normal, seed, err) ||
            !weir_read_number(config, "mean", initializer->a, &initializer->a, err) ||
            !weir_read_number(config, "stddev", initializer->b, &initializer->b, err))
            return false;
        return initializer->b >= 0 || weir_error_set(err, "stddev: must be >= 0");
    case WEIR_INIT_CONSTANT:
        return weir_read_only_keys(config, constant, NULL, err) &&
               weir_read_number(config, "value", 0, &initializer->a, err);
    default:
        return weir_read_only_keys(config, NULL, NULL, err);
    }
}

bool weir_read_initializer(const json_t *config, const char *key, const char *otherwise,
                           struct weir_initializer *initializer, struct weir_error *err)
{
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value))
        return initializer_by_name(key, otherwise, initializer, err);
    if (json_is_string(value))
        return initializer_by_name(key, json_string_value(value), initializer, err);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (!class_name)
        return weir_error_set(err, "%s: must be a name or an object with class_name and config", key);
    if (!initializer_by_name(key, class_name, initializer, err))
        return false;
    const json_t *inner = json_object_get(value, "config");
    bool variance_scaling = strcmp(class_name, "VarianceScaling") == 0;
    if (!inner || json_is_null(inner))
        return true;
    if (!json_is_object(inner))
        return weir_error_set(err, "%s.config: must be an object", key);
    return read_initializer_config(inner, initializer, variance_scaling, err) || weir_error_wrap(err, "%s", key);
}
