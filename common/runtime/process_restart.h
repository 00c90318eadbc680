/* When a child that failed is started again. Private to the library; no clock and no processes in here. */
#ifndef WEIR_RUNTIME_PROCESS_RESTART_H
#define WEIR_RUNTIME_PROCESS_RESTART_H

#include "base/restarts.h"

#define WEIR_RESTART_PAUSE_MS 100 /* the first; the next is twice as long, and so on */
#define WEIR_RESTART_PAUSE_MOST_MS 5000
/* A life of this length makes the next pause the shortest again: twice the longest pause, as Kubernetes has it (10
 * minutes there, for pauses of up to 5). The count of restarts goes on: that one has a window of its own. */
#define WEIR_RESTART_QUIET_MS 10000

struct weir_restart {
    struct weir_restarts restarts;
    uint32_t pause_ms; /* the last one; 0: none yet */
};

/* A life has ended in failure after `lived_ns` (0: it could not even begin). True, and how long to wait before the
 * next, which counts from now on; false if the limit allows no more. */
bool weir_restart_plan(struct weir_restart *restart, const struct weir_restart_limit *limit, uint64_t lived_ns,
                       uint64_t now_ns, uint32_t *pause_ms);

#endif
