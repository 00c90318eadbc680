/* A process that stands still for a while, as under SIGSTOP or on a frozen machine: its connections stay up, and what
 * comes for it waits. It may not be taken for a death if it is shorter than the lease, and has to be if it is longer;
 * the chief's own pauses may not be taken for anybody's death at all.
 */
#include <assert.h>
#include <stdlib.h>

#include "sim.h"

/* Of a node other than the chief: below the lease by the fastest clock. */
#define NODE_PAUSE_MAX (3000 * MS)
#define CHIEF_PAUSE_MAX (20000 * MS)
/* Of a node that is silent: beyond the lease by the slowest clock. */
#define SILENCE_MIN (7000 * MS)

/* About as long as the lease: by the fastest clock longer, by one that is not fast shorter. */
#define CLOSE_MIN (4600 * MS)
#define CLOSE_MAX (4700 * MS)

/* The chief, whose clock is fast, stands still just after a stream to a member or a lane broke: by its own clock that
 * is down for longer than the lease, but most of it is its own pause. The other side, whose clock is not fast, is there
 * again in time. */
static void plan_close_call(struct sim *sim)
{
    sim->close_call = true;
    sim->config.reset_per_mille = 0; /* nothing else may keep the two apart */
    sim->config.cut = false;
    sim->pause_ns = CLOSE_MIN + sim_random(sim) % (CLOSE_MAX - CLOSE_MIN);
    sim->processes[0].clock_rate_percent = 110;
    for (uint32_t p = 1; p < sim->process_count; p++)
        if (sim->processes[p].clock_rate_percent > 100)
            sim->processes[p].clock_rate_percent = 100;
}

/* Breaks a stream of the chief, if there is any. */
static void break_stream(struct sim *sim)
{
    for (uint32_t left = sim->stream_count, id = left ? sim_below(sim, left) : 0; left > 0; left--, id++) {
        const struct stream *stream = &sim->streams[id % sim->stream_count];
        if ((stream->actor[0] != 0 && stream->actor[1] != 0) || stream->broken)
            continue;
        net_reset(sim, id % sim->stream_count, "connection reset");
        sim->coverage->count[COUNT_CLOSE_CALLS]++;
        return;
    }
}

void pause_plan(struct sim *sim)
{
    sim->paused = sim_below(sim, 2) ? 0 : (int32_t)sim_below(sim, sim->process_count);
    sim->pause_ns = MS + sim_random(sim) % (sim->paused ? NODE_PAUSE_MAX : CHIEF_PAUSE_MAX);
    if (sim->paused && sim_below(sim, 2))
        sim->pause_ns += SILENCE_MIN;
    if (sim->paused == 0 && sim_below(sim, 2))
        plan_close_call(sim);
    uint64_t at = 100 * MS + sim_random(sim) % (700 * MS);
    if (sim->config.elastic && sim->pause_ns >= SILENCE_MIN && sim_below(sim, 2)) { /* a worker, while it trains */
        sim->paused = (int32_t)worker_process(sim, sim_below(sim, sim->config.workers));
        at = 300 * MS + at / 8;
    }
    sim_schedule(sim, at, PAUSE);
}

void pause_begin(struct sim *sim)
{
    if (!sim->processes[sim->paused].alive)
        return;
    if (sim->close_call && !sim->stream_broken) { /* the chief learns it before it stands still */
        sim->stream_broken = true;
        break_stream(sim);
        sim_schedule(sim, sim->now + 20 * MS, PAUSE);
        return;
    }
    sim_say(sim, "%s stands still for %.0f ms", sim->processes[sim->paused].name, (double)sim->pause_ns / MS);
    sim->coverage->count[COUNT_PAUSES]++;
    sim->in_pause = true;
    enum weir_chief_state chief = weir_chief_state(sim->actors[0].core);
    sim->silent = sim->paused && sim->pause_ns >= SILENCE_MIN;
    sim->silence_judged = sim->silent && chief >= WEIR_CHIEF_TRAINING && chief <= WEIR_CHIEF_FETCHING;
    sim->coverage->count[COUNT_SILENCES] += sim->silence_judged;
    sim_schedule(sim, sim->now + sim->pause_ns, RESUME);
}

/* The process that is given the event, or -1. */
static int32_t process_of(const struct sim *sim, const struct sim_event *event)
{
    switch (event->kind) {
    case LOCAL:
    case TIMER:
    case LOOK:
    case DRAIN:
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
