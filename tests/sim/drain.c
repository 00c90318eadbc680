/* Workers that are told to go: each finishes what it has begun, hands over, and ends with an exit status of its own.
 * Nobody computes anything twice for it, and it counts as lost to nobody.
 */
#include <string.h>

#include "sim.h"

#define MOST 3 /* of them in a run */

/* Something worse happens to it, or to the chief, while it is about to go. */
static void plan_worse(struct sim *sim, uint32_t process, uint64_t at)
{
    at += sim_random(sim) % (30 * MS);
    if (sim_below(sim, 2)) {
        sim->config.reset_per_mille = sim->config.reset_per_mille ? sim->config.reset_per_mille : 1;
        sim_schedule(sim, at, BREAK)->actor = actor_of(sim, process, ACTOR_NODE, 0);
    } else if (sim_below(sim, 2) && !sim->config.signal) {
        sim->config.signal = true;
        sim->signalled = (int32_t)process;
        sim_schedule(sim, at, SIGNAL);
    } else if (!sim->config.kill) {
        sim->config.kill = true;
        sim->killed = 0;
        sim_schedule(sim, at, KILL);
    }
}

void drain_plan(struct sim *sim)
{
    uint32_t count = 1 + sim_below(sim, MOST);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t process = worker_process(sim, sim_below(sim, sim->config.workers));
        uint32_t node = actor_of(sim, process, ACTOR_NODE, 0);
        uint64_t at = sim_random(sim) % (1000 * MS);
        if (sim_below(sim, 4)) /* mostly when the job has begun */
            at = 300 * MS + at / 3;
        sim_schedule(sim, at, DRAIN)->actor = node;
        if (sim->config.drained_return)
            sim_schedule(sim, at + 20 * MS + sim_random(sim) % (400 * MS), RETURN)->actor = node;
        if (i == 0 && !sim->config.drain_only)
            plan_worse(sim, process, at);
    }
}

void drain_begin(struct sim *sim, const struct sim_event *event)
{
    const struct actor *node = &sim->actors[event->actor];
    struct process *process = &sim->processes[node->process];
    if (!process->alive || !node->running || process->told_to_go)
        return;
    sim_say(sim, "%s is told to go", process->name);
    process->told_to_go = true;
    sim->told_to_go[node->process] = process->incarnation;
    sim->coverage->count[COUNT_DRAINS]++;
    struct weir_event told = {.kind = WEIR_ON_DRAIN, .text = "told to go"};
    cluster_step(sim, event->actor, &told);
}

void drain_break(struct sim *sim, const struct sim_event *event)
{
    int32_t stream = sim->actors[event->actor].slot[0];
    if (stream < 0)
        return;
    sim_say(sim, "%s loses its stream to the chief", sim->processes[sim->actors[event->actor].process].name);
    net_reset(sim, (uint32_t)stream, "connection reset");
}

void drain_return(struct sim *sim, const struct sim_event *event)
{
    struct process *process = &sim->processes[sim->actors[event->actor].process];
    if (process->alive || process->code != WEIR_NODE_EXIT_DRAINED || !sim->processes[0].alive)
        return;
    process->exited = false;
    sim->returned = true;
    sim->coverage->count[COUNT_DRAINED_RETURNS]++;
    cluster_restart(sim, sim->actors[event->actor].process);
}

static bool any_told(const struct sim *sim)
{
    for (uint32_t p = 0; p < sim->process_count; p++)
        if (sim->told_to_go[p])
            return true;
    return false;
}

/* Nothing but a lost worker may have kept the job from going on as if nothing had happened. */
static bool other_faults(const struct sim *sim)
{
    return sim->config.signal || sim->config.pause || sim->config.cut || sim->differs >= 0 || sim->config.no_results ||
           (sim->config.kill && sim->processes[sim->killed].kind != WORKER);
}

static bool nothing_else(const struct sim *sim)
{
    return sim->config.elastic && !other_faults(sim) && !sim->config.kill && !sim->config.reset_per_mille;
}

