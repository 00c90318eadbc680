/* A world that is against a core: peers that say anything that the wire can carry, in any order, and streams that break
 * at any moment. It keeps what the runtime promises (protocol/core.h) and nothing else: one stream per slot, Hello
 * first, Hellos through admission, ON_SENT after WEIR_DO_SEND, time when the deadline came. It checks that a core owns
 * its payloads exactly once and asks for one stream per slot.
 */
#ifndef WEIR_TEST_PROTOCOL_HOSTILE_H
#define WEIR_TEST_PROTOCOL_HOSTILE_H

#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

#define HOSTILE_PEERS 24
#define HOSTILE_PAYLOADS 16384
#define HOSTILE_MS UINT64_C(1000000)

struct hostile_peer {
    enum { STREAM_NONE, STREAM_CONNECTING, STREAM_OPEN } state;
    uint32_t unsent;
};

struct hostile {
    struct weir_random_key key;
    uint64_t counter, now;
    void *core;
    void (*give)(void *core, const struct weir_event *event, struct weir_actions *actions);
    uint64_t (*deadline)(const void *core);
    /* Admission, NULL: nobody connects to this core. */
    bool (*admit)(const void *core, const struct weir_hello *hello, uint32_t *peer);
    /* Other actions than those of streams and payloads. */
    void (*act)(struct hostile *world, const struct weir_action *action);
    void *context;
    struct hostile_peer peers[HOSTILE_PEERS];
    uint32_t peer_count;
    bool owned[HOSTILE_PAYLOADS]; /* by handle: the core has it */
    uint64_t handles;
    struct weir_actions actions;
    struct weir_arena arena;
    /* what peers talk about */
    uint32_t chunks, replicas, nodes;
    uint64_t chunk_bytes, step;
    uint32_t round;
    double numbers[8];
    struct weir_held held[8];
};

static inline uint32_t hostile_word(struct hostile *world)
{
    uint32_t out[4];
    weir_random_block(world->key, world->counter++, 0, out);
    return out[0];
}

static inline uint32_t hostile_below(struct hostile *world, uint32_t n)
{
    return (uint32_t)((uint64_t)hostile_word(world) * n >> 32);
}

/* Mostly one of the first n numbers, sometimes just beyond, sometimes anything. */
static inline uint32_t hostile_near(struct hostile *world, uint32_t n)
{
    switch (hostile_below(world, 16)) {
    case 0:
        return n;
    case 1:
        return hostile_word(world);
    case 2:
        return UINT32_MAX;
    default:
        return hostile_below(world, n ? n : 1);
    }
}

static inline uint64_t hostile_step(struct hostile *world)
{
    switch (hostile_below(world, 12)) {
    case 0:
        return UINT64_MAX - hostile_below(world, 2);
    case 1:
        return (uint64_t)hostile_word(world) << 32 | hostile_word(world);
    case 2:
        return world->step + 2;
    case 3:
        return world->step - 1;
    case 4:
        return world->step + 1;
    default:
        return world->step;
    }
}

static inline double hostile_number(struct hostile *world)
{
    static const double odd[] = {0, -0., 1, -1, 1e308, -1e308, 1e308 * 10, 5e-324};
    uint32_t which = hostile_below(world, 9);
    return which < 8 ? odd[which] : (odd[6] - odd[6]);
}

static inline void hostile_hello(struct hostile *world, struct weir_hello *hello)
{
    for (uint32_t i = 0; i < 8; i++)
        world->held[i] =
            (struct weir_held){.chunk = hostile_near(world, world->chunks), .version = hostile_step(world)};
    *hello = (struct weir_hello){
        .role = (enum weir_node_role)hostile_below(world, WEIR_NODE_ROLES),
        .index = hostile_near(world, world->nodes),
        .incarnation = hostile_below(world, 8) ? 7 : hostile_word(world) % 3,
        .generation = hostile_below(world, 16) == 0,
        .job_hash = hostile_below(world, 16) ? "job" : "",
        .numerics = "",
        .address = "",
        .canonical = "",
        .record_step = hostile_step(world),
        .record_round = hostile_near(world, 3),
        .has_record = hostile_below(world, 2),
        .held = world->held,
        .held_count = hostile_below(world, 9),
        .train_samples = hostile_below(world, 8) ? 60 : hostile_step(world),
    };
}

static inline void hostile_record(struct hostile *world, struct weir_record *record)
{
    *record = (struct weir_record){
        .generation = hostile_below(world, 16) == 0,
        .step = hostile_step(world),
        .round = hostile_near(world, 3),
        .order = (enum weir_order)(WEIR_ORDER_TRAIN + hostile_below(world, 10) % 3),
        .scale = hostile_number(world),
        .norms = world->numbers,
        .norm_count = hostile_below(world, 9),
        .skip = hostile_below(world, 2),
    };
    if (hostile_below(world, 2))
        record->order = WEIR_ORDER_TRAIN;
}

