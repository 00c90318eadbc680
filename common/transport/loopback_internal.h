/* Loopback transport: what its files share.
 *
 * One mutex guards all of a transport's pollers, servers and streams: what is done under it is a few pointers, and the
 * tensors themselves are never copied. Callers' `release` runs after it is unlocked.
 *
 * A stream is a pair of ends. Each end has a queue of messages that its peer shall get; at most LOOP_WINDOW of them are
 * among the events of the peer's poller, like what fits in a flow-control window.
 */
#ifndef WEIR_TRANSPORT_LOOPBACK_INTERNAL_H
#define WEIR_TRANSPORT_LOOPBACK_INTERNAL_H

#include <pthread.h>

#include "transport/implement.h"

#define LOOP_WINDOW 2

/* A thing that will come out of a poller; in its poller's list, or (next NULL) in none. */
struct loop_event {
    struct loop_event *next, *previous;
    enum weir_transport_event_type type;
    struct loop_end *end; /* whose event it is */
    struct loop_message *message;
};

struct loop_transport {
    struct weir_transport base;
    pthread_mutex_t lock;
    struct loop_server *servers; /* that run */
    uint16_t next_port;
};

struct loop_poller {
    struct weir_poller base;
    pthread_cond_t changed;
    bool woken;
    struct loop_event events; /* the list's anchor */
    struct loop_end *opening; /* their deadlines are to be watched */
};

struct loop_server {
    struct weir_server base;
    struct loop_server *next;
    unsigned references; /* running, each accepted end */
    struct weir_address address;
    struct loop_poller *pollers[WEIR_CHANNELS_MAX];
    size_t message_limit_bytes;
    struct loop_end *ends; /* accepted and not closed */
};

struct loop_message {
    struct weir_message base;
    struct loop_message *next;
    struct loop_event event; /* MESSAGE at the receiver's poller */
    void (*release)(void *context);
    void *release_context;
    size_t slice_count;
    struct weir_slice slices[]; /* the header first; its bytes stand behind them */
};

enum loop_state { LOOP_OPENING, LOOP_OPEN, LOOP_OVER };

struct loop_end {
    struct weir_stream base;
    struct loop_end *peer; /* NULL once the peer is freed, or if there was none */
    struct loop_poller *poller;
    struct loop_server *server; /* of an accepted end */
    uint32_t channel;
    size_t message_limit_bytes;
    enum loop_state state;
    bool finishing;
    char reason[256];
    uint64_t deadline_ns;
    struct loop_end *opening_next, *server_next;
    struct loop_message *first, *last;                        /* to the peer, not among its poller's events */
    unsigned in_flight;                                       /* to the peer, among them */
    unsigned sent;                                            /* SENT events to come */
    struct loop_event opened_event, sent_event, closed_event; /* opened: ACCEPTED or OPENED */
};

extern const struct weir_transport_ops weir_loop_ops;

/* All with the lock held. */
void weir_loop_post(struct loop_poller *poller, struct loop_event *event);
void weir_loop_remove(struct loop_event *event);
/* Messages that are to be freed after unlocking. */
struct loop_garbage {
    struct loop_message *first;
};
void weir_loop_discard(struct loop_garbage *garbage, struct loop_message *message);
/* Both ends are over; each is told its reason. Does nothing to ends that are over already. */
void weir_loop_end(struct loop_end *end, const char *own_reason, const char *peer_reason, struct loop_garbage *garbage);
/* Moves on what `end` sends, as far as there is room; then ends it if it is finishing. */
void weir_loop_push(struct loop_end *end, struct loop_garbage *garbage);
struct loop_end *weir_loop_end_new(struct loop_poller *poller, uint32_t channel, size_t limit, const char *peer);
void weir_loop_server_unref(struct loop_server *server);
void weir_loop_forget_opening(struct loop_end *end);
/* An end's memory; its peer no longer knows it. */
void weir_loop_end_free(struct loop_end *end);

/* Without the lock. */
void weir_loop_empty(struct loop_garbage *garbage);
struct weir_server *weir_loop_server_start(struct weir_transport *transport, const struct weir_server_options *options,
                                           struct weir_error *err);
void weir_loop_server_stop(struct weir_server *server);
struct weir_stream *weir_loop_connect(struct weir_poller *poller, const char *address, uint32_t channel,
                                      size_t message_limit_bytes, uint32_t timeout_ms);
void weir_loop_send(struct weir_stream *stream, const struct weir_outgoing *outgoing);
void weir_loop_close(struct weir_stream *stream, const char *reason);
void weir_loop_finish(struct weir_stream *stream);
void weir_loop_free(struct weir_stream *stream);
size_t weir_loop_message_slices(const struct weir_message *message, struct weir_slice *slices, size_t max);
void weir_loop_message_free(struct weir_message *message);

#endif
