/* A worker's compute threads: carry out one WEIR_DO_COMPUTE at a time. The first one takes the orders, and is a member
 * of the team (model/team.h) that the others form with it. With other replicas comes another team.
 *
 * Gradients are kept in sets, one per step: a set is used again when no message refers to it.
 */
#ifndef WEIR_CLI_AGENT_COMPUTE_H
#define WEIR_CLI_AGENT_COMPUTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/agent.h"
#include "model/team.h"
#include "protocol/tree.h"

#define WEIR_GRADIENT_SETS 4

/* The gradient of one step: a flat array per node that the worker sends. */
struct weir_gradient_set {
    atomic_uint references; /* messages on their way */
    atomic_ullong step;
    atomic_uint node_count;           /* parts of the step are put behind each other */
    struct weir_tree_node *names;     /* [replicas of the job]: no more nodes than those */
    struct weir_gradient_node *nodes; /* the same */
};

/* What computes a set of replicas: a team of threads, and the batches ahead. The set changes with the view. */
struct weir_crew {
    uint32_t count, node_count;
    uint32_t *ids, *row0; /* replica numbers, ascending; their first rows of the batch */
    struct weir_replica_rows *rows;
    struct weir_sums *sums;
    struct weir_tree_node *names;
    struct weir_gradient_node *nodes; /* which of its replicas those nodes cover; without gradients */
    uint32_t threads;
    struct weir_team *team;
    struct weir_prefetch *prefetch; /* NULL until the first step */
    /* validation: a piece for each thread */
    uint64_t *index;
    float *x, *y;
    size_t x_floats, y_floats;
};

struct weir_agent_compute {
    struct weir_process *process;
    struct weir_agent_node *node;                      /* told if it can't go on */
    struct weir_actor *worker, *lanes[WEIR_LANES_MAX]; /* whom it tells */
    uint32_t lane_count, position;
    struct weir_dataset *train, *validation;
    struct weir_walk walk;
    uint32_t piece_rows;    /* of one replica, at most */
    struct weir_crew *crew; /* of the newest computation, or the one to be expected first; NULL: none yet */
    float *weights[2];      /* by version & 1; the same in place */
    struct weir_gradient_set sets[WEIR_GRADIENT_SETS];
    uint64_t last_step; /* of the job */
    /* the thread */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, asked, has_weights; /* locked, and the next three */
    bool busy;                         /* computes with version `busy_with` */
    uint64_t busy_with, newest_stored; /* versions */
    struct weir_record record;
    uint32_t part, replica_count; /* asked for */
    uint32_t *replicas;
    uint32_t told_chunk; /* whoever calls ready, one after the other */
};

/* Once the view is there, with the replicas that it hosts (ascending). The data sets are open. What takes long is made
 * ready on the thread. */
bool weir_agent_compute_start(struct weir_agent_compute *compute, uint32_t position, const uint32_t *hosts,
                              uint64_t train_samples, uint64_t steps, struct weir_error *err);
/* Until there are weights to write to. */
void weir_agent_compute_wait(struct weir_agent_compute *compute);
/* The action is WEIR_DO_COMPUTE. */
void weir_agent_compute_ask(struct weir_agent_compute *compute, const struct weir_action *action);
/* Weights of `version` are about to be written where those of version - 2 lie: waits until nothing computes with these.
 * What is to be computed with them from now on is not computed: that step is finished. Any thread. */
void weir_agent_compute_store(struct weir_agent_compute *compute, uint64_t version);
/* The set of a step, with one more reference, or NULL if there is none. Any thread. */
struct weir_gradient_set *weir_agent_compute_ref(struct weir_agent_compute *compute, uint64_t step);
void weir_agent_compute_unref(void *set);
void weir_agent_compute_stop(struct weir_agent_compute *compute);
void weir_agent_compute_join(struct weir_agent_compute *compute);
void weir_agent_compute_free(struct weir_agent_compute *compute);

/* ---- agent_crew.c */

/* For these replicas (ascending, at least one). NULL and an error if there is no memory or thread for it. */
struct weir_crew *weir_crew_new(const struct weir_agent_compute *compute, const uint32_t *replicas, uint32_t count,
                                struct weir_error *err);
void weir_crew_free(struct weir_crew *crew);
bool weir_crew_is_of(const struct weir_crew *crew, const uint32_t *replicas, uint32_t count);
/* Rows of the step's batch that its replicas take, one replica after the other, and where each has its own. */
uint32_t weir_crew_rows(struct weir_crew *crew, const struct weir_agent_compute *compute, uint32_t batch);

#endif
