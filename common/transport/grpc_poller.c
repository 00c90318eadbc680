#include <assert.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "transport/grpc_internal.h"

#define TRIM_BYTES (1 << 30) /* glibc keeps freed memory: giving it back and faulting it in again costs a third */
#define TOP_PAD_BYTES (64 << 20)
#define EVENTS_AT_FIRST 16
#define LAST_WAIT_NS (10 * WEIR_NS_PER_S)

gpr_timespec weir_grpc_timespec(uint64_t ns)
{
    if (ns == UINT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = (int64_t)(ns / WEIR_NS_PER_S),
                          .tv_nsec = (int32_t)(ns % WEIR_NS_PER_S),
                          .clock_type = GPR_CLOCK_MONOTONIC};
}

/* ---- transport */

static void log_line(gpr_log_func_args *args)
{
    weir_log_debug("grpc: %s", args->message);
}

struct weir_transport *weir_transport_grpc(void)
{
    mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    mallopt(M_TOP_PAD, TOP_PAD_BYTES);
    setenv("GRPC_POLL_STRATEGY", "poll", 0);  /* a thread reads the sockets of its own queue only */
    setenv("GRPC_DNS_RESOLVER", "native", 0); /* names as all other programs see them */
    gpr_set_log_function(log_line);
    grpc_init();
    struct weir_grpc_transport *t = weir_alloc(1, sizeof *t, "the gRPC transport");
    t->base.ops = &weir_grpc_ops;
    pthread_mutex_init(&t->ending, NULL);
    const grpc_completion_queue_attributes attributes = {GRPC_CQ_CURRENT_VERSION, GRPC_CQ_NEXT, GRPC_CQ_NON_POLLING,
                                                         NULL};
    t->reaper = grpc_completion_queue_create(grpc_completion_queue_factory_lookup(&attributes), &attributes, NULL);
    return &t->base;
}

static void drain_and_destroy(grpc_completion_queue *queue)
{
    grpc_completion_queue_shutdown(queue);
    while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type != GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(queue);
}

static void transport_free(struct weir_transport *transport)
{
    struct weir_grpc_transport *t = (struct weir_grpc_transport *)transport;
    weir_grpc_reap(t, weir_clock_ns() + LAST_WAIT_NS);
    if (atomic_load(
            &t->servers)) { /* somebody still holds what belongs to them: better a leak than a process that hangs */
        weir_log_warning("gRPC: a server does not end; its memory is not given back");
        return;
    }
    drain_and_destroy(t->reaper);
    pthread_mutex_destroy(&t->ending);
    grpc_shutdown_blocking();
    free(t);
}

/* ---- events */

void weir_grpc_add_event(struct weir_grpc_poller *p, enum weir_transport_event_type type,
                         struct weir_grpc_stream *stream, struct weir_message *message)
{
    if (p->event_count == p->event_room) {
        size_t room = 2 * p->event_room;
        struct weir_grpc_event *events = weir_alloc(room, sizeof *events, "events");
        for (size_t i = 0; i < p->event_count; i++)
            events[i] = p->events[(p->event_first + i) % p->event_room];
        free(p->events);
        p->events = events;
        p->event_first = 0;
        p->event_room = room;
    }
    p->events[(p->event_first + p->event_count++) % p->event_room] =
        (struct weir_grpc_event){.type = type, .stream = stream, .message = message};
}

static void fill_event(const struct weir_grpc_event *from, struct weir_transport_event *event)
{
    struct weir_grpc_stream *stream = from->stream;
    event->type = from->type;
    event->message = from->message;
    if (!stream)
        return;
    event->stream = &stream->base;
    if (from->type == WEIR_EVENT_ACCEPTED) {
        event->server = &stream->server->base;
        event->channel = stream->channel;
    }
    if (from->type == WEIR_EVENT_CLOSED && !stream->closing)
        __builtin_memcpy(event->reason, stream->reason, sizeof event->reason);
}

/* The next event that its stream still wants. Taking a message lets the next one come: never more than one of a stream
 * waits here, the rest stays in the flow-control window. */
static bool take_event(struct weir_grpc_poller *p, struct weir_transport_event *event)
{
    while (p->event_count) {
        struct weir_grpc_event next = p->events[p->event_first];
        p->event_first = (p->event_first + 1) % p->event_room;
        p->event_count--;
        if (next.type == WEIR_EVENT_MESSAGE)
            weir_grpc_receive(next.stream);
        if (next.stream && next.stream->closing && next.type != WEIR_EVENT_CLOSED && next.type != WEIR_EVENT_ACCEPTED) {
            weir_message_unref(next.message);
            continue;
        }
        if (next.type == WEIR_EVENT_MESSAGE)
            atomic_fetch_add_explicit(&p->base.transport->received, next.message->bytes, memory_order_relaxed);
        fill_event(&next, event);
        return true;
    }
    return false;
}

/* ---- deadlines and deferred starts */

void weir_grpc_set_dirty(struct weir_grpc_stream *stream)
{
    if (stream->is_dirty)
        return;
    stream->is_dirty = true;
    stream->dirty_next = stream->poller->dirty;
    stream->poller->dirty = stream;
}

static void start_deferred(struct weir_grpc_poller *p)
{
    while (p->dirty) {
        struct weir_grpc_stream *stream = p->dirty;
        p->dirty = stream->dirty_next;
        stream->is_dirty = false;
        weir_grpc_pump(stream, true);
    }
}

