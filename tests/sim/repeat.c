/* What is sent again. Messages have names, so a repetition may change nothing, whenever it comes: be it the same once
 * more, a node of the sum tree below one that was sent, above it or of the same replicas under another name, or a
 * message of another generation, in which other numbers would stand.
 */
#include "sim.h"

static bool now_and_then(struct sim *sim)
{
    return sim->config.repeats && sim_below(sim, 16) == 0;
}

/* A node that has something to do with this one: one below it, or the one above it if the replicas are the same. */
static void other_node(struct sim *sim, uint32_t *level, uint32_t *index)
{
    uint32_t replicas = sim->config.replicas;
    uint64_t same = reference_replicas(replicas, *level, *index);
    if (sim_below(sim, 3) == 0 && *level < reference_root(replicas) &&
        reference_replicas(replicas, *level + 1, *index / 2) == same) {
        ++*level;
        *index /= 2;
        return;
    }
    while (*level > 0 && sim_below(sim, 3)) {
        uint32_t child = 2 * *index + sim_below(sim, 2);
        if (reference_replicas(replicas, *level - 1, child) == 0)
            child = 2 * *index;
        --*level;
        *index = child;
    }
}

static void repeat_node(struct sim *sim, uint32_t actor, const struct weir_action *action, bool later)
{
    struct weir_message_body body = action->body;
    other_node(sim, &body.contribution.level, &body.contribution.index);
    uint64_t payload = gradient_payload(sim, &sim->processes[sim->actors[actor].process], &body.contribution);
    sim->coverage->count[COUNT_REPEATS]++;
    net_repeat(sim, actor, action->peer, &body, payload, later);
}

/* As a process of another generation would send it. False: such messages have no generation. */
static bool make_stale(struct sim *sim, struct weir_message_body *body, double *squares, uint64_t *payload)
{
    switch (body->type) {
    case WEIR_CONTRIBUTION:
        body->contribution.generation++;
        *payload = body->contribution.empty ? 0 : payload_new(sim, sim_random(sim) | 1, 0);
        return true;
    case WEIR_SEAL:
        body->seal.generation++;
        body->seal.loss = 1e9;
        return true;
    case WEIR_PARTIAL:
        body->partial.generation++;
        for (size_t i = 0; i < body->partial.square_count; i++)
            squares[i] = 1e9;
        body->partial.squares = squares;
        return true;
    case WEIR_FORWARD:
        body->forward.generation++;
        *payload = payload_new(sim, sim_random(sim) | 1, 0);
        return true;
    case WEIR_ACK:
        body->ack.generation++;
        body->ack.version = MAX_STEPS;
        return true;
    default:
        return false;
    }
}

static void repeat_stale(struct sim *sim, uint32_t actor, const struct weir_action *action)
{
    struct weir_message_body body = action->body;
    double squares[MAX_CHUNKS * 2];
    uint64_t payload = 0;
    if (!make_stale(sim, &body, squares, &payload))
        return;
    sim->coverage->count[COUNT_STALE]++;
    net_repeat(sim, actor, action->peer, &body, payload, false);
}

void repeat_before(struct sim *sim, uint32_t actor, const struct weir_action *action)
{
    if (action->body.type == WEIR_CONTRIBUTION && now_and_then(sim))
        repeat_node(sim, actor, action, false);
    if (now_and_then(sim))
        repeat_stale(sim, actor, action);
}

void repeat_after(struct sim *sim, uint32_t actor, const struct weir_action *action, uint64_t value)
{
    uint32_t type = action->body.type;
    if (type == WEIR_CONTRIBUTION) {
        if (now_and_then(sim))
            repeat_node(sim, actor, action, true);
        return;
    }
    bool named = type == WEIR_SEAL || type == WEIR_COVERED || type == WEIR_RECORD || type == WEIR_PARTIAL ||
                 type == WEIR_FORWARD || type == WEIR_ACK ||
                 (type == WEIR_WEIGHTS && action->peer < sim->config.workers);
    if (!named || !now_and_then(sim))
        return;
    sim->coverage->count[COUNT_REPEATS]++;
    net_repeat(sim, actor, action->peer, &action->body, value ? payload_new(sim, value, 0) : 0, true);
}
