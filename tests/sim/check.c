/* Judgements: what must hold while a job runs and at its end. They share no code with the cores. */
#include <string.h>

#include "sim.h"

void check_applied(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version)
{
    if (shard_of(sim, process, chunk)->values[version] != reference_weights(sim->reference, chunk, version))
        sim_fail(sim, "invariant 6: chunk %u at version %llu differs from the one-process run's", chunk,
                 (unsigned long long)version);
}

void check_record(struct sim *sim, const struct weir_record *record)
{
    if (!reference_has(sim->reference, record))
        sim_fail(sim, "the record of step %llu round %u differs from the model's", (unsigned long long)record->step,
                 record->round);
}

static bool knows(const struct known_record *known, const struct weir_record *record)
{
    return known->valid &&
           (known->step > record->step || (known->step == record->step && known->round >= record->round));
}

void check_record_known(struct sim *sim, uint32_t process, const struct weir_record *record)
{
    struct known_record *known = &sim->known[sim->processes[process].index];
    if (!knows(known, record))
        *known = (struct known_record){true, record->step, record->round};
}

void check_record_sent(struct sim *sim, uint32_t process, uint32_t peer, const struct weir_record *record)
{
    const struct weir_view_chunk *holders = &sim->holders[process].record;
    uint32_t server = peer - sim->config.workers;
    if (holders->standby == WEIR_NO_SERVER || holders->standby == server || holders->filling == server)
        return;
    if (!knows(&sim->known[holders->standby], record))
        sim_fail(sim, "invariant 2: the record of step %llu round %u is sent before its standby ps/%u has it",
                 (unsigned long long)record->step, record->round, holders->standby);
}

/* Each replica exactly once, whatever the payloads claim to be. */
void check_contributions(struct sim *sim, const struct weir_tree *tree, uint64_t step, uint32_t chunk)
{
    uint64_t seen = 0;
    for (uint32_t r = 0; r < tree->replicas; r++) {
        const struct weir_held_node *held = &tree->first[r];
        if (!held->count)
            continue;
        uint64_t replicas = held->empty ? 0 : payload_at(sim, held->payload)->replicas;
        if (held->empty)
            for (uint32_t i = r; i < r + held->count; i++)
                replicas |= UINT64_C(1) << i;
        if (seen & replicas)
            sim_fail(sim, "invariant 1: a replica counts twice in step %llu of chunk %u", (unsigned long long)step,
                     chunk);
        seen |= replicas;
    }
    if (seen != (UINT64_C(1) << tree->replicas) - 1)
        sim_fail(sim, "invariant 1: a replica is missing in step %llu of chunk %u", (unsigned long long)step, chunk);
}

static void check_live(struct sim *sim, uint32_t server, uint32_t chunk)
{
    uint32_t live = 0;
    for (uint32_t v = 0; v < MAX_STEPS + 2; v++)
        live += sim->shards[server][chunk].life[v] == BEING_MADE || sim->shards[server][chunk].life[v] == MADE;
    if (live > 2)
        sim_fail(sim, "invariant 8: %u versions of chunk %u live at ps/%u", live, chunk, server);
}

void check_versions(struct sim *sim)
{
    for (uint32_t k = 0; k < sim->config.servers; k++) {
        uint32_t process = server_process(sim, k);
        for (uint32_t c = 0; c < sim->layout.chunks; c++)
            check_live(sim, k, c);
        if (!sim->processes[process].lanes_up)
            continue;
        for (uint32_t l = 0; l < sim->config.lanes; l++) {
            const struct actor *lane = &sim->actors[actor_of(sim, process, ACTOR_LANE, l)];
            if (weir_ps_lane_partial_peak(lane->core) > sim->config.credit)
                sim_fail(sim, "credit: a lane has %u partly received chunks, %u are allowed",
                         weir_ps_lane_partial_peak(lane->core), sim->config.credit);
        }
    }
}

/* Who freed version t of one chunk knew that step t is finished: every chunk is released at t + 1. */
void check_freed(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version)
{
    if (shard_of(sim, process, chunk)->life[version] != MADE)
        sim_fail(sim, "version %llu of chunk %u is freed, which is not there", (unsigned long long)version, chunk);
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        if (!sim->released[c][version + 1])
            sim_fail(sim, "invariant 2: version %llu of chunk %u is freed before chunk %u is released at %llu",
                     (unsigned long long)version, chunk, c, (unsigned long long)version + 1);
}

