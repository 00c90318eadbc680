/* The thread's streams: whose they are, and how messages become events. */
#include "runtime/thread_stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "wire/wire.h"

#define SILENT_NS (10 * WEIR_NS_PER_S) /* who opens a stream says Hello within this time */
#define REFUSED_NS WEIR_NS_PER_S       /* who is refused takes that within this time */
#define STRANGERS_MAX 64               /* at one time, besides as many as there are peers, who may all come at once */
#define SAY_EVERY_NS WEIR_NS_PER_S     /* who makes many streams must not fill the disk with lines about them */
#define LAST_WORDS_NS WEIR_NS_PER_S    /* for what is still under way when the thread ends */
#define CONNECT_TIMEOUT_MS 2000
#define SLICES_ON_STACK 64

static struct binding *bind_stream(struct weir_thread *thread, struct weir_stream *stream, struct weir_actor *actor)
{
    struct binding *binding = weir_alloc(1, sizeof *binding, "a stream");
    binding->stream = stream;
    binding->actor = actor;
    binding->next = thread->bindings;
    binding->link = &thread->bindings;
    if (binding->next)
        binding->next->link = &binding->next;
    thread->bindings = binding;
    weir_stream_set_user(stream, binding);
    return binding;
}

static void unbind_stream(struct binding *binding)
{
    *binding->link = binding->next;
    if (binding->next)
        binding->next->link = binding->link;
    weir_stream_free(binding->stream);
    free(binding);
}

/* A line of the log on why a stream is closed. */
static void say(struct weir_thread *thread, const struct binding *binding, const char *what, const char *reason)
{
    uint64_t now = weir_clock_ns();
    if (now < thread->quiet_until_ns) {
        thread->unsaid_count++;
        return;
    }
    thread->quiet_until_ns = now + SAY_EVERY_NS;
    weir_log_warning("%s: %s the stream from %s: %s", binding->actor->name, what, weir_stream_peer(binding->stream),
                     reason);
}

/* ---- strangers */

/* 0: no more. */
static void set_time(struct weir_thread *thread, struct binding *binding, uint64_t until_ns)
{
    thread->stranger_count += (until_ns != 0) - (binding->until_ns != 0);
    binding->until_ns = until_ns;
}

/* From now on nothing of this stream reaches the core. */
static void give_up(struct weir_thread *thread, struct binding *binding)
{
    set_time(thread, binding, 0);
    if (binding->bound && binding->actor->streams[binding->peer] == binding->stream)
        binding->actor->streams[binding->peer] = NULL;
    binding->bound = false;
    binding->given_up = true;
}

void weir_thread_connect(struct weir_actor *actor, uint32_t peer)
{
    assert(actor->address && peer < actor->peers);
    uint32_t channel = 0;
    const char *address = actor->address(actor->context, peer, &channel);
    struct weir_stream *stream =
        weir_stream_connect(actor->thread->poller, address, channel, actor->message_limit_bytes, CONNECT_TIMEOUT_MS);
    struct binding *binding = bind_stream(actor->thread, stream, actor);
    binding->bound = binding->dialled = true;
    binding->peer = peer;
    actor->streams[peer] = stream;
}

void weir_thread_close(struct weir_actor *actor, uint32_t peer, const char *reason)
{
    struct weir_stream *stream = actor->streams[peer];
    if (!stream)
        return;
    if (reason[0])
        say(actor->thread, weir_stream_user(stream), "closing", reason);
    give_up(actor->thread, weir_stream_user(stream));
    weir_stream_close(stream, reason);
}

void weir_thread_send(struct weir_actor *actor, struct weir_action *action)
{
    struct weir_stream *stream = actor->streams[action->peer];
    struct weir_attachment attachment = {.slices = 0};
    if (!stream)
        return; /* it broke: what was not sent is sent again after the next Hello */
    if (actor->outgoing)
        actor->outgoing(actor->context, &action->body, &attachment);
    uint8_t *header;
    size_t header_bytes = weir_wire_encode(&action->body, attachment.slices ? attachment.slice.count : 0, &header);
    struct weir_outgoing outgoing = {
        .header = header,
        .header_bytes = header_bytes,
        .payload = &attachment.slice,
        .payload_count = attachment.slices,
        .release = attachment.release,
        .release_context = attachment.release_context,
    };
    weir_stream_send(stream, &outgoing);
    free(header);
}

