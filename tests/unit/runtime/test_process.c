#include "runtime/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

#define CHILDREN_MAX 100
#define TEXT_BYTES (1 << 20)

/* What a group wrote: lines as "index:text|", output as it came, notes as "note|". */
struct capture {
    char lines[TEXT_BYTES], output[TEXT_BYTES], notes[4096];
    size_t line_count, longest;
    const char *signal_at; /* this line makes the test send `signal` to itself */
    int signal;
};

static void append(char *text, size_t text_bytes, const char *more, size_t count)
{
    size_t at = strlen(text);
    snprintf(text + at, text_bytes - at, "%.*s", (int)count, more);
}

static void take_line(void *context, size_t child, const char *text, size_t count)
{
    struct capture *capture = context;
    char head[32];
    snprintf(head, sizeof head, "%zu:", child);
    append(capture->lines, TEXT_BYTES, head, strlen(head));
    append(capture->lines, TEXT_BYTES, text, count);
    append(capture->lines, TEXT_BYTES, "|", 1);
    capture->line_count++;
    if (count > capture->longest)
        capture->longest = count;
    if (capture->signal_at && strlen(capture->signal_at) == count && memcmp(capture->signal_at, text, count) == 0)
        kill(getpid(), capture->signal);
}

static void take_output(void *context, size_t child, const char *bytes, size_t count)
{
    (void)child;
    append(((struct capture *)context)->output, TEXT_BYTES, bytes, count);
}

static void take_note(void *context, const char *text)
{
    struct capture *capture = context;
    append(capture->notes, sizeof capture->notes, text, strlen(text));
    append(capture->notes, sizeof capture->notes, "|", 1);
}

struct scene {
    struct capture capture;
    struct weir_child children[CHILDREN_MAX];
    const char *arguments[CHILDREN_MAX][4];
    char names[CHILDREN_MAX][16];
    struct weir_child_end ends[CHILDREN_MAX];
    size_t count;
    unsigned interrupted;
    uint32_t grace_ms, stop_ms;
    struct weir_error err;
    double seconds;
};

static struct scene *new_scene(void)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->grace_ms = scene->stop_ms = 60000;
    return scene;
}

static void add(struct scene *scene, const char *script)
{
    size_t i = scene->count++;
    snprintf(scene->names[i], sizeof scene->names[i], "role/%zu", i);
    const char *arguments[] = {"sh", "-c", script, NULL};
    memcpy(scene->arguments[i], arguments, sizeof arguments);
    scene->children[i] =
        (struct weir_child){.name = scene->names[i], .program = "/bin/sh", .arguments = scene->arguments[i]};
}

static bool play(struct scene *scene)
{
    struct weir_group_options options = {
        .children = scene->children,
        .count = scene->count,
        .grace_ms = scene->grace_ms,
        .stop_ms = scene->stop_ms,
        .output = take_output,
        .line = take_line,
        .note = take_note,
        .context = &scene->capture,
    };
    uint64_t start = weir_clock_ns();
    bool ok = weir_group_run(&options, scene->ends, &scene->interrupted, &scene->err);
    scene->seconds = (double)(weir_clock_ns() - start) / 1e9;
    return ok;
}

