/* The lane core's streams: what each peer has still to be told, and in which order. */
#include "ps/lane_state.h"

#include <assert.h>
#include <string.h>

void weir_ps_stream_note_one(struct weir_ps_lane *lane, uint32_t peer, uint32_t local, uint8_t what)
{
    struct stream *stream = &lane->streams[peer];
    if (!stream->up)
        return;
    if (!(stream->pending[local] & PENDING_IN_RING)) {
        assert(stream->ring_count < lane->chunk_count);
        stream->ring[(stream->ring_head + stream->ring_count++) % lane->chunk_count] = local;
    }
    stream->pending[local] |= what | PENDING_IN_RING;
}

void weir_ps_stream_hello(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    size_t count = 0;
    for (uint32_t i = 0; i < lane->chunk_count; i++)
        if (lane->chunks[i].held)
            lane->held[count++] = (struct weir_held){
                .chunk = lane->chunks[i].id, .version = lane->chunks[i].version, .chain = lane->chains[i].view.chain};
    struct weir_hello *hello = &weir_actions_send(actions, peer, WEIR_HELLO)->hello;
    *hello = (struct weir_hello){
        .role = WEIR_NODE_PS,
        .index = lane->config.self,
        .incarnation = lane->config.incarnation,
        .generation = lane->config.generation,
        .view = lane->config.view,
        .job_hash = lane->config.job_hash,
        .numerics = lane->config.numerics,
        .address = "",
        .canonical = "",
        .has_record = lane->newest.valid,
        .record_step = lane->newest.record.step,
        .record_round = lane->newest.record.round,
        .held = lane->held,
        .held_count = count,
    };
    lane->streams[peer].unsent++;
}

void weir_ps_stream_down(struct weir_ps_lane *lane, uint32_t peer)
{
    struct stream *stream = &lane->streams[peer];
    stream->up = false;
    stream->unsent = 0;
    stream->ring_head = stream->ring_count = 0;
    stream->fetch_head = stream->fetch_count = 0;
    stream->record_note = stream->may_copy = false;
    memset(stream->pending, 0, lane->chunk_count);
    if (is_server(lane, peer))
        weir_ps_chain_lost(lane, peer - lane->config.workers);
}

/* The version of a chunk that the Hello says the peer holds. */
static uint64_t version_held(const struct weir_hello *hello, uint32_t chunk)
{
    for (size_t i = 0; i < hello->held_count; i++)
        if (hello->held[i].chunk == chunk)
            return hello->held[i].version;
    return WEIR_NO_VERSION;
}

void weir_ps_stream_note_lacking(struct weir_ps_lane *lane, uint32_t worker, uint32_t local)
{
    const struct weir_chunk *chunk = &lane->chunks[local];
    uint64_t held = lane->streams[worker].held[local];
    uint8_t what = weir_chunk_covered(chunk) ? PENDING_COVERED : 0;
    if (held == WEIR_NO_VERSION || held < chunk->version) {
        what |= PENDING_NEW;
        if (chunk->has_old && (held == WEIR_NO_VERSION || held < chunk->version - 1))
            what |= PENDING_OLD;
    }
    if (what)
        weir_ps_stream_note_one(lane, worker, local, what);
}

/* What it holds is kept: this server may come to lead more chunks. */
static void greet_worker(struct weir_ps_lane *lane, uint32_t worker, const struct weir_hello *hello)
{
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        uint32_t id = lane->chunks[i].id;
        /* Both sides list chunks in the same order, so the i-th entry is it, as a rule. */
        bool there = i < hello->held_count && hello->held[i].chunk == id;
        lane->streams[worker].held[i] = there ? hello->held[i].version : version_held(hello, id);
        if (leads(lane, i))
            weir_ps_stream_note_lacking(lane, worker, i);
    }
}

/* The record's primary tells everybody, and a follower what it has. */
static void greet_server(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    if (lane->config.copies > 1)
        weir_ps_chain_tell(lane, peer - lane->config.workers);
    if (lane->config.lane == 0 && server_peer(lane, lane->record_chain.view.primary) == peer)
        weir_ps_partial_send(lane, true, actions);
}

/* What was promised to it may not have reached the chief. */
static void greet_chief(struct weir_ps_lane *lane, uint32_t peer)
{
    for (uint32_t i = 0; i < lane->chunk_count; i++)
        if (leads(lane, i) && lane->chains[i].vowed)
            weir_ps_stream_note_one(lane, peer, i, PENDING_FULL);
    lane->streams[peer].record_note = leads_record(lane) && lane->record_chain.vowed;
}

