/* A group whose caller does things to the children while they run: signals, meant ends, restarts, the end. */
#include "runtime/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define CHILDREN 3
#define TICK_MS 1

enum story { KILLED_FOR_GOOD, STARTED_AGAIN, ALL_KILLED_AND_STARTED_AGAIN, ENDED_BY_THE_CALLER };

struct scene {
    enum story story;
    unsigned alarms, ends;
    bool started;
    char notes[1024];
};

static void begun(void *context, struct weir_group *group)
{
    (void)context;
    for (size_t i = 0; i < CHILDREN; i++)
        assert_true(weir_group_pid(group, i) > 0);
    assert_false(weir_group_start(group, 1)); /* it runs */
    weir_group_alarm(group, 60000);
    weir_group_alarm(group, TICK_MS); /* in place of the first */
}

static void kill_child(struct weir_group *group, size_t child, bool again)
{
    weir_group_expect(group, child, again);
    assert_true(weir_group_signal(group, child, SIGKILL));
}

static void kill_some(struct scene *scene, struct weir_group *group)
{
    bool all = scene->story == ALL_KILLED_AND_STARTED_AGAIN;
    if (scene->story == ENDED_BY_THE_CALLER)
        weir_group_stop(group);
    for (size_t i = 0; i < CHILDREN; i++)
        if (all || (i == 1 && scene->story != ENDED_BY_THE_CALLER))
            kill_child(group, i, scene->story != KILLED_FOR_GOOD);
}

static void alarm_rings(void *context, struct weir_group *group)
{
    struct scene *scene = context;
    unsigned killed = scene->story == ALL_KILLED_AND_STARTED_AGAIN ? CHILDREN : 1;
    if (scene->alarms++ == 0)
        kill_some(scene, group);
    if (scene->story == ENDED_BY_THE_CALLER)
        return;
    if (scene->ends < killed) {
        weir_group_alarm(group, TICK_MS);
        return;
    }
    assert_int_equal(weir_group_pid(group, 1), 0);
    assert_false(weir_group_signal(group, 1, SIGKILL));
    if (scene->story == KILLED_FOR_GOOD) {
        weir_group_signal(group, 0, SIGTERM);
        return;
    }
    for (size_t i = 0; i < CHILDREN; i++)
        if (killed == CHILDREN || i == 1)
            assert_true(weir_group_start(group, i));
    scene->started = true;
}

static void ended(void *context, struct weir_group *group, size_t child, const struct weir_child_end *end)
{
    (void)group;
    struct scene *scene = context;
    assert_true(child < CHILDREN && end->state == WEIR_CHILD_ENDED);
    scene->ends++;
}

static void take_note(void *context, const char *text)
{
    struct scene *scene = context;
    size_t at = strlen(scene->notes);
    snprintf(scene->notes + at, sizeof scene->notes - at, "%s|", text);
}

/* Runs three children that live until SIGTERM. */
static void play(struct scene *scene, void (*alarm)(void *, struct weir_group *), struct weir_child_end *ends)
{
    static const char *const patient[] = {"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.01; done", NULL};
    struct weir_child children[CHILDREN] = {
        {.name = "role/0", .program = "/bin/sh", .arguments = patient, .leads = true},
        {.name = "role/1", .program = "/bin/sh", .arguments = patient},
        {.name = "role/2", .program = "/bin/sh", .arguments = patient}};
    struct weir_group_options options = {.children = children,
                                         .count = CHILDREN,
                                         .grace_ms = 50,
                                         .stop_ms = 20000,
                                         .note = take_note,
                                         .begun = begun,
                                         .ended = ended,
                                         .alarm = alarm,
                                         .context = scene};
    unsigned interrupted;
    struct weir_error err;
    assert_true(weir_group_run(&options, ends, &interrupted, &err));
    assert_int_equal(interrupted, 0);
}

static void nobody_ends_because_of_an_end_that_is_meant(void **state)
{
    (void)state;
    struct scene scene = {.story = KILLED_FOR_GOOD};
    struct weir_child_end ends[CHILDREN];
    play(&scene, alarm_rings, ends);
    assert_int_equal(ends[1].signal, SIGKILL);
    assert_int_equal(ends[0].status, 0); /* by itself, told by the caller; then the group ended the last */
    assert_true(ends[0].order == 2 && !ends[0].stopped);
    assert_true(ends[2].order == 3 && ends[2].stopped);
    assert_null(strstr(scene.notes, "role/1"));
}

static bool all_run(const struct weir_group *group)
{
    bool all = true;
    for (size_t i = 0; i < CHILDREN; i++)
        all = all && weir_group_pid(group, i) != 0;
    return all;
}

/* The same, and the end once the second life has begun. */
static void alarm_after_start(void *context, struct weir_group *group)
{
    struct scene *scene = context;
    if (!scene->started) {
        alarm_rings(context, group);
        if (scene->started)
            weir_group_alarm(group, TICK_MS);
    } else if (!all_run(group)) {
        weir_group_alarm(group, TICK_MS);
    } else {
        weir_group_stop(group);
    }
}

static void one_that_was_ended_is_started_again(void **state)
{
    (void)state;
    struct scene scene = {.story = STARTED_AGAIN};
    struct weir_child_end ends[CHILDREN];
    play(&scene, alarm_after_start, ends);
    assert_int_equal(ends[1].restarts, 1);
    assert_int_equal(ends[0].restarts, 0);
    assert_true(ends[1].stopped);
    assert_string_equal(scene.notes, "");
}

/* Nobody is alive for a while, and the group lasts. */
static void a_group_lasts_until_those_are_back_that_are_to_come(void **state)
{
    (void)state;
    struct scene scene = {.story = ALL_KILLED_AND_STARTED_AGAIN};
    struct weir_child_end ends[CHILDREN];
    play(&scene, alarm_after_start, ends);
    for (size_t i = 0; i < CHILDREN; i++)
        assert_true(ends[i].restarts == 1 && ends[i].stopped);
}

static void the_caller_ends_the_group(void **state)
{
    (void)state;
    struct scene scene = {.story = ENDED_BY_THE_CALLER};
    struct weir_child_end ends[CHILDREN];
    play(&scene, alarm_rings, ends);
    for (size_t i = 0; i < CHILDREN; i++)
        assert_true(ends[i].stopped && ends[i].restarts == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_ends_because_of_an_end_that_is_meant),
        cmocka_unit_test(one_that_was_ended_is_started_again),
        cmocka_unit_test(a_group_lasts_until_those_are_back_that_are_to_come),
        cmocka_unit_test(the_caller_ends_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
