/* A worker's compute threads: carry out one WEIR_DO_COMPUTE at a time. The first one takes the orders, and is a member
 * of the team (model/team.h) that the others form with it.
 *
 * Gradients are kept in sets, one per step: a set is used again when no message refers to it.
 */
#ifndef WEIR_CLI_AGENT_COMPUTE_H
#define WEIR_CLI_AGENT_COMPUTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/agent.h"
#include "protocol/tree.h"

#define WEIR_GRADIENT_SETS 4

/* The gradient of one step: a flat array per node that the worker sends. */
struct weir_gradient_set {
    atomic_uint references; /* messages on their way */
    atomic_ullong step;
    struct weir_gradient_node nodes[WEIR_TREE_COVER_MAX];
};

struct weir_agent_compute {
    struct weir_process *process;
    struct weir_agent_node *node;                      /* told if it can't go on */
    struct weir_actor *worker, *lanes[WEIR_LANES_MAX]; /* whom it tells */
    uint32_t lane_count;
    /* what it hosts */
    uint32_t first_replica, replica_count;
    struct weir_tree_node tree_nodes[WEIR_TREE_COVER_MAX];
    size_t node_count;
    struct weir_dataset *train, *validation;
    struct weir_walk walk;
    struct weir_prefetch *prefetch;
    struct weir_team *team;
    uint32_t threads;              /* of the team */
    uint32_t max_rows, piece_rows; /* of all hosted replicas, of one */
    float *weights[2];             /* by version & 1; the same in place */
    struct weir_gradient_set sets[WEIR_GRADIENT_SETS];
    uint64_t last_step; /* of the job */
    /* the thread */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, asked, has_weights; /* locked */
    struct weir_record record;
    /* scratch */
    struct weir_replica_rows *rows;
    uint32_t *ids, *row0;
    struct weir_sums *sums;
    uint32_t told_chunk; /* whoever calls ready, one after the other */
    /* validation: a piece for each thread */
    uint64_t *index;
    float *x, *y;
    size_t x_floats, y_floats;
};

/* Once the view is there. The data sets are open. What takes long is made ready on the thread. */
bool weir_agent_compute_start(struct weir_agent_compute *compute, uint32_t position, uint64_t train_samples,
                              uint64_t steps, struct weir_error *err);
/* Until there are weights to write to, if it hosts replicas. */
void weir_agent_compute_wait(struct weir_agent_compute *compute);
void weir_agent_compute_ask(struct weir_agent_compute *compute, const struct weir_record *record);
/* The set of a step, with one more reference, or NULL if there is none. Any thread. */
struct weir_gradient_set *weir_agent_compute_ref(struct weir_agent_compute *compute, uint64_t step);
void weir_agent_compute_unref(void *set);
void weir_agent_compute_stop(struct weir_agent_compute *compute);
void weir_agent_compute_join(struct weir_agent_compute *compute);
void weir_agent_compute_free(struct weir_agent_compute *compute);

#endif
