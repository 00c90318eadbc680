#include "protocol/node.h"

#include <assert.h>
#include <stdio.h>

#define CHIEF 0

/* A wait of one of the process's actors. */
struct reported {
    uint64_t step;
    char text[WEIR_WAIT_BYTES];
};

struct weir_node {
    struct weir_node_config config;
    uint8_t state;
    struct weir_link link;
    uint64_t heartbeat_at_ns, leave_by_ns;
    uint32_t unsent;
    int exit_code;
    char reason[512];
    uint64_t view;  /* number of the newest that was taken */
    bool named;     /* by that one */
    char told[200]; /* to go: why */
    bool drained;
    uint64_t drained_step;
    uint32_t drained_round;
    struct weir_wait wait; /* for the chief */
    struct reported reports[WEIR_NODE_WAITS_MAX];
    char said[WEIR_WAIT_BYTES];
    bool said_waiting;
    struct weir_machine_counts counts, link_counts;
};

static const struct weir_transition rows[] = {
    {WEIR_NODE_JOINING, WEIR_NODE_WAITING, "the chief answered"},
    {WEIR_NODE_JOINING, WEIR_NODE_DONE, "the chief refused, or could not be reached in time, or told to stop"},
    {WEIR_NODE_WAITING, WEIR_NODE_RUNNING, "the view"},
    {WEIR_NODE_WAITING, WEIR_NODE_FAILING, "told to stop while waiting"},
    {WEIR_NODE_WAITING, WEIR_NODE_LEAVING, "the view says that the job failed before it began, or told to go"},
    {WEIR_NODE_WAITING, WEIR_NODE_DONE, "the chief was lost, or refused, while waiting"},
    {WEIR_NODE_RUNNING, WEIR_NODE_DRAINING, "told to go"},
    {WEIR_NODE_RUNNING, WEIR_NODE_FAILING, "a lane can't go on, or told to stop"},
    {WEIR_NODE_RUNNING, WEIR_NODE_LEAVING, "the view says that the job finished or failed, or told to go when lost"},
    {WEIR_NODE_RUNNING, WEIR_NODE_DONE, "the chief was lost, or another process has this one's place"},
    {WEIR_NODE_DRAINING, WEIR_NODE_FAILING, "a lane can't go on, or told to stop"},
    {WEIR_NODE_DRAINING, WEIR_NODE_LEAVING, "a view without it, or one that says that the job finished or failed"},
    {WEIR_NODE_DRAINING, WEIR_NODE_DONE, "the chief was lost, or another process has this one's place"},
    {WEIR_NODE_FAILING, WEIR_NODE_LEAVING, "the view that the job failed"},
    {WEIR_NODE_FAILING, WEIR_NODE_DONE, "the job goes on without it, or nobody answered in time"},
    {WEIR_NODE_LEAVING, WEIR_NODE_DONE, "the last heartbeat is sent, or the chief is gone"},
};
const struct weir_machine weir_node_machine = {"node", rows, sizeof rows / sizeof rows[0]};

struct weir_node *weir_node_init(struct weir_arena *arena, const struct weir_node_config *config)
{
    struct weir_node *node = weir_arena_take(arena, 1, sizeof *node);
    node->config = *config;
    node->state = WEIR_NODE_JOINING;
    return node;
}

enum weir_node_state weir_node_state(const struct weir_node *node)
{
    return (enum weir_node_state)node->state;
}

const struct weir_machine_counts *weir_node_counts(const struct weir_node *node)
{
    return &node->counts;
}

const struct weir_machine_counts *weir_node_link_counts(const struct weir_node *node)
{
    return &node->link_counts;
}

static void move(struct weir_node *node, enum weir_node_state to)
{
    weir_machine_move(&weir_node_machine, &node->counts, &node->state, (uint8_t)to);
}

const char *weir_node_waiting(const struct weir_node *node)
{
    const struct reported *oldest = &node->reports[0];
    for (size_t i = 1; i < WEIR_NODE_WAITS_MAX; i++)
        if (node->reports[i].text[0] && (!oldest->text[0] || node->reports[i].step < oldest->step))
            oldest = &node->reports[i];
    return node->wait.is_long ? node->wait.text : oldest->text;
}

