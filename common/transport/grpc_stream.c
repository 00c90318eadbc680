#include <arpa/inet.h>
#include <assert.h>
#include <grpc/grpc_security.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/grpc_internal.h"

#define WRITE_BUFFER_BYTES (1 << 20)
/* The stream's window is fixed rather than probed: what lies unread should still be in a cache when it is summed. It
 * lets a stream of 2 GB/s go on over a round trip of a millisecond. */
#define WINDOW_BYTES (2 << 20)
#define FRAME_BYTES (1 << 20) /* 16 KiB, the default, cuts every message into many slices */
#define KEEPALIVE_MS 30000    /* only for peers that vanish without a word; heartbeats are quicker */
#define GOODBYE_MS 1000       /* how long a reason may take to reach the peer */
#define PATIENCE_MS 1000
#define BROKEN_OFF "connection lost, or broken off by the peer"

grpc_arg weir_grpc_int_arg(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

size_t weir_grpc_common_args(grpc_arg *args, size_t message_limit_bytes)
{
    int limit = message_limit_bytes > INT_MAX ? INT_MAX : (int)message_limit_bytes;
    const grpc_arg common[] = {
        weir_grpc_int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, limit),
        weir_grpc_int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        weir_grpc_int_arg(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, WRITE_BUFFER_BYTES),
        weir_grpc_int_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        weir_grpc_int_arg(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, WINDOW_BYTES),
        weir_grpc_int_arg(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, FRAME_BYTES),
        weir_grpc_int_arg(GRPC_ARG_ENABLE_RETRIES, 0), /* they would hold on to sent slices */
        weir_grpc_int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        weir_grpc_int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0), /* the limit is on what arrives */
        weir_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
        weir_grpc_int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_MS),
        weir_grpc_int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        weir_grpc_int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    memcpy(args, common, sizeof common);
    return sizeof common / sizeof common[0];
}

static void start_batch(struct weir_grpc_stream *s, const grpc_op *ops, size_t count, struct weir_grpc_op *tag)
{
    weir_grpc_started(s->poller);
    s->pending++;
    grpc_call_error error = grpc_call_start_batch(s->call, ops, count, tag, NULL);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

static void drop_queue(struct weir_grpc_stream *s)
{
    while (s->first) {
        struct weir_grpc_outgoing *next = s->first->next;
        weir_grpc_outgoing_free(s->first);
        s->first = next;
    }
    s->last = NULL;
}

/* CLOSED once the call is over, all that arrived is delivered, and gRPC holds none of our operations. */
static void check_closed(struct weir_grpc_stream *s)
{
    if (s->closed || !s->status_done || s->pending || !(s->receive_over || !s->opened || s->closing))
        return;
    s->closed = true;
    weir_grpc_clear_deadline(s);
    drop_queue(s);
    grpc_call_unref(s->call); /* now, not in free: a server's shutdown waits for its calls */
    s->call = NULL;
    if (s->connection)
        grpc_channel_destroy(s->connection);
    s->connection = NULL;
    weir_grpc_add_event(s->poller, WEIR_EVENT_CLOSED, s, NULL);
}

static void set_reason(struct weir_grpc_stream *s, const char *reason)
{
    if (!s->reason[0]) /* the first one is the cause */
        snprintf(s->reason, sizeof s->reason, "%.255s", reason);
}

/* Only a server's text reaches the peer this way. */
static void cancel(struct weir_grpc_stream *s, const char *text)
{
    if (s->call)
        grpc_call_cancel_with_status(s->call, s->server ? GRPC_STATUS_ABORTED : GRPC_STATUS_CANCELLED, text, NULL);
}

/* ---- sending */

static void start_send(struct weir_grpc_stream *s)
{
    s->current = s->first;
    s->first = s->first->next;
    if (!s->first)
        s->last = NULL;
    s->sending = true;
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = s->current->buffer};
    if (s->first) /* only if another one surely follows: nothing else would push it out of the write buffer */
        op.flags = GRPC_WRITE_BUFFER_HINT;
    start_batch(s, &op, 1, &s->send_op);
}

