#include "ps/chunk.h"

#include <assert.h>

static const struct weir_transition rows[] = {
    {WEIR_CHUNK_COLLECTING, WEIR_CHUNK_WAITING, "the tree is complete"},
    {WEIR_CHUNK_COLLECTING, WEIR_CHUNK_SUMMING,
     "the tree is complete, and its sum is needed before the apply, or after"},
    {WEIR_CHUNK_SUMMING, WEIR_CHUNK_WAITING, "the sum (and its squares) is there"},
    {WEIR_CHUNK_WAITING, WEIR_CHUNK_APPLYING, "the record (and the verdict) is there"},
    {WEIR_CHUNK_APPLYING, WEIR_CHUNK_COLLECTING, "the new version is made"},
    {WEIR_CHUNK_SUMMING, WEIR_CHUNK_COLLECTING, "a copy took its place, or it is no longer held"},
    {WEIR_CHUNK_WAITING, WEIR_CHUNK_COLLECTING, "a copy took its place, or it is no longer held"},
};
const struct weir_machine weir_chunk_machine = {"chunk", rows, sizeof rows / sizeof rows[0]};

void weir_chunk_init(struct weir_chunk *chunk, struct weir_arena *arena, uint32_t id, uint64_t version, uint64_t bytes,
                     uint32_t replicas)
{
    *chunk = (struct weir_chunk){.id = id, .version = version, .bytes = bytes, .state = WEIR_CHUNK_COLLECTING};
    chunk->tree.replicas = replicas;
    chunk->tree.first = weir_arena_take(arena, replicas, sizeof(struct weir_held_node));
}

static const char *judge(const struct weir_chunk *chunk, const struct weir_contribution *contribution, uint64_t bytes)
{
    uint32_t first, count;
    if (!weir_tree_range(chunk->tree.replicas, (struct weir_tree_node){contribution->level, contribution->index},
                         &first, &count))
        return "a contribution for a node that is not in the sum tree";
    if (bytes != (contribution->empty ? 0 : chunk->bytes))
        return "a contribution whose payload is not as long as its chunk";
    if (!chunk->replicated && contribution->step > chunk->version)
        return "a contribution to a step that can't have begun";
    return NULL;
}

const char *weir_chunk_contribution(struct weir_chunk *chunk, const struct weir_contribution *contribution,
                                    uint64_t payload, uint64_t payload_bytes, struct weir_actions *actions)
{
    const char *wrong = judge(chunk, contribution, payload_bytes);
    if (wrong || !chunk->held || contribution->step != chunk->version || weir_chunk_covered(chunk)) {
        weir_actions_release(actions, payload); /* wrong, of a finished step, sent again, or to an earlier holder */
        return wrong;
    }
    if (chunk->has_old) { /* its sender holds every chunk at `version`: nobody needs the one before */
        struct weir_action *action = weir_actions_add(actions, WEIR_DO_FREE);
        action->chunk = chunk->id;
        action->step = chunk->version - 1;
        chunk->has_old = false;
    }
    struct weir_tree_node node = {contribution->level, contribution->index};
    uint64_t replaced[WEIR_REPLICAS_MAX];
    size_t replaced_count;
    if (weir_tree_add(&chunk->tree, node, contribution->empty, payload, replaced, &replaced_count) == WEIR_TREE_DROPPED)
        weir_actions_release(actions, payload);
    for (size_t i = 0; i < replaced_count; i++)
        weir_actions_release(actions, replaced[i]);
    return NULL;
}

bool weir_chunk_complete(struct weir_chunk *chunk, bool sum, struct weir_machine_counts *counts,
                         struct weir_actions *actions)
{
    if (!chunk->held || weir_chunk_covered(chunk) || !weir_tree_complete(&chunk->tree))
        return false;
    weir_machine_move(&weir_chunk_machine, counts, &chunk->state, sum ? WEIR_CHUNK_SUMMING : WEIR_CHUNK_WAITING);
    chunk->has_sum = false;
    if (sum) {
        struct weir_action *action = weir_actions_add(actions, WEIR_DO_SUM);
        action->chunk = chunk->id;
        action->step = chunk->version;
        action->tree = &chunk->tree;
    }
    return true;
}

