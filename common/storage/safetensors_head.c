#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "storage/json_text.h"
#include "storage/safetensors_header.h"

#define ALIGNMENT 8

uint64_t weir_safetensors_kind_bytes(const struct weir_tensor_kind *tensor)
{
    uint64_t bytes = weir_safetensors_dtype_bytes(tensor->dtype);
    for (size_t d = 0; d < tensor->dimensions; d++)
        bytes *= tensor->shape[d];
    return bytes;
}

static void add_numbers(struct weir_text *text, const uint64_t *numbers, size_t count)
{
    weir_text_add(text, "[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            weir_text_add(text, ",");
        weir_text_add(text, "%" PRIu64, numbers[i]);
    }
    weir_text_add(text, "]");
}

static void add_metadata(struct weir_text *text, const struct weir_metadata *metadata, size_t count)
{
    weir_text_add(text, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            weir_text_add(text, ",");
        weir_json_add_string(text, metadata[i].key);
        weir_text_add(text, ":");
        weir_json_add_string(text, metadata[i].value);
    }
    weir_text_add(text, "}");
}

/* The header, padded so that the data behind it is aligned; its length stands in front of it. */
static void add_head(struct weir_text *text, const struct weir_tensor_kind *tensors, size_t tensor_count,
                     const struct weir_metadata *metadata, size_t metadata_count)
{
    static const char no_length[WEIR_SAFETENSORS_LENGTH_BYTES];
    uint64_t offsets[2] = {0, 0};
    weir_text_add_bytes(text, no_length, sizeof no_length);
    weir_text_add(text, "{");
    if (metadata_count)
        add_metadata(text, metadata, metadata_count);
    for (size_t i = 0; i < tensor_count; i++) {
        offsets[0] = offsets[1];
        offsets[1] += weir_safetensors_kind_bytes(&tensors[i]);
        if (i > 0 || metadata_count)
            weir_text_add(text, ",");
        weir_json_add_string(text, tensors[i].name);
        weir_text_add(text, ":{\"dtype\":\"%s\",\"shape\":", tensors[i].dtype);
        add_numbers(text, tensors[i].shape, tensors[i].dimensions);
        weir_text_add(text, ",\"data_offsets\":");
        add_numbers(text, offsets, 2);
        weir_text_add(text, "}");
    }
    weir_text_add(text, "}");
    while (text->length % ALIGNMENT)
        weir_text_add(text, " ");
    uint64_t length = text->length - sizeof no_length;
    for (size_t i = 0; i < sizeof no_length; i++)
        text->bytes[i] = (char)(unsigned char)(length >> 8 * i);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first of the names that occurs twice; NULL if there is none. Sorts them. */
static const char *find_double(const char **names, size_t count)
{
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return names[i];
    return NULL;
}

static bool check_names(const char *path, const struct weir_tensor_kind *tensors, size_t tensor_count,
                        const struct weir_metadata *metadata, size_t metadata_count, struct weir_error *err)
{
    const char **names = weir_alloc(tensor_count + metadata_count + 1, sizeof *names, "a file's names");
    for (size_t i = 0; i < tensor_count; i++)
        names[i] = tensors[i].name;
    names[tensor_count] = "__metadata__";
    for (size_t i = 0; i < metadata_count; i++)
        names[tensor_count + 1 + i] = metadata[i].key;
    const char *name = find_double(names, tensor_count + 1);
    const char *key = find_double(names + tensor_count + 1, metadata_count);
    free(names);
    if (name)
        return weir_error_set(err, "cannot write %s: two tensors are named \"%s\" (or one __metadata__); rename one",
                              path, name);
    if (key)
        return weir_error_set(err, "cannot write %s: the metadata has \"%s\" twice; drop one", path, key);
    return true;
}

bool weir_safetensors_head_make(struct weir_text *head, const char *path, const struct weir_tensor_kind *tensors,
                                size_t tensor_count, const struct weir_metadata *metadata, size_t metadata_count,
                                struct weir_error *err)
{
    *head = (struct weir_text){0};
    if (!check_names(path, tensors, tensor_count, metadata, metadata_count, err))
        return false;
    add_head(head, tensors, tensor_count, metadata, metadata_count);
    return head->length - WEIR_SAFETENSORS_LENGTH_BYTES <= WEIR_SAFETENSORS_HEADER_BYTES_MAX ||
           weir_error_set(err, "cannot write %s: the names of %zu tensors take more than %zu bytes; shorten them", path,
                          tensor_count, WEIR_SAFETENSORS_HEADER_BYTES_MAX);
}
