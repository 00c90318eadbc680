/* What happened in all runs: what never does is not tested. */
#ifndef WEIR_TESTS_SIM_COVERAGE_H
#define WEIR_TESTS_SIM_COVERAGE_H

#include <stdint.h>

#include "protocol/core.h"
#include "protocol/machine.h"

enum actor_kind { ACTOR_CHIEF, ACTOR_NODE, ACTOR_LANE, ACTOR_RECORDER, ACTOR_EXCHANGE, ACTOR_WORKER, ACTOR_KINDS };

/* What must happen in some run, as its name in main.c says. */
enum sim_count {
    COUNT_RESETS,
    COUNT_KILLS,
    COUNT_LATE_KILLS,
    COUNT_RESTARTS,
    COUNT_VIEWS,
    COUNT_TOO_FEW,
    COUNT_TAKEN_OVER,
    COUNT_NOT_YET,
    COUNT_LOST_AND_FINISHED,
    COUNT_PAUSES,
    COUNT_SILENCES,
    COUNT_CLOSE_CALLS,
    COUNT_CUTS,
    COUNT_CUTS_HEALED,
    COUNT_LATE_LEARNERS,
    COUNT_AFTER_BREAK,
    COUNT_OTHER_DATA,
    COUNT_DRAINS,
    COUNT_DRAINED,
    COUNT_DRAINED_EARLY,
    COUNT_DRAINED_RETURNS,
    COUNT_DRAINED_AND_FINISHED,
    COUNT_FINISHED,
    COUNT_EMPTY,
    COUNT_SKIPS,
    COUNT_NAMED,
    COUNT_REPEATS,
    COUNT_STALE,
    COUNT_LATE,
    COUNT_BELOW,
    COUNT_ABOVE,
    COUNT_SLOTS,
    COUNT_FORWARDS,
    COUNT_COPIES,
    COUNT_OBSERVED,
    COUNT_GONE,
    COUNTS,
};

/* Why processes ended, by what they said: cause_texts (check.c) has a part of each text. */
#define CAUSES 9
extern const char *const cause_texts[CAUSES];

struct coverage {
    uint64_t events[ACTOR_KINDS][WEIR_ON_KINDS];
    uint64_t received[ACTOR_KINDS][WEIR_MESSAGE_TYPES];
    struct weir_machine_counts chief, node, link, chunk, recorder, worker;
    uint64_t steps, messages, count[COUNTS], causes[CAUSES];
};

#endif
