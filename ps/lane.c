#include "ps/lane.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ps/lane_state.h"

size_t weir_ps_lane_actions_max(const struct weir_ps_lane_config *config)
{
    size_t peers = (size_t)config->workers + config->layout.servers + 1 + config->observers;
    size_t chunks = weir_layout_count(&config->layout, config->lane);
    /* all streams closed, greeted and pumped, with a copy on each; all chunks dropped or applied; every Partial sent.
     * Few of them are ever touched. */
    return (7 + (size_t)config->slots) * peers + chunks * (config->replicas + (size_t)3) + config->replicas +
           2 * (size_t)config->layout.chunks + 16;
}

struct weir_ps_lane *weir_ps_lane_init(struct weir_arena *arena, const struct weir_ps_lane_config *config)
{
    struct weir_ps_lane *lane = weir_arena_take(arena, 1, sizeof *lane);
    lane->config = *config;
    lane->chunk_count = weir_layout_count(&config->layout, config->lane);
    lane->peers = config->workers + config->layout.servers + 1 + config->observers;
    lane->chunks = weir_arena_take(arena, lane->chunk_count, sizeof(struct weir_chunk));
    lane->held = weir_arena_take(arena, lane->chunk_count, sizeof(struct weir_held));
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        uint32_t id = weir_layout_chunk(&config->layout, config->lane, i);
        uint64_t bytes = 4 * (uint64_t)weir_layout_elements(&config->layout, id);
        weir_chunk_init(&lane->chunks[i], arena, id, config->first_version, bytes, config->replicas);
    }
    lane->streams = weir_arena_take(arena, lane->peers, sizeof(struct stream));
    for (uint32_t p = 0; p < lane->peers; p++) {
        lane->streams[p].pending = weir_arena_take(arena, lane->chunk_count, 1);
        lane->streams[p].ring = weir_arena_take(arena, lane->chunk_count, sizeof(uint32_t));
        if (p < config->workers)
            lane->streams[p].held = weir_arena_take(arena, lane->chunk_count, sizeof(uint64_t));
    }
    weir_ps_view_init(lane, arena);
    weir_ps_record_init(lane, arena);
    return lane;
}

void weir_ps_lane_fail(struct weir_ps_lane *lane, struct weir_actions *actions, const char *text)
{
    if (lane->failed)
        return;
    lane->failed = true;
    weir_actions_tell(actions, WEIR_ACTOR_NODE, 0, WEIR_ON_FAILED)->text = text;
}

void weir_ps_lane_reject(struct weir_ps_lane *lane, uint32_t peer, const char *text, struct weir_actions *actions)
{
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
    action->peer = peer;
    action->text = text;
    weir_ps_stream_down(lane, peer);
    if (peer < chief_peer(lane))
        weir_ps_lane_fail(lane, actions, text);
}

struct weir_chunk *weir_ps_lane_find(const struct weir_ps_lane *lane, uint32_t id)
{
    const struct weir_layout *layout = &lane->config.layout;
    if (id >= layout->chunks || weir_layout_lane(layout, id) != lane->config.lane)
        return NULL;
    return &lane->chunks[weir_layout_local(layout, id)];
}

/* In jobs without replication nobody asks a server for what another one holds. */
static struct weir_chunk *find_held(const struct weir_ps_lane *lane, uint32_t id)
{
    struct weir_chunk *chunk = weir_ps_lane_find(lane, id);
    return chunk && (chunk->held || chunk->replicated) ? chunk : NULL;
}

static void count_partly_received(struct weir_ps_lane *lane, bool was_partly, const struct weir_chunk *chunk)
{
    bool is_partly = !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
    lane->partly_received += (uint32_t)is_partly;
    lane->partly_received -= (uint32_t)was_partly;
    if (lane->partly_received > lane->partial_peak)
        lane->partial_peak = lane->partly_received;
}

