#include "wire/reader.h"

bool weir_wire_read_varint(struct weir_wire_reader *r, uint64_t *value, struct weir_error *err)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (r->at == r->end)
            return weir_error_set(err, "cut off in a number");
        uint8_t byte = *r->at++;
        if (shift == 63 && byte > 1)
            break;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return weir_error_set(err, "a number of more than 64 bits");
}

bool weir_wire_read_fixed64(struct weir_wire_reader *r, uint64_t *value, struct weir_error *err)
{
    if (r->end - r->at < 8)
        return weir_error_set(err, "cut off in a number");
    *value = 0;
    for (int i = 0; i < 8; i++)
        *value |= (uint64_t)*r->at++ << (8 * i);
    return true;
}

bool weir_wire_read_tag(struct weir_wire_reader *r, uint32_t *number, enum weir_wire_type *type, struct weir_error *err)
{
    uint64_t tag;
    if (!weir_wire_read_varint(r, &tag, err))
        return false;
    if (tag >> 3 == 0 || tag > UINT32_MAX)
        return weir_error_set(err, "field number %llu", (unsigned long long)(tag >> 3));
    uint32_t wire = tag & 7;
    if (wire != WEIR_WIRE_VARINT && wire != WEIR_WIRE_FIXED64 && wire != WEIR_WIRE_BYTES && wire != WEIR_WIRE_FIXED32)
        return weir_error_set(err, "wire type %u is none", wire);
    *number = (uint32_t)(tag >> 3);
    *type = (enum weir_wire_type)wire;
    return true;
}

bool weir_wire_read_value(struct weir_wire_reader *r, enum weir_wire_type type, struct weir_wire_reader *value,
                          struct weir_error *err)
{
    uint64_t bytes = type == WEIR_WIRE_FIXED64 ? 8 : 4;
    value->at = r->at;
    if (type == WEIR_WIRE_VARINT) {
        uint64_t ignored;
        if (!weir_wire_read_varint(r, &ignored, err))
            return false;
        value->end = r->at;
        return true;
    }
    if (type == WEIR_WIRE_BYTES && !weir_wire_read_varint(r, &bytes, err))
        return false;
    if (bytes > (uint64_t)(r->end - r->at))
        return weir_error_set(err, "cut off: %llu bytes announced, %llu left", (unsigned long long)bytes,
                              (unsigned long long)(r->end - r->at));
    value->at = r->at;
    r->at += bytes;
    value->end = r->at;
    return true;
}

size_t weir_wire_count_varints(struct weir_wire_reader r)
{
    size_t count = 0;
    bool torn = false;
    for (; r.at < r.end; r.at++) {
        torn = (*r.at & 0x80) != 0;
        count += !torn;
    }
    return count + torn;
}