static void step_closed(struct weir_actor *actor, uint32_t peer, const char *reason)
{
    struct weir_event out = {.kind = WEIR_ON_CLOSED, .peer = peer, .text = reason[0] ? reason : "connection closed"};
    weir_thread_step(actor, &out);
}

/* Closes a stream for what came on it; its core learns it at once. */
static void break_off(struct weir_thread *thread, struct binding *binding, const char *reason)
{
    struct weir_actor *actor = binding->actor;
    bool bound = binding->bound;
    uint32_t peer = binding->peer;
    say(thread, binding, "closing", reason);
    give_up(thread, binding);
    weir_stream_close(binding->stream, reason);
    if (bound)
        step_closed(actor, peer, reason);
}

/* Room for a newcomer is made by who was there longest: a member says its Hello at once, so it gets through even while
 * others open streams and say nothing. */
static void break_off_oldest(struct weir_thread *thread)
{
    struct binding *oldest = NULL;
    for (struct binding *binding = thread->bindings; binding; binding = binding->next)
        if (binding->until_ns)
            oldest = binding;
    break_off(thread, oldest, "there are too many streams that say no Hello");
}

static void on_accepted(struct weir_thread *thread, const struct weir_transport_event *event)
{
    struct weir_actor *actor = thread->accepts[event->channel];
    struct binding *binding = bind_stream(thread, event->stream, actor);
    if (!actor) {
        give_up(thread, binding);
        weir_stream_close(event->stream, "not served yet");
        return;
    }
    if (thread->stranger_count >= STRANGERS_MAX + actor->peers)
        break_off_oldest(thread);
    set_time(thread, binding, weir_clock_ns() + SILENT_NS);
}

static void refuse(struct weir_thread *thread, struct binding *binding, const char *reason, bool again)
{
    say(thread, binding, "refused", reason);
    struct weir_message_body body = {.type = WEIR_REFUSED, .refused = {reason, again}};
    uint8_t *header;
    size_t bytes = weir_wire_encode(&body, 0, &header);
    struct weir_outgoing outgoing = {.header = header, .header_bytes = bytes};
    weir_stream_send(binding->stream, &outgoing);
    free(header);
    give_up(thread, binding);
    weir_stream_finish(binding->stream);
    set_time(thread, binding, weir_clock_ns() + REFUSED_NS);
}

/* A stranger's first message. True if it is a peer's Hello: then the stream is bound to it. */
static bool admit(struct weir_thread *thread, struct binding *binding, const struct weir_message_body *body)
{
    struct weir_actor *actor = binding->actor;
    char reason[1024] = "";
    uint32_t peer = 0;
    bool again = false;
    if (body->type != WEIR_HELLO) {
        break_off(thread, binding, "its first message is no Hello");
        return false;
    }
    if (!actor->admit(actor->context, &body->hello, &peer, reason, sizeof reason, &again)) {
        refuse(thread, binding, reason, again);
        return false;
    }
    struct weir_stream *old = actor->streams[peer];
    if (old) { /* the peer came back before we learned that its stream broke */
        give_up(thread, weir_stream_user(old));
        weir_stream_close(old, "replaced by a newer stream");
        step_closed(actor, peer, "replaced by a newer stream");
    }
    set_time(thread, binding, 0);
    binding->bound = true;
    binding->peer = peer;
    actor->streams[peer] = binding->stream;
    return true;
}

static void give_message(struct weir_thread *thread, struct binding *binding, struct weir_message *message,
                         const struct weir_slice *slices, size_t count)
{
    struct weir_wire_frame frame;
    struct weir_error err;
    if (!weir_wire_decode(slices, count, &frame, &err)) {
        break_off(thread, binding, err.text);
        return;
    }
    if (binding->bound || admit(thread, binding, &frame.body)) {
        struct weir_event out = {
            .kind = WEIR_ON_MESSAGE,
            .peer = binding->peer,
            .body = &frame.body,
            .payload_bytes = frame.payload_bytes,
            .text = "",
        };
        if (frame.payload_bytes)
            out.payload = (uint64_t)(uintptr_t)weir_payload_new(message, slices, count, frame.payload_offset,
                                                                frame.payload_bytes);
        weir_thread_step(binding->actor, &out);
    }
    weir_wire_frame_free(&frame);
}

