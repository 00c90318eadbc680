#include "fixture.h"

#include <math.h>

#include "engine/powers.h"

static double distance_in_ulps(double a, double b)
{
    if (a == b)
        return 0;
    return fabs(a - b) / (nextafter(fabs(b), INFINITY) - fabs(b));
}

static void logarithm_is_within_two_ulps_of_libm(void **state)
{
    (void)state;
    struct source source = source_new(1);
    for (int i = 0; i < 200000; i++) {
        double x = ldexp(1 + weir_random_unit(source_word(&source)), (int)source_below(&source, 2000) - 1000);
        assert_true(distance_in_ulps(weir_math_log(x), log(x)) <= 2);
        x = 1 + source_symmetric(&source) * 1e-3; /* near the zero */
        assert_true(distance_in_ulps(weir_math_log(x), log(x)) <= 2);
    }
}

static void exponential_is_within_two_ulps_of_libm(void **state)
{
    (void)state;
    struct source source = source_new(2);
    for (int i = 0; i < 200000; i++) {
        double x = source_symmetric(&source) * (i % 2 ? 700 : 2);
        assert_true(distance_in_ulps(weir_math_exp(x), exp(x)) <= 2);
    }
}

static void power_is_exact_to_far_below_a_float(void **state)
{
    (void)state;
    struct source source = source_new(3);
    for (int i = 0; i < 200000; i++) {
        double x = ldexp(1 + weir_random_unit(source_word(&source)), (int)source_below(&source, 250) - 125);
        double y = weir_random_unit(source_word(&source));
        assert_true(fabs(weir_math_pow(x, y) / pow(x, y) - 1) < 1e-13);
    }
}

static void limits_are_those_of_libm(void **state)
{
    (void)state;
    assert_true(weir_math_log(0) == -INFINITY && weir_math_log(INFINITY) == INFINITY);
    assert_true(isnan(weir_math_log(-1)) && isnan(weir_math_log(NAN)));
    assert_true(weir_math_log(1) == 0);
    assert_true(weir_math_exp(-INFINITY) == 0 && weir_math_exp(INFINITY) == INFINITY && weir_math_exp(0) == 1);
    assert_true(isnan(weir_math_exp(NAN)) && isfinite(weir_math_exp(709.7)) && weir_math_exp(710) == INFINITY);
    assert_true(weir_math_pow(0, 0.5) == 0 && weir_math_pow(0, 0) == 1 && weir_math_pow(INFINITY, 0.5) == INFINITY);
    assert_true(isnan(weir_math_pow(NAN, 0.5)));
    assert_true(distance_in_ulps(weir_math_log(0x1.fffffffffffffp+1023), log(0x1.fffffffffffffp+1023)) <= 2);
}

static void whole_powers_match_libm_over_a_long_training(void **state)
{
    (void)state;
    const double bases[] = {0.9, 0.999, 0.99999, 0.5, 0.0, 1.0};
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++)
        for (uint64_t t = 0; t < 200000; t = t < 100 ? t + 1 : t * 2) {
            double expected = pow(bases[b], (double)t), got = weir_math_power(bases[b], t);
            assert_true(fabs(got - expected) <= (double)(t + 2) * 2e-16 * expected + 1e-300);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithm_is_within_two_ulps_of_libm),
        cmocka_unit_test(exponential_is_within_two_ulps_of_libm),
        cmocka_unit_test(power_is_exact_to_far_below_a_float),
        cmocka_unit_test(limits_are_those_of_libm),
        cmocka_unit_test(whole_powers_match_libm_over_a_long_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
