/* What nodes say to each other, as C structures. proto/weir.proto is the same on the wire, field by field; common/wire
 * turns one into the other. docs/protocol.md explains what each is for.
 *
 * Pointers in a message belong to whoever made it and are valid only during the call that it is given to.
 */
#ifndef WEIR_PROTOCOL_MESSAGE_H
#define WEIR_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_METRIC_SUMS 8 /* as WEIR_METRICS_MAX of the job */
#define WEIR_HASH_TEXT 65  /* SHA-256 in hexadecimal, with its zero byte */

enum weir_node_role { WEIR_NODE_CHIEF, WEIR_NODE_PS, WEIR_NODE_WORKER, WEIR_NODE_OBSERVER, WEIR_NODE_ROLES };

enum weir_message_type {
    WEIR_HELLO = 1,
    WEIR_VIEW,
    WEIR_HEARTBEAT,
    WEIR_REFUSED,
    WEIR_CONTRIBUTION, /* payload: the gradient's floats */
    WEIR_SEAL,
    WEIR_FETCH,
    WEIR_COVERED,
    WEIR_WEIGHTS, /* payload: the floats */
    WEIR_GONE,
    WEIR_PARTIAL,
    WEIR_RECORD,
    WEIR_FORWARD, /* payload: the sum's floats */
    WEIR_ACK,
    WEIR_FULL = 17, /* 15 and 16 are other fields of a frame */
    WEIR_MESSAGE_TYPES,
};

static inline bool weir_message_exists(uint32_t type)
{
    return type >= WEIR_HELLO && type < WEIR_MESSAGE_TYPES && (type <= WEIR_ACK || type == WEIR_FULL);
}

/* Which use of a chunk's holders: new with every change of holders, their order or the filling node. */
struct weir_chain {
    uint64_t term, count;
};

static inline bool weir_chain_same(struct weir_chain a, struct weir_chain b)
{
    return a.term == b.term && a.count == b.count;
}

struct weir_held {
    uint32_t chunk;
    uint64_t version; /* the newest that is held */
    struct weir_chain chain;
};

/* First on every stream, from both sides. */
struct weir_hello {
    enum weir_node_role role;
    uint32_t index;
    uint64_t incarnation; /* random per process start */
    uint64_t generation, view;
    const char *job_hash;
    const char *numerics;  /* fingerprint of what bits depend on */
    const char *address;   /* control: where this node serves; "" if nowhere */
    const char *canonical; /* control: the job's keys, to name differences; else "" */
    uint64_t record_step;  /* the newest record that is held, if has_record */
    uint32_t record_round;
    bool has_record;
    const struct weir_held *held; /* lanes: the chunks of this lane and holder */
    size_t held_count;
    uint64_t train_samples, validation_samples; /* control, workers: of the data that they read */
};

struct weir_view_node {
    enum weir_node_role role;
    uint32_t index;
    uint64_t incarnation;
    const char *address;
};

#define WEIR_NO_SERVER UINT32_MAX

/* Who holds a chunk, or the record (whose lane is 0): positions of parameter servers, or WEIR_NO_SERVER. */
struct weir_view_chunk {
    uint32_t primary;
    uint32_t standby; /* holds each released version too */
    uint32_t filling; /* is being given all that the primary has */
    uint32_t lane;
    struct weir_chain chain;
};

struct weir_view_variable { /* so that any client can find its way in the chunks */
    const char *name;
    uint64_t offset, elements;
    const uint64_t *shape;
    size_t dims;
};

enum weir_view_state { WEIR_VIEW_RUNNING = 1, WEIR_VIEW_FINISHED, WEIR_VIEW_FAILED };

/* Membership and assignment, whole. */
struct weir_view {
    uint64_t generation, term, number;
    enum weir_view_state state;
    const char *reason; /* FAILED: why, naming role, index and address */
    uint32_t replicas, lanes;
    uint32_t chunk_elements; /* floats in every chunk but the last */
    uint64_t flat_elements;
    const struct weir_view_node *nodes;
    size_t node_count;
    const struct weir_view_chunk *chunks;
    size_t chunk_count;
    struct weir_view_chunk record;
    const uint32_t *hosts; /* worker index by replica */
    const struct weir_view_variable *variables;
    size_t variable_count;
    const char *const *slots; /* names of the optimizer's slots; part s + 1 of a chunk is slot s */
    size_t slot_count;
    uint64_t train_samples, validation_samples; /* of the data that all workers read */
    uint64_t complete_step; /* every (step, round) before this one is complete: nobody computes any of it again */
    uint32_t complete_round;
};

