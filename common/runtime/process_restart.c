#include "runtime/process_restart.h"

#include "base/clock.h"

bool weir_restart_plan(struct weir_restart *restart, const struct weir_restart_limit *limit, uint64_t lived_ns,
                       uint64_t now_ns, uint32_t *pause_ms)
{
    if (weir_restarts_spent(&restart->restarts, limit, now_ns))
        return false;
    weir_restarts_add(&restart->restarts, limit, now_ns);
    uint32_t pause = 2 * restart->pause_ms;
    if (pause == 0 || lived_ns >= WEIR_RESTART_QUIET_MS * WEIR_NS_PER_MS)
        pause = WEIR_RESTART_PAUSE_MS;
    if (pause > WEIR_RESTART_PAUSE_MOST_MS)
        pause = WEIR_RESTART_PAUSE_MOST_MS;
    restart->pause_ms = *pause_ms = pause;
    return true;
}
