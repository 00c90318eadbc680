/* A process that stands still for a while, as under SIGSTOP or on a frozen machine: its connections stay up, and what
 * comes for it waits. It may not be taken for a death if it is shorter than the lease, and the chief's own pauses may
 * not be taken for anybody's death at all.
 */
#include <assert.h>
#include <stdlib.h>

#include "sim.h"

/* Of a node other than the chief: below the lease by the fastest clock. */
#define NODE_PAUSE_MAX (3000 * MS)
#define CHIEF_PAUSE_MAX (20000 * MS)

void pause_plan(struct sim *sim)
{
    sim->paused = sim_below(sim, 3) ? 0 : (int32_t)sim_below(sim, sim->process_count);
    sim->pause_ns = MS + sim_random(sim) % (sim->paused ? NODE_PAUSE_MAX : CHIEF_PAUSE_MAX);
    sim_schedule(sim, sim_random(sim) % (1000 * MS), PAUSE);
}

void pause_begin(struct sim *sim)
{
    if (!sim->processes[sim->paused].alive)
        return;
    sim_say(sim, "%s stands still for %.0f ms", sim->processes[sim->paused].name, (double)sim->pause_ns / MS);
    sim->coverage->pauses++;
    sim->in_pause = true;
    sim_schedule(sim, sim->now + sim->pause_ns, RESUME);
}

/* The process that is given the event, or -1. */
static int32_t process_of(const struct sim *sim, const struct sim_event *event)
{
    switch (event->kind) {
    case LOCAL:
    case TIMER:
    case LOOK:
        return (int32_t)sim->actors[event->actor].process;
    case SIGNAL:
        return sim->signalled;
    case ACCEPT:
        return (int32_t)sim->actors[sim->streams[event->stream].actor[1]].process;
    case OPENED:
        return (int32_t)sim->actors[sim->streams[event->stream].actor[0]].process;
    case DELIVER:
    case SENT:
    case CLOSED:
        return (int32_t)sim->actors[sim->streams[event->stream].actor[event->side]].process;
    default:
        return -1;
    }
}

bool pause_holds(struct sim *sim, struct sim_event *event)
{
    if (!sim->in_pause || process_of(sim, event) != sim->paused)
        return false;
    if (sim->held_count == sim->held_room) {
        sim->held_room = sim->held_room ? 2 * sim->held_room : 256;
        sim->held = realloc(sim->held, sim->held_room * sizeof(struct sim_event *));
        assert(sim->held);
    }
    sim->held[sim->held_count++] = event;
    return true;
}

/* Whether timers or sockets come first after a pause is the system's choice. */
static void timers_first(struct sim *sim)
{
    uint32_t timers = 0;
    for (uint32_t i = 0; i < sim->held_count; i++) {
        struct sim_event *event = sim->held[i];
        if (event->kind != TIMER)
            continue;
        for (uint32_t k = i; k > timers; k--)
            sim->held[k] = sim->held[k - 1];
        sim->held[timers++] = event;
    }
}

struct sim_event *pause_next(struct sim *sim)
{
    if (sim->in_pause) {
        sim_say(sim, "%s goes on", sim->processes[sim->paused].name);
        sim->in_pause = false;
        if (sim_below(sim, 2))
            timers_first(sim);
    }
    return sim->held_next < sim->held_count ? sim->held[sim->held_next++] : NULL;
}

void pause_free(struct sim *sim)
{
    while (sim->held_next < sim->held_count)
        sim_done(sim, sim->held[sim->held_next++]);
    free(sim->held);
}
