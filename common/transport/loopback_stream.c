#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/loopback_internal.h"

static struct loop_transport *transport_of(const struct loop_end *end)
{
    return (struct loop_transport *)end->base.transport;
}

/* ---- messages */

static struct loop_message *message_new(const struct weir_outgoing *out)
{
    size_t table = (1 + out->payload_count) * sizeof(struct weir_slice);
    struct loop_message *m = weir_alloc(1, sizeof *m + table + out->header_bytes, "a message");
    m->base.ops = &weir_loop_ops;
    atomic_init(&m->base.references, 1);
    m->release = out->release;
    m->release_context = out->release_context;
    char *header = (char *)m->slices + table;
    if (out->header_bytes) {
        memcpy(header, out->header, out->header_bytes);
        m->slices[m->slice_count++] = (struct weir_slice){header, out->header_bytes};
    }
    for (size_t i = 0; i < out->payload_count; i++)
        if (out->payload[i].count)
            m->slices[m->slice_count++] = out->payload[i];
    for (size_t i = 0; i < m->slice_count; i++)
        m->base.bytes += m->slices[i].count;
    return m;
}

size_t weir_loop_message_slices(const struct weir_message *message, struct weir_slice *slices, size_t max)
{
    const struct loop_message *m = (const struct loop_message *)message;
    for (size_t i = 0; i < m->slice_count && i < max; i++)
        slices[i] = m->slices[i];
    return m->slice_count;
}

void weir_loop_message_free(struct weir_message *message)
{
    struct loop_message *m = (struct loop_message *)message;
    if (m->release)
        m->release(m->release_context);
    free(m);
}

void weir_loop_discard(struct loop_garbage *garbage, struct loop_message *message)
{
    message->next = garbage->first;
    garbage->first = message;
}

void weir_loop_empty(struct loop_garbage *garbage)
{
    while (garbage->first) {
        struct loop_message *message = garbage->first;
        garbage->first = message->next;
        weir_message_unref(&message->base);
    }
}

/* ---- ends (the lock is held) */

struct loop_end *weir_loop_end_new(struct loop_poller *poller, uint32_t channel, size_t limit, const char *peer)
{
    struct loop_end *end = weir_alloc(1, sizeof *end, "a stream");
    end->base.transport = poller->base.transport;
    snprintf(end->base.peer, sizeof end->base.peer, "%s", peer);
    end->poller = poller;
    end->channel = channel;
    end->message_limit_bytes = limit;
    end->opened_event = (struct loop_event){.type = WEIR_EVENT_OPENED, .end = end};
    end->sent_event = (struct loop_event){.type = WEIR_EVENT_SENT, .end = end};
    end->closed_event = (struct loop_event){.type = WEIR_EVENT_CLOSED, .end = end};
    return end;
}

void weir_loop_forget_opening(struct loop_end *end)
{
    for (struct loop_end **at = &end->poller->opening; *at; at = &(*at)->opening_next)
        if (*at == end) {
            *at = end->opening_next;
            break;
        }
}

void weir_loop_server_unref(struct loop_server *server)
{
    if (--server->references == 0)
        free(server);
}

void weir_loop_end_free(struct loop_end *end)
{
    if (end->peer)
        end->peer->peer = NULL;
    if (end->server)
        weir_loop_server_unref(end->server);
    free(end);
}

/* What was on its way to the peer. */
static void drop_messages(struct loop_end *end, struct loop_garbage *garbage)
{
    while (end->first) {
        struct loop_message *message = end->first;
        end->first = message->next;
        weir_loop_discard(garbage, message);
    }
    end->last = NULL;
    if (!end->peer || !end->in_flight)
        return;
    struct loop_event *anchor = &end->peer->poller->events;
    for (struct loop_event *at = anchor->next, *next; at != anchor; at = next) {
        next = at->next;
        if (at->type != WEIR_EVENT_MESSAGE || at->end != end->peer)
            continue;
        weir_loop_remove(at);
        weir_loop_discard(garbage, at->message);
    }
    end->in_flight = 0;
}

static void leave_server(struct loop_end *end)
{
    struct loop_end **at = &end->server->ends;
    while (*at != end)
        at = &(*at)->server_next;
    *at = end->server_next;
}

