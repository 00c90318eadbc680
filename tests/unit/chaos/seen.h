/* Observations made up for the tests of judge and report. After cmocka's headers. */
#ifndef WEIR_TEST_CHAOS_SEEN_H
#define WEIR_TEST_CHAOS_SEEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/judge.h"

#define MS UINT64_C(1000000)
#define STEPS 20
#define BATCH 64
#define STEP_MS 10

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_DIGEST "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* A run of STEPS steps of STEP_MS each that came to its end; before step `late` it stood still for `pause_ms`. */
static inline struct weir_chaos_seen a_run(uint64_t late, uint64_t pause_ms)
{
    struct weir_chaos_seen seen = {.began_ns = 1000 * MS, .done = true};
    uint64_t ns = 2000 * MS;
    for (uint64_t step = 0; step <= STEPS; step++) {
        ns += step ? STEP_MS * MS + (step == late ? pause_ms * MS : 0) : 0;
        weir_chaos_see_step(&seen, step, step * BATCH, ns);
    }
    seen.ended_ns = ns + 100 * MS;
    seen.summary = (struct weir_chaos_summary){
        .steps = STEPS, .replicas = 2, .replicas_computed = 2 * STEPS, .chunks_applied = 3 * STEPS};
    snprintf(seen.summary.digest, WEIR_DIGEST_HEX, "%s", DIGEST);
    snprintf(seen.summary.state_digest, WEIR_DIGEST_HEX, "%s", DIGEST);
    return seen;
}

/* One fault, fired when `done` steps were done, 1 ms later. */
static inline void hit(struct weir_chaos_seen *seen, uint64_t done)
{
    seen->hits = calloc(1, sizeof *seen->hits);
    seen->hit_count = 1;
    seen->hits[0] = (struct weir_chaos_hit){.fired = true, .ns = seen->steps[done].ns + MS, .done = done};
}

#endif
