/* The lane core's streams: what each peer has still to be told, and in which order. */
#include "ps/lane_state.h"

#include <assert.h>
#include <string.h>

static void push_ring(const struct weir_ps_lane *lane, struct stream *stream, uint32_t local, uint8_t what)
{
    if (!(stream->pending[local] & PENDING_IN_RING)) {
        assert(stream->ring_count < lane->chunk_count);
        stream->ring[(stream->ring_head + stream->ring_count++) % lane->chunk_count] = local;
    }
    stream->pending[local] |= what | PENDING_IN_RING;
}

void weir_ps_stream_hello(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    for (uint32_t i = 0; i < lane->chunk_count; i++)
        lane->held[i] = (struct weir_held){.chunk = lane->chunks[i].id, .version = lane->chunks[i].version};
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
        .held_count = lane->chunk_count,
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
    memset(stream->pending, 0, lane->chunk_count);
}

/* The version of a chunk that the Hello says the peer holds. */
static uint64_t version_held(const struct weir_hello *hello, uint32_t chunk)
{
    for (size_t i = 0; i < hello->held_count; i++)
        if (hello->held[i].chunk == chunk)
            return hello->held[i].version;
    return WEIR_NO_VERSION;
}

static void note_lacking(struct weir_ps_lane *lane, struct stream *stream, const struct weir_hello *hello)
{
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        const struct weir_chunk *chunk = &lane->chunks[i];
        /* Both sides list chunks in the same order, so the i-th entry is it, as a rule. */
        uint64_t held = i < hello->held_count && hello->held[i].chunk == chunk->id ? hello->held[i].version
                                                                                   : version_held(hello, chunk->id);
        uint8_t what = weir_chunk_covered(chunk) ? PENDING_COVERED : 0;
        if (held == WEIR_NO_VERSION || held < chunk->version) {
            what |= PENDING_NEW;
            if (chunk->has_old && (held == WEIR_NO_VERSION || held < chunk->version - 1))
                what |= PENDING_OLD;
        }
        if (what)
            push_ring(lane, stream, i, what);
    }
}

void weir_ps_stream_greet(struct weir_ps_lane *lane, uint32_t peer, const struct weir_hello *hello,
                          struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    bool we_connected = peer == recorder_peer(lane) && lane->recorder.used;
    uint32_t unsent = stream->unsent;
    weir_ps_stream_down(lane, peer);
    stream->up = true;
    stream->has_record = hello->has_record;
    stream->record_step = hello->record_step;
    stream->record_round = hello->record_round;
    stream->records = holds_record(lane);
    stream->weights = peer < lane->config.workers; /* one that stands by is not connected */
    if (we_connected) {
        stream->unsent = unsent;
        stream->records = false;
        weir_ps_partial_send(lane, true, actions);
        return;
    }
    weir_ps_stream_hello(lane, peer, actions);
    if (stream->weights)
        note_lacking(lane, stream, hello);
}

void weir_ps_stream_note(struct weir_ps_lane *lane, uint32_t local, uint8_t what)
{
    for (uint32_t w = 0; w < lane->config.workers; w++) {
        struct stream *stream = &lane->streams[w];
        if (!stream->up || !stream->weights)
            continue;
        uint8_t *pending = &stream->pending[local];
        bool lacks_old = *pending & PENDING_NEW; /* it takes the step over, perhaps, and will need both */
        if (what & PENDING_NEW)                  /* newer weights say that the step before was covered */
            *pending &= PENDING_IN_RING;
        push_ring(lane, stream, local, lacks_old && what & PENDING_NEW ? what | PENDING_OLD : what);
    }
}

static void send_weights(struct weir_ps_lane *lane, uint32_t peer, uint32_t chunk, uint64_t version, uint32_t part,
                         struct weir_actions *actions)
{
    weir_actions_send(actions, peer, WEIR_WEIGHTS)->weights =
        (struct weir_weights){.chunk = chunk, .version = version, .part = part};
    lane->streams[peer].unsent++;
}

