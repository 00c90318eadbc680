/* How processes end and begin again, and what their cores have done until then. */
#include <string.h>

#include "sim.h"

void cluster_kill(struct sim *sim, uint32_t process)
{
    struct process *p = &sim->processes[process];
    if (!p->alive)
        return;
    sim_say(sim, "%s is killed", p->name);
    p->alive = false;
    sim->killed_at = sim->now;
    sim->killed_before_view = sim->published != WEIR_VIEW_RUNNING;
    sim->coverage->count[COUNT_KILLS]++;
    for (uint32_t a = 0; a < sim->actor_count; a++)
        if (sim->actors[a].process == process)
            sim->actors[a].running = false;
    net_process_died(sim, process);
}

static void add_counts(struct weir_machine_counts *to, const struct weir_machine_counts *from)
{
    for (int i = 0; i < WEIR_MACHINE_ROWS_MAX; i++)
        to->row[i] += from->row[i];
}

static void count_core(struct sim *sim, const struct actor *actor)
{
    struct coverage *coverage = sim->coverage;
    const void *core = actor->core;
    switch (actor->kind) {
    case ACTOR_CHIEF:
        add_counts(&coverage->chief, weir_chief_counts(core));
        add_counts(&coverage->link, weir_chief_link_counts(core));
        break;
    case ACTOR_NODE:
        add_counts(&coverage->node, weir_node_counts(core));
        add_counts(&coverage->link, weir_node_link_counts(core));
        break;
    case ACTOR_LANE:
        add_counts(&coverage->chunk, weir_ps_lane_chunk_counts(core));
        add_counts(&coverage->link, weir_ps_lane_link_counts(core));
        break;
    case ACTOR_EXCHANGE:
        add_counts(&coverage->link, weir_exchange_link_counts(core));
        break;
    case ACTOR_RECORDER:
        add_counts(&coverage->recorder, weir_recorder_counts(core));
        break;
    default:
        add_counts(&coverage->worker, weir_worker_counts(core));
    }
}

void cluster_restart(struct sim *sim, uint32_t process)
{
    struct process *p = &sim->processes[process];
    struct process again = {.kind = p->kind,
                            .index = p->index,
                            .alive = true,
                            .clock_offset = p->clock_offset,
                            .clock_rate_percent = p->clock_rate_percent,
                            .incarnation = sim_random(sim) | 1,
                            .life = p->life + 1};
    if (p->alive || p->exited || !sim->processes[0].alive)
        return;
    memcpy(again.name, p->name, sizeof again.name);
    memset(again.version, 0xff, sizeof again.version);
    *p = again;
    sim_say(sim, "%s is started again", p->name);
    sim->coverage->count[COUNT_RESTARTS]++;
    for (uint32_t a = 0; a < sim->actor_count; a++) /* its cores are over: count what they did */
        if (sim->actors[a].process == process)
            count_core(sim, &sim->actors[a]);
    cluster_build_node(sim, process);
    cluster_build_lanes(sim, process, NULL);
    uint32_t node = actor_of(sim, process, ACTOR_NODE, 0);
    for (int i = 0; i < 2; i++) {
        struct sim_event *event = sim_schedule(sim, sim->now, i ? LOOK : LOCAL);
        event->actor = node;
        event->life = p->life;
        event->local = WEIR_ON_START;
    }
}

/* As SIGTERM does. */
void cluster_signal(struct sim *sim, uint32_t process)
{
    const struct process *p = &sim->processes[process];
    uint32_t actor = actor_of(sim, process, p->kind == CHIEF ? ACTOR_CHIEF : ACTOR_NODE, 0);
    if (!p->alive || !sim->actors[actor].running)
        return;
    sim_say(sim, "%s is told to stop", p->name);
    sim->signal_came = true;
    struct weir_event event = {.kind = WEIR_ON_FAILED, .text = "told to stop"};
    cluster_step(sim, actor, &event);
}

void cluster_counts(struct sim *sim)
{
    for (uint32_t a = 0; a < sim->actor_count; a++)
        count_core(sim, &sim->actors[a]);
}
