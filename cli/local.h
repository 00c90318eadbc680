/* A cluster on this machine, as children of this process: who they are and what each is told. runtime/process.h runs
 * them.
 */
#ifndef WEIR_CLI_LOCAL_H
#define WEIR_CLI_LOCAL_H

#include "cli/options.h"
#include "runtime/process.h"

#define WEIR_LOCAL_CHIEF 0 /* the first child; then come the parameter servers, then the workers */

struct weir_local_role {
    enum weir_role role;
    uint32_t index;
    char name[32]; /* "worker/0" */
    char *tf_config;
    const char *environment[3];
};

struct weir_local {
    size_t count;
    uint32_t ps, workers;
    struct weir_local_role *roles;
    struct weir_child *children;
    struct weir_child_end *ends;
    uint16_t *ports;
    char **chief_arguments, **arguments;
    char program[4096];
};

/* Fills in a cluster of options->ps and options->workers, on the ports from options->port on or else free ones.
 * `progress` is how the chief tells of it (WEIR_PROGRESS; cli/progress.h), `restarts` how often a role
 * that may be lost is started again. False, and why, if ports can't be had. Free
 * with weir_local_free in both cases. */
bool weir_local_init(struct weir_local *local, const struct weir_options *options, const char *progress,
                     const struct weir_restart_limit *restarts, struct weir_error *err);
/* Tells one role other ports: ports[count], its own unchanged, the others' where it is to find them. */
void weir_local_route(struct weir_local *local, size_t child, const uint16_t *ports);
/* Whether the job can go on without those workers that the group has given up; says so where it can't. */
bool weir_local_enough_workers(const struct weir_local *local, uint32_t min_workers);
void weir_local_free(struct weir_local *local);

#endif