static void end_one(struct loop_end *end, const char *reason, struct loop_garbage *garbage)
{
    end->state = LOOP_OVER;
    snprintf(end->reason, sizeof end->reason, "%.255s", reason);
    drop_messages(end, garbage);
    weir_loop_forget_opening(end);
    if (end->server)
        leave_server(end);
    weir_loop_post(end->poller, &end->closed_event); /* behind ACCEPTED, OPENED and SENT, if they are there */
}

void weir_loop_end(struct loop_end *end, const char *own_reason, const char *peer_reason, struct loop_garbage *garbage)
{
    if (end->state == LOOP_OVER)
        return;
    struct loop_end *peer = end->peer;
    end_one(end, own_reason, garbage);
    if (peer)
        end_one(peer, peer_reason, garbage);
}

void weir_loop_push(struct loop_end *end, struct loop_garbage *garbage)
{
    if (end->state != LOOP_OPEN)
        return;
    while (end->first && end->in_flight < LOOP_WINDOW) {
        struct loop_message *message = end->first;
        end->first = message->next;
        end->in_flight++;
        message->event = (struct loop_event){.type = WEIR_EVENT_MESSAGE, .end = end->peer, .message = message};
        weir_loop_post(end->peer->poller, &message->event);
    }
    if (end->finishing && !end->first && !end->in_flight)
        weir_loop_end(end, "", "finished by the peer", garbage);
}

/* ---- calls */

static struct loop_garbage lock(struct loop_end *end)
{
    pthread_mutex_lock(&transport_of(end)->lock);
    return (struct loop_garbage){NULL};
}

static void unlock(struct loop_end *end, struct loop_garbage *garbage)
{
    pthread_mutex_unlock(&transport_of(end)->lock);
    weir_loop_empty(garbage);
}

static void queue(struct loop_end *end, struct loop_message *message)
{
    if (end->first)
        end->last->next = message;
    else
        end->first = message;
    end->last = message;
}

void weir_loop_send(struct weir_stream *stream, const struct weir_outgoing *outgoing)
{
    struct loop_end *end = (struct loop_end *)stream;
    struct loop_message *message = message_new(outgoing);
    struct loop_garbage garbage = lock(end);
    if (end->state == LOOP_OVER || end->finishing) {
        weir_loop_discard(&garbage, message);
    } else if (message->base.bytes > end->peer->message_limit_bytes) {
        char reason[128];
        snprintf(reason, sizeof reason, "message of %zu bytes exceeds the limit of %zu bytes", message->base.bytes,
                 end->peer->message_limit_bytes);
        weir_loop_discard(&garbage, message);
        weir_loop_end(end, reason, reason, &garbage);
    } else {
        queue(end, message);
        weir_loop_push(end, &garbage);
    }
    unlock(end, &garbage);
}

/* Nothing but CLOSED is told after the caller closed. */
static void withdraw_events(struct loop_end *end, struct loop_garbage *garbage)
{
    weir_loop_remove(&end->sent_event);
    if (!end->server)
        weir_loop_remove(&end->opened_event);
    if (end->peer)
        drop_messages(end->peer, garbage);
    end->reason[0] = 0;
}

void weir_loop_close(struct weir_stream *stream, const char *reason)
{
    struct loop_end *end = (struct loop_end *)stream;
    struct loop_garbage garbage = lock(end);
    weir_loop_end(end, "", reason[0] ? reason : "closed by the peer", &garbage);
    withdraw_events(end, &garbage);
    unlock(end, &garbage);
}

void weir_loop_finish(struct weir_stream *stream)
{
    struct loop_end *end = (struct loop_end *)stream;
    struct loop_garbage garbage = lock(end);
    end->finishing = true;
    weir_loop_push(end, &garbage);
    unlock(end, &garbage);
}

void weir_loop_free(struct weir_stream *stream)
{
    struct loop_end *end = (struct loop_end *)stream;
    struct loop_transport *t = transport_of(end);
    pthread_mutex_lock(&t->lock);
    assert(end->state == LOOP_OVER && !end->closed_event.next);
    weir_loop_end_free(end);
    pthread_mutex_unlock(&t->lock);
}
