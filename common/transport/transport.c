#include "transport/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "transport/implement.h"

void weir_transport_free(struct weir_transport *transport)
{
    if (transport)
        transport->ops->transport_free(transport);
}

void weir_transport_bytes(const struct weir_transport *transport, uint64_t *sent, uint64_t *received)
{
    *sent = atomic_load_explicit(&transport->sent, memory_order_relaxed);
    *received = atomic_load_explicit(&transport->received, memory_order_relaxed);
}

struct weir_poller *weir_poller_new(struct weir_transport *transport)
{
    return transport->ops->poller_new(transport);
}

void weir_poller_free(struct weir_poller *poller)
{
    if (poller)
        poller->transport->ops->poller_free(poller);
}

void weir_poller_wait(struct weir_poller *poller, uint64_t deadline_ns, struct weir_transport_event *event)
{
    event->type = WEIR_EVENT_NONE; /* the reason's 256 bytes are written only where there is one */
    event->stream = NULL;
    event->server = NULL;
    event->channel = 0;
    event->message = NULL;
    event->reason[0] = 0;
    poller->transport->ops->poller_wait(poller, deadline_ns, event);
}

void weir_poller_wake(struct weir_poller *poller)
{
    poller->transport->ops->poller_wake(poller);
}

struct weir_server *weir_server_start(struct weir_transport *transport, const struct weir_server_options *options,
                                      struct weir_error *err)
{
    return transport->ops->server_start(transport, options, err);
}

uint16_t weir_server_port(const struct weir_server *server)
{
    return server->port;
}

void weir_server_stop(struct weir_server *server)
{
    server->transport->ops->server_stop(server);
}

struct weir_stream *weir_stream_connect(struct weir_poller *poller, const char *address, uint32_t channel,
                                        size_t message_limit_bytes, uint32_t timeout_ms)
{
    assert(channel < WEIR_CHANNELS_MAX);
    return poller->transport->ops->stream_connect(poller, address, channel, message_limit_bytes, timeout_ms);
}

void weir_stream_send(struct weir_stream *stream, const struct weir_outgoing *outgoing)
{
    assert(outgoing->release || !outgoing->payload_count);
    stream->transport->ops->stream_send(stream, outgoing);
}

void weir_stream_close(struct weir_stream *stream, const char *reason)
{
    stream->transport->ops->stream_close(stream, reason);
}

void weir_stream_finish(struct weir_stream *stream)
{
    stream->transport->ops->stream_finish(stream);
}

void weir_stream_free(struct weir_stream *stream)
{
    if (stream)
        stream->transport->ops->stream_free(stream);
}

void weir_stream_set_user(struct weir_stream *stream, void *user)
{
    stream->user = user;
}

void *weir_stream_user(const struct weir_stream *stream)
{
    return stream->user;
}

const char *weir_stream_peer(const struct weir_stream *stream)
{
    return stream->peer;
}

size_t weir_message_bytes(const struct weir_message *message)
{
    return message->bytes;
}

size_t weir_message_slices(const struct weir_message *message, struct weir_slice *slices, size_t max)
{
    return message->ops->message_slices(message, slices, max);
}

struct weir_message *weir_message_ref(struct weir_message *message)
{
    atomic_fetch_add_explicit(&message->references, 1, memory_order_relaxed);
    return message;
}

void weir_message_unref(struct weir_message *message)
{
    if (message && atomic_fetch_sub_explicit(&message->references, 1, memory_order_acq_rel) == 1)
        message->ops->message_free(message);
}

bool weir_address_parse(const char *text, struct weir_address *address, struct weir_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *host = text;
    size_t bytes = colon ? (size_t)(colon - text) : 0;
    uint64_t port = 0;
    if (!bytes || !weir_number_parse(colon + 1, 0, UINT16_MAX, &port))
        return weir_error_set(err, "\"%s\" is not host:port with a port of 0 to 65535", text);
    address->port = (uint16_t)port;
    if (*host == '[' && host[bytes - 1] == ']') {
        host++;
        bytes -= 2;
    } else if (memchr(host, ':', bytes)) {
        return weir_error_set(err, "\"%s\": an IPv6 address needs brackets: [::1]:2222", text);
    }
    if (!bytes || bytes >= sizeof address->host)
        return weir_error_set(err, "\"%s\": the host is empty or longer than %zu bytes", text,
                              sizeof address->host - 1);
    memcpy(address->host, host, bytes);
    address->host[bytes] = 0;
    return true;
}