/* What others than servers are sent, every holder has: whoever of them is lost, it stays. */
void check_released(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version)
{
    const struct weir_view_chunk *holders = holders_of(sim, process, chunk);
    const struct process *server = &sim->processes[process];
    if (holders->primary != server->index)
        sim_fail(sim, "invariant 2: %s answers for chunk %u, which ps/%u leads", server->name, chunk, holders->primary);
    else if (holders->standby != WEIR_NO_SERVER && sim->shards[holders->standby][chunk].life[version] < MADE)
        sim_fail(sim, "invariant 2: version %llu of chunk %u is sent before its standby ps/%u has it",
                 (unsigned long long)version, chunk, holders->standby);
    sim->released[chunk][version] = true;
}

/* A holder has at most K partly received chunks per lane, whoever sends (counted from what arrives, not from what the
 * lane says of itself). */
void check_arrival(struct sim *sim, uint32_t process, const struct weir_contribution *contribution)
{
    uint64_t step = contribution->step, all = (UINT64_C(1) << sim->config.replicas) - 1;
    uint64_t replicas = reference_replicas(sim->config.replicas, contribution->level, contribution->index);
    struct arrivals *own = &shard_of(sim, process, contribution->chunk)->arrivals;
    if (contribution->generation != sim->config.generation)
        return;
    sim->coverage->count[COUNT_LATE] += step < own->step;
    if (step < own->step)
        return;
    if (step > own->step)
        *own = (struct arrivals){.step = step};
    sim->coverage->count[COUNT_BELOW] += (own->replicas & replicas) == replicas;
    sim->coverage->count[COUNT_ABOVE] += (own->replicas & replicas) && (own->replicas & replicas) != replicas;
    own->replicas |= replicas;
    uint32_t partly = 0, lane = contribution->chunk / sim->config.servers % sim->config.lanes;
    for (uint32_t c = 0; c < sim->layout.chunks; c++) {
        uint64_t there = shard_of(sim, process, c)->arrivals.replicas;
        partly += c / sim->config.servers % sim->config.lanes == lane && there != 0 && there != all;
    }
    if (partly > sim->config.credit)
        sim_fail(sim, "credit: the lane of chunk %u has %u partly received chunks, %u are allowed", contribution->chunk,
                 partly, sim->config.credit);
}

/* What has a payload takes memory until it is sent: so few may wait, per stream. Between servers, one chunk's copy. */
void check_unsent(struct sim *sim, uint32_t actor, uint32_t peer, uint32_t unsent)
{
    const struct sim_config *config = &sim->config;
    bool servers =
        sim->actors[actor].kind == ACTOR_LANE && peer >= config->workers && peer < config->workers + config->servers;
    uint32_t most = servers ? 2 + config->slots : 2;
    if (unsent > most)
        sim_fail(sim, "%s has %u payloads on one stream that are not sent yet, %u are allowed",
                 sim->processes[sim->actors[actor].process].name, unsent, most);
}

/* Who is told that a chunk is covered never sends it again. */
void check_covered(struct sim *sim, uint32_t process, const struct weir_covered *covered)
{
    const struct arrivals *arrivals = &shard_of(sim, process, covered->chunk)->arrivals;
    uint64_t all = (UINT64_C(1) << sim->config.replicas) - 1;
    if (arrivals->step < covered->step || (arrivals->step == covered->step && arrivals->replicas != all))
        sim_fail(sim, "chunk %u is said to be covered in step %llu, and is not", covered->chunk,
                 (unsigned long long)covered->step);
}

/* A member from which nothing came for longer than the lease is lost; where its stream broke meanwhile, the lease began
 * anew. */
void check_silence(struct sim *sim)
{
    enum weir_chief_state chief = weir_chief_state(sim->actors[0].core);
    bool goes_on = sim->config.elastic && sim->processes[sim->paused].kind == WORKER &&
                   (sim->said_lost[sim->paused] || sim->drained[sim->paused]);
    if (sim->silence_judged && !goes_on && !sim->config.reset_per_mille && !sim->cut.came && sim->processes[0].alive &&
        chief < WEIR_CHIEF_FINISHING)
        sim_fail(sim, "%s was silent for %.1f s, and nobody minds", sim->processes[sim->paused].name,
                 (double)sim->pause_ns / 1e9);
}

