#include "model/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX 48 /* longer words are near to none */

const char *weir_printable(const char *text, char out[WEIR_PRINTABLE])
{
    size_t i = 0;
    for (; text[i] && i + 1 < WEIR_PRINTABLE; i++)
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    out[i] = '\0';
    return out;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of letters to insert, remove or change (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b), row[WORD_MAX + 1];
    if (m > WORD_MAX || n > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t up = row[j];
            row[j] = least(least(up, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[n];
}

const char *weir_nearest(const char *word, const char *const *list)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2;
    for (; list && *list; list++) {
        size_t d = distance(word, *list);
        if (d < best_distance) {
            best = *list;
            best_distance = d;
        }
    }
    return best;
}

static void append(char *text, size_t bytes, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", word);
}

bool weir_not_in_list(struct weir_error *err, const char *key, const char *value, const char *const *list)
{
    char printable[WEIR_PRINTABLE], all[512] = "";
    weir_printable(value, printable);
    const char *near = weir_nearest(value, list);
    if (near)
        return weir_error_set(err, "%s: \"%s\" is not supported; did you mean \"%s\"?", key, printable, near);
    for (; *list; list++)
        append(all, sizeof all, *list);
    return weir_error_set(err, "%s: \"%s\" is not supported; use one of: %s", key, printable, all);
}

static bool in_list(const char *word, const char *const *list)
{
    for (; list && *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

bool weir_read_only_keys(const json_t *object, const char *const *known, const char *const *more,
                         struct weir_error *err)
{
    for (void *i = json_object_iter((json_t *)(uintptr_t)object); i;
         i = json_object_iter_next((json_t *)(uintptr_t)object, i)) {
        const char *key = json_object_iter_key(i);
        if (in_list(key, known) || in_list(key, more) || json_is_null(json_object_iter_value(i)))
            continue;
        char printable[WEIR_PRINTABLE];
        weir_printable(key, printable);
        const char *near = weir_nearest(key, known);
        if (!near && more)
            near = weir_nearest(key, more);
        if (near)
            return weir_error_set(err, "%s: unknown key; did you mean \"%s\"?", printable, near);
        return weir_error_set(err, "%s: unknown key; weir does not know what it does, so it can't leave it out",
                              printable);
    }
    return true;
}

bool weir_read_nulls(const json_t *config, const char *const *keys, struct weir_error *err)
{
    for (; *keys; keys++) {
        const json_t *value = json_object_get(config, *keys);
        if (value && !json_is_null(value))
            return weir_error_set(err, "%s: is not supported yet; it must be null", *keys);
    }
    return true;
}

static bool given(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return value && !json_is_null(value);
}

static bool size_of(const json_t *value, const char *key, size_t least_value, size_t *size, struct weir_error *err)
{
    if (!json_is_integer(value))
        return weir_error_set(err, "%s: must be an integer", key);
    json_int_t number = json_integer_value(value);
    if (number < (json_int_t)least_value || (uint64_t)number > WEIR_DIM_MAX)
        return weir_error_set(err, "%s: is %lld; must be from %zu to %zu", key, (long long)number, least_value,
                              WEIR_DIM_MAX);
    *size = (size_t)number;
    return true;
}

bool weir_read_size(const json_t *config, const char *key, size_t least_value, size_t *value, struct weir_error *err)
{
    if (!given(config, key))
        return weir_error_set(err, "%s: is missing", key);
    return size_of(json_object_get(config, key), key, least_value, value, err);
}

bool weir_read_bool(const json_t *config, const char *key, bool otherwise, bool *value, struct weir_error *err)
{
    const json_t *json = json_object_get(config, key);
    *value = given(config, key) ? json_is_true(json) : otherwise;
    if (given(config, key) && !json_is_boolean(json))
        return weir_error_set(err, "%s: must be true or false", key);
    return true;
}

bool weir_read_number(const json_t *config, const char *key, double otherwise, double *value, struct weir_error *err)
{
    const json_t *json = json_object_get(config, key);
    *value = given(config, key) ? json_number_value(json) : otherwise;
    if (given(config, key) && !json_is_number(json))
        return weir_error_set(err, "%s: must be a number", key);
    if (!isfinite(*value) && isfinite(otherwise))
        return weir_error_set(err, "%s: must be finite", key);
    return true;
}

bool weir_read_pair(const json_t *config, const char *key, const size_t *otherwise, size_t value[2],
                    struct weir_error *err)
{
    const json_t *json = json_object_get(config, key);
    if (!given(config, key) && otherwise) {
        memcpy(value, otherwise, 2 * sizeof *value);
        return true;
    }
    if (json_is_integer(json)) {
        if (!size_of(json, key, 1, &value[0], err))
            return false;
        value[1] = value[0];
        return true;
    }
    if (!json_is_array(json) || json_array_size(json) != 2)
        return weir_error_set(err, "%s: must be an integer or a list of two", key);
    return size_of(json_array_get(json, 0), key, 1, &value[0], err) &&
           size_of(json_array_get(json, 1), key, 1, &value[1], err);
}

bool weir_read_choice(const json_t *config, const char *key, const char *const *list, size_t *choice,
                      struct weir_error *err)
{
    *choice = 0;
    if (!given(config, key))
        return true;
    const char *value = json_string_value(json_object_get(config, key));
    if (!value)
        return weir_error_set(err, "%s: must be a string", key);
    for (; list[*choice]; ++*choice)
        if (strcmp(value, list[*choice]) == 0)
            return true;
    return weir_not_in_list(err, key, value, list);
}

bool weir_read_batch_shape(const json_t *value, const char *key, struct weir_shape *shape, struct weir_error *err)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n < 2 || n > WEIR_DIMS_MAX + 1)
        return weir_error_set(err, "%s: must be a list of 2 to %d dimensions, as [null, 28, 28]", key,
                              WEIR_DIMS_MAX + 1);
    if (!json_is_null(json_array_get(value, 0)))
        return weir_error_set(err, "%s: the first dimension is the batch and must be null", key);
    shape->dims = n - 1;
    for (size_t i = 1; i < n; i++) {
        const json_t *dim = json_array_get(value, i);
        if (json_is_null(dim))
            return weir_error_set(err, "%s: dimension %zu is null; only the batch may be open", key, i);
        if (!size_of(dim, key, 1, &shape->dim[i - 1], err))
            return false;
    }
    size_t elements;
    if (!weir_shape_elements(shape, WEIR_ROW_ELEMENTS_MAX, &elements))
        return weir_error_set(err, "%s: a sample has over %zu elements", key, WEIR_ROW_ELEMENTS_MAX);
    return true;
}

bool weir_read_dtype(const json_t *config, struct weir_error *err)
{
    if (!given(config, "dtype"))
        return true;
    const json_t *dtype = json_object_get(config, "dtype");
    const char *name = json_string_value(dtype);
    if (json_is_object(dtype))
        name = json_string_value(json_object_get(json_object_get(dtype, "config"), "name"));
    if (name && strcmp(name, "float32") == 0)
        return true;
    char printable[WEIR_PRINTABLE];
    return weir_error_set(err, "dtype: %s is not supported yet; use \"float32\"",
                          name ? weir_printable(name, printable) : "this form");
}
