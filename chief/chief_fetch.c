/* The chief's streams to the parameter servers: it follows the record, and fetches the result. */
#include <assert.h>
#include <stdio.h>

#include "chief/chief_state.h"

static struct fetch_stream *stream_of(struct weir_chief *chief, uint32_t peer)
{
    assert(peer >= chief->member_count && peer < chief->member_count + chief->stream_count);
    return &chief->streams[peer - chief->member_count];
}

static uint32_t server_of(const struct weir_chief *chief, const struct fetch_stream *stream)
{
    return (uint32_t)(stream - chief->streams) / chief->config.layout.lanes;
}

static uint32_t lane_of(const struct weir_chief *chief, const struct fetch_stream *stream)
{
    return (uint32_t)(stream - chief->streams) % chief->config.layout.lanes;
}

/* All pieces of a stream's lane, over all servers: all chunks' weights, then all chunks' first slots, ... */
static uint32_t piece_count(const struct weir_chief *chief, const struct fetch_stream *stream)
{
    return weir_layout_count(&chief->config.layout, lane_of(chief, stream)) * (1 + (uint32_t)chief->config.slot_count);
}

static struct weir_fetch piece(const struct weir_chief *chief, const struct fetch_stream *stream, uint32_t n)
{
    const struct weir_layout *layout = &chief->config.layout;
    uint32_t lane = lane_of(chief, stream), chunks = weir_layout_count(layout, lane);
    return (struct weir_fetch){
        .chunk = weir_layout_chunk(layout, lane, n % chunks),
        .part = n / chunks,
        .version = chief->last_version,
    };
}

static bool *got(const struct weir_chief *chief, const struct weir_fetch *piece)
{
    return &chief->got[(size_t)piece->part * chief->config.layout.chunks + piece->chunk];
}

/* Whether the piece comes on this stream: from the chunk's primary. */
static bool is_from(const struct weir_chief *chief, const struct fetch_stream *stream, const struct weir_fetch *piece)
{
    return chief->chunks[piece->chunk].primary == server_of(chief, stream);
}

/* Pieces that come on a stream, and how many of them have come. */
static uint32_t count_pieces(const struct weir_chief *chief, const struct fetch_stream *stream, uint32_t *have)
{
    uint32_t count = 0;
    *have = 0;
    for (uint32_t n = 0; n < piece_count(chief, stream); n++) {
        struct weir_fetch want = piece(chief, stream, n);
        if (!is_from(chief, stream, &want))
            continue;
        count++;
        *have += *got(chief, &want);
    }
    return count;
}

void weir_chief_fetch_init(struct weir_chief *chief, struct weir_arena *arena)
{
    chief->missing = chief->config.layout.chunks * (1 + (uint32_t)chief->config.slot_count);
    chief->got = weir_arena_take(arena, chief->missing, sizeof(bool));
    chief->stream_count = chief->config.layout.servers * chief->config.layout.lanes;
    chief->streams = weir_arena_take(arena, chief->stream_count, sizeof(struct fetch_stream));
}

void weir_chief_fetch_start(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    for (uint32_t s = 0; s < chief->stream_count; s++) {
        struct fetch_stream *stream = &chief->streams[s];
        uint32_t server = server_of(chief, stream), have;
        if (count_pieces(chief, stream, &have) == 0 && s != 0)
            continue;
        const struct weir_link_target target = {
            .peer = chief->member_count + s,
            .name = chief->config.members[server].name,
            .role = WEIR_NODE_PS,
            .incarnation = chief->members[server].incarnation,
            .job_hash = chief->config.hello.job_hash,
            .start_patience_ns = chief->config.start_timeout_ns,
            .patience_ns = chief->config.lease_ns,
        };
        weir_link_start(&stream->link, &target, now_ns, &chief->link_counts, actions);
    }
}

void weir_chief_fetch_opened(struct weir_chief *chief, uint32_t peer, struct weir_actions *actions)
{
    weir_link_opened(&stream_of(chief, peer)->link);
    struct weir_hello *hello = &weir_actions_send(actions, peer, WEIR_HELLO)->hello;
    *hello = chief->config.hello;
    hello->generation = chief->config.generation;
    hello->view = chief->view.number;
    hello->canonical = "";
    hello->has_record = chief->has_record;
    hello->record_step = chief->record_step;
    hello->record_round = chief->record_round;
}

void weir_chief_fetch_closed(struct weir_chief *chief, const struct weir_event *event)
{
    struct fetch_stream *stream = stream_of(chief, event->peer);
    stream->next = stream->asked_count = 0; /* what was on its way is lost */
    weir_link_closed(&stream->link, event->now_ns, event->text);
}

static void ask(struct weir_chief *chief, uint32_t peer, struct weir_actions *actions)
{
    struct fetch_stream *stream = stream_of(chief, peer);
    if (chief->state != WEIR_CHIEF_FETCHING || !weir_link_up(&stream->link))
        return;
    while (stream->next < piece_count(chief, stream) && stream->asked_count < FETCH_WINDOW) {
        struct weir_fetch want = piece(chief, stream, stream->next++);
        if (!is_from(chief, stream, &want) || *got(chief, &want))
            continue;
        stream->asked[(stream->asked_head + stream->asked_count++) % FETCH_WINDOW] = want;
        weir_actions_send(actions, peer, WEIR_FETCH)->fetch = want;
    }
}

