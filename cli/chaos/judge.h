/* Judges a disturbed run by an undisturbed one of the same job. Pure: only what was seen counts. */
#ifndef WEIR_CHAOS_JUDGE_H
#define WEIR_CHAOS_JUDGE_H

#include "chaos/observe.h"

enum weir_chaos_result { WEIR_CHAOS_GOOD, WEIR_CHAOS_BAD, WEIR_CHAOS_UNKNOWN };

struct weir_chaos_check {
    const char *name;
    enum weir_chaos_result result;
    char text[256]; /* what was found, or why nothing can be said */
};

enum {
    WEIR_CHAOS_CHECK_END,
    WEIR_CHAOS_CHECK_FIRED,
    WEIR_CHAOS_CHECK_ENDS,
    WEIR_CHAOS_CHECK_DIGEST,
    WEIR_CHAOS_CHECK_STATE,
    WEIR_CHAOS_CHECK_STEPS,
    WEIR_CHAOS_CHECK_SAMPLES,
    WEIR_CHAOS_CHECK_CHUNKS,
    WEIR_CHAOS_CHECKS
};

/* How a fault went; seconds since it, -1 for what was not seen. */
struct weir_chaos_recovery {
    double at_s;       /* since training began */
    double detected_s; /* the chief says that the process, or its peer, is lost or drained */
    double view_s;     /* a new view after that */
    double step_s;     /* the first step done after the view; without one, after the fault */
    double pause_s;    /* the longest time without a step done, until the next fault, less an undisturbed step */
};

/* Of all faults of a kind. */
struct weir_chaos_kind_times {
    size_t count, detected; /* fired, and found out by the chief */
    double step_median_s, step_worst_s, pause_median_s, pause_worst_s;
};

struct weir_chaos_verdict {
    bool passed; /* no check is bad */
    struct weir_chaos_check checks[WEIR_CHAOS_CHECKS];
    struct weir_chaos_recovery *recoveries; /* one for each fault of the plan */
    size_t count;
    struct weir_chaos_kind_times kinds[WEIR_CHAOS_KINDS];
    uint64_t steps_lost;                     /* done, and done again */
    uint64_t computed_again;                 /* replicas of a step, at least */
    double undisturbed_step_s;               /* the median */
    double undisturbed_rate, disturbed_rate; /* steps per second, from the first step to the last */
};

/* The caller frees `verdict` with weir_chaos_verdict_free. */
void weir_chaos_judge(const struct weir_chaos_scenario *scenario, const struct weir_chaos_fault *plan,
                      const struct weir_chaos_seen *undisturbed, const struct weir_chaos_seen *disturbed,
                      struct weir_chaos_verdict *verdict);
void weir_chaos_verdict_free(struct weir_chaos_verdict *verdict);

#endif
