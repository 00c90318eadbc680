#include "protocol/core.h"

#include <assert.h>

struct weir_action *weir_actions_add(struct weir_actions *actions, enum weir_action_kind kind)
{
    assert(actions->count < actions->capacity);
    struct weir_action *action = &actions->list[actions->count++];
    *action = (struct weir_action){.kind = kind, .text = ""};
    return action;
}

struct weir_message_body *weir_actions_send(struct weir_actions *actions, uint32_t peer, enum weir_message_type type)
{
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_SEND);
    action->peer = peer;
    action->has_body = true;
    action->body.type = type;
    return &action->body;
}

struct weir_action *weir_actions_tell(struct weir_actions *actions, enum weir_actor_name actor, uint32_t lane,
                                      enum weir_event_kind kind)
{
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_TELL);
    action->actor = actor;
    action->lane = lane;
    action->tell = kind;
    return action;
}

void weir_actions_release(struct weir_actions *actions, uint64_t payload)
{
    if (payload)
        weir_actions_add(actions, WEIR_DO_RELEASE)->payload = payload;
}
