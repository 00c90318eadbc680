/* weir-sim: runs seeds, prints what was covered, and fails with the seed that shows a fault.
 *
 *   weir-sim --seed S              one seed (with --trace: its story)
 *   weir-sim --seed S --seeds N    N seeds from S on
 *   weir-sim --golden              a small cluster with fixed delays: the story that tests compare
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

/* ---- report */

static const char *const actor_names[ACTOR_KINDS] = {"chief", "node", "lane", "recorder", "exchange", "worker"};
static const char *const event_names[WEIR_ON_KINDS] = {
    "start",  "time",  "opened",   "closed", "message", "sent",    "record", "seal",    "partial", "applied",
    "summed", "ready", "computed", "holds",  "failed",  "results", "view",   "waiting", "drain",   "drained"};

static const char *const message_names[WEIR_MESSAGE_TYPES] = {
    [WEIR_HELLO] = "Hello",         [WEIR_VIEW] = "View",
    [WEIR_HEARTBEAT] = "Heartbeat", [WEIR_CONTRIBUTION] = "Contribution",
    [WEIR_SEAL] = "Seal",           [WEIR_FETCH] = "Fetch",
    [WEIR_COVERED] = "Covered",     [WEIR_WEIGHTS] = "Weights",
    [WEIR_PARTIAL] = "Partial",     [WEIR_RECORD] = "Record",
    [WEIR_REFUSED] = "Refused",
};
static const char *const count_names[COUNTS] = {
    [COUNT_RESETS] = "streams were broken",
    [COUNT_KILLS] = "processes were killed",
    [COUNT_LATE_KILLS] = "of them when training was over",
    [COUNT_RESTARTS] = "workers were started again",
    [COUNT_VIEWS] = "newer views came to a node",
    [COUNT_TOO_FEW] = "views without hosts, as too few workers were there",
    [COUNT_TAKEN_OVER] = "times replicas of a step in progress were taken over",
    [COUNT_NOT_YET] = "Hellos were refused until later",
    [COUNT_LOST_AND_FINISHED] = "jobs lost a worker and finished",
    [COUNT_PAUSES] = "processes stood still",
    [COUNT_SILENCES] = "processes stood still for longer than the lease",
    [COUNT_CLOSE_CALLS] = "streams broke before the chief stood still for about a lease",
    [COUNT_CUTS] = "links were cut for good",
    [COUNT_CUTS_HEALED] = "links were cut for less than the lease",
    [COUNT_LATE_LEARNERS] = "ends of streams learned late that they broke",
    [COUNT_AFTER_BREAK] = "messages came after their stream broke",
    [COUNT_OTHER_DATA] = "jobs whose workers read different data",
    [COUNT_DRAINS] = "workers were told to go",
    [COUNT_DRAINED] = "workers were drained",
    [COUNT_DRAINED_EARLY] = "workers went before all were there",
    [COUNT_DRAINED_RETURNS] = "drained workers were started again",
    [COUNT_DRAINED_AND_FINISHED] = "jobs finished though workers were told to go",
    [COUNT_FINISHED] = "jobs finished",
    [COUNT_EMPTY] = "contributions were empty",
    [COUNT_SKIPS] = "updates were skipped",
    [COUNT_NAMED] = "looks at waits for the killed",
    [COUNT_REPEATS] = "messages were repeated",
    [COUNT_STALE] = "messages of another generation",
    [COUNT_LATE] = "contributions to steps that were over",
    [COUNT_BELOW] = "contributions of what was there",
    [COUNT_ABOVE] = "contributions of more than what was there",
    [COUNT_SLOTS] = "optimizer slots were fetched",
    [COUNT_FORWARDS] = "sums were forwarded",
    [COUNT_COPIES] = "chunks were copied",
    [COUNT_OBSERVED] = "answers to observers",
    [COUNT_GONE] = "answers to observers that a version is gone",
};