void weir_ps_stream_greet(struct weir_ps_lane *lane, uint32_t peer, const struct weir_hello *hello, bool again,
                          struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    bool we_connected = is_server(lane, peer) && lane->links[peer - lane->config.workers].used;
    uint32_t unsent = stream->unsent;
    if (!again) {
        weir_ps_stream_down(lane, peer);
        stream->up = true;
    }
    stream->has_record = hello->has_record;
    stream->record_step = hello->record_step;
    stream->record_round = hello->record_round;
    if (we_connected && !again)
        stream->unsent = unsent;
    else if (!again)
        weir_ps_stream_hello(lane, peer, actions);
    if (peer < lane->config.workers)
        greet_worker(lane, peer, hello);
    else if (is_server(lane, peer))
        greet_server(lane, peer, actions);
    else if (peer == chief_peer(lane))
        greet_chief(lane, peer);
}

void weir_ps_stream_note(struct weir_ps_lane *lane, uint32_t local, uint8_t what)
{
    for (uint32_t w = 0; w < lane->config.workers; w++) {
        struct stream *stream = &lane->streams[w];
        if (!stream->up)
            continue;
        uint8_t *pending = &stream->pending[local];
        bool lacks_old = *pending & PENDING_NEW; /* it takes the step over, perhaps, and will need both */
        if (what & PENDING_NEW)                  /* newer weights say that the step before was covered */
            *pending &= PENDING_IN_RING;
        weir_ps_stream_note_one(lane, w, local, lacks_old && what & PENDING_NEW ? what | PENDING_OLD : what);
    }
}

static void send_weights(struct weir_ps_lane *lane, uint32_t peer, uint32_t local, uint64_t version, uint32_t part,
                         struct weir_actions *actions)
{
    weir_actions_send(actions, peer, WEIR_WEIGHTS)->weights =
        (struct weir_weights){.chunk = lane->chunks[local].id, .version = version, .part = part};
    lane->streams[peer].unsent++;
    if (peer < lane->config.workers && part == 0)
        lane->streams[peer].held[local] = version;
}

/* What is pending may be out of date where the chunk has changed hands. */
static uint8_t still_true(const struct weir_ps_lane *lane, uint32_t local, uint8_t pending)
{
    const struct weir_chunk *chunk = &lane->chunks[local];
    bool released = chunk->held && leads(lane, local) && !lane->chains[local].unreleased;
    if (!chunk->held || !leads(lane, local) || !chunk->has_old)
        pending &= (uint8_t)~PENDING_OLD;
    if (!released)
        pending &= (uint8_t)~PENDING_NEW;
    if (!chunk->held || !weir_chunk_covered(chunk))
        pending &= (uint8_t)~PENDING_COVERED;
    if (!leads(lane, local) || !lane->chains[local].vowed)
        pending &= (uint8_t)~PENDING_FULL;
    return pending;
}

static void send_forward(struct weir_ps_lane *lane, uint32_t peer, uint32_t local, struct weir_actions *actions)
{
    const struct weir_chunk *chunk = &lane->chunks[local];
    struct chain *chain = &lane->chains[local];
    struct follower *follower = weir_ps_chain_follower(chain, peer - lane->config.workers);
    if (!leads(lane, local) || !follower || !weir_ps_chain_forwards(chunk, follower))
        return;
    follower->sent = chunk->sum_step + 1;
    weir_actions_send(actions, peer, WEIR_FORWARD)->forward = (struct weir_forward){
        .generation = lane->config.generation,
        .step = chunk->sum_step,
        .chunk = chunk->id,
        .chain = chain->view.chain,
    };
    lane->streams[peer].unsent++;
}

static void send_ack(struct weir_ps_lane *lane, uint32_t peer, uint32_t local, struct weir_actions *actions)
{
    const struct weir_chunk *chunk = &lane->chunks[local];
    const struct chain *chain = &lane->chains[local];
    if (!follows(lane, chain) || server_peer(lane, chain->view.primary) != peer)
        return;
    weir_actions_send(actions, peer, WEIR_ACK)->ack = (struct weir_ack){
        .generation = lane->config.generation,
        .chunk = chunk->id,
        .version = chunk->held ? chunk->version : WEIR_NO_VERSION,
        .chain = chain->view.chain,
    };
    lane->streams[peer].unsent++;
}

static void send_covered(struct weir_ps_lane *lane, uint32_t peer, const struct weir_chunk *chunk,
                         struct weir_actions *actions)
{
    weir_actions_send(actions, peer, WEIR_COVERED)->covered =
        (struct weir_covered){.step = chunk->version, .chunk = chunk->id};
    lane->streams[peer].unsent++;
}

