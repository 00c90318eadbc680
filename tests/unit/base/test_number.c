#include "base/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void reads_numbers_within_the_range(void **state)
{
    (void)state;
    uint64_t number = 7;
    assert_true(weir_number_parse("0", 0, 0, &number) && number == 0);
    assert_true(weir_number_parse("1", 1, 3, &number) && number == 1);
    assert_true(weir_number_parse("3", 1, 3, &number) && number == 3);
    assert_true(weir_number_parse("007", 0, 9, &number) && number == 7);
    assert_true(weir_number_parse("18446744073709551615", 0, UINT64_MAX, &number) && number == UINT64_MAX);
}

static void refuses_all_else_and_leaves_the_number_alone(void **state)
{
    (void)state;
    const char *const wrong[] = {"", " ", "-1", "+1", " 1", "1 ", "1x", "0x1", "1e1", "1.0", "x"};
    uint64_t number = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(weir_number_parse(wrong[i], 0, UINT64_MAX, &number));
    assert_false(weir_number_parse("0", 1, 3, &number));
    assert_false(weir_number_parse("4", 1, 3, &number));
    assert_false(weir_number_parse("5", 0, 3, &number));
    assert_false(weir_number_parse("10", 0, 3, &number));
    assert_false(weir_number_parse("18446744073709551616", 0, UINT64_MAX, &number));
    assert_false(weir_number_parse("99999999999999999999999", 0, UINT64_MAX, &number));
    assert_int_equal(number, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numbers_within_the_range),
        cmocka_unit_test(refuses_all_else_and_leaves_the_number_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