void weir_ps_lane_added(struct weir_ps_lane *lane, struct weir_chunk *chunk, bool was_partly,
                        struct weir_actions *actions)
{
    uint32_t local = local_of(lane, chunk);
    bool sum = lane->config.gated || (leads(lane, local) && has_followers(&lane->chains[local]));
    bool complete = weir_chunk_complete(chunk, sum, &lane->chunk_counts, actions);
    count_partly_received(lane, was_partly, chunk);
    if (!complete)
        return;
    if (leads(lane, local))
        weir_ps_stream_note(lane, local, PENDING_COVERED);
    weir_ps_record_apply(lane, chunk, actions);
    if (chunk->state != WEIR_CHUNK_APPLYING) /* else the new weights say it, at once */
        weir_ps_stream_pump_all(lane, actions);
}

static void on_contribution(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_contribution *contribution = &event->body->contribution;
    struct weir_chunk *chunk = find_held(lane, contribution->chunk);
    if (contribution->generation != lane->config.generation) {
        weir_actions_release(actions, event->payload);
        return;
    }
    if (!chunk || event->peer >= lane->config.workers) {
        weir_actions_release(actions, event->payload);
        weir_ps_lane_reject(lane, event->peer,
                            chunk ? "a contribution from a node that is no worker"
                                  : "a contribution to a chunk that this lane does not hold",
                            actions);
        return;
    }
    bool was_partly = !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
    const char *wrong = weir_chunk_contribution(chunk, contribution, event->payload, event->payload_bytes, actions);
    if (wrong)
        weir_ps_lane_reject(lane, event->peer, wrong, actions);
    else
        weir_ps_lane_added(lane, chunk, was_partly, actions);
}

/* Released at once where nobody has to acknowledge it. */
static void on_applied(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_chunk *chunk = weir_ps_lane_find(lane, event->chunk);
    assert(chunk);
    if (!weir_chunk_applied(chunk, &lane->chunk_counts, actions))
        return;
    uint32_t local = local_of(lane, chunk);
    const struct chain *chain = &lane->chains[local];
    lane->chains[local].unreleased = leads(lane, local);
    weir_ps_chain_advance(lane, local);
    if (follows(lane, chain))
        weir_ps_stream_note_one(lane, server_peer(lane, chain->view.primary), local, PENDING_ACK);
    weir_ps_stream_pump_all(lane, actions);
}

static void keep_partial(struct weir_ps_lane *lane, const struct weir_chunk *chunk, const struct weir_event *event,
                         struct weir_actions *actions)
{
    struct weir_partial partial = {
        .generation = lane->config.generation,
        .step = chunk->version,
        .chunk = chunk->id,
        .squares = event->numbers,
        .square_count = event->number_count,
    };
    if (lane->config.lane == 0) {
        weir_ps_partial_keep(lane, &partial, actions);
        return;
    }
    struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_LANE, 0, WEIR_ON_PARTIAL);
    action->has_body = true;
    action->body.type = WEIR_PARTIAL;
    action->body.partial = partial;
}

static void on_summed(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_chunk *chunk = weir_ps_lane_find(lane, event->chunk);
    assert(chunk && (!lane->config.gated || event->number_count == lane->config.pieces[chunk->id]));
    if (!weir_chunk_summed(chunk, &lane->chunk_counts, actions))
        return;
    if (lane->config.gated)
        keep_partial(lane, chunk, event, actions);
    weir_ps_chain_advance(lane, local_of(lane, chunk)); /* the sum goes to those that follow, before it is applied */
    weir_ps_record_apply(lane, chunk, actions);
    weir_ps_stream_pump_all(lane, actions);
}

static void tell_recorder(enum weir_event_kind kind, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_RECORDER, 0, kind);
    action->has_body = true;
    action->body = *event->body;
}

static void on_seal(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    if (event->body->seal.replica < lane->config.replicas)
        tell_recorder(WEIR_ON_SEAL, event, actions);
    else
        weir_ps_lane_reject(lane, event->peer, "a seal of a replica that the job does not have", actions);
}

