#include "cli/agent_node.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"

#define SAY_WAITING_NS (10 * WEIR_NS_PER_S)
_Static_assert(WEIR_NODE_WAITS_MAX > WEIR_LANES_MAX, "each lane has a place, and one actor beside them");

_Static_assert(WEIR_NODE_EXIT_DRAINED == WEIR_EXIT_DRAINED, "the core says how the process ends");

#define VIEW_LIMIT_BYTES ((size_t)16 << 20)

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_node_step(core, event, actions);
}

static uint64_t deadline(const void *core)
{
    return weir_node_deadline(core);
}

static const char *address(void *context, uint32_t peer, uint32_t *channel)
{
    const struct weir_agent_node *node = context;
    (void)peer;
    *channel = WEIR_CHANNEL_CONTROL;
    return node->process->chief.address;
}

static void outgoing(void *context, struct weir_message_body *body, struct weir_attachment *attachment)
{
    const struct weir_agent_node *node = context;
    (void)attachment;
    if (body->type != WEIR_HEARTBEAT)
        return;
    weir_process_measure(node->process, &body->heartbeat);
    body->heartbeat.step = node->step(node->owner);
}

/* Says for whom this node waits, and when that is over; of the same one again only after a while. */
static void say_waiting(struct weir_agent_node *node, const char *text)
{
    uint64_t now = weir_clock_ns();
    size_t name = strcspn(text, ":(");
    if (!*text) {
        if (node->waits)
            weir_log_info("no longer waiting for %s", node->waiting);
        node->waits = false;
        return;
    }
    if (strncmp(text, node->waiting, name) == 0 && now < node->said_ns + SAY_WAITING_NS)
        return;
    snprintf(node->waiting, sizeof node->waiting, "%s", text);
    node->waits = true;
    node->said_ns = now;
    weir_log_info("waiting for %s", text);
}

/* It came over the network: what the cores count on is looked at here. */
static bool view_fits(const struct weir_process *process, const struct weir_view *view)
{
    if (view->replicas != process->replicas || view->lanes != process->lanes)
        return false;
    for (uint32_t r = 0; r < view->replicas; r++)
        if (view->hosts[r] >= process->worker_count && view->hosts[r] != WEIR_NO_HOST)
            return false;
    return true;
}

static void take_view(struct weir_agent_node *node, const struct weir_view *view)
{
    if (!view_fits(node->process, view))
        weir_agent_node_fail(node, "the chief's view is of another job: its replicas, lanes or workers are others");
    else if (node->has_view)
        node->view(node->owner, view);
    else
        node->lanes(node->owner, view);
    node->has_view = true;
}

static void perform(void *context, const struct weir_action *action)
{
    struct weir_agent_node *node = context;
    switch (action->kind) {
    case WEIR_DO_LANES:
        take_view(node, &action->body.view);
        break;
    case WEIR_DO_PROGRESS:
        say_waiting(node, action->text);
        break;
    case WEIR_DO_STOP:
        weir_process_agent_done(node->process, action->code, action->text);
        break;
    default:
        break;
    }
}

void weir_agent_node_init(struct weir_agent_node *node, struct weir_process *process, const struct weir_member *self,
                          const struct weir_hello *hello)
{
    const struct weir_job *job = &process->job;
    struct weir_node_config config = {
        .hello = *hello,
        .name = self->name,
        .chief_name = process->chief.name,
        .start_timeout_ns = job->start_timeout_s * WEIR_NS_PER_S,
        .lease_ns = weir_process_lease_ns(process),
        .heartbeat_ns = job->heartbeat_ms * WEIR_NS_PER_MS,
    };
    node->process = process;
    snprintf(node->name, sizeof node->name, "control");
    node->actor = (struct weir_actor){
        .name = node->name,
        .core = weir_node_init(&node->arena, &config),
        .context = node,
        .step = step,
        .deadline = deadline,
        .actions_max = WEIR_NODE_ACTIONS_MAX,
        .peers = 1,
        .address = address,
        .outgoing = outgoing,
        .perform = perform,
        .message_limit_bytes = VIEW_LIMIT_BYTES,
    };
    node->thread = weir_thread_new(process->transport, node->name);
    weir_thread_add(node->thread, &node->actor);
}

void weir_agent_node_fail(struct weir_agent_node *node, const char *why)
{
    struct weir_event event = {.kind = WEIR_ON_FAILED, .text = why};
    weir_post(&node->actor, &event);
}

bool weir_agent_node_start_lanes(struct weir_agent_node *node)
{
    struct weir_error err;
    for (; node->started < node->process->lanes; node->started++) {
        if (!weir_thread_start(node->lane_threads[node->started], &err)) {
            weir_agent_node_fail(node, err.text);
            return false;
        }
    }
    return true;
}

void weir_agent_node_stop(struct weir_agent_node *node)
{
    weir_thread_stop(node->thread);
    for (uint32_t l = 0; l < node->process->lanes; l++)
        weir_thread_stop(node->lane_threads[l]);
}

void weir_agent_node_join_lanes(struct weir_agent_node *node)
{
    for (uint32_t l = 0; l < node->started; l++)
        weir_thread_join(node->lane_threads[l]);
    weir_thread_free(node->thread);
    for (uint32_t l = 0; l < node->process->lanes; l++)
        weir_thread_free(node->lane_threads[l]);
}

void weir_agent_node_free(struct weir_agent_node *node)
{
    weir_arena_free(&node->arena);
}

uint64_t *weir_agent_incarnations(const struct weir_view *view, enum weir_node_role role, uint32_t count,
                                  struct weir_arena *arena)
{
    uint64_t *incarnations = weir_arena_take(arena, view->node_count + count, sizeof(uint64_t));
    size_t position = 0; /* the chief lists nodes by index */
    for (size_t n = 0; n < view->node_count; n++)
        if (view->nodes[n].role == role)
            incarnations[position++] = view->nodes[n].incarnation;
    return incarnations;
}
