#include "protocol/wait.h"

#include <stdio.h>
#include <string.h>

/* Bytes of a description without its details. */
static size_t name_length(const char *text)
{
    size_t length = 0;
    while (text[length] && !(text[length] == ' ' && text[length + 1] == '('))
        length++;
    return length;
}

static bool same_wait(const char *a, const char *b)
{
    size_t length = name_length(a);
    return length == name_length(b) && strncmp(a, b, length) == 0;
}

/* Bytes of what it says up to and with the ": " after the member. */
static size_t whom_length(const char *text)
{
    const char *end = strstr(text, ": ");
    return end ? (size_t)(end - text) + 2 : 0;
}

static bool for_connection(const char *text)
{
    size_t whom = whom_length(text);
    return whom && strncmp(text + whom, WEIR_WAIT_CONNECTION, strlen(WEIR_WAIT_CONNECTION)) == 0;
}

static bool same_whom(const char *a, const char *b)
{
    size_t length = whom_length(a);
    return length == whom_length(b) && strncmp(a, b, length) == 0;
}

/* What was missing from a member cannot come any more, for its connection is lost: one wait. */
static bool goes_on(const char *before, const char *text)
{
    return same_wait(before, text) || (for_connection(text) && same_whom(before, text));
}

bool weir_wait_look(struct weir_wait *wait, const char *text, uint64_t now_ns)
{
    uint64_t pause_ns = now_ns - wait->looked_ns;
    if (wait->looked_ns && pause_ns > 2 * WEIR_WAIT_LOOK_NS)
        wait->since_ns += pause_ns;
    wait->looked_ns = now_ns;
    bool was_long = wait->is_long, same = same_wait(wait->text, text);
    if (!goes_on(wait->text, text)) {
        wait->before_ns = wait->text[0] ? now_ns - wait->since_ns : wait->before_ns;
        wait->since_ns = now_ns;
    }
    snprintf(wait->text, sizeof wait->text, "%s", text);
    uint64_t lasted_ns = now_ns - wait->since_ns, usual_ns = for_connection(text) ? 0 : 2 * wait->before_ns;
    wait->is_long =
        text[0] && lasted_ns >= WEIR_WAIT_LONG_NS && (lasted_ns >= usual_ns || lasted_ns >= WEIR_WAIT_MOST_NS);
    return wait->is_long != was_long || (wait->is_long && !same);
}
