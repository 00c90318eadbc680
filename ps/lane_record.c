/* The lane core's records and Partials. */
#include "ps/lane_state.h"

#include <assert.h>
#include <string.h>

static void init_kept(const struct weir_ps_lane *lane, struct weir_arena *arena, struct kept_record *kept)
{
    kept->norms = weir_arena_take(arena, lane->config.variables, sizeof(double));
}

static void init_boxes(struct weir_ps_lane *lane, struct weir_arena *arena)
{
    const struct weir_ps_lane_config *config = &lane->config;
    lane->box_count = config->layout.chunks;
    lane->boxes = weir_arena_take(arena, lane->box_count, sizeof(struct partial_box));
    for (uint32_t c = 0; c < lane->box_count; c++) {
        struct partial_box *box = &lane->boxes[c];
        box->chunk = c;
        box->count = config->pieces[c];
        box->squares = weir_arena_take(arena, box->count, sizeof(double));
    }
}

void weir_ps_record_init(struct weir_ps_lane *lane, struct weir_arena *arena)
{
    for (int i = 0; i < 2; i++) {
        init_kept(lane, arena, &lane->train[i]);
        init_kept(lane, arena, &lane->verdict[i]);
    }
    init_kept(lane, arena, &lane->newest);
    if (lane->config.gated && lane->config.lane == 0)
        init_boxes(lane, arena);
}

static void keep(struct kept_record *kept, const struct weir_record *record)
{
    kept->valid = true;
    kept->record = *record;
    if (record->norm_count)
        memcpy(kept->norms, record->norms, record->norm_count * sizeof(double));
    kept->record.norms = record->norm_count ? kept->norms : NULL;
}

/* Keeps a record that is newer than what is kept; false if it is not. */
static bool keep_newer(struct weir_ps_lane *lane, const struct weir_record *record)
{
    if (record->generation != lane->config.generation || record->norm_count > lane->config.variables)
        return false;
    const struct kept_record *newest = &lane->newest;
    if (newest->valid && !record_before(newest->record.step, newest->record.round, record))
        return false;
    keep(&lane->newest, record);
    struct kept_record *verdict = &lane->verdict[record->step & 1];
    if (!verdict->valid || verdict->record.step != record->step)
        keep(verdict, record);
    if (record->order == WEIR_ORDER_TRAIN)
        keep(&lane->train[record->step & 1], record);
    return true;
}

static const struct weir_record *find(const struct kept_record kept[2], uint64_t step)
{
    const struct kept_record *found = &kept[step & 1];
    return found->valid && found->record.step == step ? &found->record : NULL;
}

const struct weir_record *weir_ps_record_of(const struct weir_ps_lane *lane, uint64_t step)
{
    return find(lane->train, step);
}

const struct weir_record *weir_ps_record_verdict(const struct weir_ps_lane *lane, uint64_t step)
{
    return find(lane->verdict, step + 1);
}

void weir_ps_record_apply(struct weir_ps_lane *lane, struct weir_chunk *chunk, struct weir_actions *actions)
{
    if (chunk->state != WEIR_CHUNK_WAITING)
        return;
    const struct weir_record *record = weir_ps_record_of(lane, chunk->version);
    const struct weir_record *verdict = lane->config.gated ? weir_ps_record_verdict(lane, chunk->version) : NULL;
    if (record && (verdict || !lane->config.gated))
        weir_chunk_apply(chunk, record, verdict, &lane->chunk_counts, actions);
}

static void pass_on(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_action *action;
    if (lane->config.layout.lanes > 1) {
        action = weir_actions_tell(actions, WEIR_ACTOR_LANES, lane->config.lane, WEIR_ON_RECORD);
        action->has_body = true;
        action->body = *event->body;
    }
    if (event->kind == WEIR_ON_MESSAGE &&
        lane->config.copies > 1) { /* this server's recorder may have to go on from it */
        action = weir_actions_tell(actions, WEIR_ACTOR_RECORDER, 0, WEIR_ON_RECORD);
        action->has_body = true;
        action->body = *event->body;
    }
}

void weir_ps_record_take(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    struct chain *chain = &lane->record_chain;
    if (keep_newer(lane, &event->body->record)) {
        if (lane->config.lane == 0)
            pass_on(lane, event, actions);
        chain->unreleased =
            leads_record(lane) && !weir_ps_chain_acked(chain, lane->newest.record.step, lane->newest.record.round);
        for (uint32_t i = 0; i < lane->chunk_count; i++)
            weir_ps_record_apply(lane, &lane->chunks[i], actions);
    }
    if (event->kind == WEIR_ON_MESSAGE && is_server(lane, event->peer) && follows(lane, chain))
        lane->streams[event->peer].record_note = true;
    weir_ps_stream_pump_all(lane, actions);
}

const struct weir_record *weir_ps_record_after(const struct weir_ps_lane *lane, bool has, uint64_t step, uint32_t round)
{
    if (!lane->newest.valid)
        return NULL;
    const struct weir_record *newest = &lane->newest.record;
    const struct weir_record *before = newest->step ? weir_ps_record_of(lane, newest->step - 1) : NULL;
    if (before && (!has || record_before(step, round, before)))
        return before;
    return !has || record_before(step, round, newest) ? newest : NULL;
}

void weir_ps_partial_keep(struct weir_ps_lane *lane, const struct weir_partial *partial, struct weir_actions *actions)
{
    assert(lane->config.lane == 0);
    struct partial_box *box = &lane->boxes[partial->chunk];
    assert(box->chunk == partial->chunk && box->count == partial->square_count);
    box->present = true;
    box->sent = false;
    box->step = partial->step;
    memcpy(box->squares, partial->squares, box->count * sizeof(double));
    weir_ps_partial_send(lane, false, actions);
}

static struct weir_partial partial_of(const struct weir_ps_lane *lane, const struct partial_box *box)
{
    return (struct weir_partial){
        .generation = lane->config.generation,
        .step = box->step,
        .chunk = box->chunk,
        .squares = box->squares,
        .square_count = box->count,
    };
}

/* To the recorder that makes the record, if it can be reached. */
static bool send_partial(struct weir_ps_lane *lane, const struct partial_box *box, struct weir_actions *actions)
{
    uint32_t peer = server_peer(lane, lane->record_chain.view.primary);
    if (leads_record(lane)) {
        struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_RECORDER, 0, WEIR_ON_PARTIAL);
        action->has_body = true;
        action->body.type = WEIR_PARTIAL;
        action->body.partial = partial_of(lane, box);
        return true;
    }
    if (!lane->streams[peer].up)
        return false;
    weir_actions_send(actions, peer, WEIR_PARTIAL)->partial = partial_of(lane, box);
    lane->streams[peer].unsent++;
    return true;
}

void weir_ps_partial_send(struct weir_ps_lane *lane, bool again, struct weir_actions *actions)
{
    for (uint32_t c = 0; c < lane->box_count; c++) {
        struct partial_box *box = &lane->boxes[c];
        if (again)
            box->sent = false;
        if (box->present && !box->sent && lane->primaries[c] == lane->config.self &&
            !weir_ps_record_verdict(lane, box->step))
            box->sent = send_partial(lane, box, actions);
    }
}
