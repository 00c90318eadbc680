/* Messages to protobuf bytes and back, by the code that protoc-c makes of proto/weir.proto.
 *
 * The payload is the last field of the protobuf message `Frame` (bytes payload = 15), and the only thing here that
 * protobuf-c never sees. So a sender puts a short header, which ends with the payload's tag and length, before the
 * tensor's own memory, and a receiver finds the payload in the received slices without touching it. A client that
 * writes the payload elsewhere, or the fields in another order, is understood as well.
 */
#ifndef WEIR_WIRE_WIRE_H
#define WEIR_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "protocol/message.h"
#include "wire/store.h"

#define WEIR_WIRE_HEADER_MAX (1u << 20) /* of a received header, View and Hello aside */
#define WEIR_WIRE_BODY_MAX (16u << 20)  /* of a received View or Hello */

/* Memory for a received message: so many bytes, and so many for each byte of its body (a chunk of a View is 8 bytes or
 * more on the wire, and about 180 here), but never more than the most. */
#define WEIR_WIRE_MEMORY_LEAST ((size_t)1 << 20)
#define WEIR_WIRE_MEMORY_RATIO ((size_t)48)
#define WEIR_WIRE_MEMORY_MAX ((size_t)256 << 20)

/* Writes the header for `body` and a payload of `payload_bytes`. *header is malloc'ed: free() it. Never fails: sizes
 * are bounded by what is encoded; texts longer than proto/weir.proto allows are cut. */
size_t weir_wire_encode(const struct weir_message_body *body, uint64_t payload_bytes, uint8_t **header);

/* A decoded message: `body` and what its pointers point at, which may stand in the frame itself: don't copy one. */
struct weir_wire_frame {
    struct weir_message_body body;
    uint64_t payload_offset, payload_bytes; /* where the payload stands in the message; bytes 0: there is none */
    struct weir_wire_store store;
};

/* Decodes a received message (`slices`, any cuts). Untrusted: whatever the bytes are, it answers true, or false with
 * what is wrong; counts, lengths and enumerations are checked; memory is bounded as said above. Pointers into `slices`
 * are not kept. Free with weir_wire_frame_free after true. */
bool weir_wire_decode(const struct weir_slice *slices, size_t slice_count, struct weir_wire_frame *frame,
                      struct weir_error *err);
void weir_wire_frame_free(struct weir_wire_frame *frame);

/* The slices of [offset, offset + bytes) of `slices`, into out (room for slice_count): how the payload is taken.
 * Returns their number. */
size_t weir_wire_cut(const struct weir_slice *slices, size_t slice_count, uint64_t offset, uint64_t bytes,
                     struct weir_slice *out);

#endif
