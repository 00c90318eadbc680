#include "ps/lane.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ps/lane_state.h"

size_t weir_ps_lane_actions_max(const struct weir_ps_lane_config *config)
{
    size_t peers = (size_t)config->workers + config->layout.servers + 1 + config->observers;
    /* all streams pumped, a tree released, every waiting chunk applied, every Partial sent */
    return 3 * peers + 2 * (size_t)config->replicas + 2 * (size_t)config->layout.chunks + 16;
}

struct weir_ps_lane *weir_ps_lane_init(struct weir_arena *arena, const struct weir_ps_lane_config *config)
{
    struct weir_ps_lane *lane = weir_arena_take(arena, 1, sizeof *lane);
    lane->config = *config;
    lane->chunk_count = weir_layout_count(&config->layout, config->self, config->lane);
    lane->peers = config->workers + config->layout.servers + 1 + config->observers;
    lane->chunks = weir_arena_take(arena, lane->chunk_count, sizeof(struct weir_chunk));
    lane->held = weir_arena_take(arena, lane->chunk_count, sizeof(struct weir_held));
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        uint32_t id = weir_layout_chunk(&config->layout, config->self, config->lane, i);
        uint64_t bytes = 4 * (uint64_t)weir_layout_elements(&config->layout, id);
        weir_chunk_init(&lane->chunks[i], arena, id, config->first_version, bytes, config->replicas);
    }
    lane->streams = weir_arena_take(arena, lane->peers, sizeof(struct stream));
    for (uint32_t p = 0; p < lane->peers; p++) {
        lane->streams[p].pending = weir_arena_take(arena, lane->chunk_count, 1);
        lane->streams[p].ring = weir_arena_take(arena, lane->chunk_count, sizeof(uint32_t));
    }
    lane->hosts = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    memcpy(lane->hosts, config->hosts, config->replicas * sizeof(uint32_t));
    lane->worker_incarnations = weir_arena_take(arena, config->workers, sizeof(uint64_t));
    memcpy(lane->worker_incarnations, config->worker_incarnations, config->workers * sizeof(uint64_t));
    weir_ps_record_init(lane, arena);
    return lane;
}

static bool same_incarnation(uint64_t known, uint64_t said, const char **reason)
{
    if (known == said)
        return true;
    *reason = known ? "another process than the one that the view names: it was restarted, or the address is used twice"
                    : "the view does not name it now: it counts as lost";
    return false;
}

bool weir_ps_lane_admit(const struct weir_ps_lane *lane, const struct weir_hello *hello, uint32_t *peer,
                        const char **reason, bool *again)
{
    const struct weir_ps_lane_config *config = &lane->config;
    uint32_t servers = config->layout.servers;
    *again = false;
    *reason = "an index beyond the cluster's nodes of that role";
    if (hello->generation != config->generation) {
        *reason = "another generation of the job";
        return false;
    }
    if (strcmp(hello->job_hash, config->job_hash) != 0) {
        *reason = "another job (the hash of its job file differs)";
        return false;
    }
    switch (hello->role) {
    case WEIR_NODE_WORKER:
        *peer = hello->index;
        if (hello->index >= config->workers)
            return false;
        *again = true; /* this lane's view may be older than the worker's, or a newer one takes it in again */
        return same_incarnation(lane->worker_incarnations[hello->index], hello->incarnation, reason);
    case WEIR_NODE_PS: /* of two streams between two servers, who knows which is whose: only one side opens them */
        *reason = "a server that opens a stream to another one than the record's holder";
        if (!holds_record(lane))
            return false;
        *reason = "an index beyond the cluster's nodes of that role";
        *peer = config->workers + hello->index;
        return hello->index < servers && hello->index != config->self &&
               same_incarnation(config->server_incarnations[hello->index], hello->incarnation, reason);
    case WEIR_NODE_CHIEF:
        *peer = config->workers + servers;
        return same_incarnation(config->chief_incarnation, hello->incarnation, reason);
    default:
        *reason = "as many observers as this server takes are there already";
        for (*peer = config->workers + servers + 1; *peer < lane->peers; ++*peer)
            if (!lane->streams[*peer].up)
                return true;
        return false;
    }
}

static void fail(struct weir_ps_lane *lane, struct weir_actions *actions, const char *text)
{
    if (lane->failed)
        return;
    lane->failed = true;
    weir_actions_tell(actions, WEIR_ACTOR_NODE, 0, WEIR_ON_FAILED)->text = text;
}

/* A peer that breaks the protocol is cut off: an observer may go, a node of the cluster ends the job. */
static void reject(struct weir_ps_lane *lane, uint32_t peer, const char *text, struct weir_actions *actions)
{
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
    action->peer = peer;
    action->text = text;
    weir_ps_stream_down(lane, peer);
    if (peer < lane->config.workers + lane->config.layout.servers)
        fail(lane, actions, text);
}

