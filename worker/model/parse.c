/* From Keras's architecture file to layers with shapes and variables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/layer.h"
#include "model/reader.h"

#define DEPTH_MAX 100
#define FILE_BYTES_MAX ((size_t)64 << 20)
#define CLASSES_MAX 64

/* ---- classes */

static const struct weir_layer_class *const groups[] = {weir_layers_core, weir_layers_image};

const struct weir_layer_class *weir_layer_class_find(const char *name, struct weir_error *err)
{
    const char *names[CLASSES_MAX + 2] = {"InputLayer"};
    size_t count = 1;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct weir_layer_class *class = groups[g]; class->name && count < CLASSES_MAX; class ++) {
            if (strcmp(name, class->name) == 0)
                return class;
            names[count++] = class->name;
        }
    weir_not_in_list(err, "class_name", name, names);
    return NULL;
}

/* ---- JSON */

static bool check_depth(const json_t *value, int depth, struct weir_error *err)
{
    if (depth > DEPTH_MAX)
        return weir_error_set(err, "more than %d levels deep", DEPTH_MAX);
    const json_t *inner;
    if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++)
            if (!check_depth(json_array_get(value, i), depth + 1, err))
                return false;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)value, key, inner) if (!check_depth(inner, depth + 1, err)) return false;
    return true;
}

static json_t *load(const char *json, size_t bytes, struct weir_error *err)
{
    json_error_t problem;
    if (bytes > FILE_BYTES_MAX) {
        weir_error_set(err, "has %zu bytes; at most %zu are read", bytes, FILE_BYTES_MAX);
        return NULL;
    }
    json_t *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root) {
        char printable[WEIR_PRINTABLE];
        weir_error_set(err, "%d:%d: %s", problem.line, problem.column, weir_printable(problem.text, printable));
        return NULL;
    }
    if (!json_is_object(root))
        weir_error_set(err, "must be a JSON object, as model.to_json() writes it");
    else if (check_depth(root, 0, err))
        return root;
    json_decref(root);
    return NULL;
}

/* ---- names */

/* Keras's own rule: dense, dense_1, dense_2. */
static void automatic_name(const struct weir_model *model, struct weir_layer *layer)
{
    size_t same = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        same += model->layers[i].class == layer->class;
    if (same == 0)
        snprintf(layer->name, sizeof layer->name, "%s", layer->class->snake);
    else
        snprintf(layer->name, sizeof layer->name, "%s_%zu", layer->class->snake, same);
}

static bool set_name(struct weir_model *model, struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    const json_t *value = json_object_get(config, "name");
    const char *name = json_string_value(value);
    if (value && !json_is_null(value) && !name)
        return weir_error_set(err, "name: must be a string");
    if (!name) {
        automatic_name(model, layer);
    } else {
        char printable[WEIR_PRINTABLE];
        size_t length = strlen(name);
        if (length == 0 || length >= WEIR_LAYER_NAME_MAX)
            return weir_error_set(err, "name: must have 1 to %d bytes", WEIR_LAYER_NAME_MAX - 1);
        for (size_t i = 0; i < length; i++)
            if ((unsigned char)name[i] < ' ' || name[i] == 0x7f || name[i] == '/')
                return weir_error_set(err, "name: \"%s\" has a slash or a control character",
                                      weir_printable(name, printable));
        memcpy(layer->name, name, length + 1);
    }
    for (size_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, layer->name) == 0)
            return weir_error_set(err, "name: layer %zu is called \"%s\", too", model->layers[i].index, layer->name);
    return true;
}

/* ---- variables */

static double fan_of(const struct weir_variable *variable, const struct weir_initializer *initializer)
{
    double receptive = 1, in = (double)variable->shape[0], out = in;
    if (variable->dims >= 2) {
        for (size_t i = 0; i + 2 < variable->dims; i++)
            receptive *= (double)variable->shape[i];
        in = receptive * (double)variable->shape[variable->dims - 2];
        out = receptive * (double)variable->shape[variable->dims - 1];
    }
    double fan = initializer->fan == WEIR_FAN_IN ? in : initializer->fan == WEIR_FAN_OUT ? out : (in + out) / 2;
    return fan < 1 ? 1 : fan;
}

