/* The lane core's chains: a chunk's primary forwards each sum to those that follow it, copies to them what they lack,
 * and releases a version when all that have to be there have acknowledged it.
 *
 * An Ack that names the primary's own chain makes a follower known; before that nothing is sent to it. What was sent to
 * one and not acknowledged is waited for: only then the next sum is forwarded, or, if it is no longer kept, the chunk
 * copied.
 */
#include "ps/lane_state.h"

#include <assert.h>

void weir_ps_chain_set(struct chain *chain, const struct weir_view_chunk *view)
{
    chain->view = *view;
    chain->vowed = false;
    chain->followers[0] = (struct follower){view->standby, false, WEIR_NO_VERSION, WEIR_NO_VERSION, 0};
    chain->followers[1] = (struct follower){view->filling, false, WEIR_NO_VERSION, WEIR_NO_VERSION, 0};
}

struct follower *weir_ps_chain_follower(struct chain *chain, uint32_t server)
{
    for (int f = 0; f < FOLLOWERS; f++)
        if (chain->followers[f].server == server)
            return &chain->followers[f];
    return NULL;
}

static bool has(const struct follower *follower, uint64_t version, uint32_t round)
{
    return follower->acked != WEIR_NO_VERSION &&
           (follower->acked > version || (follower->acked == version && follower->round >= round));
}

bool weir_ps_chain_acked(const struct chain *chain, uint64_t version, uint32_t round)
{
    if (chain->view.standby != WEIR_NO_SERVER && !has(&chain->followers[0], version, round))
        return false;
    return !chain->vowed || has(&chain->followers[1], version, round);
}

bool weir_ps_chain_forwards(const struct weir_chunk *chunk, const struct follower *follower)
{
    return follower->known && chunk->held && chunk->has_sum && chunk->state != WEIR_CHUNK_SUMMING &&
           follower->acked == chunk->sum_step && follower->sent == follower->acked;
}

bool weir_ps_chain_copies(const struct weir_chunk *chunk, const struct follower *follower)
{
    bool behind = follower->acked == WEIR_NO_VERSION || follower->acked < chunk->version;
    return follower->known && chunk->held && chunk->state != WEIR_CHUNK_APPLYING && follower->sent == follower->acked &&
           behind && !weir_ps_chain_forwards(chunk, follower);
}

/* The filling server has all: from now on nothing is released without it, and the chief may make it a holder. */
static void try_vow(struct weir_ps_lane *lane, uint32_t local)
{
    struct chain *chain = &lane->chains[local];
    if (chain->vowed || chain->view.filling == WEIR_NO_SERVER ||
        !has(&chain->followers[1], lane->chunks[local].version, 0))
        return;
    chain->vowed = true;
    weir_ps_stream_note_one(lane, chief_peer(lane), local, PENDING_FULL);
}

void weir_ps_chain_advance(struct weir_ps_lane *lane, uint32_t local)
{
    struct weir_chunk *chunk = &lane->chunks[local];
    struct chain *chain = &lane->chains[local];
    if (!leads(lane, local) || !chunk->held)
        return;
    try_vow(lane, local);
    if (chain->unreleased && weir_ps_chain_acked(chain, chunk->version, 0)) {
        chain->unreleased = false;
        weir_ps_stream_note(lane, local, PENDING_NEW);
    }
    for (int f = 0; f < FOLLOWERS; f++) {
        const struct follower *follower = &chain->followers[f];
        if (follower->server == WEIR_NO_SERVER)
            continue;
        if (weir_ps_chain_forwards(chunk, follower))
            weir_ps_stream_note_one(lane, server_peer(lane, follower->server), local, PENDING_FORWARD);
        else if (weir_ps_chain_copies(chunk, follower))
            lane->streams[server_peer(lane, follower->server)].may_copy = true;
    }
}

static void ack_record(struct weir_ps_lane *lane, uint32_t server, const struct weir_ack *ack)
{
    struct chain *chain = &lane->record_chain;
    struct follower *follower = weir_ps_chain_follower(chain, server);
    if (!leads_record(lane) || !follower || !weir_chain_same(ack->chain, chain->view.chain))
        return;
    follower->known = true;
    if (has(follower, ack->version, ack->round))
        return; /* sent again */
    follower->acked = ack->version;
    follower->round = ack->round;
    if (!lane->newest.valid)
        return;
    const struct weir_record *newest = &lane->newest.record;
    if (!chain->vowed && chain->view.filling != WEIR_NO_SERVER &&
        has(&chain->followers[1], newest->step, newest->round)) {
        chain->vowed = true;
        lane->streams[chief_peer(lane)].record_note = true;
    }
    if (weir_ps_chain_acked(chain, newest->step, newest->round))
        chain->unreleased = false;
}