/* Replicas have hosts where enough workers are there, and only then: hosts that are there. */
static void check_hosts(struct sim *sim, const struct weir_view *view)
{
    const struct weir_view_node *workers = view->nodes + 1 + sim->config.servers;
    uint32_t there = 0;
    for (uint32_t w = 0; w < sim->config.workers; w++)
        there += workers[w].incarnation != 0;
    sim->coverage->count[COUNT_TOO_FEW] += there < sim->config.min_workers && there > 0;
    for (uint32_t r = 0; r < sim->config.replicas; r++) {
        bool hosted = view->hosts[r] != WEIR_NO_HOST;
        if (hosted != (there >= sim->config.min_workers) || (hosted && workers[view->hosts[r]].incarnation == 0))
            sim_fail(sim, "%u workers are there, of at least %u, and the host of replica %u is %d", there,
                     sim->config.min_workers, r, (int)view->hosts[r]);
    }
}

/* A job ends once, in one way: finished when its results are written, failed with a reason. */
void check_view(struct sim *sim, const struct weir_view *view)
{
    if (view->state == WEIR_VIEW_FINISHED && !sim->results_written)
        sim_fail(sim, "View(finished) goes out before the results are written");
    if (view->state == WEIR_VIEW_RUNNING && sim->differs >= 0)
        sim_fail(sim, "a job begins whose workers read different data");
    if (view->state == WEIR_VIEW_FAILED && !view->reason[0])
        sim_fail(sim, "View(failed) goes out without a reason");
    if (sim->published > WEIR_VIEW_RUNNING && view->state != sim->published)
        sim_fail(sim, "after the view that the job is over another one goes out");
    if (view->state == WEIR_VIEW_RUNNING) {
        check_hosts(sim, view);
        drain_view(sim, view);
    }
    sim->published = view->state;
}

const char *const cause_texts[CAUSES] = {
    "no heartbeat for",
    "connection reset",
    "connection refused",
    "connection timed out",
    "could not be joined again",
    "did not come within start_timeout_s",
    "could not be reached within start_timeout_s",
    "told to stop",
    "all workers must read the same data",
};

/* Success is what the chief says when the results are written, and what the others have heard of it. */
void check_exit(struct sim *sim, const struct process *process)
{
    for (int i = 0; i < CAUSES; i++)
        sim->coverage->causes[i] += process->code != 0 && strstr(process->reason, cause_texts[i]);
    bool success = process->kind == CHIEF ? sim->results_written : process->told_finished;
    if (process->code == 0 && !success)
        sim_fail(sim, "%s left with exit status 0 before View(finished)", process->name);
    drain_exit(sim, process);
    if (process->code != 0 && process->code != WEIR_NODE_EXIT_DRAINED && process->told_finished)
        sim_fail(sim, "%s failed after View(finished): %s", process->name, process->reason);
}

void check_generation(struct sim *sim, const struct actor *actor, const struct weir_message_body *body)
{
    uint64_t generation = sim->config.generation;
    bool lane = actor->kind == ACTOR_LANE || actor->kind == ACTOR_EXCHANGE;
    bool same = (body->type != WEIR_CONTRIBUTION || body->contribution.generation == generation) &&
                (body->type != WEIR_SEAL || body->seal.generation == generation) &&
                (body->type != WEIR_PARTIAL || body->partial.generation == generation) &&
                (body->type != WEIR_RECORD || body->record.generation == generation) &&
                (body->type != WEIR_FORWARD || body->forward.generation == generation) &&
                (body->type != WEIR_ACK || body->ack.generation == generation) &&
                (body->type != WEIR_FULL || body->full.generation == generation) &&
                (body->type != WEIR_VIEW || body->view.generation == generation) &&
                (body->type != WEIR_HELLO || !lane || body->hello.generation == generation);
    if (!same)
        sim_fail(sim, "%s sends a message of another generation", sim->processes[actor->process].name);
}

void check_fetched(struct sim *sim)
{
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        if (sim->fetched[c] != (UINT32_C(1) << (1 + sim->config.slots)) - 1)
            sim_fail(sim, "the chief writes results without all parts of chunk %u", c);
}

