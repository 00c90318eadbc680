/* A group whose children fail and are started again, or are given up. Children and the test meet by files in a folder
 * of their own: $D is that folder, and the leader lives until $D/end is there. */
#include "runtime/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

#define CHILDREN_MAX 3
#define PATH_BYTES 64
#define LEADER "while [ ! -e $D/end ]; do sleep 0.01; done; echo done >&2"
/* The first life ends as the first words say, the second as the others do. */
#define ONCE(first, then) "if [ -e $D/lived ]; then " then "; else touch $D/lived; " first "; fi"

struct scene {
    char folder[PATH_BYTES], environment[PATH_BYTES];
    const char *environments[2];
    struct weir_child children[CHILDREN_MAX];
    const char *arguments[CHILDREN_MAX][4];
    char names[CHILDREN_MAX][16];
    struct weir_child_end ends[CHILDREN_MAX];
    size_t count;
    unsigned interrupted;
    char notes[4096], lines[1024];
    const char *end_at;  /* a note with these words lets the leader end */
    const char *mend_at; /* or brings the program back */
    int signal_at_a_note;
    bool none_can_be_missed;
    bool caller_starts; /* what ends as "ready" is read, with an end that is meant */
    struct weir_group *group;
    struct weir_error err;
};

static void path_of(const struct scene *scene, const char *name, char path[2 * PATH_BYTES])
{
    snprintf(path, 2 * PATH_BYTES, "%s/%s", scene->folder, name);
}

