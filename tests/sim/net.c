/* Streams: ordered each way, independent of each other, and they break. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static struct actor *end_of(struct sim *sim, const struct stream *stream, int side)
{
    return &sim->actors[stream->actor[side]];
}

static bool process_alive(const struct sim *sim, const struct actor *actor)
{
    return sim->processes[actor->process].alive;
}

/* Delivered in order after all that is under way to that side. */
static uint64_t arrival(struct sim *sim, struct stream *stream, int side, uint64_t later)
{
    uint64_t at = sim->now + sim_delay(sim) + later;
    if (at <= stream->last_at[side])
        at = stream->last_at[side] + 1;
    stream->last_at[side] = at;
    return at;
}

static void schedule_closed(struct sim *sim, uint32_t id, int side, uint64_t at, const char *why)
{
    if (sim->streams[id].ended[side])
        return;
    struct sim_event *event = sim_schedule(sim, at, CLOSED);
    event->stream = id;
    event->side = (uint32_t)side;
    snprintf(event->text, sizeof event->text, "%s", why);
}

void net_connect(struct sim *sim, uint32_t actor, uint32_t peer)
{
    if (sim->stream_count == sim->stream_room) {
        sim->stream_room = sim->stream_room ? 2 * sim->stream_room : 256;
        sim->streams = realloc(sim->streams, sim->stream_room * sizeof *sim->streams);
        assert(sim->streams);
    }
    const struct actor *from = &sim->actors[actor];
    uint32_t id = sim->stream_count++;
    uint32_t to = 0; /* nodes connect to the chief */
    if (from->kind == ACTOR_EXCHANGE)
        to = actor_of(sim, server_process(sim, peer), ACTOR_LANE, from->lane);
    else if (from->kind == ACTOR_LANE)
        to = actor_of(sim, server_process(sim, peer - sim->config.workers), ACTOR_LANE, from->lane);
    else if (from->kind == ACTOR_CHIEF) {
        uint32_t s = peer - sim->config.servers - sim->config.workers;
        to = actor_of(sim, server_process(sim, s / sim->config.lanes), ACTOR_LANE, s % sim->config.lanes);
    }
    sim->streams[id] = (struct stream){.actor = {actor, to}, .peer = {(int32_t)peer, -1}};
    sim->actors[actor].slot[peer] = (int32_t)id;
    struct sim_event *event = sim_schedule(sim, sim->now + sim_delay(sim), ACCEPT);
    event->stream = id;
}

static void accept(struct sim *sim, uint32_t id)
{
    struct stream *stream = &sim->streams[id];
    const struct actor *server = end_of(sim, stream, 1);
    bool cut = cut_severs(sim, stream);
    if (cut || !process_alive(sim, server)) {
        stream->broken = true;
        stream->ended[1] = true;
        uint64_t at = sim->now + (cut && !sim->cut.refuses ? 1000 * MS : sim_delay(sim));
        schedule_closed(sim, id, 0, at, cut ? "connection timed out" : "connection refused");
        return;
    }
    if (!server->running) { /* listening, but its lanes wait for the view: the call waits */
        sim_schedule(sim, sim->now + MS, ACCEPT)->stream = id;
        return;
    }
    struct sim_event *event = sim_schedule(sim, sim->now + sim_delay(sim), OPENED);
    event->stream = id;
}

static int side_of(const struct stream *stream, uint32_t actor, uint32_t peer)
{
    return stream->actor[0] == actor && stream->peer[0] == (int32_t)peer ? 0 : 1;
}

/* A view may come late to one node, and early to another. */
static uint64_t dawdle(struct sim *sim, const struct weir_message_body *body)
{
    return body->type == WEIR_VIEW && sim->config.elastic && sim_below(sim, 4) == 0 ? sim_random(sim) % (60 * MS) : 0;
}

static void under_way(struct sim *sim, uint32_t id, int to, uint64_t at, const struct weir_message_body *body,
                      uint64_t payload)
{
    sim->coverage->messages++;
    struct sim_event *event = sim_schedule(sim, at, DELIVER);
    event->stream = id;
    event->side = (uint32_t)to;
    parcel_copy(&event->parcel, body);
    event->parcel.payload = payload;
}

