/* The tables by which scenario.c reads: which keys there are, and which of them a kind of fault has. Private to the
 * library. */
#ifndef WEIR_CHAOS_SCENARIO_TABLE_H
#define WEIR_CHAOS_SCENARIO_TABLE_H

#include "chaos/scenario.h"

enum { WEIR_CHAOS_OF_SCENARIO, WEIR_CHAOS_OF_CLUSTER, WEIR_CHAOS_OF_FAULT, WEIR_CHAOS_OF_SWARM };

/* The kinds, a bit each, that may have a key, and that must. Keys that are not listed all may have. */
struct weir_chaos_use {
    const char *key;
    unsigned allowed, required;
};
extern const struct weir_chaos_use weir_chaos_uses[];
extern const size_t weir_chaos_use_count;

#endif
