/* What the commands run and start do: the composition of the roles of one process. Both return an exit status. */
#ifndef WEIR_CLI_START_H
#define WEIR_CLI_START_H

#include "cli/options.h"

/* What a run refuses, and a check finds: the model's path; the job's path, the number, WEIR_REPLICAS_MAX; the
 * job's path, the number, the cluster's workers. */
#define WEIR_NOTHING_TO_TRAIN "%s: model: no layer has weights: there is nothing to train"
#define WEIR_TOO_MANY_REPLICAS "%s: replicas: %u is more than the %u that weir sums"
#define WEIR_TOO_FEW_WORKERS "%s: cluster.min_workers: %u is more than the %u of the cluster: start more, or lower it"

/* `weir start`: plays the role that TF_CONFIG names; without TF_CONFIG all roles. */
int weir_start_command(const struct weir_options *options);

/* `weir run` without --workers and --ps: plays all roles in this process, whatever TF_CONFIG says. */
int weir_start_local(const struct weir_options *options);

#endif
