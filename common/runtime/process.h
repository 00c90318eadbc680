/* Supervision of child processes: a group starts together, and nobody of it is left behind.
 *
 * The parent reads what its children write and hands it on line by line, so that it is the only one that writes to a
 * terminal. How a group ends:
 *   - every child ends by itself: the good case.
 *   - a child fails (exit status not 0, or a signal), or the one that leads is done: the others have `grace_ms` to find
 *     that out by themselves, then they get SIGTERM, then, after `stop_ms`, SIGKILL. A child that fails before they
 * know of each other (`joined`) is missed by nobody, so the others get SIGTERM at once.
 *   - a child ends with the exit status by which it says that it goes for good (`goes_with`), once all know of each
 *     other: no failure, and nobody else ends.
 *   - a child that may be lost fails once all know of each other: nobody else ends, and it is started again after a
 *     pause that doubles each time until it has lived in peace for a while (process_restart.h). A start that fails is a
 *     failure, too, and is tried again. Once it has failed more often than `restarts` allows, or with `final_status`,
 *     it is given up; the group ends as after any failure if the others can't do without it (`can_do_without`).
 *   - SIGINT or SIGTERM reaches the parent: children get SIGTERM and `stop_ms`; a second one kills at once.
 *   - the parent dies, however: children end at once, by the lifeline (below).
 *
 * A group runs on the calling thread, with a libuv loop of its own; one group at a time in a process, for it takes over
 * SIGINT, SIGTERM and SIGCHLD while it runs.
 */
#ifndef WEIR_RUNTIME_PROCESS_H
#define WEIR_RUNTIME_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/restarts.h"
#include "runtime/lines.h"

struct weir_child {
    const char *name;               /* "worker/0", for messages */
    const char *program;            /* a path, or a name to look for in PATH */
    const char *const *arguments;   /* argv, with argv[0], ends with NULL */
    const char *const *environment; /* NAME=VALUE or NAME (unset) on top of the parent's, ends with NULL; or NULL */
    bool leads;                     /* once it has ended, the others should, too */
    int goes_with;                  /* an exit status, as above; 0: none */
    bool may_be_lost;               /* if it fails, it is started again, or else given up */
    int final_status;               /* an exit status that another start does not mend; 0: none */
    struct weir_restart_limit restarts;
};

enum weir_child_state { WEIR_CHILD_NOT_STARTED, WEIR_CHILD_RUNNING, WEIR_CHILD_ENDED };

struct weir_child_end {
    enum weir_child_state state;
    int pid;
    int status; /* exit status, if `signal` is 0 */
    int signal;
    bool went;         /* for good, as it said */
    bool given_up;     /* it failed, and is not started again */
    bool harmless;     /* it failed, and nobody else ended for it: it was to be started again, or is not missed */
    bool stopped;      /* the group had told it to stop before it ended */
    unsigned order;    /* 1 for the first that ended, 2 for the next, ... */
    unsigned restarts; /* how often it was started again; all else is of the last time */
};

/* A group that runs, for those callbacks that get it. */
struct weir_group;

struct weir_group_options {
    const struct weir_child *children;
    size_t count;
    uint32_t grace_ms, stop_ms;
    /* Whether the children know of each other by now. NULL: always. */
    bool (*joined)(void *context);
    /* Whether the others can go on without this child, too, which is given up. NULL: always. */
    bool (*can_do_without)(void *context, size_t child);
    /* What a child wrote to its standard output: bytes as they come. NULL: drops them. */
    void (*output)(void *context, size_t child, const char *bytes, size_t count);
    /* A line of a child's standard error, without its newline, not 0-terminated. NULL: drops them. */
    void (*line)(void *context, size_t child, const char *text, size_t count);
    /* What the group itself does that a user should know: "worker/1 was killed by signal 9 (Killed)". NULL: silent. */
    void (*note)(void *context, const char *text);
    /* For who does things to the children while they run. Once all have started; when a child has ended, whatever
     * follows from that; and when the time of weir_group_alarm has come. NULL: nobody. */
    void (*begun)(void *context, struct weir_group *group);
    void (*ended)(void *context, struct weir_group *group, size_t child, const struct weir_child_end *end);
    void (*alarm)(void *context, struct weir_group *group);
    void *context;
};

/* Starts all children, waits until all have ended and all that they wrote is handed on, and fills ends[count]. False,
 * with all that were started killed and waited for, if one can't be started. `interrupted`: the number of SIGINT and
 * SIGTERM that came. */
bool weir_group_run(const struct weir_group_options *options, struct weir_child_end *ends, unsigned *interrupted,
                    struct weir_error *err);

/* The following may be called in the callbacks of a group only. */

/* Calls `alarm` once, in so many milliseconds; a new time replaces an old one. */
void weir_group_alarm(struct weir_group *group, uint32_t in_ms);
/* Sends a signal to a child; false if it is not running. */
bool weir_group_signal(struct weir_group *group, size_t child, int signal);
/* The child's process, or 0 if it is not running. */
int weir_group_pid(const struct weir_group *group, size_t child);
/* The child's next end is meant: nobody else ends because of it, and it is not started again, unless by
 * weir_group_start, which is to come if `again`: then the group lasts until that. */
void weir_group_expect(struct weir_group *group, size_t child, bool again);
/* Starts a child again that has ended; false if it has not, or if the group is ending. If the start then fails, that is
 * a failure as above. */
bool weir_group_start(struct weir_group *group, size_t child);
/* Ends the group, as SIGTERM to the parent does. */
void weir_group_stop(struct weir_group *group);

/* Writes "exit status 1" or "signal 9 (Killed)". */
void weir_child_describe(const struct weir_child_end *end, char *text, size_t text_bytes);

/* The child's side, first thing in main: true if this process has a supervisor (the environment variable
 * WEIR_LIFELINE_FD, which is taken away, names the read end of a pipe whose write end only the supervisor has).
 * Then a thread ends this process with status 1 when the supervisor is gone, and the kernel is asked for a SIGKILL
 * (PR_SET_PDEATHSIG) besides; SIGINT is ignored, as a terminal sends it to everybody and the supervisor passes it on as
 * SIGTERM: the caller must not handle it either. */
bool weir_lifeline_watch(void);

#endif
