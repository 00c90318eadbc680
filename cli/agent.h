/* The roles of a process: each agent plays one (chief, parameter server or worker), on threads of its own, and is
 * joined to the others by a transport. Here the pure cores meet the engines, the model and the network.
 *
 * An agent is made on the main thread, started, and at its end tells weir_process_agent_done; then it is joined.
 */
#ifndef WEIR_CLI_AGENT_H
#define WEIR_CLI_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/arena.h"
#include "cli/options.h"
#include "config/config.h"
#include "data/data.h"
#include "model/model.h"
#include "protocol/layout.h"
#include "protocol/schedule.h"
#include "runtime/thread.h"

#define WEIR_AGENTS_MAX 3
#define WEIR_NAME_BYTES 320

/* A member of the cluster, by position among its role's. */
struct weir_member {
    enum weir_node_role role;
    uint32_t index; /* as in TF_CONFIG */
    const char *address;
    char name[WEIR_NAME_BYTES]; /* "worker/1 at 127.0.0.1:2224" */
};

struct weir_agent;

/* What all agents of a process share; const once they run, but for what is marked. */
struct weir_process {
    const struct weir_options *options;
    struct weir_job job;
    struct weir_cluster cluster;
    struct weir_model *model;
    const struct weir_variable *variables;
    size_t variable_count;
    uint64_t flat_elements;
    struct weir_transport *transport;
    struct weir_server *server;
    struct weir_arena arena;
    uint64_t incarnation;
    char numerics[512];
    struct weir_member chief, *servers, *workers;
    const char **server_names, **worker_names; /* those of `servers` and `workers` */
    uint32_t server_count, worker_count, replicas;
    struct weir_layout layout;
    uint32_t lanes;
    bool local;     /* one process plays all roles: weights are written in place */
    float *weights; /* local: the one copy, flat */
    struct weir_agent *agents[WEIR_AGENTS_MAX];
    size_t agent_count;
    atomic_ullong replicas_computed, chunks_applied, copied_bytes; /* changes */
    /* the main thread's */
    uv_loop_t loop;
    uv_async_t done;
    uv_signal_t signals[2];
    pthread_mutex_t lock;
    size_t done_count; /* locked */
    int code;
    unsigned interrupted;
};

/* What an agent is to the process. */
struct weir_agent {
    struct weir_process *process;
    void *self;
    bool (*start)(void *self, struct weir_error *err);
    void (*fail)(void *self, const char *why);  /* the job can't go on; any thread */
    void (*drain)(void *self, const char *why); /* told to go: hands over first; NULL: can't. Any thread */
    void (*stop)(void *self);                   /* asks all threads to end */
    void (*join)(void *self);                   /* waits for them */
    void (*free)(void *self);                   /* once the transport is gone, and with it all references */
};

struct weir_agent *weir_agent_chief_new(struct weir_process *process);
struct weir_agent *weir_agent_ps_new(struct weir_process *process, uint32_t position);
struct weir_agent *weir_agent_worker_new(struct weir_process *process, uint32_t position, struct weir_error *err);

/* The pollers on which the server takes calls: the chief's for control, a parameter server's for its lanes. NULL if the
 * agent takes none on that channel. */
struct weir_poller *weir_agent_chief_poller(struct weir_agent *agent);
struct weir_poller *weir_agent_ps_poller(struct weir_agent *agent, uint32_t lane);

/* An agent is over, with an exit status and (if not 0) why. Any thread. */
void weir_process_agent_done(struct weir_process *process, int code, const char *why);
/* What a Hello of this process says, on every stream. */
struct weir_hello weir_process_hello(const struct weir_process *process, enum weir_node_role role, uint32_t index);
/* Fills in what is measured. */
void weir_process_measure(const struct weir_process *process, struct weir_heartbeat *heartbeat);
/* How many workers of the cluster are on the host of the worker at `position`, itself included: those whose addresses
 * have the same host part. */
uint32_t weir_process_workers_here(const struct weir_process *process, uint32_t position);
/* What this process keeps of the model's parameters at least: weights, gradients, optimizer slots, the result. */
uint64_t weir_process_model_bytes(const struct weir_process *process);
/* CPUs that the calling thread, and those that it starts, may run on. */
uint32_t weir_process_cpus(void);
/* A core's limits of time. */
uint64_t weir_process_lease_ns(const struct weir_process *process);

/* Of one received message: a chunk and what is said of it, a record with norms of variables, or a lane's Hello, which
 * lists the chunks that are held. */
size_t weir_process_message_limit(const struct weir_process *process);

uint32_t weir_job_steps_per_epoch(const struct weir_job *job, uint64_t train_samples);
/* False, and why, if an epoch of that much data would have no step. */
bool weir_job_has_steps(const struct weir_job *job, uint64_t train_samples, struct weir_error *err);

/* Whether so many floats are too many for the caches: new versions of them are written past those. */
bool weir_process_large(uint64_t floats);

/* Chunks that a worker may send to a server's lane beyond the lowest that is not covered. */
uint32_t weir_process_credit(const struct weir_process *process);

/* What the job does with that much data, as the record needs it. Arrays are the arena's. */
struct weir_schedule weir_process_schedule(struct weir_process *process, uint64_t train_samples,
                                           uint64_t validation_samples);
/* Cuts a chunk into runs that belong to one variable and one block of 64 Ki parameters (engine/store.h). Returns their
 * number; `pieces` may be NULL. */
struct weir_piece;
size_t weir_process_pieces(const struct weir_process *process, uint32_t chunk, struct weir_piece *pieces);
/* The order of training samples. */
struct weir_walk weir_process_walk(const struct weir_process *process, uint64_t train_samples);
/* Validation is walked in rounds of this many samples. */
uint32_t weir_process_validation_rows(const struct weir_process *process);

#endif