/* Resolves the scaled form to bounds or a deviation. */
static void resolve(struct weir_variable *variable, const struct weir_initializer *initializer)
{
    const double cut_deviation = 0.87962566103423978; /* of a normal distribution cut at two deviations */
    variable->init = initializer->kind;
    variable->a = (float)initializer->a;
    variable->b = (float)initializer->b;
    if (initializer->form == WEIR_INITIALIZER_PLAIN)
        return;
    double variance = initializer->scale / fan_of(variable, initializer);
    double limit = sqrt(3 * variance), deviation = sqrt(variance);
    if (initializer->kind == WEIR_INIT_TRUNCATED_NORMAL)
        deviation /= cut_deviation;
    bool uniform = initializer->kind == WEIR_INIT_UNIFORM;
    variable->a = uniform ? (float)-limit : 0;
    variable->b = uniform ? (float)limit : (float)deviation;
}

bool weir_shape_elements(const struct weir_shape *shape, size_t limit, size_t *elements)
{
    *elements = 1;
    for (size_t i = 0; i < shape->dims; i++) {
        if (shape->dim[i] == 0 || *elements > limit / shape->dim[i])
            return false;
        *elements *= shape->dim[i];
    }
    return true;
}

const char *weir_shape_print(const struct weir_shape *shape, char text[96])
{
    size_t used = (size_t)snprintf(text, 96, "(");
    for (size_t i = 0; i < shape->dims && used < 96; i++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%zu", i ? ", " : "", shape->dim[i]);
    if (used < 96)
        snprintf(text + used, 96 - used, shape->dims == 1 ? ",)" : ")");
    return text;
}

bool weir_model_add_variable(struct weir_model *model, struct weir_layer *layer, const char *suffix,
                             const struct weir_shape *shape, const struct weir_initializer *initializer, size_t *number,
                             struct weir_error *err)
{
    char text[96];
    size_t elements;
    if (!weir_shape_elements(shape, (size_t)WEIR_FLAT_ELEMENTS_MAX, &elements) ||
        model->flat_elements + elements > WEIR_FLAT_ELEMENTS_MAX - WEIR_VARIABLE_ALIGN)
        return weir_error_set(err, "%s of shape %s: the model has over 2^36 parameters", suffix,
                              weir_shape_print(shape, text));
    struct weir_variable *variable = &model->variables[model->variable_count];
    *number = model->variable_count++;
    snprintf(variable->name, sizeof variable->name, "%s/%s", layer->name, suffix);
    memcpy(variable->shape, shape->dim, sizeof variable->shape);
    variable->dims = shape->dims;
    variable->offset = model->flat_elements;
    variable->elements = elements;
    model->flat_elements += (elements + WEIR_VARIABLE_ALIGN - 1) / WEIR_VARIABLE_ALIGN * WEIR_VARIABLE_ALIGN;
    resolve(variable, initializer);
    return true;
}

/* ---- layers */

static const char *const layer_keys[] = {"name",        "trainable", "dtype", "batch_input_shape",
                                         "batch_shape", "autocast",  NULL};
static const char *const no_keys[] = {NULL};

/* An entry of the list of layers: {"class_name", "config"} and what Keras adds around them. */
static bool open_entry(const json_t *entry, const char **class_name, const json_t **config, struct weir_error *err)
{
    static const char *const keys[] = {
        "class_name", "config",        "module", "registered_name", "build_config", "compile_config",
        "name",       "inbound_nodes", NULL};
    if (!json_is_object(entry))
        return weir_error_set(err, "must be an object with class_name and config");
    *class_name = json_string_value(json_object_get(entry, "class_name"));
    *config = json_object_get(entry, "config");
    if (!*class_name || !json_is_object(*config))
        return weir_error_set(err, "must have class_name (a string) and config (an object)");
    return weir_read_only_keys(entry, keys, NULL, err);
}

static bool read_layer(struct weir_model *model, struct weir_layer *layer, const json_t *config, struct weir_error *err)
{
    const struct weir_layer_class *class = layer->class;
    if (!set_name(model, layer, config, err))
        return false;
    static const char *const none[] = {NULL};
    const char *const *nulls = class->nulls ? class->nulls : none;
    const char *all[32];
    size_t count = 0;
    for (const char *const *key = class->keys ? class->keys : no_keys; *key && count < 31; key++)
        all[count++] = *key;
    for (const char *const *key = nulls; *key && count < 31; key++)
        all[count++] = *key;
    all[count] = NULL;
    if (!weir_read_only_keys(config, all, layer_keys, err) || !weir_read_nulls(config, nulls, err) ||
        !weir_read_dtype(config, err) || !weir_read_bool(config, "trainable", true, &layer->trainable, err))
        return false;
    return class->read(layer, config, err);
}

/* The shape that a first layer may carry itself (Keras 2), or an InputLayer. */
static bool read_own_shape(struct weir_model *model, const json_t *config, struct weir_error *err)
{
    static const char *const names[] = {"batch_input_shape", "batch_shape"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *shape = json_object_get(config, names[i]);
        if (shape && !json_is_null(shape) && !weir_read_batch_shape(shape, names[i], &model->input, err))
            return false;
    }
    return true;
}

static bool read_input_layer(struct weir_model *model, size_t index, const json_t *config, struct weir_error *err)
{
    static const char *const keys[] = {"batch_shape", "batch_input_shape", "dtype",     "sparse", "ragged",
                                       "name",        "optional",          "trainable", NULL};
    static const char *const flags[] = {"sparse", "ragged", "optional"};
    if (index > 0)
        return weir_error_set(err, "an InputLayer may only be the first layer");
    if (!weir_read_only_keys(config, keys, NULL, err) || !weir_read_dtype(config, err))
        return false;
    for (size_t i = 0; i < 3; i++) {
        bool set;
        if (!weir_read_bool(config, flags[i], false, &set, err))
            return false;
        if (set)
            return weir_error_set(err, "%s: must be false", flags[i]);
    }
    if (!read_own_shape(model, config, err))
        return false;
    return model->input.dims > 0 || weir_error_set(err, "batch_shape: is missing");
}

static bool add_layer(struct weir_model *model, size_t index, const json_t *config, const char *class_name,
                      struct weir_error *err)
{
    struct weir_layer *layer = &model->layers[model->layer_count];
    *layer = (struct weir_layer){.index = index, .kernel = WEIR_NO_VARIABLE, .bias = WEIR_NO_VARIABLE};
    layer->class = weir_layer_class_find(class_name, err);
    if (!layer->class || !read_layer(model, layer, config, err))
        return false;
    if (model->layer_count == 0 && !read_own_shape(model, config, err))
        return false;
    if (model->input.dims == 0)
        return weir_error_set(err, "the model has no input shape; start it with an InputLayer (keras.Input), or build "
                                   "it before to_json()");
    layer->in = model->layer_count ? model->layers[model->layer_count - 1].out : model->input;
    layer->out = layer->in;
    if (layer->class->infer && !layer->class->infer(model, layer, err))
        return false;
    if (!layer->trainable && layer->kernel != WEIR_NO_VARIABLE)
        return weir_error_set(err, "trainable: frozen layers are not supported yet; it must be true");
    size_t elements;
    char out[96];
    if (!weir_shape_elements(&layer->out, WEIR_ROW_ELEMENTS_MAX, &elements))
        return weir_error_set(err, "its output of shape %s has over %zu elements a sample",
                              weir_shape_print(&layer->out, out), WEIR_ROW_ELEMENTS_MAX);
    model->layer_count++;
    return true;
}

static bool read_entry(struct weir_model *model, size_t index, const json_t *entry, struct weir_error *err)
{
    const char *class_name = NULL;
    const json_t *config = NULL;
    char class_text[WEIR_PRINTABLE], name_text[WEIR_PRINTABLE];
    bool ok = open_entry(entry, &class_name, &config, err);
    if (ok)
        ok = strcmp(class_name, "InputLayer") == 0 ? read_input_layer(model, index, config, err)
                                                   : add_layer(model, index, config, class_name, err);
    if (ok)
        return true;
    const char *name = json_string_value(json_object_get(config, "name"));
    weir_printable(class_name ? class_name : "?", class_text);
    weir_printable(name ? name : "unnamed", name_text);
    return weir_error_wrap(err, "layer %zu (%s, %s)", index, name_text, class_text);
}

/* ---- the model */

static bool read_sequential(struct weir_model *model, const json_t *config, struct weir_error *err)
{
    static const char *const keys[] = {"name", "trainable", "dtype", "layers", "build_input_shape", NULL};
    const json_t *layers = json_is_array(config) ? config : json_object_get(config, "layers"); /* a list: old Keras 2 */
    size_t count = json_array_size(layers);
    if (json_is_object(config)) {
        const json_t *shape = json_object_get(config, "build_input_shape");
        if (!weir_read_only_keys(config, keys, NULL, err) || !weir_read_dtype(config, err))
            return false;
        if (shape && !json_is_null(shape) && !weir_read_batch_shape(shape, "build_input_shape", &model->input, err))
            return false;
        const char *name = json_string_value(json_object_get(config, "name"));
        char printable[WEIR_PRINTABLE];
        snprintf(model->name, sizeof model->name, "%s", name ? weir_printable(name, printable) : "sequential");
    }
    if (!json_is_array(layers) || count == 0 || count > WEIR_LAYERS_MAX)
        return weir_error_set(err, "layers: must be a list of 1 to %d layers", WEIR_LAYERS_MAX);
    model->layers = weir_alloc(count, sizeof *model->layers, "layers");
    model->variables = weir_alloc(2 * count, sizeof *model->variables, "variables"); /* kernel and bias at most */
    for (size_t i = 0; i < count; i++)
        if (!read_entry(model, i, json_array_get(layers, i), err))
            return false;
    if (model->variable_count == 0)
        return weir_error_set(err, "layers: there is none with weights, so nothing can be trained");
    model->output = model->layers[model->layer_count - 1].out;
    return true;
}

static bool read_model(struct weir_model *model, const json_t *root, struct weir_error *err)
{
    static const char *const keys[] = {"class_name",      "config",       "keras_version",  "backend", "module",
                                       "registered_name", "build_config", "compile_config", NULL};
    const char *class_name = json_string_value(json_object_get(root, "class_name"));
    const json_t *config = json_object_get(root, "config");
    if (!class_name || !config)
        return weir_error_set(err, "must have class_name and config, as model.to_json() writes them");
    if (strcmp(class_name, "Functional") == 0 || strcmp(class_name, "Model") == 0)
        return weir_error_set(err, "class_name: functional models are not supported yet; use a Sequential model");
    char printable[WEIR_PRINTABLE];
    if (strcmp(class_name, "Sequential") != 0)
        return weir_error_set(err, "class_name: \"%s\" is not supported; use a Sequential model",
                              weir_printable(class_name, printable));
    if (!json_is_object(config) && !json_is_array(config))
        return weir_error_set(err, "config: must be an object");
    return weir_read_only_keys(root, keys, NULL, err) && read_sequential(model, config, err);
}

struct weir_model *weir_model_parse(const char *json, size_t bytes, const char *path, struct weir_error *err)
{
    struct weir_model *model = weir_alloc(1, sizeof *model, "a model");
    model->path = weir_strdup(path ? path : "model");
    json_t *root = load(json, bytes, err);
    bool ok = root && read_model(model, root, err);
    json_decref(root);
    if (ok)
        return model;
    weir_error_wrap(err, "%s", model->path);
    weir_model_free(model);
    return NULL;
}

void weir_model_free(struct weir_model *model)
{
    if (!model)
        return;
    free(model->path);
    free(model->layers);
    free(model->variables);
    free(model);
}
