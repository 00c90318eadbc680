/* One core on a bench: events go in one by one, and the test looks at the actions that came out. */
#ifndef WEIR_TEST_PROTOCOL_RIG_H
#define WEIR_TEST_PROTOCOL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "protocol/core.h"

struct rig {
    struct weir_arena arena;
    void *core;
    void (*step)(void *core, const struct weir_event *event, struct weir_actions *actions);
    struct weir_actions actions; /* of the newest event */
    uint64_t now, chunk_bytes;
};

static inline struct weir_actions rig_actions(struct weir_arena *arena, size_t most)
{
    struct weir_actions actions = {.capacity = most};
    actions.list = weir_arena_take(arena, most, sizeof(struct weir_action));
    return actions;
}

static inline void rig_give(struct rig *rig, struct weir_event event)
{
    event.now_ns = ++rig->now;
    event.text = event.text ? event.text : "";
    rig->actions.count = 0;
    rig->step(rig->core, &event, &rig->actions);
}

/* A message, with a chunk as its payload if that is not 0. */
static inline void rig_say(struct rig *rig, uint32_t peer, struct weir_message_body body, uint64_t payload)
{
    rig_give(rig, (struct weir_event){.kind = WEIR_ON_MESSAGE,
                                      .peer = peer,
                                      .body = &body,
                                      .payload = payload,
                                      .payload_bytes = payload ? rig->chunk_bytes : 0});
}

#endif
