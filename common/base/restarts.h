/* How often something may be started again: so many times within a window, which the first time opens and which is
 * over `window_ns` later, whatever came meanwhile. Who supervises processes and who lets them join judge by the same
 * rule. Times are of one monotonic clock; nothing here reads it.
 */
#ifndef WEIR_BASE_RESTARTS_H
#define WEIR_BASE_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

struct weir_restart_limit {
    uint32_t most; /* 0: never */
    uint64_t window_ns;
};

struct weir_restarts {
    uint32_t count; /* within the window */
    uint64_t first_ns;
};

/* Whether there is none left for now. */
static inline bool weir_restarts_spent(const struct weir_restarts *restarts, const struct weir_restart_limit *limit,
                                       uint64_t now_ns)
{
    return limit->most == 0 || (restarts->count >= limit->most && now_ns < restarts->first_ns + limit->window_ns);
}

/* Counts one that happens now, within the limit or not. */
static inline void weir_restarts_add(struct weir_restarts *restarts, const struct weir_restart_limit *limit,
                                     uint64_t now_ns)
{
    if (restarts->count > 0 && now_ns >= restarts->first_ns + limit->window_ns)
        restarts->count = 0;
    if (restarts->count == 0)
        restarts->first_ns = now_ns;
    if (restarts->count < UINT32_MAX)
        restarts->count++;
}

#endif
