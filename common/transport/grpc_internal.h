/* gRPC transport: what its files share. Only grpc_*.c include this, so no other code sees gRPC's headers.
 *
 * Every operation handed to gRPC carries a `weir_grpc_op` as its tag; when it comes out of the poller's completion
 * queue, `done` runs on the poller's thread and may add events, which weir_poller_wait hands out one by one.
 */
#ifndef WEIR_TRANSPORT_GRPC_INTERNAL_H
#define WEIR_TRANSPORT_GRPC_INTERNAL_H

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include "transport/implement.h"

struct weir_grpc_op {
    void (*done)(struct weir_grpc_op *op, bool ok);
    void *owner;
};

struct weir_grpc_transport {
    struct weir_transport base;
    grpc_completion_queue *reaper; /* servers' shutdowns end here */
    atomic_size_t servers;         /* that are not destroyed yet */
    pthread_mutex_t ending;        /* so that none is destroyed while another thread still shuts it down */
};

struct weir_grpc_event {
    enum weir_transport_event_type type;
    struct weir_grpc_stream *stream;
    struct weir_message *message;
};

struct weir_grpc_poller {
    struct weir_poller base;
    grpc_completion_queue *queue;
    atomic_size_t outstanding; /* operations that have not come out of the queue */

    grpc_channel *bell_channel; /* wakes the poller: an empty batch on a call that is never started */
    grpc_call *bell;
    struct weir_grpc_op bell_op;
    atomic_bool rung;

    struct weir_grpc_event *events; /* a ring: what wait hands out next */
    size_t event_first, event_count, event_room;
    struct weir_grpc_stream *dirty; /* have something to start before the next wait */
    struct weir_grpc_stream *timed; /* have a deadline */
};

struct weir_grpc_accept {
    struct weir_grpc_op op;
    struct weir_grpc_server *server;
    struct weir_grpc_poller *poller; /* NULL: the channel is not served */
    uint32_t channel;
    void *method;
    grpc_call *call;
    grpc_metadata_array metadata;
    gpr_timespec deadline;
    grpc_call_details details; /* of calls that are refused */
};

struct weir_grpc_server {
    struct weir_server base;
    grpc_server *server;
    size_t message_limit_bytes;
    atomic_uint references; /* running, each accept in progress, each stream */
    atomic_bool stopped;
    struct weir_grpc_op shutdown_op;
    struct weir_grpc_accept accepts[WEIR_CHANNELS_MAX];
    struct weir_grpc_accept refuse;
};

struct weir_grpc_outgoing {
    struct weir_grpc_outgoing *next;
    grpc_byte_buffer *buffer;
    size_t bytes;
    bool more;
    bool goodbye; /* the transport's own: the caller is not told that it is sent */
};

struct weir_grpc_stream {
    struct weir_stream base;
    struct weir_grpc_poller *poller;
    struct weir_grpc_server *server; /* NULL: this is the client's side */
    uint32_t channel;
    grpc_channel *connection; /* client */
    grpc_call *call;
    size_t own_limit, peer_limit; /* bytes of a message; peer_limit 0: not known */

    struct weir_grpc_op open_op, status_op, receive_op, send_op, final_op;
    unsigned pending;     /* of these, started and not done */
    bool opened;          /* the peer has it */
    bool receive_over;    /* nothing more comes */
    bool sending;         /* send_op is under way */
    bool peer_finished;   /* server: the client has said its last word */
    bool finishing;       /* end when the queue is sent */
    bool final_started;   /* the end of this direction is sent */
    bool closing;         /* weir_stream_close: no events but CLOSED */
    bool status_done;     /* the call is over */
    bool closed;          /* CLOSED is among the events */
    bool is_dirty;        /* in poller->dirty */
    uint64_t deadline_ns; /* of opening, or of closing with a reason; 0: none */
    struct weir_grpc_stream *dirty_next, *timed_next;

