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

#define MAX_SERVERS 4
#define MAX_WORKERS 6
#define MAX_LANES 3
#define MAX_CHUNKS 24
#define MAX_REPLICAS 12
#define MAX_STEPS 16
#define MAX_ROUNDS 8
#define MAX_PROCESSES (1 + MAX_SERVERS + MAX_WORKERS)
#define MAX_ACTORS (MAX_PROCESSES * (MAX_LANES + 2))
#define MAX_PEERS (MAX_SERVERS * MAX_LANES + MAX_SERVERS + MAX_WORKERS + 4)
#define MS UINT64_C(1000000)

/* ---- what a run is made of; drawn from the seed */

struct sim_config {
    uint32_t servers, workers, lanes, chunks, replicas, credit;
    uint32_t steps_per_epoch, epochs, validation_rounds;
    enum weir_gate gate;
    uint32_t batch, samples;  /* samples of an epoch: the last batch is short */
    uint64_t delay_max_ns;    /* of a message */
    uint32_t reset_per_mille; /* chance that an event also breaks a stream */
    bool kill;                /* one process is killed at some moment */
    bool signal;              /* one process is told to stop at some moment */
    bool pause;               /* one process stands still for a while, as under SIGSTOP */
    bool no_results;          /* the chief can't write its results */
    bool nonfinite;           /* gated: some steps' gradients are not finite */
    bool fixed;               /* golden traces: every delay is 1 ms, no faults */
};

enum process_kind { CHIEF, SERVER, WORKER };
enum actor_kind { ACTOR_CHIEF, ACTOR_NODE, ACTOR_LANE, ACTOR_RECORDER, ACTOR_EXCHANGE, ACTOR_WORKER, ACTOR_KINDS };

struct process {
    enum process_kind kind;
    uint32_t index; /* among its kind */
    bool alive, exited, lanes_up;
    int code;
    char reason[640];
    char name[64];
    uint64_t incarnation;
    int64_t clock_offset; /* its clock is now * rate_percent / 100 + offset */
    uint32_t clock_rate_percent;
    /* worker */
    uint64_t version[2][MAX_CHUNKS], weights[2][MAX_CHUNKS]; /* by parity: what is stored */
    bool computing;
    uint64_t compute_step;
    uint64_t gradient_step, gradient_weights; /* whose gradient is kept, and the weights that it is of */
    bool has_gradient;
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
};

struct stream {
    uint32_t actor[2];   /* 0: who connected, 1: who accepted */
    int32_t peer[2];     /* slot at each; -1: no Hello yet, or given up */
    bool broken;         /* nothing more is delivered */
    bool ended[2];       /* this side knows */
    uint64_t last_at[2]; /* when the last message to this side is due: they stay in order */
};

struct payload {
    uint32_t refs;
    uint64_t value, replicas; /* replicas: contributions, a bit each */
};

enum sim_event_kind { DELIVER, SENT, LOCAL, TIMER, ACCEPT, OPENED, CLOSED, KILL, SIGNAL, PAUSE, RESUME, LOOK };

/* A copied message or local event, with what its pointers point at. */
struct parcel {
    struct weir_message_body body;
    bool has_body;
    double *numbers;
    struct weir_held *held;
    uint64_t payload;
};

struct sim_event {
    enum sim_event_kind kind;
    uint32_t actor, stream, side, lane, round;
    uint64_t id, step, offset;
    uint32_t chunk;
    enum weir_event_kind local;
    struct parcel parcel;
    char text[200];
};

struct heap_entry {
    uint64_t at, order;
    struct sim_event *event;
};

enum version_life { NOT_MADE, BEING_MADE, RELEASED, FREED };

/* Contributions that reached a chunk's holder. */
struct arrivals {
    uint64_t step, replicas; /* replicas: a bit each */
};