static void try_apply(struct weir_ps_lane *lane, struct weir_chunk *chunk, struct weir_actions *actions)
{
    if (chunk->state != WEIR_CHUNK_WAITING)
        return;
    const struct weir_record *record = weir_ps_record_of(lane, chunk->version);
    const struct weir_record *verdict = lane->config.gated ? weir_ps_record_verdict(lane, chunk->version) : NULL;
    if (record && (verdict || !lane->config.gated))
        weir_chunk_apply(chunk, record, verdict, &lane->chunk_counts, actions);
}

static void on_record(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_record *record = &event->body->record;
    if (!weir_ps_record_keep(lane, record))
        return;
    if (event->kind == WEIR_ON_MESSAGE && lane->config.layout.lanes > 1) {
        struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_LANES, lane->config.lane, WEIR_ON_RECORD);
        action->has_body = true;
        action->body = *event->body;
    }
    for (uint32_t i = 0; i < lane->chunk_count; i++)
        try_apply(lane, &lane->chunks[i], actions);
    weir_ps_stream_pump_all(lane, actions);
}

static struct weir_chunk *find_chunk(struct weir_ps_lane *lane, uint32_t id)
{
    const struct weir_layout *layout = &lane->config.layout;
    if (id >= layout->chunks || weir_layout_server(layout, id) != lane->config.self ||
        weir_layout_lane(layout, id) != lane->config.lane)
        return NULL;
    return &lane->chunks[weir_layout_local(layout, id)];
}

static void count_partly_received(struct weir_ps_lane *lane, bool was_partly, const struct weir_chunk *chunk)
{
    bool is_partly = !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
    lane->partly_received += (uint32_t)is_partly;
    lane->partly_received -= (uint32_t)was_partly;
    if (lane->partly_received > lane->partial_peak)
        lane->partial_peak = lane->partly_received;
}

static void on_contribution(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_contribution *contribution = &event->body->contribution;
    struct weir_chunk *chunk = find_chunk(lane, contribution->chunk);
    if (contribution->generation != lane->config.generation) {
        weir_actions_release(actions, event->payload);
        return;
    }
    if (!chunk || event->peer >= lane->config.workers) {
        weir_actions_release(actions, event->payload);
        reject(lane, event->peer,
               chunk ? "a contribution from a node that is no worker"
                     : "a contribution to a chunk that this lane does not hold",
               actions);
        return;
    }
    bool was_partly = !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
    const char *wrong = weir_chunk_contribution(chunk, contribution, event->payload, event->payload_bytes, actions);
    if (wrong) {
        reject(lane, event->peer, wrong, actions);
        return;
    }
    bool complete = weir_chunk_complete(chunk, lane->config.gated, &lane->chunk_counts, actions);
    count_partly_received(lane, was_partly, chunk);
    if (!complete)
        return;
    weir_ps_stream_note(lane, weir_layout_local(&lane->config.layout, chunk->id), PENDING_COVERED);
    try_apply(lane, chunk, actions);
    if (chunk->state != WEIR_CHUNK_APPLYING) /* else the new weights say it, at once */
        weir_ps_stream_pump_all(lane, actions);
}

static void on_applied(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_chunk *chunk = find_chunk(lane, event->chunk);
    assert(chunk);
    weir_chunk_applied(chunk, &lane->chunk_counts, actions);
    weir_ps_stream_note(lane, weir_layout_local(&lane->config.layout, chunk->id), PENDING_NEW);
    weir_ps_stream_pump_all(lane, actions);
}

static void on_summed(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_chunk *chunk = find_chunk(lane, event->chunk);
    assert(chunk && lane->config.gated && event->number_count == lane->config.pieces[chunk->id]);
    weir_chunk_summed(chunk, &lane->chunk_counts, actions);
    struct weir_partial partial = {
        .generation = lane->config.generation,
        .step = chunk->version,
        .chunk = chunk->id,
        .squares = event->numbers,
        .square_count = event->number_count,
    };
    if (lane->config.lane == 0) {
        weir_ps_partial_keep(lane, &partial, actions);
    } else {
        struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_LANE, 0, WEIR_ON_PARTIAL);
        action->has_body = true;
        action->body.type = WEIR_PARTIAL;
        action->body.partial = partial;
    }
    try_apply(lane, chunk, actions);
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
        reject(lane, event->peer, "a seal of a replica that the job does not have", actions);
}

static void on_partial(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_layout *layout = &lane->config.layout;
    uint32_t chunk = event->body->partial.chunk;
    if (chunk < layout->chunks && weir_layout_server(layout, chunk) == event->peer - lane->config.workers)
        tell_recorder(WEIR_ON_PARTIAL, event, actions);
    else
        reject(lane, event->peer, "squares of a chunk that this server does not hold", actions);
}

