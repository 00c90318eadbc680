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
    for (uint32_t l = 0; l < config->layout.lanes; l++)
        lane->box_count += weir_layout_count(&config->layout, config->self, l);
    lane->boxes = weir_arena_take(arena, lane->box_count, sizeof(struct partial_box));
    for (uint32_t i = 0; i < lane->box_count; i++) {
        struct partial_box *box = &lane->boxes[i];
        box->chunk = i * config->layout.servers + config->self;
        box->count = config->pieces[box->chunk];
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

bool weir_ps_record_keep(struct weir_ps_lane *lane, const struct weir_record *record)
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
    struct partial_box *box = &lane->boxes[partial->chunk / lane->config.layout.servers];
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

void weir_ps_partial_send(struct weir_ps_lane *lane, bool again, struct weir_actions *actions)
{
    uint32_t peer = recorder_peer(lane);
    for (uint32_t i = 0; i < lane->box_count; i++) {
        struct partial_box *box = &lane->boxes[i];
        if (!box->present || weir_ps_record_verdict(lane, box->step))
            continue;
        if (again)
            box->sent = false;
        if (box->sent)
            continue;
        if (holds_record(lane)) {
            struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_RECORDER, 0, WEIR_ON_PARTIAL);
            action->has_body = true;
            action->body.type = WEIR_PARTIAL;
            action->body.partial = partial_of(lane, box);
        } else if (weir_link_up(&lane->recorder)) {
            weir_actions_send(actions, peer, WEIR_PARTIAL)->partial = partial_of(lane, box);
            lane->streams[peer].unsent++;
        } else {
            continue;
        }
        box->sent = true;
    }
}
