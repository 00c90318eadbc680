/* What the files of the exchange core share. Nobody else includes this. */
#ifndef WEIR_WORKER_EXCHANGE_STATE_H
#define WEIR_WORKER_EXCHANGE_STATE_H

#include "worker/exchange.h"

/* At most this many messages of a stream wait in the transport. */
#define UNSENT_MAX 2

struct pulled_chunk {
    uint32_t id;
    bool ready;            /* its gradient of `step` is final, of the newest part too */
    bool covered;          /* the holder has the whole sum of `step` */
    uint64_t held;         /* newest version held */
    bool has_old;          /* and the one before */
    uint64_t told_covered; /* the newest step of which the holder said that it is covered, + 1; it may say so before
                              this worker, which takes replicas over, begins the step */
};

/* The stream to one server. Its chunks are sent last layer first: by descending number, the same for all workers. */
struct holder {
    struct weir_link link;
    uint32_t unsent;
    uint32_t *order; /* this lane's chunks at this server */
    uint32_t count;
    uint32_t lowest; /* position of the first chunk that is not covered */
    uint32_t next;   /* position of the chunk to send next, and which of its nodes */
    uint32_t next_node;
    uint32_t seals_sent; /* lane 0, first server */
};

struct weir_exchange {
    struct weir_exchange_config config;
    uint32_t chunk_count; /* of this lane, over all servers */
    struct pulled_chunk *chunks;
    struct holder *holders;
    uint32_t *hosts; /* by replica: the view's */
    uint64_t step;   /* whose gradient is pushed, if has_step */
    bool has_step;
    uint32_t parts;               /* of the step: what was computed at one time */
    struct weir_tree_node *nodes; /* of the step, part by part */
    size_t node_count, settled;   /* settled: nodes of the parts before the newest */
    uint64_t told_held;           /* the newest version that all chunks were told to be held at */
    bool failed;
    struct weir_seal *seals; /* of the newest (step, round) that has any */
    uint32_t seal_count;
    bool has_record;
    uint64_t record_step;
    uint32_t record_round;
    enum weir_order record_order;
    struct weir_machine_counts link_counts;
    struct weir_held *held; /* scratch */
};

/* The chunk at a position of a server's order. */
static inline struct pulled_chunk *chunk_at(const struct weir_exchange *exchange, uint32_t server, uint32_t position)
{
    return &exchange->chunks[exchange->holders[server].order[position]];
}

static inline bool carries_record(const struct weir_exchange *exchange, uint32_t server)
{
    return server == 0 && exchange->config.lane == 0;
}

/* The record that follows the seals is there. */
static inline bool seals_answered(const struct weir_exchange *exchange)
{
    if (exchange->seal_count == 0)
        return true;
    const struct weir_seal *seal = &exchange->seals[0];
    return exchange->has_record && (exchange->record_step > seal->step ||
                                    (exchange->record_step == seal->step && exchange->record_round > seal->round));
}

#endif
