/* What the agents of a parameter server and of a worker have in common: the node core on its control thread, and the
 * threads of the lanes, which that one starts when the view is there. */
#ifndef WEIR_CLI_AGENT_NODE_H
#define WEIR_CLI_AGENT_NODE_H

#include "cli/agent.h"
#include "protocol/node.h"

struct weir_agent_node {
    struct weir_process *process;
    void *owner;
    void (*lanes)(void *owner, const struct weir_view *view); /* the first view came: start */
    void (*view)(void *owner, const struct weir_view *view);  /* a newer one */
    bool has_view;
    uint64_t (*step)(void *owner); /* where the owner is, for the heartbeat */
    struct weir_arena arena;
    struct weir_actor actor;
    struct weir_thread *thread;
    struct weir_thread *lane_threads[WEIR_LANES_MAX]; /* the owner makes them, one for each lane of the process */
    uint32_t started;                                 /* of them */
    char name[64];
    char waiting[WEIR_WAIT_BYTES]; /* what was said last, at said_ns; `waits`: and that it is over was not */
    uint64_t said_ns;
    bool waits;
};

/* `hello` is what it says of itself to the chief. */
void weir_agent_node_init(struct weir_agent_node *node, struct weir_process *process, const struct weir_member *self,
                          const struct weir_hello *hello);
/* Tells the core that this node can't go on. Any thread. */
void weir_agent_node_fail(struct weir_agent_node *node, const char *why);
/* Starts the threads of the lanes, on the control thread. If one can't be, the core is told, and it returns false. */
bool weir_agent_node_start_lanes(struct weir_agent_node *node);
/* Asks all threads to end. */
void weir_agent_node_stop(struct weir_agent_node *node);
/* Once the control thread is joined, so that no lane is started any more: waits for their threads, and frees all. */
void weir_agent_node_join_lanes(struct weir_agent_node *node);
void weir_agent_node_free(struct weir_agent_node *node);

/* The incarnations that a view gives to the nodes of a role, by position: at least `count`, 0 where it names none (it
 * came over the network). The arena's. */
uint64_t *weir_agent_incarnations(const struct weir_view *view, enum weir_node_role role, uint32_t count,
                                  struct weir_arena *arena);

#endif
