#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define COUNT 200000

static float values[COUNT], some[COUNT];

static void make(enum weir_initializer_kind kind, float a, float b, uint64_t seed)
{
    struct weir_variable variable = {.elements = COUNT, .init = kind, .a = a, .b = b};
    weir_model_initial(&variable, 1, seed, 0, COUNT, values);
}

static void moments(double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += (double)values[i];
    *mean = sum / COUNT;
    for (size_t i = 0; i < COUNT; i++)
        squares += ((double)values[i] - *mean) * ((double)values[i] - *mean);
    *deviation = sqrt(squares / COUNT);
}

static void distributions_have_their_moments_and_bounds(void **state)
{
    (void)state;
    double mean, deviation;
    make(WEIR_INIT_UNIFORM, -3, 1, 1);
    moments(&mean, &deviation);
    assert_float_equal(mean, -1, 0.02);
    assert_float_equal(deviation, 4 / sqrt(12), 0.01);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(values[i] >= -3 && values[i] < 1);
    make(WEIR_INIT_NORMAL, 2, 3, 1);
    moments(&mean, &deviation);
    assert_float_equal(mean, 2, 0.03);
    assert_float_equal(deviation, 3, 0.03);
    make(WEIR_INIT_TRUNCATED_NORMAL, 0, 1, 1);
    moments(&mean, &deviation);
    assert_float_equal(mean, 0, 0.01);
    assert_float_equal(deviation, 0.87962566103423978, 0.01);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(values[i] >= -2 && values[i] <= 2);
}

/* How many lie below a few quantiles: 4 deviations of the count allowed. */
static void normal_numbers_fill_their_tails(void **state)
{
    (void)state;
    static const struct {
        float below;
        double probability;
    } quantiles[] = {{-3, 0.0013498980316}, {-1.2815516f, 0.1}, {0, 0.5}, {0.6744898f, 0.75}, {2.5f, 0.9937903347}};
    make(WEIR_INIT_NORMAL, 0, 1, 7);
    for (size_t q = 0; q < 5; q++) {
        size_t count = 0;
        for (size_t i = 0; i < COUNT; i++)
            count += values[i] < quantiles[q].below;
        double p = quantiles[q].probability;
        assert_true(fabs((double)count - COUNT * p) < 4 * sqrt(COUNT * p * (1 - p)));
    }
}

static void any_range_gives_the_same_bits(void **state)
{
    (void)state;
    const struct weir_variable variables[] = {
        {.offset = 0, .elements = 1001, .init = WEIR_INIT_NORMAL, .b = 1},
        {.offset = 1008, .elements = 7, .init = WEIR_INIT_ONES},
        {.offset = 1024, .elements = 333, .init = WEIR_INIT_TRUNCATED_NORMAL, .b = 1},
        {.offset = 1360, .elements = 10, .init = WEIR_INIT_UNIFORM, .a = -1, .b = 1},
    };
    const size_t total = 1376;
    weir_model_initial(variables, 4, 5, 0, total, values);
    for (size_t first = 0; first < total; first += 61)
        for (size_t count = 1; first + count <= total; count += 97) {
            weir_model_initial(variables, 4, 5, first, count, some);
            assert_memory_equal(some, values + first, count * sizeof *some);
        }
    for (size_t i = 1001; i < 1008; i++)
        assert_true(values[i] == 0);
    assert_true(values[1008] == 1 && values[1014] == 1 && values[1015] == 0);
}

static void seeds_and_variables_differ(void **state)
{
    (void)state;
    make(WEIR_INIT_UNIFORM, -1, 1, 1);
    memcpy(some, values, sizeof some);
    make(WEIR_INIT_UNIFORM, -1, 1, 2);
    assert_memory_not_equal(some, values, 64);
    const struct weir_variable two[] = {{.elements = 64, .init = WEIR_INIT_NORMAL, .b = 1},
                                        {.offset = 64, .elements = 64, .init = WEIR_INIT_NORMAL, .b = 1}};
    weir_model_initial(two, 2, 1, 0, 128, values);
    assert_memory_not_equal(values, values + 64, 64 * sizeof *values);
}

/* Written down once: later versions, compilers and machines must give these. */
static void the_bits_are_these_on_every_machine(void **state)
{
    (void)state;
    static const float uniform[] = {0x1.4d97cc0000000p-1f,  -0x1.5d352c0000000p-1f, 0x1.1500840000000p-1f,
                                    -0x1.db10000000000p-7f, -0x1.1792500000000p-1f, -0x1.f560c00000000p-3f,
                                    0x1.148e880000000p-2f,  0x1.081e600000000p-3f,  0x1.c005c00000000p-4f,
                                    -0x1.57f8340000000p-1f, 0x1.451b480000000p-1f,  0x1.b768400000000p-3f};
    static const float normal[] = {0x1.e00ccc0000000p-1f,  -0x1.ff51e20000000p-1f, 0x1.7b26540000000p-1f,
                                   -0x1.29b72e0000000p-6f, -0x1.7f662a0000000p-1f, -0x1.3f4a8c0000000p-2f,
                                   0x1.6182c00000000p-2f,  0x1.4c7a800000000p-3f,  0x1.19a4480000000p-3f,
                                   -0x1.f49f380000000p-1f, 0x1.cfc8dc0000000p-1f,  0x1.16c3520000000p-2f};
    make(WEIR_INIT_UNIFORM, -1, 1, 42);
    assert_memory_equal(values, uniform, sizeof uniform);
    make(WEIR_INIT_NORMAL, 0, 1, 42);
    assert_memory_equal(values, normal, sizeof normal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distributions_have_their_moments_and_bounds),
        cmocka_unit_test(normal_numbers_fill_their_tails),
        cmocka_unit_test(any_range_gives_the_same_bits),
        cmocka_unit_test(seeds_and_variables_differ),
        cmocka_unit_test(the_bits_are_these_on_every_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
