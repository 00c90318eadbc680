#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/loopback_internal.h"

#define FIRST_PORT 20000 /* of servers that ask for port 0 */

static struct loop_transport *transport_of(const struct loop_poller *poller)
{
    return (struct loop_transport *)poller->base.transport;
}

struct weir_transport *weir_transport_loopback(void)
{
    struct loop_transport *t = weir_alloc(1, sizeof *t, "the loopback transport");
    t->base.ops = &weir_loop_ops;
    t->next_port = FIRST_PORT;
    pthread_mutex_init(&t->lock, NULL);
    return &t->base;
}

static void transport_free(struct weir_transport *transport)
{
    struct loop_transport *t = (struct loop_transport *)transport;
    assert(!t->servers);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- events */

void weir_loop_post(struct loop_poller *poller, struct loop_event *event)
{
    if (event->next)
        return; /* it is there already */
    event->next = &poller->events;
    event->previous = poller->events.previous;
    event->previous->next = event;
    poller->events.previous = event;
    pthread_cond_signal(&poller->changed);
}

void weir_loop_remove(struct loop_event *event)
{
    if (!event->next)
        return;
    event->previous->next = event->next;
    event->next->previous = event->previous;
    event->next = NULL;
}

static void take_accepted(struct loop_end *end, struct weir_transport_event *event, struct loop_garbage *garbage)
{
    event->server = &end->server->base;
    event->channel = end->channel;
    if (end->state != LOOP_OPENING)
        return;
    end->state = LOOP_OPEN;
    end->peer->state = LOOP_OPEN;
    weir_loop_forget_opening(end->peer);
    weir_loop_post(end->peer->poller, &end->peer->opened_event);
    weir_loop_push(end->peer, garbage); /* what it sent meanwhile */
}

static void take(struct loop_poller *p, struct loop_event *from, struct weir_transport_event *event,
                 struct loop_garbage *garbage)
{
    struct loop_end *end = from->end;
    if (from->type != WEIR_EVENT_SENT || --end->sent == 0) /* SENT stays at its place for the next one */
        weir_loop_remove(from);
    event->type = from->type;
    event->stream = &end->base;
    switch (from->type) {
    case WEIR_EVENT_ACCEPTED:
        take_accepted(end, event, garbage);
        break;
    case WEIR_EVENT_MESSAGE:
        event->message = &from->message->base;
        atomic_fetch_add_explicit(&p->base.transport->received, from->message->base.bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&p->base.transport->sent, from->message->base.bytes, memory_order_relaxed);
        end->peer->in_flight--;
        end->peer->sent++;
        weir_loop_post(end->peer->poller, &end->peer->sent_event);
        weir_loop_push(end->peer, garbage);
        break;
    case WEIR_EVENT_CLOSED:
        memcpy(event->reason, end->reason, sizeof event->reason);
        break;
    default:
        break;
    }
}

/* ---- waiting */

static uint64_t expire(struct loop_poller *p, struct loop_garbage *garbage)
{
    uint64_t next = UINT64_MAX, now = p->opening ? weir_clock_ns() : 0;
    for (struct loop_end *end = p->opening, *following; end; end = following) {
        following = end->opening_next;
        if (end->deadline_ns <= now)
            weir_loop_end(end, "timed out", "connection lost, or broken off by the peer", garbage);
        else if (end->deadline_ns < next)
            next = end->deadline_ns;
    }
    return next;
}

/* False if the deadline came. */
static bool sleep_until(struct loop_poller *p, uint64_t deadline_ns)
{
    pthread_mutex_t *lock = &transport_of(p)->lock;
    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(&p->changed, lock) == 0;
    const struct timespec until = {(time_t)(deadline_ns / WEIR_NS_PER_S), (long)(deadline_ns % WEIR_NS_PER_S)};
    return pthread_cond_timedwait(&p->changed, lock, &until) != ETIMEDOUT;
}

static void poller_wait(struct weir_poller *poller, uint64_t deadline_ns, struct weir_transport_event *event)
{
    struct loop_poller *p = (struct loop_poller *)poller;
    struct loop_garbage garbage = {NULL};
    pthread_mutex_lock(&transport_of(p)->lock);
    for (;;) {
        uint64_t until = expire(p, &garbage);
        if (p->woken) {
            p->woken = false;
            event->type = WEIR_EVENT_WOKEN;
            break;
        }
        if (p->events.next != &p->events) {
            take(p, p->events.next, event, &garbage);
            break;
        }
        if (deadline_ns == 0 || (!sleep_until(p, until < deadline_ns ? until : deadline_ns) && until >= deadline_ns))
            break;
    }
    pthread_mutex_unlock(&transport_of(p)->lock);
    weir_loop_empty(&garbage);
}

static void poller_wake(struct weir_poller *poller)
{
    struct loop_poller *p = (struct loop_poller *)poller;
    pthread_mutex_lock(&transport_of(p)->lock);
    p->woken = true;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&transport_of(p)->lock);
}

static struct weir_poller *poller_new(struct weir_transport *transport)
{
    struct loop_poller *p = weir_alloc(1, sizeof *p, "a poller");
    p->base.transport = transport;
    p->events.next = p->events.previous = &p->events;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return &p->base;
}

static void poller_free(struct weir_poller *poller)
{
    struct loop_poller *p = (struct loop_poller *)poller;
    while (p->events.next != &p->events) { /* streams that were accepted and closed unseen */
        struct loop_event *event = p->events.next;
        weir_loop_remove(event);
        if (event->type == WEIR_EVENT_CLOSED)
            weir_loop_free(&event->end->base);
    }
    assert(!p->opening);
    pthread_cond_destroy(&p->changed);
    free(p);
}

const struct weir_transport_ops weir_loop_ops = {
    .transport_free = transport_free,
    .poller_new = poller_new,
    .poller_free = poller_free,
    .poller_wait = poller_wait,
    .poller_wake = poller_wake,
    .server_start = weir_loop_server_start,
    .server_stop = weir_loop_server_stop,
    .stream_connect = weir_loop_connect,
    .stream_send = weir_loop_send,
    .stream_close = weir_loop_close,
    .stream_finish = weir_loop_finish,
    .stream_free = weir_loop_free,
    .message_slices = weir_loop_message_slices,
    .message_free = weir_loop_message_free,
};
