/* A scenario: which cluster runs which job, and what is done to it meanwhile. docs/chaos.md has the keys.
 *
 * Read and checked once, then const. A fault here may still be many (`times`) and leave open whom it hits (any worker);
 * chaos/plan.h makes single faults of it.
 */
#ifndef WEIR_CHAOS_SCENARIO_H
#define WEIR_CHAOS_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "config/row.h"

#define WEIR_CHAOS_WORKERS_MAX 24
#define WEIR_CHAOS_PS_MAX 8
#define WEIR_CHAOS_NODES_MAX (1 + WEIR_CHAOS_PS_MAX + WEIR_CHAOS_WORKERS_MAX)
#define WEIR_CHAOS_FAULTS_MAX 2000 /* single ones */
#define WEIR_CHAOS_SET_MAX 64      /* keys of the job that a scenario sets */

enum weir_chaos_kind {
    WEIR_CHAOS_KILL,
    WEIR_CHAOS_STOP,
    WEIR_CHAOS_RESTART,
    WEIR_CHAOS_TERMINATE,
    WEIR_CHAOS_PARTITION,
    WEIR_CHAOS_DELAY,
    WEIR_CHAOS_BANDWIDTH,
    WEIR_CHAOS_RESET,
    WEIR_CHAOS_FULL_DISK,
    WEIR_CHAOS_SLOW_CPU,
    WEIR_CHAOS_KINDS,
};

/* As scenarios write them: "kill", "slow_cpu". Ends with a NULL name. */
extern const struct weir_choice weir_chaos_kinds[];

/* Which way a fault of the network goes, seen from its node. */
enum weir_chaos_ways { WEIR_CHAOS_BOTH, WEIR_CHAOS_TO_PEER, WEIR_CHAOS_FROM_PEER };

/* A process, or one of several, which the seed then chooses. */
struct weir_chaos_target {
    bool none; /* of a peer: all others */
    bool any_role, any_index;
    enum weir_role role;
    uint32_t index;
};

struct weir_chaos_entry {
    enum weir_chaos_kind kind;
    struct weir_chaos_target node, peer;
    enum weir_chaos_ways ways;
    double at_s;      /* since training began; if `at_step` is 0 */
    uint32_t at_step; /* once so many steps are done */
    uint32_t times;
    double every_s;
    uint32_t every_steps;
    double for_s;   /* 0: to the end of the job */
    double after_s; /* until the process is started again; 0: never */
    double delay_ms, jitter_ms, bytes_per_s, share;
    char *node_text, *peer_text; /* as written */
};

/* Faults by the seed alone. */
struct weir_chaos_swarm {
    uint32_t faults; /* 0: none */
    double for_s;    /* the most that one lasts */
    uint32_t kinds;  /* a bit each */
    struct weir_chaos_target *nodes;
    size_t node_count;
};

struct weir_chaos_scenario {
    char *path, *name;
    char *job; /* the path, seen from the current folder; NULL: not given */
    uint32_t workers, ps;
    uint64_t seed;
    double limit_s; /* 0: by the undisturbed run */
    struct weir_override set[WEIR_CHAOS_SET_MAX];
    size_t set_count;
    struct weir_chaos_entry *entries;
    size_t entry_count;
    struct weir_chaos_swarm swarm;
};

/* Reads and checks a scenario. All that is wrong is added, as "file:line:column: key: what", then false is returned.
 * Free with weir_chaos_scenario_free, also after false. */
bool weir_chaos_scenario_load(struct weir_chaos_scenario *scenario, const char *path, struct weir_problems *problems);
void weir_chaos_scenario_free(struct weir_chaos_scenario *scenario);

/* The tables of keys, for the page and its test: of the scenario, a fault, the swarm, the cluster. */
struct weir_chaos_table {
    const char *name;
    const struct weir_row *rows;
    size_t count;
};
#define WEIR_CHAOS_TABLES 4
extern const struct weir_chaos_table weir_chaos_tables[WEIR_CHAOS_TABLES];

#endif