static void start_final(struct weir_grpc_stream *s)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    if (s->server) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status = GRPC_STATUS_OK;
    }
    s->final_started = true;
    start_batch(s, &op, 1, &s->final_op);
}

void weir_grpc_pump(struct weir_grpc_stream *s, bool flush)
{
    if (s->sending || !s->opened || s->status_done || s->final_started)
        return;
    if (s->first && (flush || s->first->next || !s->first->more))
        start_send(s);
    else if (s->first)
        weir_grpc_set_dirty(s);
    else if (s->finishing)
        start_final(s);
}

static void send_done(struct weir_grpc_op *op, bool ok)
{
    struct weir_grpc_stream *s = op->owner;
    s->pending--;
    s->sending = false;
    if (ok && !s->current->goodbye) {
        atomic_fetch_add_explicit(&s->base.transport->sent, s->current->bytes, memory_order_relaxed);
        weir_grpc_add_event(s->poller, WEIR_EVENT_SENT, s, NULL);
    }
    weir_grpc_outgoing_free(s->current);
    s->current = NULL;
    if (s->first || s->finishing)
        weir_grpc_set_dirty(s); /* not now: the caller may answer SENT with one more, and both go out together */
    check_closed(s);
}

static void final_done(struct weir_grpc_op *op, bool ok)
{
    (void)ok;
    struct weir_grpc_stream *s = op->owner;
    s->pending--;
    check_closed(s);
}

static void enqueue(struct weir_grpc_stream *s, struct weir_grpc_outgoing *out)
{
    if (s->last)
        s->last->next = out;
    else
        s->first = out;
    s->last = out;
    weir_grpc_pump(s, false);
}

void weir_grpc_send(struct weir_stream *stream, const struct weir_outgoing *outgoing)
{
    struct weir_grpc_stream *s = (struct weir_grpc_stream *)stream;
    struct weir_grpc_outgoing *out = weir_grpc_outgoing_new(outgoing);
    if (s->closing || s->finishing || s->status_done) {
        weir_grpc_outgoing_free(out);
    } else if (s->peer_limit && out->bytes > s->peer_limit) {
        char reason[128];
        snprintf(reason, sizeof reason, "message of %zu bytes exceeds the limit of %zu bytes", out->bytes,
                 s->peer_limit);
        weir_grpc_outgoing_free(out);
        set_reason(s, reason);
        weir_grpc_close(stream, reason);
        s->closing = false; /* the caller did not ask for it, so it is told the reason */
        s->finishing = true;
    } else {
        enqueue(s, out);
    }
}

/* ---- receiving */

void weir_grpc_receive(struct weir_grpc_stream *s)
{
    if (s->receive_over || s->closed)
        return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->received};
    start_batch(s, &op, 1, &s->receive_op);
}

static void receive_end(struct weir_grpc_stream *s)
{
    s->receive_over = true;
    if (!s->server || s->status_done)
        return;
    s->peer_finished = !s->finishing;
    drop_queue(s); /* the client has said its last word: so does the server */
    s->finishing = true;
    weir_grpc_set_dirty(s);
}

static void receive_done(struct weir_grpc_op *op, bool ok)
{
    (void)ok;
    struct weir_grpc_stream *s = op->owner;
    grpc_byte_buffer *buffer = s->received;
    char reason[200];
    s->pending--;
    s->received = NULL;
    if (!buffer) {
        receive_end(s);
    } else if (buffer->data.raw.compression != GRPC_COMPRESS_NONE) {
        grpc_byte_buffer_destroy(buffer);
        set_reason(s, "the peer sent a compressed message");
        cancel(s, "compressed messages are not taken");
        weir_grpc_receive(s);
    } else if (weir_grpc_is_goodbye(buffer, reason, sizeof reason)) {
        grpc_byte_buffer_destroy(buffer);
        set_reason(s, reason);
        receive_end(s);
        if (!s->server)
            cancel(s, "");
    } else {
        weir_grpc_add_event(s->poller, WEIR_EVENT_MESSAGE, s, weir_grpc_message_new(buffer));
    }
    check_closed(s);
}

