/* What parameter servers store: of each chunk that one holds, versions, optimizer slots and the kept sum. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct shard *shard_of(struct sim *sim, uint32_t process, uint32_t chunk)
{
    assert(sim->processes[process].kind == SERVER);
    return &sim->shards[sim->processes[process].index][chunk];
}

static void make_first(struct sim *sim, struct shard *shard, uint32_t chunk)
{
    shard->values[0] = reference_initial(chunk);
    shard->life[0] = MADE;
    for (uint32_t s = 0; s < sim->config.slots; s++)
        shard->slots[s] = reference_slot(shard->values[0], s);
}

void shard_build(struct sim *sim)
{
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        for (uint32_t k = 0; k < sim->config.servers; k++)
            if (weir_holds(holders_of(sim, server_process(sim, k), c), k))
                make_first(sim, &sim->shards[k][c], c);
}

void shard_drop(struct sim *sim, uint32_t process, uint32_t chunk)
{
    struct shard *shard = shard_of(sim, process, chunk);
    *shard = (struct shard){.turn = shard->turn + 1};
}

/* Parts of a copy are put aside; the last one takes the place of all that was there. */
void shard_copy(struct sim *sim, uint32_t process, const struct weir_action *action, uint64_t value)
{
    struct shard *shard = shard_of(sim, process, action->chunk);
    struct aside *aside = &shard->aside;
    const struct process *server = &sim->processes[process];
    if (action->part > 0) {
        aside->slots[action->part - 1] = value;
        aside->slot_count = action->part;
        return;
    }
    if (!action->whole) {
        aside->has_old = true;
        aside->old_version = action->step;
        aside->old = value;
        return;
    }
    struct shard copy = {.turn = shard->turn + 1};
    uint64_t version = action->step;
    if (aside->slot_count != sim->config.slots || (aside->has_old && aside->old_version + 1 != version))
        sim_fail(sim, "%s takes a copy of chunk %u that is not whole", server->name, action->chunk);
    if (shard->life[version] == FREED || (version > 0 && shard->life[version + 1] != NOT_MADE))
        sim_fail(sim, "%s is given an older chunk %u than it has", server->name, action->chunk);
    memcpy(copy.slots, aside->slots, sizeof copy.slots);
    for (uint64_t v = 0; v < version; v++)
        copy.life[v] = FREED;
    copy.values[version] = value;
    copy.life[version] = MADE;
    if (aside->has_old) {
        copy.values[version - 1] = aside->old;
        copy.life[version - 1] = MADE;
    }
    *shard = copy;
    sim->coverage->count[COUNT_COPIES]++;
    for (uint64_t v = version - aside->has_old; v <= version; v++)
        check_applied(sim, process, action->chunk, v);
    sim_say(sim, "%s: chunk %u is copied, at version %llu", server->name, action->chunk, (unsigned long long)version);
}

static uint64_t sum_of(struct sim *sim, const struct weir_tree *tree)
{
    int16_t code[2 * MAX_REPLICAS];
    uint64_t stack[2 * MAX_REPLICAS];
    size_t length = weir_tree_program(tree, code), top = 0;
    for (size_t i = 0; i < length; i++) {
        if (code[i] != WEIR_TREE_ADD) {
            stack[top++] = payload_at(sim, tree->first[code[i]].payload)->value;
            continue;
        }
        if (top < 2)
            break;
        top--;
        stack[top - 1] = reference_add(stack[top - 1], stack[top]);
    }
    if (top != (length > 0))
        sim_fail(sim, "the program of a sum leaves %zu values", top);
    return top ? stack[0] : SUM_OF_NOTHING;
}

static double scale_of(const struct sim *sim, const struct weir_record *verdict, uint32_t chunk)
{
    if (!verdict)
        return 1;
    if (sim->config.gate != WEIR_GATE_CLIPNORM)
        return verdict->scale;
    double scale = 0;
    for (size_t i = 0, n = 1; i < sim->schedule.piece_count; i++)
        if (sim->pieces[i].chunk == chunk && verdict->norm_count > sim->pieces[i].variable)
            scale += verdict->norms[sim->pieces[i].variable] * (double)n++;
    return scale;
}

/* The sum that an apply needs: of the contributions, or the kept one. */
static uint64_t sum_to_apply(struct sim *sim, const struct shard *shard, const struct weir_action *action)
{
    if (action->tree) {
        check_contributions(sim, action->tree, action->step, action->chunk);
        return sim->failed ? 0 : sum_of(sim, action->tree);
    }
    if (!shard->has_sum || shard->sum_step != action->step)
        sim_fail(sim, "chunk %u is applied with a sum of another step than %llu", action->chunk,
                 (unsigned long long)action->step);
    return shard->sum;
}

