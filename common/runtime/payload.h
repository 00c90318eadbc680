/* Received payloads: the slices of a message that belong to a tensor, kept where they arrived until nobody needs them.
 *
 * The handles that cores pass around are pointers to these. One owner at a time; nothing is copied.
 */
#ifndef WEIR_RUNTIME_PAYLOAD_H
#define WEIR_RUNTIME_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "transport/transport.h"

struct weir_payload {
    struct weir_message *message; /* one reference */
    uint64_t bytes;
    size_t slice_count;
    struct weir_slice slices[];
};

/* The part [offset, offset + bytes) of a message, which it refers to. */
struct weir_payload *weir_payload_new(struct weir_message *message, const struct weir_slice *slices, size_t slice_count,
                                      uint64_t offset, uint64_t bytes);
void weir_payload_free(struct weir_payload *payload);
/* Copies it into `out` (payload->bytes bytes), unless it lies there already: then nothing is copied. `past_caches`: see
 * weir_copy_past_caches. */
void weir_payload_read(const struct weir_payload *payload, void *out, bool past_caches);

static inline struct weir_payload *weir_payload_of(uint64_t handle)
{
    return (struct weir_payload *)(uintptr_t)handle;
}

#endif
