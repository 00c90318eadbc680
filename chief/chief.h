/* The chief: gathers the cluster, publishes the view, watches over its members, follows the record, and ends the job. A
 * pure core.
 *
 * Peers: member m's control stream is slot m (parameter servers first, then workers, as in the configuration); the
 * chief's own stream to lane l of server k is slot members + k * lanes + l; observers' control streams have the slots
 * after that.
 *
 * End: at the stop record it fetches every chunk (weights, then slots) at the last version, asks for WEIR_DO_RESULTS,
 * and only then sends View(finished); it stops when all have left.
 */
#ifndef WEIR_CHIEF_CHIEF_H
#define WEIR_CHIEF_CHIEF_H

#include "base/arena.h"
#include "base/restarts.h"
#include "protocol/core.h"
#include "protocol/layout.h"
#include "protocol/link.h"
#include "protocol/machine.h"
#include "protocol/wait.h"

enum weir_chief_state {
    WEIR_CHIEF_GATHERING,
    WEIR_CHIEF_TRAINING,
    WEIR_CHIEF_FETCHING,
    WEIR_CHIEF_WRITING,
    WEIR_CHIEF_FINISHING, /* View(finished) is out: waits for all to leave */
    WEIR_CHIEF_FAILING,   /* View(failed) is out: waits for all to leave */
    WEIR_CHIEF_DONE,
};

struct weir_chief_member {
    enum weir_node_role role;
    uint32_t index;   /* as in TF_CONFIG */
    const char *name; /* "worker/1 at 127.0.0.1:2224" */
    const char *address;
};

struct weir_chief_config {
    struct weir_hello hello;                 /* what the chief says of itself on its streams */
    const char *name;                        /* "chief/0 at 127.0.0.1:2222" */
    const struct weir_chief_member *members; /* servers first, then workers, each by index */
    uint32_t servers, workers;
    uint32_t replicas;
    uint32_t min_workers; /* while fewer are there, nobody computes */
    uint32_t copies;      /* servers that hold each chunk: 1 or 2 */
    struct weir_layout layout;
    const struct weir_view_variable *variables;
    size_t variable_count;
    const char *const *slots;
    size_t slot_count;
    uint64_t generation;
    uint64_t train_samples_min; /* with which an epoch has a step, > 0 */
    uint64_t start_timeout_ns, lease_ns, heartbeat_ns;
    uint32_t observers;
    struct weir_restart_limit restarts; /* of a worker: then it is given up until the window is over */
    bool elastic;                       /* a lost worker's replicas go to the others, and the job goes on */
};

/* A worker's stream that broke is usually there again after one heartbeat; after so many the worker counts as lost. To
 * be wrong costs a view, no work: it is taken back with what it has. */
#define WEIR_CHIEF_BROKEN_HEARTBEATS 3

struct weir_chief;

size_t weir_chief_actions_max(const struct weir_chief_config *config);
struct weir_chief *weir_chief_init(struct weir_arena *arena, const struct weir_chief_config *config);

/* Which slot a Hello on a new control stream belongs to; false, and why it is refused. *job_differs: its job is another
 * one; the caller knows how to name the keys. */
bool weir_chief_admit(const struct weir_chief *chief, const struct weir_hello *hello, uint32_t *peer,
                      const char **reason, bool *job_differs);

/* Events: ON_START, ON_TIME, ON_OPENED, ON_CLOSED, ON_MESSAGE, ON_SENT, ON_FAILED (from outside: a signal), ON_RESULTS.
 * Actions: CONNECT, CLOSE, SEND, STORE (chunk, part, payload), PROGRESS (a record; or text: for whom the job waits, and
 * which member says so, again and again while it does, then once ""), SAY (text: who went or came), RESULTS, STOP. */
void weir_chief_step(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions);
uint64_t weir_chief_deadline(const struct weir_chief *chief);
enum weir_chief_state weir_chief_state(const struct weir_chief *chief);

/* For whom the job waits: what the last PROGRESS without a record said. */
const char *weir_chief_waiting(const struct weir_chief *chief);

/* The newest heartbeat of a member (texts are not kept), and whether all members compute with the same numerics. */
const struct weir_heartbeat *weir_chief_member(const struct weir_chief *chief, uint32_t member);
bool weir_chief_same_numerics(const struct weir_chief *chief);

extern const struct weir_machine weir_chief_machine;
const struct weir_machine_counts *weir_chief_counts(const struct weir_chief *chief);
const struct weir_machine_counts *weir_chief_link_counts(const struct weir_chief *chief);

#endif