/* ---- opening and closing */

static void open_done(struct weir_grpc_op *op, bool ok)
{
    struct weir_grpc_stream *s = op->owner;
    s->pending--;
    if (!s->server && ok && !s->closing && (s->peer_limit = weir_grpc_read_limit(&s->initial))) {
        weir_grpc_clear_deadline(s);
        s->opened = true;
        weir_grpc_peer(s->call, s->base.peer, sizeof s->base.peer);
        weir_grpc_add_event(s->poller, WEIR_EVENT_OPENED, s, NULL);
        weir_grpc_receive(s);
        weir_grpc_set_dirty(s);
    }
    check_closed(s);
}

static void status_done(struct weir_grpc_op *op, bool ok)
{
    (void)ok;
    struct weir_grpc_stream *s = op->owner;
    char reason[256];
    s->pending--;
    s->status_done = true;
    drop_queue(s);
    if (!s->server) {
        weir_grpc_explain(s->status, s->details, reason, sizeof reason);
        if (!(s->finishing && s->status == GRPC_STATUS_OK))
            set_reason(s, reason);
    } else if (s->cancelled) {
        set_reason(s, atomic_load(&s->server->stopped) ? "the server stopped" : BROKEN_OFF);
    } else if (s->peer_finished) {
        set_reason(s, "finished by the peer");
    }
    check_closed(s);
}

void weir_grpc_close(struct weir_stream *stream, const char *reason)
{
    struct weir_grpc_stream *s = (struct weir_grpc_stream *)stream;
    if (s->closing || s->closed)
        return;
    s->closing = true;
    drop_queue(s);
    if (!s->server && s->opened && !s->final_started && reason[0]) {
        enqueue(s, weir_grpc_goodbye_new(reason));
        s->finishing = true;
        weir_grpc_set_deadline(s, weir_clock_ns() + GOODBYE_MS * WEIR_NS_PER_MS);
    } else {
        cancel(s, reason);
    }
    check_closed(s);
}

void weir_grpc_finish(struct weir_stream *stream)
{
    struct weir_grpc_stream *s = (struct weir_grpc_stream *)stream;
    if (s->closing || s->finishing || s->closed)
        return;
    s->finishing = true;
    weir_grpc_pump(s, true);
}

void weir_grpc_expired(struct weir_grpc_stream *s)
{
    if (!s->opened)
        set_reason(s, "timed out");
    cancel(s, "timed out");
}

void weir_grpc_free(struct weir_stream *stream)
{
    struct weir_grpc_stream *s = (struct weir_grpc_stream *)stream;
    assert(s->closed && !s->pending);
    if (s->is_dirty) {
        struct weir_grpc_stream **at = &s->poller->dirty;
        while (*at != s)
            at = &(*at)->dirty_next;
        *at = s->dirty_next;
    }
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_slice_unref(s->details);
    if (s->server)
        weir_grpc_server_unref(s->server);
    free(s);
}

static struct weir_grpc_stream *stream_new(struct weir_grpc_poller *poller, uint32_t channel, size_t limit)
{
    struct weir_grpc_stream *s = weir_alloc(1, sizeof *s, "a stream");
    s->base.transport = poller->base.transport;
    s->poller = poller;
    s->channel = channel;
    s->own_limit = limit;
    s->open_op = (struct weir_grpc_op){open_done, s};
    s->status_op = (struct weir_grpc_op){status_done, s};
    s->receive_op = (struct weir_grpc_op){receive_done, s};
    s->send_op = (struct weir_grpc_op){send_done, s};
    s->final_op = (struct weir_grpc_op){final_done, s};
    s->details = grpc_empty_slice();
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    return s;
}

