#include "protocol/link.h"

#include <assert.h>
#include <stdio.h>

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
    weir_actions_add(actions, WEIR_DO_CONNECT)->peer = link->peer;
}

void weir_link_start(struct weir_link *link, uint32_t peer, const char *name, uint64_t patience_ns, uint64_t now_ns,
                     struct weir_machine_counts *counts, struct weir_actions *actions)
{
    *link = (struct weir_link){
        .peer = peer,
        .used = true,
        .patience_ns = patience_ns,
        .down_since_ns = now_ns,
        .name = name,
        .counts = counts,
    };
    try_now(link, actions);
}

void weir_link_opened(struct weir_link *link)
{
    assert(link->used);
    move(link, WEIR_LINK_GREETING);
}

void weir_link_greeted(struct weir_link *link)
{
    if (link->state == WEIR_LINK_GREETING)
        move(link, WEIR_LINK_UP);
}

void weir_link_closed(struct weir_link *link, uint64_t now_ns, const char *why)
{
    if (link->state == WEIR_LINK_UP)
        link->down_since_ns = now_ns;
    if (link->state != WEIR_LINK_IDLE)
        move(link, WEIR_LINK_IDLE);
    link->retry_at_ns = now_ns + WEIR_LINK_RETRY_NS;
    snprintf(link->error, sizeof link->error, "%s", why);
}

bool weir_link_time(struct weir_link *link, uint64_t now_ns, struct weir_actions *actions)
{
    if (!link->used || link->state == WEIR_LINK_UP)
        return false;
    if (now_ns >= link->down_since_ns + link->patience_ns)
        return true;
    if (link->state == WEIR_LINK_IDLE && now_ns >= link->retry_at_ns)
        try_now(link, actions);
    return false;
}

void weir_link_forgive(struct weir_link *link, uint64_t pause_ns)
{
    link->down_since_ns += pause_ns;
}

uint64_t weir_link_deadline(const struct weir_link *link)
{
    if (!link->used || link->state == WEIR_LINK_UP)
        return WEIR_NEVER;
    uint64_t end = link->down_since_ns + link->patience_ns;
    return link->state == WEIR_LINK_IDLE && link->retry_at_ns < end ? link->retry_at_ns : end;
}

void weir_link_describe(const struct weir_link *link, char *text, size_t bytes)
{
    snprintf(text, bytes, "lost %s: %s", link->name, link->error[0] ? link->error : "no answer");
}
