/* What the files of the lane core share. Nobody else includes this. */
#ifndef WEIR_PS_LANE_STATE_H
#define WEIR_PS_LANE_STATE_H

#include "ps/lane.h"

/* At most this many messages of a stream wait in the transport: what is newer goes first next time. */
#define UNSENT_MAX 2

enum pending { PENDING_COVERED = 1, PENDING_OLD = 2, PENDING_NEW = 4, PENDING_IN_RING = 8 };

struct fetch {
    uint32_t chunk, part;
    uint64_t version;
};

/* What stands behind a peer's slot. */
struct stream {
    bool up;
    bool weights; /* gets every new version unasked: a worker */
    bool records; /* gets every record: everybody, from the record's holder */
    uint32_t unsent;
    bool has_record; /* the newest record that the peer has, or is being sent */
    uint64_t record_step;
    uint32_t record_round;
    uint8_t *pending; /* by local chunk: what it has still to be told */
    uint32_t *ring;   /* local chunks with anything pending, oldest first */
    uint32_t ring_head, ring_count;
    struct fetch fetches[WEIR_FETCHES_MAX];
    uint32_t fetch_head, fetch_count;
};

struct kept_record {
    bool valid;
    struct weir_record record;
    double *norms;
};

/* Squares of one chunk of this server, until the record that judges them is there. Lane 0 has those of all lanes. */
struct partial_box {
    bool present, sent;
    uint32_t chunk, count;
    uint64_t step;
    double *squares;
};

struct weir_ps_lane {
    struct weir_ps_lane_config config;
    uint32_t chunk_count, peers;
    struct weir_chunk *chunks;
    struct stream *streams;
    uint32_t *hosts;               /* by replica: the view's */
    uint64_t *worker_incarnations; /* by worker: the view's */
    struct kept_record train[2];   /* by step & 1: what applies that step */
    struct kept_record verdict[2]; /* by step & 1: the step's first record, with the verdict on the step before */
    struct kept_record newest;
    struct weir_link recorder; /* lane 0 of every server but the first */
    struct partial_box *boxes; /* lane 0 of gated jobs */
    uint32_t box_count;
    bool failed;
    uint32_t partly_received, partial_peak;
    struct weir_machine_counts chunk_counts, link_counts;
    struct weir_held *held; /* scratch */
};

static inline bool holds_record(const struct weir_ps_lane *lane)
{
    return lane->config.self == 0 && lane->config.lane == 0;
}

static inline uint32_t recorder_peer(const struct weir_ps_lane *lane)
{
    return lane->config.workers;
}

/* ---- lane_stream.c */

/* The peer said Hello: it is told all that it lacks, from here on. */
void weir_ps_stream_greet(struct weir_ps_lane *lane, uint32_t peer, const struct weir_hello *hello,
                          struct weir_actions *actions);
void weir_ps_stream_down(struct weir_ps_lane *lane, uint32_t peer);
/* Notes for every stream that the chunk is covered, or has a new version. */
void weir_ps_stream_note(struct weir_ps_lane *lane, uint32_t local, uint8_t what);
/* Sends what the stream's unsent messages leave room for. */
void weir_ps_stream_pump(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions);
void weir_ps_stream_pump_all(struct weir_ps_lane *lane, struct weir_actions *actions);
void weir_ps_stream_hello(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions);
/* False, and why not, if the request can't be taken. */
bool weir_ps_stream_fetch(struct weir_ps_lane *lane, uint32_t peer, const struct weir_fetch *fetch,
                          const char **reason);

/* ---- lane_record.c */

void weir_ps_record_init(struct weir_ps_lane *lane, struct weir_arena *arena);
/* Keeps a record that is newer than what is kept; false if it is not. */
bool weir_ps_record_keep(struct weir_ps_lane *lane, const struct weir_record *record);
/* The record that applies `step`, or NULL; the one that judges it (gated jobs), or NULL. */
const struct weir_record *weir_ps_record_of(const struct weir_ps_lane *lane, uint64_t step);
const struct weir_record *weir_ps_record_verdict(const struct weir_ps_lane *lane, uint64_t step);
static inline bool record_before(uint64_t step, uint32_t round, const struct weir_record *record)
{
    return step < record->step || (step == record->step && round < record->round);
}
/* The oldest of the (at most two) live records that is newer than (has, step, round), or NULL. */
const struct weir_record *weir_ps_record_after(const struct weir_ps_lane *lane, bool has, uint64_t step,
                                               uint32_t round);
/* Squares of a chunk of this server (lane 0): to the recorder, now or as soon as it can be reached. */
void weir_ps_partial_keep(struct weir_ps_lane *lane, const struct weir_partial *partial, struct weir_actions *actions);
/* Sends those that the recorder's holder was not sent yet; `again`: all whose record is not there. */
void weir_ps_partial_send(struct weir_ps_lane *lane, bool again, struct weir_actions *actions);

#endif
