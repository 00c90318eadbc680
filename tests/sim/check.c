/* Judgements: what must hold while a job runs and at its end. They share no code with the cores. */
#include <string.h>

#include "sim.h"

void check_applied(struct sim *sim, uint32_t chunk, uint64_t version)
{
    if (sim->values[chunk][version] != reference_weights(sim->reference, chunk, version))
        sim_fail(sim, "invariant 6: chunk %u at version %llu differs from the one-process run's", chunk,
                 (unsigned long long)version);
}

void check_record(struct sim *sim, const struct weir_record *record)
{
    if (!reference_has(sim->reference, record))
        sim_fail(sim, "the record of step %llu round %u differs from the model's", (unsigned long long)record->step,
                 record->round);
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

void check_versions(struct sim *sim)
{
    for (uint32_t c = 0; c < sim->layout.chunks; c++) {
        uint32_t live = 0;
        for (uint32_t v = 0; v < MAX_STEPS + 2; v++)
            live += sim->life[c][v] == BEING_MADE || sim->life[c][v] == RELEASED;
        if (live > 2)
            sim_fail(sim, "invariant 8: %u versions of chunk %u live", live, c);
    }
    for (uint32_t k = 0; k < sim->config.servers; k++) {
        uint32_t process = server_process(sim, k);
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
void check_freed(struct sim *sim, uint32_t chunk, uint64_t version)
{
    if (sim->life[chunk][version] != RELEASED)
        sim_fail(sim, "version %llu of chunk %u is freed, which is not there", (unsigned long long)version, chunk);
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        if (sim->life[c][version + 1] < RELEASED)
            sim_fail(sim, "invariant 2: version %llu of chunk %u is freed before chunk %u is released at %llu",
                     (unsigned long long)version, chunk, c, (unsigned long long)version + 1);
}

/* A holder has at most K partly received chunks per lane, whoever sends (counted from what arrives, not from what the
 * lane says of itself). */
void check_credit(struct sim *sim, const struct weir_contribution *contribution)
{
    uint64_t step = contribution->step, all = (UINT64_C(1) << sim->config.replicas) - 1;
    struct arrivals *own = &sim->arrivals[contribution->chunk];
    if (step < own->step)
        return;
    if (step > own->step)
        *own = (struct arrivals){.step = step};
    uint32_t from = contribution->index << contribution->level, count = UINT32_C(1) << contribution->level;
    for (uint32_t r = from; r < from + count && r < sim->config.replicas; r++)
        own->replicas |= UINT64_C(1) << r;
    uint32_t partly = 0, stride = sim->config.servers * sim->config.lanes;
    for (uint32_t c = contribution->chunk % stride; c < sim->layout.chunks; c += stride)
        partly += sim->arrivals[c].replicas != 0 && sim->arrivals[c].replicas != all;
    if (partly > sim->config.credit)
        sim_fail(sim, "credit: the lane of chunk %u has %u partly received chunks, %u are allowed", contribution->chunk,
                 partly, sim->config.credit);
}

static bool admits(const struct actor *actor, const struct weir_hello *hello)
{
    uint32_t peer;
    const char *reason;
    bool differs;
    return actor->kind == ACTOR_CHIEF ? weir_chief_admit(actor->core, hello, &peer, &reason, &differs)
                                      : weir_ps_lane_admit(actor->core, hello, &peer, &reason);
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
    return sim->paused == 0 && sim->pause_ns > 4000 * MS && sim->config.reset_per_mille > 0;
}

/* Whether a process that failed says why: it names whom the cluster lost, or who was told to stop, or what failed. */
static bool names_the_cause(const struct sim *sim, const struct process *process)
{
    return (sim->killed_at && strstr(process->reason, sim->processes[sim->killed].name)) ||
           (sim->signal_came && strstr(process->reason, sim->processes[sim->signalled].name)) ||
           (chief_was_away(sim) && strstr(process->reason, "lost ")) ||
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
    if (!sim->killed_at || sim->now < sim->killed_at + 4000 * MS || !training || sim->config.pause ||
        sim->config.reset_per_mille || sim->signal_came)
        return;
    if (!strstr(weir_chief_waiting(chief), sim->processes[sim->killed].name))
        sim_fail(sim, "%s was killed, and the chief says that it waits for \"%s\"", sim->processes[sim->killed].name,
                 weir_chief_waiting(chief));
    sim->coverage->named++;
}

void check_end(struct sim *sim)
{
    for (uint32_t p = 0; p < sim->process_count; p++) {
        const struct process *process = &sim->processes[p];
        if ((int32_t)p == sim->killed && sim->killed_at)
            continue;
        if (!process->exited)
            sim_fail(sim, "invariant 5: %s never came to an end", process->name);
        else if (process->code != 0 && !names_the_cause(sim, process))
            sim_fail(sim, "%s failed without naming the cause: %s", process->name, process->reason);
    }
    if (sim->processes[0].exited && sim->processes[0].code == 0) {
        sim->coverage->finished++;
        uint64_t last = (uint64_t)sim->config.steps_per_epoch * sim->config.epochs;
        for (uint32_t c = 0; c < sim->layout.chunks; c++)
            if (!sim->fetched[c] || sim->values[c][last] != reference_weights(sim->reference, c, last))
                sim_fail(sim, "the job ended without the last version of chunk %u", c);
    }
}