void net_send(struct sim *sim, uint32_t actor, const struct weir_action *action, uint64_t payload)
{
    int32_t id = sim->actors[actor].slot[action->peer];
    if (id < 0) { /* the stream broke: what is sent is lost */
        payload_release(sim, payload);
        return;
    }
    struct stream *stream = &sim->streams[id];
    int side = side_of(stream, actor, action->peer);
    if (stream->broken)
        payload_release(sim, payload);
    else
        under_way(sim, (uint32_t)id, 1 - side, arrival(sim, stream, 1 - side, dawdle(sim, &action->body)),
                  &action->body, payload);
    struct sim_event *sent = sim_schedule(sim, sim->now + sim_delay(sim), SENT);
    sent->stream = (uint32_t)id;
    sent->side = (uint32_t)side;
    sent->payload = payload != 0;
    stream->unsent[side]++;
    stream->payloads[side] += payload != 0;
    check_unsent(sim, actor, action->peer, stream->payloads[side]);
}

void net_repeat(struct sim *sim, uint32_t actor, uint32_t peer, const struct weir_message_body *body, uint64_t payload,
                bool later)
{
    int32_t id = sim->actors[actor].slot[peer];
    if (id < 0 || sim->streams[id].broken) {
        payload_release(sim, payload);
        return;
    }
    struct stream *stream = &sim->streams[id];
    int to = 1 - side_of(stream, actor, peer);
    uint64_t at = later ? stream->last_at[to] + 1 + sim_below(sim, 8) * sim_delay(sim) : arrival(sim, stream, to, 0);
    under_way(sim, (uint32_t)id, to, at, body, payload);
}

/* When one side learns that the stream broke: after what still comes, and rarely long after the other. */
static uint64_t learns_at(struct sim *sim, struct stream *stream, int side)
{
    uint64_t at = stream->lost[side] ? sim->now + sim_delay(sim) : arrival(sim, stream, side, 0);
    if (sim->late_learner || sim_below(sim, 20))
        return at;
    sim->late_learner = true;
    sim->coverage->count[COUNT_LATE_LEARNERS]++;
    return at + sim_random(sim) % (2000 * MS);
}

/* The connection breaks: what is under way one way or the other may be lost, each side learns it in its own time. */
void net_reset(struct sim *sim, uint32_t id, const char *why)
{
    struct stream *stream = &sim->streams[id];
    if (stream->broken)
        return;
    stream->broken = true;
    for (int side = 0; side < 2; side++) {
        stream->lost[side] = sim_below(sim, 2);
        schedule_closed(sim, id, side, learns_at(sim, stream, side), why);
    }
}

void net_process_died(struct sim *sim, uint32_t process)
{
    for (uint32_t id = 0; id < sim->stream_count; id++)
        for (int side = 0; side < 2; side++)
            if (end_of(sim, &sim->streams[id], side)->process == process && !sim->streams[id].ended[side]) {
                sim->streams[id].ended[side] = true;
                net_reset(sim, id, "connection reset by peer");
            }
}

static void closed(struct sim *sim, const struct sim_event *event)
{
    struct stream *stream = &sim->streams[event->stream];
    uint32_t side = event->side;
    if (stream->ended[side])
        return;
    stream->ended[side] = true;
    stream->broken = true;
    struct actor *actor = end_of(sim, stream, (int)side);
    if (!actor->running || stream->peer[side] < 0)
        return;
    uint32_t peer = (uint32_t)stream->peer[side];
    if (actor->slot[peer] != (int32_t)event->stream)
        return;
    actor->slot[peer] = -1;
    if (actor->kind == ACTOR_EXCHANGE)
        credit_closed(actor, peer);
    struct weir_event out = {.kind = WEIR_ON_CLOSED, .peer = peer, .text = event->text};
    cluster_step(sim, stream->actor[side], &out);
}

void net_close(struct sim *sim, uint32_t actor, uint32_t peer, const char *why)
{
    int32_t id = sim->actors[actor].slot[peer];
    if (id < 0)
        return;
    struct stream *stream = &sim->streams[id];
    stream->ended[side_of(stream, actor, peer)] = true;
    sim->actors[actor].slot[peer] = -1;
    net_reset(sim, (uint32_t)id, why);
}

/* A process in whose place another one came, or (to a lane) one that its view does not name. */
static bool may_be_refused(const struct sim *sim, const struct actor *actor, const struct weir_hello *hello)
{
    if (hello->role == WEIR_NODE_PS && actor->kind == ACTOR_LANE)
        return sim->config.copies > 1;
    return sim->config.elastic && hello->role == WEIR_NODE_WORKER && (actor->kind == ACTOR_LANE || sim->killed_at);
}

