/* Reading a layer's config: each function reads one key, checks it, and on error says which key, what stands there and
 * what could. Errors do not name the layer: the caller does, once. */
#ifndef WEIR_MODEL_READER_H
#define WEIR_MODEL_READER_H

#include <jansson.h>

#include "model/graph.h"

#define WEIR_PRINTABLE 80

/* A copy that is safe to print: cut, and without control characters. Returns `out`. */
const char *weir_printable(const char *text, char out[WEIR_PRINTABLE]);

/* The word of the NULL-terminated list that is nearest to `word`, or NULL if none is near. */
const char *weir_nearest(const char *word, const char *const *list);

/* An error for `value`, which is not in the list: `key: "sama" is not supported; did you mean "same"?`. */
bool weir_not_in_list(struct weir_error *err, const char *key, const char *value, const char *const *list);

/* An error if `object` has a key that is in neither list (the second may be NULL). Unknown keys that are null are no
 * error: newer versions of Keras write them for settings that were not made. */
bool weir_read_only_keys(const json_t *object, const char *const *known, const char *const *more,
                         struct weir_error *err);

/* Keys that must be null or missing, because weir does not support what they switch on. */
bool weir_read_nulls(const json_t *config, const char *const *keys, struct weir_error *err);

bool weir_read_size(const json_t *config, const char *key, size_t least, size_t *value, struct weir_error *err);
bool weir_read_bool(const json_t *config, const char *key, bool otherwise, bool *value, struct weir_error *err);
/* A finite number; `key` may be missing or null. */
bool weir_read_number(const json_t *config, const char *key, double otherwise, double *value, struct weir_error *err);
/* One integer, or a list of two. With `otherwise`, the key may be missing or null. */
bool weir_read_pair(const json_t *config, const char *key, const size_t *otherwise, size_t value[2],
                    struct weir_error *err);
/* The position of the string in the NULL-terminated list; 0 if the key is missing or null. */
bool weir_read_choice(const json_t *config, const char *key, const char *const *list, size_t *choice,
                      struct weir_error *err);
/* A shape with batch dimension: [null, 28, 28]. */
bool weir_read_batch_shape(const json_t *value, const char *key, struct weir_shape *shape, struct weir_error *err);
/* "float32" in any of its forms. */
bool weir_read_dtype(const json_t *config, struct weir_error *err);

/* A name ("relu"), an object that holds one, or an activation layer; missing or null: linear. */
bool weir_read_activation(const json_t *config, const char *key, struct weir_activation *activation,
                          struct weir_error *err);
bool weir_read_initializer(const json_t *config, const char *key, const char *otherwise,
                           struct weir_initializer *initializer, struct weir_error *err);

/* Keras's config of an activation layer (ReLU, LeakyReLU, ELU, Softmax); false, without error, if `class_name` is
 * none. */
bool weir_is_activation_class(const char *class_name);
bool weir_read_activation_layer(const char *class_name, const json_t *config, struct weir_activation *activation,
                                struct weir_error *err);

#endif