/* The oldest pending thing of the ring. */
static void send_pending(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    uint32_t local = stream->ring[stream->ring_head];
    const struct weir_chunk *chunk = &lane->chunks[local];
    uint8_t *pending = &stream->pending[local];
    if (*pending & PENDING_OLD) {
        *pending &= (uint8_t)~PENDING_OLD;
        if (chunk->has_old)
            send_weights(lane, peer, chunk->id, chunk->version - 1, 0, actions);
    } else if (*pending & PENDING_NEW) {
        *pending &= (uint8_t)~PENDING_NEW;
        send_weights(lane, peer, chunk->id, chunk->version, 0, actions);
    } else if (*pending & PENDING_COVERED) {
        *pending &= (uint8_t)~PENDING_COVERED;
        weir_actions_send(actions, peer, WEIR_COVERED)->covered =
            (struct weir_covered){.step = chunk->version, .chunk = chunk->id};
        stream->unsent++;
    }
    if (*pending & ~PENDING_IN_RING)
        return;
    *pending = 0;
    stream->ring_head = (stream->ring_head + 1) % lane->chunk_count;
    stream->ring_count--;
}

static bool send_record(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    const struct weir_record *record =
        stream->records ? weir_ps_record_after(lane, stream->has_record, stream->record_step, stream->record_round)
                        : NULL;
    if (!record)
        return false;
    weir_actions_send(actions, peer, WEIR_RECORD)->record = *record;
    stream->unsent++;
    stream->has_record = true;
    stream->record_step = record->step;
    stream->record_round = record->round;
    return true;
}

/* Answers the oldest fetch, if what it asks for is there or gone; false if it waits. */
static bool send_fetched(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    struct stream *stream = &lane->streams[peer];
    if (!stream->fetch_count)
        return false;
    const struct fetch *fetch = &stream->fetches[stream->fetch_head];
    const struct weir_chunk *chunk = &lane->chunks[weir_layout_local(&lane->config.layout, fetch->chunk)];
    uint64_t version = fetch->version == WEIR_NEWEST ? chunk->version : fetch->version;
    if (version > chunk->version)
        return false;
    /* Slots are written in place, by the last apply too: they rest once the chunk is at the stop record's version. Who
     * asks may have that record before this lane has. */
    if (fetch->part > 0 && !(lane->newest.valid && lane->newest.record.order == WEIR_ORDER_STOP &&
                             chunk->version >= lane->newest.record.step))
        return false;
    bool alive = version == chunk->version || (chunk->has_old && version == chunk->version - 1 && fetch->part == 0);
    if (alive) {
        send_weights(lane, peer, chunk->id, version, fetch->part, actions);
    } else {
        weir_actions_send(actions, peer, WEIR_GONE)->gone =
            (struct weir_gone){.chunk = chunk->id, .newest = chunk->version};
        stream->unsent++;
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
        else if (!send_fetched(lane, peer, actions))
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
    const struct weir_layout *layout = &lane->config.layout;
    struct stream *stream = &lane->streams[peer];
    *reason = NULL;
    if (fetch->chunk >= layout->chunks || weir_layout_server(layout, fetch->chunk) != lane->config.self ||
        weir_layout_lane(layout, fetch->chunk) != lane->config.lane)
        *reason = "a fetch of a chunk that this lane does not hold";
    else if (fetch->part > lane->config.slots)
        *reason = "a fetch of a part that the optimizer does not have";
    else if (stream->fetch_count == WEIR_FETCHES_MAX)
        *reason = "more fetches at once than are kept";
    if (*reason)
        return false;
    stream->fetches[(stream->fetch_head + stream->fetch_count++) % WEIR_FETCHES_MAX] =
        (struct fetch){.chunk = fetch->chunk, .part = fetch->part, .version = fetch->version};
    return true;
}
