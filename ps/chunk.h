/* One chunk at its holder: which contributions of the step it has, and when it may go on to the next version.
 *
 * A part of the lane core (ps/lane.h), which owns it and all that leaves it.
 */
#ifndef WEIR_PS_CHUNK_H
#define WEIR_PS_CHUNK_H

#include "base/arena.h"
#include "protocol/core.h"
#include "protocol/machine.h"
#include "protocol/tree.h"

enum weir_chunk_state {
    WEIR_CHUNK_COLLECTING, /* contributions of step `version` come in */
    WEIR_CHUNK_SUMMING,    /* all there, WEIR_DO_SUM was asked for */
    WEIR_CHUNK_WAITING,    /* covered: waits for the record (gated: and the verdict) */
    WEIR_CHUNK_APPLYING,   /* WEIR_DO_APPLY was asked for */
};

extern const struct weir_machine weir_chunk_machine;

struct weir_chunk {
    uint32_t id;
    uint8_t state;
    bool replicated;  /* of the job: others may hold it too, or instead */
    bool held;        /* the rest is there */
    bool has_old;     /* version - 1 is alive too */
    bool has_sum;     /* the sum of sum_step is kept */
    uint64_t version; /* the newest */
    uint64_t sum_step;
    uint64_t bytes;
    struct weir_tree tree; /* contributions of step `version` */
    uint32_t copied_parts; /* of a copy that is not whole yet */
    uint32_t voided;       /* sums and applies under way whose chunk is another one now */
};

/* Not held. The owner sets `replicated` and `held`. */
void weir_chunk_init(struct weir_chunk *chunk, struct weir_arena *arena, uint32_t id, uint64_t version, uint64_t bytes,
                     uint32_t replicas);

static inline bool weir_chunk_covered(const struct weir_chunk *chunk)
{
    return chunk->state != WEIR_CHUNK_COLLECTING;
}

/* Takes a contribution and its payload, or drops it: then, and for what it replaces, appends WEIR_DO_RELEASE. The first
 * of a step frees the version before (invariant 8). The root's node is what a primary forwards. Returns NULL, or what
 * is wrong with it (the payload is released, too). */
const char *weir_chunk_contribution(struct weir_chunk *chunk, const struct weir_contribution *contribution,
                                    uint64_t payload, uint64_t payload_bytes, struct weir_actions *actions);
/* After a contribution: true, once, when the tree became complete: the owner says Covered. `sum`: WEIR_DO_SUM is
 * appended; else the apply sums. */
bool weir_chunk_complete(struct weir_chunk *chunk, bool sum, struct weir_machine_counts *counts,
                         struct weir_actions *actions);
/* WEIR_DO_SUM was done. False: of what was dropped or replaced meanwhile. */
bool weir_chunk_summed(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions);
/* Appends WEIR_DO_APPLY. `verdict` is NULL in jobs that are not gated. */
void weir_chunk_apply(struct weir_chunk *chunk, const struct weir_record *record, const struct weir_record *verdict,
                      struct weir_machine_counts *counts, struct weir_actions *actions);
/* WEIR_DO_APPLY was done: there is a new version. False: of what was dropped or replaced meanwhile. */
bool weir_chunk_applied(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions);

/* It is held no longer: appends WEIR_DO_DROP, and releases what came in. */
void weir_chunk_drop(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions);
/* A part of a copy, and its payload: slots 1 ... `slots`, then the older version's weights if it is alive, then the
 * newer one's, which say `whole`. Until then all stays as it was, then the copy takes its place. Returns NULL, or what
 * is wrong (the payload is released). */
const char *weir_chunk_copy(struct weir_chunk *chunk, const struct weir_weights *weights, uint64_t payload,
                            uint64_t payload_bytes, uint32_t slots, struct weir_machine_counts *counts,
                            struct weir_actions *actions);

#endif
