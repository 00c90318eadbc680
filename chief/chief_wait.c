/* For whom the job waits: what members report, and what the chief sees by itself. */
#include <stdio.h>
#include <string.h>

#include "chief/chief_state.h"

/* A member that missed so many is waited for: more than it takes others to report what they miss of it, which says
 * more. */
#define SILENT_HEARTBEATS 20

const char *weir_chief_waiting(const struct weir_chief *chief)
{
    return chief->waiting;
}

static void list_members(struct weir_chief *chief, bool (*missing)(const struct member *member), char *text,
                         size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t m = 0; m < chief->member_count && at + 1 < bytes; m++)
        if (missing(&chief->members[m]))
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", chief->config.members[m].name);
}

static bool is_down(const struct member *member)
{
    return !member->up;
}

static bool has_not_left(const struct member *member)
{
    return !member->left && member->incarnation != 0;
}

static bool is_lost(const struct member *member)
{
    return member->left;
}

static bool is_heard(const struct member *member, uint64_t within_ns, uint64_t now_ns)
{
    return member->up && now_ns < member->heard_ns + within_ns;
}

/* "worker/1" of "worker/1 at 127.0.0.1:2224: its contribution ...": members may know each other by other addresses. */
static size_t role_length(const char *name)
{
    size_t length = 0;
    while (name[length] && name[length] != ' ' && name[length] != ':')
        length++;
    return length;
}

/* The member that `text` begins with, or member_count. */
static uint32_t member_named(const struct weir_chief *chief, const char *text)
{
    uint32_t m = 0;
    for (; m < chief->member_count; m++) {
        const char *name = chief->config.members[m].name;
        if (role_length(name) == role_length(text) && strncmp(name, text, role_length(name)) == 0)
            break;
    }
    return m;
}

/* It waits for another member, and is not silent. */
static bool reports(const struct weir_chief *chief, uint32_t m, uint64_t now_ns)
{
    return member_named(chief, chief->members[m].waiting) < chief->member_count &&
           is_heard(&chief->members[m], WEIR_WAIT_LONG_NS, now_ns);
}

/* The end of a chain of members that wait for each other: who waits for one that waits for nobody. member_count if
 * nobody reports a wait. */
static uint32_t last_of_chain(const struct weir_chief *chief, uint64_t now_ns)
{
    uint32_t m = 0;
    while (m < chief->member_count && !reports(chief, m, now_ns))
        m++;
    for (uint32_t hops = 0; m < chief->member_count && hops < chief->member_count; hops++) { /* they may form a ring */
        uint32_t next = member_named(chief, chief->members[m].waiting);
        if (!reports(chief, next, now_ns))
            break;
        m = next;
    }
    return m;
}

/* The chief's own wait. */
static void own(struct weir_chief *chief, uint64_t now_ns, char *text, size_t bytes)
{
    char names[WEIR_WAIT_BYTES / 2];
    text[0] = '\0';
    if (chief->state == WEIR_CHIEF_FINISHING || chief->state == WEIR_CHIEF_FAILING) {
        list_members(chief, has_not_left, names, sizeof names);
        snprintf(text, bytes, "%s: to leave", names);
        return;
    }
    if (weir_chief_computes(chief) && !weir_chief_enough_workers(chief)) {
        list_members(chief, is_lost, names, sizeof names);
        snprintf(text, bytes, "%s: to come back (%u of at least %u workers are there)", names,
                 weir_chief_workers_there(chief), chief->config.min_workers);
        return;
    }
    for (uint32_t m = 0; m < chief->member_count; m++) {
        const struct member *member = &chief->members[m];
        const char *name = chief->config.members[m].name;
        if (member->left || is_heard(member, SILENT_HEARTBEATS * chief->config.heartbeat_ns, now_ns))
            continue;
        if (member->up)
            snprintf(text, bytes, "%s: a sign of life (no heartbeat)", name);
        else
            snprintf(text, bytes, "%s: " WEIR_WAIT_CONNECTION " (%s)", name,
                     member->error[0] ? member->error : "closed");
        return;
    }
    weir_chief_fetch_waiting(chief, text, bytes);
}

/* "worker/1 at 127.0.0.1:2224 (says ps/0): its contribution ...". */
static void pass_on_report(struct weir_chief *chief, uint32_t m)
{
    const char *report = chief->members[m].waiting, *reporter = chief->config.members[m].name;
    int whom = 0;
    while (report[whom] && !(report[whom] == ':' && report[whom + 1] == ' '))
        whom++;
    snprintf(chief->waiting, sizeof chief->waiting, "%.*s (says %.*s)%s", whom, report, (int)role_length(reporter),
             reporter, report + whom);
}

/* What members report, as long as no record shows that the job goes on. False if they report nothing. */
static bool members_wait(struct weir_chief *chief, uint64_t now_ns)
{
    uint32_t m = chief->member_count;
    if (chief->state < WEIR_CHIEF_WRITING && now_ns >= chief->record_ns + WEIR_WAIT_LONG_NS)
        m = last_of_chain(chief, now_ns);
    if (m != chief->reporter)
        chief->reporter_ns = now_ns;
    chief->reporter = m;
    /* Members find out one after the other: until all have, the chain has a wrong end. */
    if (m < chief->member_count && now_ns >= chief->reporter_ns + WEIR_WAIT_LOOK_NS + 2 * chief->config.heartbeat_ns)
        pass_on_report(chief, m);
    return m < chief->member_count;
}

void weir_chief_say_waiting(struct weir_chief *chief, uint64_t now_ns, struct weir_actions *actions)
{
    char text[WEIR_WAIT_BYTES];
    if (chief->state == WEIR_CHIEF_DONE)
        return;
    if (chief->state == WEIR_CHIEF_GATHERING) {
        list_members(chief, is_down, chief->waiting, sizeof chief->waiting);
    } else {
        own(chief, now_ns, text, sizeof text);
        chief->wait.before_ns = 0;
        weir_wait_look(&chief->wait, text, now_ns);
        bool nobody_computes = weir_chief_computes(chief) && !weir_chief_enough_workers(chief);
        if (nobody_computes || !members_wait(chief, now_ns))
            snprintf(chief->waiting, sizeof chief->waiting, "%s", chief->wait.is_long ? text : "");
    }
    if (chief->waiting[0] || chief->said_waiting)
        weir_actions_add(actions, WEIR_DO_PROGRESS)->text = chief->waiting;
    chief->said_waiting = chief->waiting[0];
}
