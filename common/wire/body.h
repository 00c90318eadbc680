/* The inside of a frame. Private to wire/. */
#ifndef WEIR_WIRE_BODY_H
#define WEIR_WIRE_BODY_H

#include "weir.pb-c.h"
#include "wire/wire.h"

/* The frame's field `number` if it is a body (its `name` and `descriptor` are the message's), else NULL. */
const ProtobufCFieldDescriptor *weir_wire_find_body(uint32_t number);

/* Reads the contiguous bytes of a body, of which nothing is kept, into frame->body; its pointers point into
 * frame->store, which is given back on failure. */
bool weir_wire_read_body(const ProtobufCFieldDescriptor *field, const uint8_t *bytes, size_t count,
                         struct weir_wire_frame *frame, struct weir_error *err);

#endif
