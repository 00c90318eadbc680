/* Protobuf's primitives over contiguous bytes that nobody vouches for. Private to wire/. */
#ifndef WEIR_WIRE_READER_H
#define WEIR_WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/table.h"
#include "wire/wire.h"

struct weir_wire_reader {
    const uint8_t *at, *end;
};

bool weir_wire_read_varint(struct weir_wire_reader *r, uint64_t *value, struct weir_error *err);
bool weir_wire_read_fixed64(struct weir_wire_reader *r, uint64_t *value, struct weir_error *err);
/* Field numbers are 1 to 2^29 - 1; groups are refused. */
bool weir_wire_read_tag(struct weir_wire_reader *r, uint32_t *number, enum weir_wire_type *type,
                        struct weir_error *err);
/* Steps over a value: `value` covers its bytes (of WEIR_WIRE_BYTES: without the length). */
bool weir_wire_read_value(struct weir_wire_reader *r, enum weir_wire_type type, struct weir_wire_reader *value,
                          struct weir_error *err);
/* Numbers in packed bytes (a torn one at the end counts too). */
size_t weir_wire_count_varints(struct weir_wire_reader r);

/* The body `type` (a valid one) of a frame: fills frame->body and storage. */
bool weir_wire_read_body(uint32_t type, struct weir_wire_reader reader, struct weir_wire_frame *frame,
                         struct weir_error *err);

#endif
