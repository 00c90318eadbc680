/* Does a plan to a group of processes that runs (runtime/process.h) behind a relay.
 *
 * The three callbacks go into the group's options; all is the thread's on which the group runs. What is done and when,
 * and which processes end by themselves, goes into what is seen.
 */
#ifndef WEIR_CHAOS_DRIVE_H
#define WEIR_CHAOS_DRIVE_H

#include "chaos/observe.h"
#include "chaos/relay.h"
#include "runtime/process.h"

struct weir_chaos_driver;

/* The plan's faults of `count` (0: an undisturbed run). `limit_s`: then the group is ended. All must outlive the
 * driver. */
struct weir_chaos_driver *weir_chaos_driver_new(const struct weir_chaos_scenario *scenario,
                                                const struct weir_chaos_fault *plan, size_t count, double limit_s,
                                                struct weir_relay *relay, struct weir_chaos_seen *seen);
void weir_chaos_driver_free(struct weir_chaos_driver *driver);

void weir_chaos_driver_begun(struct weir_chaos_driver *driver, struct weir_group *group);
void weir_chaos_driver_alarm(struct weir_chaos_driver *driver, struct weir_group *group);
void weir_chaos_driver_ended(struct weir_chaos_driver *driver, struct weir_group *group, size_t child,
                             const struct weir_child_end *end);

#endif
