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
    struct binding *next, **link; /* in thread->bindings */
    struct weir_stream *stream;
    struct weir_actor *actor;
    bool bound; /* to a peer: else it has said nothing yet, or was given up */
    bool given_up;
    uint32_t peer;
    uint64_t silent_until_ns; /* not bound: closed then */
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
    uint32_t silent_count; /* accepted streams that have said nothing yet */
    uint64_t look_at_ns;   /* for waits that last */
};

void weir_thread_step(struct weir_actor *actor, struct weir_event *event);

void weir_thread_connect(struct weir_actor *actor, uint32_t peer);
void weir_thread_close(struct weir_actor *actor, uint32_t peer, const char *reason);
void weir_thread_send(struct weir_actor *actor, struct weir_action *action);
void weir_thread_transport_event(struct weir_thread *thread, struct weir_transport_event *event);
/* When the first stream that has said nothing must be closed; those whose time is over are closed. */
uint64_t weir_thread_silent_deadline(struct weir_thread *thread);
/* Closes all streams and waits until they are over. */
void weir_thread_close_all(struct weir_thread *thread);

#endif
