/* What a job does from its first step to its last, as the record needs it: constants of the job. */
#ifndef WEIR_PROTOCOL_SCHEDULE_H
#define WEIR_PROTOCOL_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

enum weir_gate { WEIR_GATE_NONE, WEIR_GATE_CLIPNORM, WEIR_GATE_GLOBAL_CLIPNORM };

/* A run of a chunk that belongs to one variable; see ps/engine/engine.h. Sums of squares are told piece by piece. */
struct weir_schedule_piece {
    uint32_t chunk, variable;
};

struct weir_schedule {
    uint32_t steps_per_epoch, epochs;
    uint32_t validation_rounds; /* after each epoch; 0: no validation */
    uint32_t metrics;
    double learning_rate;
    enum weir_gate gate;
    double clip; /* the norm that is not exceeded; gates only */
    /* gates only: all pieces of the flat space in its order, and the number of variables */
    const struct weir_schedule_piece *pieces;
    size_t piece_count;
    uint32_t variables;
};

static inline uint64_t weir_schedule_steps(const struct weir_schedule *schedule)
{
    return (uint64_t)schedule->steps_per_epoch * schedule->epochs;
}

#endif