void weir_ps_chain_ack(struct weir_ps_lane *lane, uint32_t server, const struct weir_ack *ack,
                       struct weir_actions *actions)
{
    if (ack->generation != lane->config.generation)
        return;
    if (ack->chunk == WEIR_CHUNK_RECORD) {
        ack_record(lane, server, ack);
        weir_ps_stream_pump_all(lane, actions);
        return;
    }
    struct weir_chunk *chunk = weir_ps_lane_find(lane, ack->chunk);
    if (!chunk) {
        weir_ps_lane_reject(lane, server_peer(lane, server), "an Ack of a chunk of another lane", actions);
        return;
    }
    uint32_t local = local_of(lane, chunk);
    struct chain *chain = &lane->chains[local];
    struct follower *follower = weir_ps_chain_follower(chain, server);
    if (!leads(lane, local) || !follower || !weir_chain_same(ack->chain, chain->view.chain))
        return; /* of an earlier chain, or a later one */
    if (follower->known && follower->acked != WEIR_NO_VERSION &&
        (ack->version == WEIR_NO_VERSION || ack->version < follower->acked))
        return; /* sent again: it has more by now */
    if (!follower->known || ack->version == follower->sent)
        follower->sent = ack->version;
    follower->known = true;
    follower->acked = ack->version;
    weir_ps_chain_advance(lane, local);
    weir_ps_stream_pump_all(lane, actions);
}

/* Only the primary of this server's own view has a say, in the same chain. */
static bool is_from_primary(const struct weir_ps_lane *lane, const struct weir_chunk *chunk, uint32_t peer,
                            struct weir_chain chain)
{
    const struct chain *own = &lane->chains[local_of(lane, chunk)];
    return follows(lane, own) && is_server(lane, peer) && server_peer(lane, own->view.primary) == peer &&
           weir_chain_same(own->view.chain, chain);
}

void weir_ps_chain_forward(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_forward *forward = &event->body->forward;
    struct weir_chunk *chunk = weir_ps_lane_find(lane, forward->chunk);
    if (!chunk || !is_server(lane, event->peer)) {
        weir_actions_release(actions, event->payload);
        weir_ps_lane_reject(lane, event->peer, "a Forward that does not belong on this stream", actions);
        return;
    }
    if (forward->generation != lane->config.generation || !is_from_primary(lane, chunk, event->peer, forward->chain)) {
        weir_actions_release(actions, event->payload);
        return;
    }
    struct weir_contribution sum = {.generation = forward->generation, .step = forward->step, .chunk = forward->chunk};
    while (UINT64_C(1) << sum.level < lane->config.replicas) /* the root of the tree: all there is */
        sum.level++;
    bool was_partly = !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
    const char *wrong = weir_chunk_contribution(chunk, &sum, event->payload, event->payload_bytes, actions);
    if (wrong)
        weir_ps_lane_reject(lane, event->peer, wrong, actions);
    else
        weir_ps_lane_added(lane, chunk, was_partly, actions);
}

void weir_ps_chain_copy(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_weights *weights = &event->body->weights;
    struct weir_chunk *chunk = weir_ps_lane_find(lane, weights->chunk);
    if (!chunk || !is_server(lane, event->peer) || weights->version >= WEIR_HOLDS_ALWAYS) {
        weir_actions_release(actions, event->payload);
        weir_ps_lane_reject(lane, event->peer, "weights that do not belong on this stream", actions);
        return;
    }
    if (!is_from_primary(lane, chunk, event->peer, weights->chain)) {
        weir_actions_release(actions, event->payload);
        return;
    }
    bool was_partly = !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
    const char *wrong = weir_chunk_copy(chunk, weights, event->payload, event->payload_bytes, lane->config.slots,
                                        &lane->chunk_counts, actions);
    if (wrong) {
        weir_ps_lane_reject(lane, event->peer, wrong, actions);
        return;
    }
    if (!weights->whole)
        return;
    lane->partly_received -= was_partly;
    weir_ps_stream_note_one(lane, event->peer, local_of(lane, chunk), PENDING_ACK);
    weir_ps_stream_pump(lane, event->peer, actions);
}

void weir_ps_chain_tell(struct weir_ps_lane *lane, uint32_t server)
{
    uint32_t peer = server_peer(lane, server);
    for (uint32_t i = 0; i < lane->chunk_count; i++)
        if (lane->chains[i].view.primary == server && follows(lane, &lane->chains[i]))
            weir_ps_stream_note_one(lane, peer, i, PENDING_ACK);
    if (lane->config.lane == 0 && lane->record_chain.view.primary == server && follows(lane, &lane->record_chain))
        lane->streams[peer].record_note = true;
}

static void lose(struct chain *chain, uint32_t server)
{
    struct follower *follower = weir_ps_chain_follower(chain, server);
    if (follower)
        *follower = (struct follower){server, false, WEIR_NO_VERSION, WEIR_NO_VERSION, 0};
}

void weir_ps_chain_lost(struct weir_ps_lane *lane, uint32_t server)
{
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        if (lane->chains[i].view.primary == server)
            lane->chunks[i].copied_parts = 0;
        if (leads(lane, i))
            lose(&lane->chains[i], server);
    }
    lose(&lane->record_chain, server);
}