#define EVENT(kind) (1u << (kind))
#define STREAMS                                                                                                        \
    (EVENT(WEIR_ON_START) | EVENT(WEIR_ON_TIME) | EVENT(WEIR_ON_OPENED) | EVENT(WEIR_ON_CLOSED) |                      \
     EVENT(WEIR_ON_MESSAGE) | EVENT(WEIR_ON_SENT))
/* What each core's header says that it is given. */
static const uint32_t expected[ACTOR_KINDS] = {
    [ACTOR_CHIEF] = STREAMS | EVENT(WEIR_ON_RESULTS) | EVENT(WEIR_ON_FAILED),
    [ACTOR_NODE] =
        STREAMS | EVENT(WEIR_ON_FAILED) | EVENT(WEIR_ON_WAITING) | EVENT(WEIR_ON_DRAIN) | EVENT(WEIR_ON_DRAINED),
    [ACTOR_LANE] = STREAMS | EVENT(WEIR_ON_RECORD) | EVENT(WEIR_ON_PARTIAL) | EVENT(WEIR_ON_APPLIED) |
                   EVENT(WEIR_ON_SUMMED) | EVENT(WEIR_ON_VIEW),
    [ACTOR_RECORDER] = EVENT(WEIR_ON_RECORD) | EVENT(WEIR_ON_START) | EVENT(WEIR_ON_SEAL) | EVENT(WEIR_ON_PARTIAL) |
                       EVENT(WEIR_ON_VIEW),
    [ACTOR_EXCHANGE] = STREAMS | EVENT(WEIR_ON_READY) | EVENT(WEIR_ON_SEAL) | EVENT(WEIR_ON_VIEW),
    [ACTOR_WORKER] = EVENT(WEIR_ON_VIEW) | EVENT(WEIR_ON_START) | EVENT(WEIR_ON_HOLDS) | EVENT(WEIR_ON_RECORD) |
                     EVENT(WEIR_ON_COMPUTED) | EVENT(WEIR_ON_DRAIN),
};

/* What each actor is sent (in a cluster without observers, all of whose nodes are let in). */
static const uint32_t received[ACTOR_KINDS] = {
    [ACTOR_CHIEF] = EVENT(WEIR_HELLO) | EVENT(WEIR_HEARTBEAT) | EVENT(WEIR_RECORD) | EVENT(WEIR_WEIGHTS),
    [ACTOR_NODE] = EVENT(WEIR_HELLO) | EVENT(WEIR_VIEW),
    [ACTOR_LANE] = EVENT(WEIR_HELLO) | EVENT(WEIR_CONTRIBUTION) | EVENT(WEIR_SEAL) | EVENT(WEIR_FETCH) |
                   EVENT(WEIR_PARTIAL) | EVENT(WEIR_RECORD) | EVENT(WEIR_FORWARD) | EVENT(WEIR_ACK),
    [ACTOR_EXCHANGE] =
        EVENT(WEIR_REFUSED) | EVENT(WEIR_HELLO) | EVENT(WEIR_COVERED) | EVENT(WEIR_WEIGHTS) | EVENT(WEIR_RECORD),
};

static uint32_t report_received(const struct coverage *coverage)
{
    uint32_t zeros = 0;
    for (int a = 0; a < ACTOR_KINDS; a++)
        for (int m = 0; m < WEIR_MESSAGE_TYPES; m++) {
            if (!(received[a] & EVENT(m)))
                continue;
            zeros += coverage->received[a][m] == 0;
            printf("  %-9s %-12s %9llu\n", actor_names[a], message_names[m],
                   (unsigned long long)coverage->received[a][m]);
        }
    return zeros;
}

/* Until views give chunks to other servers. */
static bool never_yet(const struct weir_transition *row)
{
    return strstr(row->when, "a copy took its place") != NULL;
}

static uint32_t report_counts(const struct coverage *coverage)
{
    uint32_t zeros = 0;
    for (int i = 0; i < COUNTS; i++) {
        zeros += coverage->count[i] == 0 && i != COUNT_COPIES;
        printf("  %12llu %s\n", (unsigned long long)coverage->count[i], count_names[i]);
    }
    for (int i = 0; i < CAUSES; i++) {
        zeros += coverage->causes[i] == 0;
        printf("  %12llu ended with: %s\n", (unsigned long long)coverage->causes[i], cause_texts[i]);
    }
    return zeros;
}

