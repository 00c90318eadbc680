/* The worker's step: waits for a record and all chunks of its version, computes the replicas that it hosts, and waits
 * for the next. A view that gives it more of them has it compute those as well: the next part of the same (step,
 * round). A pure core.
 *
 * It runs on the thread of lane 0. What it computes with is of one version: WEIR_DO_COMPUTE of (step, round) is asked
 * for only when every lane holds all its chunks at version `step` and the record of (step, round) is there (invariant
 * 3). A step that others have finished meanwhile may be asked for in vain: the interpreter, which knows what is stored
 * where, computes nothing once a chunk of version step + 2 is there, and says ON_COMPUTED all the same.
 */
#ifndef WEIR_WORKER_WORKER_H
#define WEIR_WORKER_WORKER_H

#include "base/arena.h"
#include "protocol/core.h"
#include "protocol/layout.h"
#include "protocol/machine.h"

enum weir_worker_state { WEIR_WORKER_WAITING, WEIR_WORKER_COMPUTING, WEIR_WORKER_STOPPED };

struct weir_worker;

struct weir_worker_config {
    uint32_t self, lanes, replicas;
    const uint32_t *hosts; /* by replica: the worker that computes it */
    struct weir_layout layout;
    const char *const *server_names; /* "ps/1 at 127.0.0.1:2222" */
};

#define WEIR_WORKER_ACTIONS_MAX 4

struct weir_worker *weir_worker_init(struct weir_arena *arena, const struct weir_worker_config *config);

/* Events: ON_START, ON_HOLDS, ON_RECORD, ON_COMPUTED, ON_VIEW, ON_DRAIN. Actions: COMPUTE (body: the record), TELL (the
 * node: ON_DRAINED, once, after ON_DRAIN: what was begun is complete, and nothing is computed any more). The
 * interpreter tells Seals and readiness to the lanes by itself, as the computation comes to them. */
void weir_worker_step(struct weir_worker *worker, const struct weir_event *event, struct weir_actions *actions);

/* What it waits for beyond what its lanes know, and its step, as protocol/wait.h says; "" for nothing. */
uint64_t weir_worker_waiting(const struct weir_worker *worker, char *text, size_t bytes);

extern const struct weir_machine weir_worker_machine;
const struct weir_machine_counts *weir_worker_counts(const struct weir_worker *worker);

#endif
