/* A lane of a parameter server: its chunks, their gates, and its streams. A pure core (protocol/core.h).
 *
 * Peers: worker w is slot w; parameter server k is slot workers + k; the chief is slot workers + servers; observers
 * have the slots after that. In a replicated job each lane connects to the same lane of every server before its own;
 * else lane 0 to lane 0 of the first, whose recorder makes the record. All other streams are opened by the others.
 *
 * A lane knows all chunks of its number, on whichever server. Of each it is, by its view, the primary, a follower
 * (standby, or filling server) or neither. The primary takes contributions, forwards each sum to the followers, and
 * releases a version to workers when those that have to be there acknowledged it; whoever holds a chunk takes
 * contributions too, for its view may be behind. So is the record, at lane 0.
 *
 * Payloads. In: contributions, sums (Forward), copies; WEIR_DO_STORE puts a part of a copy aside, until the last one,
 * `whole`, takes the place of all that the chunk was. Out: WEIR_DO_SEND of a Weights body sends version `version` of
 * part `part` of its chunk (part 0: weights; s + 1: optimizer slot s, as it is now); the interpreter refers to the
 * buffer until it is sent, also after WEIR_DO_FREE, and copies a slot, which is written in place. A Forward body sends
 * the sum that WEIR_DO_SUM of its step kept.
 */
#ifndef WEIR_PS_LANE_H
#define WEIR_PS_LANE_H

#include "base/arena.h"
#include "protocol/core.h"
#include "protocol/layout.h"
#include "protocol/link.h"
#include "protocol/machine.h"
#include "protocol/wait.h"
#include "ps/chunk.h"

struct weir_ps_lane;

struct weir_ps_lane_config {
    uint64_t generation, view, incarnation;
    const char *job_hash, *numerics;
    uint32_t self, lane;         /* position among the servers of the view */
    uint32_t workers, observers; /* observers: how many at once */
    uint32_t replicas;
    struct weir_layout layout;
    bool gated;
    uint32_t variables;     /* gated jobs with a verdict per variable; else 0 */
    const uint32_t *pieces; /* gated jobs: number of pieces by chunk */
    uint32_t slots;
    uint64_t first_version;
    uint32_t copies;                      /* holders of each chunk: 1, or 2 in replicated jobs */
    const struct weir_view_chunk *chunks; /* by chunk, and the record: of the first view */
    struct weir_view_chunk record;
    const char *const *server_names; /* "ps/0 at 127.0.0.1:2222" */
    const char *chief_name;
    const char *const *worker_names;        /* by worker */
    uint64_t start_timeout_ns, patience_ns; /* how long another server may be out of reach: at first, and later */
    const uint32_t *hosts;                  /* by replica: the worker that computes it, for the first view */
    const uint64_t *worker_incarnations;    /* by worker: of the first view, 0: not there */
    const uint64_t *server_incarnations;    /* by server */
    uint64_t chief_incarnation;
};

/* Contributions that a peer may have asked for and not got yet. */
#define WEIR_FETCHES_MAX 64

/* Most actions of one step. */
size_t weir_ps_lane_actions_max(const struct weir_ps_lane_config *config);

struct weir_ps_lane *weir_ps_lane_init(struct weir_arena *arena, const struct weir_ps_lane_config *config);

/* Which slot a Hello on a new stream belongs to; false, and why it is refused. Observers get any free slot. *again: it
 * may be taken later, when a newer view names it. */
bool weir_ps_lane_admit(const struct weir_ps_lane *lane, const struct weir_hello *hello, uint32_t *peer,
                        const char **reason, bool *again);

/* Events: ON_START, ON_TIME, ON_OPENED, ON_CLOSED, ON_MESSAGE, ON_SENT, ON_RECORD (lane 0: from the recorder;
 * the others: from lane 0), ON_PARTIAL (lane 0, from the others), ON_APPLIED, ON_SUMMED, ON_VIEW. Actions: CONNECT,
 * CLOSE, SEND, TELL (the node: ON_FAILED; the recorder: ON_SEAL, ON_PARTIAL, ON_RECORD; the other lanes: ON_RECORD;
 * lane 0: ON_PARTIAL), RELEASE, SUM, APPLY, FREE, STORE, DROP. */
void weir_ps_lane_step(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions);
uint64_t weir_ps_lane_deadline(const struct weir_ps_lane *lane);
/* What it waits for, of others than this server, and its step, as protocol/wait.h says; "" for nothing. */
uint64_t weir_ps_lane_waiting(const struct weir_ps_lane *lane, char *text, size_t bytes);

const struct weir_machine_counts *weir_ps_lane_chunk_counts(const struct weir_ps_lane *lane);
const struct weir_machine_counts *weir_ps_lane_link_counts(const struct weir_ps_lane *lane);
/* The most partly received chunks at one time. */
uint32_t weir_ps_lane_partial_peak(const struct weir_ps_lane *lane);

#endif
