/* What the files of the thread share. Nobody else includes this. */
#ifndef WEIR_RUNTIME_THREAD_STREAM_H
#define WEIR_RUNTIME_THREAD_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/mailbox.h"
#include "runtime/thread.h"

#define ACTORS_MAX 8

/* What a stream is to this thread: its user pointer. */
struct binding {
    struct binding *next, **link; /* in thread->bindings, the newest first */
    struct weir_stream *stream;
    struct weir_actor *actor;
    bool bound;    /* to a peer: else it has said nothing yet, or was given up */
    bool dialled;  /* by this side */
    bool given_up; /* nothing of it reaches the core any more */
    uint32_t peer;
    uint64_t until_ns; /* a stranger: closed then, for it said nothing, or does not take its refusal; 0: is none */
};

struct weir_thread {
    struct weir_poller *poller;
    char name[64];
    pthread_t id;
    atomic_bool stopping;
    struct weir_mailbox mailbox;
    struct weir_actor *actors[ACTORS_MAX];
    uint32_t actor_count;
    struct weir_actor *accepts[WEIR_CHANNELS_MAX];
    struct binding *bindings;
    uint32_t stranger_count; /* accepted streams that are no peer's yet, or were refused and have not ended */
    uint64_t quiet_until_ns; /* lines about closed streams: one now and then */
    uint32_t unsaid_count;   /* such lines that were left out since */
    uint64_t look_at_ns;     /* for waits that last */
};

void weir_thread_step(struct weir_actor *actor, struct weir_event *event);

void weir_thread_connect(struct weir_actor *actor, uint32_t peer);
void weir_thread_close(struct weir_actor *actor, uint32_t peer, const char *reason);
void weir_thread_send(struct weir_actor *actor, struct weir_action *action);
void weir_thread_transport_event(struct weir_thread *thread, struct weir_transport_event *event);
/* Closes strangers whose time is over, and says how many lines about streams were left out. Returns when to call again.
 */
uint64_t weir_thread_stranger_deadline(struct weir_thread *thread);
/* Ends all streams and waits until they are over. What was sent on those that this side opened arrives, if the peer
 * takes it within 1 s. */
void weir_thread_close_all(struct weir_thread *thread);

#endif
