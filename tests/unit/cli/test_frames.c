/* The frames by which a chief tells of steps and views: what is told is read, and nothing else is taken for one. */
#include "cli/live.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char line[256];
static size_t count;

static void read_line(int fd)
{
    ssize_t got = read(fd, line, sizeof line);
    assert_true(got > 1 && line[got - 1] == '\n');
    count = (size_t)got - 1;
}

static void steps_and_views_are_read_as_told(void **state)
{
    (void)state;
    int ends[2];
    uint64_t a = 0, b = 0, ns = 0;
    assert_int_equal(pipe(ends), 0);
    weir_live_tell_step(ends[1], 12, UINT64_MAX, 99);
    read_line(ends[0]);
    assert_false(weir_live_is_view(line, count, &a, &ns));
    assert_true(weir_live_is_step(line, count, &a, &b, &ns));
    assert_true(a == 12 && b == UINT64_MAX && ns == 99);
    weir_live_tell_view(ends[1], 3, 7);
    read_line(ends[0]);
    assert_false(weir_live_is_step(line, count, &a, &b, &ns));
    assert_true(weir_live_is_view(line, count, &a, &ns));
    assert_true(a == 3 && ns == 7);
    assert_false(weir_live_is_joined(line, count));
    close(ends[0]);
    close(ends[1]);
}

static void nothing_else_is_taken_for_one(void **state)
{
    (void)state;
    static const char *const lines[] = {"",       "\x1e",       "\x1es",       "\x1es1 2",    "\x1es1 2 3 4",
                                        "s1 2 3", "\x1el1 2 3", "\x1es1 2 -3", "\x1es1 2 3x", "\x1ev1 2 3"};
    uint64_t a = 5, b = 5, ns = 5;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_false(weir_live_is_step(lines[i], strlen(lines[i]), &a, &b, &ns));
    assert_true(a == 5 && b == 5 && ns == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_views_are_read_as_told),
        cmocka_unit_test(nothing_else_is_taken_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
