/* Observers: they come to the chief and to lanes, ask for any version of any part, read slowly or not at all, break
 * rules and go. They are given what they ask for, in order, and the job takes no notice of them. Their streams have no
 * delays: what they say is there at once, and of what is said to them only the order matters.
 */
#include <string.h>

#include "sim.h"

void observer_plan(struct sim *sim)
{
    sim_schedule(sim, sim_random(sim) % (300 * MS), VISIT);
}

static bool come(struct sim *sim, struct actor *actor, struct weir_message_body *hello)
{
    const char *reason;
    bool differs;
    *hello = (struct weir_message_body){.type = WEIR_HELLO};
    hello->hello = (struct weir_hello){.role = WEIR_NODE_OBSERVER,
                                       .incarnation = 1,
                                       .generation = sim->config.generation,
                                       .job_hash = SIM_HASH,
                                       .numerics = "",
                                       .address = "",
                                       .canonical = ""};
    uint32_t peer;
    bool ok = actor->kind == ACTOR_CHIEF ? weir_chief_admit(actor->core, &hello->hello, &peer, &reason, &differs)
                                         : weir_ps_lane_admit(actor->core, &hello->hello, &peer, &reason, &differs);
    if (!ok)
        sim_fail(sim, "an observer was refused: %s", reason);
    else
        actor->visit = (struct visit){.up = true, .peer = peer};
    return ok;
}

/* A question about this lane's chunks that the rules allow. */
static bool ask(struct sim *sim, struct actor *actor, struct weir_message_body *body)
{
    struct visit *visit = &actor->visit;
    uint32_t chunk = sim_below(sim, sim->layout.chunks), version = sim_below(sim, MAX_STEPS + 1);
    if (holders_of(sim, actor->process, chunk)->primary != sim->processes[actor->process].index ||
        weir_layout_lane(&sim->layout, chunk) != actor->lane || visit->count == WEIR_FETCHES_MAX)
        return false;
    *body = (struct weir_message_body){.type = WEIR_FETCH};
    body->fetch.chunk = chunk;
    body->fetch.part = sim_below(sim, 3) ? 0 : sim_below(sim, sim->config.slots + 1);
    body->fetch.version = sim_below(sim, 2) ? WEIR_NEWEST : version;
    visit->asked[(visit->head + visit->count++) % WEIR_FETCHES_MAX] = body->fetch;
    return true;
}

static void visit(struct sim *sim, uint32_t id)
{
    struct actor *actor = &sim->actors[id];
    struct weir_message_body body;
    struct weir_event event = {.kind = WEIR_ON_MESSAGE, .body = &body};
    if (!actor->visit.up) {
        if (!come(sim, actor, &body))
            return;
    } else if (actor->visit.unsent > 0 && sim_below(sim, 2)) {
        actor->visit.unsent--;
        event = (struct weir_event){.kind = WEIR_ON_SENT};
    } else if (sim_below(sim, 20) == 0) {
        actor->visit.up = false;
        event = (struct weir_event){.kind = WEIR_ON_CLOSED, .text = "the observer went"};
    } else if (sim_below(sim, 20) == 0) {
        body = (struct weir_message_body){.type = WEIR_SEAL};
        actor->visit.breaks_rules = true;
    } else if (actor->kind == ACTOR_CHIEF || !ask(sim, actor, &body)) {
        return;
    }
    event.peer = actor->visit.peer;
    cluster_step(sim, id, &event);
    if (actor->visit.breaks_rules && actor->visit.up && actor->running)
        sim_fail(sim, "an observer that broke the rules keeps its stream");
}

void observer_visit(struct sim *sim)
{
    uint32_t id = sim_below(sim, sim->actor_count);
    const struct actor *actor = &sim->actors[id];
    bool stands_still = sim->in_pause && (int32_t)actor->process == sim->paused;
    if (actor->running && !stands_still && (actor->kind == ACTOR_CHIEF || actor->kind == ACTOR_LANE))
        visit(sim, id);
    sim_schedule(sim, sim->now + sim_random(sim) % MS, VISIT);
}

static bool is_observer(const struct actor *actor, uint32_t peer)
{
    return actor->visit.up && actor->visit.peer == peer;
}

bool observer_cut_off(struct actor *actor, uint32_t peer)
{
    if (!is_observer(actor, peer) || !actor->visit.breaks_rules)
        return false;
    actor->visit.up = false;
    return true;
}

static bool lives(struct sim *sim, const struct actor *actor, uint32_t chunk, uint64_t version)
{
    return version < MAX_STEPS + 2 && shard_of(sim, actor->process, chunk)->life[version] == MADE;
}

void observer_told(struct sim *sim, struct actor *actor, uint32_t peer, const struct weir_message_body *body)
{
    struct visit *visit = &actor->visit;
    if (!is_observer(actor, peer))
        return;
    visit->unsent++;
    if (body->type != WEIR_WEIGHTS && body->type != WEIR_GONE)
        return;
    sim->coverage->count[body->type == WEIR_GONE ? COUNT_GONE : COUNT_OBSERVED]++;
    const struct weir_fetch *fetch = &visit->asked[visit->head];
    bool gone = body->type == WEIR_GONE, newest = fetch->version == WEIR_NEWEST;
    uint32_t chunk = gone ? body->gone.chunk : body->weights.chunk;
    uint64_t version = gone ? fetch->version : body->weights.version;
    bool right = visit->count > 0 && fetch->chunk == chunk;
    if (gone) /* slots are there in their last state only */
        right = right && !newest && (fetch->part > 0 || !lives(sim, actor, chunk, version));
    else
        right = right && fetch->part == body->weights.part &&
                (newest ? !sim->released[chunk][version + 1] : version == fetch->version);
    if (!right)
        sim_fail(sim, "an observer that asked for chunk %u version %llu part %u is answered with another thing",
                 fetch->chunk, (unsigned long long)fetch->version, fetch->part);
    visit->head = (visit->head + 1) % WEIR_FETCHES_MAX;
    visit->count--;
}