/* Looks whether it waits for the chief, and says for whom this process waits, if it does. */
static void say_waiting(struct weir_node *node, uint64_t now_ns, struct weir_actions *actions)
{
    const struct weir_link *link = &node->link;
    char text[WEIR_WAIT_BYTES] = "";
    if (!weir_link_up(link))
        snprintf(text, sizeof text, "%s: " WEIR_WAIT_CONNECTION " (%s)", node->config.chief_name,
                 link->error[0] ? link->error : "no answer");
    else if (node->state == WEIR_NODE_WAITING)
        snprintf(text, sizeof text, "%s: the view (it comes when all have joined)", node->config.chief_name);
    else if (node->state == WEIR_NODE_FAILING)
        snprintf(text, sizeof text, "%s: word that the job ends", node->config.chief_name);
    else if (node->drained)
        snprintf(text, sizeof text, "%s: a view without this worker", node->config.chief_name);
    node->wait.before_ns = 0;
    weir_wait_look(&node->wait, text, now_ns);
    const char *waiting = weir_node_waiting(node);
    if (waiting[0] || node->said_waiting) {
        snprintf(node->said, sizeof node->said, "%s", waiting);
        weir_actions_add(actions, WEIR_DO_PROGRESS)->text = node->said;
    }
    node->said_waiting = waiting[0];
}

static void set_outcome(struct weir_node *node, int code, const char *reason)
{
    node->exit_code = code;
    snprintf(node->reason, sizeof node->reason, "%s", reason);
}

static void stop(struct weir_node *node, struct weir_actions *actions)
{
    move(node, WEIR_NODE_DONE);
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_STOP);
    action->code = node->exit_code;
    action->text = node->reason;
}

static void send_heartbeat(struct weir_node *node, bool leaving, const char *error, struct weir_actions *actions)
{
    struct weir_heartbeat *heartbeat = &weir_actions_send(actions, CHIEF, WEIR_HEARTBEAT)->heartbeat;
    *heartbeat = (struct weir_heartbeat){
        .incarnation = node->config.hello.incarnation,
        .leaving = leaving,
        .error = error,
        .waiting = weir_node_waiting(node),
        .numerics = node->config.hello.numerics,
        .drained = node->drained,
        .drained_step = node->drained_step,
        .drained_round = node->drained_round,
    };
    node->unsent++;
}

/* Says its last word, and is done when that is sent. */
static void leave(struct weir_node *node, uint64_t now_ns, struct weir_actions *actions)
{
    move(node, WEIR_NODE_LEAVING);
    node->leave_by_ns = now_ns + node->config.lease_ns;
    send_heartbeat(node, true, "", actions);
}

static bool active(const struct weir_node *node)
{
    return node->state != WEIR_NODE_LEAVING && node->state != WEIR_NODE_DONE;
}

static void set_drained(struct weir_node *node, const char *detail)
{
    char text[512];
    snprintf(text, sizeof text, "%s is drained: %s%s", node->config.name, node->told, detail);
    set_outcome(node, WEIR_NODE_EXIT_DRAINED, text);
}

static void chief_lost(struct weir_node *node, struct weir_actions *actions)
{
    char text[512];
    if (node->state == WEIR_NODE_FAILING) {
        stop(node, actions); /* with the reason that it has */
        return;
    }
    if (node->state == WEIR_NODE_JOINING)
        snprintf(text, sizeof text, "%s could not be reached within start_timeout_s: %s", node->config.chief_name,
                 node->link.error);
    else
        snprintf(text, sizeof text, "lost %s: %s", node->config.chief_name, node->link.error);
    set_outcome(node, 1, text);
    if (node->drained) { /* it has done its part, and the chief that it waited for may have ended with the job */
        char detail[300];
        snprintf(detail, sizeof detail, "; %.290s", text);
        set_drained(node, detail);
    }
    stop(node, actions);
}

/* ---- a worker that is told to go */