static bool admits(const struct actor *actor, const struct weir_hello *hello)
{
    uint32_t peer;
    const char *reason;
    bool differs;
    return actor->kind == ACTOR_CHIEF ? weir_chief_admit(actor->core, hello, &peer, &reason, &differs)
                                      : weir_ps_lane_admit(actor->core, hello, &peer, &reason, &differs);
}

/* Whoever lets this Hello in must refuse those that differ from it in what matters. */
void check_admission(struct sim *sim, const struct actor *actor, const struct weir_hello *hello)
{
    struct weir_hello other = *hello;
    other.job_hash = "another job";
    if (admits(actor, &other) && (actor->kind != ACTOR_CHIEF || hello->role != WEIR_NODE_OBSERVER))
        sim_fail(sim, "a node with another job is admitted");
    other = *hello;
    other.incarnation += 2;
    bool begun = actor->kind == ACTOR_LANE; /* a job that failed before it began does not know all its members */
    if (actor->kind == ACTOR_CHIEF)
        begun = weir_chief_state(actor->core) >= WEIR_CHIEF_TRAINING &&
                weir_chief_state(actor->core) <= WEIR_CHIEF_FINISHING;
    bool member = hello->role == WEIR_NODE_PS || hello->role == WEIR_NODE_WORKER;
    if (sim->config.elastic && actor->kind == ACTOR_CHIEF && hello->role == WEIR_NODE_WORKER)
        begun = false; /* it may have been started again */
    if (begun && hello->role != WEIR_NODE_OBSERVER && admits(actor, &other))
        sim_fail(sim, "another process is admitted in the place of a node that the view names");
    other = *hello;
    other.index += 100;
    if (member && admits(actor, &other))
        sim_fail(sim, "a node that the cluster does not have is admitted");
    other = *hello;
    other.generation++;
    if (actor->kind == ACTOR_LANE && admits(actor, &other))
        sim_fail(sim, "a node of another generation is admitted");
}

void check_compute(struct sim *sim, uint32_t process, uint64_t step)
{
    const struct process *worker = &sim->processes[process];
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        if (worker->version[step & 1][c] != step)
            sim_fail(sim, "invariant 3: %s computes step %llu with chunk %u at version %llu", worker->name,
                     (unsigned long long)step, c, (unsigned long long)worker->version[step & 1][c]);
}

/* A chief that stands still for longer than the lease answers nobody whose stream broke meanwhile. */
static bool chief_was_away(const struct sim *sim)
{
    return sim->paused == 0 && !sim->close_call && sim->pause_ns > 4000 * MS &&
           (sim->config.reset_per_mille > 0 || sim->cut.came);
}

static bool names(const struct process *process, const struct sim *sim, uint32_t other)
{
    return strstr(process->reason, sim->processes[other].name);
}

static bool says_lost(const struct process *process)
{
    return strstr(process->reason, "lost ") || strstr(process->reason, "could not be joined again");
}

/* Whether a process that failed says between whom a link was cut for good. */
static bool names_the_cut(const struct sim *sim, const struct process *process)
{
    return sim->cut.came && !sim->cut.heals_ns &&
           (names(process, sim, sim->actors[sim->cut.actor[0]].process) ||
            names(process, sim, sim->actors[sim->cut.actor[1]].process));
}

/* Whether it says who was silent; who was it has heard nothing from the others. */
static bool names_the_silent(const struct sim *sim, const struct process *process)
{
    return sim->silent && (names(process, sim, (uint32_t)sim->paused) || process == &sim->processes[sim->paused]);
}

/* The job ended without a worker that was lost, and it finds nobody there. */
static bool came_too_late(const struct sim *sim, const struct process *process)
{
    int32_t number = (int32_t)(process - sim->processes);
    bool away = process->life || sim->said_lost[number] || (sim->silent && sim->paused == number);
    return sim->config.elastic && away && strstr(process->reason, "chief/0");
}

