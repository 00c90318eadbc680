/* What the files of the lane core share. Nobody else includes this. */
#ifndef WEIR_PS_LANE_STATE_H
#define WEIR_PS_LANE_STATE_H

#include "ps/lane.h"

/* At most this many messages of a stream wait in the transport: what is newer goes first next time. */
#define UNSENT_MAX 2

enum pending {
    PENDING_COVERED = 1,
    PENDING_OLD = 2,
    PENDING_NEW = 4,
    PENDING_FORWARD = 8, /* to a follower: the kept sum */
    PENDING_ACK = 16,    /* to the primary */
    PENDING_FULL = 32,   /* to the chief */
    PENDING_IN_RING = 64,
};

struct fetch {
    uint32_t chunk, part;
    uint64_t version;
};

/* What stands behind a peer's slot. */
struct stream {
    bool up;
    uint32_t unsent;
    bool has_record; /* the newest record that the peer has, or is being sent */
    uint64_t record_step;
    uint32_t record_round;
    bool record_note; /* the record: an Ack to its primary, Full to the chief */
    bool may_copy;    /* a chunk may be to be copied to this server */
    uint32_t copy_at; /* local chunk that is looked at first for that */
    uint8_t *pending; /* by local chunk: what it has still to be told */
    uint32_t *ring;   /* local chunks with anything pending, oldest first */
    uint64_t *held;   /* by local chunk, workers: what the Hello said, and what was sent since */
    uint32_t ring_head, ring_count;
    struct fetch fetches[WEIR_FETCHES_MAX];
    uint32_t fetch_head, fetch_count;
};

struct kept_record {
    bool valid;
    struct weir_record record;
    double *norms;
};

/* Squares of one chunk, until the record that judges them is there. Lane 0 has those of all lanes. */
struct partial_box {
    bool present, sent;
    uint32_t chunk, count;
    uint64_t step;
    double *squares;
};

#define FOLLOWERS 2 /* the standby, and the filling server */

/* Another server that follows the primary: what it was sent, and what it said it has. Of the record: by its cursor. */
struct follower {
    uint32_t server;      /* or WEIR_NO_SERVER */
    bool known;           /* it has said, in this chain, what it has */
    uint64_t sent, acked; /* versions, or WEIR_NO_VERSION; the record's step */
    uint32_t round;       /* the record's, acked */
};

/* Who holds a chunk, or the record, by this lane's view; the rest is the primary's. */
struct chain {
    struct weir_view_chunk view;
    struct follower followers[FOLLOWERS];
    bool vowed;      /* nothing is released without the filling server either */
    bool unreleased; /* the newest version waits for their Acks */
};

struct weir_ps_lane {
    struct weir_ps_lane_config config;
    uint32_t chunk_count, peers; /* chunks: all of this lane, whoever holds them */
    struct weir_chunk *chunks;
    struct chain *chains; /* by local chunk */
    struct chain record_chain;
    uint32_t *primaries; /* by chunk, of all lanes */
    struct stream *streams;
    uint32_t *hosts;               /* by replica: the view's */
    uint64_t *worker_incarnations; /* by worker: the view's */
    uint64_t *server_incarnations; /* by server: the view's */
    struct kept_record train[2];   /* by step & 1: what applies that step */
    struct kept_record verdict[2]; /* by step & 1: the step's first record, with the verdict on the step before */
    struct kept_record newest;
    struct weir_link *links;   /* by server: those that this lane connects to */
    struct partial_box *boxes; /* lane 0 of gated jobs: by chunk */
    uint32_t box_count;
    bool failed;
    uint32_t partly_received, partial_peak;
    struct weir_machine_counts chunk_counts, link_counts;
    struct weir_held *held; /* scratch */
};

static inline uint32_t local_of(const struct weir_ps_lane *lane, const struct weir_chunk *chunk)
{
    return (uint32_t)(chunk - lane->chunks);
}

static inline uint32_t server_peer(const struct weir_ps_lane *lane, uint32_t server)
{
    return lane->config.workers + server;
}

static inline uint32_t chief_peer(const struct weir_ps_lane *lane)
{
    return lane->config.workers + lane->config.layout.servers;
}

static inline bool is_server(const struct weir_ps_lane *lane, uint32_t peer)
{
    return peer >= lane->config.workers && peer < chief_peer(lane);
}

/* Lane 0 of the server that makes the record. */
static inline bool leads_record(const struct weir_ps_lane *lane)
{
    return lane->config.lane == 0 && lane->record_chain.view.primary == lane->config.self;
}

static inline bool leads(const struct weir_ps_lane *lane, uint32_t local)
{
    return lane->chains[local].view.primary == lane->config.self;
}

/* ---- lane.c */

