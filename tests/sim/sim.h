/* The simulator: whole clusters of the production cores on one virtual clock.
 *
 * Everything that happens is an entry of one heap, ordered by virtual time; delays, resets and deaths come from one
 * seeded generator, so that a seed names a run. Checkers (check.c) judge what the cores do against a model of the job
 * that shares no code with them. Nothing here reads a real clock but main.c, for its report.
 */
#ifndef WEIR_TESTS_SIM_H
#define WEIR_TESTS_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "chief/chief.h"
#include "protocol/core.h"
#include "protocol/node.h"
#include "ps/lane.h"
#include "ps/recorder.h"
#include "worker/exchange.h"
#include "worker/worker.h"

#include "coverage.h"

#define MAX_SERVERS 4
#define MAX_WORKERS 6
#define MAX_LANES 3
#define MAX_CHUNKS 24
#define MAX_REPLICAS 12
#define MAX_STEPS 16
#define MAX_ROUNDS 8
#define MAX_SLOTS 2
#define MAX_PROCESSES (1 + MAX_SERVERS + MAX_WORKERS)
#define MAX_ACTORS (MAX_PROCESSES * (MAX_LANES + 2))
#define MAX_PEERS (MAX_SERVERS * MAX_LANES + MAX_SERVERS + MAX_WORKERS + 4)
#define MS UINT64_C(1000000)
#define LEARNING_RATE .5
#define SIM_HASH "0000000000000000000000000000000000000000000000000000000000000000"

/* ---- what a run is made of; drawn from the seed */

struct sim_config {
    uint32_t servers, workers, lanes, chunks, replicas, credit;
    uint32_t steps_per_epoch, epochs, validation_rounds;
    enum weir_gate gate;
    uint32_t slots; /* of the optimizer */
    uint64_t generation;
    uint32_t batch, samples;  /* samples of an epoch: the last batch is short */
    uint64_t delay_max_ns;    /* of a message */
    uint32_t reset_per_mille; /* chance that an event also breaks a stream */
    bool observed;            /* observers come and go */
    bool repeats;             /* what was sent is sometimes sent again, unasked */
    uint32_t copies;          /* holders of each chunk: 1, or 2 */
    uint32_t min_workers;
    bool elastic;   /* a lost worker does not end the job */
    bool kill;      /* one process is killed at some moment */
    bool kill_late; /* when training is over */
    bool restart;   /* and, if it is a worker, started again some time later */
    bool signal;    /* one process is told to stop at some moment */
    bool pause;     /* one process stands still for a while, as under SIGSTOP */
    bool drain_only;
    bool drain;          /* workers are told to go at some moments */
    bool drained_return; /* and are started again */
    bool differs;        /* one worker reads other data */
    bool cut;            /* a link is cut */
    bool no_results;     /* the chief can't write its results */
    bool nonfinite;      /* gated: some steps' gradients are not finite */
    bool fixed;          /* golden traces: every delay is 1 ms, no faults */
};

enum process_kind { CHIEF, SERVER, WORKER };

struct process {
    enum process_kind kind;
    uint32_t index; /* among its kind */
    bool alive, exited, lanes_up;
    bool told_to_go;    /* a worker: to drain */
    bool told_finished; /* View(finished) came */
    int code;
    char reason[640];
    char name[64];
    uint64_t incarnation;
    int64_t clock_offset; /* its clock is now * rate_percent / 100 + offset */
    uint32_t clock_rate_percent;
    /* worker */
    uint64_t version[2][MAX_CHUNKS], weights[2][MAX_CHUNKS]; /* by parity: what is stored */
    bool computing, overwritten; /* overwritten: with what shows that the step is finished */
    uint64_t compute_step;
    uint64_t gradient_step, gradient_weights; /* whose gradient is kept, and the weights that it is of */
    uint64_t gradient_replicas;               /* a bit each */
    bool has_gradient;
    uint32_t life; /* how often it was started again */
};

/* What a worker's lane has been told, and has sent. Chunks and servers are a bit each. */
struct window {
    bool has_step;
    uint32_t part;
    uint64_t step, offset; /* gradients of `part` of `step` are final from `offset` on, those of earlier ones all */
    uint32_t covered, sent;
    uint64_t told[MAX_CHUNKS]; /* the newest step of which it was said to be covered, + 1 */
    uint32_t greeted;          /* servers whose stream is up */
};

