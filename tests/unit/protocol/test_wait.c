/* When a wait is long enough to be told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "protocol/wait.h"

#define MS UINT64_C(1000000)
#define FOR_A "ps/0 at a: weights of version 1 (chunk 3)"
#define FOR_A_LATER "ps/0 at a: weights of version 1 (chunk 4)"
#define NO_CONNECTION "ps/0 at a: a connection (lane 0: connection refused)"
#define FOR_B "ps/0 at a: weights of version 2 (chunk 3)"

/* Looks as often as one should, for that long; returns how often something changed. */
static int look_for(struct weir_wait *wait, const char *text, uint64_t *now, uint64_t duration)
{
    int changes = 0;
    for (uint64_t end = *now + duration; *now < end; *now += WEIR_WAIT_LOOK_NS)
        changes += weir_wait_look(wait, text, *now);
    return changes;
}

static void a_wait_is_long_after_two_seconds_and_told_once(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = 12345 * MS;
    assert_int_equal(look_for(&wait, FOR_A, &now, 2000 * MS), 0);
    assert_true(weir_wait_look(&wait, FOR_A, now));
    assert_true(wait.is_long);
    assert_string_equal(wait.text, FOR_A);
    assert_false(weir_wait_look(&wait, FOR_A, now + MS));
    assert_true(weir_wait_look(&wait, "", now + 2 * MS)); /* over */
    assert_false(wait.is_long);
}

static void other_details_are_the_same_wait(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = MS;
    look_for(&wait, FOR_A, &now, 1500 * MS);
    assert_int_equal(look_for(&wait, FOR_A_LATER, &now, 1000 * MS), 1);
    assert_true(wait.is_long);
    assert_string_equal(wait.text, FOR_A_LATER);
}

static void waits_that_follow_each_other_are_not_one_long_wait(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = MS;
    for (int i = 0; i < 10; i++)
        assert_int_equal(look_for(&wait, i % 2 ? FOR_A : FOR_B, &now, 1500 * MS), 0);
}

/* Steps that take ten seconds: the second is not told, unless it takes twice as long. */
static void a_wait_as_long_as_the_one_before_is_usual(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = MS;
    assert_int_equal(look_for(&wait, FOR_A, &now, 10000 * MS), 1);
    assert_int_equal(look_for(&wait, FOR_B, &now, 12000 * MS), 1); /* that the first is over */
    assert_false(wait.is_long);
    assert_int_equal(look_for(&wait, FOR_B, &now, 10000 * MS), 1);
    assert_true(wait.is_long);
}

static void after_a_very_long_wait_the_next_is_told_all_the_same(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = MS;
    look_for(&wait, FOR_A, &now, 600000 * MS);
    look_for(&wait, FOR_B, &now, WEIR_WAIT_MOST_NS + 1000 * MS);
    assert_true(wait.is_long);
}

/* What is missing from a member is late for a reason: as if there were one wait, and told anew. */
static void a_lost_connection_goes_on_with_the_wait_for_its_member(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = MS;
    look_for(&wait, FOR_A, &now, 1500 * MS);
    assert_int_equal(look_for(&wait, NO_CONNECTION, &now, 1000 * MS), 1);
    assert_true(wait.is_long);
    assert_int_equal(look_for(&wait, FOR_B, &now, 1000 * MS), 1); /* it is back, and late with something else */
    assert_false(wait.is_long);
    look_for(&wait, FOR_B, &now, 5000 * MS);
    assert_true(wait.is_long);
    assert_true(weir_wait_look(&wait, NO_CONNECTION, now)); /* told, for it says something else */
    assert_true(wait.is_long);
}

static void a_connection_is_not_waited_for_in_every_step(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    uint64_t now = MS;
    look_for(&wait, "ps/1 at b: weights of version 1 (chunk 3)", &now, 10000 * MS);
    assert_int_equal(look_for(&wait, NO_CONNECTION, &now, 2250 * MS), 2);
    assert_true(wait.is_long);
}

static void time_in_which_nobody_looked_does_not_count(void **state)
{
    (void)state;
    struct weir_wait wait = {0};
    weir_wait_look(&wait, FOR_A, 1000 * MS);
    assert_false(weir_wait_look(&wait, FOR_A, 60000 * MS));
    uint64_t now = 60250 * MS;
    assert_int_equal(look_for(&wait, FOR_A, &now, 2000 * MS), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_long_after_two_seconds_and_told_once),
        cmocka_unit_test(other_details_are_the_same_wait),
        cmocka_unit_test(waits_that_follow_each_other_are_not_one_long_wait),
        cmocka_unit_test(a_wait_as_long_as_the_one_before_is_usual),
        cmocka_unit_test(after_a_very_long_wait_the_next_is_told_all_the_same),
        cmocka_unit_test(a_lost_connection_goes_on_with_the_wait_for_its_member),
        cmocka_unit_test(a_connection_is_not_waited_for_in_every_step),
        cmocka_unit_test(time_in_which_nobody_looked_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