/* Which of two holders leads a chunk may not be known here yet. */
static void on_partial(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    uint32_t chunk = event->body->partial.chunk;
    if (chunk < lane->config.layout.chunks &&
        (lane->config.copies > 1 || server_peer(lane, lane->primaries[chunk]) == event->peer))
        tell_recorder(WEIR_ON_PARTIAL, event, actions);
    else
        weir_ps_lane_reject(lane, event->peer, "squares of a chunk that this server does not hold", actions);
}

static void on_fetch(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const char *reason = "a fetch of a chunk that this lane does not hold";
    if (find_held(lane, event->body->fetch.chunk) &&
        weir_ps_stream_fetch(lane, event->peer, &event->body->fetch, &reason))
        weir_ps_stream_pump(lane, event->peer, actions);
    else
        weir_ps_lane_reject(lane, event->peer, reason, actions);
}

/* The link to that peer, if this side opens the stream. */
static struct weir_link *link_of(struct weir_ps_lane *lane, uint32_t peer)
{
    struct weir_link *link = is_server(lane, peer) ? &lane->links[peer - lane->config.workers] : NULL;
    return link && link->used ? link : NULL;
}

/* In the place of the process that the view names another one answers: a newer view says so, soon. */
static void on_other_process(struct weir_ps_lane *lane, struct weir_link *link, uint64_t now_ns,
                             struct weir_actions *actions)
{
    if (lane->config.copies < 2) {
        weir_ps_lane_fail(lane, actions, weir_link_lost(link));
        return;
    }
    char why[sizeof link->error];
    memcpy(why, link->error, sizeof why);
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
    action->peer = link->target.peer;
    action->text = "another process than the one that the view names";
    weir_ps_stream_down(lane, link->target.peer);
    weir_link_closed(link, now_ns, why);
}

/* A worker, or another server, says Hello again when it enters a view. */
static void on_hello(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    uint32_t peer = event->peer;
    struct weir_link *link = link_of(lane, peer);
    bool again = lane->streams[peer].up;
    if (again && (lane->config.copies < 2 || peer >= chief_peer(lane))) {
        weir_ps_lane_reject(lane, peer, "a second Hello on one stream", actions);
    } else if (link && !again && !weir_link_greeted(link, &event->body->hello)) {
        on_other_process(lane, link, event->now_ns, actions);
    } else {
        weir_ps_stream_greet(lane, peer, &event->body->hello, again, actions);
        weir_ps_stream_pump(lane, peer, actions);
    }
}

/* It has not entered this view yet, or is to be taken for lost: whoever opens the stream tries again. */
static void on_refused(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    if (!event->body->refused.again)
        weir_ps_lane_fail(lane, actions, event->body->refused.reason);
}

/* Among servers. False: no such message. */
static bool on_server_message(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    uint32_t server = event->peer - lane->config.workers;
    bool replicated = lane->config.copies > 1, main_lane = lane->config.lane == 0;
    switch (event->body->type) {
    case WEIR_PARTIAL:
        if (!main_lane || !(replicated || leads_record(lane)))
            return false;
        on_partial(lane, event, actions);
        return true;
    case WEIR_ACK:
        if (replicated)
            weir_ps_chain_ack(lane, server, &event->body->ack, actions);
        return replicated;
    case WEIR_RECORD:
        if (!main_lane || !(replicated || link_of(lane, event->peer)))
            return false;
        weir_ps_record_take(lane, event, actions);
        return true;
    case WEIR_REFUSED:
        if (link_of(lane, event->peer))
            on_refused(lane, event, actions);
        return link_of(lane, event->peer);
    default:
        return false;
    }
}

