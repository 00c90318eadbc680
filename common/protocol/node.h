/* A member of the cluster: joins the chief, says that it lives, gets the view, leaves when told to. A pure core, one
 * per process beside its lanes (a parameter server's or a worker's).
 *
 * Peer 0 is the chief's control stream. WEIR_DO_SEND of a Heartbeat: the interpreter fills in what it measures (pid,
 * CPU, bytes, ...).
 */
#ifndef WEIR_PROTOCOL_NODE_H
#define WEIR_PROTOCOL_NODE_H

#include "base/arena.h"
#include "protocol/core.h"
#include "protocol/link.h"
#include "protocol/machine.h"
#include "protocol/wait.h"

enum weir_node_state {
    WEIR_NODE_JOINING, /* the chief has not answered yet */
    WEIR_NODE_WAITING, /* joined; the view comes when all have joined */
    WEIR_NODE_RUNNING,
    WEIR_NODE_DRAINING, /* a worker that was told to go: finishes what it has begun, and waits for a view without it */
    WEIR_NODE_FAILING,  /* told the chief why it can't go on, waits for the view that says so */
    WEIR_NODE_LEAVING,  /* the last heartbeat is on its way */
    WEIR_NODE_DONE,
};

struct weir_node;

struct weir_node_config {
    struct weir_hello hello;   /* what it says of itself; the texts outlive the node */
    const char *name;          /* "worker/1 at 127.0.0.1:2224" */
    const char *chief_name;    /* "chief/0 at 127.0.0.1:2222" */
    uint64_t start_timeout_ns; /* until the chief answers, and until the view is there */
    uint64_t lease_ns;         /* how long the chief may be out of reach after that */
    uint64_t heartbeat_ns;
};

#define WEIR_NODE_EXIT_DRAINED 143 /* exit status of one that was told to go, and that nobody misses */
#define WEIR_NODE_ACTIONS_MAX 8
#define WEIR_NODE_WAITS_MAX 9 /* actors of a process that may wait: its lanes, and one more */

struct weir_node *weir_node_init(struct weir_arena *arena, const struct weir_node_config *config);

/* Events: ON_START, ON_TIME, ON_OPENED, ON_CLOSED, ON_MESSAGE, ON_SENT, ON_FAILED (from a lane, or a signal),
 * ON_WAITING, and of a worker ON_DRAIN (a signal) and ON_DRAINED. Actions: CONNECT, CLOSE, SEND, LANES (body is the
 * view: the first, and each newer one while the job goes on), TELL (the worker: ON_DRAIN), PROGRESS (text: for whom it
 * waits; again and again while it does), STOP. */
void weir_node_step(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions);
/* For whom this process waits, for long: the chief, or what the actor says whose step is the oldest; "" for nobody. */
const char *weir_node_waiting(const struct weir_node *node);
uint64_t weir_node_deadline(const struct weir_node *node);
enum weir_node_state weir_node_state(const struct weir_node *node);

extern const struct weir_machine weir_node_machine;
const struct weir_machine_counts *weir_node_counts(const struct weir_node *node);
const struct weir_machine_counts *weir_node_link_counts(const struct weir_node *node);

#endif
