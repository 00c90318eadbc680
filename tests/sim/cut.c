/* A link is cut while both of its ends live: all streams between two processes, or one of them. For less than the
 * lease, it may not be noticed; for longer, it ends the job, which then says between whom it was.
 */
#include "sim.h"

#define HEALS_WITHIN (3500 * MS) /* below the lease by the fastest clock */

void cut_plan(struct sim *sim)
{
    struct cut *cut = &sim->cut;
    cut->whole = sim_below(sim, 3) == 0;
    cut->opener = (enum actor_kind)sim_below(sim, ACTOR_KINDS);
    cut->refuses = sim_below(sim, 2);
    if (sim_below(sim, 2))
        cut->heals_ns = MS + sim_random(sim) % HEALS_WITHIN;
    sim_schedule(sim, 200 * MS + sim_random(sim) % (600 * MS), CUT);
}

bool cut_severs(const struct sim *sim, const struct stream *stream)
{
    const struct cut *cut = &sim->cut;
    uint32_t a = stream->actor[0], b = stream->actor[1];
    if (!cut->on)
        return false;
    if (!cut->whole)
        return a == cut->actor[0] && b == cut->actor[1];
    uint32_t p = sim->actors[a].process, q = sim->actors[b].process;
    uint32_t x = sim->actors[cut->actor[0]].process, y = sim->actors[cut->actor[1]].process;
    return (p == x && q == y) || (p == y && q == x);
}

/* A stream that such an actor opened, or any if there is none; NULL: there is none at all. */
static const struct stream *pick(struct sim *sim)
{
    if (sim->stream_count == 0)
        return NULL;
    uint32_t from = sim_below(sim, sim->stream_count);
    for (uint32_t i = 0; i < sim->stream_count; i++) {
        const struct stream *stream = &sim->streams[(from + i) % sim->stream_count];
        if (sim->actors[stream->actor[0]].kind == sim->cut.opener)
            return stream;
    }
    return &sim->streams[from];
}

void cut_begin(struct sim *sim)
{
    struct cut *cut = &sim->cut;
    const struct stream *stream = pick(sim);
    if (!stream)
        return;
    cut->on = cut->came = true;
    for (int side = 0; side < 2; side++)
        cut->actor[side] = stream->actor[side];
    sim_say(sim, "%s between %s and %s cut%s", cut->whole ? "all streams" : "one stream",
            sim->processes[sim->actors[cut->actor[0]].process].name,
            sim->processes[sim->actors[cut->actor[1]].process].name, cut->heals_ns ? " for a while" : "");
    sim->coverage->count[cut->heals_ns ? COUNT_CUTS_HEALED : COUNT_CUTS]++;
    for (uint32_t id = 0; id < sim->stream_count; id++)
        if (cut_severs(sim, &sim->streams[id]))
            net_reset(sim, id, "connection timed out");
    if (cut->heals_ns)
        sim_schedule(sim, sim->now + cut->heals_ns, HEAL);
}

void cut_end(struct sim *sim)
{
    sim_say(sim, "the cut is over");
    sim->cut.on = false;
}
