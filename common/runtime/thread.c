#include "runtime/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "runtime/mailbox.h"
#include "runtime/thread_stream.h"

struct weir_thread *weir_thread_new(struct weir_transport *transport, const char *name)
{
    struct weir_thread *thread = weir_alloc(1, sizeof *thread, "a thread");
    thread->poller = weir_poller_new(transport);
    snprintf(thread->name, sizeof thread->name, "%s", name);
    weir_mailbox_init(&thread->mailbox);
    return thread;
}

struct weir_poller *weir_thread_poller(struct weir_thread *thread)
{
    return thread->poller;
}

void weir_thread_add(struct weir_thread *thread, struct weir_actor *actor)
{
    assert(thread->actor_count < ACTORS_MAX);
    thread->actors[thread->actor_count++] = actor;
    actor->thread = thread;
    actor->actions.list = weir_alloc(actor->actions_max, sizeof(struct weir_action), "a core's actions");
    actor->actions.capacity = actor->actions_max;
    actor->streams = weir_alloc(actor->peers, sizeof(struct weir_stream *), "a core's streams");
    struct weir_event start = {.kind = WEIR_ON_START, .text = ""};
    weir_post(actor, &start);
}

void weir_thread_accept(struct weir_thread *thread, uint32_t channel, struct weir_actor *actor)
{
    assert(channel < WEIR_CHANNELS_MAX && actor->admit);
    thread->accepts[channel] = actor;
}

void weir_post(struct weir_actor *actor, const struct weir_event *event)
{
    struct weir_thread *thread = actor->thread;
    if (weir_mailbox_put(&thread->mailbox, actor, event) && !pthread_equal(pthread_self(), thread->id))
        weir_poller_wake(thread->poller);
}

/* ---- actions */

static void tell(struct weir_actor *to, const struct weir_action *action)
{
    if (!to)
        return;
    struct weir_event event = {
        .kind = action->tell,
        .lane = action->lane,
        .round = action->round,
        .step = action->step,
        .body = action->has_body ? &action->body : NULL,
        .numbers = action->numbers,
        .number_count = action->number_count,
        .text = action->text,
    };
    weir_post(to, &event);
}

static void carry_out(struct weir_actor *actor, struct weir_action *action)
{
    switch (action->kind) {
    case WEIR_DO_CONNECT:
        weir_thread_connect(actor, action->peer);
        break;
    case WEIR_DO_CLOSE:
        weir_thread_close(actor, action->peer, action->text);
        break;
    case WEIR_DO_SEND:
        weir_thread_send(actor, action);
        break;
    case WEIR_DO_RELEASE:
        weir_payload_free(weir_payload_of(action->payload));
        break;
    case WEIR_DO_TELL:
        if (action->actor == WEIR_ACTOR_LANES) {
            for (uint32_t lane = 0; lane < actor->lanes; lane++)
                if (lane != action->lane)
                    tell(actor->find(actor->context, WEIR_ACTOR_LANE, lane), action);
        } else {
            tell(actor->find(actor->context, action->actor, action->lane), action);
        }
        break;
    default:
        actor->perform(actor->context, action);
    }
}

void weir_thread_step(struct weir_actor *actor, struct weir_event *event)
{
    event->now_ns = weir_clock_ns();
    actor->actions.count = 0;
    actor->step(actor->core, event, &actor->actions);
    for (size_t i = 0; i < actor->actions.count; i++)
        carry_out(actor, &actor->actions.list[i]);
}

/* ---- the loop */

static void deliver_letters(struct weir_thread *thread)
{
    struct weir_letter *letter;
    while (!atomic_load(&thread->stopping) && (letter = weir_mailbox_take(&thread->mailbox))) {
        for (struct weir_letter *next; letter; letter = next) {
            next = letter->next;
            if (!atomic_load(&thread->stopping))
                weir_thread_step(letter->to, &letter->event);
            weir_letter_free(letter);
        }
    }
}