static void on_message(struct weir_thread *thread, struct binding *binding, struct weir_message *message)
{
    struct weir_slice few[SLICES_ON_STACK], *slices = few;
    size_t count = weir_message_slices(message, few, SLICES_ON_STACK);
    if (count > SLICES_ON_STACK) {
        slices = weir_alloc(count, sizeof *slices, "a message's slices");
        weir_message_slices(message, slices, count);
    }
    if (!binding->given_up)
        give_message(thread, binding, message, slices, count);
    if (slices != few)
        free(slices);
    weir_message_unref(message);
}

static void on_closed(struct weir_thread *thread, struct binding *binding, const char *reason)
{
    struct weir_actor *actor = binding->actor;
    bool bound = binding->bound;
    uint32_t peer = binding->peer;
    give_up(thread, binding);
    unbind_stream(binding);
    if (bound && !atomic_load(&thread->stopping))
        step_closed(actor, peer, reason);
}

void weir_thread_transport_event(struct weir_thread *thread, struct weir_transport_event *event)
{
    struct binding *binding = event->stream ? weir_stream_user(event->stream) : NULL;
    struct weir_event out = {.text = ""};
    switch (event->type) {
    case WEIR_EVENT_ACCEPTED:
        on_accepted(thread, event);
        break;
    case WEIR_EVENT_OPENED:
    case WEIR_EVENT_SENT:
        if (!binding->bound)
            break;
        out.kind = event->type == WEIR_EVENT_OPENED ? WEIR_ON_OPENED : WEIR_ON_SENT;
        out.peer = binding->peer;
        weir_thread_step(binding->actor, &out);
        break;
    case WEIR_EVENT_MESSAGE:
        on_message(thread, binding, event->message);
        break;
    case WEIR_EVENT_CLOSED:
        on_closed(thread, binding, event->reason);
        break;
    default:
        break; /* time, or woken: the loop looks */
    }
}

/* Says how many lines were left out; returns when to look again. */
static uint64_t say_rest(struct weir_thread *thread, uint64_t now_ns)
{
    if (thread->unsaid_count && now_ns >= thread->quiet_until_ns) {
        weir_log_warning("%s: and %u more streams were refused or closed", thread->name, thread->unsaid_count);
        thread->unsaid_count = 0;
        thread->quiet_until_ns = now_ns + SAY_EVERY_NS;
    }
    return thread->unsaid_count ? thread->quiet_until_ns : UINT64_MAX;
}

uint64_t weir_thread_stranger_deadline(struct weir_thread *thread)
{
    if (!thread->stranger_count && !thread->unsaid_count)
        return UINT64_MAX;
    uint64_t now = weir_clock_ns(), first = UINT64_MAX;
    for (struct binding *binding = thread->stranger_count ? thread->bindings : NULL; binding; binding = binding->next) {
        if (!binding->until_ns)
            continue;
        if (binding->until_ns <= now)
            break_off(thread, binding, binding->given_up ? "it did not take its refusal" : "it said nothing for 10 s");
        else if (binding->until_ns < first)
            first = binding->until_ns;
    }
    uint64_t rest = say_rest(thread, now);
    return rest < first ? rest : first;
}

/* What was said last may still be on its way: a stream that is broken off can lose it, and the peer would wait in vain.
 */
static void finish_all(struct weir_thread *thread)
{
    for (struct binding *binding = thread->bindings; binding; binding = binding->next)
        if (binding->dialled && !binding->given_up)
            weir_stream_finish(binding->stream);
        else
            weir_stream_close(binding->stream, "");
}

static void break_off_all(struct weir_thread *thread)
{
    for (struct binding *binding = thread->bindings; binding; binding = binding->next)
        weir_stream_close(binding->stream, "");
}

void weir_thread_close_all(struct weir_thread *thread)
{
    uint64_t until = weir_clock_ns() + LAST_WORDS_NS;
    finish_all(thread);
    struct weir_transport_event event;
    while (thread->bindings) {
        weir_poller_wait(thread->poller, until, &event);
        if (event.type == WEIR_EVENT_ACCEPTED) {
            bind_stream(thread, event.stream, NULL)->given_up = true;
            weir_stream_close(event.stream, "");
        } else if (event.type == WEIR_EVENT_MESSAGE) {
            weir_message_unref(event.message);
        } else if (event.type == WEIR_EVENT_CLOSED) {
            unbind_stream(weir_stream_user(event.stream));
        } else if (event.type == WEIR_EVENT_NONE) {
            break_off_all(thread);
            until = UINT64_MAX;
        }
    }
}
