#include "protocol/link.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct weir_transition rows[] = {
    {WEIR_LINK_IDLE, WEIR_LINK_CONNECTING, "it is time to try"},
    {WEIR_LINK_CONNECTING, WEIR_LINK_GREETING, "the stream is open"},
    {WEIR_LINK_CONNECTING, WEIR_LINK_IDLE, "nobody there"},
    {WEIR_LINK_GREETING, WEIR_LINK_UP, "their Hello came"},
    {WEIR_LINK_GREETING, WEIR_LINK_IDLE, "broke, or was refused, before their Hello"},
    {WEIR_LINK_UP, WEIR_LINK_IDLE, "broke"},
};
const struct weir_machine weir_link_machine = {"link", rows, sizeof rows / sizeof rows[0]};

static void move(struct weir_link *link, enum weir_link_state to)
{
    weir_machine_move(&weir_link_machine, link->counts, &link->state, (uint8_t)to);
}

static void try_now(struct weir_link *link, struct weir_actions *actions)
{
    move(link, WEIR_LINK_CONNECTING);
    weir_actions_add(actions, WEIR_DO_CONNECT)->peer = link->target.peer;
}

void weir_link_start(struct weir_link *link, const struct weir_link_target *target, uint64_t now_ns,
                     struct weir_machine_counts *counts, struct weir_actions *actions)
{
    *link = (struct weir_link){
        .target = *target,
        .used = true,
        .down_since_ns = now_ns,
        .last_ns = now_ns,
        .counts = counts,
    };
    try_now(link, actions);
}

void weir_link_opened(struct weir_link *link)
{
    assert(link->used);
    move(link, WEIR_LINK_GREETING);
}

static const char *difference(const struct weir_link_target *target, const struct weir_hello *hello)
{
    if (hello->role != target->role)
        return "a process of another role answers at its address";
    if (strcmp(hello->job_hash, target->job_hash) != 0)
        return "a process of another job answers at its address";
    if (hello->incarnation == 0 || (target->incarnation && hello->incarnation != target->incarnation))
        return "it was restarted, or another process answers at its address";
    return NULL;
}

bool weir_link_greeted(struct weir_link *link, const struct weir_hello *hello)
{
    const char *why = difference(&link->target, hello);
    if (why) {
        snprintf(link->error, sizeof link->error, "%s", why);
        return false;
    }
    link->target.incarnation = hello->incarnation;
    link->greeted = true;
    if (link->state == WEIR_LINK_GREETING)
        move(link, WEIR_LINK_UP);
    return true;
}

static uint64_t patience(const struct weir_link *link)
{
    return link->greeted ? link->target.patience_ns : link->target.start_patience_ns;
}

static void forgive_own_pause(struct weir_link *link, uint64_t now_ns)
{
    if (now_ns > link->last_ns + WEIR_LINK_STILL_NS)
        link->down_since_ns += now_ns - link->last_ns;
    link->last_ns = now_ns;
}

void weir_link_closed(struct weir_link *link, uint64_t now_ns, const char *why)
{
    if (link->state == WEIR_LINK_UP) {
        link->down_since_ns = link->last_ns = now_ns;
        link->last_try_ns = 0;
    }
    forgive_own_pause(link, now_ns);
    if (link->state != WEIR_LINK_IDLE)
        move(link, WEIR_LINK_IDLE);
    link->retry_at_ns = now_ns + WEIR_LINK_RETRY_NS;
    snprintf(link->error, sizeof link->error, "%s", why);
}

void weir_link_put_off(struct weir_link *link, uint64_t now_ns)
{
    link->down_since_ns = link->last_ns = now_ns;
    link->last_try_ns = 0;
}

static uint64_t end_of_patience(const struct weir_link *link)
{
    return link->down_since_ns + patience(link);
}

bool weir_link_time(struct weir_link *link, uint64_t now_ns, struct weir_actions *actions)
{
    if (!link->used || link->state == WEIR_LINK_UP)
        return false;
    forgive_own_pause(link, now_ns);
    uint64_t end = end_of_patience(link);
    if (link->state != WEIR_LINK_IDLE) /* what runs is let run, but not for ever */
        return now_ns >= (link->last_try_ns ? link->last_try_ns : end) + WEIR_LINK_LAST_NS;
    if (link->last_try_ns)
        return true;
    if (now_ns >= end)
        link->last_try_ns = now_ns;
    if (now_ns >= end || now_ns >= link->retry_at_ns)
        try_now(link, actions);
    return false;
}

uint64_t weir_link_deadline(const struct weir_link *link)
{
    if (!link->used || link->state == WEIR_LINK_UP)
        return WEIR_NEVER;
    uint64_t look = link->last_ns + WEIR_LINK_LOOK_NS, end = end_of_patience(link), next;
    if (link->state != WEIR_LINK_IDLE)
        next = (link->last_try_ns ? link->last_try_ns : end) + WEIR_LINK_LAST_NS;
    else if (link->last_try_ns)
        next = link->last_ns;
    else
        next = link->retry_at_ns < end ? link->retry_at_ns : end;
    return look < next ? look : next;
}

void weir_link_stop(struct weir_link *link, const char *why, struct weir_actions *actions)
{
    if (!link->used)
        return;
    if (link->state != WEIR_LINK_IDLE) {
        struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
        action->peer = link->target.peer;
        action->text = why;
        move(link, WEIR_LINK_IDLE);
    }
    link->used = false;
}

const char *weir_link_lost(struct weir_link *link)
{
    const char *why = link->error[0] ? link->error : "no answer";
    snprintf(link->lost, sizeof link->lost, "lost %s: %s", link->target.name, why);
    return link->lost;
}