    struct weir_grpc_outgoing *first, *last; /* not yet handed to gRPC */
    struct weir_grpc_outgoing *current;
    grpc_byte_buffer *received;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    int cancelled;
    char reason[256];
};

extern const struct weir_transport_ops weir_grpc_ops;

/* poller */
gpr_timespec weir_grpc_timespec(uint64_t ns);            /* of weir_clock_ns(); UINT64_MAX: never */
void weir_grpc_started(struct weir_grpc_poller *poller); /* an operation was given to gRPC */
void weir_grpc_add_event(struct weir_grpc_poller *poller, enum weir_transport_event_type type,
                         struct weir_grpc_stream *stream, struct weir_message *message);
void weir_grpc_set_deadline(struct weir_grpc_stream *stream, uint64_t deadline_ns);
void weir_grpc_clear_deadline(struct weir_grpc_stream *stream);
void weir_grpc_set_dirty(struct weir_grpc_stream *stream);

/* servers */
#define WEIR_LISTEN_BYTES 320
/* Whether this process can listen at `text` (host:port), or why not, and what gRPC should be told for it. */
bool weir_grpc_can_listen(const char *text, uint32_t name_timeout_ms, char listen_at[WEIR_LISTEN_BYTES],
                          struct weir_error *err);
struct weir_server *weir_grpc_server_start(struct weir_transport *transport, const struct weir_server_options *options,
                                           struct weir_error *err);
void weir_grpc_server_stop(struct weir_server *server);
void weir_grpc_server_unref(struct weir_grpc_server *server);
/* Destroys the servers that have shut down; waits until `deadline_ns` for those that have not. */
void weir_grpc_reap(struct weir_grpc_transport *transport, uint64_t deadline_ns);

/* streams */
struct weir_stream *weir_grpc_connect(struct weir_poller *poller, const char *address, uint32_t channel,
                                      size_t message_limit_bytes, uint32_t timeout_ms);
void weir_grpc_accepted(struct weir_grpc_accept *accept); /* takes accept->call */
void weir_grpc_send(struct weir_stream *stream, const struct weir_outgoing *outgoing);
void weir_grpc_close(struct weir_stream *stream, const char *reason);
void weir_grpc_finish(struct weir_stream *stream);
void weir_grpc_free(struct weir_stream *stream);
void weir_grpc_pump(struct weir_grpc_stream *stream, bool flush); /* starts what can be started */
void weir_grpc_receive(struct weir_grpc_stream *stream);          /* asks for the next message */
void weir_grpc_expired(struct weir_grpc_stream *stream);          /* its deadline has come */

/* messages */
struct weir_grpc_outgoing *weir_grpc_outgoing_new(const struct weir_outgoing *outgoing);
struct weir_grpc_outgoing *weir_grpc_goodbye_new(const char *reason);
void weir_grpc_outgoing_free(struct weir_grpc_outgoing *outgoing);
struct weir_message *weir_grpc_message_new(grpc_byte_buffer *buffer); /* takes it */
size_t weir_grpc_message_slices(const struct weir_message *message, struct weir_slice *slices, size_t max);
void weir_grpc_message_free(struct weir_message *message);
/* True if the message says that its sender ends the stream, and why. */
bool weir_grpc_is_goodbye(const grpc_byte_buffer *buffer, char *reason, size_t room);

/* Names and texts */
const char *weir_grpc_method(uint32_t channel);
size_t weir_grpc_read_limit(const grpc_metadata_array *metadata); /* 0: not told */
/* The `weir-limit` entry; `text` holds its value and must outlive the batch. */
grpc_metadata weir_grpc_limit_entry(size_t limit, char text[24]);
/* The args that both sides have. Returns how many. */
size_t weir_grpc_common_args(grpc_arg *args, size_t message_limit_bytes);
grpc_arg weir_grpc_int_arg(const char *key, int value);
void weir_grpc_explain(grpc_status_code status, grpc_slice details, char *reason, size_t room);
void weir_grpc_peer(grpc_call *call, char *text, size_t room);

#endif
