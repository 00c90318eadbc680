#include "runtime/process.h"

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

#include "base/memory.h"
#include "runtime/process_environment.h"

#define READ_BYTES 65536
#define LIFELINE_FD 3      /* in a child, next to the three standard ones */
#define LAST_WORDS_MS 1000 /* for what grandchildren that keep a pipe open may still write */
#define NAMES_IN_A_NOTE 8
#define PAUSE_MS 100 /* before a child is started again, the first time */
#define PAUSE_MOST_MS 5000
#define CLOSING_MS 10

struct pipe_reader {
    struct member *member;
    uv_pipe_t pipe;
    bool open;
};

struct member {
    struct weir_group *group;
    size_t index;
    uv_process_t process;
    struct pipe_reader output, errors;
    struct weir_lines lines; /* of standard error */
    struct weir_child_end *end;
    uv_timer_t again; /* it is started again when this rings */
    bool expected;    /* its end is meant */
    bool awaited;     /* and it will be started again */
};

enum group_phase { RUNNING, GRACE, STOPPING, KILLED };

struct weir_group {
    const struct weir_group_options *options;
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    uv_timer_t timer, alarm;
    struct member *members;
    size_t alive, open_pipes;
    enum group_phase phase;
    unsigned interrupted, ended;
    int lifeline[2];
    int null_input;
    char buffer[READ_BYTES];
};

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

static void stop_all(struct weir_group *group)
{
    group->phase = STOPPING;
    signal_all(group, SIGTERM);
    uv_timer_start(&group->timer, on_timer, group->options->stop_ms, 0);
}

static void kill_all(struct weir_group *group)
{
    group->phase = KILLED;
    uv_timer_stop(&group->timer);
    signal_all(group, SIGKILL);
}

static void hand_on_line(void *context, const char *text, size_t bytes)
{
    struct member *member = context;
    const struct weir_group_options *options = member->group->options;
    if (options->line)
        options->line(options->context, member->index, text, bytes);
}

static void close_reader(struct pipe_reader *reader)
{
    if (!reader->open)
        return;
    if (reader == &reader->member->errors)
        weir_lines_end(&reader->member->lines);
    reader->open = false;
    reader->member->group->open_pipes--;
    uv_close((uv_handle_t *)&reader->pipe, NULL);
}

/* The deadline of the phase has come. */
static void on_timer(uv_timer_t *timer)
{
    struct weir_group *group = timer->data;
    char names[512];
    list_alive(group, names, sizeof names);
    if (group->alive == 0) {
        for (size_t i = 0; i < group->options->count; i++) {
            close_reader(&group->members[i].output);
            close_reader(&group->members[i].errors);
        }
        uv_stop(&group->loop);
    } else if (group->phase == GRACE) {
        note(group, "still running after %g s: %s: sending SIGTERM", group->options->grace_ms / 1000.0, names);
        stop_all(group);
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
        stop_all(group);
    } else {
        note(group, "killing all roles");
        kill_all(group);
    }
}

/* ---- what children write */

static bool awaits_somebody(const struct weir_group *group)
{
    bool awaits = false;
    for (size_t i = 0; i < group->options->count; i++)
        awaits = awaits || group->members[i].awaited;
    return awaits && group->phase == RUNNING;
}

static void stop_loop_when_done(struct weir_group *group)
{
    if (group->alive > 0 || awaits_somebody(group))
        return;
    if (group->open_pipes == 0)
        uv_stop(&group->loop);
    else
        uv_timer_start(&group->timer, on_timer, LAST_WORDS_MS, 0);
}

static void on_buffer(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
    (void)wanted;
    struct weir_group *group = ((struct pipe_reader *)handle->data)->member->group;
    *buffer = uv_buf_init(group->buffer, sizeof group->buffer);
}

static void on_bytes(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct pipe_reader *reader = stream->data;
    struct member *member = reader->member;
    const struct weir_group_options *options = member->group->options;
    bool is_output = reader == &member->output;
    if (count > 0 && is_output && options->output)
        options->output(options->context, member->index, buffer->base, (size_t)count);
    else if (count > 0 && !is_output)
        weir_lines_take(&member->lines, buffer->base, (size_t)count);
    if (count >= 0)
        return;
    close_reader(reader);
    stop_loop_when_done(member->group);
}

/* ---- starting */

static void on_again(uv_timer_t *timer);

/* Whether a child that failed is to be started again; then it will be. */
static bool plan_restart(struct member *member, const char *how)
{
    struct weir_group *group = member->group;
    const struct weir_child *child = &group->options->children[member->index];
    if (group->phase != RUNNING || child->restarts == 0)
        return false;
    if (member->end->restarts == child->restarts) {
        note(group, "%s ended with %s, for the %uth time: it is not started again", child->name, how,
             child->restarts + 1);
        return true;
    }
    uint64_t pause_ms = PAUSE_MS;
    for (unsigned i = 0; i < member->end->restarts && pause_ms < PAUSE_MOST_MS; i++)
        pause_ms *= 2;
    note(group, "%s ended with %s: it is started again in %g s", child->name, how, (double)pause_ms / 1000);
    uv_timer_start(&member->again, on_again, pause_ms, 0);
    return true;
}

