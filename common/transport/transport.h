/* Streams of messages between processes (gRPC) or inside one (loopback).
 *
 * A poller is one thread's event queue: all events of its streams come out of its wait, on its thread. All calls on a
 * stream are made by the thread of its poller, except where said. A stream is bidirectional and ordered, on a
 * connection of its own. It lives from its first event (or weir_stream_connect) to its CLOSED event, which comes
 * exactly once for every stream, whoever closes; after it the stream must be released with weir_stream_free.
 *
 * A message is bytes to the transport, with one exception: gRPC reserves those that are nothing but the field `closing`
 * of proto/weir.proto (a client's reason to weir_stream_close).
 *
 * Both implementations pass tests/conformance/test_transport.c.
 */
#ifndef WEIR_TRANSPORT_TRANSPORT_H
#define WEIR_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

/* Channels of a server: the control channel and one per lane; each is a gRPC method: /weir.Weir/Control,
 * /weir.Weir/Lane0 ... (proto/weir.proto). */
#define WEIR_CHANNEL_CONTROL 0
#define WEIR_CHANNEL_LANE(lane) (1 + (lane))
#define WEIR_LANES_MAX 8
#define WEIR_CHANNELS_MAX (1 + WEIR_LANES_MAX)

struct weir_transport; /* one per process and kind */
struct weir_poller;
struct weir_server;
struct weir_stream;
struct weir_message; /* a received message: immutable, counted */

struct weir_transport *weir_transport_grpc(void); /* starts gRPC; call before other threads exist */
struct weir_transport *weir_transport_loopback(void);
/* All pollers, servers and messages must be gone. */
void weir_transport_free(struct weir_transport *transport);

/* ---- pollers */

enum weir_transport_event_type {
    WEIR_EVENT_NONE,     /* the deadline came */
    WEIR_EVENT_WOKEN,    /* weir_poller_wake was called since the last wait (wakes may be merged) */
    WEIR_EVENT_ACCEPTED, /* a client opened `stream` on `channel` of a server */
    WEIR_EVENT_OPENED,   /* a connected stream reached its server: sends arrive from now on */
    WEIR_EVENT_MESSAGE,  /* `message` arrived: the receiver owns one reference */
    WEIR_EVENT_SENT,     /* the oldest unsent message of `stream` was handed to the network */
    WEIR_EVENT_CLOSED,   /* `stream` is over; `reason` says why ("" after a clean close by this side) */
};

struct weir_transport_event {
    enum weir_transport_event_type type;
    struct weir_stream *stream;
    struct weir_server *server;   /* ACCEPTED */
    uint32_t channel;             /* ACCEPTED */
    struct weir_message *message; /* MESSAGE */
    char reason[256]; /* CLOSED: "connection refused", "message of 1073741824 bytes exceeds the limit ..." */
};

struct weir_poller *weir_poller_new(struct weir_transport *transport);
/* Every stream must be freed, every server stopped. */
void weir_poller_free(struct weir_poller *poller);
/* Waits until an event or `deadline_ns` of weir_clock_ns() (0: only looks; UINT64_MAX: for ever). */
void weir_poller_wait(struct weir_poller *poller, uint64_t deadline_ns, struct weir_transport_event *event);
/* From any thread. */
void weir_poller_wake(struct weir_poller *poller);

/* ---- servers */

struct weir_server_options {
    const char *address;                            /* host:port; port 0: any free one */
    struct weir_poller *pollers[WEIR_CHANNELS_MAX]; /* by channel; NULL: calls to that channel are refused */
    size_t message_limit_bytes;                     /* of one received message */
    uint32_t handshake_timeout_ms;                  /* who connects and says nothing is closed */
    uint32_t name_timeout_ms;  /* how long the address's host may be unknown; it is asked for again, and that is said */
    size_t memory_limit_bytes; /* of all that is received and kept: beyond it calls end. 0: 3/4 of the machine's */
};

/* Binds and listens; errors name address and cause ("127.0.0.1:2222: port in use"). SO_REUSEPORT is off. An address
 * that this machine does not have may be that of a NAT before it: then the server listens on all that it has, with a
 * warning. */
struct weir_server *weir_server_start(struct weir_transport *transport, const struct weir_server_options *options,
                                      struct weir_error *err);
/* The port that it listens on. */
uint16_t weir_server_port(const struct weir_server *server);
/* No new streams; those there are closed (their CLOSED events come). May be called from any thread; returns at once.
 * The server is destroyed when the pollers have drained. */
void weir_server_stop(struct weir_server *server);

/* ---- streams */

/* One attempt to reach `channel` of the server at `address`: the stream's first event is OPENED, or CLOSED with the
 * reason; within `timeout_ms`. */
struct weir_stream *weir_stream_connect(struct weir_poller *poller, const char *address, uint32_t channel,
                                        size_t message_limit_bytes, uint32_t timeout_ms);

/* What goes out: `header` is copied, then the payload's slices follow without a copy; they must stay as they are until
 * `release(context)` is called, once, on any thread, when the transport no longer reads them. `release` may be NULL
 * when payload_count is 0. */
struct weir_outgoing {
    const void *header;
    size_t header_bytes;
    const struct weir_slice *payload;
    size_t payload_count;
    void (*release)(void *context);
    void *release_context;
    bool more; /* another message follows at once: may be buffered with it */
};

/* Queues a message; any number may be queued, but a caller should keep at most two not SENT. After CLOSED (or close)
 * nothing is sent and `release` is called. Over the peer's limit: ends the stream, and both are told why. `more` holds
 * the message back until the next send or wait. */
void weir_stream_send(struct weir_stream *stream, const struct weir_outgoing *outgoing);
/* Ends the stream: what is queued may be lost. CLOSED follows, and before it no other event but ACCEPTED. Again, or
 * after CLOSED: nothing. `reason` (may be ""; cut to 127 bytes) is told to the peer, if it answers within 1 s. */
void weir_stream_close(struct weir_stream *stream, const char *reason);
/* Sends what is queued, then ends the stream: messages still come until CLOSED; what the peer has queued is dropped. */
void weir_stream_finish(struct weir_stream *stream);
/* After CLOSED. */
void weir_stream_free(struct weir_stream *stream);
/* For the caller's own use; NULL at first. */
void weir_stream_set_user(struct weir_stream *stream, void *user);
void *weir_stream_user(const struct weir_stream *stream);
/* The peer's address, for messages: "ipv4:127.0.0.1:43210". */
const char *weir_stream_peer(const struct weir_stream *stream);
/* Payload and header bytes of messages sent (SENT) and received so far, by all streams of the transport. Any thread. */
void weir_transport_bytes(const struct weir_transport *transport, uint64_t *sent, uint64_t *received);

/* ---- received messages; any thread */

size_t weir_message_bytes(const struct weir_message *message);
/* The slices, valid as long as the message. Writes at most `max`; returns how many there are. */
size_t weir_message_slices(const struct weir_message *message, struct weir_slice *slices, size_t max);
struct weir_message *weir_message_ref(struct weir_message *message);
void weir_message_unref(struct weir_message *message);

#endif
