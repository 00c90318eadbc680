#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/process_state.h"

#define LAST_WORDS_MS 1000 /* for what grandchildren that keep a pipe open may still write */
#define NAMES_IN_A_NOTE 8

static void note(struct weir_group *group, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(struct weir_group *group, const char *format, ...)
{
    if (!group->options->note)
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    group->options->note(group->options->context, text);
}

void weir_child_describe(const struct weir_child_end *end, char *text, size_t text_bytes)
{
    if (end->signal)
        snprintf(text, text_bytes, "signal %d (%s)", end->signal, strsignal(end->signal));
    else
        snprintf(text, text_bytes, "exit status %d", end->status);
}

/* "worker/0, worker/1": who is still running. */
static void list_alive(const struct weir_group *group, char *text, size_t text_bytes)
{
    size_t at = 0, named = 0;
    text[0] = '\0';
    for (size_t i = 0; i < group->options->count && named < NAMES_IN_A_NOTE && at < text_bytes; i++)
        if (group->members[i].end->state == WEIR_CHILD_RUNNING)
            at += (size_t)snprintf(text + at, text_bytes - at, "%s%s", named++ ? ", " : "",
                                   group->options->children[i].name);
    if (named < group->alive && at < text_bytes)
        snprintf(text + at, text_bytes - at, " and %zu more", group->alive - named);
}

/* ---- stopping */

static void signal_all(struct weir_group *group, int signal)
{
    for (size_t i = 0; i < group->options->count; i++) {
        struct member *member = &group->members[i];
        if (member->end->state != WEIR_CHILD_RUNNING)
            continue;
        member->end->stopped = true;
        uv_process_kill(&member->process, signal); /* fails only if it has just ended */
    }
}

static void on_timer(uv_timer_t *timer);

void weir_group_stop_all(struct weir_group *group)
{
    group->phase = STOPPING;
    signal_all(group, SIGTERM);
    uv_timer_start(&group->timer, on_timer, group->options->stop_ms, 0);
    weir_group_look_for_the_end(group); /* all may just be about to be started again */
}

static void kill_all(struct weir_group *group)
{
    group->phase = KILLED;
    uv_timer_stop(&group->timer);
    signal_all(group, SIGKILL);
}

/* The deadline of the phase has come. */
static void on_timer(uv_timer_t *timer)
{
    struct weir_group *group = timer->data;
    char names[512];
    list_alive(group, names, sizeof names);
    if (group->alive == 0) {
        for (size_t i = 0; i < group->options->count; i++)
            weir_member_close(&group->members[i]);
        uv_stop(&group->loop);
    } else if (group->phase == GRACE) {
        note(group, "still running after %g s: %s: sending SIGTERM", group->options->grace_ms / 1000.0, names);
        weir_group_stop_all(group);
    } else if (group->phase == STOPPING) {
        note(group, "not stopped after %g s: %s: sending SIGKILL", group->options->stop_ms / 1000.0, names);
        kill_all(group);
    }
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct weir_group *group = handle->data;
    if (group->phase == KILLED)
        return;
    if (group->interrupted++ == 0) {
        note(group, "%s: stopping all roles (once more kills them)", signal == SIGINT ? "interrupted" : "terminated");
        weir_group_stop_all(group);
    } else {
        note(group, "killing all roles");
        kill_all(group);
    }
}

static bool awaits_somebody(const struct weir_group *group)
{
    bool awaits = false;
    for (size_t i = 0; i < group->options->count; i++)
        awaits = awaits || group->members[i].awaited;
    return awaits && group->phase == RUNNING;
}

void weir_group_look_for_the_end(struct weir_group *group)
{
    if (group->alive > 0 || awaits_somebody(group))
        return;
    if (group->open_pipes == 0)
        uv_stop(&group->loop);
    else
        uv_timer_start(&group->timer, on_timer, LAST_WORDS_MS, 0);
}

/* ---- how children end */

static bool have_joined(const struct weir_group *group)
{
    return !group->options->joined || group->options->joined(group->options->context);
}

static void begin_grace(struct weir_group *group)
{
    group->phase = GRACE;
    uv_timer_start(&group->timer, on_timer, group->options->grace_ms, 0);
}

/* One that may be lost has failed after `lived_ns` (0: it could not be started). Whether nobody else need end: it is
 * started again, or the others can do without it. */
static bool is_made_good(struct member *member, const char *what, uint64_t lived_ns)
{
    struct weir_group *group = member->group;
    const struct weir_group_options *options = group->options;
    const struct weir_child *child = &options->children[member->index];
    const struct weir_child_end *end = member->end;
    const char *again = lived_ns ? "started again" : "tried again";
    uint32_t pause_ms, restarts = member->restart.restarts.count;
    if (lived_ns && child->final_status && !end->signal && end->status == child->final_status) {
        note(group, "%s, which another start does not mend: it is not started again", what);
    } else if (weir_restart_plan(&member->restart, &child->restarts, lived_ns, weir_clock_ns(), &pause_ms)) {
        note(group, "%s: it is %s in %g s", what, again, pause_ms / 1000.0);
        member->awaited = true;
        weir_member_start_again(member, pause_ms);
        return true;
    } else if (child->restarts.most == 0) {
        note(group, "%s: it is not %s", what, again);
    } else {
        note(group, "%s, after %u restart%s within %g s: it is not %s", what, restarts, restarts == 1 ? "" : "s",
             (double)child->restarts.window_ns / 1e9, again);
    }
    member->end->given_up = true;
    return !options->can_do_without || options->can_do_without(options->context, member->index);
}

static void take_failure(struct member *member, const char *what, uint64_t lived_ns)
{
    struct weir_group *group = member->group;
    bool joined = have_joined(group);
    bool may_be_lost = joined && group->options->children[member->index].may_be_lost;
    if (group->phase == RUNNING && may_be_lost) {
        member->end->harmless = is_made_good(member, what, lived_ns);
        if (!member->end->harmless)
            begin_grace(group);
        return;
    }
    if (!member->end->stopped)
        note(group, "%s", what);
    if (group->phase == RUNNING && joined)
        begin_grace(group);
    else if (group->phase == RUNNING)
        weir_group_stop_all(group);
}

void weir_group_start_failed(struct member *member, const char *why)
{
    take_failure(member, why, 0);
    weir_group_look_for_the_end(member->group);
}

void weir_member_exited(uv_process_t *process, int64_t status, int signal)
{
    struct member *member = process->data;
    struct weir_group *group = member->group;
    const struct weir_child *child = &group->options->children[member->index];
    struct weir_child_end *end = member->end;
    end->state = WEIR_CHILD_ENDED;
    end->status = (int)status;
    end->signal = signal;
    end->order = ++group->ended;
    end->went = child->goes_with && status == child->goes_with && signal == 0 && have_joined(group);
    group->alive--;
    uv_close((uv_handle_t *)process, NULL);
    if (group->options->ended)
        group->options->ended(group->options->context, group, member->index, end);
    if (!member->expected || group->phase != RUNNING) {
        char how[128], what[256];
        weir_child_describe(end, how, sizeof how);
        snprintf(what, sizeof what, "%s ended with %s", child->name, how);
        if (end->went)
            note(group, "%s: it is drained, and not started again", what);
        else if (status != 0 || signal != 0)
            take_failure(member, what, weir_clock_ns() - member->began_ns + 1);
        else if (child->leads && group->phase == RUNNING)
            begin_grace(group);
    }
    weir_group_look_for_the_end(group);
}

/* ---- the group's life */

static bool start_all(struct weir_group *group, struct weir_child_end *ends, struct weir_error *err)
{
    for (size_t i = 0; i < group->options->count; i++)
        weir_member_init(group, i, &ends[i]);
    group->null_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (group->null_input < 0 || pipe2(group->lifeline, O_CLOEXEC) != 0)
        return weir_error_set(err, "no child can be started: %s", strerror(errno));
    for (size_t i = 0; i < group->options->count; i++)
        if (!weir_member_start(&group->members[i], err))
            return false;
    return true;
}

static void watch_signals(struct weir_group *group)
{
    uv_signal_init(&group->loop, &group->interrupt);
    uv_signal_init(&group->loop, &group->terminate);
    uv_timer_init(&group->loop, &group->timer);
    uv_timer_init(&group->loop, &group->alarm);
    group->interrupt.data = group->terminate.data = group->timer.data = group->alarm.data = group;
    uv_signal_start(&group->interrupt, on_signal, SIGINT);
    uv_signal_start(&group->terminate, on_signal, SIGTERM);
}

/* ---- for who does things to the children */

static void on_alarm(uv_timer_t *timer)
{
    struct weir_group *group = timer->data;
    group->options->alarm(group->options->context, group);
}

void weir_group_alarm(struct weir_group *group, uint32_t in_ms)
{
    uv_timer_start(&group->alarm, on_alarm, in_ms, 0);
}

bool weir_group_signal(struct weir_group *group, size_t child, int signal)
{
    struct member *member = &group->members[child];
    return member->end->state == WEIR_CHILD_RUNNING && uv_process_kill(&member->process, signal) == 0;
}

int weir_group_pid(const struct weir_group *group, size_t child)
{
    const struct weir_child_end *end = group->members[child].end;
    return end->state == WEIR_CHILD_RUNNING ? end->pid : 0;
}

void weir_group_expect(struct weir_group *group, size_t child, bool again)
{
    group->members[child].expected = true;
    group->members[child].awaited = again;
}

bool weir_group_start(struct weir_group *group, size_t child)
{
    struct member *member = &group->members[child];
    if (member->end->state != WEIR_CHILD_ENDED || group->phase != RUNNING)
        return false;
    weir_member_start_again(member, 0);
    return true;
}

void weir_group_stop(struct weir_group *group)
{
    if (group->phase == RUNNING || group->phase == GRACE)
        weir_group_stop_all(group);
}

static void close_everything(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

bool weir_group_run(const struct weir_group_options *options, struct weir_child_end *ends, unsigned *interrupted,
                    struct weir_error *err)
{
    assert(options->count > 0);
    struct weir_group *group = weir_alloc(1, sizeof *group, "a group of processes");
    *group = (struct weir_group){.options = options, .lifeline = {-1, -1}, .null_input = -1};
    group->members = weir_alloc(options->count, sizeof *group->members, "a group of processes");
    int rc = uv_loop_init(&group->loop);
    bool ok = rc == 0 || weir_error_set(err, "no child can be started: %s", uv_strerror(rc));
    if (ok) {
        watch_signals(group);
        ok = start_all(group, ends, err);
        if (!ok)
            kill_all(group);
        else if (options->begun)
            options->begun(options->context, group);
        if (group->alive > 0)
            uv_run(&group->loop, UV_RUN_DEFAULT);
        uv_walk(&group->loop, close_everything, NULL);
        uv_run(&group->loop, UV_RUN_DEFAULT);
        rc = uv_loop_close(&group->loop);
        assert(rc == 0);
    }
    *interrupted = group->interrupted;
    const int open_files[] = {group->lifeline[0], group->lifeline[1], group->null_input};
    for (size_t i = 0; i < sizeof open_files / sizeof *open_files; i++)
        if (open_files[i] >= 0)
            close(open_files[i]);
    free(group->members);
    free(group);
    return ok;
}