/* Node to chief, every heartbeat_ms: alive, and what it has done. `leaving`: the last one. */
struct weir_heartbeat {
    uint64_t incarnation;
    uint64_t step;
    bool leaving;
    const char *error;   /* "" or why this node can't go on: ends the job with this reason */
    const char *waiting; /* "" or for whom this node waits */
    uint64_t pid;
    double cpu_s;
    uint64_t peak_rss_bytes, sent_bytes, received_bytes, replicas_computed, chunks_applied, copied_bytes;
    const char *numerics;
    bool drained; /* a worker: it was told to go, and computes nothing from this (step, round) on; all before is
                     complete. It waits for a view without it */
    uint64_t drained_step;
    uint32_t drained_round;
};

/* Chief or holder to a node that it won't have. The stream is closed after it. */
struct weir_refused {
    const char *reason;
    bool again; /* not yet: it may say Hello again later */
};

/* The gradient of node (level, index) of the sum tree, over one chunk. */
struct weir_contribution {
    uint64_t generation, step;
    uint32_t chunk, level, index;
    bool empty; /* no sample in the whole node: no payload */
};

/* A replica's step or validation round is done: what it came to. To the record's holder. */
struct weir_seal {
    uint64_t generation, step;
    uint32_t round, replica;
    double samples, loss, metrics[WEIR_METRIC_SUMS];
};

#define WEIR_NEWEST UINT64_MAX
struct weir_fetch {
    uint32_t chunk;
    uint64_t version; /* or WEIR_NEWEST */
    uint32_t part;    /* 0 weights, s + 1 optimizer slot s */
};

/* The sum of (step, chunk) is complete: contributions need not be sent again to this holder. */
struct weir_covered {
    uint64_t step;
    uint32_t chunk;
};

struct weir_weights {
    uint32_t chunk;
    uint64_t version;
    uint32_t part;
    struct weir_chain chain;
    bool whole; /* to a server: the last part of a copy */
};

struct weir_gone {
    uint32_t chunk;
    uint64_t newest;
};

/* Gated jobs: sums of squares of a chunk's summed gradient, per piece (variable and 64 Ki-parameter block). */
struct weir_partial {
    uint64_t generation, step;
    uint32_t chunk;
    const double *squares;
    size_t square_count;
};

/* Primary to standby and filling server: the sum of (step, chunk), which they apply as it does. */
struct weir_forward {
    uint64_t generation, step;
    uint32_t chunk;
    struct weir_chain chain;
};

#define WEIR_CHUNK_RECORD UINT32_MAX /* in the place of a chunk: the record */
#define WEIR_NO_VERSION UINT64_MAX

/* Standby or filling server to primary: the newest version that it has. */
struct weir_ack {
    uint64_t generation;
    uint32_t chunk;
    uint64_t version; /* WEIR_NO_VERSION: none. Of the record: its step */
    uint32_t round;   /* of the record */
    struct weir_chain chain;
};

/* Primary to chief: the filling server has all that the primary has, and nothing is released without its Ack. */
struct weir_full {
    uint64_t generation;
    uint32_t chunk;
    struct weir_chain chain;
};

enum weir_order { WEIR_ORDER_TRAIN = 1, WEIR_ORDER_EVALUATE, WEIR_ORDER_STOP };

struct weir_totals {
    double samples, loss, metrics[WEIR_METRIC_SUMS];
};

/* What is decided for (step, round): a pure function of its predecessor and of all its Seals (and Partials). */
struct weir_record {
    uint64_t generation, step;
    uint32_t round;
    enum weir_order order;
    uint64_t epoch;       /* 0-based; of the step, or of the epoch that validation follows */
    uint64_t iterations;  /* updates so far */
    double learning_rate; /* for this step's update */
    double scale;         /* verdict on step - 1: factor for the summed gradient (global_clipnorm); 1 for none */
    const double *norms;  /* verdict on step - 1: clipnorm's factor by variable; NULL for none */
    size_t norm_count;
    struct weir_totals train;                       /* the epoch so far */
    struct weir_totals validation;                  /* the running validation so far */
    struct weir_totals last_train, last_validation; /* of the newest epoch that is complete; samples 0: none */
    uint64_t last_epoch;
    bool skip; /* verdict on step - 1: its gradient was not finite, every chunk stays as it is (gated jobs) */
};

struct weir_message_body {
    enum weir_message_type type;
    union {
        struct weir_hello hello;
        struct weir_view view;
        struct weir_heartbeat heartbeat;
        struct weir_refused refused;
        struct weir_contribution contribution;
        struct weir_seal seal;
        struct weir_fetch fetch;
        struct weir_covered covered;
        struct weir_weights weights;
        struct weir_gone gone;
        struct weir_partial partial;
        struct weir_record record;
        struct weir_forward forward;
        struct weir_ack ack;
        struct weir_full full;
    };
};

#endif