/* A replica is computed again only where one was lost, or came. */
void drain_computed(struct sim *sim, const struct process *worker, const struct weir_action *compute)
{
    const struct weir_record *record = &compute->body.record;
    if (!nothing_else(sim) || sim->returned || sim->went_unheard || record->step >= MAX_STEPS + 2 ||
        record->round >= MAX_ROUNDS)
        return;
    for (size_t i = 0; i < compute->replica_count; i++) {
        uint64_t bit = UINT64_C(1) << compute->replicas[i];
        if (sim->computed[record->step][record->round] & bit)
            sim_fail(sim, "%s computes replica %u of step %llu, round %u, which was computed before", worker->name,
                     compute->replicas[i], (unsigned long long)record->step, record->round);
        sim->computed[record->step][record->round] |= bit;
    }
}

/* What the chief says of them. */
void drain_said(struct sim *sim, const char *text)
{
    for (uint32_t p = 0; p < sim->process_count; p++) {
        const struct process *process = &sim->processes[p];
        if (!strstr(text, process->name))
            continue;
        if (strstr(text, " is drained; "))
            sim->drained[p] = sim->told_to_go[p];
        else if (strncmp(text, "lost ", 5) == 0)
            sim->went_unheard |= sim->told_to_go[p]; /* its last word was lost with its connection */
        if (strncmp(text, "lost ", 5) == 0 && sim->drained[p] == process->incarnation)
            sim_fail(sim, "%s is drained, and counts as lost: %s", process->name, text);
    }
}

void drain_view(struct sim *sim, const struct weir_view *view)
{
    for (uint32_t p = 1; p < sim->process_count; p++) {
        sim->named[p] = view->nodes[p].incarnation;
        if (sim->drained[p] && sim->named[p] == sim->drained[p])
            sim_fail(sim, "%s is drained, and view %llu has it back", sim->processes[p].name,
                     (unsigned long long)view->number);
    }
}

/* Who ends so was told to, and had nothing to do yet, or the newest view is one without it. */
void drain_exit(struct sim *sim, const struct process *process)
{
    ptrdiff_t p = process - sim->processes;
    if (process->code != WEIR_NODE_EXIT_DRAINED)
        return;
    if (process->kind != WORKER || !process->told_to_go)
        sim_fail(sim, "%s says that it is drained, and was not told to: %s", process->name, process->reason);
    sim->went_before |= sim->published == 0;
    bool alone = sim->said_lost[p] || strstr(process->reason, "lost chief/0");
    if (process->lanes_up && sim->named[p] == process->incarnation && !alone)
        sim_fail(sim, "%s goes, and the newest view counts on it: %s", process->name, process->reason);
    sim->coverage->count[process->lanes_up ? COUNT_DRAINED : COUNT_DRAINED_EARLY]++;
}

/* Whether it names who was told to go: too few are left. */
bool drain_names_the_cause(const struct sim *sim, const struct process *process)
{
    if (process->code == WEIR_NODE_EXIT_DRAINED)
        return true;
    for (uint32_t p = 0; p < sim->process_count; p++)
        if (sim->told_to_go[p] && strstr(process->reason, sim->processes[p].name))
            return true;
    return false;
}

/* Where enough workers stay, the job finishes, and where nothing else happens, for all. */
void drain_end(struct sim *sim)
{
    uint32_t left = sim->config.workers;
    for (uint32_t p = 0; p < sim->process_count; p++)
        left -= sim->told_to_go[p] != 0 || (sim->config.kill && sim->killed == (int32_t)p);
    if (!sim->config.elastic || !any_told(sim) || other_faults(sim) || sim->went_before ||
        (sim->killed_at && sim->killed_before_view) || left < sim->config.min_workers)
        return;
    if (sim->processes[0].code != 0)
        sim_fail(sim, "workers were told to go, and the job ended: %s", sim->processes[0].reason);
    for (uint32_t p = 0; p < sim->process_count && nothing_else(sim); p++) {
        const struct process *process = &sim->processes[p];
        bool late = process->life && strstr(process->reason, "chief/0"); /* the job was over when it came back */
        if (process->code != 0 && process->code != WEIR_NODE_EXIT_DRAINED && !late)
            sim_fail(sim, "workers were told to go, and %s failed: %s", process->name, process->reason);
    }
    sim->coverage->count[COUNT_DRAINED_AND_FINISHED]++;
}