static uint32_t report_events(const struct coverage *coverage)
{
    uint32_t zeros = 0;
    for (int a = 0; a < ACTOR_KINDS; a++)
        for (int e = 0; e < WEIR_ON_KINDS; e++) {
            if (!(expected[a] & EVENT(e)))
                continue;
            zeros += coverage->events[a][e] == 0;
            printf("  %-9s %-9s %12llu\n", actor_names[a], event_names[e], (unsigned long long)coverage->events[a][e]);
        }
    return zeros;
}

static uint32_t report_machine(const struct weir_machine *machine, const struct weir_machine_counts *counts)
{
    uint32_t zeros = 0;
    for (size_t i = 0; i < machine->row_count; i++) {
        zeros += counts->row[i] == 0 && !never_yet(&machine->rows[i]);
        printf("  %-9s %u -> %u %12llu  %s\n", machine->name, machine->rows[i].from, machine->rows[i].to,
               (unsigned long long)counts->row[i], machine->rows[i].when);
    }
    return zeros;
}

static uint32_t report(const struct coverage *coverage)
{
    printf("events:\n");
    uint32_t zeros = report_events(coverage);
    printf("messages:\n");
    zeros += report_received(coverage);
    printf("transitions:\n");
    zeros += report_machine(&weir_chief_machine, &coverage->chief);
    zeros += report_machine(&weir_node_machine, &coverage->node);
    zeros += report_machine(&weir_link_machine, &coverage->link);
    zeros += report_machine(&weir_chunk_machine, &coverage->chunk);
    zeros += report_machine(&weir_recorder_machine, &coverage->recorder);
    zeros += report_machine(&weir_worker_machine, &coverage->worker);
    printf("what else happened:\n");
    zeros += report_counts(coverage);
    printf("%llu steps of cores, %llu messages\n", (unsigned long long)coverage->steps,
           (unsigned long long)coverage->messages);
    return zeros;
}

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text && *end == '\0' && errno == 0;
}

/* An assertion of a core failed: say how to see it again before the process ends. */
static void on_abort(int signal)
{
    (void)signal;
    ssize_t written = write(STDOUT_FILENO, run_replay, strlen(run_replay));
    (void)written;
}

static int run_seeds(uint64_t first, uint64_t count, FILE *trace)
{
    struct coverage coverage = {0};
    uint64_t virtual_ns = 0;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint64_t seed = first; seed < first + count; seed++)
        if (!run_seed(seed, false, trace, &coverage, &virtual_ns))
            return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double real_s = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    uint32_t zeros = report(&coverage);
    printf("%llu seeds from %llu: %.0f simulated seconds in %.1f s, %.0f per second\n", (unsigned long long)count,
           (unsigned long long)first, (double)virtual_ns / 1e9, real_s, (double)virtual_ns / 1e9 / real_s);
    if (zeros && count >= 1000) {
        printf("%u kinds of event, message or transition never happened\n", zeros);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, seeds = 1, virtual_ns = 0;
    bool trace = false;
    signal(SIGABRT, on_abort);
    struct coverage coverage = {0};
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--golden") == 0)
            return run_seed(0, true, stdout, &coverage, &virtual_ns) ? 0 : 1;
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (has_value && strcmp(argv[i], "--seed") == 0 && parse_number(argv[i + 1], &seed)) {
            i++;
        } else if (has_value && strcmp(argv[i], "--seeds") == 0 && parse_number(argv[i + 1], &seeds)) {
            i++;
        } else {
            fprintf(stderr, "usage: weir-sim [--seed S] [--seeds N] [--trace] | --golden\n");
            return 2;
        }
    }
    return run_seeds(seed, seeds, trace ? stdout : NULL);
}
