/* Threads that run pure cores: they bring events to them and carry out their actions.
 *
 * A thread owns a poller and some actors. Everything that happens to an actor happens on its thread, one event at a
 * time: messages of its streams, deadlines, and what other actors tell it. What all cores have in common (connect,
 * send, close, tell, release) is done here; the rest goes to the actor's `perform`.
 */
#ifndef WEIR_RUNTIME_THREAD_H
#define WEIR_RUNTIME_THREAD_H

#include "base/error.h"
#include "base/slice.h"
#include "protocol/core.h"
#include "protocol/wait.h"
#include "runtime/payload.h"
#include "transport/transport.h"

struct weir_thread;

/* What goes out with a message: filled by an actor for each SEND. */
struct weir_attachment {
    struct weir_slice slice;
    size_t slices; /* 0 or 1 */
    void (*release)(void *context);
    void *release_context;
};

/* One core and what it is connected to. The owner fills it in and keeps it until the thread is joined. Peers are the
 * core's slots. */
struct weir_actor {
    const char *name; /* "worker/1 lane 0", for the log */
    void *core;
    void *context; /* the owner's, given to the functions below */
    void (*step)(void *core, const struct weir_event *event, struct weir_actions *actions);
    uint64_t (*deadline)(const void *core); /* NULL: has none */
    /* What it waits for, as protocol/wait.h says. NULL: nothing, or it tells by itself. When that lasts, its node
     * (WEIR_ACTOR_NODE of `find`) is told with WEIR_ON_WAITING, as actor number `wait_number`. */
    uint64_t (*waiting)(const void *core, char *text, size_t bytes);
    uint32_t wait_number;
    size_t actions_max;
    uint32_t peers;
    /* Whose slot a new stream is, by its Hello; false and why it is refused, and whether it may try again. NULL:
     * accepts no streams. */
    bool (*admit)(void *context, const struct weir_hello *hello, uint32_t *peer, char *reason, size_t reason_bytes,
                  bool *again);
    /* Where a peer is that the core connects to. NULL: connects to nobody. */
    const char *(*address)(void *context, uint32_t peer, uint32_t *channel);
    /* Completes a message that is sent (what only the owner knows), and attaches its payload. NULL: nothing to do. */
    void (*outgoing)(void *context, struct weir_message_body *body, struct weir_attachment *attachment);
    /* Carries out an action that is none of the common ones. */
    void (*perform)(void *context, const struct weir_action *action);
    /* Who is meant by TELL: `lane` for WEIR_ACTOR_LANE. Called for each of the lanes but one for WEIR_ACTOR_LANES. NULL
     * if there is no such actor. */
    struct weir_actor *(*find)(void *context, enum weir_actor_name actor, uint32_t lane);
    /* What takes long to make ready, done on the thread before the actor's first event. NULL: nothing. */
    void (*begin)(void *context);
    uint32_t lanes;             /* for WEIR_ACTOR_LANES */
    size_t message_limit_bytes; /* of what it receives on streams that it opened */

    /* the runtime's */
    struct weir_thread *thread;
    struct weir_actions actions;
    struct weir_stream **streams; /* by peer */
    struct weir_wait wait;
};

struct weir_thread *weir_thread_new(struct weir_transport *transport, const char *name);
struct weir_poller *weir_thread_poller(struct weir_thread *thread);
/* Before start. ON_START is the actor's first event. */
void weir_thread_add(struct weir_thread *thread, struct weir_actor *actor);
/* Streams that come in on `channel` are the actor's. Before start. */
void weir_thread_accept(struct weir_thread *thread, uint32_t channel, struct weir_actor *actor);
bool weir_thread_start(struct weir_thread *thread, struct weir_error *err);
/* Asks the thread to close all streams and end. From any thread, also its own. */
void weir_thread_stop(struct weir_thread *thread);
/* Waits for the end of a thread that was started. Others may still post to its actors. */
void weir_thread_join(struct weir_thread *thread);
/* Frees a thread that was never started or is joined, once nobody can post to its actors, which are the owner's. */
void weir_thread_free(struct weir_thread *thread);

/* Tells an actor something, from any thread, in order. body, numbers, replicas and text of the event are copied; of a
 * view, its nodes (without addresses) and hosts only. */
void weir_post(struct weir_actor *actor, const struct weir_event *event);

#endif