static bool names(const struct weir_view *view, const struct weir_hello *self)
{
    for (size_t i = 0; i < view->node_count; i++)
        if (view->nodes[i].role == self->role && view->nodes[i].index == self->index)
            return view->nodes[i].incarnation == self->incarnation;
    return false;
}

/* Before the job begins, or where others have its part already, nobody misses it. */
static void on_drain(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    if (node->state > WEIR_NODE_RUNNING)
        return;
    snprintf(node->told, sizeof node->told, "%s", event->text);
    if (node->state == WEIR_NODE_RUNNING && node->named) {
        move(node, WEIR_NODE_DRAINING);
        weir_actions_tell(actions, WEIR_ACTOR_WORKER, 0, WEIR_ON_DRAIN)->text = node->told;
        return;
    }
    set_drained(node, node->view ? "" : ", before the job began");
    if (!weir_link_up(&node->link)) {
        stop(node, actions);
        return;
    }
    node->drained = true;
    leave(node, event->now_ns, actions);
}

static void on_drained(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    if (node->state != WEIR_NODE_DRAINING)
        return;
    node->drained = true;
    node->drained_step = event->step;
    node->drained_round = event->round;
    if (weir_link_up(&node->link)) /* else it is said with the first heartbeat */
        send_heartbeat(node, false, "", actions);
}

/* ---- what the chief says */

static void on_running_view(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_view *view = &event->body->view;
    if (node->state == WEIR_NODE_FAILING || view->number <= node->view)
        return; /* said again after a new Hello */
    if (node->state == WEIR_NODE_WAITING)
        move(node, WEIR_NODE_RUNNING);
    node->view = view->number;
    node->named = names(view, &node->config.hello);
    if (node->state == WEIR_NODE_DRAINING && !node->named) {
        set_drained(node, node->drained ? "; others do its part from now on" : "; others do its part already");
        node->drained = true;
        leave(node, event->now_ns, actions);
        return;
    }
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_LANES);
    action->has_body = true;
    action->body = *event->body;
}

static void on_view(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_view *view = &event->body->view;
    if (view->state == WEIR_VIEW_RUNNING) {
        on_running_view(node, event, actions);
        return;
    }
    set_outcome(node, view->state == WEIR_VIEW_FINISHED ? 0 : 1, view->reason ? view->reason : "");
    leave(node, event->now_ns, actions);
}

static void on_message(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    weir_actions_release(actions, event->payload);
    if (!active(node))
        return;
    switch (event->body->type) {
    case WEIR_HELLO:
        if (!weir_link_greeted(&node->link, &event->body->hello)) {
            chief_lost(node, actions);
            break;
        }
        node->heartbeat_at_ns = event->now_ns;
        if (node->state == WEIR_NODE_JOINING)
            move(node, WEIR_NODE_WAITING);
        break;
    case WEIR_VIEW:
        if (node->state != WEIR_NODE_JOINING)
            on_view(node, event, actions);
        break;
    case WEIR_REFUSED:
        if (node->state == WEIR_NODE_DRAINING)
            set_drained(node, "; another process has its place");
        else if (node->state != WEIR_NODE_FAILING) /* else it is the answer to its own reason */
            set_outcome(node, 1, event->body->refused.reason);
        stop(node, actions);
        break;
    default:
        break; /* a newer chief may say what this version does not know */
    }
}

/* This node can't go on, or was told to stop: the chief ends the job for all, with the reason. */
static void on_failed(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    bool missed = node->state != WEIR_NODE_DRAINING || !node->drained; /* servers may have closed its streams */
    if (!active(node) || node->state == WEIR_NODE_FAILING || !missed)
        return;
    char text[512];
    bool alone = node->link.greeted && !weir_link_up(&node->link); /* then the chief may be the cause of it */
    snprintf(text, sizeof text, "%s: %s%s%s", node->config.name, event->text, alone ? "; out of reach is also " : "",
             alone ? node->config.chief_name : "");
    set_outcome(node, 1, text);
    if (node->state == WEIR_NODE_JOINING) {
        stop(node, actions);
        return;
    }
    move(node, WEIR_NODE_FAILING);
    node->leave_by_ns = event->now_ns + node->config.lease_ns;
    if (weir_link_up(&node->link))
        send_heartbeat(node, false, node->reason, actions);
}

