#include "chief/chief.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "chief/chief_state.h"

static const struct weir_transition rows[] = {
    {WEIR_CHIEF_GATHERING, WEIR_CHIEF_TRAINING, "all members have joined: the view is out"},
    {WEIR_CHIEF_GATHERING, WEIR_CHIEF_FAILING, "time is up, a member was lost, or told to stop"},
    {WEIR_CHIEF_TRAINING, WEIR_CHIEF_FETCHING, "the stop record"},
    {WEIR_CHIEF_TRAINING, WEIR_CHIEF_FAILING, "a member was lost or can't go on, or told to stop"},
    {WEIR_CHIEF_FETCHING, WEIR_CHIEF_WRITING, "all chunks are here"},
    {WEIR_CHIEF_FETCHING, WEIR_CHIEF_FAILING, "a member was lost at the end"},
    {WEIR_CHIEF_WRITING, WEIR_CHIEF_FINISHING, "results are written: View(finished) is out"},
    {WEIR_CHIEF_WRITING, WEIR_CHIEF_FAILING, "results could not be written, or a member was lost meanwhile"},
    {WEIR_CHIEF_FINISHING, WEIR_CHIEF_DONE, "all have left"},
    {WEIR_CHIEF_FAILING, WEIR_CHIEF_DONE, "all have left, or their leases ran out"},
};
const struct weir_machine weir_chief_machine = {"chief", rows, sizeof rows / sizeof rows[0]};

static void move(struct weir_chief *chief, enum weir_chief_state to)
{
    weir_machine_move(&weir_chief_machine, &chief->counts, &chief->state, (uint8_t)to);
}

size_t weir_chief_actions_max(const struct weir_chief_config *config)
{
    size_t streams = (size_t)config->layout.servers * config->layout.lanes;
    return 4 * ((size_t)config->servers + config->workers + config->observers) + 10 * streams + 16;
}

static void build_view(struct weir_chief *chief, struct weir_arena *arena)
{
    const struct weir_chief_config *config = &chief->config;
    chief->nodes = weir_arena_take(arena, chief->member_count + 1, sizeof(struct weir_view_node));
    chief->chunks = weir_arena_take(arena, config->layout.chunks, sizeof(struct weir_view_chunk));
    chief->hosts = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    chief->present = weir_arena_take(arena, config->workers, sizeof(bool));
    chief->loads = weir_arena_take(arena, config->workers, sizeof(uint32_t));
    chief->view = (struct weir_view){
        .generation = config->generation,
        .term = 1,
        .number = 0,
        .reason = "",
        .replicas = config->replicas,
        .lanes = config->layout.lanes,
        .chunk_elements = config->layout.chunk_elements,
        .flat_elements = config->layout.flat_elements,
        .nodes = chief->nodes,
        .node_count = chief->member_count + 1,
        .chunks = chief->chunks,
        .chunk_count = config->layout.chunks,
        .hosts = chief->hosts,
        .variables = config->variables,
        .variable_count = config->variable_count,
        .slots = config->slots,
        .slot_count = config->slot_count,
    };
    weir_layout_hold(&config->layout, config->copies, chief->chunks, &chief->view.record);
}

struct weir_chief *weir_chief_init(struct weir_arena *arena, const struct weir_chief_config *config)
{
    struct weir_chief *chief = weir_arena_take(arena, 1, sizeof *chief);
    chief->config = *config;
    chief->state = WEIR_CHIEF_GATHERING;
    chief->member_count = config->servers + config->workers;
    chief->members = weir_arena_take(arena, chief->member_count, sizeof(struct member));
    weir_chief_fetch_init(chief, arena);
    chief->observers = weir_arena_take(arena, config->observers, sizeof(bool));
    build_view(chief, arena);
    return chief;
}

