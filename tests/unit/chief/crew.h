/* A chief with one parameter server and three workers in mid-training, and what tests say to it. */
#ifndef WEIR_TESTS_CHIEF_CREW_H
#define WEIR_TESTS_CHIEF_CREW_H

#include "../protocol/rig.h"

#include "chief/chief.h"

#define SERVERS 1
#define WORKERS 3
#define MEMBERS (SERVERS + WORKERS)
#define REPLICAS 4
#define MS UINT64_C(1000000)
#define LEASE_NS (5000 * MS)
#define START_NS (60000 * MS)
#define RESTARTS 5
#define WINDOW_NS (600000 * MS)

static const struct weir_chief_member members[MEMBERS] = {
    {WEIR_NODE_PS, 0, "ps/0 at a", ""},
    {WEIR_NODE_WORKER, 0, "worker/0 at b", ""},
    {WEIR_NODE_WORKER, 1, "worker/1 at c", ""},
    {WEIR_NODE_WORKER, 2, "worker/2 at d", ""},
};

static inline void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    struct weir_event at = *event;
    static uint64_t offset;
    if (event->kind == WEIR_ON_START)
        offset = 0;
    offset += event->offset; /* a test passes time by it */
    at.now_ns = event->now_ns + offset;
    at.offset = 0;
    weir_chief_step(core, &at, actions);
}

static inline struct weir_hello hello_of(uint32_t worker, uint64_t incarnation)
{
    return (struct weir_hello){.role = WEIR_NODE_WORKER,
                               .index = worker,
                               .incarnation = incarnation,
                               .job_hash = "job",
                               .numerics = "",
                               .address = "",
                               .canonical = "",
                               .train_samples = 60};
}

static inline void arrive(struct rig *rig, uint32_t member, struct weir_hello hello)
{
    struct weir_message_body body = {.type = WEIR_HELLO, .hello = hello};
    rig_say(rig, member, body, 0);
}

static inline struct rig new_chief_with(uint32_t min_workers, uint32_t max_restarts)
{
    struct weir_chief_config config = {
        .hello = {.role = WEIR_NODE_CHIEF, .incarnation = 7, .job_hash = "job", .numerics = "", .address = ""},
        .name = "chief/0",
        .members = members,
        .servers = SERVERS,
        .workers = WORKERS,
        .replicas = REPLICAS,
        .min_workers = min_workers,
        .copies = 1,
        .restarts = {max_restarts, WINDOW_NS},
        .layout = weir_layout_make(30, 10, SERVERS, 1),
        .train_samples_min = 10,
        .start_timeout_ns = START_NS,
        .lease_ns = LEASE_NS,
        .heartbeat_ns = 100 * MS,
        .elastic = true,
    };
    struct rig rig = {.step = step};
    rig.actions = rig_actions(&rig.arena, weir_chief_actions_max(&config));
    rig.core = weir_chief_init(&rig.arena, &config);
    rig_give(&rig, (struct weir_event){.kind = WEIR_ON_START});
    struct weir_hello ps = hello_of(0, 1);
    ps.role = WEIR_NODE_PS;
    arrive(&rig, 0, ps);
    for (uint32_t w = 0; w < WORKERS; w++)
        arrive(&rig, SERVERS + w, hello_of(w, 10 + w));
    assert_int_equal(weir_chief_state(rig.core), WEIR_CHIEF_TRAINING);
    return rig;
}

static inline struct rig new_chief_of(uint32_t min_workers)
{
    return new_chief_with(min_workers, RESTARTS);
}

static inline struct rig new_chief(void)
{
    return new_chief_of(1);
}

/* The view that went out in the newest step, to ps/0; NULL: none. */
static inline const struct weir_view *view(const struct rig *rig)
{
    for (size_t i = 0; i < rig->actions.count; i++)
        if (rig->actions.list[i].kind == WEIR_DO_SEND && rig->actions.list[i].peer == 0 &&
            rig->actions.list[i].body.type == WEIR_VIEW)
            return &rig->actions.list[i].body.view;
    return NULL;
}

static inline bool refused(const struct rig *rig, uint32_t member)
{
    for (size_t i = 0; i < rig->actions.count; i++)
        if (rig->actions.list[i].kind == WEIR_DO_SEND && rig->actions.list[i].peer == member &&
            rig->actions.list[i].body.type == WEIR_REFUSED)
            return true;
    return false;
}

static inline void hosts_are(const struct rig *rig, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const struct weir_view *newest = view(rig);
    const uint32_t expected[REPLICAS] = {a, b, c, d};
    assert_non_null(newest);
    assert_int_equal(newest->state, WEIR_VIEW_RUNNING);
    assert_memory_equal(newest->hosts, expected, sizeof expected);
}

static inline void beat(struct rig *rig, uint32_t member, const char *error)
{
    struct weir_message_body body = {.type = WEIR_HEARTBEAT};
    body.heartbeat = (struct weir_heartbeat){.error = error, .waiting = "", .numerics = ""};
    rig_say(rig, member, body, 0);
}

/* All but one say that they live, for that long. */
static inline void pass(struct rig *rig, uint64_t duration, uint32_t silent)
{
    for (uint64_t passed = 0; passed < duration; passed += 50 * MS) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            if (m != silent)
                beat(rig, m, "");
        rig_give(rig, (struct weir_event){.kind = WEIR_ON_TIME, .offset = 50 * MS});
        if (view(rig))
            return;
    }
}

/* Whether a new stream with that Hello is let in. */
static inline bool takes(const struct rig *rig, const struct weir_hello *hello)
{
    uint32_t peer;
    const char *reason;
    bool differs;
    return weir_chief_admit(rig->core, hello, &peer, &reason, &differs);
}

#endif
