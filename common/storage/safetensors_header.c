#include "storage/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "storage/json_text.h"

#define METADATA_MAX 65536 /* they take more memory than text */

struct dtype {
    const char *name;
    uint64_t bytes;
};

static const struct dtype dtypes[] = {{"F32", 4},     {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1},
                                      {"F8_E4M3", 1}, {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},
                                      {"I32", 4},     {"U32", 4},  {"F64", 8}, {"I64", 8}, {"U64", 8}};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

uint64_t weir_safetensors_dtype_bytes(const char *dtype)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            return dtypes[i].bytes;
    return 0;
}

/* Room for one more: the row twice as long, all of it zero behind `count`. */
static void *grow(void *row, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return row;
    size_t more = *capacity ? 2 * *capacity : 16;
    void *larger = weir_alloc(more, size, "a file's header");
    if (count)
        memcpy(larger, row, count * size);
    free(row);
    *capacity = more;
    return larger;
}

/* ---- one tensor */

/* What the keys of a tensor's object said; each must come once. */
struct seen {
    bool dtype, shape, offsets;
    uint64_t element_bytes, end;
};

static bool parse_dtype(struct weir_json *json, struct weir_safetensors_entry *entry, struct seen *seen)
{
    char *name = weir_json_string(json);
    if (!name)
        return false;
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            entry->dtype = dtypes[i].name;
            seen->element_bytes = dtypes[i].bytes;
        }
    free(name);
    return entry->dtype || weir_json_fail(json, "a dtype is unknown");
}

static bool parse_shape(struct weir_json *json, struct weir_safetensors_entry *entry)
{
    if (!weir_json_expect(json, '['))
        return false;
    if (weir_json_take(json, ']'))
        return true;
    do {
        if (entry->dimensions == WEIR_TENSOR_DIMENSIONS_MAX)
            return weir_json_fail(json, "a tensor has more than 8 dimensions");
        if (!weir_json_unsigned(json, &entry->shape[entry->dimensions++]))
            return false;
    } while (weir_json_take(json, ','));
    return weir_json_expect(json, ']');
}

static bool parse_offsets(struct weir_json *json, struct weir_safetensors_entry *entry, struct seen *seen)
{
    if (!weir_json_expect(json, '[') || !weir_json_unsigned(json, &entry->first))
        return false;
    if (!weir_json_take(json, ','))
        return weir_json_fail(json, "data_offsets are two numbers");
    return weir_json_unsigned(json, &seen->end) && weir_json_expect(json, ']');
}

static bool parse_tensor_key(struct weir_json *json, struct weir_safetensors_entry *entry, struct seen *seen)
{
    char *key = weir_json_string(json);
    if (!key)
        return false;
    bool *once = strcmp(key, "dtype") == 0          ? &seen->dtype
                 : strcmp(key, "shape") == 0        ? &seen->shape
                 : strcmp(key, "data_offsets") == 0 ? &seen->offsets
                                                    : NULL;
    free(key);
    if (!once || *once)
        return weir_json_fail(json, "a tensor has dtype, shape and data_offsets, each once, and nothing else");
    *once = true;
    if (!weir_json_expect(json, ':'))
        return false;
    return once == &seen->dtype   ? parse_dtype(json, entry, seen)
           : once == &seen->shape ? parse_shape(json, entry)
                                  : parse_offsets(json, entry, seen);
}

/* Sizes must agree, without overflow. */
static bool check_size(struct weir_json *json, struct weir_safetensors_entry *entry, const struct seen *seen)
{
    bool zero = false;
    for (size_t d = 0; d < entry->dimensions; d++)
        zero = zero || entry->shape[d] == 0;
    entry->elements = zero ? 0 : 1;
    for (size_t d = 0; d < entry->dimensions && !zero; d++)
        if (__builtin_mul_overflow(entry->elements, entry->shape[d], &entry->elements))
            return weir_json_fail(json, "a shape is too large");
    uint64_t bytes;
    if (__builtin_mul_overflow(entry->elements, seen->element_bytes, &bytes))
        return weir_json_fail(json, "a shape is too large");
    if (seen->end < entry->first || seen->end - entry->first != bytes)
        return weir_json_fail(json, "data_offsets differ from the size that shape and dtype give");
    entry->bytes = bytes;
    return true;
}

static bool parse_tensor(struct weir_json *json, struct weir_safetensors_entry *entry)
{
    struct seen seen = {0};
    if (!weir_json_expect(json, '{'))
        return false;
    do {
        if (!parse_tensor_key(json, entry, &seen))
            return false;
    } while (weir_json_take(json, ','));
    if (!weir_json_expect(json, '}'))
        return false;
    if (!seen.dtype || !seen.shape || !seen.offsets)
        return weir_json_fail(json, "a tensor has dtype, shape and data_offsets, each once, and nothing else");
    return check_size(json, entry, &seen);
}

/* ---- the object of tensors */