bool weir_chief_admit(const struct weir_chief *chief, const struct weir_hello *hello, uint32_t *peer,
                      const char **reason, bool *job_differs)
{
    *job_differs = false;
    *reason = "as many observers as the chief takes are there already";
    if (hello->role == WEIR_NODE_OBSERVER) {
        for (uint32_t o = 0; o < chief->config.observers; o++)
            if (!chief->observers[o]) {
                *peer = chief->member_count + chief->stream_count + o;
                return true;
            }
        return false;
    }
    for (uint32_t m = 0; m < chief->member_count; m++) {
        const struct weir_chief_member *member = &chief->config.members[m];
        if (member->role != hello->role || member->index != hello->index)
            continue;
        *peer = m;
        *reason = "its job differs from the chief's";
        *job_differs = strcmp(hello->job_hash, chief->config.hello.job_hash) != 0;
        if (*job_differs)
            return false;
        *reason = "it names no incarnation, by which a restarted process is told from the one before";
        if (hello->incarnation == 0)
            return false;
        return chief->state == WEIR_CHIEF_GATHERING || chief->members[m].incarnation == 0 ||
               chief->members[m].incarnation == hello->incarnation || weir_chief_takes_again(chief, m, hello, reason);
    }
    *reason = "its role and index are not in the chief's TF_CONFIG";
    return false;
}

enum weir_chief_state weir_chief_state(const struct weir_chief *chief)
{
    return (enum weir_chief_state)chief->state;
}

const struct weir_heartbeat *weir_chief_member(const struct weir_chief *chief, uint32_t member)
{
    return &chief->members[member].heartbeat;
}

bool weir_chief_same_numerics(const struct weir_chief *chief)
{
    return !chief->numerics_differ;
}

const struct weir_machine_counts *weir_chief_counts(const struct weir_chief *chief)
{
    return &chief->counts;
}

const struct weir_machine_counts *weir_chief_link_counts(const struct weir_chief *chief)
{
    return &chief->link_counts;
}

/* ---- the view */

static void send_view(struct weir_chief *chief, uint32_t peer, struct weir_actions *actions)
{
    weir_actions_send(actions, peer, WEIR_VIEW)->view = chief->view;
}

static void publish(struct weir_chief *chief, enum weir_view_state state, struct weir_actions *actions)
{
    chief->view.state = state;
    chief->view.number++;
    chief->view_is_old = false;
    weir_chief_place(chief);
    for (uint32_t m = 0; m < chief->member_count; m++)
        if (chief->members[m].up)
            send_view(chief, m, actions);
    for (uint32_t o = 0; o < chief->config.observers; o++)
        if (chief->observers[o])
            send_view(chief, chief->member_count + chief->stream_count + o, actions);
}

/* Everybody is told why the job ends, and leaves. */
void weir_chief_fail(struct weir_chief *chief, const char *reason, uint64_t now_ns, struct weir_actions *actions)
{
    if (chief->state >= WEIR_CHIEF_FINISHING)
        return;
    snprintf(chief->reason, sizeof chief->reason, "%s", reason);
    chief->view.reason = chief->reason;
    move(chief, WEIR_CHIEF_FAILING);
    chief->leave_by_ns = now_ns + chief->config.lease_ns;
    publish(chief, WEIR_VIEW_FAILED, actions);
}

/* All workers must read the same data, and enough for a step; the view says how much it is. */
static bool data_fits(struct weir_chief *chief, char *text, size_t bytes)
{
    const struct weir_chief_config *config = &chief->config;
    const struct member *first = &chief->members[config->servers];
    for (uint32_t m = config->servers; m < chief->member_count; m++) {
        const struct member *member = &chief->members[m];
        if (member->train_samples < config->train_samples_min) {
            snprintf(text, bytes, "%s has %llu training samples: fewer than the %llu that one step needs",
                     config->members[m].name, (unsigned long long)member->train_samples,
                     (unsigned long long)config->train_samples_min);
            return false;
        }
        if (member->train_samples != first->train_samples || member->validation_samples != first->validation_samples) {
            snprintf(text, bytes,
                     "%s has %llu training and %llu validation samples, %s has %llu and %llu: all workers must read "
                     "the same data",
                     config->members[m].name, (unsigned long long)member->train_samples,
                     (unsigned long long)member->validation_samples, config->members[config->servers].name,
                     (unsigned long long)first->train_samples, (unsigned long long)first->validation_samples);
            return false;
        }
    }
    chief->view.train_samples = first->train_samples;
    chief->view.validation_samples = first->validation_samples;
    return true;
}