void weir_grpc_set_deadline(struct weir_grpc_stream *stream, uint64_t deadline_ns)
{
    weir_grpc_clear_deadline(stream);
    stream->deadline_ns = deadline_ns ? deadline_ns : 1;
    stream->timed_next = stream->poller->timed;
    stream->poller->timed = stream;
}

void weir_grpc_clear_deadline(struct weir_grpc_stream *stream)
{
    if (!stream->deadline_ns)
        return;
    struct weir_grpc_stream **at = &stream->poller->timed;
    while (*at != stream)
        at = &(*at)->timed_next;
    *at = stream->timed_next;
    stream->deadline_ns = 0;
}

/* Few streams are opening at any time, so a list will do. Returns the next deadline. */
static uint64_t expire(struct weir_grpc_poller *p)
{
    uint64_t next = UINT64_MAX, now = p->timed ? weir_clock_ns() : 0;
    for (struct weir_grpc_stream *stream = p->timed, *following; stream; stream = following) {
        following = stream->timed_next;
        if (stream->deadline_ns <= now) {
            weir_grpc_clear_deadline(stream);
            weir_grpc_expired(stream);
        } else if (stream->deadline_ns < next) {
            next = stream->deadline_ns;
        }
    }
    return next;
}

/* ---- poller */

void weir_grpc_started(struct weir_grpc_poller *poller)
{
    atomic_fetch_add_explicit(&poller->outstanding, 1, memory_order_relaxed);
}

static void finish_op(struct weir_grpc_poller *p, grpc_event completed)
{
    struct weir_grpc_op *op = completed.tag;
    atomic_fetch_sub_explicit(&p->outstanding, 1, memory_order_relaxed);
    op->done(op, completed.success != 0);
}

static void poller_wait(struct weir_poller *poller, uint64_t deadline_ns, struct weir_transport_event *event)
{
    struct weir_grpc_poller *p = (struct weir_grpc_poller *)poller;
    start_deferred(p);
    while (!take_event(p, event)) {
        start_deferred(p);
        uint64_t until = expire(p);
        if (p->event_count)
            continue;
        if (until > deadline_ns)
            until = deadline_ns;
        grpc_event completed = grpc_completion_queue_next(p->queue, weir_grpc_timespec(until), NULL);
        if (completed.type == GRPC_OP_COMPLETE)
            finish_op(p, completed);
        else if (weir_clock_ns() >= deadline_ns)
            return;
    }
}

static void bell_done(struct weir_grpc_op *op, bool ok)
{
    (void)ok;
    struct weir_grpc_poller *p = op->owner;
    atomic_store(&p->rung, false); /* before the event: a later wake rings again */
    weir_grpc_add_event(p, WEIR_EVENT_WOKEN, NULL, NULL);
}

static void poller_wake(struct weir_poller *poller)
{
    struct weir_grpc_poller *p = (struct weir_grpc_poller *)poller;
    if (atomic_exchange(&p->rung, true))
        return;
    weir_grpc_started(p);
    grpc_call_error error = grpc_call_start_batch(p->bell, NULL, 0, &p->bell_op, NULL);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

static struct weir_poller *poller_new(struct weir_transport *transport)
{
    struct weir_grpc_poller *p = weir_alloc(1, sizeof *p, "a poller");
    p->base.transport = transport;
    p->queue = grpc_completion_queue_create_for_next(NULL);
    p->events = weir_alloc(EVENTS_AT_FIRST, sizeof *p->events, "events");
    p->event_room = EVENTS_AT_FIRST;
    p->bell_op = (struct weir_grpc_op){.done = bell_done, .owner = p};
    p->bell_channel = grpc_lame_client_channel_create("weir-bell", GRPC_STATUS_UNAVAILABLE, "never used");
    p->bell = grpc_channel_create_call(p->bell_channel, NULL, GRPC_PROPAGATE_DEFAULTS, p->queue,
                                       grpc_slice_from_static_string("/bell"), NULL, gpr_inf_future(GPR_CLOCK_REALTIME),
                                       NULL);
    return &p->base;
}

static void poller_free(struct weir_poller *poller)
{
    struct weir_grpc_poller *p = (struct weir_grpc_poller *)poller;
    struct weir_transport_event event = {0};
    for (;;) { /* accepts of stopped servers, refused calls, wakes, streams that the caller never saw */
        start_deferred(p);
        while (take_event(p, &event)) {
            weir_message_unref(event.message);
            if (event.type == WEIR_EVENT_CLOSED)
                weir_grpc_free(event.stream);
        }
        if (!atomic_load(&p->outstanding))
            break;
        finish_op(p, grpc_completion_queue_next(p->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL));
    }
    grpc_call_unref(p->bell);
    grpc_channel_destroy(p->bell_channel);
    drain_and_destroy(p->queue);
    free(p->events);
    free(p);
}

const struct weir_transport_ops weir_grpc_ops = {
    .transport_free = transport_free,
    .poller_new = poller_new,
    .poller_free = poller_free,
    .poller_wait = poller_wait,
    .poller_wake = poller_wake,
    .server_start = weir_grpc_server_start,
    .server_stop = weir_grpc_server_stop,
    .stream_connect = weir_grpc_connect,
    .stream_send = weir_grpc_send,
    .stream_close = weir_grpc_close,
    .stream_finish = weir_grpc_finish,
    .stream_free = weir_grpc_free,
    .message_slices = weir_grpc_message_slices,
    .message_free = weir_grpc_message_free,
};