static bool parse_metadata(struct weir_json *json, struct weir_safetensors_header *header)
{
    if (!weir_json_expect(json, '{'))
        return false;
    if (weir_json_take(json, '}'))
        return true;
    do {
        if (header->metadata_count == METADATA_MAX)
            return weir_json_fail(json, "the metadata has more than 65536 keys");
        header->metadata =
            grow(header->metadata, header->metadata_count, &header->metadata_capacity, sizeof *header->metadata);
        struct weir_metadata *pair = &header->metadata[header->metadata_count];
        if (!(pair->key = weir_json_string(json)))
            return false;
        header->metadata_count++;
        if (!weir_json_expect(json, ':') || !(pair->value = weir_json_string(json)))
            return false;
    } while (weir_json_take(json, ','));
    return weir_json_expect(json, '}');
}

/* Names are printed in messages, and must not steer the terminal that shows them. */
static bool is_printable(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7F)
            return false;
    return true;
}

static bool parse_member(struct weir_json *json, struct weir_safetensors_header *header, bool *has_metadata)
{
    char *name = weir_json_string(json);
    if (!name)
        return false;
    bool is_metadata = strcmp(name, "__metadata__") == 0;
    if (is_metadata) {
        free(name);
        if (*has_metadata)
            return weir_json_fail(json, "__metadata__ stands there twice");
        *has_metadata = true;
        return weir_json_expect(json, ':') && parse_metadata(json, header);
    }
    header->entries = grow(header->entries, header->entry_count, &header->entry_capacity, sizeof *header->entries);
    struct weir_safetensors_entry *entry = &header->entries[header->entry_count++];
    entry->name = name;
    if (!is_printable(name))
        return weir_json_fail(json, "a tensor's name holds a control character");
    return weir_json_expect(json, ':') && parse_tensor(json, entry);
}

static bool parse_object(struct weir_json *json, struct weir_safetensors_header *header)
{
    bool has_metadata = false;
    if (!weir_json_expect(json, '{'))
        return false;
    if (!weir_json_take(json, '}')) {
        do {
            if (!parse_member(json, header, &has_metadata))
                return false;
        } while (weir_json_take(json, ','));
        if (!weir_json_expect(json, '}'))
            return false;
    }
    return weir_json_ended(json) || weir_json_fail(json, "something stands behind the last }");
}

/* ---- what holds between tensors */

static int by_data(const void *a, const void *b)
{
    const struct weir_safetensors_entry *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->bytes != y->bytes) /* empty ones first, so that each ends where the next begins */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct weir_safetensors_entry *const *)a)->name,
                  (*(const struct weir_safetensors_entry *const *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct weir_metadata *)a)->key, ((const struct weir_metadata *)b)->key);
}

static bool check_names(struct weir_safetensors_header *header, struct weir_error *err)
{
    header->by_name = weir_alloc(header->entry_count, sizeof(void *), "a file's header");
    for (size_t i = 0; i < header->entry_count; i++)
        header->by_name[i] = &header->entries[i];
    qsort(header->by_name, header->entry_count, sizeof(void *), by_name);
    for (size_t i = 1; i < header->entry_count; i++)
        if (strcmp(header->by_name[i - 1]->name, header->by_name[i]->name) == 0)
            return weir_error_set(err, "the tensor \"%s\" stands there twice", header->by_name[i]->name);
    if (header->metadata_count)
        qsort(header->metadata, header->metadata_count, sizeof *header->metadata, by_key);
    for (size_t i = 1; i < header->metadata_count; i++)
        if (strcmp(header->metadata[i - 1].key, header->metadata[i].key) == 0)
            return weir_error_set(err, "the metadata has \"%s\" twice", header->metadata[i].key);
    return true;
}

static bool check_data(struct weir_safetensors_header *header, uint64_t data_bytes, struct weir_error *err)
{
    uint64_t at = 0;
    if (header->entry_count)
        qsort(header->entries, header->entry_count, sizeof *header->entries, by_data);
    for (size_t i = 0; i < header->entry_count; i++) {
        const struct weir_safetensors_entry *entry = &header->entries[i];
        if (entry->first != at)
            return weir_error_set(err, "the data of \"%s\" %s at byte %" PRIu64, entry->name,
                                  entry->first < at ? "overlaps another tensor's" : "leaves a gap before it", at);
        if (entry->bytes > data_bytes - at)
            return weir_error_set(err, "the data of \"%s\" ends behind the end of the file: it is cut short",
                                  entry->name);
        at += entry->bytes;
    }
    if (at != data_bytes)
        return weir_error_set(err, "%" PRIu64 " bytes behind the last tensor belong to none", data_bytes - at);
    return true;
}

bool weir_safetensors_header_parse(struct weir_safetensors_header *header, const char *text, size_t count,
                                   uint64_t data_bytes, struct weir_error *err)
{
    struct weir_json json = {.begin = text, .at = text, .end = text + count};
    *header = (struct weir_safetensors_header){0};
    if (!parse_object(&json, header))
        return weir_error_set(err, "its header is wrong at byte %td: %s", json.at - json.begin, json.wrong);
    return check_data(header, data_bytes, err) && check_names(header, err);
}

void weir_safetensors_header_free(struct weir_safetensors_header *header)
{
    for (size_t i = 0; i < header->entry_count; i++)
        free(header->entries[i].name);
    for (size_t i = 0; i < header->metadata_count; i++) {
        free((char *)(uintptr_t)header->metadata[i].key);
        free((char *)(uintptr_t)header->metadata[i].value);
    }
    free(header->entries);
    free(header->by_name);
    free(header->metadata);
}
