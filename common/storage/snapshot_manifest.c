#include "storage/snapshot_manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "storage/json_text.h"
#include "storage/snapshot_layout.h"
#include "storage/snapshot_name.h"

#define FORMAT "weir-snapshot"
#define DIGEST_BEGIN "\"sha256\": \""
#define DIGEST_END "\"\n}\n"
#define DIGEST_TAIL (sizeof DIGEST_BEGIN - 1 + WEIR_DIGEST_HEX - 1 + sizeof DIGEST_END - 1)

static void digest_of(const char *text, size_t count, char hex[WEIR_DIGEST_HEX])
{
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, text, count);
    weir_digest_end(digest, hex);
}

/* ---- making */

static void add_string(struct weir_text *text, const char *key, const char *value)
{
    weir_text_add(text, "\"%s\": ", key);
    weir_json_add_string(text, value);
    weir_text_add(text, ",\n");
}

static void add_number(struct weir_text *text, const char *key, uint64_t value)
{
    weir_text_add(text, "\"%s\": %" PRIu64 ",\n", key, value);
}

static void add_layout(struct weir_text *text, const struct weir_snapshot_layout *layout)
{
    add_number(text, "flat_elements", layout->flat_elements);
    add_number(text, "chunk_elements", layout->chunk_elements);
    add_number(text, "clocks", layout->clocks);
    weir_text_add(text, "\"slots\": [");
    for (size_t s = 0; s < layout->slot_count; s++) {
        weir_text_add(text, s ? ", " : "");
        weir_json_add_string(text, layout->slots[s]);
    }
    weir_text_add(text, "],\n\"variables\": [");
    for (size_t v = 0; v < layout->variable_count; v++) {
        const struct weir_view_variable *variable = &layout->variables[v];
        weir_text_add(text, "%s\n {\"name\": ", v ? "," : "");
        weir_json_add_string(text, variable->name);
        weir_text_add(text, ", \"offset\": %" PRIu64 ", \"shape\": [", variable->offset);
        for (size_t d = 0; d < variable->dims; d++)
            weir_text_add(text, "%s%" PRIu64, d ? ", " : "", variable->shape[d]);
        weir_text_add(text, "]}");
    }
    weir_text_add(text, "],\n");
}

static void add_parts(struct weir_text *text, const struct weir_snapshot_part *parts, size_t count)
{
    weir_text_add(text, "\"parts\": [");
    for (size_t i = 0; i < count; i++)
        weir_text_add(text, "%s\n {\"name\": \"%s\", \"bytes\": %" PRIu64 ", \"sha256\": \"%s\"}", i ? "," : "",
                      parts[i].name, parts[i].bytes, parts[i].sha256);
    weir_text_add(text, "],\n");
}