static void touch(const struct scene *scene, const char *name)
{
    char path[2 * PATH_BYTES];
    path_of(scene, name, path);
    close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void write_program(const struct scene *scene, const char *text)
{
    char path[2 * PATH_BYTES];
    path_of(scene, "program", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

static void take_note(void *context, const char *text)
{
    struct scene *scene = context;
    size_t at = strlen(scene->notes);
    snprintf(scene->notes + at, sizeof scene->notes - at, "%s|", text);
    if (scene->end_at && strstr(text, scene->end_at))
        touch(scene, "end");
    if (scene->mend_at && strstr(text, scene->mend_at))
        write_program(scene, "#!/bin/sh\ntouch $D/end\n");
    if (scene->signal_at_a_note) {
        kill(getpid(), scene->signal_at_a_note);
        scene->signal_at_a_note = 0;
    }
}

static void take_line(void *context, size_t child, const char *text, size_t count)
{
    struct scene *scene = context;
    size_t at = strlen(scene->lines);
    if (count <= 16)
        snprintf(scene->lines + at, sizeof scene->lines - at, "%zu:%.*s|", child, (int)count, text);
    else
        snprintf(scene->lines + at, sizeof scene->lines - at, "%zu:%zu bytes|", child, count);
    if (scene->caller_starts && strncmp(text, "ready", count) == 0) {
        weir_group_expect(scene->group, child, true);
        weir_group_signal(scene->group, child, SIGKILL);
    }
}

static void begun(void *context, struct weir_group *group)
{
    ((struct scene *)context)->group = group;
}

static void ended(void *context, struct weir_group *group, size_t child, const struct weir_child_end *end)
{
    struct scene *scene = context;
    if (scene->caller_starts && end->signal == SIGKILL)
        assert_true(weir_group_start(group, child));
}

static bool can_do_without(void *context, size_t child)
{
    struct scene *scene = context;
    assert_true(scene->ends[child].given_up);
    return !scene->none_can_be_missed;
}

static struct scene *new_scene(void)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    snprintf(scene->folder, sizeof scene->folder, "/tmp/weir-supervision-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    snprintf(scene->environment, sizeof scene->environment, "D=%.60s", scene->folder);
    scene->environments[0] = scene->environment;
    return scene;
}

static void free_scene(struct scene *scene)
{
    DIR *folder = opendir(scene->folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(scene->folder), 0);
    free(scene);
}

static struct weir_child *add(struct scene *scene, const char *script)
{
    size_t i = scene->count++;
    snprintf(scene->names[i], sizeof scene->names[i], "role/%zu", i);
    const char *arguments[] = {"sh", "-c", script, NULL};
    memcpy(scene->arguments[i], arguments, sizeof arguments);
    scene->children[i] = (struct weir_child){.name = scene->names[i],
                                             .program = "/bin/sh",
                                             .arguments = scene->arguments[i],
                                             .environment = scene->environments};
    return &scene->children[i];
}

static void add_leader(struct scene *scene)
{
    add(scene, LEADER)->leads = true;
}

static struct weir_child *add_worker(struct scene *scene, const char *script)
{
    struct weir_child *child = add(scene, script);
    child->may_be_lost = true;
    child->final_status = 2;
    child->restarts = (struct weir_restart_limit){2, 600 * WEIR_NS_PER_S};
    return child;
}

static void play(struct scene *scene)
{
    struct weir_group_options options = {
        .children = scene->children,
        .count = scene->count,
        .grace_ms = scene->none_can_be_missed ? 50 : 60000,
        .stop_ms = 60000,
        .can_do_without = can_do_without,
        .line = take_line,
        .note = take_note,
        .begun = begun,
        .ended = ended,
        .context = scene,
    };
    assert_true(weir_group_run(&options, scene->ends, &scene->interrupted, &scene->err));
}

static void one_that_keeps_failing_is_given_up_and_the_others_go_on(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->end_at = "not started again";
    add_leader(scene);
    add_worker(scene, "exit 7");
    play(scene);
    assert_string_equal(scene->notes, "role/1 ended with exit status 7: it is started again in 0.1 s|"
                                      "role/1 ended with exit status 7: it is started again in 0.2 s|"
                                      "role/1 ended with exit status 7, after 2 restarts within 600 s: it is not "
                                      "started again|");
    assert_true(scene->ends[1].given_up && scene->ends[1].harmless);
    assert_true(scene->ends[1].status == 7 && scene->ends[1].restarts == 2);
    assert_string_equal(scene->lines, "0:done|");
    free_scene(scene);
}

static void one_that_mends_is_started_once(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add_leader(scene);
    add_worker(scene, ONCE("kill -9 $$", "touch $D/end"));
    play(scene);
    assert_string_equal(scene->notes, "role/1 ended with signal 9 (Killed): it is started again in 0.1 s|");
    assert_true(!scene->ends[1].given_up && scene->ends[1].status == 0 && scene->ends[1].restarts == 1);
    free_scene(scene);
}

static void where_none_is_allowed_none_is_started(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->end_at = "not started again";
    add_leader(scene);
    add_worker(scene, "exit 7")->restarts.most = 0;
    play(scene);
    assert_string_equal(scene->notes, "role/1 ended with exit status 7: it is not started again|");
    assert_int_equal(scene->ends[0].status, 0);
    free_scene(scene);
}

static void wrong_use_is_not_tried_again(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->end_at = "not started again";
    add_leader(scene);
    add_worker(scene, "exit 2");
    play(scene);
    assert_string_equal(scene->notes, "role/1 ended with exit status 2, which another start does not mend: it is not "
                                      "started again|");
    assert_true(scene->ends[1].given_up && scene->ends[1].restarts == 0);
    free_scene(scene);
}

/* Its file is away for a while, as when it is being replaced. */
static void a_start_that_fails_is_tried_again(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    char path[2 * PATH_BYTES], wanted[512];
    path_of(scene, "program", path);
    write_program(scene, "#!/bin/sh\nrm $D/program; exit 1\n");
    scene->mend_at = "tried again";
    add_leader(scene);
    add_worker(scene, "")->program = path;
    play(scene);
    snprintf(wanted, sizeof wanted,
             "role/1 ended with exit status 1: it is started again in 0.1 s|"
             "role/1 can't be started (%s): no such file or directory: it is tried again in 0.2 s|",
             path);
    assert_string_equal(scene->notes, wanted);
    assert_true(scene->ends[1].status == 0 && scene->ends[1].restarts == 1 && !scene->ends[1].given_up);
    free_scene(scene);
}

static void starts_that_fail_count(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    char path[2 * PATH_BYTES];
    path_of(scene, "program", path);
    write_program(scene, "#!/bin/sh\nrm $D/program; exit 1\n");
    scene->end_at = "not tried again";
    add_leader(scene);
    add_worker(scene, "")->program = path;
    play(scene);
    assert_non_null(strstr(scene->notes, "no such file or directory, after 2 restarts within 600 s: it is not tried "
                                         "again|"));
    assert_true(scene->ends[1].given_up && scene->ends[1].restarts == 0 && scene->ends[1].status == 1);
    assert_string_equal(scene->lines, "0:done|");
    free_scene(scene);
}

/* The caller ends a child that may not be lost and starts it again, and its program is gone. */
static void a_start_by_the_caller_that_fails_is_a_failure(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    char path[2 * PATH_BYTES], wanted[512];
    path_of(scene, "program", path);
    write_program(scene, "#!/bin/sh\nrm $D/program; echo ready >&2; while :; do sleep 0.01; done\n");
    scene->caller_starts = true;
    scene->end_at = "can't be started";
    add(scene, LEADER);
    add(scene, "")->program = path;
    play(scene);
    snprintf(wanted, sizeof wanted, "role/1 can't be started (%s): no such file or directory|", path);
    assert_string_equal(scene->notes, wanted);
    assert_true(!scene->ends[1].harmless && scene->ends[1].restarts == 0);
    assert_int_equal(scene->ends[0].status, 0);
    free_scene(scene);
}

static void where_it_can_t_be_missed_the_group_ends(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->none_can_be_missed = true;
    add_leader(scene);
    add_worker(scene, "exit 7")->restarts.most = 1;
    play(scene);
    assert_int_equal(scene->ends[0].signal, SIGTERM);
    assert_true(scene->ends[0].stopped && !scene->ends[1].stopped && !scene->ends[1].harmless);
    assert_non_null(strstr(scene->notes, "after 1 restart within 600 s: it is not started again|"));
    assert_non_null(strstr(scene->notes, "still running after 0.05 s: role/0: sending SIGTERM"));
    free_scene(scene);
}

static void a_group_lasts_while_all_wait_to_be_started_again(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add_worker(scene, ONCE("exit 1", "echo again >&2"));
    play(scene);
    assert_string_equal(scene->lines, "0:again|");
    assert_int_equal(scene->ends[0].status, 0);
    free_scene(scene);
}

/* Nobody starts any more for a job that is done: the worker's pause outlasts the leader. */
static void once_the_leader_is_done_nobody_is_started_again(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->end_at = "started again in 0.1 s";
    add_leader(scene);
    add_worker(scene, ONCE("exit 1", "while :; do sleep 0.01; done"));
    play(scene);
    assert_int_equal(scene->ends[0].status, 0);
    assert_true(scene->ends[1].restarts == 0 ? scene->ends[1].harmless : scene->ends[1].stopped);
    free_scene(scene);
}

static void told_to_stop_nobody_is_waited_for(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    scene->signal_at_a_note = SIGTERM;
    add_worker(scene, ONCE("exit 1", "while :; do sleep 0.01; done"));
    play(scene);
    assert_int_equal(scene->interrupted, 1);
    assert_int_equal(scene->ends[0].restarts, 0);
    assert_non_null(strstr(scene->notes, "terminated: stopping all roles"));
    free_scene(scene);
}

/* The first life ends in mid-line, with the pipe in the hands of a process that lives on. */
static void the_next_life_s_lines_are_its_own(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    add_leader(scene);
    add_worker(scene, ONCE("{ head -c 16384 /dev/zero | tr '\\0' x; } >&2; sleep 20 & echo $! >$D/pid; exit 1",
                           "kill $(cat $D/pid); echo >&2; echo next >&2; touch $D/end"));
    play(scene);
    assert_non_null(strstr(scene->lines, "1:16384 bytes|1:|1:next|"));
    free_scene(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_keeps_failing_is_given_up_and_the_others_go_on),
        cmocka_unit_test(one_that_mends_is_started_once),
        cmocka_unit_test(where_none_is_allowed_none_is_started),
        cmocka_unit_test(wrong_use_is_not_tried_again),
        cmocka_unit_test(a_start_that_fails_is_tried_again),
        cmocka_unit_test(starts_that_fail_count),
        cmocka_unit_test(a_start_by_the_caller_that_fails_is_a_failure),
        cmocka_unit_test(where_it_can_t_be_missed_the_group_ends),
        cmocka_unit_test(a_group_lasts_while_all_wait_to_be_started_again),
        cmocka_unit_test(once_the_leader_is_done_nobody_is_started_again),
        cmocka_unit_test(told_to_stop_nobody_is_waited_for),
        cmocka_unit_test(the_next_life_s_lines_are_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