/* Fills in a message of that type. */
/* What servers say to each other. */
static inline void hostile_fill_copies(struct hostile *world, struct weir_message_body *body, uint32_t chunk)
{
    struct weir_chain chain = {1, hostile_below(world, 3)};
    bool other = hostile_below(world, 16) == 0;
    if (body->type == WEIR_FORWARD)
        body->forward = (struct weir_forward){other, hostile_step(world), chunk, chain};
    else if (body->type == WEIR_FULL)
        body->full = (struct weir_full){other, chunk, chain};
    else if (body->type == WEIR_ACK)
        body->ack = (struct weir_ack){.generation = other,
                                      .chunk = hostile_below(world, 4) ? chunk : WEIR_CHUNK_RECORD,
                                      .version = hostile_below(world, 8) ? hostile_step(world) : WEIR_NO_VERSION,
                                      .round = hostile_near(world, 3),
                                      .chain = chain};
}

static inline void hostile_fill(struct hostile *world, struct weir_message_body *body)
{
    uint32_t chunk = hostile_near(world, world->chunks);
    for (int i = 0; i < 8; i++)
        world->numbers[i] = hostile_number(world);
    switch (body->type) {
    case WEIR_HELLO:
        hostile_hello(world, &body->hello);
        break;
    case WEIR_VIEW:
        body->view.state = (enum weir_view_state)(WEIR_VIEW_RUNNING + hostile_below(world, 3));
        body->view.reason = "a reason";
        break;
    case WEIR_HEARTBEAT:
        body->heartbeat.leaving = hostile_below(world, 20) == 0;
        body->heartbeat.error = hostile_below(world, 20) ? "" : "a complaint";
        body->heartbeat.waiting = body->heartbeat.numerics = "";
        break;
    case WEIR_REFUSED:
        body->refused.reason = "a refusal";
        break;
    case WEIR_CONTRIBUTION:
        body->contribution = (struct weir_contribution){
            hostile_below(world, 16) == 0,        hostile_step(world),         chunk, hostile_near(world, 4),
            hostile_near(world, world->replicas), hostile_below(world, 4) == 0};
        break;
    case WEIR_SEAL:
        body->seal.generation = hostile_below(world, 16) == 0;
        body->seal.step = hostile_step(world);
        body->seal.round = hostile_below(world, 3) ? world->round : hostile_near(world, 3);
        body->seal.replica = hostile_near(world, world->replicas);
        body->seal.loss = hostile_number(world);
        break;
    case WEIR_FETCH:
        body->fetch = (struct weir_fetch){chunk, hostile_step(world), hostile_near(world, 3)};
        break;
    case WEIR_COVERED:
        body->covered = (struct weir_covered){hostile_step(world), chunk};
        break;
    case WEIR_WEIGHTS:
        body->weights = (struct weir_weights){.chunk = chunk,
                                              .version = hostile_step(world),
                                              .part = hostile_below(world, 3) ? 0 : hostile_near(world, 3)};
        break;
    case WEIR_GONE:
        body->gone = (struct weir_gone){chunk, hostile_step(world)};
        break;
    case WEIR_PARTIAL:
        body->partial = (struct weir_partial){hostile_below(world, 16) == 0, hostile_step(world), chunk, world->numbers,
                                              hostile_below(world, 4)};
        break;
    case WEIR_RECORD:
        hostile_record(world, &body->record);
        break;
    default:
        hostile_fill_copies(world, body, chunk);
    }
}

/* The interpreter's side: what the core asks for. */
static inline void hostile_give(struct hostile *world, struct weir_event *event)
{
    event->now_ns = world->now;
    if (!event->text)
        event->text = "";
    world->actions.count = 0;
    world->give(world->core, event, &world->actions);
    size_t count = world->actions.count;
    assert_true(count <= world->actions.capacity);
    for (size_t i = 0; i < count; i++) {
        struct weir_action action = world->actions.list[i];
        struct hostile_peer *peer = &world->peers[action.peer];
        switch (action.kind) {
        case WEIR_DO_CONNECT:
            assert_int_equal(peer->state, STREAM_NONE);
            peer->state = STREAM_CONNECTING;
            break;
        case WEIR_DO_CLOSE:
            *peer = (struct hostile_peer){STREAM_NONE, 0};
            break;
        case WEIR_DO_SEND:
            peer->unsent += peer->state == STREAM_OPEN;
            break;
        case WEIR_DO_RELEASE:
        case WEIR_DO_STORE:
            assert_true(action.payload < HOSTILE_PAYLOADS && world->owned[action.payload]);
            world->owned[action.payload] = false;
            break;
        default:
            break;
        }
        if (world->act)
            world->act(world, &action);
    }
}

/* An event of which nothing is to be said but that it happens. */
static inline void hostile_happens(struct hostile *world, enum weir_event_kind kind)
{
    struct weir_event event = {.kind = kind};
    hostile_give(world, &event);
}

/* A stream that the core asked for is there. */
static inline void hostile_open(struct hostile *world, uint32_t peer)
{
    struct weir_event event = {.kind = WEIR_ON_OPENED, .peer = peer};
    assert_int_equal(world->peers[peer].state, STREAM_CONNECTING);
    world->peers[peer].state = STREAM_OPEN;
    hostile_give(world, &event);
}