static void says_how_each_child_ended(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add(scene, "exit 0");
    add(scene, "exit 7");
    add(scene, "kill -9 $$");
    assert_true(play(scene));
    assert_int_equal(scene->ends[0].status, 0);
    assert_int_equal(scene->ends[1].status, 7);
    assert_int_equal(scene->ends[2].signal, SIGKILL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(scene->ends[i].state, WEIR_CHILD_ENDED);
    assert_non_null(strstr(scene->capture.notes, "role/1 ended with exit status 7"));
    assert_non_null(strstr(scene->capture.notes, "role/2 ended with signal 9 (Killed)"));
    assert_null(strstr(scene->capture.notes, "role/0"));
    free(scene);
}

static void a_hundred_children_are_started_read_and_reaped(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    for (int i = 0; i < CHILDREN_MAX; i++)
        add(scene, "echo out; echo one >&2; echo two >&2; printf three >&2");
    assert_true(play(scene));
    assert_int_equal(scene->capture.line_count, 3 * CHILDREN_MAX);
    assert_int_equal(strlen(scene->capture.output), 4 * CHILDREN_MAX);
    for (int i = 0; i < CHILDREN_MAX; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d:three|", i); /* without a newline at the end it is a line, too */
        assert_non_null(strstr(scene->capture.lines, text));
        assert_int_equal(scene->ends[i].state, WEIR_CHILD_ENDED);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    free(scene);
}

static void a_line_written_in_parts_arrives_whole(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add(scene, "printf 'first ' >&2; sleep 0.2; printf 'half\\n\\nlast\\n' >&2");
    add(scene, "sleep 0.1; echo between >&2");
    assert_true(play(scene));
    assert_string_equal(scene->capture.lines, "1:between|0:first half|0:|0:last|");
    free(scene);
}

static void a_line_without_end_comes_in_bounded_pieces(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add(scene, "head -c 100000 /dev/zero | tr '\\0' x >&2");
    assert_true(play(scene));
    assert_int_equal(scene->capture.longest, WEIR_LINE_BYTES_MAX);
    assert_int_equal(scene->capture.line_count, 100000 / WEIR_LINE_BYTES_MAX + 1);
    assert_int_equal(strlen(scene->capture.lines), 100000 + 3 * scene->capture.line_count);
    free(scene);
}

static void a_line_of_exactly_the_limit_is_one_line(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add(scene, "{ head -c 16384 /dev/zero | tr '\\0' x; sleep 0.1; echo; echo; echo after; } >&2");
    assert_true(play(scene));
    assert_int_equal(scene->capture.longest, WEIR_LINE_BYTES_MAX);
    assert_string_equal(scene->capture.lines + 2 + WEIR_LINE_BYTES_MAX, "|0:|0:after|");
    free(scene);
}

/* One fails, the other does not notice: it is told after the grace, and killed if it won't listen. */
static void those_who_outlive_a_failure_are_stopped_then_killed(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->grace_ms = 100, scene->stop_ms = 200;
    add(scene, "exit 1");
    add(scene, "exec sleep 100");
    add(scene, "trap '' TERM; while :; do sleep 0.01; done");
    assert_true(play(scene));
    assert_int_equal(scene->ends[1].signal, SIGTERM);
    assert_int_equal(scene->ends[2].signal, SIGKILL);
    assert_false(scene->ends[0].stopped);
    assert_int_equal(scene->ends[0].order, 1);
    assert_int_equal(scene->ends[2].order, 3);
    assert_true(scene->ends[1].stopped && scene->ends[2].stopped);
    assert_non_null(strstr(scene->capture.notes, "still running after 0.1 s: role/1, role/2: sending SIGTERM"));
    assert_non_null(strstr(scene->capture.notes, "not stopped after 0.2 s: role/2: sending SIGKILL"));
    free(scene);
}

static void nobody_outlives_the_leader(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->grace_ms = 100;
    add(scene, "exit 0");
    add(scene, "exec sleep 100");
    scene->children[0].leads = true;
    assert_true(play(scene));
    assert_int_equal(scene->ends[1].signal, SIGTERM);
    free(scene);
}

static void without_a_leader_a_good_end_leaves_the_others_alone(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->grace_ms = 1;
    add(scene, "exit 0");
    add(scene, "sleep 0.3; exit 0");
    assert_true(play(scene));
    assert_int_equal(scene->ends[1].status, 0);
    assert_int_equal(scene->ends[1].signal, 0);
    free(scene);
}

static void the_first_signal_stops(void **state)
{
    (void)state;
    const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        struct scene *scene = new_scene();
        scene->capture.signal_at = "ready", scene->capture.signal = signals[i];
        add(scene, "trap 'exit 143' TERM; echo ready >&2; while :; do sleep 0.01; done");
        assert_true(play(scene));
        assert_int_equal(scene->interrupted, 1);
        assert_int_equal(scene->ends[0].status, 143);
        assert_null(strstr(scene->capture.notes, "ended with")); /* it did as it was told */
        free(scene);
    }
}

static void the_second_signal_kills_at_once(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->capture.signal_at = "signal", scene->capture.signal = SIGINT;
    add(scene, "trap 'echo signal >&2' TERM; echo signal >&2; while :; do sleep 0.01; done");
    assert_true(play(scene));
    assert_int_equal(scene->interrupted, 2);
    assert_int_equal(scene->ends[0].signal, SIGKILL);
    assert_true(scene->seconds < 30); /* stop_ms is a minute */
    free(scene);
}

static void a_program_that_is_not_there_is_named_and_the_others_are_killed(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add(scene, "exec sleep 100");
    add(scene, "");
    add(scene, "echo never >&2");
    scene->children[1].program = "/nowhere/weir";
    assert_false(play(scene));
    assert_string_equal(scene->err.text, "role/1 can't be started (/nowhere/weir): no such file or directory");
    assert_int_equal(scene->ends[0].signal, SIGKILL);
    assert_int_equal(scene->ends[2].state, WEIR_CHILD_NOT_STARTED);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    free(scene);
}

static void a_child_gets_its_own_environment_on_top_of_the_parents(void **state)
{
    (void)state;
    setenv("WEIR_TEST_KEPT", "kept", 1);
    setenv("WEIR_TEST_CHANGED", "parent", 1);
    setenv("WEIR_TEST_TAKEN", "parent", 1);
    const char *const environment[] = {"WEIR_TEST_CHANGED=child", "WEIR_TEST_TAKEN", NULL};
    struct scene *scene = new_scene();
    add(scene, "echo $WEIR_TEST_KEPT $WEIR_TEST_CHANGED ${WEIR_TEST_TAKEN-unset} >&2; read x || echo no input >&2");
    scene->children[0].environment = environment;
    assert_true(play(scene));
    assert_string_equal(scene->capture.lines, "0:kept child unset|0:no input|");
    free(scene);
}

/* A daemon that a child left behind, with the pipe open, must not hold up the end. */
static void a_grandchild_with_the_pipe_does_not_hold_up_the_end(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add(scene, "sleep 20 & echo done >&2");
    assert_true(play(scene));
    assert_string_equal(scene->capture.lines, "0:done|");
    assert_true(scene->seconds < 15);
    free(scene);
}

static void the_parent_keeps_no_file_open(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    int before = dup(0);
    close(before);
    add(scene, "exit 0");
    add(scene, "exit 0");
    assert_true(play(scene));
    int after = dup(0);
    close(after);
    assert_true(after <= before + 8); /* libuv keeps its signal pipe; a leak of each group would grow */
    for (int i = 0; i < 20; i++)
        assert_true(play(scene));
    int end = dup(0);
    close(end);
    assert_int_equal(end, after);
    free(scene);
}

/* ---- the lifeline */

/* The child: says its process id, watches the lifeline and sleeps for ever. */
static _Noreturn void guarded_child(void)
{
    bool watched = weir_lifeline_watch();
    fprintf(stderr, "%s %d\n", watched && !getenv("WEIR_LIFELINE_FD") ? "watched" : "alone", (int)getpid());
    for (;;)
        pause();
}

/* Runs a supervisor in a process of its own and returns its id; `child_pid` and a file that is readable (at its end)
 * once every process that has it is gone. */
static pid_t start_supervisor(int *alive, pid_t *child_pid)
{
    int talk[2], life[2];
    assert_int_equal(pipe(talk), 0);
    assert_int_equal(pipe(life), 0);
    pid_t supervisor = fork();
    assert_true(supervisor >= 0);
    if (supervisor == 0) {
        close(talk[0]);
        close(life[0]);
        dup2(talk[1], STDERR_FILENO);
        char program[4096];
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        if (length <= 0)
            _exit(2);
        program[length] = '\0';
        execl(program, program, "supervise", (char *)NULL);
        _exit(2);
    }
    close(talk[1]);
    close(life[1]);
    char line[128] = "";
    FILE *from = fdopen(talk[0], "r");
    assert_non_null(from);
    assert_non_null(fgets(line, sizeof line, from));
    fclose(from);
    int pid;
    assert_int_equal(sscanf(line, "watched %d", &pid), 1);
    *child_pid = pid;
    *alive = life[0];
    return supervisor;
}

static void pass_on_line(void *context, size_t child, const char *text, size_t count)
{
    (void)context, (void)child;
    fprintf(stderr, "%.*s\n", (int)count, text);
}

static int supervise(void)
{
    const char *arguments[] = {"guarded", "guarded", NULL};
    struct weir_child child = {.name = "role/0", .program = "/proc/self/exe", .arguments = arguments};
    struct weir_group_options options = {
        .children = &child, .count = 1, .grace_ms = 1000, .stop_ms = 60000, .line = pass_on_line};
    struct weir_child_end end;
    unsigned interrupted;
    struct weir_error err;
    weir_group_run(&options, &end, &interrupted, &err);
    return 100 + end.signal;
}

static bool ends_within(int alive, int timeout_ms)
{
    struct pollfd wait = {.fd = alive, .events = POLLIN};
    return poll(&wait, 1, timeout_ms) == 1;
}

static void children_of_a_killed_parent_end_at_once(void **state)
{
    (void)state;
    int alive;
    pid_t child, supervisor = start_supervisor(&alive, &child);
    assert_false(ends_within(alive, 100));
    kill(supervisor, SIGKILL);
    waitpid(supervisor, NULL, 0);
    assert_true(ends_within(alive, 20000));
    close(alive);
}

/* A terminal's ^C reaches parent and children: only what the parent makes of it counts. */
static void a_watched_child_ignores_the_terminals_interrupt(void **state)
{
    (void)state;
    int alive, status;
    pid_t child, supervisor = start_supervisor(&alive, &child);
    kill(child, SIGINT);
    assert_false(ends_within(alive, 100));
    kill(supervisor, SIGINT);
    assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
    assert_int_equal(WEXITSTATUS(status), 100 + SIGTERM);
    close(alive);
}

/* The pipe alone is enough, should the supervisor die before prctl was called. */
static void the_pipe_alone_ends_a_child(void **state)
{
    (void)state;
    int life[2], status;
    assert_int_equal(pipe(life), 0);
    pid_t child = fork();
    if (child == 0) {
        close(life[1]);
        char text[16];
        snprintf(text, sizeof text, "%d", life[0]);
        setenv("WEIR_LIFELINE_FD", text, 1);
        if (!weir_lifeline_watch())
            _exit(2);
        for (;;)
            pause();
    }
    close(life[0]);
    close(life[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void a_lifeline_that_is_no_file_is_no_lifeline(void **state)
{
    (void)state;
    const char *const bad[] = {"", "x", "-1", "3x", "999999", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("WEIR_LIFELINE_FD", bad[i], 1);
        assert_false(weir_lifeline_watch());
    }
    unsetenv("WEIR_LIFELINE_FD");
    assert_false(weir_lifeline_watch());
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "supervise") == 0)
        return supervise();
    if (argc == 2 && strcmp(argv[1], "guarded") == 0)
        guarded_child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_each_child_ended),
        cmocka_unit_test(a_hundred_children_are_started_read_and_reaped),
        cmocka_unit_test(a_line_written_in_parts_arrives_whole),
        cmocka_unit_test(a_line_without_end_comes_in_bounded_pieces),
        cmocka_unit_test(a_line_of_exactly_the_limit_is_one_line),
        cmocka_unit_test(those_who_outlive_a_failure_are_stopped_then_killed),
        cmocka_unit_test(nobody_outlives_the_leader),
        cmocka_unit_test(without_a_leader_a_good_end_leaves_the_others_alone),
        cmocka_unit_test(the_first_signal_stops),
        cmocka_unit_test(the_second_signal_kills_at_once),
        cmocka_unit_test(a_program_that_is_not_there_is_named_and_the_others_are_killed),
        cmocka_unit_test(a_child_gets_its_own_environment_on_top_of_the_parents),
        cmocka_unit_test(a_grandchild_with_the_pipe_does_not_hold_up_the_end),
        cmocka_unit_test(the_parent_keeps_no_file_open),
        cmocka_unit_test(children_of_a_killed_parent_end_at_once),
        cmocka_unit_test(a_watched_child_ignores_the_terminals_interrupt),
        cmocka_unit_test(the_pipe_alone_ends_a_child),
        cmocka_unit_test(a_lifeline_that_is_no_file_is_no_lifeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