/* The observer that an actor has, and what it has asked for and was not told. */
struct visit {
    bool up, breaks_rules;
    uint32_t peer, unsent, head, count;
    struct weir_fetch asked[WEIR_FETCHES_MAX];
};

struct actor {
    enum actor_kind kind;
    uint32_t process, lane;
    void *core;
    bool running; /* exists: the process is alive, lanes are up */
    uint64_t timer_id;
    uint64_t local_at; /* when the last local event is due: they stay in order */
    int32_t slot[MAX_PEERS];
    uint32_t peers;
    struct weir_actions actions;
    struct weir_wait wait;
    struct window window; /* ACTOR_EXCHANGE */
    struct visit visit;   /* ACTOR_CHIEF, ACTOR_LANE */
};

struct stream {
    uint32_t actor[2];               /* 0: who connected, 1: who accepted */
    int32_t peer[2];                 /* slot at each; -1: no Hello yet, or given up */
    bool broken;                     /* what is sent from now on is lost */
    bool lost[2];                    /* what is under way to this side, too */
    bool ended[2];                   /* this side knows */
    uint64_t last_at[2];             /* when the last message to this side is due: they stay in order */
    uint32_t unsent[2], payloads[2]; /* messages (with a payload) that this side was not told to be handed over */
};

struct payload {
    uint32_t refs;
    uint64_t value, replicas; /* replicas: contributions, a bit each */
};

enum sim_event_kind {
    DELIVER,
    SENT,
    LOCAL,
    TIMER,
    ACCEPT,
    OPENED,
    CLOSED,
    KILL,
    RESTART,
    SIGNAL,
    PAUSE,
    RESUME,
    LOOK,
    CUT,
    HEAL,
    VISIT,
    DRAIN,
    RETURN,
    BREAK,
};

/* A copied message or local event, with what its pointers point at. */
struct parcel {
    struct weir_message_body body;
    bool has_body;
    double *numbers;
    struct weir_held *held;
    uint32_t *hosts; /* a view's, and its nodes */
    struct weir_view_node *nodes;
    struct weir_view_chunk *chunks;
    uint64_t payload;
};

struct sim_event {
    enum sim_event_kind kind;
    uint32_t actor, stream, side, lane, round, part;
    uint32_t life; /* of the actor's process: what an earlier one was to be told nobody is told */
    uint64_t id, step, offset;
    uint32_t chunk, turn;
    bool payload; /* SENT: of a message with one */
    enum weir_event_kind local;
    struct parcel parcel;
    uint32_t replicas[MAX_REPLICAS], replica_count;
    char text[450];
};

struct heap_entry {
    uint64_t at, order;
    struct sim_event *event;
};

struct cut {
    bool whole;             /* all streams between two processes; else between two actors */
    bool refuses;           /* who tries to connect learns it at once; else after a while */
    uint64_t heals_ns;      /* after that long; 0: never */
    enum actor_kind opener; /* whose stream it is */
    bool on, came;
    uint32_t actor[2];
};

enum version_life { NOT_MADE, BEING_MADE, MADE, FREED };

/* Contributions that reached a chunk's holder. */
struct arrivals {
    uint64_t step, replicas; /* replicas: a bit each */
};

/* A copy of a chunk that is not whole yet. */
struct aside {
    bool has_old;
    uint32_t slot_count;
    uint64_t old, old_version, slots[MAX_SLOTS];
};

/* A chunk at a server. */
struct shard {
    uint64_t values[MAX_STEPS + 2];
    uint8_t life[MAX_STEPS + 2]; /* enum version_life */
    uint32_t turn;               /* how often another one took its place: what is done to those before is void */
    bool has_sum;
    uint64_t sum, sum_step;
    uint64_t slots[MAX_SLOTS]; /* written in place */
    struct arrivals arrivals;
    struct aside aside;
};

/* The newest record that a server was told; valid: there is one. */
struct known_record {
    bool valid;
    uint64_t step;
    uint32_t round;
};

/* What the newest view that a process entered says of its servers. */
struct holders {
    bool entered;
    uint64_t number;
    struct weir_view_chunk chunks[MAX_CHUNKS], record;
};

