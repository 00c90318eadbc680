#include "wire/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/reader.h"
#include "wire/table.h"

#define BLOCK_BYTES ((size_t)1024)

/* Memory of one frame: blocks in a list, freed together. */
struct block {
    struct block *next;
    size_t used, size;
    _Alignas(8) char bytes[];
};

static void *arena_take(struct block **arena, size_t bytes)
{
    bytes = (bytes + 7) / 8 * 8;
    struct block *block = *arena;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = weir_alloc(1, sizeof *block + size, "a received message's fields");
        block->size = size;
        block->next = *arena;
        *arena = block;
    }
    void *taken = block->bytes + block->used;
    block->used += bytes;
    return taken;
}

static void arena_free(struct block *arena)
{
    while (arena) {
        struct block *next = arena->next;
        free(arena);
        arena = next;
    }
}

static const struct weir_wire_field *find_field(const struct weir_wire_table *table, uint32_t number)
{
    for (size_t i = 0; i < table->field_count; i++)
        if (table->fields[i].number == number)
            return &table->fields[i];
    return NULL;
}

static bool is_list(const struct weir_wire_field *field)
{
    return field->kind == WEIR_WIRE_LIST || field->kind == WEIR_WIRE_SIZED;
}

/* What kind of value a field's tag announces; packed numbers are told from the wire type. */
static uint8_t value_kind(const struct weir_wire_field *field)
{
    if (field->kind == WEIR_WIRE_ARRAY)
        return WEIR_WIRE_DOUBLE;
    return is_list(field) ? field->element : field->kind;
}

static enum weir_wire_type wire_type(uint8_t kind)
{
    if (kind == WEIR_WIRE_DOUBLE)
        return WEIR_WIRE_FIXED64;
    return kind == WEIR_WIRE_STRING || kind == WEIR_WIRE_PART ? WEIR_WIRE_BYTES : WEIR_WIRE_VARINT;
}

static bool read_number(struct weir_wire_reader *r, uint8_t kind, uint64_t *value, struct weir_error *err)
{
    if (kind == WEIR_WIRE_DOUBLE)
        return weir_wire_read_fixed64(r, value, err);
    if (!weir_wire_read_varint(r, value, err))
        return false;
    if (kind == WEIR_WIRE_U32 && *value > UINT32_MAX)
        return weir_error_set(err, "%llu does not fit in 32 bits", (unsigned long long)*value);
    return true;
}

static void store_number(char *at, uint8_t kind, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    if (kind == WEIR_WIRE_U32 || kind == WEIR_WIRE_ENUM)
        memcpy(at, &narrow, sizeof narrow);
    else if (kind == WEIR_WIRE_BOOL)
        *(bool *)at = value != 0;
    else
        memcpy(at, &value, sizeof value);
}

static bool check_enum(const struct weir_wire_field *field, uint64_t value, struct weir_error *err)
{
    if (value >= field->low && value <= field->high)
        return true;
    return weir_error_set(err, "%llu is none of its values (%u to %u)", (unsigned long long)value, field->low,
                          field->high);
}

/* First walk over a message: how many elements its lists have, so that each is allocated once, at its size. */
static bool count_elements(const struct weir_wire_table *table, struct weir_wire_reader r, size_t *counts,
                           struct weir_error *err)
{
    while (r.at < r.end) {
        uint32_t number;
        enum weir_wire_type type;
        if (!weir_wire_read_tag(&r, &number, &type, err))
            return false;
        const struct weir_wire_field *field = find_field(table, number);
        struct weir_wire_reader value;
        if (!weir_wire_read_value(&r, type, &value, err))
            return field ? weir_error_wrap(err, "%s", field->name) : false;
        if (!field || !(is_list(field) || field->kind == WEIR_WIRE_ARRAY))
            continue;
        size_t *count = &counts[field - table->fields];
        enum weir_wire_type single = wire_type(value_kind(field));
        if (type == WEIR_WIRE_BYTES && single == WEIR_WIRE_FIXED64)
            *count += (size_t)(value.end - value.at) / 8;
        else if (type == WEIR_WIRE_BYTES && single == WEIR_WIRE_VARINT)
            *count += weir_wire_count_varints(value);
        else
            *count += 1;
        if (field->max && *count > field->max)
            return weir_error_set(err, "%s: more than %u elements", field->name, field->max);
    }
    return true;
}

static bool read_message(const struct weir_wire_table *table, struct weir_wire_reader r, char *base,
                         struct block **arena, struct weir_error *err);

static bool read_string(const struct weir_wire_field *field, struct weir_wire_reader value, char *at,
                        struct block **arena, struct weir_error *err)
{
    size_t bytes = (size_t)(value.end - value.at);
    if (field->kind == WEIR_WIRE_STRING && bytes > field->max)
        return weir_error_set(err, "%zu bytes, where at most %u are allowed", bytes, field->max);
    if (bytes && memchr(value.at, 0, bytes))
        return weir_error_set(err, "a zero byte in a text");
    char *text = arena_take(arena, bytes + 1);
    if (bytes)
        memcpy(text, value.at, bytes);
    text[bytes] = 0;
    memcpy(at, &text, sizeof text);
    return true;
}

/* One value of `field` to `at`. */
static bool read_one(const struct weir_wire_field *field, struct weir_wire_reader *value, char *at,
                     struct block **arena, struct weir_error *err)
{
    uint8_t kind = value_kind(field);
    if (kind == WEIR_WIRE_STRING)
        return read_string(field, *value, at, arena, err);
    if (kind == WEIR_WIRE_PART)
        return read_message(field->part, *value, at, arena, err);
    uint64_t number;
    if (!read_number(value, kind, &number, err))
        return false;
    if (kind == WEIR_WIRE_ENUM) {
        if (!check_enum(field, number, err))
            return false;
        number -= field->bias;
    }
    store_number(at, kind, number);
    return true;
}

