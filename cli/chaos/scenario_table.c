/* The keys of a scenario. docs/chaos.md lists them; a test compares. */
#include "chaos/scenario_table.h"

#define FIELD(type, name) offsetof(struct type, name), sizeof(((struct type *)0)->name)
#define OF_SCENARIO(name) FIELD(weir_chaos_scenario, name)
#define OF_ENTRY(name) FIELD(weir_chaos_entry, name)
#define OF_SWARM(name) FIELD(weir_chaos_swarm, name)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

const struct weir_choice weir_chaos_kinds[] = {
    [WEIR_CHAOS_KILL] = {"kill", NULL},
    [WEIR_CHAOS_STOP] = {"stop", NULL},
    [WEIR_CHAOS_RESTART] = {"restart", NULL},
    [WEIR_CHAOS_TERMINATE] = {"terminate", NULL},
    [WEIR_CHAOS_PARTITION] = {"partition", NULL},
    [WEIR_CHAOS_DELAY] = {"delay", NULL},
    [WEIR_CHAOS_BANDWIDTH] = {"bandwidth", NULL},
    [WEIR_CHAOS_RESET] = {"reset", NULL},
    [WEIR_CHAOS_FULL_DISK] = {"full_disk", NULL},
    [WEIR_CHAOS_SLOW_CPU] = {"slow_cpu", NULL},
    [WEIR_CHAOS_KINDS] = {NULL, NULL},
};

static const struct weir_choice ways[] = {{"both", NULL}, {"to_peer", NULL}, {"from_peer", NULL}, {NULL, NULL}};

static const struct weir_row scenario_rows[] = {
    {.name = "name", .type = WEIR_ROW_NAME, OF_SCENARIO(name), .initial = "null"},
    {.name = "job", .type = WEIR_ROW_PATH, OF_SCENARIO(job), .initial = "null"},
    {.name = "cluster", .type = WEIR_ROW_IGNORED},
    {.name = "set", .type = WEIR_ROW_IGNORED, .initial = "null"},
    {.name = "seed", .type = WEIR_ROW_U64, OF_SCENARIO(seed), .initial = "0"},
    {.name = "limit_s", .type = WEIR_ROW_DOUBLE, OF_SCENARIO(limit_s), .initial = "null", .above_min = true},
    {.name = "faults", .type = WEIR_ROW_IGNORED, .initial = "null"},
    {.name = "swarm", .type = WEIR_ROW_IGNORED, .initial = "null"},
};

static const struct weir_row cluster_rows[] = {
    {.name = "workers",
     .type = WEIR_ROW_U32,
     OF_SCENARIO(workers),
     .initial = "3",
     .min = 1,
     .max = WEIR_CHAOS_WORKERS_MAX},
    {.name = "ps", .type = WEIR_ROW_U32, OF_SCENARIO(ps), .initial = "2", .min = 1, .max = WEIR_CHAOS_PS_MAX},
};

static const struct weir_row entry_rows[] = {
    {.name = "kind", .type = WEIR_ROW_PICK, OF_ENTRY(kind), .choices = weir_chaos_kinds},
    {.name = "node", .type = WEIR_ROW_PATH, OF_ENTRY(node_text)},
    {.name = "at_s", .type = WEIR_ROW_DOUBLE, OF_ENTRY(at_s), .initial = "null", .max = 86400},
    {.name = "at_step", .type = WEIR_ROW_U32, OF_ENTRY(at_step), .initial = "null", .min = 1, .max = UINT32_MAX},
    {.name = "times", .type = WEIR_ROW_U32, OF_ENTRY(times), .initial = "1", .min = 1, .max = WEIR_CHAOS_FAULTS_MAX},
    {.name = "every_s", .type = WEIR_ROW_DOUBLE, OF_ENTRY(every_s), .initial = "null", .above_min = true, .max = 86400},
    {.name = "every_steps",
     .type = WEIR_ROW_U32,
     OF_ENTRY(every_steps),
     .initial = "null",
     .min = 1,
     .max = UINT32_MAX},
    {.name = "for_s", .type = WEIR_ROW_DOUBLE, OF_ENTRY(for_s), .initial = "null", .above_min = true, .max = 86400},
    {.name = "after_s", .type = WEIR_ROW_DOUBLE, OF_ENTRY(after_s), .initial = "null", .above_min = true, .max = 86400},
    {.name = "peer", .type = WEIR_ROW_PATH, OF_ENTRY(peer_text), .initial = "null"},
    {.name = "ways", .type = WEIR_ROW_PICK, OF_ENTRY(ways), .initial = "\"both\"", .choices = ways},
    {.name = "delay_ms",
     .type = WEIR_ROW_DOUBLE,
     OF_ENTRY(delay_ms),
     .initial = "null",
     .above_min = true,
     .max = 60000},
    {.name = "jitter_ms", .type = WEIR_ROW_DOUBLE, OF_ENTRY(jitter_ms), .initial = "0", .max = 60000},
    {.name = "bytes_per_s", .type = WEIR_ROW_DOUBLE, OF_ENTRY(bytes_per_s), .initial = "null", .min = 1000},
    {.name = "share",
     .type = WEIR_ROW_DOUBLE,
     OF_ENTRY(share),
     .initial = "null",
     .above_min = true,
     .max = 1,
     .below_max = true},
};

static const struct weir_row swarm_rows[] = {
    {.name = "faults", .type = WEIR_ROW_U32, OF_SWARM(faults), .min = 1, .max = WEIR_CHAOS_FAULTS_MAX},
    {.name = "kinds", .type = WEIR_ROW_IGNORED, .initial = "null"},
    {.name = "nodes", .type = WEIR_ROW_IGNORED, .initial = "null"},
    {.name = "for_s", .type = WEIR_ROW_DOUBLE, OF_SWARM(for_s), .initial = "1", .above_min = true, .max = 3600},
};

const struct weir_chaos_table weir_chaos_tables[WEIR_CHAOS_TABLES] = {
    [WEIR_CHAOS_OF_SCENARIO] = {"scenario", scenario_rows, COUNT_OF(scenario_rows)},
    [WEIR_CHAOS_OF_CLUSTER] = {"cluster", cluster_rows, COUNT_OF(cluster_rows)},
    [WEIR_CHAOS_OF_FAULT] = {"faults[]", entry_rows, COUNT_OF(entry_rows)},
    [WEIR_CHAOS_OF_SWARM] = {"swarm", swarm_rows, COUNT_OF(swarm_rows)},
};

#define KIND(name) (1u << WEIR_CHAOS_##name)
#define NETWORK (KIND(PARTITION) | KIND(DELAY) | KIND(BANDWIDTH))

const struct weir_chaos_use weir_chaos_uses[] = {
    {"for_s", NETWORK | KIND(STOP) | KIND(FULL_DISK) | KIND(SLOW_CPU), KIND(STOP)},
    {"after_s", KIND(KILL) | KIND(RESTART) | KIND(TERMINATE), 0},
    {"peer", NETWORK | KIND(RESET), 0},
    {"ways", NETWORK, 0},
    {"delay_ms", KIND(DELAY), KIND(DELAY)},
    {"jitter_ms", KIND(DELAY), 0},
    {"bytes_per_s", KIND(BANDWIDTH), KIND(BANDWIDTH)},
    {"share", KIND(SLOW_CPU), KIND(SLOW_CPU)},
};
const size_t weir_chaos_use_count = COUNT_OF(weir_chaos_uses);