static void send_full(struct weir_ps_lane *lane, uint32_t peer, uint32_t chunk, const struct chain *chain,
                      struct weir_actions *actions)
{
    weir_actions_send(actions, peer, WEIR_FULL)->full =
        (struct weir_full){.generation = lane->config.generation, .chunk = chunk, .chain = chain->view.chain};
    lane->streams[peer].unsent++;
}

/* One pending thing of the oldest chunk of the ring. */
static void send_pending(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    static const uint8_t order[] = {PENDING_ACK, PENDING_FORWARD, PENDING_FULL,
                                    PENDING_OLD, PENDING_NEW,     PENDING_COVERED};
    struct stream *stream = &lane->streams[peer];
    uint32_t local = stream->ring[stream->ring_head];
    const struct weir_chunk *chunk = &lane->chunks[local];
    uint8_t *pending = &stream->pending[local], what = 0;
    *pending = still_true(lane, local, *pending);
    for (size_t i = 0; i < sizeof order && !what; i++)
        what = *pending & order[i];
    *pending &= (uint8_t)~what;
    if (what == PENDING_ACK)
        send_ack(lane, peer, local, actions);
    else if (what == PENDING_FORWARD)
        send_forward(lane, peer, local, actions);
    else if (what == PENDING_FULL)
        send_full(lane, peer, chunk->id, &lane->chains[local], actions);
    else if (what == PENDING_OLD)
        send_weights(lane, peer, local, chunk->version - 1, 0, actions);
    else if (what == PENDING_NEW)
        send_weights(lane, peer, local, chunk->version, 0, actions);
    else if (what == PENDING_COVERED)
        send_covered(lane, peer, chunk, actions);
    if (*pending & ~PENDING_IN_RING)
        return;
    *pending = 0;
    stream->ring_head = (stream->ring_head + 1) % lane->chunk_count;
    stream->ring_count--;
}

/* All parts of a chunk, as they are now, in one go: then what was not sent before is of one state. */
static void send_copy(struct weir_ps_lane *lane, uint32_t peer, uint32_t local, struct weir_actions *actions)
{
    const struct weir_chunk *chunk = &lane->chunks[local];
    struct weir_weights part = {.chunk = chunk->id, .version = chunk->version, .chain = lane->chains[local].view.chain};
    lane->streams[peer].unsent += lane->config.slots + chunk->has_old + 1;
    for (part.part = 1; part.part <= lane->config.slots; part.part++)
        weir_actions_send(actions, peer, WEIR_WEIGHTS)->weights = part;
    part.part = 0;
    part.version = chunk->version - 1;
    if (chunk->has_old)
        weir_actions_send(actions, peer, WEIR_WEIGHTS)->weights = part;
    part.version = chunk->version;
    part.whole = true;
    weir_actions_send(actions, peer, WEIR_WEIGHTS)->weights = part;
}

/* The next chunk that the server lacks; when nothing else is under way to it, so that forwards need not wait. */
static bool send_next_copy(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    if (!stream->may_copy || stream->unsent > 0)
        return false;
    for (uint32_t n = 0; n < lane->chunk_count; n++) {
        uint32_t local = (stream->copy_at + n) % lane->chunk_count;
        struct follower *follower = weir_ps_chain_follower(&lane->chains[local], peer - lane->config.workers);
        if (!leads(lane, local) || !follower || !weir_ps_chain_copies(&lane->chunks[local], follower))
            continue;
        follower->sent = lane->chunks[local].version;
        stream->copy_at = local + 1;
        send_copy(lane, peer, local, actions);
        return true;
    }
    stream->may_copy = false;
    return false;
}

static void ack_record(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    const struct chain *chain = &lane->record_chain;
    if (!follows(lane, chain) || server_peer(lane, chain->view.primary) != peer)
        return;
    weir_actions_send(actions, peer, WEIR_ACK)->ack = (struct weir_ack){
        .generation = lane->config.generation,
        .chunk = WEIR_CHUNK_RECORD,
        .version = lane->newest.valid ? lane->newest.record.step : WEIR_NO_VERSION,
        .round = lane->newest.record.round,
        .chain = chain->view.chain,
    };
    lane->streams[peer].unsent++;
}

/* The record's primary sends it to everybody: to its followers first, and to others what those have acknowledged. */
static const struct weir_record *next_record(struct weir_ps_lane *lane, uint32_t peer)
{
    const struct stream *stream = &lane->streams[peer];
    struct chain *chain = &lane->record_chain;
    if (!leads_record(lane))
        return NULL;
    const struct weir_record *record =
        weir_ps_record_after(lane, stream->has_record, stream->record_step, stream->record_round);
    bool follower = is_server(lane, peer) && weir_ps_chain_follower(chain, peer - lane->config.workers);
    return record == &lane->newest.record && chain->unreleased && !follower ? NULL : record;
}