static void try_begin(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    char text[900];
    if (chief->state != WEIR_CHIEF_GATHERING)
        return;
    for (uint32_t m = 0; m < chief->member_count; m++)
        if (!chief->members[m].up)
            return;
    if (!data_fits(chief, text, sizeof text)) {
        weir_chief_fail(chief, text, now_ns, actions);
        return;
    }
    chief->nodes[0] = (struct weir_view_node){WEIR_NODE_CHIEF, chief->config.hello.index,
                                              chief->config.hello.incarnation, chief->config.hello.address};
    for (uint32_t m = 0; m < chief->member_count; m++)
        chief->nodes[m + 1] = (struct weir_view_node){chief->config.members[m].role, chief->config.members[m].index,
                                                      chief->members[m].incarnation, chief->config.members[m].address};
    move(chief, WEIR_CHIEF_TRAINING);
    publish(chief, WEIR_VIEW_RUNNING, actions);
    weir_chief_fetch_start(chief, now_ns, actions);
}

/* ---- members */

static void try_leave(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    if (chief->state != WEIR_CHIEF_FINISHING && chief->state != WEIR_CHIEF_FAILING)
        return;
    bool all_left = true;
    for (uint32_t m = 0; m < chief->member_count; m++)
        all_left = all_left && (chief->members[m].left || chief->members[m].incarnation == 0);
    if (!all_left && now_ns < chief->leave_by_ns)
        return;
    struct weir_action *action;
    action = weir_actions_add(actions, WEIR_DO_STOP);
    action->code = chief->state == WEIR_CHIEF_FINISHING ? 0 : 1;
    action->text = chief->reason;
    move(chief, WEIR_CHIEF_DONE);
}

static void on_member_hello(struct weir_chief *chief, uint32_t m, const struct weir_event *event,
                            struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    const struct weir_hello *hello = &event->body->hello;
    if (chief->view.number > 0)
        weir_chief_join(chief, m, hello->incarnation, event->now_ns, actions);
    member->up = true;
    member->incarnation = hello->incarnation;
    member->heard_ns = event->now_ns;
    if (strcmp(hello->numerics, chief->config.hello.numerics) != 0)
        chief->numerics_differ = true;
    struct weir_message_body *reply = weir_actions_send(actions, m, WEIR_HELLO);
    reply->hello = chief->config.hello;
    member->train_samples = hello->train_samples;
    member->validation_samples = hello->validation_samples;
    if (chief->view.number == 0)
        try_begin(chief, event->now_ns, actions);
    else if (!chief->view_is_old)
        send_view(chief, m, actions);
}

/* One that fails or leaves is lost, but for one that is drained; one that was lost and is not is back. */
static void on_worker_heartbeat(struct weir_chief *chief, uint32_t m, const struct weir_heartbeat *heartbeat,
                                uint64_t now_ns, struct weir_actions *actions)
{
    char text[400];
    snprintf(text, sizeof text, "lost %s: it left", chief->config.members[m].name);
    if (heartbeat->drained) {
        weir_chief_drained(chief, m, heartbeat, now_ns, actions);
        return;
    }
    if (!heartbeat->leaving && !heartbeat->error[0]) {
        weir_chief_back(chief, m, actions);
        return;
    }
    if (heartbeat->error[0])
        snprintf(text, sizeof text, "lost %.390s", heartbeat->error); /* it begins with the worker's name */
    if (!chief->members[m].left)
        weir_chief_lose(chief, m, text, now_ns, actions);
    chief->members[m].gone = true;
    if (heartbeat->error[0])
        weir_actions_send(actions, m, WEIR_REFUSED)->refused.reason = heartbeat->error; /* it may go */
}

