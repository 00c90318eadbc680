/* A worker's lane: pulls new versions of the lane's chunks and pushes the step's gradient, chunk by chunk. A pure core.
 *
 * Peers: parameter server k is slot k. All are connected to by this side. Lane 0's stream to the first server also
 * carries Seals up and records down.
 *
 * Payloads. In: weights; they go on in WEIR_DO_STORE. Out: WEIR_DO_SEND of a Contribution body sends the gradient of
 * its node over its chunk, of its step: the interpreter refers to the gradient until it is sent.
 */
#ifndef WEIR_WORKER_EXCHANGE_H
#define WEIR_WORKER_EXCHANGE_H

#include "base/arena.h"
#include "protocol/core.h"
#include "protocol/layout.h"
#include "protocol/link.h"
#include "protocol/machine.h"
#include "protocol/wait.h"
#include "protocol/tree.h"

struct weir_exchange;

struct weir_exchange_config {
    uint64_t generation, view, incarnation;
    const char *job_hash, *numerics;
    uint32_t self, lane; /* position among the workers of the view */
    uint32_t replicas;
    const uint32_t *hosts; /* by replica: the worker that computes it */
    struct weir_layout layout;
    uint32_t credit;                 /* K: chunks beyond the lowest that is not covered, > 0 */
    const char *const *server_names; /* "ps/1 at 127.0.0.1:2222" */
    const char *chief_name;
    const uint64_t *server_incarnations;    /* of the view */
    uint64_t start_timeout_ns, patience_ns; /* how long a server may be out of reach: at first, and later */
};

size_t weir_exchange_actions_max(const struct weir_exchange_config *config);
struct weir_exchange *weir_exchange_init(struct weir_arena *arena, const struct weir_exchange_config *config);

/* Events: ON_START, ON_TIME, ON_OPENED, ON_CLOSED, ON_MESSAGE, ON_SENT, ON_READY (the chunks' gradients of a step can
 * go; the first one of a step says that the step before is done with; its parts come one after the other, from 0 on),
 * ON_SEAL (lane 0: to be sent until its record is followed), ON_VIEW. Actions: CONNECT, CLOSE, SEND, STORE, RELEASE,
 * TELL (the worker: ON_HOLDS, ON_RECORD; the node: ON_FAILED). */
void weir_exchange_step(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions);
uint64_t weir_exchange_deadline(const struct weir_exchange *exchange);
/* What it waits for, of others than this worker, and its step, as protocol/wait.h says; "" for nothing. */
uint64_t weir_exchange_waiting(const struct weir_exchange *exchange, char *text, size_t bytes);

const struct weir_machine_counts *weir_exchange_link_counts(const struct weir_exchange *exchange);

#endif
