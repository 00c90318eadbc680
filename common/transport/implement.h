/* What an implementation of transport.h provides. Private to transport/.
 *
 * Objects of an implementation begin with the structures below, and transport.c finds the functions through them. So
 * several implementations live side by side in one process.
 */
#ifndef WEIR_TRANSPORT_IMPLEMENT_H
#define WEIR_TRANSPORT_IMPLEMENT_H

#include <stdatomic.h>

#include "transport/transport.h"

struct weir_transport_ops {
    void (*transport_free)(struct weir_transport *transport);
    struct weir_poller *(*poller_new)(struct weir_transport *transport);
    void (*poller_free)(struct weir_poller *poller);
    void (*poller_wait)(struct weir_poller *poller, uint64_t deadline_ns, struct weir_transport_event *event);
    void (*poller_wake)(struct weir_poller *poller);
    struct weir_server *(*server_start)(struct weir_transport *transport, const struct weir_server_options *options,
                                        struct weir_error *err);
    void (*server_stop)(struct weir_server *server);
    struct weir_stream *(*stream_connect)(struct weir_poller *poller, const char *address, uint32_t channel,
                                          size_t message_limit_bytes, uint32_t timeout_ms);
    void (*stream_send)(struct weir_stream *stream, const struct weir_outgoing *outgoing);
    void (*stream_close)(struct weir_stream *stream, const char *reason);
    void (*stream_finish)(struct weir_stream *stream);
    void (*stream_free)(struct weir_stream *stream);
    size_t (*message_slices)(const struct weir_message *message, struct weir_slice *slices, size_t max);
    void (*message_free)(struct weir_message *message);
};

struct weir_transport {
    const struct weir_transport_ops *ops;
    atomic_uint_fast64_t sent, received;
};

struct weir_poller {
    struct weir_transport *transport;
};

struct weir_server {
    struct weir_transport *transport;
    uint16_t port;
};

struct weir_stream {
    struct weir_transport *transport;
    void *user;
    char peer[128];
};

struct weir_message {
    const struct weir_transport_ops *ops;
    atomic_uint references;
    size_t bytes;
};

/* "host:port" or "[ipv6]:port", port 0 to 65535. */
struct weir_address {
    char host[256]; /* without brackets */
    uint16_t port;
};
bool weir_address_parse(const char *text, struct weir_address *address, struct weir_error *err);

#endif