static void on_message(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    bool replicated = lane->config.copies > 1, from_server = is_server(lane, event->peer);
    enum weir_message_type type = event->body->type;
    if (type == WEIR_CONTRIBUTION) {
        on_contribution(lane, event, actions);
        return;
    }
    if (replicated && from_server && type == WEIR_FORWARD) {
        weir_ps_chain_forward(lane, event, actions);
        return;
    }
    if (replicated && from_server && type == WEIR_WEIGHTS) {
        weir_ps_chain_copy(lane, event, actions);
        return;
    }
    weir_actions_release(actions, event->payload);
    bool seals = lane->config.lane == 0 && (replicated || leads_record(lane));
    if (type == WEIR_HELLO)
        on_hello(lane, event, actions);
    else if (type == WEIR_SEAL && seals && event->peer < lane->config.workers)
        on_seal(lane, event, actions);
    else if (type == WEIR_FETCH)
        on_fetch(lane, event, actions);
    else if (!from_server || !on_server_message(lane, event, actions))
        weir_ps_lane_reject(lane, event->peer, "a message that does not belong on this stream", actions);
}

static void on_closed(struct weir_ps_lane *lane, const struct weir_event *event)
{
    struct weir_link *link = link_of(lane, event->peer);
    weir_ps_stream_down(lane, event->peer);
    if (link)
        weir_link_closed(link, event->now_ns, event->text);
}

static void on_time(struct weir_ps_lane *lane, uint64_t now_ns, struct weir_actions *actions)
{
    for (uint32_t k = 0; k < lane->config.layout.servers; k++)
        if (weir_link_time(&lane->links[k], now_ns, actions))
            weir_ps_lane_fail(lane, actions, weir_link_lost(&lane->links[k]));
}

void weir_ps_lane_step(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    assert(event->peer < lane->peers);
    switch (event->kind) {
    case WEIR_ON_START:
        weir_ps_view_start(lane, event->now_ns, actions);
        break;
    case WEIR_ON_OPENED:
        weir_link_opened(&lane->links[event->peer - lane->config.workers]);
        weir_ps_stream_hello(lane, event->peer, actions);
        break;
    case WEIR_ON_CLOSED:
        on_closed(lane, event);
        break;
    case WEIR_ON_MESSAGE:
        on_message(lane, event, actions);
        break;
    case WEIR_ON_SENT:
        if (lane->streams[event->peer].unsent > 0)
            lane->streams[event->peer].unsent--;
        weir_ps_stream_pump(lane, event->peer, actions);
        break;
    case WEIR_ON_RECORD:
        weir_ps_record_take(lane, event, actions);
        break;
    case WEIR_ON_PARTIAL:
        weir_ps_partial_keep(lane, &event->body->partial, actions);
        break;
    case WEIR_ON_APPLIED:
        on_applied(lane, event, actions);
        break;
    case WEIR_ON_SUMMED:
        on_summed(lane, event, actions);
        break;
    case WEIR_ON_VIEW:
        weir_ps_view_enter(lane, &event->body->view, event->now_ns, actions);
        break;
    case WEIR_ON_TIME:
        on_time(lane, event->now_ns, actions);
        break;
    default:
        assert(!"an event that a lane does not have");
    }
}

uint64_t weir_ps_lane_deadline(const struct weir_ps_lane *lane)
{
    uint64_t first = WEIR_NEVER;
    for (uint32_t k = 0; !lane->failed && k < lane->config.layout.servers; k++) {
        uint64_t deadline = weir_link_deadline(&lane->links[k]);
        first = deadline < first ? deadline : first;
    }
    return first;
}

const struct weir_machine_counts *weir_ps_lane_chunk_counts(const struct weir_ps_lane *lane)
{
    return &lane->chunk_counts;
}

const struct weir_machine_counts *weir_ps_lane_link_counts(const struct weir_ps_lane *lane)
{
    return &lane->link_counts;
}

uint32_t weir_ps_lane_partial_peak(const struct weir_ps_lane *lane)
{
    return lane->partial_peak;
}
