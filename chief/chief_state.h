/* What the files of the chief's core share. Nobody else includes this. */
#ifndef WEIR_CHIEF_CHIEF_STATE_H
#define WEIR_CHIEF_CHIEF_STATE_H

#include "chief/chief.h"

#define REPLACED_KEPT 8

struct member {
    bool up, left;
    uint64_t incarnation; /* 0: never seen */
    uint64_t heard_ns, down_ns;
    uint64_t train_samples, validation_samples; /* a worker's */
    char error[160];
    struct weir_heartbeat heartbeat;
    char waiting[WEIR_WAIT_BYTES]; /* what it said last that it waits for */
    /* Workers. `left` goes back to false when one comes back. */
    struct weir_restarts restarts;
    uint64_t replaced[REPLACED_KEPT]; /* incarnations in whose place another one came, the newest of them */
    uint32_t replaced_count;
    uint64_t lost_ns;          /* when it was lost last */
    bool gone;                 /* and it said itself that it won't go on */
    bool drained;              /* for it was told to go: that is no loss, and it does not come back */
    char lost[420], back[420]; /* what was said of it last: why it was lost, that it is back */
};

/* Fetches on their way at one time, per stream: enough to keep it busy, few enough to bound memory. */
#define FETCH_WINDOW 4

/* The chief's stream to one lane of one server: records (the first lane of the first server), and at the end every
 * chunk of that lane whose primary it is, part by part. */
struct fetch_stream {
    struct weir_link link;
    uint32_t next; /* piece of that lane that is looked at next */
    struct weir_fetch asked[FETCH_WINDOW];
    uint32_t asked_head, asked_count;
};

struct weir_chief {
    struct weir_chief_config config;
    uint8_t state;
    uint32_t member_count, stream_count;
    struct member *members;
    struct fetch_stream *streams;
    bool *observers;
    struct weir_view view;
    struct weir_view_node *nodes;
    struct weir_view_chunk *chunks;
    uint32_t *hosts;
    bool *present;          /* by worker: takes part */
    uint32_t *loads;        /* by worker: replicas: scratch */
    bool keeps_hosts;       /* since the newest view, workers have only been drained */
    bool view_is_old;       /* a worker has gone or come: a new view goes out at the end of the step */
    uint64_t idle_since_ns; /* since when there are too few workers */
    bool numerics_differ;
    bool has_record;
    uint64_t record_step;
    uint32_t record_round;
    uint64_t last_version; /* at the stop record */
    bool *got;             /* pieces of the result: by part, by chunk */
    uint32_t missing;      /* how many are not here */
    uint64_t started_ns, look_at_ns, last_ns, leave_by_ns;
    char reason[900], waiting[1024];
    struct weir_wait wait; /* the chief's own */
    uint32_t reporter;     /* member whose wait is shown, since when */
    uint64_t reporter_ns, record_ns;
    bool said_waiting;
    struct weir_machine_counts counts, link_counts;
};

void weir_chief_fail(struct weir_chief *chief, const char *reason, uint64_t now_ns, struct weir_actions *actions);

/* ---- chief_workers.c */

/* Whether this member can be lost without the job being over: a worker, while there is something to do. */
bool weir_chief_can_lose(const struct weir_chief *chief, uint32_t m);
/* Workers still have something to do: at the stop record, the last version of some chunks may not be made. */
bool weir_chief_computes(const struct weir_chief *chief);
/* It can be lost, and takes part: it does so no longer. Who is lost may have begun what others must do now. */
void weir_chief_leave_out(struct weir_chief *chief, uint32_t m, const char *why, uint64_t now_ns,
                          struct weir_actions *actions);
void weir_chief_lose(struct weir_chief *chief, uint32_t m, const char *why, uint64_t now_ns,
                     struct weir_actions *actions);
/* Whether a process with another incarnation than the member's may take its place; or why not. */
bool weir_chief_takes_again(const struct weir_chief *chief, uint32_t m, const struct weir_hello *hello,
                            const char **reason);
/* A member that was admitted says Hello to a job that has begun. */
void weir_chief_join(struct weir_chief *chief, uint32_t m, uint64_t incarnation, uint64_t now_ns,
                     struct weir_actions *actions);
/* A lost worker is heard of again: it takes part again. */
void weir_chief_back(struct weir_chief *chief, uint32_t m, struct weir_actions *actions);
uint32_t weir_chief_workers_there(const struct weir_chief *chief);
/* As many as the job needs, or more. */
bool weir_chief_enough_workers(const struct weir_chief *chief);
/* Fills in the view's incarnations and hosts, by who takes part. */
void weir_chief_place(struct weir_chief *chief);
/* Too few workers have been there for so long that the job ends: why. */
bool weir_chief_idle_too_long(const struct weir_chief *chief, uint64_t now_ns, char *text, size_t bytes);

/* ---- chief_drain.c */

/* Hosts are those of the newest view: gives the replicas of workers that are not present to those that are (at least
 * one), evenly. */
void weir_chief_hand_over(struct weir_chief *chief);
/* A worker that can be lost says that it has drained. */
void weir_chief_drained(struct weir_chief *chief, uint32_t m, const struct weir_heartbeat *heartbeat, uint64_t now_ns,
                        struct weir_actions *actions);
/* One goes while others are still missing: as if it had never been there. */
void weir_chief_forget(struct weir_chief *chief, uint32_t m, struct weir_actions *actions);

/* ---- chief_wait.c */

/* Says for whom the job waits, if it does; `now_ns`: at every look. */
void weir_chief_say_waiting(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions);

/* ---- chief_fetch.c: the streams to the servers' lanes */

void weir_chief_fetch_init(struct weir_chief *chief, struct weir_arena *arena);
void weir_chief_fetch_start(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions);
void weir_chief_fetch_opened(struct weir_chief *chief, uint32_t peer, struct weir_actions *actions);
void weir_chief_fetch_closed(struct weir_chief *chief, const struct weir_event *event);
void weir_chief_fetch_message(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions);
/* The server that the first missing piece of the result comes from, or that is not connected: "" if none. */
void weir_chief_fetch_waiting(const struct weir_chief *chief, char *text, size_t bytes);
void weir_chief_fetch_time(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions);

#endif