static void on_exit_of_child(uv_process_t *process, int64_t status, int signal)
{
    struct member *member = process->data;
    struct weir_group *group = member->group;
    const struct weir_child *child = &group->options->children[member->index];
    member->end->state = WEIR_CHILD_ENDED;
    member->end->status = (int)status;
    member->end->signal = signal;
    member->end->order = ++group->ended;
    group->alive--;
    uv_close((uv_handle_t *)process, NULL);
    bool joined = !group->options->joined || group->options->joined(group->options->context);
    bool went = joined && child->goes_with && status == child->goes_with && signal == 0;
    bool failed = !went && (status != 0 || signal != 0);
    char how[128];
    if (group->options->ended)
        group->options->ended(group->options->context, group, member->index, member->end);
    if (member->expected && group->phase == RUNNING) {
        stop_loop_when_done(group);
        return;
    }
    weir_child_describe(member->end, how, sizeof how);
    member->end->went = went;
    if (went)
        note(group, "%s ended with %s: it is drained, and not started again", child->name, how);
    if (failed && joined && plan_restart(member, how)) {
        stop_loop_when_done(group);
        return;
    }
    if (failed && !member->end->stopped)
        note(group, "%s ended with %s", child->name, how);
    if (group->phase == RUNNING && group->alive > 0 && failed && !joined) {
        stop_all(group);
    } else if (group->phase == RUNNING && group->alive > 0 && (failed || child->leads)) {
        group->phase = GRACE;
        uv_timer_start(&group->timer, on_timer, group->options->grace_ms, 0);
    }
    stop_loop_when_done(group);
}

/* Makes the pipe that `reader` reads and returns its write end, or a negative error number. */
static int open_reader(struct pipe_reader *reader, struct member *member)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    reader->member = member;
    uv_pipe_init(&member->group->loop, &reader->pipe, 0);
    reader->pipe.data = reader;
    reader->open = true;
    member->group->open_pipes++;
    int rc = uv_pipe_open(&reader->pipe, ends[0]);
    if (rc == 0)
        rc = uv_read_start((uv_stream_t *)&reader->pipe, on_buffer, on_bytes);
    if (rc != 0) {
        close(ends[1]);
        return rc;
    }
    return ends[1];
}

static int spawn(struct member *member, const struct weir_child *child, int output, int errors)
{
    char lifeline[64];
    snprintf(lifeline, sizeof lifeline, "WEIR_LIFELINE_FD=%d", LIFELINE_FD);
    uv_stdio_container_t stdio[LIFELINE_FD + 1] = {
        {.flags = UV_INHERIT_FD, .data.fd = member->group->null_input},
        {.flags = UV_INHERIT_FD, .data.fd = output},
        {.flags = UV_INHERIT_FD, .data.fd = errors},
        {.flags = UV_INHERIT_FD, .data.fd = member->group->lifeline[0]},
    };
    char **environment = weir_process_environment(child->environment, lifeline);
    uv_process_options_t options = {
        .exit_cb = on_exit_of_child,
        .file = child->program,
        .args = (char **)child->arguments, /* only read */
        .env = environment,
        .stdio = stdio,
        .stdio_count = LIFELINE_FD + 1,
    };
    int rc = uv_spawn(&member->group->loop, &member->process, &options);
    free(environment);
    return rc;
}

static bool start_member(struct member *member, struct weir_error *err)
{
    struct weir_group *group = member->group;
    const struct weir_child *child = &group->options->children[member->index];
    int output = open_reader(&member->output, member);
    int errors = output < 0 ? output : open_reader(&member->errors, member);
    int rc = errors < 0 ? errors : spawn(member, child, output, errors);
    if (output >= 0)
        close(output);
    if (errors >= 0)
        close(errors);
    member->process.data = member;
    if (rc != 0)
        return weir_error_set(err, "%s can't be started (%s): %s", child->name, child->program, uv_strerror(rc));
    member->end->state = WEIR_CHILD_RUNNING;
    member->end->pid = member->process.pid;
    group->alive++;
    return true;
}

static void on_again(uv_timer_t *timer)
{
    struct member *member = timer->data;
    struct weir_error err;
    if (member->group->phase != RUNNING)
        return;
    member->expected = member->awaited = false;
    if (member->output.open || member->errors.open) { /* whoever holds them is not the child */
        close_reader(&member->output);
        close_reader(&member->errors);
        uv_timer_start(timer, on_again, CLOSING_MS, 0);
        return;
    }
    member->end->restarts++;
    if (!start_member(member, &err))
        note(member->group, "%s", err.text);
}

static bool start_all(struct weir_group *group, struct weir_child_end *ends, struct weir_error *err)
{
    for (size_t i = 0; i < group->options->count; i++) {
        ends[i] = (struct weir_child_end){0};
        group->members[i].group = group;
        group->members[i].index = i;
        group->members[i].end = &ends[i];
        uv_timer_init(&group->loop, &group->members[i].again);
        group->members[i].lines.line = hand_on_line;
        group->members[i].lines.context = &group->members[i];
        group->members[i].again.data = &group->members[i];
    }
    group->null_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (group->null_input < 0 || pipe2(group->lifeline, O_CLOEXEC) != 0)
        return weir_error_set(err, "no child can be started: %s", strerror(errno));
    for (size_t i = 0; i < group->options->count; i++)
        if (!start_member(&group->members[i], err))
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
    uv_timer_start(&member->again, on_again, 0, 0);
    return true;
}

void weir_group_stop(struct weir_group *group)
{
    if (group->phase == RUNNING || group->phase == GRACE)
        stop_all(group);
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