/* The stream ends after it. */
static void refuse(struct sim *sim, uint32_t id, const char *reason, bool again)
{
    struct stream *stream = &sim->streams[id];
    struct weir_message_body body = {.type = WEIR_REFUSED, .refused = {reason, again}};
    sim->coverage->count[COUNT_NOT_YET] += again;
    stream->ended[1] = stream->broken = true;
    if (stream->lost[0] || stream->ended[0])
        return;
    under_way(sim, id, 0, arrival(sim, stream, 0, 0), &body, 0);
    schedule_closed(sim, id, 0, arrival(sim, stream, 0, 0), "refused");
}

/* The first message of an accepted stream must be Hello: whose slot it is. False: refused. */
static bool admit(struct sim *sim, const struct sim_event *event)
{
    struct stream *stream = &sim->streams[event->stream];
    struct actor *actor = end_of(sim, stream, 1);
    const struct weir_message_body *body = &event->parcel.body;
    uint32_t peer = 0;
    const char *reason = "the first message is no Hello";
    bool differs, again = false;
    bool ok = body->type == WEIR_HELLO &&
              (actor->kind == ACTOR_CHIEF ? weir_chief_admit(actor->core, &body->hello, &peer, &reason, &differs)
                                          : weir_ps_lane_admit(actor->core, &body->hello, &peer, &reason, &again));
    if (!ok && body->type == WEIR_HELLO && may_be_refused(sim, actor, &body->hello)) {
        refuse(sim, event->stream, reason, again);
        return false;
    }
    if (!ok) {
        sim_fail(sim, "a node of the cluster was refused: %s", reason);
        return false;
    }
    check_admission(sim, actor, &body->hello);
    if (actor->slot[peer] >= 0) { /* the peer came back before we learned that its stream broke */
        uint32_t old = (uint32_t)actor->slot[peer];
        net_reset(sim, old, "replaced by a newer stream");
        struct sim_event end = {.stream = old, .side = 1};
        snprintf(end.text, sizeof end.text, "replaced by a newer stream");
        closed(sim, &end);
    }
    stream->peer[1] = (int32_t)peer;
    actor->slot[peer] = (int32_t)event->stream;
    return true;
}

/* One line of the story. */
static void tell_message(struct sim *sim, const struct stream *stream, uint32_t side,
                         const struct weir_message_body *body)
{
    static const char *const types[WEIR_MESSAGE_TYPES] = {
        [WEIR_HELLO] = "Hello",
        [WEIR_VIEW] = "View",
        [WEIR_HEARTBEAT] = "Heartbeat (leaving)",
        [WEIR_REFUSED] = "Refused",
        [WEIR_CONTRIBUTION] = "Contribution",
        [WEIR_SEAL] = "Seal",
        [WEIR_FETCH] = "Fetch",
        [WEIR_COVERED] = "Covered",
        [WEIR_WEIGHTS] = "Weights",
        [WEIR_GONE] = "Gone",
        [WEIR_PARTIAL] = "Partial",
        [WEIR_RECORD] = "Record",
        [WEIR_FORWARD] = "Forward",
        [WEIR_ACK] = "Ack",
        [WEIR_FULL] = "Full",
    };
    if (!sim->trace || (body->type == WEIR_HEARTBEAT && !body->heartbeat.leaving))
        return;
    char what[120] = "";
    if (body->type == WEIR_CONTRIBUTION)
        snprintf(what, sizeof what, " step %llu chunk %u node (%u, %u)%s", (unsigned long long)body->contribution.step,
                 body->contribution.chunk, body->contribution.level, body->contribution.index,
                 body->contribution.empty ? " empty" : "");
    else if (body->type == WEIR_WEIGHTS)
        snprintf(what, sizeof what, " chunk %u version %llu part %u", body->weights.chunk,
                 (unsigned long long)body->weights.version, body->weights.part);
    else if (body->type == WEIR_COVERED)
        snprintf(what, sizeof what, " step %llu chunk %u", (unsigned long long)body->covered.step, body->covered.chunk);
    else if (body->type == WEIR_SEAL)
        snprintf(what, sizeof what, " step %llu round %u replica %u", (unsigned long long)body->seal.step,
                 body->seal.round, body->seal.replica);
    else if (body->type == WEIR_RECORD)
        snprintf(what, sizeof what, " step %llu round %u", (unsigned long long)body->record.step, body->record.round);
    else if (body->type == WEIR_FORWARD)
        snprintf(what, sizeof what, " step %llu chunk %u", (unsigned long long)body->forward.step, body->forward.chunk);
    else if (body->type == WEIR_ACK)
        snprintf(what, sizeof what, " chunk %d version %lld", (int)body->ack.chunk, (long long)body->ack.version);
    else if (body->type == WEIR_FULL)
        snprintf(what, sizeof what, " chunk %d", (int)body->full.chunk);
    else if (body->type == WEIR_FETCH)
        snprintf(what, sizeof what, " chunk %u version %llu part %u", body->fetch.chunk,
                 (unsigned long long)body->fetch.version, body->fetch.part);
    sim_say(sim, "%s -> %s: %s%s", sim->processes[end_of(sim, stream, 1 - (int)side)->process].name,
            sim->processes[end_of(sim, stream, (int)side)->process].name, types[body->type], what);
}