struct coverage {
    uint64_t events[ACTOR_KINDS][WEIR_ON_KINDS];
    struct weir_machine_counts chief, node, link, chunk, recorder, worker;
    uint64_t resets, duplicates, kills, pauses, steps, messages, skips, finished, empties, named;
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
    /* servers: value and life of each chunk's versions */
    uint64_t values[MAX_CHUNKS][MAX_STEPS + 2];
    uint8_t life[MAX_CHUNKS][MAX_STEPS + 2]; /* enum version_life */
    struct arrivals arrivals[MAX_CHUNKS];
    uint64_t sums[MAX_CHUNKS];
    bool fetched[MAX_CHUNKS];
    int32_t killed; /* process, or -1 */
    uint64_t killed_at;
    int32_t signalled; /* process, or -1 */
    bool signal_came;
    int32_t paused; /* process, or -1 */
    uint64_t pause_ns;
    bool in_pause;
    struct sim_event **held; /* what the paused process is to be given, in order */
    uint32_t held_count, held_room, held_next;
    uint64_t rejected_contributions;
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
void net_close(struct sim *sim, uint32_t actor, uint32_t peer, const char *why);
void net_reset(struct sim *sim, uint32_t stream, const char *why);
void net_process_died(struct sim *sim, uint32_t process);
void net_event(struct sim *sim, struct sim_event *event);

/* ---- pause.c: a process that stands still */
void pause_plan(struct sim *sim);
bool pause_holds(struct sim *sim, struct sim_event *event); /* true: it was put aside */
void pause_begin(struct sim *sim);
struct sim_event *pause_next(struct sim *sim); /* what was put aside, oldest first; NULL: that was all */
void pause_free(struct sim *sim);

/* ---- run.c: one seed */
extern char run_replay[128]; /* says, after an assertion failed, how to see it again */
bool run_seed(uint64_t seed, bool golden, FILE *trace, struct coverage *coverage, uint64_t *virtual_ns);

/* ---- cluster.c: actors */
void cluster_build(struct sim *sim);
void cluster_step(struct sim *sim, uint32_t actor, struct weir_event *event);
void cluster_kill(struct sim *sim, uint32_t process);
void cluster_signal(struct sim *sim, uint32_t process);
void cluster_local(struct sim *sim, struct sim_event *event);
/* A process looks whether its actors wait for long. */
void cluster_look(struct sim *sim, struct sim_event *event);
void cluster_timer(struct sim *sim, struct sim_event *event);
void cluster_counts(struct sim *sim);
uint64_t cluster_clock(const struct sim *sim, uint32_t process);
uint32_t actor_of(const struct sim *sim, uint32_t process, enum actor_kind kind, uint32_t lane);
uint32_t server_process(const struct sim *sim, uint32_t server);
uint32_t worker_process(const struct sim *sim, uint32_t worker);

/* ---- interpret.c: what actions do */
void interpret(struct sim *sim, uint32_t actor, const struct weir_action *action);

/* ---- model.c: what a job must come to; no code of the cores */
struct reference;
struct reference *reference_make(const struct sim_config *config, const struct weir_schedule_piece *pieces,
                                 uint32_t piece_count, uint32_t chunks);
void reference_free(struct reference *reference);
uint64_t reference_weights(const struct reference *reference, uint32_t chunk, uint64_t version);
uint64_t reference_leaf(uint64_t step, uint32_t replica, uint32_t chunk, uint64_t all_weights);
uint64_t reference_initial(uint32_t chunk);
uint64_t reference_all(const uint64_t *weights, uint32_t chunks);
uint64_t reference_apply(uint64_t weights, uint64_t sum, const struct weir_record *record, double scale);
bool reference_empty(const struct sim_config *config, uint64_t step, uint32_t replica);
double reference_number(uint64_t all_weights, uint64_t step, uint32_t round, uint32_t replica, uint32_t what);
double reference_square(const struct sim_config *config, uint64_t sum, uint64_t step, uint32_t piece);
/* Whether the job has that record. */
bool reference_has(const struct reference *reference, const struct weir_record *record);
#define SUM_OF_NOTHING UINT64_C(0)
uint64_t reference_add(uint64_t a, uint64_t b);

/* ---- check.c: judgements */
void check_applied(struct sim *sim, uint32_t chunk, uint64_t version);
void check_record(struct sim *sim, const struct weir_record *record);
void check_contributions(struct sim *sim, const struct weir_tree *tree, uint64_t step, uint32_t chunk);
void check_versions(struct sim *sim);
void check_freed(struct sim *sim, uint32_t chunk, uint64_t version);
void check_credit(struct sim *sim, const struct weir_contribution *contribution);
void check_admission(struct sim *sim, const struct actor *actor, const struct weir_hello *hello);
void check_compute(struct sim *sim, uint32_t process, uint64_t step);
void check_waiting(struct sim *sim, const char *text);
void check_killed_is_named(struct sim *sim);
void check_end(struct sim *sim);

#endif
