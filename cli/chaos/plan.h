/* A scenario's single faults: when, whom, what. Pure: the same scenario, seed and length of the job give the same plan
 * on every machine.
 *
 * Processes are counted as `weir run` starts them: 0 is the chief, then the parameter servers, then the workers.
 */
#ifndef WEIR_CHAOS_PLAN_H
#define WEIR_CHAOS_PLAN_H

#include "chaos/scenario.h"

#define WEIR_CHAOS_ALL UINT32_MAX /* a peer: all other processes */

struct weir_chaos_fault {
    enum weir_chaos_kind kind;
    uint32_t node, peer;
    enum weir_chaos_ways ways;
    uint64_t at_step; /* once so many steps are done; 0: at_s counts */
    double at_s;      /* seconds since training began */
    double within;    /* by step: at which part of the next step, [0, 1) */
    double for_s;     /* 0: to the end of the job */
    double after_s;   /* until the process is started again; 0: never */
    double delay_ms, jitter_ms, bytes_per_s, share;
};

/* The faults of a job of `steps` steps, those of the scenario's list first, in its order. An array of *count for the
 * caller to free. */
struct weir_chaos_fault *weir_chaos_plan(const struct weir_chaos_scenario *scenario, uint64_t seed, uint64_t steps,
                                         size_t *count);

/* Whether it ends its process, which is started again if after_s says so. */
bool weir_chaos_ends_process(const struct weir_chaos_fault *fault);
/* How often a plan starts one and the same process again: that one for which it is most. */
uint32_t weir_chaos_restarts_of_one(const struct weir_chaos_fault *plan, size_t count);

/* The number of processes, and the number of one. */
uint32_t weir_chaos_nodes(const struct weir_chaos_scenario *scenario);
uint32_t weir_chaos_node(const struct weir_chaos_scenario *scenario, enum weir_role role, uint32_t index);
/* Writes "worker/1". */
void weir_chaos_node_name(const struct weir_chaos_scenario *scenario, uint32_t node, char *name, size_t name_bytes);

/* Writes what it does, for people: "partition worker/1 from ps/0 for 2 s". */
void weir_chaos_describe(const struct weir_chaos_scenario *scenario, const struct weir_chaos_fault *fault, char *text,
                         size_t text_bytes);

#endif
