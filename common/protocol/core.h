/* How the pure cores talk to the world: events in, actions out.
 *
 * A core is `step(core, event, actions)` and `deadline(core)`. It reads no clock: events carry the time. It does
 * nothing itself: it appends actions, which the runtime (common/runtime) or the simulator (tests/sim) carries out in
 * order, before it gives the core its next event. When now >= deadline(core), the core is given WEIR_ON_TIME.
 *
 * Peers are slots of the core: numbers that it defines (its header says which). At most one stream stands behind a
 * slot: before the Hello of a new one the core is given WEIR_ON_CLOSED for the old one, of which no further event
 * comes. Payloads are handles that the interpreter gives out; a core that gets one owns it until it appends
 * WEIR_DO_RELEASE for it or passes it on in an action that says so.
 */
#ifndef WEIR_PROTOCOL_CORE_H
#define WEIR_PROTOCOL_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"
#include "protocol/tree.h"

#define WEIR_NEVER UINT64_MAX
#define WEIR_HOLDS_ALWAYS (UINT64_MAX - 1) /* of a lane without chunks: in WEIR_ON_HOLDS, every version */

enum weir_event_kind {
    WEIR_ON_START,    /* first event of every core */
    WEIR_ON_TIME,     /* the deadline came */
    WEIR_ON_OPENED,   /* the stream that the core asked for with WEIR_DO_CONNECT is up */
    WEIR_ON_CLOSED,   /* peer's stream is down, or could not be opened; text: why */
    WEIR_ON_MESSAGE,  /* from peer: body, payload */
    WEIR_ON_SENT,     /* the oldest unsent WEIR_DO_SEND to peer was handed over */
    WEIR_ON_RECORD,   /* local: body is a record */
    WEIR_ON_SEAL,     /* local: body is a seal */
    WEIR_ON_PARTIAL,  /* local: body is a partial */
    WEIR_ON_APPLIED,  /* WEIR_DO_APPLY of chunk was done */
    WEIR_ON_SUMMED,   /* WEIR_DO_SUM of chunk was done: numbers are the pieces' squares (gated jobs) */
    WEIR_ON_READY,    /* local: gradients of part `part` of `step`, that of `replicas`, are final at flat offsets >=
                         offset */
    WEIR_ON_COMPUTED, /* WEIR_DO_COMPUTE of (step, round) was done: its Seals are told after it */
    WEIR_ON_HOLDS,    /* local: lane `lane` of this worker holds all its chunks at version `step` */
    WEIR_ON_FAILED,   /* local or from outside: this node can't go on; text: why */
    WEIR_ON_RESULTS,  /* WEIR_DO_RESULTS was done; text: "" or what went wrong */
    WEIR_ON_VIEW,     /* local: body is a newer view (of nodes and hosts only) of a job that goes on */
    WEIR_ON_WAITING,  /* local: actor number `lane` of this process has waited long to complete `step`; text: for whom,
                         "": no longer */
    WEIR_ON_DRAIN,    /* from outside, then local: this worker is to go as soon as nothing is lost by it; text: why */
    WEIR_ON_DRAINED,  /* local: it computes nothing from (step, round) on, and all before that is complete */
    WEIR_ON_KINDS,
};

struct weir_event {
    enum weir_event_kind kind;
    uint64_t now_ns;
    uint32_t peer;
    const struct weir_message_body *body;
    uint64_t payload, payload_bytes; /* handle, 0: none */
    uint32_t chunk, lane, round, part;
    uint64_t step, offset;
    const double *numbers;
    size_t number_count;
    const uint32_t *replicas; /* ascending */
    size_t replica_count;
    const char *text;
};

enum weir_actor_name { WEIR_ACTOR_NODE, WEIR_ACTOR_WORKER, WEIR_ACTOR_RECORDER, WEIR_ACTOR_LANE, WEIR_ACTOR_LANES };

enum weir_action_kind {
    WEIR_DO_CONNECT, /* open a stream to peer */
    WEIR_DO_CLOSE,   /* close peer's stream; text: why. No event follows */
    WEIR_DO_SEND,    /* body to peer; payload by what the body names (weights, gradient): see each core */
    WEIR_DO_TELL, /* `event` (kind, body, numbers of it) to `actor` of this process; LANES: to all lanes but `lane` */
    WEIR_DO_RELEASE, /* the payload handle is no longer needed */
    WEIR_DO_APPLY,   /* chunk: make version step + 1 from version step; see ps/lane.h */
    WEIR_DO_SUM,     /* chunk: sum the contributions of `step`, and keep the sum until the next one */
    WEIR_DO_FREE,    /* chunk: version `step` can go */
    WEIR_DO_DROP,    /* chunk: all of it can go */
    WEIR_DO_STORE,   /* chunk: part `part` of version `step` from payload, which passes to the interpreter; see who asks
                      */
    WEIR_DO_COMPUTE, /* part `part` of (step, round): its `replicas`, as body, the record, says */
    WEIR_DO_LANES,   /* body is the view: start the lanes, or tell those that run (WEIR_ON_VIEW) */
    WEIR_DO_PROGRESS, /* body: a record to show, or NULL; text: what is waited for, "": no longer */
    WEIR_DO_SAY,      /* text: something that people should know */
    WEIR_DO_RESULTS,  /* training is over and all is fetched: digests, files */
    WEIR_DO_STOP,     /* this node is done: exit status `code`; text: why */
};

struct weir_action {
    enum weir_action_kind kind;
    uint32_t peer;
    enum weir_actor_name actor;
    enum weir_event_kind tell;
    uint32_t chunk, lane, round, part;
    uint64_t step, offset, payload;
    const double *numbers;
    size_t number_count;
    const uint32_t *replicas;
    size_t replica_count;
    const struct weir_tree *tree; /* SUM, APPLY: what to sum, in which shape; APPLY, NULL: the sum is kept */
    bool skip;                    /* APPLY: version step + 1 is version step unchanged */
    bool whole;                   /* STORE at a server: the last part of a copy, which takes the chunk's place now */
    const struct weir_record *record, *verdict; /* APPLY: records of step and (gated) step + 1 */
    int code;
    const char *text;
    bool has_body;
    struct weir_message_body body;
};

/* A bounded list. Room is the core's business: its header says how many one step can append at most. */
struct weir_actions {
    struct weir_action *list;
    size_t count, capacity;
};

/* Appends an action, zeroed but for its kind. */
struct weir_action *weir_actions_add(struct weir_actions *actions, enum weir_action_kind kind);
/* Appends a SEND of an empty body of that type. */
struct weir_message_body *weir_actions_send(struct weir_actions *actions, uint32_t peer, enum weir_message_type type);
/* Appends a TELL. */
struct weir_action *weir_actions_tell(struct weir_actions *actions, enum weir_actor_name actor, uint32_t lane,
                                      enum weir_event_kind kind);
void weir_actions_release(struct weir_actions *actions, uint64_t payload);

#endif