static void on_time(struct weir_node *node, uint64_t now_ns, struct weir_actions *actions)
{
    if (node->state == WEIR_NODE_DONE)
        return;
    bool leaving = node->state == WEIR_NODE_FAILING || node->state == WEIR_NODE_LEAVING;
    if (leaving && now_ns >= node->leave_by_ns) {
        stop(node, actions);
        return;
    }
    if (node->state == WEIR_NODE_LEAVING)
        return;
    if (weir_link_time(&node->link, now_ns, actions)) {
        chief_lost(node, actions);
        return;
    }
    if (weir_link_up(&node->link) && now_ns >= node->heartbeat_at_ns) {
        send_heartbeat(node, false, node->state == WEIR_NODE_FAILING ? node->reason : "", actions);
        node->heartbeat_at_ns = now_ns + node->config.heartbeat_ns;
    }
    say_waiting(node, now_ns, actions);
}

static void start_link(struct weir_node *node, uint64_t now_ns, struct weir_actions *actions)
{
    const struct weir_node_config *config = &node->config;
    const struct weir_link_target chief = {
        .peer = CHIEF,
        .name = config->chief_name,
        .role = WEIR_NODE_CHIEF,
        .job_hash = config->hello.job_hash,
        .start_patience_ns = config->start_timeout_ns,
        .patience_ns = config->lease_ns,
    };
    weir_link_start(&node->link, &chief, now_ns, &node->link_counts, actions);
}

void weir_node_step(struct weir_node *node, const struct weir_event *event, struct weir_actions *actions)
{
    switch (event->kind) {
    case WEIR_ON_START:
        start_link(node, event->now_ns, actions);
        break;
    case WEIR_ON_OPENED:
        if (!active(node))
            break;
        weir_link_opened(&node->link);
        weir_actions_send(actions, CHIEF, WEIR_HELLO)->hello = node->config.hello;
        node->unsent = 1;
        break;
    case WEIR_ON_CLOSED:
        node->unsent = 0;
        if (node->state == WEIR_NODE_LEAVING)
            stop(node, actions);
        else if (node->state != WEIR_NODE_DONE)
            weir_link_closed(&node->link, event->now_ns, event->text);
        break;
    case WEIR_ON_SENT:
        if (node->unsent > 0)
            node->unsent--;
        if (node->state == WEIR_NODE_LEAVING && node->unsent == 0)
            stop(node, actions);
        break;
    case WEIR_ON_MESSAGE:
        on_message(node, event, actions);
        break;
    case WEIR_ON_FAILED:
        on_failed(node, event, actions);
        break;
    case WEIR_ON_TIME:
        on_time(node, event->now_ns, actions);
        break;
    case WEIR_ON_DRAIN:
        on_drain(node, event, actions);
        break;
    case WEIR_ON_DRAINED:
        on_drained(node, event, actions);
        break;
    case WEIR_ON_WAITING:
        assert(event->lane < WEIR_NODE_WAITS_MAX);
        node->reports[event->lane].step = event->step;
        snprintf(node->reports[event->lane].text, WEIR_WAIT_BYTES, "%s", event->text);
        break;
    default:
        assert(!"an event that a node does not have");
    }
}

uint64_t weir_node_deadline(const struct weir_node *node)
{
    if (node->state == WEIR_NODE_DONE)
        return WEIR_NEVER;
    if (node->state == WEIR_NODE_LEAVING)
        return node->leave_by_ns;
    uint64_t deadline = weir_link_deadline(&node->link);
    if (weir_link_up(&node->link) && node->heartbeat_at_ns < deadline)
        deadline = node->heartbeat_at_ns;
    if (node->state == WEIR_NODE_FAILING && node->leave_by_ns < deadline)
        deadline = node->leave_by_ns;
    return deadline;
}
