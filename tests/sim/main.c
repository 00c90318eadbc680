/* weir-sim: runs seeds, prints what was covered, and fails with the seed that shows a fault.
 *
 *   weir-sim --seed S              one seed (with --trace: its story)
 *   weir-sim --seed S --seeds N    N seeds from S on
 *   weir-sim --golden              a small cluster with fixed delays: the story that tests compare
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

#define VIRTUAL_LIMIT (600000 * MS) /* ten minutes: a run that takes longer hangs */

static void draw_config(struct sim *sim)
{
    struct sim_config *config = &sim->config;
    config->servers = 1 + sim_below(sim, MAX_SERVERS);
    config->workers = 1 + sim_below(sim, MAX_WORKERS);
    config->lanes = 1 + sim_below(sim, MAX_LANES);
    config->chunks = 1 + sim_below(sim, MAX_CHUNKS);
    config->replicas = 1 + sim_below(sim, MAX_REPLICAS);
    config->credit = 1 + sim_below(sim, 4);
    config->steps_per_epoch = 1 + sim_below(sim, 5);
    config->epochs = 1 + sim_below(sim, 3);
    config->validation_rounds = sim_below(sim, 3);
    config->gate = (enum weir_gate)sim_below(sim, 3);
    config->nonfinite = sim_below(sim, 2);
    config->batch = 1 + sim_below(sim, 2 * MAX_REPLICAS);
    config->samples = (config->steps_per_epoch - 1) * config->batch + 1 + sim_below(sim, config->batch);
    config->delay_max_ns = (1 + sim_below(sim, 10)) * MS / 2;
    config->reset_per_mille = sim_below(sim, 3) ? sim_below(sim, 8) : 0;
    config->kill = sim_below(sim, 4) == 0;
    config->signal = sim_below(sim, 6) == 0;
    config->no_results = sim_below(sim, 20) == 0;
}

static void golden_config(struct sim_config *config)
{
    *config = (struct sim_config){
        .servers = 2,
        .workers = 2,
        .lanes = 1,
        .chunks = 2,
        .replicas = 2,
        .credit = 2,
        .steps_per_epoch = 1,
        .epochs = 1,
        .validation_rounds = 1,
        .batch = 4,
        .samples = 4,
        .delay_max_ns = MS,
        .fixed = true,
    };
}

/* Chunk c holds variable c / 2, and where c is odd the start of the next one as well. */
static void draw_pieces(struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < sim->layout.chunks; c++) {
        sim->pieces[count++] = (struct weir_schedule_piece){c, c / 2};
        sim->pieces_of[c] = 1;
        if (c % 2) {
            sim->pieces[count++] = (struct weir_schedule_piece){c, c / 2 + 1};
            sim->pieces_of[c]++;
        }
    }
    sim->schedule = (struct weir_schedule){
        .steps_per_epoch = sim->config.steps_per_epoch,
        .epochs = sim->config.epochs,
        .validation_rounds = sim->config.validation_rounds,
        .metrics = WEIR_METRIC_SUMS,
        .learning_rate = .5,
        .gate = sim->config.gate,
        .clip = .5,
        .pieces = sim->pieces,
        .piece_count = sim->config.gate ? count : 0,
        .variables = sim->config.gate ? sim->pieces[count - 1].variable + 1 : 0,
    };
}

static void maybe_reset(struct sim *sim)
{
    if (sim->config.reset_per_mille == 0 || sim->stream_count == 0 ||
        sim_below(sim, 2000) >= sim->config.reset_per_mille)
        return;
    uint32_t stream = sim_below(sim, sim->stream_count);
    sim->coverage->resets += !sim->streams[stream].broken;
    net_reset(sim, stream, "connection reset");
}

static bool all_over(const struct sim *sim)
{
    for (uint32_t p = 0; p < sim->process_count; p++)
        if (sim->processes[p].alive)
            return false;
    return true;
}

static void run(struct sim *sim)
{
    struct sim_event *event;
    while (!sim->failed && !all_over(sim) && (event = sim_next(sim))) {
        if (sim->now > VIRTUAL_LIMIT) {
            sim_fail(sim, "invariant 5: the job hangs");
            break;
        }
        switch (event->kind) {
        case LOCAL:
            cluster_local(sim, event);
            break;
        case TIMER:
            cluster_timer(sim, event);
            break;
        case SIGNAL:
            cluster_signal(sim, (uint32_t)sim->signalled);
            break;
        case KILL:
            cluster_kill(sim, (uint32_t)sim->killed);
            break;
        default:
            net_event(sim, event);
        }
        sim_done(sim, event);
        maybe_reset(sim);
    }
    sim->end_ns = sim->now;
}

static void drain(struct sim *sim)
{
    struct sim_event *event;
    bool failed = sim->failed;
    while ((event = sim_next(sim)))
        sim_done(sim, event);
    bool finished = sim->processes[0].exited && sim->processes[0].code == 0 && sim->killed_at == 0;
    if (!failed && finished && sim->payloads_alive)
        sim_fail(sim, "%u payloads were never released", sim->payloads_alive);
}