/* Elements of a list or an array, packed or one by one. `filled` counts on. */
static bool read_elements(const struct weir_wire_field *field, enum weir_wire_type type, struct weir_wire_reader value,
                          char *base, size_t *filled, struct block **arena, struct weir_error *err)
{
    char *elements = base + field->offset;
    size_t step = sizeof(double);
    if (field->kind != WEIR_WIRE_ARRAY) {
        memcpy(&elements, base + field->offset, sizeof elements);
        step = weir_wire_element_bytes(field);
    }
    bool packed = type == WEIR_WIRE_BYTES && wire_type(value_kind(field)) != WEIR_WIRE_BYTES;
    do {
        if (packed && value.at == value.end)
            return true;
        if (!read_one(field, &value, elements + *filled * step, arena, err))
            return weir_error_wrap(err, "[%zu]", *filled);
        ++*filled;
    } while (packed);
    return true;
}

static bool read_field(const struct weir_wire_field *field, enum weir_wire_type type, struct weir_wire_reader value,
                       char *base, size_t *filled, struct block **arena, struct weir_error *err)
{
    bool many = is_list(field) || field->kind == WEIR_WIRE_ARRAY;
    if (type != wire_type(value_kind(field)) && !(many && type == WEIR_WIRE_BYTES))
        return weir_error_set(err, "wire type %d does not suit it", (int)type);
    if (many)
        return read_elements(field, type, value, base, filled, arena, err);
    if (field->kind == WEIR_WIRE_PART && field->count)
        *(bool *)(base + field->count) = true;
    return read_one(field, &value, base + field->offset, arena, err);
}

/* What an absent field means, where it isn't zero bytes: "" for a text, room for lists. */
static void prepare(const struct weir_wire_table *table, char *base, const size_t *counts, struct block **arena)
{
    static const char empty[] = "";
    for (size_t i = 0; i < table->field_count; i++) {
        const struct weir_wire_field *field = &table->fields[i];
        const char *text = empty;
        if (field->kind == WEIR_WIRE_STRING)
            memcpy(base + field->offset, &text, sizeof text);
        if (field->kind == WEIR_WIRE_PART) {
            const size_t none[WEIR_WIRE_FIELDS_MAX] = {0};
            prepare(field->part, base + field->offset, none, arena);
        }
        if (!is_list(field) || !counts[i])
            continue;
        void *elements = arena_take(arena, counts[i] * weir_wire_element_bytes(field));
        memcpy(base + field->offset, &elements, sizeof elements);
        if (field->kind == WEIR_WIRE_LIST)
            memcpy(base + field->count, &counts[i], sizeof counts[i]);
    }
}

/* Absent enumerations are their zero, which none allows; lists with a count of their own must agree with it. */
static bool check_message(const struct weir_wire_table *table, const char *base, const size_t *counts, uint32_t seen,
                          struct weir_error *err)
{
    for (size_t i = 0; i < table->field_count; i++) {
        const struct weir_wire_field *field = &table->fields[i];
        if (field->kind == WEIR_WIRE_ENUM && !(seen & 1u << i) && !check_enum(field, 0, err))
            return weir_error_wrap(err, "%s", field->name);
        if (field->kind != WEIR_WIRE_SIZED)
            continue;
        uint32_t count;
        memcpy(&count, base + field->count, sizeof count);
        if (count != counts[i])
            return weir_error_set(err, "%s: %zu elements, but %u are announced", field->name, counts[i], count);
    }
    return true;
}

/* `base` is zeroed. Nesting is as deep as the tables, never deeper by what the bytes say. */
static bool read_message(const struct weir_wire_table *table, struct weir_wire_reader r, char *base,
                         struct block **arena, struct weir_error *err)
{
    size_t counts[WEIR_WIRE_FIELDS_MAX] = {0}, filled[WEIR_WIRE_FIELDS_MAX] = {0};
    uint32_t seen = 0;
    assert(table->field_count <= WEIR_WIRE_FIELDS_MAX);
    if (!count_elements(table, r, counts, err))
        return false;
    prepare(table, base, counts, arena);
    while (r.at < r.end) {
        uint32_t number;
        enum weir_wire_type type;
        struct weir_wire_reader value;
        if (!weir_wire_read_tag(&r, &number, &type, err) || !weir_wire_read_value(&r, type, &value, err))
            return false;
        const struct weir_wire_field *field = find_field(table, number);
        if (!field)
            continue;
        size_t i = (size_t)(field - table->fields);
        if (!read_field(field, type, value, base, &filled[i], arena, err))
            return weir_error_wrap(err, "%s", field->name);
        seen |= 1u << i;
    }
    for (size_t i = 0; i < table->field_count; i++)
        assert(filled[i] == counts[i]);
    return check_message(table, base, counts, seen, err);
}

bool weir_wire_read_body(uint32_t type, struct weir_wire_reader reader, struct weir_wire_frame *frame,
                         struct weir_error *err)
{
    const struct weir_wire_table *table = weir_wire_table(type);
    struct block *arena = NULL;
    memset(&frame->body, 0, sizeof frame->body);
    frame->body.type = (enum weir_message_type)type;
    char *base = (char *)&frame->body + offsetof(struct weir_message_body, hello);
    if (!read_message(table, reader, base, &arena, err)) {
        arena_free(arena);
        return weir_error_wrap(err, "%s", table->name);
    }
    frame->storage = arena;
    return true;
}

void weir_wire_frame_free(struct weir_wire_frame *frame)
{
    arena_free(frame->storage);
    frame->storage = NULL;
}