/* What was summed is no longer needed. */
static void release_tree(struct weir_chunk *chunk, struct weir_actions *actions)
{
    for (uint32_t r = 0; r < chunk->tree.replicas; r++)
        if (chunk->tree.first[r].count && !chunk->tree.first[r].empty)
            weir_actions_release(actions, chunk->tree.first[r].payload);
    weir_tree_clear(&chunk->tree);
}

/* The work that was done is of what the chunk is no longer. */
static bool is_void(struct weir_chunk *chunk)
{
    if (!chunk->voided)
        return false;
    chunk->voided--;
    return true;
}

bool weir_chunk_summed(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions)
{
    if (is_void(chunk))
        return false;
    weir_machine_move(&weir_chunk_machine, counts, &chunk->state, WEIR_CHUNK_WAITING);
    release_tree(chunk, actions);
    chunk->has_sum = true;
    chunk->sum_step = chunk->version;
    return true;
}

void weir_chunk_apply(struct weir_chunk *chunk, const struct weir_record *record, const struct weir_record *verdict,
                      struct weir_machine_counts *counts, struct weir_actions *actions)
{
    assert(record->step == chunk->version && (!verdict || verdict->step == chunk->version + 1));
    assert(!chunk->has_old); /* its contributions freed it: at most two versions live */
    weir_machine_move(&weir_chunk_machine, counts, &chunk->state, WEIR_CHUNK_APPLYING);
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_APPLY);
    action->chunk = chunk->id;
    action->step = chunk->version;
    action->tree = chunk->has_sum ? NULL : &chunk->tree;
    action->record = record;
    action->verdict = verdict;
    action->skip = verdict && verdict->skip;
}

bool weir_chunk_applied(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions)
{
    if (is_void(chunk))
        return false;
    weir_machine_move(&weir_chunk_machine, counts, &chunk->state, WEIR_CHUNK_COLLECTING);
    release_tree(chunk, actions);
    chunk->version++;
    chunk->has_old = true;
    return true;
}

/* What it was is over. */
static void forget(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions)
{
    chunk->voided += chunk->state == WEIR_CHUNK_SUMMING || chunk->state == WEIR_CHUNK_APPLYING;
    if (chunk->state != WEIR_CHUNK_COLLECTING)
        weir_machine_move(&weir_chunk_machine, counts, &chunk->state, WEIR_CHUNK_COLLECTING);
    release_tree(chunk, actions);
    chunk->held = chunk->has_old = chunk->has_sum = false;
}

void weir_chunk_drop(struct weir_chunk *chunk, struct weir_machine_counts *counts, struct weir_actions *actions)
{
    forget(chunk, counts, actions);
    chunk->copied_parts = 0;
    weir_actions_add(actions, WEIR_DO_DROP)->chunk = chunk->id;
}

/* The parts of a copy come in one order: slots, the older weights if there are any, the newer ones. */
static bool is_next(const struct weir_chunk *chunk, const struct weir_weights *weights, uint64_t bytes, uint32_t slots)
{
    if (bytes != chunk->bytes)
        return false;
    if (chunk->copied_parts < slots)
        return weights->part == chunk->copied_parts + 1 && !weights->whole;
    bool older = chunk->copied_parts == slots;
    return weights->part == 0 && (weights->whole || older);
}

const char *weir_chunk_copy(struct weir_chunk *chunk, const struct weir_weights *weights, uint64_t payload,
                            uint64_t payload_bytes, uint32_t slots, struct weir_machine_counts *counts,
                            struct weir_actions *actions)
{
    if (!is_next(chunk, weights, payload_bytes, slots)) {
        weir_actions_release(actions, payload);
        return "a part of a copy that does not follow the one before";
    }
    struct weir_action *store = weir_actions_add(actions, WEIR_DO_STORE);
    store->chunk = chunk->id;
    store->part = weights->part;
    store->step = weights->version;
    store->payload = payload;
    store->whole = weights->whole;
    bool has_old = chunk->copied_parts > slots;
    chunk->copied_parts++;
    if (!weights->whole)
        return NULL;
    forget(chunk, counts, actions);
    chunk->copied_parts = 0;
    chunk->held = true;
    chunk->version = weights->version;
    chunk->has_old = has_old;
    return NULL;
}
