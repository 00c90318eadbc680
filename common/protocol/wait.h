/* What a core waits for, and whether for so long that people should be told.
 *
 * A core describes its wait in one line, "worker/1 at 127.0.0.1:2224: its contribution to step 17 (chunk 5, lane 0)":
 * for whom, for what, and details. Two descriptions are of the same wait if they differ in the details only.
 *
 * With it goes the step that cannot be completed before (0: any): of several waits of a process, the one of the oldest
 * step is what holds up the others.
 *
 * A job whose steps take long waits as long in each of them, and all is well: so a wait is long if it has lasted for
 * WEIR_WAIT_LONG_NS and twice the time that the one before it took, or in any case for WEIR_WAIT_MOST_NS. A lost
 * connection is no part of a step: a wait for WEIR_WAIT_CONNECTION is long after WEIR_WAIT_LONG_NS, counted from when
 * the process began to wait for anything of that member.
 */
#ifndef WEIR_PROTOCOL_WAIT_H
#define WEIR_PROTOCOL_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_WAIT_BYTES 320                              /* a description's room */
#define WEIR_WAIT_LOOK_NS (UINT64_C(250) * 1000000)      /* how often to look */
#define WEIR_WAIT_LONG_NS (UINT64_C(2) * 1000 * 1000000) /* this long at least */
#define WEIR_WAIT_MOST_NS (UINT64_C(30) * 1000 * 1000000)

/* What is waited for in "ps/1 at b:1: a connection (...)". */
#define WEIR_WAIT_CONNECTION "a connection"

/* Zeroed at first. */
struct weir_wait {
    char text[WEIR_WAIT_BYTES]; /* the newest description; "": waits for nothing */
    uint64_t since_ns, looked_ns;
    uint64_t before_ns; /* how long the wait before this one took; an owner whose waits do not recur sets it to 0 */
    bool is_long;
};

/* The core waits for this now ("": for nothing; shorter than WEIR_WAIT_BYTES). True if people should be told: the wait
 * has become long, or is for something else of the same member, or a long one is over (then wait->is_long is false). A
 * time in which nobody looked does not count: the process stood still. */
bool weir_wait_look(struct weir_wait *wait, const char *text, uint64_t now_ns);

#endif