struct sim {
    struct sim_config config;
    struct weir_layout layout;
    struct weir_schedule schedule;
    struct weir_schedule_piece pieces[MAX_CHUNKS * 2];
    uint32_t pieces_of[MAX_CHUNKS];
    struct weir_chief_member members[MAX_SERVERS + MAX_WORKERS];
    const char *server_names[MAX_SERVERS], *worker_names[MAX_WORKERS];
    uint64_t rng, now, order, end_ns;
    struct weir_arena arena;
    struct process processes[MAX_PROCESSES];
    uint32_t process_count;
    struct actor actors[MAX_ACTORS];
    uint32_t actor_count;
    struct stream *streams;
    uint32_t stream_count, stream_room;
    struct payload *payloads;
    uint32_t payload_count, payload_room;
    uint32_t *free_payloads;
    uint32_t free_count, payloads_alive;
    struct heap_entry *heap;
    uint32_t heap_count, heap_room;
    struct sim_event **spare; /* events that are over, to be used again */
    uint32_t spare_count, spare_room;
    struct shard shards[MAX_SERVERS][MAX_CHUNKS];
    bool released[MAX_CHUNKS][MAX_STEPS + 2]; /* others than servers were sent that version */
    struct holders holders[MAX_PROCESSES];
    struct known_record known[MAX_SERVERS];
    uint32_t fetched[MAX_CHUNKS]; /* parts, a bit each */
    bool results_written;
    bool said_lost[MAX_PROCESSES];  /* the chief said so, at some time */
    enum weir_view_state published; /* the newest view that was sent */
    int32_t killed;                 /* process, or -1 */
    uint64_t killed_at;
    bool killed_before_view; /* before there was a job to go on with */
    int32_t signalled;       /* process, or -1 */
    bool signal_came;
    /* drain.c: incarnations that the newest view names, that were told to go, that the chief said to be drained */
    uint64_t named[MAX_PROCESSES], told_to_go[MAX_PROCESSES], drained[MAX_PROCESSES];
    bool returned, went_before, went_unheard;     /* before: while others were still missing */
    uint64_t computed[MAX_STEPS + 2][MAX_ROUNDS]; /* replicas, a bit each */
    int32_t paused;                               /* process, or -1 */
    uint64_t pause_ns;
    bool close_call, stream_broken;
    bool in_pause, silent, silence_judged; /* silent: for longer than the lease; judged: it has to end the job */
    int32_t differs;                       /* process whose data differs, or -1 */
    struct cut cut;
    bool late_learner;       /* one end of a stream has learned late that it broke: once in a run */
    struct sim_event **held; /* what the paused process is to be given, in order */
    uint32_t held_count, held_room, held_next;
    struct coverage *coverage;
    FILE *trace;
    bool failed;
    char failure[1024];
    const struct reference *reference;
};

