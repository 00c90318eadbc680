/* When what failed is started again: how often within a window, and after which pauses. */
#include "runtime/process_restart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"

#define SHORT_NS (20 * WEIR_NS_PER_MS)
#define WINDOW_NS (600 * WEIR_NS_PER_S)
#define BEGIN_NS (5 * WEIR_NS_PER_S)

static const struct weir_restart_limit limit = {5, WINDOW_NS};

static void so_many_are_allowed_within_the_window_and_no_more(void **state)
{
    (void)state;
    struct weir_restart restart = {0};
    uint32_t pause_ms;
    for (uint64_t i = 0; i < 5; i++)
        assert_true(weir_restart_plan(&restart, &limit, SHORT_NS, BEGIN_NS + i * WEIR_NS_PER_S, &pause_ms));
    assert_false(weir_restart_plan(&restart, &limit, SHORT_NS, BEGIN_NS + 5 * WEIR_NS_PER_S, &pause_ms));
    assert_false(weir_restart_plan(&restart, &limit, SHORT_NS, BEGIN_NS + WINDOW_NS - 1, &pause_ms));
}

/* The first opens the window, so those of a whole life don't add up. */
static void the_window_ends_and_all_are_allowed_again(void **state)
{
    (void)state;
    struct weir_restart restart = {0};
    uint32_t pause_ms;
    for (uint64_t window = 0; window < 3; window++) {
        uint64_t begin_ns = BEGIN_NS + window * WINDOW_NS;
        for (uint64_t i = 0; i < 5; i++)
            assert_true(weir_restart_plan(&restart, &limit, SHORT_NS, begin_ns + i, &pause_ms));
        assert_false(weir_restart_plan(&restart, &limit, SHORT_NS, begin_ns + 5, &pause_ms));
    }
    for (uint64_t i = 0; i < 100; i++) /* once in two minutes, for hours */
        assert_true(
            weir_restart_plan(&restart, &limit, SHORT_NS, BEGIN_NS + 4 * WINDOW_NS + i * WINDOW_NS / 5, &pause_ms));
}

static void none_is_allowed_where_the_limit_is_0(void **state)
{
    (void)state;
    struct weir_restart restart = {0};
    const struct weir_restart_limit never = {0, WINDOW_NS};
    uint32_t pause_ms;
    assert_false(weir_restart_plan(&restart, &never, SHORT_NS, BEGIN_NS, &pause_ms));
    assert_false(weir_restart_plan(&restart, &never, SHORT_NS, BEGIN_NS + 2 * WINDOW_NS, &pause_ms));
}

/* 0.1 s, 0.2 s, ... up to 5 s, whether a life was short or could not even begin. */
static void pauses_double_up_to_the_longest(void **state)
{
    (void)state;
    struct weir_restart restart = {0};
    const struct weir_restart_limit many = {100, WINDOW_NS};
    const uint32_t wanted_ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000};
    for (size_t i = 0; i < sizeof wanted_ms / sizeof *wanted_ms; i++) {
        uint32_t pause_ms = 0;
        assert_true(weir_restart_plan(&restart, &many, i % 2 ? SHORT_NS : 0, BEGIN_NS, &pause_ms));
        assert_int_equal(pause_ms, wanted_ms[i]);
    }
}

/* Which says nothing of how many restarts are left. */
static void a_quiet_life_forgets_the_pauses_and_not_the_count(void **state)
{
    (void)state;
    struct weir_restart restart = {0};
    const uint64_t quiet_ns = WEIR_RESTART_QUIET_MS * WEIR_NS_PER_MS;
    const uint64_t lives_ns[] = {SHORT_NS, SHORT_NS, quiet_ns - 1, quiet_ns, SHORT_NS};
    const uint32_t wanted_ms[] = {100, 200, 400, 100, 200};
    uint64_t now_ns = BEGIN_NS;
    uint32_t pause_ms = 0;
    for (size_t i = 0; i < sizeof wanted_ms / sizeof *wanted_ms; i++) {
        now_ns += lives_ns[i];
        assert_true(weir_restart_plan(&restart, &limit, lives_ns[i], now_ns, &pause_ms));
        assert_int_equal(pause_ms, wanted_ms[i]);
    }
    assert_false(weir_restart_plan(&restart, &limit, quiet_ns, now_ns + quiet_ns, &pause_ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_are_allowed_within_the_window_and_no_more),
        cmocka_unit_test(the_window_ends_and_all_are_allowed_again),
        cmocka_unit_test(none_is_allowed_where_the_limit_is_0),
        cmocka_unit_test(pauses_double_up_to_the_longest),
        cmocka_unit_test(a_quiet_life_forgets_the_pauses_and_not_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
