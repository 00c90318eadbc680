#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "transport/grpc_internal.h"

/* Frame.closing of proto/weir.proto: field 16, length-delimited. A client has no other way to say why it ends a
 * stream (HTTP/2 lets only servers send trailers). */
static const uint8_t goodbye_tag[2] = {0x82, 0x01};
#define GOODBYE_TEXT_MAX 127 /* its length is one byte */

/* ---- outgoing */

/* The caller's memory: given back when the last slice that points at it is gone. */
struct loan {
    atomic_size_t references;
    void (*release)(void *context);
    void *context;
};

static void loan_unref(void *argument)
{
    struct loan *loan = argument;
    if (atomic_fetch_sub_explicit(&loan->references, 1, memory_order_acq_rel) != 1)
        return;
    loan->release(loan->context);
    free(loan);
}

static struct weir_grpc_outgoing *outgoing_start(const void *header, size_t bytes)
{
    struct weir_grpc_outgoing *out = weir_alloc(1, sizeof *out, "an outgoing message");
    out->buffer = grpc_raw_byte_buffer_create(NULL, 0);
    if (bytes)
        grpc_slice_buffer_add(&out->buffer->data.raw.slice_buffer, grpc_slice_from_copied_buffer(header, bytes));
    out->bytes = bytes;
    return out;
}

struct weir_grpc_outgoing *weir_grpc_outgoing_new(const struct weir_outgoing *outgoing)
{
    struct weir_grpc_outgoing *out = outgoing_start(outgoing->header, outgoing->header_bytes);
    out->more = outgoing->more;
    if (!outgoing->release)
        return out;
    struct loan *loan = weir_alloc(1, sizeof *loan, "an outgoing message");
    atomic_init(&loan->references, 1);
    loan->release = outgoing->release;
    loan->context = outgoing->release_context;
    for (size_t i = 0; i < outgoing->payload_count; i++) {
        const struct weir_slice *slice = &outgoing->payload[i];
        if (!slice->count)
            continue;
        atomic_fetch_add_explicit(&loan->references, 1, memory_order_relaxed);
        grpc_slice_buffer_add(&out->buffer->data.raw.slice_buffer,
                              grpc_slice_new_with_user_data((void *)slice->bytes, slice->count, loan_unref, loan));
        out->bytes += slice->count;
    }
    loan_unref(loan); /* without payload bytes: at once */
    return out;
}

struct weir_grpc_outgoing *weir_grpc_goodbye_new(const char *reason)
{
    uint8_t frame[sizeof goodbye_tag + 1 + GOODBYE_TEXT_MAX];
    size_t bytes = strnlen(reason, GOODBYE_TEXT_MAX);
    memcpy(frame, goodbye_tag, sizeof goodbye_tag);
    frame[sizeof goodbye_tag] = (uint8_t)bytes;
    memcpy(frame + sizeof goodbye_tag + 1, reason, bytes);
    struct weir_grpc_outgoing *out = outgoing_start(frame, sizeof goodbye_tag + 1 + bytes);
    out->goodbye = true;
    return out;
}

void weir_grpc_outgoing_free(struct weir_grpc_outgoing *outgoing)
{
    grpc_byte_buffer_destroy(outgoing->buffer);
    free(outgoing);
}

/* ---- received */

struct received {
    struct weir_message base;
    grpc_byte_buffer *buffer;
};

struct weir_message *weir_grpc_message_new(grpc_byte_buffer *buffer)
{
    struct received *message = weir_alloc(1, sizeof *message, "a received message");
    message->base.ops = &weir_grpc_ops;
    atomic_init(&message->base.references, 1);
    message->base.bytes = grpc_byte_buffer_length(buffer);
    message->buffer = buffer;
    return &message->base;
}

size_t weir_grpc_message_slices(const struct weir_message *message, struct weir_slice *slices, size_t max)
{
    const grpc_slice_buffer *from = &((const struct received *)message)->buffer->data.raw.slice_buffer;
    for (size_t i = 0; i < from->count && i < max; i++)
        slices[i] = (struct weir_slice){GRPC_SLICE_START_PTR(from->slices[i]), GRPC_SLICE_LENGTH(from->slices[i])};
    return from->count;
}

void weir_grpc_message_free(struct weir_message *message)
{
    struct received *received = (struct received *)message;
    grpc_byte_buffer_destroy(received->buffer);
    free(received);
}

static void copy_text(char *out, size_t room, const uint8_t *text, size_t bytes)
{
    if (bytes >= room)
        bytes = room - 1;
    memcpy(out, text, bytes);
    weir_text_disarm(out, bytes);
    out[bytes] = 0;
}

