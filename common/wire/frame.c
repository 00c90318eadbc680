/* The outermost message, in slices as they arrived: finds body and payload without touching the payload's bytes. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/body.h"
#include "wire/fields.h"

#define FRAME_FIELDS_MAX 64 /* two are known; the rest is room for newer versions */
#define VARINT_BYTES 10

struct cursor {
    const struct weir_slice *slices;
    size_t count;
    size_t slice, inside; /* the next byte */
    uint64_t offset;      /* the same, from the message's start */
    uint64_t total;
};

static struct cursor cursor_at_start(const struct weir_slice *slices, size_t count)
{
    struct cursor c = {.slices = slices, .count = count};
    for (size_t i = 0; i < count; i++)
        c.total += slices[i].count;
    return c;
}

static void skip(struct cursor *c, uint64_t bytes)
{
    c->offset += bytes;
    while (c->slice < c->count && bytes >= c->slices[c->slice].count - c->inside) {
        bytes -= c->slices[c->slice].count - c->inside;
        c->slice++;
        c->inside = 0;
    }
    c->inside += bytes;
}

/* At most `bytes` of what follows, without moving on. */
static size_t peek(struct cursor c, uint8_t *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes && c.slice < c.count) {
        size_t here = c.slices[c.slice].count - c.inside;
        if (here > bytes - done)
            here = bytes - done;
        if (here)
            memcpy(out + done, (const uint8_t *)c.slices[c.slice].bytes + c.inside, here);
        done += here;
        skip(&c, here);
    }
    return done;
}

/* The number at the cursor, which moves on. */
static bool next_varint(struct cursor *c, uint64_t *value, struct weir_error *err)
{
    uint8_t bytes[VARINT_BYTES];
    size_t there = peek(*c, bytes, sizeof bytes);
    *value = 0;
    for (size_t i = 0; i < there; i++) {
        *value |= (uint64_t)(bytes[i] & 0x7f) << (7 * i);
        if (bytes[i] & 0x80)
            continue;
        skip(c, i + 1);
        return true;
    }
    return weir_error_set(err, there == sizeof bytes ? "a number of more than 64 bits" : "cut off in a number");
}

/* A field's tag and how long its value is, where the cursor then stands. */
static bool next_field(struct cursor *c, uint32_t *number, uint32_t *type, uint64_t *bytes, struct weir_error *err)
{
    uint64_t tag, ignored;
    if (!next_varint(c, &tag, err))
        return false;
    if (tag >> 3 == 0 || tag > UINT32_MAX)
        return weir_error_set(err, "field number %llu", (unsigned long long)(tag >> 3));
    *number = (uint32_t)(tag >> 3);
    *type = (uint32_t)(tag & 7);
    struct cursor after = *c;
    switch (*type) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        if (!next_varint(&after, &ignored, err))
            return false;
        *bytes = after.offset - c->offset;
        break;
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        *bytes = 8;
        break;
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        *bytes = 4;
        break;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!next_varint(c, bytes, err))
            return false;
        break;
    default:
        return weir_error_set(err, "field %u: wire type %u is none", *number, *type);
    }
    if (*bytes > c->total - c->offset)
        return weir_error_set(err, "field %u: cut off: %llu bytes announced, %llu left", *number,
                              (unsigned long long)*bytes, (unsigned long long)(c->total - c->offset));
    return true;
}

struct layout {
    const ProtobufCFieldDescriptor *type; /* NULL: no body yet */
    struct cursor body;
    uint64_t body_bytes;
    bool has_payload;
    uint64_t payload_offset, payload_bytes;
};

static bool scan_field(struct cursor *c, struct layout *layout, struct weir_error *err)
{
    uint32_t number = 0, type = 0;
    uint64_t bytes = 0;
    if (!next_field(c, &number, &type, &bytes, err))
        return false;
    const ProtobufCFieldDescriptor *body = weir_wire_find_body(number);
    if ((body || number == WEIR_WIRE_PAYLOAD_FIELD) && type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
        return weir_error_set(err, "field %u: wire type %u does not suit it", number, type);
    if (body) {
        if (layout->type)
            return weir_error_set(err, "two bodies, %s and %s, in one frame", layout->type->name, body->name);
        layout->type = body;
        layout->body = *c;
        layout->body_bytes = bytes;
    } else if (number == WEIR_WIRE_PAYLOAD_FIELD) {
        if (layout->has_payload)
            return weir_error_set(err, "two payloads in one frame");
        layout->has_payload = true;
        layout->payload_offset = c->offset;
        layout->payload_bytes = bytes;
    }
    skip(c, bytes);
    return true;
}

/* Where body and payload stand. */
static bool scan_frame(struct cursor c, struct layout *layout, struct weir_error *err)
{
    for (int fields = 0; c.offset < c.total; fields++) {
        if (fields == FRAME_FIELDS_MAX)
            return weir_error_set(err, "more than %d fields in the frame", FRAME_FIELDS_MAX);
        if (!scan_field(&c, layout, err))
            return false;
    }
    if (!layout->type)
        return weir_error_set(err, "no body that this version of weir knows");
    bool large = layout->type->id == WEIR_VIEW || layout->type->id == WEIR_HELLO;
    uint32_t limit = large ? WEIR_WIRE_BODY_MAX : WEIR_WIRE_HEADER_MAX;
    if (layout->body_bytes > limit)
        return weir_error_set(err, "%s of %llu bytes; at most %u are allowed", layout->type->name,
                              (unsigned long long)layout->body_bytes, limit);
    return true;
}

/* Most bodies lie in one slice, and are read there. */
static bool read_body(const struct layout *layout, struct weir_wire_frame *frame, struct weir_error *err)
{
    const struct cursor *c = &layout->body;
    size_t bytes = (size_t)layout->body_bytes;
    if (c->slice < c->count && c->slices[c->slice].count - c->inside >= bytes)
        return weir_wire_read_body(layout->type, (const uint8_t *)c->slices[c->slice].bytes + c->inside, bytes, frame,
                                   err);
    uint8_t *flat = weir_alloc(bytes, 1, "a received message's header");
    peek(*c, flat, bytes);
    bool good = weir_wire_read_body(layout->type, flat, bytes, frame, err);
    free(flat);
    return good;
}

bool weir_wire_decode(const struct weir_slice *slices, size_t slice_count, struct weir_wire_frame *frame,
                      struct weir_error *err)
{
    struct layout layout = {0};
    if (!scan_frame(cursor_at_start(slices, slice_count), &layout, err) || !read_body(&layout, frame, err))
        return weir_error_wrap(err, "bad message");
    frame->payload_offset = layout.payload_offset;
    frame->payload_bytes = layout.payload_bytes;
    return true;
}

size_t weir_wire_cut(const struct weir_slice *slices, size_t slice_count, uint64_t offset, uint64_t bytes,
                     struct weir_slice *out)
{
    struct cursor c = cursor_at_start(slices, slice_count);
    size_t count = 0;
    if (offset > c.total)
        return 0;
    skip(&c, offset);
    while (bytes && c.slice < c.count) {
        size_t here = c.slices[c.slice].count - c.inside;
        if (here > bytes)
            here = (size_t)bytes;
        if (here)
            out[count++] =
                (struct weir_slice){.bytes = (const uint8_t *)c.slices[c.slice].bytes + c.inside, .count = here};
        bytes -= here;
        skip(&c, here);
    }
    return count;
}
