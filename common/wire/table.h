/* The messages of proto/weir.proto as data: where each field stands in its C structure and what values it may have.
 * Encoder and decoder walk these tables, so a new field is one row. Private to wire/ and its tests.
 */
#ifndef WEIR_WIRE_TABLE_H
#define WEIR_WIRE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

#define WEIR_WIRE_PAYLOAD_FIELD 15
#define WEIR_WIRE_FIELDS_MAX 16 /* fields of one message */

enum weir_wire_type { WEIR_WIRE_VARINT = 0, WEIR_WIRE_FIXED64 = 1, WEIR_WIRE_BYTES = 2, WEIR_WIRE_FIXED32 = 5 };

enum weir_wire_kind {
    WEIR_WIRE_U32,
    WEIR_WIRE_U64,
    WEIR_WIRE_BOOL,
    WEIR_WIRE_ENUM,
    WEIR_WIRE_DOUBLE,
    WEIR_WIRE_STRING,
    WEIR_WIRE_PART,  /* a message inside its parent's structure */
    WEIR_WIRE_ARRAY, /* doubles in an array of `max`, which stands in the structure; missing ones are 0 */
    WEIR_WIRE_LIST,  /* pointer at `offset`, size_t count at `count`; elements of kind `element` */
    WEIR_WIRE_SIZED, /* the same, but the count is a uint32_t that is a field of its own: both must agree */
};

struct weir_wire_table;

struct weir_wire_field {
    const char *name;
    uint8_t number;
    uint8_t kind;    /* enum weir_wire_kind */
    uint8_t element; /* LIST, SIZED: U32, U64, DOUBLE, STRING or PART */
    uint8_t low;     /* ENUM: the least value on the wire ... */
    uint8_t high;    /* ... the largest ... */
    uint8_t bias;    /* ... and what the wire's value is above C's */
    uint16_t offset; /* in the structure of the message */
    uint16_t count;  /* LIST, SIZED: of its number; PART: of the bool that says that it is there, 0: it always is */
    uint32_t max;    /* STRING: bytes without the zero byte; ARRAY, LIST: elements, 0: no limit but the message's */
    const struct weir_wire_table *part;
};

struct weir_wire_table {
    const char *name;
    size_t bytes; /* of the structure */
    const struct weir_wire_field *fields;
    size_t field_count;
};

/* The table of a message type, NULL for a number that is none. */
const struct weir_wire_table *weir_wire_table(uint32_t type);

/* Bytes of one element of a list, in C. */
size_t weir_wire_element_bytes(const struct weir_wire_field *field);

#endif
