/* One seed: draws the job, its cluster and its faults, and runs it to the end. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define VIRTUAL_LIMIT (600000 * MS) /* ten minutes: a run that takes longer hangs */

char run_replay[128];

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
    config->elastic = sim_below(sim, 4) != 0;
    config->copies = config->elastic && config->servers > 1 && sim_below(sim, 2) ? 2 : 1;
    config->kill = sim_below(sim, config->elastic ? 2 : 4) == 0;
    config->restart = sim_below(sim, 2);
    config->min_workers = sim_below(sim, 4) ? 1 : 1 + sim_below(sim, config->workers);
    config->kill_late = config->elastic && config->kill && sim_below(sim, 4) == 0;
    config->signal = sim_below(sim, 6) == 0;
    config->no_results = sim_below(sim, 20) == 0;
    config->pause = sim_below(sim, 5) == 0;
    if (config->pause && sim_below(sim, 2)) /* the job waits for who stands still */
        config->min_workers = config->workers;
    config->cut = sim_below(sim, 6) == 0;
    config->differs = config->workers > 1 && sim_below(sim, 25) == 0;
    config->slots = sim_below(sim, MAX_SLOTS + 1);
    config->generation = sim_below(sim, 3);
    config->repeats = sim_below(sim, 2);
    config->observed = sim_below(sim, 4) == 0;
    config->drain = config->elastic && sim_below(sim, 3) == 0;
    config->drained_return = sim_below(sim, 3) == 0;
    if (config->drain && sim_below(sim, 2)) { /* and nothing else happens: see drain.c */
        config->kill = config->kill_late = config->signal = config->no_results = config->pause = config->cut = false;
        config->differs = config->drained_return = false;
        config->reset_per_mille = 0;
        config->drain_only = true;
    }
}

static void golden_config(struct sim_config *config)
{
    *config = (struct sim_config){
        .servers = 2,
        .workers = 2,
        .lanes = 1,
        .chunks = 2,
        .replicas = 2,
        .min_workers = 1,
        .copies = 1,
        .credit = 2,
        .slots = 1,
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
        .learning_rate = LEARNING_RATE,
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
    sim->coverage->count[COUNT_RESETS] += !sim->streams[stream].broken;
    net_reset(sim, stream, "connection reset");
}

static bool all_over(const struct sim *sim)
{
    for (uint32_t p = 0; p < sim->process_count; p++)
        if (sim->processes[p].alive)
            return false;
    return true;
}

static void happen(struct sim *sim, struct sim_event *event)
{
    struct sim_event *held;
    switch (event->kind) {
    case LOCAL:
        cluster_local(sim, event);
        break;
    case TIMER:
        cluster_timer(sim, event);
        break;
    case LOOK:
        cluster_look(sim, event);
        break;
    case SIGNAL:
        cluster_signal(sim, (uint32_t)sim->signalled);
        break;
    case KILL:
        cluster_kill(sim, (uint32_t)sim->killed);
        break;
    case RESTART:
        cluster_restart(sim, (uint32_t)sim->killed);
        break;
    case PAUSE:
        pause_begin(sim);
        break;
    case DRAIN:
        drain_begin(sim, event);
        break;
    case BREAK:
        drain_break(sim, event);
        break;
    case RETURN:
        drain_return(sim, event);
        break;
    case VISIT:
        observer_visit(sim);
        break;
    case CUT:
        cut_begin(sim);
        break;
    case HEAL:
        cut_end(sim);
        break;
    case RESUME: /* at once it is given all that came meanwhile; nothing new can come in between */
        while ((held = pause_next(sim)))
            happen(sim, held);
        check_silence(sim);
        break;
    default:
        net_event(sim, event);
    }
    sim_done(sim, event);
}

static void run(struct sim *sim)
{
    struct sim_event *event;
    while (!sim->failed && !all_over(sim) && (event = sim_next(sim))) {
        if (sim->now > VIRTUAL_LIMIT) {
            sim_fail(sim, "invariant 5: the job hangs");
            break;
        }
        if (pause_holds(sim, event))
            continue;
        bool look = event->kind == LOOK || event->kind == VISIT; /* nothing happens: chance has no part in it */
        happen(sim, event);
        if (!look)
            maybe_reset(sim);
    }
    sim->end_ns = sim->now;
}

static void drain(struct sim *sim)
{
    struct sim_event *event;
    bool failed = sim->failed;
    pause_free(sim);
    while ((event = sim_next(sim)))
        sim_done(sim, event);
    bool finished = sim->processes[0].exited && sim->processes[0].code == 0 && sim->killed_at == 0;
    if (!failed && finished && sim->payloads_alive)
        sim_fail(sim, "%u payloads were never released", sim->payloads_alive);
}

bool run_seed(uint64_t seed, bool golden, FILE *trace, struct coverage *coverage, uint64_t *virtual_ns)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    sim->rng = sim_hash(seed, 11, 13);
    sim->trace = trace;
    sim->coverage = coverage;
    sim->killed = sim->signalled = sim->paused = sim->differs = -1;
    snprintf(run_replay, sizeof run_replay, "seed %llu: an assertion failed\nreplay: weir-sim --seed %llu --trace\n",
             (unsigned long long)seed, (unsigned long long)seed);
    if (golden)
        golden_config(&sim->config);
    else
        draw_config(sim);
    sim->layout = weir_layout_make(sim->config.chunks * 10 - 3, 10, sim->config.servers, sim->config.lanes);
    draw_pieces(sim);
    struct reference *reference =
        reference_make(&sim->config, sim->pieces, (uint32_t)sim->schedule.piece_count, sim->layout.chunks);
    sim->reference = reference;
    if (sim->config.differs) {
        sim->differs = (int32_t)worker_process(sim, sim_below(sim, sim->config.workers));
        coverage->count[COUNT_OTHER_DATA]++;
    }
    cluster_build(sim);
    if (sim->config.kill) {
        uint64_t at = sim_random(sim) % (1000 * MS);
        sim->killed = (int32_t)sim_below(sim, sim->process_count);
        if (sim->config.elastic && sim_below(sim, 4)) /* mostly a worker */
            sim->killed = (int32_t)worker_process(sim, sim_below(sim, sim->config.workers));
        if (!sim->config.kill_late)
            sim_schedule(sim, at, KILL);
        else
            sim->config.restart = false;
        if (sim->config.elastic && sim->config.restart && sim->processes[sim->killed].kind == WORKER)
            sim_schedule(sim, at + 10 * MS + sim_random(sim) % ((sim_below(sim, 2) ? 500 : 15000) * MS), RESTART);
    }
    if (sim->config.signal) { /* sometimes just before the kill, so that nobody is there to answer */
        sim->signalled = (int32_t)sim_below(sim, sim->process_count);
        sim_schedule(sim, sim_random(sim) % (1000 * MS), SIGNAL);
    }
    if (sim->config.pause)
        pause_plan(sim);
    if (sim->config.cut)
        cut_plan(sim);
    if (sim->config.observed)
        observer_plan(sim);
    if (sim->config.drain)
        drain_plan(sim);
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