static inline void hostile_close(struct hostile *world, uint32_t peer)
{
    struct weir_event event = {.kind = WEIR_ON_CLOSED, .peer = peer, .text = "broken"};
    world->peers[peer] = (struct hostile_peer){STREAM_NONE, 0};
    hostile_give(world, &event);
}

static inline void hostile_say(struct hostile *world, uint32_t peer, const struct weir_message_body *body)
{
    struct weir_event event = {.kind = WEIR_ON_MESSAGE, .peer = peer, .body = body};
    bool empty = body->type == WEIR_CONTRIBUTION && body->contribution.empty;
    if ((body->type == WEIR_CONTRIBUTION && !empty) || body->type == WEIR_WEIGHTS || hostile_below(world, 40) == 0) {
        event.payload_bytes = hostile_below(world, 20) ? world->chunk_bytes : 1 + hostile_below(world, 100);
        event.payload = ++world->handles;
        assert_true(world->handles < HOSTILE_PAYLOADS);
        world->owned[event.payload] = true;
    }
    hostile_give(world, &event);
}

/* What a member of the cluster says first. */
static inline struct weir_hello hostile_member(enum weir_node_role role, uint32_t index)
{
    struct weir_hello hello = {.role = role, .index = index, .incarnation = 7, .job_hash = "job"};
    hello.numerics = hello.address = hello.canonical = "";
    return hello;
}

/* A member answers to whom the core connects. */
static inline void hostile_answer(struct hostile *world, uint32_t peer, enum weir_node_role role)
{
    struct weir_message_body body = {.type = WEIR_HELLO};
    struct weir_event event = {.kind = WEIR_ON_MESSAGE, .peer = peer, .body = &body};
    body.hello = hostile_member(role, 0);
    hostile_open(world, peer);
    hostile_give(world, &event);
}

/* Somebody comes who is let in: as which peer. */
static inline uint32_t hostile_join(struct hostile *world, const struct weir_hello *hello)
{
    struct weir_message_body body = {.type = WEIR_HELLO};
    uint32_t peer = UINT32_MAX;
    body.hello = *hello;
    assert_true(world->admit(world->core, hello, &peer));
    world->peers[peer].state = STREAM_OPEN;
    hostile_say(world, peer, &body);
    return peer;
}

/* Payloads that the core has. */
static inline uint32_t hostile_owned(const struct hostile *world)
{
    uint32_t owned = 0;
    for (uint64_t h = 0; h <= world->handles; h++)
        owned += world->owned[h];
    return owned;
}

static inline void hostile_say_anything(struct hostile *world, uint32_t peer)
{
    struct weir_message_body body;
    do
        body = (struct weir_message_body){
            .type = (enum weir_message_type)(1 + hostile_below(world, WEIR_MESSAGE_TYPES - 1))};
    while (!weir_message_exists(body.type));
    hostile_fill(world, &body);
    hostile_say(world, peer, &body);
}

/* Somebody connects and says Hello. */
static inline void hostile_arrive(struct hostile *world)
{
    struct weir_message_body body = {.type = WEIR_HELLO};
    uint32_t peer = UINT32_MAX;
    hostile_hello(world, &body.hello);
    if (!world->admit(world->core, &body.hello, &peer))
        return;
    assert_true(peer < world->peer_count);
    if (world->peers[peer].state != STREAM_NONE)
        hostile_close(world, peer);
    world->peers[peer].state = STREAM_OPEN;
    hostile_say(world, peer, &body);
}

/* Anything that peers, network and clock can do next. */
static inline void hostile_event(struct hostile *world)
{
    world->now += hostile_below(world, 20) ? hostile_below(world, 2000000) : hostile_below(world, 2000000000);
    if (world->now >= world->deadline(world->core)) {
        hostile_happens(world, WEIR_ON_TIME);
        assert_true(world->deadline(world->core) > world->now);
        return;
    }
    if (world->admit && hostile_below(world, 6) == 0) {
        hostile_arrive(world);
        return;
    }
    uint32_t peer = hostile_below(world, world->peer_count);
    struct hostile_peer *stream = &world->peers[peer];
    if (stream->state == STREAM_CONNECTING && hostile_below(world, 4)) {
        hostile_open(world, peer);
    } else if (stream->state == STREAM_CONNECTING || (stream->state == STREAM_OPEN && hostile_below(world, 60) == 0)) {
        hostile_close(world, peer);
    } else if (stream->state == STREAM_OPEN && stream->unsent && hostile_below(world, 3)) {
        struct weir_event event = {.kind = WEIR_ON_SENT, .peer = peer};
        stream->unsent--;
        hostile_give(world, &event);
    } else if (stream->state == STREAM_OPEN) {
        hostile_say_anything(world, peer);
    }
}

/* A world for one core, which the caller makes in world->arena and sets. */
static inline struct hostile *hostile_world(uint32_t seed, size_t actions_max)
{
    struct hostile *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->key = weir_random_key(seed, WEIR_RANDOM_TEST, 3, 0);
    world->now = 1;
    world->actions = rig_actions(&world->arena, actions_max);
    return world;
}

static inline void hostile_free(struct hostile *world)
{
    weir_arena_free(&world->arena);
    free(world);
}

#endif
