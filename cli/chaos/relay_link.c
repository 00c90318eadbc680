/* One connection through the relay: two flows, each a queue of pieces that wait for their time. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "chaos/relay_internal.h"

#define PIECE_BYTES (64u << 10)
#define QUEUE_BYTES (8u << 20) /* of one flow: more is left in the sender's socket */

struct piece {
    struct piece *next;
    struct flow *flow;
    uint64_t due_ns;
    uv_write_t request;
    size_t count;
    char bytes[];
};

struct flow {
    struct weir_relay_link *link;
    uint32_t from, to; /* processes */
    uv_tcp_t *source, *sink;
    struct weir_relay_rule rule;
    struct piece *first, *last; /* not yet written */
    size_t held_bytes;          /* in the queue or being written */
    uint64_t free_ns;           /* a limit of bandwidth lets the next piece go then */
    uv_timer_t timer;
    uv_shutdown_t shutdown;
    struct piece *spare; /* what the next read goes to */
    bool reading, ended, shut;
};

struct weir_relay_link {
    struct weir_relay *relay;
    struct weir_relay_link *next, *previous;
    uint32_t from, to; /* who connected, to whom */
    uv_tcp_t client, server;
    uv_connect_t connect;
    bool connecting, connected, closing;
    unsigned open_handles;
    struct flow flows[2]; /* of the client, of the server */
};

static void pump(struct flow *flow);

struct weir_relay_link *weir_relay_link_next(struct weir_relay_link *link)
{
    return link->next;
}

/* ---- the end */

static void drop_pieces(struct flow *flow)
{
    for (struct piece *piece = flow->first, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    free(flow->spare);
    flow->first = flow->last = flow->spare = NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct weir_relay_link *link = handle->data;
    if (--link->open_handles > 0)
        return;
    drop_pieces(&link->flows[0]);
    drop_pieces(&link->flows[1]);
    free(link);
}

static void close_socket(uv_tcp_t *socket)
{
    if (uv_tcp_close_reset(socket, on_closed) != 0) /* it is shut down already */
        uv_close((uv_handle_t *)socket, on_closed);
}

void weir_relay_link_break(struct weir_relay_link *link)
{
    if (link->closing)
        return;
    link->closing = true;
    if (link->previous)
        link->previous->next = link->next;
    else
        link->relay->links = link->next;
    if (link->next)
        link->next->previous = link->previous;
    uv_close((uv_handle_t *)&link->flows[0].timer, on_closed);
    uv_close((uv_handle_t *)&link->flows[1].timer, on_closed);
    close_socket(&link->client);
    close_socket(&link->server);
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)request, (void)status; /* the other flow finds out what is broken */
}

/* The source said its last word, and all before it is passed on. */
static void end_flow(struct flow *flow)
{
    struct weir_relay_link *link = flow->link;
    flow->shut = true;
    if (link->flows[0].shut && link->flows[1].shut)
        weir_relay_link_break(link);
    else if (uv_shutdown(&flow->shutdown, (uv_stream_t *)flow->sink, on_shut) != 0)
        weir_relay_link_break(link);
}

/* The rule as it is now: who has set one relies on it at once. */
static void refresh(struct flow *flow)
{
    struct weir_relay *relay = flow->link->relay;
    pthread_mutex_lock(&relay->lock);
    flow->rule = weir_relay_way(relay, flow->from, flow->to)->rule;
    pthread_mutex_unlock(&relay->lock);
}

/* ---- from the queue */

static void on_written(uv_write_t *request, int status)
{
    struct piece *piece = request->data;
    struct flow *flow = piece->flow;
    flow->held_bytes -= piece->count;
    size_t count = piece->count;
    free(piece);
    if (flow->link->closing)
        return;
    if (status < 0) {
        weir_relay_link_break(flow->link);
        return;
    }
    struct weir_relay *relay = flow->link->relay;
    pthread_mutex_lock(&relay->lock);
    weir_relay_way(relay, flow->from, flow->to)->bytes += count;
    pthread_mutex_unlock(&relay->lock);
    pump(flow);
}

static bool write_first(struct flow *flow)
{
    struct piece *piece = flow->first;
    flow->first = piece->next;
    if (!flow->first)
        flow->last = NULL;
    uv_buf_t buffer = uv_buf_init(piece->bytes, (unsigned)piece->count);
    piece->request.data = piece;
    if (uv_write(&piece->request, (uv_stream_t *)flow->sink, &buffer, 1, on_written) == 0)
        return true;
    free(piece);
    weir_relay_link_break(flow->link);
    return false;
}

static void on_due(uv_timer_t *timer)
{
    pump((struct flow *)((char *)timer - offsetof(struct flow, timer)));
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer);
static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);

static void choose_reading(struct flow *flow)
{
    bool wanted = flow->link->connected && !flow->ended && flow->held_bytes < QUEUE_BYTES;
    if (wanted && !flow->reading)
        uv_read_start((uv_stream_t *)flow->source, on_room, on_read);
    else if (!wanted && flow->reading)
        uv_read_stop((uv_stream_t *)flow->source);
    flow->reading = wanted;
}