bool weir_grpc_is_goodbye(const grpc_byte_buffer *buffer, char *reason, size_t room)
{
    uint8_t frame[sizeof goodbye_tag + 1 + GOODBYE_TEXT_MAX];
    const grpc_slice_buffer *from = &buffer->data.raw.slice_buffer;
    const size_t head = sizeof goodbye_tag + 1;
    if (from->length < head || from->length > sizeof frame)
        return false;
    size_t bytes = 0;
    for (size_t i = 0; i < from->count; i++) {
        memcpy(frame + bytes, GRPC_SLICE_START_PTR(from->slices[i]), GRPC_SLICE_LENGTH(from->slices[i]));
        bytes += GRPC_SLICE_LENGTH(from->slices[i]);
    }
    if (memcmp(frame, goodbye_tag, sizeof goodbye_tag) || frame[head - 1] != bytes - head)
        return false;
    copy_text(reason, room, frame + head, bytes - head);
    return true;
}

/* ---- names and texts */

const char *weir_grpc_method(uint32_t channel)
{
    static const char *const names[WEIR_CHANNELS_MAX] = {
        "/weir.Weir/Control", "/weir.Weir/Lane0", "/weir.Weir/Lane1", "/weir.Weir/Lane2", "/weir.Weir/Lane3",
        "/weir.Weir/Lane4",   "/weir.Weir/Lane5", "/weir.Weir/Lane6", "/weir.Weir/Lane7",
    };
    return names[channel];
}

#define LIMIT_KEY "weir-limit"

grpc_metadata weir_grpc_limit_entry(size_t limit, char text[24])
{
    snprintf(text, 24, "%zu", limit);
    grpc_metadata entry;
    memset(&entry, 0, sizeof entry);
    entry.key = grpc_slice_from_static_string(LIMIT_KEY);
    entry.value = grpc_slice_from_copied_string(text);
    return entry;
}

size_t weir_grpc_read_limit(const grpc_metadata_array *metadata)
{
    for (size_t i = 0; i < metadata->count; i++) {
        const grpc_metadata *entry = &metadata->metadata[i];
        if (grpc_slice_str_cmp(entry->key, LIMIT_KEY))
            continue;
        const uint8_t *digit = GRPC_SLICE_START_PTR(entry->value);
        size_t count = GRPC_SLICE_LENGTH(entry->value), value = 0;
        for (size_t d = 0; d < count && d < 18; d++)
            value = value * 10 + (digit[d] >= '0' && digit[d] <= '9' ? (size_t)(digit[d] - '0') : 0);
        return value;
    }
    return 0;
}

void weir_grpc_peer(grpc_call *call, char *text, size_t room)
{
    char *peer = grpc_call_get_peer(call);
    size_t used = 0;
    for (const char *at = peer; *at && used + 1 < room; at++) { /* gRPC writes [ and ] as in a URL */
        bool bracket = at[0] == '%' && at[1] == '5' && (at[2] == 'B' || at[2] == 'D');
        text[used++] = bracket ? (at[2] == 'B' ? '[' : ']') : *at;
        at += bracket ? 2 : 0;
    }
    text[used] = 0;
    gpr_free(peer);
}

/* "... larger than max (SIZE vs. LIMIT)" in our words. */
static bool explain_size(const char *text, char *reason, size_t room)
{
    const char *size = strstr(text, "larger than max (");
    const char *limit = size ? strstr(size, " vs. ") : NULL;
    if (!limit)
        return false;
    size += strlen("larger than max (");
    limit += strlen(" vs. ");
    snprintf(reason, room, "message of %.*s bytes exceeds the limit of %.*s bytes", (int)strspn(size, "0123456789"),
             size, (int)strspn(limit, "0123456789"), limit);
    return true;
}

/* gRPC's texts, of which the middle says what happened, in our words. */
void weir_grpc_explain(grpc_status_code status, grpc_slice details, char *reason, size_t room)
{
    static const struct {
        const char *theirs, *ours;
    } known[] = {
        {"Connection refused", "connection refused"},
        {"DNS resolution failed", "host not found"},
        {"No route to host", "no route to host"},
        {"Network is unreachable", "network is unreachable"},
        {"Connection timed out", "timed out"},
        {"connection attempt timed out", "timed out"},
        {"Connection reset by peer", "connection lost (reset by the peer)"},
        {"Broken pipe", "connection lost"},
        {"Socket closed", "connection lost (closed by the peer)"},
        {"keepalive", "connection lost (the peer does not answer)"},
        {"Cancelling all calls", "the server stopped"},
        {"Server shutdown", "the server stopped"},
    };
    char text[1024];
    copy_text(text, sizeof text, GRPC_SLICE_START_PTR(details), GRPC_SLICE_LENGTH(details));
    if (status == GRPC_STATUS_OK) {
        snprintf(reason, room, "finished by the peer");
    } else if (status == GRPC_STATUS_ABORTED) { /* weir_stream_close of the server */
        snprintf(reason, room, "%s", text[0] ? text : "closed by the peer");
    } else if (!explain_size(text, reason, room)) {
        snprintf(reason, room, "%s (gRPC status %d)", text[0] ? text : "the call failed", (int)status);
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (status == GRPC_STATUS_UNAVAILABLE && strstr(text, known[i].theirs)) {
                snprintf(reason, room, "%s", known[i].ours);
                break;
            }
    }
}