static void on_fetch(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    const char *reason;
    if (weir_ps_stream_fetch(lane, event->peer, &event->body->fetch, &reason))
        weir_ps_stream_pump(lane, event->peer, actions);
    else
        reject(lane, event->peer, reason, actions);
}

static void on_hello(struct weir_ps_lane *lane, uint32_t peer, const struct weir_hello *hello,
                     struct weir_actions *actions)
{
    bool recorder = peer == recorder_peer(lane) && lane->recorder.used;
    if (lane->streams[peer].up) {
        reject(lane, peer, "a second Hello on one stream", actions);
    } else if (recorder && !weir_link_greeted(&lane->recorder, hello)) {
        fail(lane, actions, weir_link_lost(&lane->recorder));
    } else {
        weir_ps_stream_greet(lane, peer, hello, actions);
        weir_ps_stream_pump(lane, peer, actions);
    }
}

static void on_message(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    bool from_recorder = event->peer == recorder_peer(lane) && lane->recorder.used;
    switch (event->body->type) {
    case WEIR_HELLO:
        weir_actions_release(actions, event->payload);
        on_hello(lane, event->peer, &event->body->hello, actions);
        return;
    case WEIR_CONTRIBUTION:
        on_contribution(lane, event, actions);
        return;
    default:
        weir_actions_release(actions, event->payload);
    }
    bool from_worker = event->peer < lane->config.workers;
    bool from_server = !from_worker && event->peer < lane->config.workers + lane->config.layout.servers;
    if (event->body->type == WEIR_SEAL && holds_record(lane) && from_worker)
        on_seal(lane, event, actions);
    else if (event->body->type == WEIR_PARTIAL && holds_record(lane) && from_server)
        on_partial(lane, event, actions);
    else if (event->body->type == WEIR_FETCH)
        on_fetch(lane, event, actions);
    else if (event->body->type == WEIR_RECORD && from_recorder)
        on_record(lane, event, actions);
    else if (event->body->type == WEIR_REFUSED && from_recorder)
        fail(lane, actions, event->body->refused.reason);
    else
        reject(lane, event->peer, "a message that does not belong on this stream", actions);
}

static void on_closed(struct weir_ps_lane *lane, const struct weir_event *event)
{
    weir_ps_stream_down(lane, event->peer);
    if (lane->recorder.used && event->peer == recorder_peer(lane))
        weir_link_closed(&lane->recorder, event->now_ns, event->text);
}

static void on_time(struct weir_ps_lane *lane, uint64_t now_ns, struct weir_actions *actions)
{
    if (weir_link_time(&lane->recorder, now_ns, actions))
        fail(lane, actions, weir_link_lost(&lane->recorder));
}

static void start_recorder_link(struct weir_ps_lane *lane, uint64_t now_ns, struct weir_actions *actions)
{
    const struct weir_ps_lane_config *config = &lane->config;
    const struct weir_link_target recorder = {
        .peer = recorder_peer(lane),
        .name = config->recorder_name,
        .role = WEIR_NODE_PS,
        .incarnation = config->server_incarnations[0],
        .job_hash = config->job_hash,
        .start_patience_ns = config->start_timeout_ns,
        .patience_ns = config->patience_ns,
    };
    weir_link_start(&lane->recorder, &recorder, now_ns, &lane->link_counts, actions);
}

/* Streams of workers that the view no longer names are closed; those that it names say Hello. Contributions and Seals
 * are taken from any of them: what counts is their names. */
static void on_view(struct weir_ps_lane *lane, const struct weir_view *view, struct weir_actions *actions)
{
    uint32_t w = 0; /* the view has all workers of the cluster, in their order */
    lane->config.view = view->number;
    memcpy(lane->hosts, view->hosts, lane->config.replicas * sizeof(uint32_t));
    for (size_t n = 0; n < view->node_count && w < lane->config.workers; n++) {
        if (view->nodes[n].role != WEIR_NODE_WORKER)
            continue;
        if (lane->worker_incarnations[w] != view->nodes[n].incarnation && lane->streams[w].up) {
            struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
            action->peer = w;
            action->text = "the view no longer names this process";
            weir_ps_stream_down(lane, w);
        }
        lane->worker_incarnations[w++] = view->nodes[n].incarnation;
    }
}

void weir_ps_lane_step(struct weir_ps_lane *lane, const struct weir_event *event, struct weir_actions *actions)
{
    assert(event->peer < lane->peers);
    switch (event->kind) {
    case WEIR_ON_START:
        if (lane->config.lane == 0 && lane->config.self != 0)
            start_recorder_link(lane, event->now_ns, actions);
        break;
    case WEIR_ON_OPENED:
        weir_link_opened(&lane->recorder);
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
        on_record(lane, event, actions);
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
        on_view(lane, &event->body->view, actions);
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
    return lane->failed ? WEIR_NEVER : weir_link_deadline(&lane->recorder);
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
