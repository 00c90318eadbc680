/* The relay's inside: relay.c has its thread and what callers see, relay_link.c one connection. Private to the library.
 *
 * All here is the relay's thread's, but for what `lock` guards.
 */
#ifndef WEIR_CHAOS_RELAY_INTERNAL_H
#define WEIR_CHAOS_RELAY_INTERNAL_H

#include <pthread.h>
#include <uv.h>

#include "chaos/relay.h"

/* Where one process listens for another. */
struct weir_relay_door {
    struct weir_relay *relay;
    uint32_t from, to;
    uint16_t port;
    uv_tcp_t listener;
};

/* What the relay keeps of a direction. */
struct weir_relay_way {
    struct weir_relay_rule rule; /* locked */
    bool reset;                  /* locked: wanted */
    uint64_t bytes;              /* locked */
};

struct weir_relay_link; /* one connection */

struct weir_relay {
    uint32_t nodes;
    uint16_t *ports;
    struct weir_relay_door *doors; /* nodes * nodes; those of a node to itself are unused */
    struct weir_relay_way *ways;   /* nodes * nodes, locked */
    pthread_mutex_t lock;
    bool stopping; /* locked */
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t changed;
    struct weir_relay_link *links;
    uint64_t random; /* of jitter; it needs no quality */
};

/* Takes the connection that waits at the door. */
void weir_relay_link_accept(struct weir_relay_door *door);
/* Looks at the rules again; breaks the link if that is wanted. */
void weir_relay_link_update(struct weir_relay_link *link);
void weir_relay_link_break(struct weir_relay_link *link);
struct weir_relay_link *weir_relay_link_next(struct weir_relay_link *link);

static inline struct weir_relay_way *weir_relay_way(struct weir_relay *relay, uint32_t from, uint32_t to)
{
    return &relay->ways[from * relay->nodes + to];
}

#endif
