/* The classes of layers: one row of a table each. */
#ifndef WEIR_MODEL_LAYER_H
#define WEIR_MODEL_LAYER_H

#include <jansson.h>

#include "model/graph.h"
#include "model/plan.h"

struct weir_layer_class {
    const char *name;         /* Keras's class name */
    const char *snake;        /* what Keras names its layers after */
    const char *const *keys;  /* of the config, besides those that every layer has; NULL-terminated, or NULL */
    const char *const *nulls; /* keys that must be null, or NULL */
    /* Reads the config. */
    bool (*read)(struct weir_layer *layer, const json_t *config, struct weir_error *err);
    /* Sets layer->out from layer->in and adds the variables. NULL: the same shape, no variables. */
    bool (*infer)(struct weir_model *model, struct weir_layer *layer, struct weir_error *err);
    /* Adds the layer's operations. NULL: none (it only changes the shape). */
    void (*lower)(struct weir_plan *plan, const struct weir_layer *layer);
};

/* The class, or NULL and an error that says which there are. */
const struct weir_layer_class *weir_layer_class_find(const char *name, struct weir_error *err);

/* Groups of the table's rows, by file; each ends with a row without a name. */
extern const struct weir_layer_class weir_layers_core[], weir_layers_image[];

#endif