static void add_record(struct weir_text *text, const unsigned char *bytes, size_t count)
{
    char *hex = weir_alloc(2 * count + 1, 1, "a record's text");
    for (size_t i = 0; i < count; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    weir_text_add(text, "\"record\": \"%s\",\n", hex);
    free(hex);
}

bool weir_manifest_make(const struct weir_snapshot_info *info, const struct weir_snapshot_part *parts,
                        size_t part_count, struct weir_text *text, struct weir_error *err)
{
    char hex[WEIR_DIGEST_HEX];
    *text = (struct weir_text){0};
    weir_text_add(text, "{\n");
    add_string(text, "format", FORMAT);
    add_number(text, "version", WEIR_SNAPSHOT_VERSION);
    add_string(text, "job", info->job);
    add_string(text, "hash", info->hash);
    add_number(text, "generation", info->generation);
    add_number(text, "step", info->step);
    add_number(text, "replicas", info->replicas);
    add_layout(text, &info->layout);
    add_parts(text, parts, part_count);
    add_string(text, "keys", info->canonical);
    add_record(text, info->record, info->record_bytes);
    digest_of(text->bytes, text->length, hex);
    weir_text_add(text, DIGEST_BEGIN "%s" DIGEST_END, hex);
    return text->length <= WEIR_SNAPSHOT_MANIFEST_BYTES_MAX ||
           weir_error_set(err, "a snapshot's manifest would have %zu bytes, and may have %zu", text->length,
                          WEIR_SNAPSHOT_MANIFEST_BYTES_MAX);
}

/* ---- parsing: keys come in one order, the one above */

static bool take_key(struct weir_json *json, const char *key)
{
    char *found = weir_json_string(json);
    bool right = found && strcmp(found, key) == 0;
    free(found);
    return right ? weir_json_expect(json, ':') : weir_json_fail(json, "another key is expected");
}

/* Without control characters: it will be shown. */
static bool take_string(struct weir_json *json, const char *key, const char **value)
{
    if (!take_key(json, key))
        return false;
    char *string = weir_json_string(json);
    *value = string;
    for (const char *c = string; c && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return weir_json_fail(json, "a text holds a control character");
    return string != NULL;
}

static bool take_number(struct weir_json *json, const char *key, uint64_t least, uint64_t most, uint64_t *value)
{
    if (!take_key(json, key) || !weir_json_unsigned(json, value))
        return false;
    return (*value >= least && *value <= most) || weir_json_fail(json, "a number is out of its range");
}

/* Copies a string of hexadecimal digits whose number is known. */
static bool take_hex(struct weir_json *json, const char *key, char hex[WEIR_DIGEST_HEX])
{
    const char *value = NULL;
    bool good = take_string(json, key, &value) && strlen(value) == WEIR_DIGEST_HEX - 1 &&
                strspn(value, "0123456789abcdef") == WEIR_DIGEST_HEX - 1;
    if (good)
        memcpy(hex, value, WEIR_DIGEST_HEX);
    free((char *)(uintptr_t)value);
    return good || weir_json_fail(json, "64 hexadecimal digits are expected");
}

/* A list of things that `take` parses one by one, each put at the end of the manifest's row of them. */
static bool take_list(struct weir_json *json, const char *key, struct weir_manifest *manifest,
                      bool (*take)(struct weir_json *json, struct weir_manifest *manifest))
{
    if (!take_key(json, key) || !weir_json_expect(json, '['))
        return false;
    if (weir_json_take(json, ']'))
        return true;
    do {
        if (!take(json, manifest))
            return false;
    } while (weir_json_take(json, ','));
    return weir_json_expect(json, ']');
}

/* Room for one more at the end of a row; its capacity is the next power of two, from 16 on. */
static void *grow(void *row, size_t count, size_t size)
{
    if (count != 0 && (count < 16 || (count & (count - 1))))
        return row;
    void *larger = weir_alloc(count ? 2 * count : 16, size, "a manifest");
    if (count)
        memcpy(larger, row, count * size);
    free(row);
    return larger;
}

static bool take_slot(struct weir_json *json, struct weir_manifest *manifest)
{
    struct weir_snapshot_layout *layout = &manifest->info.layout;
    if (layout->slot_count == WEIR_SNAPSHOT_SLOTS_MAX)
        return weir_json_fail(json, "there are more than 16 slots");
    char *slot = weir_json_string(json);
    if (!slot)
        return false;
    weir_text_disarm(slot, strlen(slot));
    const char **slots = grow((void *)(uintptr_t)layout->slots, layout->slot_count, sizeof *slots);
    slots[layout->slot_count++] = slot;
    layout->slots = slots;
    return true;
}

/* A shape's numbers, and their product; both bounded. */
static bool take_shape(struct weir_json *json, struct weir_view_variable *variable, uint64_t shape[])
{
    variable->elements = 1;
    if (!take_key(json, "shape") || !weir_json_expect(json, '['))
        return false;
    if (weir_json_take(json, ']'))
        return true;
    do {
        if (variable->dims == WEIR_SNAPSHOT_DIMS_MAX)
            return weir_json_fail(json, "a shape has more than 16 dimensions");
        uint64_t *length = &shape[variable->dims++];
        if (!weir_json_unsigned(json, length))
            return false;
        if (__builtin_mul_overflow(variable->elements, *length, &variable->elements))
            return weir_json_fail(json, "a shape is too large");
    } while (weir_json_take(json, ','));
    return weir_json_expect(json, ']');
}

/* Variables lie one behind the other, inside the flat parameter space. */
static bool take_variable(struct weir_json *json, struct weir_manifest *manifest)
{
    struct weir_snapshot_layout *layout = &manifest->info.layout;
    struct weir_view_variable *variables =
        grow((void *)(uintptr_t)layout->variables, layout->variable_count, sizeof *variables);
    layout->variables = variables;
    struct weir_view_variable *variable = &variables[layout->variable_count];
    uint64_t first = 0, shape[WEIR_SNAPSHOT_DIMS_MAX];
    if (layout->variable_count > 0)
        first = variable[-1].offset + variable[-1].elements;
    *variable = (struct weir_view_variable){0};
    layout->variable_count++;
    if (!weir_json_expect(json, '{') || !take_string(json, "name", &variable->name) || !weir_json_expect(json, ',') ||
        !take_number(json, "offset", first, layout->flat_elements, &variable->offset) || !weir_json_expect(json, ',') ||
        !take_shape(json, variable, shape))
        return false;
    if (variable->elements > layout->flat_elements - variable->offset)
        return weir_json_fail(json, "a variable ends behind the end of the parameters");
    uint64_t *kept = weir_alloc(variable->dims + 1, sizeof *kept, "a shape");
    memcpy(kept, shape, variable->dims * sizeof *kept);
    variable->shape = kept;
    return weir_json_expect(json, '}');
}

/* A part of this snapshot and no other: what stands there becomes a path. */
static bool take_part(struct weir_json *json, struct weir_manifest *manifest)
{
    if (manifest->part_count == WEIR_SNAPSHOT_FILES_MAX)
        return weir_json_fail(json, "there are more than 4096 parts");
    manifest->parts = grow(manifest->parts, manifest->part_count, sizeof *manifest->parts);
    struct weir_snapshot_part *part = &manifest->parts[manifest->part_count++];
    struct weir_snapshot_file file;
    const char *name = NULL;
    bool good =
        weir_json_expect(json, '{') && take_string(json, "name", &name) &&
        (weir_snapshot_name_parse(name, &file) || weir_json_fail(json, "a part's name is none that weir gives"));
    free((char *)(uintptr_t)name);
    if (!good)
        return false;
    if (file.kind != WEIR_SNAPSHOT_PART || !weir_snapshot_name_of_job(&file, manifest->info.hash) ||
        file.generation != manifest->info.generation || file.step != manifest->info.step)
        return weir_json_fail(json, "a part is another snapshot's");
    memcpy(part->name, file.name, sizeof part->name);
    return weir_json_expect(json, ',') && take_number(json, "bytes", 0, UINT64_MAX, &part->bytes) &&
           weir_json_expect(json, ',') && take_hex(json, "sha256", part->sha256) && weir_json_expect(json, '}');
}

static bool take_record(struct weir_json *json, struct weir_snapshot_info *info)
{
    const char *hex = NULL;
    bool good = take_string(json, "record", &hex);
    size_t digits = good ? strlen(hex) : 0;
    good = good && digits % 2 == 0 && digits / 2 <= WEIR_SNAPSHOT_RECORD_BYTES_MAX &&
           strspn(hex, "0123456789abcdef") == digits;
    if (good) {
        unsigned char *bytes = weir_alloc(digits / 2 + 1, 1, "a record");
        for (size_t i = 0; i < digits; i++) {
            int digit = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10;
            bytes[i / 2] = (unsigned char)(bytes[i / 2] << 4 | digit);
        }
        info->record = bytes;
        info->record_bytes = digits / 2;
    }
    free((char *)(uintptr_t)hex);
    return good || weir_json_fail(json, "the record is not a whole number of bytes in hexadecimal digits");
}

static bool take_head(struct weir_json *json, struct weir_snapshot_info *info)
{
    const char *format = NULL;
    char hash[WEIR_DIGEST_HEX];
    uint64_t version, replicas;
    bool good = weir_json_expect(json, '{') && take_string(json, "format", &format) &&
                (strcmp(format, FORMAT) == 0 || weir_json_fail(json, "its format is another one"));
    free((char *)(uintptr_t)format);
    if (!good || !weir_json_expect(json, ',') || !take_number(json, "version", 0, UINT64_MAX, &version))
        return false;
    if (version != WEIR_SNAPSHOT_VERSION)
        return weir_json_fail(json, "its version is not 1, the only one that this weir reads");
    if (!weir_json_expect(json, ',') || !take_string(json, "job", &info->job) || !weir_json_expect(json, ',') ||
        !take_hex(json, "hash", hash))
        return false;
    info->hash = weir_strdup(hash);
    good = weir_json_expect(json, ',') && take_number(json, "generation", 0, UINT64_MAX, &info->generation) &&
           weir_json_expect(json, ',') && take_number(json, "step", 0, UINT64_MAX, &info->step) &&
           weir_json_expect(json, ',') && take_number(json, "replicas", 1, UINT32_MAX, &replicas);
    info->replicas = good ? (uint32_t)replicas : 0;
    return good;
}

static bool take_layout(struct weir_json *json, struct weir_manifest *manifest)
{
    struct weir_snapshot_layout *layout = &manifest->info.layout;
    uint64_t chunk_elements, clocks;
    if (!take_number(json, "flat_elements", 1, UINT64_MAX / 128, &layout->flat_elements) ||
        !weir_json_expect(json, ',') || !take_number(json, "chunk_elements", 1, UINT32_MAX, &chunk_elements) ||
        !weir_json_expect(json, ',') || !take_number(json, "clocks", 0, 1, &clocks) || !weir_json_expect(json, ','))
        return false;
    layout->chunk_elements = (uint32_t)chunk_elements;
    layout->clocks = clocks;
    if (weir_snapshot_chunks(layout) > WEIR_SNAPSHOT_CHUNKS_MAX)
        return weir_json_fail(json, "it has too many chunks");
    return take_list(json, "slots", manifest, take_slot) && weir_json_expect(json, ',') &&
           take_list(json, "variables", manifest, take_variable);
}

static bool take_all(struct weir_json *json, struct weir_manifest *manifest)
{
    struct weir_snapshot_info *info = &manifest->info;
    return take_head(json, info) && weir_json_expect(json, ',') && take_layout(json, manifest) &&
           weir_json_expect(json, ',') && take_list(json, "parts", manifest, take_part) &&
           weir_json_expect(json, ',') && take_key(json, "keys") && (info->canonical = weir_json_string(json)) &&
           weir_json_expect(json, ',') && take_record(json, info) && weir_json_expect(json, ',') &&
           (weir_json_ended(json) || weir_json_fail(json, "something stands between the record and the digest"));
}

/* The digest stands at the end and is of all before it: what passes is what somebody wrote, and whole. */
static bool check_digest(const char *text, size_t count, struct weir_error *err)
{
    char hex[WEIR_DIGEST_HEX];
    if (count < DIGEST_TAIL)
        return weir_error_set(err, "it is cut short: %zu bytes are no manifest", count);
    const char *tail = text + count - DIGEST_TAIL;
    if (memcmp(tail, DIGEST_BEGIN, sizeof DIGEST_BEGIN - 1) != 0 ||
        memcmp(text + count - (sizeof DIGEST_END - 1), DIGEST_END, sizeof DIGEST_END - 1) != 0)
        return weir_error_set(err, "it is torn, or no manifest: it does not end with its digest");
    digest_of(text, count - DIGEST_TAIL, hex);
    return memcmp(hex, tail + sizeof DIGEST_BEGIN - 1, WEIR_DIGEST_HEX - 1) == 0 ||
           weir_error_set(err, "it is damaged: its digest is another one");
}

bool weir_manifest_parse(struct weir_manifest *manifest, const char *text, size_t count, struct weir_error *err)
{
    *manifest = (struct weir_manifest){0};
    if (count > WEIR_SNAPSHOT_MANIFEST_BYTES_MAX)
        return weir_error_set(err, "it has %zu bytes, and may have %zu", count, WEIR_SNAPSHOT_MANIFEST_BYTES_MAX);
    if (!check_digest(text, count, err))
        return false;
    struct weir_json json = {.begin = text, .at = text, .end = text + count - DIGEST_TAIL};
    return take_all(&json, manifest) ||
           weir_error_set(err, "it is wrong at byte %td: %s", json.at - json.begin, json.wrong);
}

void weir_manifest_free(struct weir_manifest *manifest)
{
    struct weir_snapshot_info *info = &manifest->info;
    for (size_t v = 0; v < info->layout.variable_count; v++) {
        free((char *)(uintptr_t)info->layout.variables[v].name);
        free((uint64_t *)(uintptr_t)info->layout.variables[v].shape);
    }
    for (size_t s = 0; s < info->layout.slot_count; s++)
        free((char *)(uintptr_t)info->layout.slots[s]);
    free((void *)(uintptr_t)info->layout.variables);
    free((void *)(uintptr_t)info->layout.slots);
    free((char *)(uintptr_t)info->job);
    free((char *)(uintptr_t)info->hash);
    free((char *)(uintptr_t)info->canonical);
    free((void *)(uintptr_t)info->record);
    free(manifest->parts);
}
