#include "wire/wire.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "wire/table.h"

/* One walk serves to measure (`out` NULL) and to write, so the two can't disagree. */
struct writer {
    uint8_t *out;
    size_t bytes;
};

static void put(struct writer *w, const void *bytes, size_t count)
{
    if (w->out)
        memcpy(w->out + w->bytes, bytes, count);
    w->bytes += count;
}

static void put_varint(struct writer *w, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    put(w, bytes, count);
}

static void put_double(struct writer *w, uint64_t bits)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    put(w, bytes, sizeof bytes);
}

static void put_tag(struct writer *w, uint32_t number, enum weir_wire_type type)
{
    put_varint(w, number << 3 | type);
}

static uint32_t load_u32(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t load_u64(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static const char *load_pointer(const void *at)
{
    const char *value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void put_fields(struct writer *w, const struct weir_wire_table *table, const char *base);

static size_t measure(const struct weir_wire_table *table, const char *base)
{
    struct writer w = {0};
    put_fields(&w, table, base);
    return w.bytes;
}

static void put_part(struct writer *w, const struct weir_wire_field *field, const char *base, bool always)
{
    size_t bytes = measure(field->part, base);
    if (!bytes && !always)
        return;
    put_tag(w, field->number, WEIR_WIRE_BYTES);
    put_varint(w, bytes);
    put_fields(w, field->part, base);
}

/* A text longer than the reader takes is cut: better a short reason than none. */
static void put_string(struct writer *w, const struct weir_wire_field *field, const char *text, bool always)
{
    size_t bytes = text ? strlen(text) : 0;
    if (field->kind == WEIR_WIRE_STRING && bytes > field->max)
        bytes = field->max;
    if (!bytes && !always)
        return;
    put_tag(w, field->number, WEIR_WIRE_BYTES);
    put_varint(w, bytes);
    put(w, text, bytes);
}

static void put_numbers(struct writer *w, uint8_t kind, const char *at, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kind == WEIR_WIRE_U32)
            put_varint(w, load_u32(at + i * sizeof(uint32_t)));
        else if (kind == WEIR_WIRE_U64)
            put_varint(w, load_u64(at + i * sizeof(uint64_t)));
        else
            put_double(w, load_u64(at + i * sizeof(double)));
    }
}

/* Numbers in a row are packed, as proto3 has it. */
static void put_packed(struct writer *w, const struct weir_wire_field *field, uint8_t kind, const char *at,
                       size_t count)
{
    if (!count)
        return;
    struct writer size = {0};
    put_numbers(&size, kind, at, count);
    put_tag(w, field->number, WEIR_WIRE_BYTES);
    put_varint(w, size.bytes);
    put_numbers(w, kind, at, count);
}

static void put_list(struct writer *w, const struct weir_wire_field *field, const char *base)
{
    const char *at = load_pointer(base + field->offset);
    size_t count = field->kind == WEIR_WIRE_SIZED ? load_u32(base + field->count) : load_u64(base + field->count);
    if (field->element != WEIR_WIRE_PART && field->element != WEIR_WIRE_STRING) {
        put_packed(w, field, field->element, at, count);
        return;
    }
    size_t step = weir_wire_element_bytes(field);
    for (size_t i = 0; i < count; i++) {
        if (field->element == WEIR_WIRE_PART)
            put_part(w, field, at + i * step, true);
        else
            put_string(w, field, load_pointer(at + i * step), true);
    }
}

/* The array's zeros at the end need not be sent. -0.0 is no zero: bits count. */
static void put_array(struct writer *w, const struct weir_wire_field *field, const char *at)
{
    size_t count = field->max;
    while (count && load_u64(at + (count - 1) * sizeof(double)) == 0)
        count--;
    put_packed(w, field, WEIR_WIRE_DOUBLE, at, count);
}

static void put_number(struct writer *w, const struct weir_wire_field *field, uint64_t value)
{
    if (!value)
        return;
    put_tag(w, field->number, field->kind == WEIR_WIRE_DOUBLE ? WEIR_WIRE_FIXED64 : WEIR_WIRE_VARINT);
    if (field->kind == WEIR_WIRE_DOUBLE)
        put_double(w, value);
    else
        put_varint(w, value);
}

static void put_field(struct writer *w, const struct weir_wire_field *field, const char *base)
{
    const char *at = base + field->offset;
    switch ((enum weir_wire_kind)field->kind) {
    case WEIR_WIRE_U32:
        put_number(w, field, load_u32(at));
        break;
    case WEIR_WIRE_ENUM:
        put_number(w, field, (uint64_t)load_u32(at) + field->bias);
        break;
    case WEIR_WIRE_U64:
    case WEIR_WIRE_DOUBLE:
        put_number(w, field, load_u64(at));
        break;
    case WEIR_WIRE_BOOL:
        put_number(w, field, *at != 0);
        break;
    case WEIR_WIRE_STRING:
        put_string(w, field, load_pointer(at), false);
        break;
    case WEIR_WIRE_PART:
        if (!field->count || base[field->count])
            put_part(w, field, at, field->count != 0);
        break;
    case WEIR_WIRE_ARRAY:
        put_array(w, field, at);
        break;
    case WEIR_WIRE_LIST:
    case WEIR_WIRE_SIZED:
        put_list(w, field, base);
        break;
    }
}

static void put_fields(struct writer *w, const struct weir_wire_table *table, const char *base)
{
    for (size_t i = 0; i < table->field_count; i++)
        put_field(w, &table->fields[i], base);
}

static void put_frame(struct writer *w, const struct weir_message_body *body, uint64_t payload_bytes)
{
    const struct weir_wire_table *table = weir_wire_table(body->type);
    assert(table);
    const char *base = (const char *)body + offsetof(struct weir_message_body, hello);
    put_tag(w, body->type, WEIR_WIRE_BYTES);
    put_varint(w, measure(table, base));
    put_fields(w, table, base);
    if (payload_bytes) {
        put_tag(w, WEIR_WIRE_PAYLOAD_FIELD, WEIR_WIRE_BYTES);
        put_varint(w, payload_bytes);
    }
}

size_t weir_wire_encode(const struct weir_message_body *body, uint64_t payload_bytes, uint8_t **header)
{
    struct writer size = {0};
    put_frame(&size, body, payload_bytes);
    struct writer w = {.out = weir_alloc(size.bytes, 1, "a message's header")};
    put_frame(&w, body, payload_bytes);
    assert(w.bytes == size.bytes);
    *header = w.out;
    return w.bytes;
}