static bool send_record(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    if (stream->record_note) {
        stream->record_note = false;
        if (peer != chief_peer(lane))
            ack_record(lane, peer, actions);
        else if (leads_record(lane) && lane->record_chain.vowed)
            send_full(lane, peer, WEIR_CHUNK_RECORD, &lane->record_chain, actions);
        return true;
    }
    const struct weir_record *record = next_record(lane, peer);
    if (!record)
        return false;
    weir_actions_send(actions, peer, WEIR_RECORD)->record = *record;
    stream->unsent++;
    stream->has_record = true;
    stream->record_step = record->step;
    stream->record_round = record->round;
    return true;
}

static void send_gone(struct weir_ps_lane *lane, uint32_t peer, uint32_t chunk, uint64_t newest,
                      struct weir_actions *actions)
{
    weir_actions_send(actions, peer, WEIR_GONE)->gone = (struct weir_gone){.chunk = chunk, .newest = newest};
    lane->streams[peer].unsent++;
}

/* The version of a chunk that the fetch is about, if it can be answered now. */
static bool can_answer(const struct weir_ps_lane *lane, const struct fetch *fetch, uint32_t local, uint64_t *version)
{
    const struct weir_chunk *chunk = &lane->chunks[local];
    bool waits = lane->chains[local].unreleased;
    uint64_t released = waits ? chunk->version - 1 : chunk->version;
    if (waits && (chunk->version == 0 || (fetch->version == WEIR_NEWEST && !chunk->has_old)))
        return false;
    *version = fetch->version == WEIR_NEWEST ? released : fetch->version;
    if (*version > released)
        return false;
    /* Slots are written in place, by the last apply too: they rest once the chunk is at the stop record's version. Who
     * asks may have that record before this lane has. */
    return fetch->part == 0 || (!waits && lane->newest.valid && lane->newest.record.order == WEIR_ORDER_STOP &&
                                chunk->version >= lane->newest.record.step);
}

/* Answers the oldest fetch, if what it asks for is there or gone; false if it waits. */
static bool send_fetched(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    if (!stream->fetch_count)
        return false;
    const struct fetch *fetch = &stream->fetches[stream->fetch_head];
    uint32_t local = weir_layout_local(&lane->config.layout, fetch->chunk);
    const struct weir_chunk *chunk = &lane->chunks[local];
    uint64_t version;
    if (!leads(lane, local) || !chunk->held) {
        send_gone(lane, peer, chunk->id, WEIR_NO_VERSION, actions); /* a newer view says where it is */
    } else {
        if (!can_answer(lane, fetch, local, &version))
            return false;
        bool older = chunk->has_old && version == chunk->version - 1 && fetch->part == 0;
        if (version == chunk->version || older)
            send_weights(lane, peer, local, version, fetch->part, actions);
        else
            send_gone(lane, peer, chunk->id, chunk->version, actions);
    }
    stream->fetch_head = (stream->fetch_head + 1) % WEIR_FETCHES_MAX;
    stream->fetch_count--;
    return true;
}

void weir_ps_stream_pump(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    while (stream->up && stream->unsent < UNSENT_MAX) {
        if (send_record(lane, peer, actions))
            continue;
        if (stream->ring_count)
            send_pending(lane, peer, actions);
        else if (!send_fetched(lane, peer, actions) && !send_next_copy(lane, peer, actions))
            break;
    }
}

void weir_ps_stream_pump_all(struct weir_ps_lane *lane, struct weir_actions *actions)
{
    for (uint32_t peer = 0; peer < lane->peers; peer++)
        weir_ps_stream_pump(lane, peer, actions);
}

bool weir_ps_stream_fetch(struct weir_ps_lane *lane, uint32_t peer, const struct weir_fetch *fetch, const char **reason)
{
    struct stream *stream = &lane->streams[peer];
    *reason = NULL;
    if (fetch->part > lane->config.slots)
        *reason = "a fetch of a part that the optimizer does not have";
    else if (stream->fetch_count == WEIR_FETCHES_MAX)
        *reason = "more fetches at once than are kept";
    if (*reason)
        return false;
    stream->fetches[(stream->fetch_head + stream->fetch_count++) % WEIR_FETCHES_MAX] =
        (struct fetch){.chunk = fetch->chunk, .part = fetch->part, .version = fetch->version};
    return true;
}
