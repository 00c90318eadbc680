/* What is seen of one run of the cluster, with times of weir_clock_ns: the judge reads nothing else. */
#ifndef WEIR_CHAOS_OBSERVE_H
#define WEIR_CHAOS_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "chaos/plan.h"

/* The chief knows that so many steps are done, in which so many samples counted. */
struct weir_chaos_step {
    uint64_t step, samples, ns;
};

struct weir_chaos_view {
    uint64_t number, ns;
};

/* The chief says of a process that it is lost or drained, or back. */
struct weir_chaos_word {
    uint64_t ns;
    uint32_t node;
    bool lost; /* or drained */
};

/* A process ended that no fault had ended. */
struct weir_chaos_end {
    uint64_t ns;
    uint32_t node;
    char how[64];
};

/* What became of a planned fault. */
struct weir_chaos_hit {
    bool fired;
    uint64_t ns;
    uint64_t over_ns; /* the fault was taken back, or the process started again; 0: not */
    uint64_t done;    /* steps done before it: it hit the next one */
};

/* The chief's summary (docs/job.md), as far as it is judged. */
struct weir_chaos_summary {
    char digest[WEIR_DIGEST_HEX], state_digest[WEIR_DIGEST_HEX];
    uint64_t steps, replicas, replicas_computed, chunks_applied;
    double seconds, samples_per_s;
};

struct weir_chaos_seen {
    uint64_t began_ns, ended_ns;
    struct weir_chaos_step *steps;
    struct weir_chaos_view *views;
    struct weir_chaos_word *words;
    struct weir_chaos_end *ends;
    struct weir_chaos_hit *hits; /* one for each fault of the plan */
    size_t step_count, view_count, word_count, end_count, hit_count;
    struct weir_text result; /* the chief's standard output */
    struct weir_text last;   /* the last lines that told of an error */
    bool timed_out, done;    /* done: the summary is there */
    struct weir_chaos_summary summary;
};

void weir_chaos_see_step(struct weir_chaos_seen *seen, uint64_t step, uint64_t samples, uint64_t ns);
void weir_chaos_see_view(struct weir_chaos_seen *seen, uint64_t number, uint64_t ns);
void weir_chaos_see_end(struct weir_chaos_seen *seen, uint32_t node, const char *how, uint64_t ns);
/* A line of the log of the process `from`, without its newline. */
void weir_chaos_see_line(struct weir_chaos_seen *seen, const struct weir_chaos_scenario *scenario, uint32_t from,
                         const char *line, size_t count, uint64_t ns);
/* Reads `result` into the summary; false, and why, if it is none. */
bool weir_chaos_see_summary(struct weir_chaos_seen *seen, struct weir_error *err);
void weir_chaos_seen_free(struct weir_chaos_seen *seen);

/* Nanoseconds of a step in the middle of the run: half of all steps took less; 0 if there are too few. */
uint64_t weir_chaos_median_step(const struct weir_chaos_seen *seen);

#endif