static void on_record(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_record *record = &event->body->record;
    bool newer = !chief->has_record || chief->record_step < record->step ||
                 (chief->record_step == record->step && chief->record_round < record->round);
    if (!newer || chief->state != WEIR_CHIEF_TRAINING)
        return;
    chief->has_record = true;
    chief->record_ns = event->now_ns;
    chief->record_step = record->step;
    chief->record_round = record->round;
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_PROGRESS);
    action->has_body = true;
    action->body = *event->body;
    if (record->order != WEIR_ORDER_STOP)
        return;
    chief->last_version = record->step;
    weir_machine_move(&weir_chief_machine, &chief->counts, &chief->state, WEIR_CHIEF_FETCHING);
    for (uint32_t s = 0; s < chief->stream_count; s++)
        ask(chief, chief->member_count + s, actions);
}

static void on_weights(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    struct fetch_stream *stream = stream_of(chief, event->peer);
    const struct weir_weights *weights = &event->body->weights;
    bool asked = stream->asked_count > 0;
    struct weir_fetch want = asked ? stream->asked[stream->asked_head] : (struct weir_fetch){0};
    if (!asked || weights->chunk != want.chunk || weights->part != want.part || weights->version != want.version ||
        event->payload_bytes != 4 * (uint64_t)weir_layout_elements(&chief->config.layout, want.chunk)) {
        weir_actions_release(actions, event->payload);
        weir_chief_fail(chief, "a server sent another piece of the model than the one asked for", event->now_ns,
                        actions);
        return;
    }
    stream->asked_head = (stream->asked_head + 1) % FETCH_WINDOW;
    stream->asked_count--;
    *got(chief, &want) = true;
    chief->missing--;
    struct weir_action *store = weir_actions_add(actions, WEIR_DO_STORE);
    store->chunk = weights->chunk;
    store->part = weights->part;
    store->step = weights->version;
    store->payload = event->payload;
    if (chief->missing) {
        ask(chief, event->peer, actions);
        return;
    }
    weir_machine_move(&weir_chief_machine, &chief->counts, &chief->state, WEIR_CHIEF_WRITING);
    weir_actions_add(actions, WEIR_DO_RESULTS);
}

static void on_hello(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_link *link = &stream_of(chief, event->peer)->link;
    if (weir_link_greeted(link, &event->body->hello))
        ask(chief, event->peer, actions);
    else
        weir_chief_fail(chief, weir_link_lost(link), event->now_ns, actions);
}

void weir_chief_fetch_message(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    if (event->body->type == WEIR_WEIGHTS && chief->state == WEIR_CHIEF_FETCHING) {
        on_weights(chief, event, actions);
        return;
    }
    weir_actions_release(actions, event->payload);
    switch (event->body->type) {
    case WEIR_HELLO:
        on_hello(chief, event, actions);
        break;
    case WEIR_RECORD:
        on_record(chief, event, actions);
        break;
    case WEIR_REFUSED:
        weir_chief_fail(chief, event->body->refused.reason, event->now_ns, actions);
        break;
    case WEIR_GONE:
        weir_chief_fail(chief, "a server no longer has the last version of a chunk", event->now_ns, actions);
        break;
    default:
        break;
    }
}

void weir_chief_fetch_waiting(const struct weir_chief *chief, char *text, size_t bytes)
{
    if (chief->state > WEIR_CHIEF_FETCHING)
        return;
    for (uint32_t s = 0; s < chief->stream_count; s++) {
        const struct fetch_stream *stream = &chief->streams[s];
        const struct weir_link *link = &stream->link;
        uint32_t lane = lane_of(chief, stream), have, count;
        if (!link->used)
            continue;
        if (!weir_link_up(link)) {
            snprintf(text, bytes, "%s: " WEIR_WAIT_CONNECTION " (lane %u: %s)", link->target.name, lane,
                     link->error[0] ? link->error : "no answer");
            return;
        }
        count = count_pieces(chief, stream, &have);
        if (chief->state == WEIR_CHIEF_FETCHING && have < count) {
            snprintf(text, bytes, "%s: piece %u of %u of the result (lane %u)", link->target.name, have + 1, count,
                     lane);
            return;
        }
    }
}

void weir_chief_fetch_time(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    if (chief->state < WEIR_CHIEF_TRAINING || chief->state > WEIR_CHIEF_FETCHING)
        return;
    for (uint32_t s = 0; s < chief->stream_count; s++) {
        struct weir_link *link = &chief->streams[s].link;
        if (!weir_link_time(link, now_ns, actions))
            continue;
        char text[400];
        snprintf(text, sizeof text, "the stream from %s to %s is broken and could not be joined again: %s",
                 chief->config.name, link->target.name, link->error);
        weir_chief_fail(chief, text, now_ns, actions);
        return;
    }
}