static void on_heartbeat(struct weir_chief *chief, uint32_t m, const struct weir_event *event,
                         struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    const struct weir_heartbeat *heartbeat = &event->body->heartbeat;
    member->heard_ns = event->now_ns;
    member->heartbeat = *heartbeat;
    snprintf(member->waiting, sizeof member->waiting, "%s", heartbeat->waiting);
    member->heartbeat.error = member->heartbeat.waiting = member->heartbeat.numerics = "";
    if (heartbeat->drained && chief->state == WEIR_CHIEF_GATHERING) {
        weir_chief_forget(chief, m, actions);
    } else if (weir_chief_can_lose(chief, m)) {
        on_worker_heartbeat(chief, m, heartbeat, event->now_ns, actions);
    } else if (heartbeat->leaving) {
        member->left = true;
        if (chief->state < WEIR_CHIEF_FINISHING) {
            char text[600];
            snprintf(text, sizeof text, "%s left before the job was over", chief->config.members[m].name);
            weir_chief_fail(chief, text, event->now_ns, actions);
        }
        try_leave(chief, event->now_ns, actions);
    } else if (heartbeat->error[0]) {
        weir_chief_fail(chief, heartbeat->error, event->now_ns, actions);
    }
}

static void on_control_message(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    uint32_t peer = event->peer;
    if (peer >= chief->member_count) {
        bool *observer = &chief->observers[peer - chief->member_count - chief->stream_count];
        if (event->body->type != WEIR_HELLO || *observer) {
            struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
            action->peer = peer;
            action->text = event->body->type == WEIR_HELLO ? "a second Hello on one stream"
                                                           : "an observer says nothing but Hello to the chief";
            *observer = false;
            return;
        }
        *observer = true;
        weir_actions_send(actions, peer, WEIR_HELLO)->hello = chief->config.hello;
        if (chief->view.number > 0)
            send_view(chief, peer, actions);
    } else if (event->body->type == WEIR_HELLO && !chief->members[peer].up) {
        on_member_hello(chief, peer, event, actions);
    } else if (event->body->type == WEIR_HEARTBEAT) {
        on_heartbeat(chief, peer, event, actions);
    } else {
        struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
        action->peer = peer;
        action->text = "a message that does not belong on a control stream";
        chief->members[peer].up = false;
        chief->members[peer].down_ns = event->now_ns;
    }
}

static void on_closed(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    uint32_t peer = event->peer;
    if (peer < chief->member_count) {
        struct member *member = &chief->members[peer];
        if (member->up)
            member->down_ns = event->now_ns;
        member->up = false;
        snprintf(member->error, sizeof member->error, "%s", event->text);
        try_leave(chief, event->now_ns, actions);
    } else if (peer < chief->member_count + chief->stream_count) {
        weir_chief_fetch_closed(chief, event);
    } else {
        chief->observers[peer - chief->member_count - chief->stream_count] = false;
    }
}

/* ---- time */

static uint64_t patience_with(const struct weir_chief *chief, uint32_t m)
{
    uint64_t broken_ns = WEIR_CHIEF_BROKEN_HEARTBEATS * chief->config.heartbeat_ns;
    bool broken = !chief->members[m].up && weir_chief_can_lose(chief, m) && broken_ns < chief->config.lease_ns;
    return broken ? broken_ns : chief->config.lease_ns;
}

static void judge_members(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    char text[600];
    for (uint32_t m = 0; m < chief->member_count; m++) {
        struct member *member = &chief->members[m];
        if (member->left || member->incarnation == 0)
            continue; /* gone for good, or never there */
        uint64_t since = member->up ? member->heard_ns : member->down_ns;
        if (now_ns < since + patience_with(chief, m))
            continue;
        if (member->up)
            snprintf(text, sizeof text, "lost %s: no heartbeat for %llu ms", chief->config.members[m].name,
                     (unsigned long long)((now_ns - since) / 1000000));
        else
            snprintf(text, sizeof text, "lost %s: %s", chief->config.members[m].name,
                     member->error[0] ? member->error : "connection closed");
        if (weir_chief_can_lose(chief, m)) {
            weir_chief_lose(chief, m, text, now_ns, actions);
            continue;
        }
        member->left = true; /* nobody waits for it */
        weir_chief_fail(chief, text, now_ns, actions);
        return;
    }
}