/* Whether a process that failed says why: it names whom the cluster lost, or who was told to stop, or what failed. */
static bool names_the_cause(const struct sim *sim, const struct process *process)
{
    return (sim->killed_at && names(process, sim, (uint32_t)sim->killed)) ||
           (sim->signal_came && names(process, sim, (uint32_t)sim->signalled)) ||
           (chief_was_away(sim) && says_lost(process)) || names_the_cut(sim, process) ||
           names_the_silent(sim, process) || came_too_late(sim, process) || drain_names_the_cause(sim, process) ||
           (sim->differs >= 0 && strstr(process->reason, "all workers must read the same data")) ||
           (sim->config.no_results && strstr(process->reason, "no space left")) ||
           (!sim->processes[0].alive && strstr(process->reason, "chief/0 could not be reached")); /* came too late */
}

/* Every wait has a name: it begins with that of a process. */
void check_waiting(struct sim *sim, const char *text)
{
    for (uint32_t p = 0; p < sim->process_count; p++) {
        size_t length = strlen(sim->processes[p].name);
        if (strncmp(text, sim->processes[p].name, length) == 0 && strchr(":,", text[length]))
            return;
    }
    if (text[0])
        sim_fail(sim, "a wait without a name: %s", text);
}

/* Long before the lease of a killed member is over, the chief says that the job waits for it, if it misses no other and
 * no broken stream makes waits begin anew. */
void check_killed_is_named(struct sim *sim)
{
    const struct weir_chief *chief = sim->actors[0].core;
    bool training = weir_chief_state(chief) >= WEIR_CHIEF_TRAINING && weir_chief_state(chief) <= WEIR_CHIEF_FETCHING;
    if (!sim->killed_at || sim->now < sim->killed_at + 4000 * MS || !training || sim->config.pause || sim->cut.came ||
        sim->config.reset_per_mille || sim->signal_came || sim->config.drain)
        return;
    bool worker = sim->processes[sim->killed].kind == WORKER;
    if (sim->config.elastic && (sim->now > sim->killed_at + 4400 * MS || worker || sim->processes[sim->killed].alive))
        return; /* others are lost with it, took over, or it is back */
    if (!strstr(weir_chief_waiting(chief), sim->processes[sim->killed].name))
        sim_fail(sim, "%s was killed, and the chief says that it waits for \"%s\"", sim->processes[sim->killed].name,
                 weir_chief_waiting(chief));
    sim->coverage->count[COUNT_NAMED]++;
}

/* A worker was lost, others were there or it came back, and nothing else happened: then all is as if nothing had. */
static void check_survival(struct sim *sim)
{
    bool other_faults = (sim->silent && (sim->processes[sim->paused].kind != WORKER || !sim->silence_judged)) ||
                        sim->cut.came || sim->signal_came || sim->differs >= 0 || sim->config.no_results ||
                        sim->config.drain || (sim->config.pause && sim->paused == 0);
    bool lost = (sim->killed_at && sim->processes[sim->killed].kind == WORKER) ||
                (sim->silence_judged && sim->processes[sim->paused].kind == WORKER && !sim->killed_at);
    bool others = sim->config.workers > sim->config.min_workers || sim->config.restart || !sim->killed_at;
    if (!sim->config.elastic || other_faults || !lost || !others || (sim->killed_at && sim->killed_before_view))
        return;
    if (sim->processes[0].code != 0)
        sim_fail(sim, "a worker was lost, and the job ended: %s", sim->processes[0].reason);
    for (uint32_t p = 0; p < sim->process_count; p++) {
        const struct process *process = &sim->processes[p];
        if (process->exited && process->code != 0 && !sim->config.reset_per_mille && !came_too_late(sim, process))
            sim_fail(sim, "the job finished, and %s did not: %s", process->name, process->reason);
    }
    sim->coverage->count[COUNT_LOST_AND_FINISHED]++;
}

void check_end(struct sim *sim)
{
    check_survival(sim);
    drain_end(sim);
    for (uint32_t p = 0; p < sim->process_count; p++) {
        const struct process *process = &sim->processes[p];
        if ((int32_t)p == sim->killed && !process->alive && !process->exited)
            continue; /* and not started again */
        if (!process->exited)
            sim_fail(sim, "invariant 5: %s never came to an end", process->name);
        else if (process->code != 0 && !names_the_cause(sim, process))
            sim_fail(sim, "%s failed without naming the cause: %s", process->name, process->reason);
    }
    if (sim->processes[0].exited && sim->processes[0].code == 0) {
        sim->coverage->count[COUNT_FINISHED]++;
        check_fetched(sim);
    }
}