/* ---- sim.c: clock, heap, chance */
uint64_t sim_random(struct sim *sim);
uint32_t sim_below(struct sim *sim, uint32_t n);
uint64_t sim_delay(struct sim *sim);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_say(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct sim_event *sim_schedule(struct sim *sim, uint64_t at, enum sim_event_kind kind);
struct sim_event *sim_next(struct sim *sim); /* NULL: nothing is to happen; give it back with sim_done */
void sim_done(struct sim *sim, struct sim_event *event);
void sim_free_heap(struct sim *sim);
uint64_t sim_hash(uint64_t a, uint64_t b, uint64_t c);

/* ---- parcel.c: messages and payloads on their way */
uint64_t payload_new(struct sim *sim, uint64_t value, uint64_t replicas);
void payload_release(struct sim *sim, uint64_t handle);
struct payload *payload_at(struct sim *sim, uint64_t handle);
void parcel_copy(struct parcel *parcel, const struct weir_message_body *body);
void parcel_free(struct sim *sim, struct parcel *parcel);

/* ---- net.c: streams */
void net_connect(struct sim *sim, uint32_t actor, uint32_t peer);
void net_send(struct sim *sim, uint32_t actor, const struct weir_action *action, uint64_t payload);
/* The same stream brings this, too; no core knows that it was sent. In order, or some time later than all before it. */
void net_repeat(struct sim *sim, uint32_t actor, uint32_t peer, const struct weir_message_body *body, uint64_t payload,
                bool later);
void net_reset(struct sim *sim, uint32_t stream, const char *why);
void net_process_died(struct sim *sim, uint32_t process);
/* The actor closes the stream to that peer. */
void net_close(struct sim *sim, uint32_t actor, uint32_t peer, const char *why);
void net_event(struct sim *sim, struct sim_event *event);

/* ---- pause.c: a process that stands still */
void pause_plan(struct sim *sim);
bool pause_holds(struct sim *sim, struct sim_event *event); /* true: it was put aside */
void pause_begin(struct sim *sim);
struct sim_event *pause_next(struct sim *sim); /* what was put aside, oldest first; NULL: that was all */
void pause_free(struct sim *sim);

/* ---- drain.c: workers that are told to go */
void drain_plan(struct sim *sim);
void drain_begin(struct sim *sim, const struct sim_event *event);
void drain_break(struct sim *sim, const struct sim_event *event);
void drain_return(struct sim *sim, const struct sim_event *event);
void drain_computed(struct sim *sim, const struct process *worker, const struct weir_action *compute);
void drain_said(struct sim *sim, const char *text);
void drain_view(struct sim *sim, const struct weir_view *view);
void drain_exit(struct sim *sim, const struct process *process);
bool drain_names_the_cause(const struct sim *sim, const struct process *process);
void drain_end(struct sim *sim);

/* ---- observer.c: who looks on */
void observer_plan(struct sim *sim);
void observer_visit(struct sim *sim);
/* Whether that peer is an observer that has to go: then it is gone. */
bool observer_cut_off(struct actor *actor, uint32_t peer);
/* Of each message that an actor sends. */
void observer_told(struct sim *sim, struct actor *actor, uint32_t peer, const struct weir_message_body *body);

/* ---- cut.c: a link that is cut */
void cut_plan(struct sim *sim);
void cut_begin(struct sim *sim);
void cut_end(struct sim *sim);
bool cut_severs(const struct sim *sim, const struct stream *stream);

/* ---- credit.c: what workers may and must send */
void credit_ready(const struct sim *sim, struct actor *actor, const struct sim_event *event);
void credit_received(const struct sim *sim, struct actor *actor, uint32_t server, const struct weir_message_body *body);
void credit_closed(struct actor *actor, uint32_t server);
void credit_sent(struct sim *sim, uint32_t actor, uint32_t server, uint32_t chunk);
void credit_check(struct sim *sim, uint32_t actor); /* after each step of the core */

/* ---- run.c: one seed */
extern char run_replay[128]; /* says, after an assertion failed, how to see it again */
bool run_seed(uint64_t seed, bool golden, FILE *trace, struct coverage *coverage, uint64_t *virtual_ns);

/* ---- cluster.c: actors */
void cluster_build(struct sim *sim);
void cluster_step(struct sim *sim, uint32_t actor, struct weir_event *event);
void cluster_build_node(struct sim *sim, uint32_t process);
/* Lanes, recorder and worker of a process, as its first view has them. */
void cluster_build_lanes(struct sim *sim, uint32_t process, const struct weir_view *view);
void cluster_local(struct sim *sim, struct sim_event *event);
/* A process looks whether its actors wait for long. */
void cluster_look(struct sim *sim, struct sim_event *event);
void cluster_timer(struct sim *sim, struct sim_event *event);
uint64_t cluster_clock(const struct sim *sim, uint32_t process);
uint32_t actor_of(const struct sim *sim, uint32_t process, enum actor_kind kind, uint32_t lane);
uint32_t server_process(const struct sim *sim, uint32_t server);
uint32_t worker_process(const struct sim *sim, uint32_t worker);
/* Who holds the chunk, by the newest view that the process entered; before that by the first one. */
const struct weir_view_chunk *holders_of(const struct sim *sim, uint32_t process, uint32_t chunk);

/* ---- life.c: processes end and begin again */
void cluster_kill(struct sim *sim, uint32_t process);
/* A killed worker comes back, as a new process. */
void cluster_restart(struct sim *sim, uint32_t process);
void cluster_signal(struct sim *sim, uint32_t process);
void cluster_counts(struct sim *sim);

/* ---- repeat.c: what is sent again */
/* Before (or after) this message, which carries a payload of that value (0: none), is sent. */
void repeat_before(struct sim *sim, uint32_t actor, const struct weir_action *action);
void repeat_after(struct sim *sim, uint32_t actor, const struct weir_action *action, uint64_t value);

/* ---- interpret.c: what actions do */
void interpret(struct sim *sim, uint32_t actor, const struct weir_action *action);
/* The gradient of the contribution's node, or 0 if it is empty, which the contribution then says. */
uint64_t gradient_payload(struct sim *sim, const struct process *worker, struct weir_contribution *contribution);

/* ---- shard.c: what servers store */
struct shard *shard_of(struct sim *sim, uint32_t process, uint32_t chunk);
void shard_build(struct sim *sim);
void shard_drop(struct sim *sim, uint32_t process, uint32_t chunk);
/* WEIR_DO_STORE at a server. */
void shard_copy(struct sim *sim, uint32_t process, const struct weir_action *action, uint64_t value);
/* WEIR_DO_APPLY; its turn, for shard_applied when it is done. */
uint32_t shard_apply(struct sim *sim, uint32_t process, const struct weir_action *action);
void shard_applied(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t step, uint32_t turn);
uint64_t shard_sum(struct sim *sim, uint32_t process, const struct weir_action *action);
void shard_free(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version);
uint64_t weights_payload(struct sim *sim, uint32_t process, uint32_t peer, const struct weir_weights *weights);
uint64_t forward_payload(struct sim *sim, uint32_t process, const struct weir_forward *forward);

/* ---- model.c: what a job must come to; no code of the cores */
struct reference;
struct reference *reference_make(const struct sim_config *config, const struct weir_schedule_piece *pieces,
                                 uint32_t piece_count, uint32_t chunks);
void reference_free(struct reference *reference);
uint64_t reference_weights(const struct reference *reference, uint32_t chunk, uint64_t version);
uint64_t reference_initial(uint32_t chunk);
uint64_t reference_all(const uint64_t *weights, uint32_t chunks);
uint64_t reference_apply(uint64_t weights, uint64_t sum, const struct weir_record *record, double scale);
bool reference_empty(const struct sim_config *config, uint64_t step, uint32_t replica);
double reference_number(uint64_t all_weights, uint64_t step, uint32_t round, uint32_t replica, uint32_t what);
double reference_square(const struct sim_config *config, uint64_t sum, uint64_t step, uint32_t piece);
/* Whether the job has that record. */
bool reference_has(const struct reference *reference, const struct weir_record *record);
/* Slot `slot` of a chunk with those weights. */
uint64_t reference_slot(uint64_t weights, uint32_t slot);
#define SUM_OF_NOTHING UINT64_C(0)
uint64_t reference_add(uint64_t a, uint64_t b);
/* The sum tree by its definition: node (0, r) is replica r, node (l, i) is (l - 1, 2 i) + (l - 1, 2 i + 1). Replicas
 * that the job does not have, and those without a sample, are passed over. The root has the lowest level that covers
 * all replicas. */
uint32_t reference_root(uint32_t replicas);
uint64_t reference_replicas(uint32_t replicas, uint32_t level, uint32_t index); /* of a node, a bit each */
uint64_t reference_gradient(const struct sim_config *config, uint64_t step, uint32_t chunk, uint64_t all_weights,
                            uint32_t level, uint32_t index);

/* ---- check.c: judgements */
void check_applied(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version);
void check_record(struct sim *sim, const struct weir_record *record);
/* A server is told a record, or tells it to that peer of its lane 0. */
void check_record_known(struct sim *sim, uint32_t process, const struct weir_record *record);
void check_record_sent(struct sim *sim, uint32_t process, uint32_t peer, const struct weir_record *record);
void check_contributions(struct sim *sim, const struct weir_tree *tree, uint64_t step, uint32_t chunk);
void check_versions(struct sim *sim);
void check_freed(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version);
void check_released(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version);
/* At a server's lane. */
void check_arrival(struct sim *sim, uint32_t process, const struct weir_contribution *contribution);
void check_unsent(struct sim *sim, uint32_t actor, uint32_t peer, uint32_t unsent);
void check_covered(struct sim *sim, uint32_t process, const struct weir_covered *covered);
void check_silence(struct sim *sim);
void check_view(struct sim *sim, const struct weir_view *view);
void check_exit(struct sim *sim, const struct process *process);
void check_generation(struct sim *sim, const struct actor *actor, const struct weir_message_body *body);
void check_fetched(struct sim *sim);
void check_admission(struct sim *sim, const struct actor *actor, const struct weir_hello *hello);
void check_compute(struct sim *sim, uint32_t process, uint64_t step);
void check_waiting(struct sim *sim, const char *text);
void check_killed_is_named(struct sim *sim);
void check_end(struct sim *sim);

#endif
