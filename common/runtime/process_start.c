/* How a child of a group starts, also again, and how what it writes is read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/process_environment.h"
#include "runtime/process_state.h"

#define LIFELINE_FD 3 /* in a child, next to the three standard ones */
#define CLOSING_MS 10 /* until libuv has let go of what was closed */

/* ---- what children write */

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

void weir_member_close(struct member *member)
{
    close_reader(&member->output);
    close_reader(&member->errors);
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
    weir_group_look_for_the_end(member->group);
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
    if (rc != 0)
        close(ends[0]); /* else it is the pipe's */
    else
        rc = uv_read_start((uv_stream_t *)&reader->pipe, on_buffer, on_bytes);
    if (rc != 0) {
        close_reader(reader);
        close(ends[1]);
        return rc;
    }
    return ends[1];
}

/* ---- starting */

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
        .exit_cb = weir_member_exited,
        .file = child->program,
        .args = (char **)child->arguments, /* only read */
        .env = environment,
        .stdio = stdio,
        .stdio_count = LIFELINE_FD + 1,
    };
    int rc = uv_spawn(&member->group->loop, &member->process, &options);
    free(environment);
    if (rc != 0)
        uv_close((uv_handle_t *)&member->process, NULL); /* the loop knows it all the same */
    return rc;
}

bool weir_member_start(struct member *member, struct weir_error *err)
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
    member->began_ns = weir_clock_ns();
    member->end->state = WEIR_CHILD_RUNNING;
    member->end->given_up = member->end->harmless = false;
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
    if (member->output.open || member->errors.open) { /* whoever holds them is not the child */
        weir_member_close(member);
        uv_timer_start(timer, on_again, CLOSING_MS, 0);
        return;
    }
    member->expected = member->awaited = false;
    if (weir_member_start(member, &err))
        member->end->restarts++;
    else
        weir_group_start_failed(member, err.text);
}

void weir_member_start_again(struct member *member, uint32_t in_ms)
{
    uint32_t least_ms = 1; /* not before libuv has let go of the process that has ended */
    uv_timer_start(&member->again, on_again, in_ms < least_ms ? least_ms : in_ms, 0);
}

void weir_member_init(struct weir_group *group, size_t index, struct weir_child_end *end)
{
    struct member *member = &group->members[index];
    *end = (struct weir_child_end){0};
    member->group = group;
    member->index = index;
    member->end = end;
    member->lines.line = hand_on_line;
    member->lines.context = member;
    member->again.data = member;
    uv_timer_init(&group->loop, &member->again);
}
