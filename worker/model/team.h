/* A worker's compute threads: each computes some of the hosted replicas, and their gradients meet along the sum tree.
 *
 * The replicas are divided once, in runs of as equal length as possible, that cut few subtrees. What a thread hosts of
 * a node of the sum tree, in whole subtrees (the parts), it computes in one pass, as weir_compute_step does. As
 * gradients become final, the parts are added along the tree, block by block: of two siblings, whoever comes second
 * adds. So nobody waits, and the bits are those of one thread.
 */
#ifndef WEIR_MODEL_TEAM_H
#define WEIR_MODEL_TEAM_H

#include "model/model.h"

/* How many threads should compute: no more than there are replicas, nor than this worker's share of the CPUs that its
 * process may use, but at least one. `workers`: those of the cluster on this host, itself included. All > 0. Pure. */
uint32_t weir_team_threads(uint32_t replicas, uint32_t cpus, uint32_t workers);

struct weir_team_config {
    const struct weir_model *model; /* bound; it and the job outlive the team */
    const struct weir_job *job;
    /* The hosted replicas, and what the nodes of every step will cover: disjoint, ascending, together all replicas;
     * their gradients are not used. */
    const struct weir_gradient_node *nodes;
    uint32_t node_count, replica_count;
    uint32_t replica_rows; /* at most, of one replica */
    uint32_t threads;      /* 1 to replica_count, the caller's included */
    uint64_t held_bytes;   /* what the process needs besides, to say it if all that is too much */
};

struct weir_team;

/* Starts the other threads. NULL, and an error, if the machine has too little memory or gives no thread. */
struct weir_team *weir_team_new(const struct weir_team_config *config, struct weir_error *err);
/* Stops the threads, which are idle between calls, and waits for them. NULL is allowed. */
void weir_team_free(struct weir_team *team);

/* Names the calling thread "compute/NUMBER" and lowers its priority, so that a full CPU delays no heartbeat. The team's
 * own threads begin with it; the one that calls the team should, as number 0. */
void weir_team_enter(uint32_t number);

/* weir_compute_step on all threads, of which the caller's is one: the same bits in gradients and sums. `ready` is
 * called on any of the threads, but one call after the other, each seeing what the one before wrote, with falling
 * offsets (not those of one thread) down to 0. One caller at a time. */
void weir_team_step(struct weir_team *team, const struct weir_step_input *input, struct weir_sums *sums);

/* What is to be done for a hosted replica (an index): `thread` < the number of threads is the one that it runs on,
 * `compute` that thread's, for at most replica_rows rows. */
typedef void (*weir_team_work)(void *context, struct weir_compute *compute, uint32_t thread, uint32_t replica);

/* Calls `work` for each replica, on the thread that computes it; returns when all is done. One caller at a time. */
void weir_team_each(struct weir_team *team, weir_team_work work, void *context);

#endif