static uint64_t deliver_deadlines(struct weir_thread *thread)
{
    uint64_t next = weir_thread_stranger_deadline(thread);
    for (uint32_t i = 0; i < thread->actor_count; i++) {
        struct weir_actor *actor = thread->actors[i];
        if (!actor->deadline)
            continue;
        if (actor->deadline(actor->core) <= weir_clock_ns()) {
            struct weir_event event = {.kind = WEIR_ON_TIME, .text = ""};
            weir_thread_step(actor, &event);
        }
        uint64_t deadline = actor->deadline(actor->core);
        next = deadline < next ? deadline : next;
    }
    return next;
}

/* Tells the node of each actor whether that waits for long. Returns when to look again. */
static uint64_t look_for_waits(struct weir_thread *thread)
{
    uint64_t now = weir_clock_ns();
    char text[WEIR_WAIT_BYTES];
    if (now < thread->look_at_ns)
        return thread->look_at_ns;
    thread->look_at_ns = WEIR_NEVER;
    for (uint32_t i = 0; i < thread->actor_count; i++) {
        struct weir_actor *actor = thread->actors[i];
        if (!actor->waiting)
            continue;
        thread->look_at_ns = now + WEIR_WAIT_LOOK_NS;
        uint64_t step = actor->waiting(actor->core, text, sizeof text);
        if (!weir_wait_look(&actor->wait, text, now))
            continue;
        struct weir_event event = {.kind = WEIR_ON_WAITING, .lane = actor->wait_number, .step = step};
        event.text = actor->wait.is_long ? actor->wait.text : "";
        weir_post(actor->find(actor->context, WEIR_ACTOR_NODE, 0), &event);
    }
    return thread->look_at_ns;
}

/* A core that says nothing of time may have told others of this thread something. */
static bool letters_wait(struct weir_thread *thread)
{
    pthread_mutex_lock(&thread->mailbox.lock);
    bool wait = thread->mailbox.first != NULL;
    pthread_mutex_unlock(&thread->mailbox.lock);
    return wait;
}

static void *run(void *argument)
{
    struct weir_thread *thread = argument;
    struct weir_transport_event event;
    for (uint32_t i = 0; i < thread->actor_count; i++)
        if (thread->actors[i]->begin)
            thread->actors[i]->begin(thread->actors[i]->context);
    while (!atomic_load(&thread->stopping)) {
        deliver_letters(thread);
        if (atomic_load(&thread->stopping))
            break;
        uint64_t deadline = deliver_deadlines(thread), look_at = look_for_waits(thread);
        deadline = look_at < deadline ? look_at : deadline;
        if (letters_wait(thread))
            deadline = 0;
        weir_poller_wait(thread->poller, deadline, &event);
        weir_thread_transport_event(thread, &event);
    }
    weir_thread_close_all(thread);
    return NULL;
}

bool weir_thread_start(struct weir_thread *thread, struct weir_error *err)
{
    int code = pthread_create(&thread->id, NULL, run, thread);
    if (code != 0)
        return weir_error_set(err, "thread %s could not be started: %s; raise the limit of processes (ulimit -u)",
                              thread->name, strerror(code));
    char short_name[16];
    snprintf(short_name, sizeof short_name, "%.15s", thread->name);
    pthread_setname_np(thread->id, short_name);
    return true;
}

void weir_thread_stop(struct weir_thread *thread)
{
    atomic_store(&thread->stopping, true);
    weir_poller_wake(thread->poller);
}

void weir_thread_free(struct weir_thread *thread)
{
    weir_mailbox_destroy(&thread->mailbox);
    for (uint32_t i = 0; i < thread->actor_count; i++) {
        free(thread->actors[i]->actions.list);
        free(thread->actors[i]->streams);
    }
    weir_poller_free(thread->poller);
    free(thread);
}

void weir_thread_join(struct weir_thread *thread)
{
    pthread_join(thread->id, NULL);
}