uint32_t shard_apply(struct sim *sim, uint32_t process, const struct weir_action *action)
{
    uint32_t chunk = action->chunk;
    struct shard *shard = shard_of(sim, process, chunk);
    uint64_t sum = sum_to_apply(sim, shard, action), old = shard->values[action->step],
             *next = &shard->values[action->step + 1];
    if (sim->failed)
        return 0;
    if (shard->life[action->step] != MADE || shard->life[action->step + 1] != NOT_MADE)
        sim_fail(sim, "chunk %u is applied to version %llu, which was freed, or twice", chunk,
                 (unsigned long long)action->step);
    for (uint32_t s = 0; s < sim->config.slots; s++)
        if (shard->slots[s] != reference_slot(old, s))
            sim_fail(sim, "%s applies step %llu to slots of another step", sim->processes[process].name,
                     (unsigned long long)action->step);
    *next = action->skip ? old : reference_apply(old, sum, action->record, scale_of(sim, action->verdict, chunk));
    shard->life[action->step + 1] = BEING_MADE;
    for (uint32_t s = 0; s < sim->config.slots; s++)
        shard->slots[s] = reference_slot(*next, s);
    sim->coverage->count[COUNT_SKIPS] += action->skip;
    check_applied(sim, process, chunk, action->step + 1);
    check_versions(sim);
    sim_say(sim, "%s: chunk %u is at version %llu", sim->processes[process].name, chunk,
            (unsigned long long)action->step + 1);
    return shard->turn;
}

void shard_applied(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t step, uint32_t turn)
{
    struct shard *shard = shard_of(sim, process, chunk);
    if (shard->turn == turn) /* else it is of what the chunk is no longer */
        shard->life[step + 1] = MADE;
}

uint64_t shard_sum(struct sim *sim, uint32_t process, const struct weir_action *action)
{
    struct shard *shard = shard_of(sim, process, action->chunk);
    check_contributions(sim, action->tree, action->step, action->chunk);
    if (sim->failed)
        return 0;
    shard->has_sum = true;
    shard->sum_step = action->step;
    shard->sum = sum_of(sim, action->tree);
    return shard->sum;
}

void shard_free(struct sim *sim, uint32_t process, uint32_t chunk, uint64_t version)
{
    struct shard *shard = shard_of(sim, process, chunk);
    check_freed(sim, process, chunk, version);
    shard->life[version] = FREED;
}

/* ---- what is sent */

static uint64_t last_version(const struct sim *sim)
{
    return (uint64_t)sim->config.steps_per_epoch * sim->config.epochs;
}

static bool to_server(const struct sim *sim, uint32_t peer)
{
    return peer >= sim->config.workers && peer < sim->config.workers + sim->config.servers;
}

uint64_t weights_payload(struct sim *sim, uint32_t process, uint32_t peer, const struct weir_weights *weights)
{
    const struct shard *shard = shard_of(sim, process, weights->chunk);
    bool copies = to_server(sim, peer);
    if (weights->part > sim->config.slots || weights->version >= MAX_STEPS + 2 ||
        shard->life[weights->version] != MADE) {
        sim_fail(sim, "invariant 2: %s sends part %u of version %llu of chunk %u, which %s",
                 sim->processes[process].name, weights->part, (unsigned long long)weights->version, weights->chunk,
                 shard->life[weights->version] == FREED ? "was freed" : "is not made");
        return 0;
    }
    if (!copies)
        check_released(sim, process, weights->chunk, weights->version);
    if (weights->part == 0)
        return payload_new(sim, shard->values[weights->version], 0);
    bool rests = shard->life[last_version(sim)] == MADE || copies;
    if (!rests || shard->life[weights->version + 1] != NOT_MADE)
        sim_fail(sim, "part %u of chunk %u is sent, which still changes", weights->part, weights->chunk);
    sim->coverage->count[COUNT_SLOTS] += !copies;
    return payload_new(sim, shard->slots[weights->part - 1], 0);
}

uint64_t forward_payload(struct sim *sim, uint32_t process, const struct weir_forward *forward)
{
    const struct shard *shard = shard_of(sim, process, forward->chunk);
    if (!shard->has_sum || shard->sum_step != forward->step)
        sim_fail(sim, "%s forwards the sum of step %llu of chunk %u, which it does not keep",
                 sim->processes[process].name, (unsigned long long)forward->step, forward->chunk);
    sim->coverage->count[COUNT_FORWARDS]++;
    return payload_new(sim, shard->sum, (UINT64_C(1) << sim->config.replicas) - 1);
}
