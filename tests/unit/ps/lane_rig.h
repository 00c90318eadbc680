/* A lane core of the first or second of two servers, in a job of two workers, and what peers say to it. */
#ifndef WEIR_TESTS_LANE_RIG_H
#define WEIR_TESTS_LANE_RIG_H

#include "../protocol/rig.h"

#include "ps/lane.h"

#define WORKERS 2
#define SERVERS 2
#define CHIEF (WORKERS + SERVERS)
#define OBSERVER (CHIEF + 1)
#define ELEMENTS 10

static const uint64_t incarnations[2] = {11, 12};
static const char *const worker_names[WORKERS] = {"worker/0 at a", "worker/1 at b"};
static const uint32_t hosts[2] = {0, 1};

static inline void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_ps_lane_step(core, event, actions);
}

static const char *const server_names[SERVERS] = {"ps/0", "ps/1"};

static inline struct rig new_lane(uint32_t self, uint32_t chunks)
{
    static struct weir_view_chunk holders[64], record_holders;
    struct weir_layout layout = weir_layout_make((uint64_t)chunks * SERVERS * ELEMENTS, ELEMENTS, SERVERS, 1);
    assert_true(layout.chunks <= 64);
    weir_layout_hold(&layout, 1, holders, &record_holders);
    struct weir_ps_lane_config config = {
        .generation = 3,
        .incarnation = 7,
        .job_hash = "job",
        .numerics = "",
        .self = self,
        .workers = WORKERS,
        .observers = 2,
        .replicas = 2,
        .layout = layout,
        .slots = 1,
        .copies = 1,
        .chunks = holders,
        .record = record_holders,
        .server_names = server_names,
        .chief_name = "chief/0 at c",
        .worker_names = worker_names,
        .hosts = hosts,
        .start_timeout_ns = 1000000000,
        .patience_ns = 1000000000,
        .worker_incarnations = incarnations,
        .server_incarnations = incarnations,
        .chief_incarnation = 11,
    };
    struct rig rig = {.step = step, .chunk_bytes = 4 * ELEMENTS};
    rig.actions = rig_actions(&rig.arena, weir_ps_lane_actions_max(&config));
    rig.core = weir_ps_lane_init(&rig.arena, &config);
    return rig;
}

static inline struct weir_hello hello_of(enum weir_node_role role, uint32_t index)
{
    struct weir_hello hello = {.role = role, .index = index, .generation = 3, .job_hash = "job", .numerics = ""};
    hello.incarnation = index < 2 ? incarnations[index] : 99;
    return hello;
}

static inline void greet(struct rig *rig, uint32_t peer, struct weir_hello hello)
{
    struct weir_message_body body = {.type = WEIR_HELLO};
    body.hello = hello;
    rig_say(rig, peer, body, 0);
}

static inline void record(struct rig *rig, uint64_t step, enum weir_order order)
{
    struct weir_message_body body = {.type = WEIR_RECORD};
    body.record = (struct weir_record){.generation = 3, .step = step, .order = order, .scale = 1};
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_RECORD, .body = &body});
}

static inline void contribute_node(struct rig *rig, uint32_t worker, struct weir_tree_node node, uint32_t chunk,
                                   uint64_t step)
{
    struct weir_message_body body = {.type = WEIR_CONTRIBUTION};
    body.contribution = (struct weir_contribution){
        .generation = 3, .step = step, .chunk = chunk, .level = node.level, .index = node.index};
    rig_say(rig, worker, body, 100 * (worker + 1) + step);
}

static inline void contribute(struct rig *rig, uint32_t worker, uint32_t chunk, uint64_t step)
{
    contribute_node(rig, worker, (struct weir_tree_node){0, worker}, chunk, step);
}

/* Both workers' gradients: the whole step of a chunk, up to the apply. */
static inline void cover(struct rig *rig, uint32_t chunk, uint64_t step)
{
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        contribute(rig, worker, chunk, step);
}

static inline uint32_t count_sent(const struct rig *rig, uint32_t peer, enum weir_message_type type)
{
    uint32_t count = 0;
    for (size_t i = 0; i < rig->actions.count; i++)
        count += rig->actions.list[i].kind == WEIR_DO_SEND && rig->actions.list[i].peer == peer &&
                 rig->actions.list[i].body.type == type;
    return count;
}

static inline uint32_t count_asked(const struct rig *rig, enum weir_action_kind kind)
{
    uint32_t count = 0;
    for (size_t i = 0; i < rig->actions.count; i++)
        count += rig->actions.list[i].kind == kind;
    return count;
}

static inline bool admits(const struct rig *rig, struct weir_hello hello, uint32_t expected)
{
    uint32_t peer = UINT32_MAX;
    const char *reason = NULL;
    bool again;
    if (weir_ps_lane_admit(rig->core, &hello, &peer, &reason, &again)) {
        assert_int_equal(peer, expected);
        return true;
    }
    assert_true(reason && reason[0]);
    return false;
}

#endif