static uint32_t chunk_of(const struct weir_message_body *body)
{
    return body->type == WEIR_CONTRIBUTION ? body->contribution.chunk
           : body->type == WEIR_FORWARD    ? body->forward.chunk
                                           : body->weights.chunk;
}

/* A sum that is forwarded is all contributions at once. */
static void arrive(struct sim *sim, const struct actor *actor, const struct weir_message_body *body)
{
    struct weir_contribution sum = {.level = reference_root(sim->config.replicas)};
    if (body->type == WEIR_CONTRIBUTION) {
        check_arrival(sim, actor->process, &body->contribution);
    } else if (body->type == WEIR_FORWARD) {
        sum.generation = body->forward.generation;
        sum.step = body->forward.step;
        sum.chunk = body->forward.chunk;
        check_arrival(sim, actor->process, &sum);
    } else if (body->type == WEIR_RECORD && actor->kind == ACTOR_LANE) {
        check_record_known(sim, actor->process, &body->record);
    }
}

static void deliver(struct sim *sim, struct sim_event *event)
{
    struct stream *stream = &sim->streams[event->stream];
    struct actor *actor = end_of(sim, stream, (int)event->side);
    if (stream->lost[event->side] || stream->ended[event->side] || !actor->running)
        return;
    sim->coverage->count[COUNT_AFTER_BREAK] += stream->broken;
    if (event->side == 1 && stream->peer[1] < 0 && !admit(sim, event))
        return;
    tell_message(sim, stream, event->side, &event->parcel.body);
    struct weir_event out = {
        .kind = WEIR_ON_MESSAGE,
        .peer = (uint32_t)stream->peer[event->side],
        .body = &event->parcel.body,
        .payload = event->parcel.payload,
    };
    if (event->parcel.payload)
        out.payload_bytes = 4 * (uint64_t)weir_layout_elements(&sim->layout, chunk_of(&event->parcel.body));
    arrive(sim, actor, &event->parcel.body);
    if (event->parcel.body.type == WEIR_VIEW && event->parcel.body.view.state == WEIR_VIEW_FINISHED)
        sim->processes[actor->process].told_finished = true;
    if (actor->kind == ACTOR_EXCHANGE)
        credit_received(sim, actor, out.peer, &event->parcel.body);
    sim->coverage->received[actor->kind][event->parcel.body.type]++;
    event->parcel.payload = 0; /* the core's now */
    cluster_step(sim, stream->actor[event->side], &out);
}

void net_event(struct sim *sim, struct sim_event *event)
{
    struct stream *stream = &sim->streams[event->stream];
    switch (event->kind) {
    case ACCEPT:
        if (!stream->broken)
            accept(sim, event->stream);
        break;
    case OPENED:
        if (!stream->broken && !stream->ended[0] && end_of(sim, stream, 0)->running) {
            struct weir_event out = {.kind = WEIR_ON_OPENED, .peer = (uint32_t)stream->peer[0]};
            cluster_step(sim, stream->actor[0], &out);
        }
        break;
    case SENT: {
        struct actor *actor = end_of(sim, stream, (int)event->side);
        int32_t peer = stream->peer[event->side];
        if (stream->ended[event->side] || !actor->running || peer < 0 || actor->slot[peer] != (int32_t)event->stream)
            break;
        stream->unsent[event->side]--;
        stream->payloads[event->side] -= event->payload;
        struct weir_event out = {.kind = WEIR_ON_SENT, .peer = (uint32_t)peer};
        cluster_step(sim, stream->actor[event->side], &out);
        break;
    }
    case DELIVER:
        deliver(sim, event);
        break;
    case CLOSED:
        closed(sim, event);
        break;
    default:
        assert(!"no event of a stream");
    }
}
