/* What the files of the group of child processes share. Nobody else includes this.
 *
 * process.c: the group's life, how children end and what follows. process_start.c: how they start, and what they write.
 * process_calls.c: what the caller may do to them. process_restart.c: when one is started again.
 */
#ifndef WEIR_RUNTIME_PROCESS_STATE_H
#define WEIR_RUNTIME_PROCESS_STATE_H

#include <uv.h>

#include "runtime/process.h"
#include "runtime/process_restart.h"

#define WEIR_GROUP_READ_BYTES 65536

struct pipe_reader {
    struct member *member;
    uv_pipe_t pipe;
    bool open;
};

struct member {
    struct weir_group *group;
    size_t index;
    uv_process_t process;
    struct pipe_reader output, errors;
    struct weir_lines lines; /* of standard error */
    struct weir_child_end *end;
    uint64_t began_ns;
    struct weir_restart restart;
    uv_timer_t again; /* it is started again when this rings */
    bool expected;    /* its end is meant */
    bool awaited;     /* it will be started again: the group lasts until then */
};

enum group_phase { RUNNING, GRACE, STOPPING, KILLED };

struct weir_group {
    const struct weir_group_options *options;
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    uv_timer_t timer, alarm;
    struct member *members;
    size_t alive, open_pipes;
    enum group_phase phase;
    unsigned interrupted, ended;
    int lifeline[2];
    int null_input;
    char buffer[WEIR_GROUP_READ_BYTES];
};

/* ---- process.c */

/* Tells every child that runs to stop, and kills those that have not after stop_ms. */
void weir_group_stop_all(struct weir_group *group);
/* A pipe was closed or a child has ended: if nothing more can come, neither does the loop go on. */
void weir_group_look_for_the_end(struct weir_group *group);
/* A child of a group that runs could not be started again: why. */
void weir_group_start_failed(struct member *member, const char *why);

/* ---- process_start.c */

/* Once for each member, before it starts. */
void weir_member_init(struct weir_group *group, size_t index, struct weir_child_end *end);
bool weir_member_start(struct member *member, struct weir_error *err);
/* Starts one again that has ended, in so many milliseconds, if the group still runs then. */
void weir_member_start_again(struct member *member, uint32_t in_ms);
/* No longer reads what a member writes; the line that it began is handed on. */
void weir_member_close(struct member *member);
void weir_member_exited(uv_process_t *process, int64_t status, int signal);

#endif