void weir_ps_lane_fail(struct weir_ps_lane *lane, struct weir_actions *actions, const char *text);
/* A peer that breaks the protocol is cut off: an observer may go, a node of the cluster ends the job. */
void weir_ps_lane_reject(struct weir_ps_lane *lane, uint32_t peer, const char *text, struct weir_actions *actions);
/* This lane's chunk of that number, held or not; NULL: it is another lane's. */
struct weir_chunk *weir_ps_lane_find(const struct weir_ps_lane *lane, uint32_t id);
/* After a contribution (or a sum that was forwarded) came in: the chunk may be complete. */
void weir_ps_lane_added(struct weir_ps_lane *lane, struct weir_chunk *chunk, bool was_partly,
                        struct weir_actions *actions);

/* ---- lane_view.c */

void weir_ps_view_init(struct weir_ps_lane *lane, struct weir_arena *arena);
void weir_ps_view_start(struct weir_ps_lane *lane, uint64_t now_ns, struct weir_actions *actions);
void weir_ps_view_enter(struct weir_ps_lane *lane, const struct weir_view *view, uint64_t now_ns,
                        struct weir_actions *actions);

/* ---- lane_chain.c */

void weir_ps_chain_set(struct chain *chain, const struct weir_view_chunk *view);
/* This server follows the chunk's primary. */
static inline bool follows(const struct weir_ps_lane *lane, const struct chain *chain)
{
    return chain->view.standby == lane->config.self || chain->view.filling == lane->config.self;
}
static inline bool has_followers(const struct chain *chain)
{
    return chain->view.standby != WEIR_NO_SERVER || chain->view.filling != WEIR_NO_SERVER;
}
/* Whether everybody who has to acknowledge (version, round) has. */
bool weir_ps_chain_acked(const struct chain *chain, uint64_t version, uint32_t round);
/* Of the primary's chunk: its newest version is released if it may be; the followers are brought up to it. */
void weir_ps_chain_advance(struct weir_ps_lane *lane, uint32_t local);
/* Its kept sum could be forwarded to that follower now. */
bool weir_ps_chain_forwards(const struct weir_chunk *chunk, const struct follower *follower);
/* It has to be copied to that follower, and can be now. */
bool weir_ps_chain_copies(const struct weir_chunk *chunk, const struct follower *follower);
struct follower *weir_ps_chain_follower(struct chain *chain, uint32_t server);
void weir_ps_chain_ack(struct weir_ps_lane *lane, uint32_t server, const struct weir_ack *ack,
                       struct weir_actions *actions);
/* From the primary: a sum, or a part of a copy; the payload is used up. */
void weir_ps_chain_forward(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions);
void weir_ps_chain_copy(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions);
/* Notes that the server that leads them is to be told what this one has. */
void weir_ps_chain_tell(struct weir_ps_lane *lane, uint32_t server);
/* Nothing more is known of that server. */
void weir_ps_chain_lost(struct weir_ps_lane *lane, uint32_t server);

/* ---- lane_stream.c */

/* The peer said Hello: it is told all that it lacks, from here on. `again`: on a stream that is up. */
void weir_ps_stream_greet(struct weir_ps_lane *lane, uint32_t peer, const struct weir_hello *hello, bool again,
                          struct weir_actions *actions);
void weir_ps_stream_down(struct weir_ps_lane *lane, uint32_t peer);
/* Notes for one stream, or for every worker's: the chunk is covered, or has a new version, ... */
void weir_ps_stream_note_one(struct weir_ps_lane *lane, uint32_t peer, uint32_t local, uint8_t what);
void weir_ps_stream_note(struct weir_ps_lane *lane, uint32_t local, uint8_t what);
/* What a worker lacks of a chunk that this server leads. */
void weir_ps_stream_note_lacking(struct weir_ps_lane *lane, uint32_t worker, uint32_t local);
/* Sends what the stream's unsent messages leave room for. */
void weir_ps_stream_pump(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions);
void weir_ps_stream_pump_all(struct weir_ps_lane *lane, struct weir_actions *actions);
void weir_ps_stream_hello(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions);
/* False, and why not, if the request can't be taken. */
bool weir_ps_stream_fetch(struct weir_ps_lane *lane, uint32_t peer, const struct weir_fetch *fetch,
                          const char **reason);

/* ---- lane_record.c */

void weir_ps_record_init(struct weir_ps_lane *lane, struct weir_arena *arena);
/* A record, from the recorder, lane 0 or the record's primary: what waits for it goes on. */
void weir_ps_record_take(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions);
/* The chunk is applied if its record (and verdict) is there. */
void weir_ps_record_apply(struct weir_ps_lane *lane, struct weir_chunk *chunk, struct weir_actions *actions);
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
