/* The commands of the program, one file each; start.h has the rest. Each returns the exit status: 0 done, 1 failed, 2
 * wrong use. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include "base/restarts.h"
#include "cli/options.h"

#define WEIR_EXIT_DONE 0
#define WEIR_EXIT_FAILED 1
#define WEIR_EXIT_WRONG_USE 2
#define WEIR_EXIT_START_AGAIN 138
#define WEIR_EXIT_DRAINED 143

/* What of a job concerns whoever runs a cluster on this machine. */
struct weir_run_terms {
    uint32_t lease_ms, min_workers;
    struct weir_restart_limit restarts;
};

/* All roles in this process, or each as a child process of this one. */
int weir_run_command(const struct weir_options *options);

/* Runs a scenario's job on clusters of child processes, undisturbed and disturbed, and reports (chaos/report.h). */
int weir_chaos_command(const struct weir_options *options);

/* Reads the job, TF_CONFIG, the model and the data as a run would, and prints what is wrong with them on stdout. */
int weir_check_command(const struct weir_options *options);

/* The same for the command run, whose cluster is no matter of TF_CONFIG: says on stderr what is wrong, and sets up the
 * log as the job wants it. Returns the exit status: 0 where nothing is wrong; then *terms are the job's. */
int weir_check_before_run(const struct weir_options *options, struct weir_run_terms *terms);

#endif