static bool run_seed(uint64_t seed, bool golden, FILE *trace, struct coverage *coverage, uint64_t *virtual_ns)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->rng = sim_hash(seed, 11, 13);
    sim->trace = trace;
    sim->coverage = coverage;
    sim->killed = sim->signalled = -1;
    if (golden)
        golden_config(&sim->config);
    else
        draw_config(sim);
    sim->layout = weir_layout_make(sim->config.chunks * 10 - 3, 10, sim->config.servers, sim->config.lanes);
    draw_pieces(sim);
    struct reference *reference =
        reference_make(&sim->config, sim->pieces, (uint32_t)sim->schedule.piece_count, sim->layout.chunks);
    sim->reference = reference;
    cluster_build(sim);
    if (sim->config.kill) {
        sim->killed = (int32_t)sim_below(sim, sim->process_count);
        sim_schedule(sim, sim_random(sim) % (1000 * MS), KILL);
    }
    if (sim->config.signal) { /* sometimes just before the kill, so that nobody is there to answer */
        sim->signalled = (int32_t)sim_below(sim, sim->process_count);
        sim_schedule(sim, sim_random(sim) % (1000 * MS), SIGNAL);
    }
    run(sim);
    if (!sim->failed)
        check_end(sim);
    cluster_counts(sim);
    drain(sim);
    *virtual_ns += sim->end_ns;
    bool ok = !sim->failed;
    if (!ok)
        printf("seed %llu: %s\nreplay: weir-sim --seed %llu --trace\n", (unsigned long long)seed, sim->failure,
               (unsigned long long)seed);
    reference_free(reference);
    weir_arena_free(&sim->arena);
    free(sim->streams);
    free(sim->payloads);
    free(sim->free_payloads);
    sim_free_heap(sim);
    free(sim);
    return ok;
}

/* ---- report */

static const char *const actor_names[ACTOR_KINDS] = {"chief", "node", "lane", "recorder", "exchange", "worker"};
static const char *const event_names[WEIR_ON_KINDS] = {"start",    "time",  "opened",  "closed",  "message", "sent",
                                                       "record",   "seal",  "partial", "applied", "summed",  "ready",
                                                       "computed", "holds", "failed",  "results"};

#define EVENT(kind) (1u << (kind))
#define STREAMS                                                                                                        \
    (EVENT(WEIR_ON_START) | EVENT(WEIR_ON_TIME) | EVENT(WEIR_ON_OPENED) | EVENT(WEIR_ON_CLOSED) |                      \
     EVENT(WEIR_ON_MESSAGE) | EVENT(WEIR_ON_SENT))
/* What each core's header says that it is given. */
static const uint32_t expected[ACTOR_KINDS] = {
    [ACTOR_CHIEF] = STREAMS | EVENT(WEIR_ON_RESULTS) | EVENT(WEIR_ON_FAILED),
    [ACTOR_NODE] = STREAMS | EVENT(WEIR_ON_FAILED),
    [ACTOR_LANE] =
        STREAMS | EVENT(WEIR_ON_RECORD) | EVENT(WEIR_ON_PARTIAL) | EVENT(WEIR_ON_APPLIED) | EVENT(WEIR_ON_SUMMED),
    [ACTOR_RECORDER] = EVENT(WEIR_ON_START) | EVENT(WEIR_ON_SEAL) | EVENT(WEIR_ON_PARTIAL),
    [ACTOR_EXCHANGE] = STREAMS | EVENT(WEIR_ON_READY) | EVENT(WEIR_ON_SEAL),
    [ACTOR_WORKER] = EVENT(WEIR_ON_START) | EVENT(WEIR_ON_HOLDS) | EVENT(WEIR_ON_RECORD) | EVENT(WEIR_ON_COMPUTED),
};

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
        zeros += counts->row[i] == 0;
        printf("  %-9s %u -> %u %12llu  %s\n", machine->name, machine->rows[i].from, machine->rows[i].to,
               (unsigned long long)counts->row[i], machine->rows[i].when);
    }
    return zeros;
}

static uint32_t report(const struct coverage *coverage)
{
    printf("events:\n");
    uint32_t zeros = report_events(coverage);
    printf("transitions:\n");
    zeros += report_machine(&weir_chief_machine, &coverage->chief);
    zeros += report_machine(&weir_node_machine, &coverage->node);
    zeros += report_machine(&weir_link_machine, &coverage->link);
    zeros += report_machine(&weir_chunk_machine, &coverage->chunk);
    zeros += report_machine(&weir_recorder_machine, &coverage->recorder);
    zeros += report_machine(&weir_worker_machine, &coverage->worker);
    printf("%llu steps of cores, %llu messages, %llu resets, %llu kills, %llu jobs finished, %llu empty "
           "contributions, %llu skipped updates\n",
           (unsigned long long)coverage->steps, (unsigned long long)coverage->messages,
           (unsigned long long)coverage->resets, (unsigned long long)coverage->kills,
           (unsigned long long)coverage->finished, (unsigned long long)coverage->empties,
           (unsigned long long)coverage->skips);
    return zeros;
}

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text && *end == '\0' && errno == 0;
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
        printf("%u kinds of event or transition never happened\n", zeros);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, seeds = 1, virtual_ns = 0;
    bool trace = false;
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
