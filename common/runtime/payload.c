#include "runtime/payload.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/wire.h"

struct weir_payload *weir_payload_new(struct weir_message *message, const struct weir_slice *slices, size_t slice_count,
                                      uint64_t offset, uint64_t bytes)
{
    struct weir_payload *payload =
        weir_alloc(1, sizeof *payload + slice_count * sizeof(struct weir_slice), "a received payload");
    payload->message = weir_message_ref(message);
    payload->bytes = bytes;
    payload->slice_count = weir_wire_cut(slices, slice_count, offset, bytes, payload->slices);
    return payload;
}

void weir_payload_free(struct weir_payload *payload)
{
    if (!payload)
        return;
    weir_message_unref(payload->message);
    free(payload);
}

static void copy(void *to, const struct weir_slice *slice, bool past_caches)
{
    if (past_caches)
        weir_copy_past_caches(to, slice->bytes, slice->count);
    else
        memcpy(to, slice->bytes, slice->count);
}

void weir_payload_read(const struct weir_payload *payload, void *out, bool past_caches)
{
    char *to = out;
    for (size_t i = 0; i < payload->slice_count; i++) {
        if (payload->slices[i].bytes != to)
            copy(to, &payload->slices[i], past_caches);
        to += payload->slices[i].count;
    }
}