/* A channel of its own for each stream, used for one attempt: so nothing waits for another stream's back-off. */
static grpc_channel *dial(const char *text, const struct weir_address *address, size_t limit, uint32_t timeout_ms)
{
    struct in6_addr ignored;
    bool v4 = inet_pton(AF_INET, address->host, &ignored) == 1;
    bool v6 = inet_pton(AF_INET6, address->host, &ignored) == 1;
    char target[320];
    snprintf(target, sizeof target, v6 ? "%s[%s]:%u" : "%s%s:%u",
             v4   ? "ipv4:"
             : v6 ? "ipv6:"
                  : "dns:///",
             address->host, address->port);
    int patience = timeout_ms > INT_MAX / 2 ? INT_MAX / 2 : (int)timeout_ms; /* the stream's own deadline comes first */
    patience += PATIENCE_MS;
    grpc_arg args[24];
    size_t count = weir_grpc_common_args(args, limit);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0); /* a cluster's nodes are no web sites */
    args[count++] = weir_grpc_int_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, patience);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, patience); /* also how long TCP may take */
    args[count++] = weir_grpc_int_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, patience);
    args[count++] =
        (grpc_arg){.type = GRPC_ARG_STRING, .key = GRPC_ARG_DEFAULT_AUTHORITY, .value.string = (char *)text};
    const grpc_channel_args all = {.num_args = count, .args = args};
    grpc_channel_credentials *insecure = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, insecure, &all);
    grpc_channel_credentials_release(insecure);
    return channel;
}

static void start_client(struct weir_grpc_stream *s)
{
    char text[24];
    grpc_metadata limit = weir_grpc_limit_entry(s->own_limit, text);
    grpc_op open[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    open[0].data.send_initial_metadata.count = 1;
    open[0].data.send_initial_metadata.metadata = &limit;
    open[1].data.recv_initial_metadata.recv_initial_metadata = &s->initial;
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    status.data.recv_status_on_client.trailing_metadata = &s->trailing;
    status.data.recv_status_on_client.status = &s->status;
    status.data.recv_status_on_client.status_details = &s->details;
    start_batch(s, &status, 1, &s->status_op);
    start_batch(s, open, 2, &s->open_op);
    grpc_slice_unref(limit.value);
}

struct weir_stream *weir_grpc_connect(struct weir_poller *poller, const char *text, uint32_t channel,
                                      size_t message_limit_bytes, uint32_t timeout_ms)
{
    struct weir_grpc_poller *p = (struct weir_grpc_poller *)poller;
    struct weir_grpc_stream *s = stream_new(p, channel, message_limit_bytes);
    snprintf(s->base.peer, sizeof s->base.peer, "%s", text);
    struct weir_address address;
    struct weir_error err;
    if (!weir_address_parse(text, &address, &err)) {
        set_reason(s, err.text);
        s->closed = true;
        weir_grpc_add_event(p, WEIR_EVENT_CLOSED, s, NULL);
        return &s->base;
    }
    s->connection = dial(text, &address, message_limit_bytes, timeout_ms);
    s->call = grpc_channel_create_call(s->connection, NULL, GRPC_PROPAGATE_DEFAULTS, p->queue,
                                       grpc_slice_from_static_string(weir_grpc_method(channel)), NULL,
                                       gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    weir_grpc_set_deadline(s, weir_clock_ns() + timeout_ms * WEIR_NS_PER_MS);
    start_client(s);
    return &s->base;
}

void weir_grpc_accepted(struct weir_grpc_accept *accept)
{
    struct weir_grpc_server *server = accept->server;
    struct weir_grpc_stream *s = stream_new(accept->poller, accept->channel, server->message_limit_bytes);
    s->server = server;
    atomic_fetch_add(&server->references, 1);
    s->call = accept->call;
    s->opened = true;
    s->peer_limit = weir_grpc_read_limit(&accept->metadata);
    weir_grpc_peer(s->call, s->base.peer, sizeof s->base.peer);
    weir_grpc_add_event(s->poller, WEIR_EVENT_ACCEPTED, s, NULL);
    char text[24];
    grpc_metadata limit = weir_grpc_limit_entry(s->own_limit, text);
    grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    open.data.send_initial_metadata.count = 1;
    open.data.send_initial_metadata.metadata = &limit;
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &s->cancelled};
    start_batch(s, &open, 1, &s->open_op);
    start_batch(s, &close, 1, &s->status_op);
    grpc_slice_unref(limit.value);
    weir_grpc_receive(s);
}
