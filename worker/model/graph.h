/* The model as the files of this folder see it: layers in order, their shapes and variables.
 *
 * Parsing fills a layer in three steps, each by a function of its class (layer.h): read its config, infer its output
 * shape and variables, and, once loss and data are known, lower it to the backend's operations (plan.h).
 */
#ifndef WEIR_MODEL_GRAPH_H
#define WEIR_MODEL_GRAPH_H

#include "backend/backend.h"
#include "model/model.h"

#define WEIR_LAYERS_MAX 4096
#define WEIR_LAYER_NAME_MAX 96                     /* so that "name/kernel" fits a variable's name */
#define WEIR_DIM_MAX ((size_t)1 << 31)             /* of one dimension */
#define WEIR_ROW_ELEMENTS_MAX ((size_t)1 << 30)    /* of a sample at any layer */
#define WEIR_FLAT_ELEMENTS_MAX ((uint64_t)1 << 36) /* of all variables: 256 GiB */
#define WEIR_NO_VARIABLE SIZE_MAX

/* An initializer before it knows its variable's shape. */
struct weir_initializer {
    enum { WEIR_INITIALIZER_PLAIN, WEIR_INITIALIZER_SCALED } form;
    enum weir_initializer_kind kind; /* of the plain form; of the scaled one: UNIFORM, NORMAL or TRUNCATED_NORMAL */
    double a, b;
    double scale; /* variance of the scaled form, divided by the fan */
    enum { WEIR_FAN_IN, WEIR_FAN_OUT, WEIR_FAN_AVERAGE } fan;
};

struct weir_shape {
    size_t dim[WEIR_DIMS_MAX];
    size_t dims;
};

struct weir_layer_class;

struct weir_layer {
    const struct weir_layer_class *class;
    size_t index; /* its place in the file */
    char name[WEIR_LAYER_NAME_MAX];
    struct weir_shape in, out;
    size_t kernel, bias; /* numbers of variables, or WEIR_NO_VARIABLE */
    /* The config; what a class does not have is 0. */
    size_t units; /* units or filters */
    size_t window[2], strides[2];
    bool same; /* padding */
    bool trainable, use_bias, keepdims;
    struct weir_activation activation;
    struct weir_initializer kernel_initializer, bias_initializer;
    double rate, scale, offset;
    int64_t target[WEIR_DIMS_MAX]; /* Reshape: at most one -1 */
    size_t target_dims;
};

struct weir_model {
    char *path;
    char name[WEIR_LAYER_NAME_MAX];
    struct weir_layer *layers;
    size_t layer_count;
    struct weir_variable *variables;
    size_t variable_count;
    uint64_t flat_elements;
    struct weir_shape input, output;
    /* Set by weir_model_bind. */
    bool bound;
    struct weir_loss_desc loss; /* without metrics: these stand in the job */
};

/* The product; false if it is over `limit`. */
bool weir_shape_elements(const struct weir_shape *shape, size_t limit, size_t *elements);
/* "(28, 28, 1)" */
const char *weir_shape_print(const struct weir_shape *shape, char text[96]);

/* Adds a variable "layer/suffix" with its place in the flat array. */
bool weir_model_add_variable(struct weir_model *model, struct weir_layer *layer, const char *suffix,
                             const struct weir_shape *shape, const struct weir_initializer *initializer, size_t *number,
                             struct weir_error *err);

#endif