/* Writes what is due, and sees to it that the rest will be. */
static void pump(struct flow *flow)
{
    if (flow->link->closing || !flow->link->connected)
        return;
    uv_timer_stop(&flow->timer);
    refresh(flow);
    uint64_t now = weir_clock_ns();
    while (flow->first && !flow->rule.cut) {
        uint64_t start = flow->first->due_ns > flow->free_ns ? flow->first->due_ns : flow->free_ns;
        if (start > now) {
            uv_timer_start(&flow->timer, on_due, (start - now + WEIR_NS_PER_MS - 1) / WEIR_NS_PER_MS, 0);
            break;
        }
        if (flow->rule.bytes_per_s > 0) /* from now, not from `start`: what was not sent is no credit */
            flow->free_ns = now + (uint64_t)((double)flow->first->count / flow->rule.bytes_per_s * 1e9);
        if (!write_first(flow))
            return;
    }
    if (flow->ended && !flow->first && !flow->rule.cut && !flow->shut)
        end_flow(flow);
    if (!flow->link->closing)
        choose_reading(flow);
}

/* ---- into the queue */

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
    struct weir_relay_link *link = handle->data;
    struct flow *flow = &link->flows[handle == (uv_handle_t *)&link->server];
    (void)wanted;
    if (!flow->spare)
        flow->spare = weir_alloc(1, sizeof *flow->spare + PIECE_BYTES, "a piece for the relay");
    *buffer = uv_buf_init(flow->spare->bytes, PIECE_BYTES);
}

/* [0, 1): xorshift. */
static double unit(struct weir_relay *relay)
{
    uint64_t x = relay->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    relay->random = x;
    return (double)(x >> 11) * 0x1p-53;
}

/* Whatever its own time, a piece waits for those before it. */
static uint64_t due(const struct flow *flow)
{
    double wait_ms = flow->rule.delay_ms + flow->rule.jitter_ms * unit(flow->link->relay);
    return weir_clock_ns() + (uint64_t)(wait_ms * 1e6);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct weir_relay_link *link = stream->data;
    struct flow *flow = &link->flows[stream == (uv_stream_t *)&link->server];
    (void)buffer;
    if (count == 0)
        return;
    if (count < 0) {
        flow->ended = true;
        flow->reading = false;
        uv_read_stop(stream);
        pump(flow);
        return;
    }
    struct piece *piece = flow->spare;
    flow->spare = NULL;
    refresh(flow);
    piece->flow = flow;
    piece->count = (size_t)count;
    piece->due_ns = due(flow);
    piece->next = NULL;
    if (flow->last)
        flow->last->next = piece;
    else
        flow->first = piece;
    flow->last = piece;
    flow->held_bytes += piece->count;
    pump(flow);
}

/* ---- the beginning */

static void on_connected(uv_connect_t *request, int status)
{
    struct weir_relay_link *link = request->data;
    if (link->closing)
        return;
    link->connecting = false;
    if (status < 0) { /* nobody is there */
        weir_relay_link_break(link);
        return;
    }
    link->connected = true;
    pump(&link->flows[0]);
    if (!link->closing)
        pump(&link->flows[1]);
}

/* Not while either way is cut: neither the question nor the answer would arrive. */
static void try_to_connect(struct weir_relay_link *link)
{
    if (link->connected || link->connecting || link->flows[0].rule.cut || link->flows[1].rule.cut)
        return;
    struct sockaddr_in address;
    uv_ip4_addr("127.0.0.1", link->relay->ports[link->to], &address);
    link->connecting = true;
    link->connect.data = link;
    if (uv_tcp_connect(&link->connect, &link->server, (struct sockaddr *)&address, on_connected) != 0)
        weir_relay_link_break(link);
}

void weir_relay_link_update(struct weir_relay_link *link)
{
    struct weir_relay *relay = link->relay;
    bool reset = false;
    pthread_mutex_lock(&relay->lock);
    for (int i = 0; i < 2; i++) {
        struct flow *flow = &link->flows[i];
        flow->rule = weir_relay_way(relay, flow->from, flow->to)->rule;
        reset = reset || weir_relay_way(relay, flow->from, flow->to)->reset;
    }
    pthread_mutex_unlock(&relay->lock);
    if (reset) {
        weir_relay_link_break(link);
        return;
    }
    try_to_connect(link);
    for (int i = 0; i < 2 && !link->closing; i++) {
        link->flows[i].free_ns = 0;
        pump(&link->flows[i]);
    }
}

static void init_flow(struct weir_relay_link *link, int i, uint32_t from, uint32_t to)
{
    struct flow *flow = &link->flows[i];
    flow->link = link;
    flow->from = from;
    flow->to = to;
    flow->source = i == 0 ? &link->client : &link->server;
    flow->sink = i == 0 ? &link->server : &link->client;
    uv_timer_init(&link->relay->loop, &flow->timer);
    flow->timer.data = link;
}

void weir_relay_link_accept(struct weir_relay_door *door)
{
    struct weir_relay *relay = door->relay;
    struct weir_relay_link *link = weir_alloc(1, sizeof *link, "a connection of the relay");
    link->relay = relay;
    link->from = door->from;
    link->to = door->to;
    link->open_handles = 4;
    uv_tcp_init(&relay->loop, &link->client);
    uv_tcp_init(&relay->loop, &link->server);
    link->client.data = link->server.data = link;
    init_flow(link, 0, door->from, door->to);
    init_flow(link, 1, door->to, door->from);
    link->next = relay->links;
    if (link->next)
        link->next->previous = link;
    relay->links = link;
    if (uv_accept((uv_stream_t *)&door->listener, (uv_stream_t *)&link->client) != 0) {
        weir_relay_link_break(link);
        return;
    }
    uv_tcp_nodelay(&link->client, 1); /* all that waits, waits here */
    weir_relay_link_update(link);
    if (!link->closing && link->connecting)
        uv_tcp_nodelay(&link->server, 1);
}
