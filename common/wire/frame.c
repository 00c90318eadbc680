/* The outermost message, in slices as they arrived: finds body and payload without touching the payload's bytes. */
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/reader.h"
#include "wire/table.h"

#define FRAME_FIELDS_MAX 64 /* two are known; the rest is room for newer versions */

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

/* A field's tag and where its value begins and how long it is; the cursor then stands at the value. */
static bool next_field(struct cursor *c, uint32_t *number, enum weir_wire_type *type, uint64_t *bytes,
                       struct weir_error *err)
{
    uint8_t head[20];
    struct weir_wire_reader r = {head, head + peek(*c, head, sizeof head)};
    if (!weir_wire_read_tag(&r, number, type, err))
        return false;
    const uint8_t *start = r.at;
    uint64_t ignored;
    *bytes = *type == WEIR_WIRE_FIXED64 ? 8 : 4;
    if (*type == WEIR_WIRE_VARINT) {
        if (!weir_wire_read_varint(&r, &ignored, err))
            return false;
        *bytes = (uint64_t)(r.at - start);
        r.at = start;
    }
    if (*type == WEIR_WIRE_BYTES && !weir_wire_read_varint(&r, bytes, err))
        return false;
    skip(c, (uint64_t)(r.at - head));
    if (*bytes > c->total - c->offset)
        return weir_error_set(err, "field %u: cut off: %llu bytes announced, %llu left", *number,
                              (unsigned long long)*bytes, (unsigned long long)(c->total - c->offset));
    return true;
}

struct layout {
    uint32_t type; /* 0: no body yet */
    struct cursor body;
    uint64_t body_bytes;
    bool has_payload;
    uint64_t payload_offset, payload_bytes;
};

static bool scan_field(struct cursor *c, struct layout *layout, struct weir_error *err)
{
    uint32_t number;
    enum weir_wire_type type;
    uint64_t bytes;
    if (!next_field(c, &number, &type, &bytes, err))
        return false;
    bool body = weir_wire_table(number) != NULL;
    if ((body || number == WEIR_WIRE_PAYLOAD_FIELD) && type != WEIR_WIRE_BYTES)
        return weir_error_set(err, "field %u: wire type %d does not suit it", number, (int)type);
    if (body) {
        if (layout->type)
            return weir_error_set(err, "two bodies, %s and %s, in one frame", weir_wire_table(layout->type)->name,
                                  weir_wire_table(number)->name);
        layout->type = number;
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

bool weir_wire_decode(const struct weir_slice *slices, size_t slice_count, struct weir_wire_frame *frame,
                      struct weir_error *err)
{
    struct cursor c = cursor_at_start(slices, slice_count);
    struct layout layout = {0};
    for (int fields = 0; c.offset < c.total; fields++) {
        if (fields == FRAME_FIELDS_MAX)
            return weir_error_set(err, "bad message: more than %d fields in the frame", FRAME_FIELDS_MAX);
        if (!scan_field(&c, &layout, err))
            return weir_error_wrap(err, "bad message");
    }
    if (!layout.type)
        return weir_error_set(err, "bad message: no body that this version of weir knows");
    uint32_t limit = layout.type == WEIR_VIEW || layout.type == WEIR_HELLO ? WEIR_WIRE_BODY_MAX : WEIR_WIRE_HEADER_MAX;
    if (layout.body_bytes > limit)
        return weir_error_set(err, "bad message: %s of %llu bytes; at most %u are allowed",
                              weir_wire_table(layout.type)->name, (unsigned long long)layout.body_bytes, limit);
    uint8_t small[256];
    size_t bytes = (size_t)layout.body_bytes;
    uint8_t *flat = bytes <= sizeof small ? small : weir_alloc(bytes, 1, "a received message's header");
    peek(layout.body, flat, bytes);
    struct weir_wire_reader reader = {flat, flat + bytes};
    bool good = weir_wire_read_body(layout.type, reader, frame, err);
    if (flat != small)
        free(flat);
    if (!good)
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