static void on_time(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    if (chief->state == WEIR_CHIEF_DONE)
        return;
    if (chief->state >= WEIR_CHIEF_FINISHING) {
        try_leave(chief, now_ns, actions);
    } else {
        char text[600];
        judge_members(chief, now_ns, actions);
        if (weir_chief_idle_too_long(chief, now_ns, text, sizeof text))
            weir_chief_fail(chief, text, now_ns, actions);
        weir_chief_fetch_time(chief, now_ns, actions);
    }
    weir_chief_say_waiting(chief, now_ns, actions);
    if (chief->state == WEIR_CHIEF_GATHERING && now_ns >= chief->started_ns + chief->config.start_timeout_ns) {
        char text[600];
        snprintf(text, sizeof text, "%s: these did not come within start_timeout_s: %.500s", chief->config.name,
                 chief->waiting);
        weir_chief_fail(chief, text, now_ns, actions);
    }
    chief->look_at_ns = now_ns + chief->config.heartbeat_ns;
}

/* A chief that was itself held up has heard nobody meanwhile: its own pauses are no fault of theirs. Only what a pause
 * exceeds its usual sleep by is forgiven: who is always late would else forgive all time. */
static void forgive_own_pause(struct weir_chief *chief, uint64_t now_ns)
{
    uint64_t gap = now_ns - chief->last_ns;
    bool held_up = chief->last_ns && gap > 2 * chief->config.heartbeat_ns;
    chief->last_ns = now_ns;
    if (!held_up)
        return;
    uint64_t pause = gap - chief->config.heartbeat_ns;
    chief->started_ns += pause;
    chief->leave_by_ns += pause;
    chief->idle_since_ns += pause;
    for (uint32_t m = 0; m < chief->member_count; m++) {
        chief->members[m].heard_ns += pause;
        chief->members[m].down_ns += pause;
    }
}

void weir_chief_step(struct weir_chief *chief, const struct weir_event *event, struct weir_actions *actions)
{
    forgive_own_pause(chief, event->now_ns);
    bool lane = event->peer >= chief->member_count && event->peer < chief->member_count + chief->stream_count;
    switch (event->kind) {
    case WEIR_ON_START:
        chief->started_ns = chief->look_at_ns = event->now_ns;
        break;
    case WEIR_ON_OPENED:
        weir_chief_fetch_opened(chief, event->peer, actions);
        break;
    case WEIR_ON_CLOSED:
        on_closed(chief, event, actions);
        break;
    case WEIR_ON_MESSAGE:
        if (lane) {
            weir_chief_fetch_message(chief, event, actions);
        } else {
            weir_actions_release(actions, event->payload);
            on_control_message(chief, event, actions);
        }
        break;
    case WEIR_ON_SENT:
        break;
    case WEIR_ON_FAILED: {
        char text[600];
        snprintf(text, sizeof text, "%s: %s", chief->config.name, event->text);
        weir_chief_fail(chief, text, event->now_ns, actions);
        break;
    }
    case WEIR_ON_RESULTS:
        if (chief->state != WEIR_CHIEF_WRITING)
            break;
        if (event->text[0]) {
            weir_chief_fail(chief, event->text, event->now_ns, actions);
            break;
        }
        move(chief, WEIR_CHIEF_FINISHING);
        chief->leave_by_ns = event->now_ns + chief->config.lease_ns;
        publish(chief, WEIR_VIEW_FINISHED, actions);
        break;
    case WEIR_ON_TIME:
        on_time(chief, event->now_ns, actions);
        break;
    default:
        assert(!"an event that the chief does not have");
    }
    if (chief->view_is_old && weir_chief_computes(chief))
        publish(chief, WEIR_VIEW_RUNNING, actions);
}

uint64_t weir_chief_deadline(const struct weir_chief *chief)
{
    return chief->state == WEIR_CHIEF_DONE ? WEIR_NEVER : chief->look_at_ns;
}
