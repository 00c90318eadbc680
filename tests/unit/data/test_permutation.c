#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every value below n exactly once. */
static void assert_bijection(uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct weir_permutation order;
    weir_permutation_init(&order, n, seed, epoch);
    unsigned char *seen = calloc(n, 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = weir_permutation_at(&order, i);
        if (at >= n || seen[at]++)
            fail_msg("n %llu seed %llu epoch %llu: %llu comes twice or is too large", (unsigned long long)n,
                     (unsigned long long)seed, (unsigned long long)epoch, (unsigned long long)at);
    }
    free(seen);
}

static void is_a_bijection_for_every_n(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3000; n++) {
        assert_bijection(n, 0, 0);
        assert_bijection(n, n, 7);
        assert_bijection(n, UINT64_MAX, UINT64_MAX - n);
    }
    const uint64_t large[] = {60000, 65535, 65536, 65537, (1 << 18) + 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 3};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        for (uint64_t key = 0; key < 3; key++)
            assert_bijection(large[i], key, 3 * key);
}

/* Too many to visit: images of distinct numbers are distinct and in range. */
static void holds_up_to_the_largest_n(void **state)
{
    (void)state;
    const uint64_t large[] = {UINT64_C(1) << 32, (UINT64_C(1) << 40) + 1, (UINT64_C(1) << 63) + 5, UINT64_MAX};
    for (size_t k = 0; k < sizeof large / sizeof large[0]; k++) {
        struct weir_permutation order;
        weir_permutation_init(&order, large[k], 1, 2);
        uint64_t image[512];
        for (uint64_t i = 0; i < 512; i++) {
            image[i] = weir_permutation_at(&order, i < 256 ? i : large[k] - 1 - i);
            assert_true(image[i] < large[k]);
            for (uint64_t j = 0; j < i; j++)
                assert_true(image[i] != image[j]);
        }
    }
}

/* Pearson's statistic, as a normal deviate (Wilson and Hilferty). */
static double deviate(const unsigned *count, size_t cells, double expected)
{
    double chi2 = 0, freedom = (double)cells - 1;
    for (size_t i = 0; i < cells; i++)
        chi2 += (count[i] - expected) * (count[i] - expected) / expected;
    return (cbrt(chi2 / freedom) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom));
}

#define N_MAX 1000

/* Over many epochs, the sample at each of some positions is uniform over the set. */
static void every_position_is_uniform(void **state)
{
    (void)state;
    const uint64_t sizes[] = {3, 10, 64, 65, 100, N_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t n = sizes[s];
        for (uint64_t position = 0; position < n; position += 1 + n / 8) {
            unsigned count[N_MAX] = {0};
            for (uint64_t epoch = 0; epoch < 40 * n; epoch++) {
                struct weir_permutation order;
                weir_permutation_init(&order, n, 5, epoch);
                count[weir_permutation_at(&order, position)]++;
            }
            double z = deviate(count, n, 40);
            if (fabs(z) > 4.5)
                fail_msg("n %llu position %llu: %.1f deviations from uniform", (unsigned long long)n,
                         (unsigned long long)position, z);
        }
    }
}

/* Within one epoch, where the next sample lies says nothing about this one. */
static void neighbours_are_independent(void **state)
{
    (void)state;
    enum { N = 60000, CELLS = 64 };
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        struct weir_permutation order;
        weir_permutation_init(&order, N, 9, epoch);
        unsigned count[CELLS * CELLS] = {0};
        for (uint64_t i = 0; i + 1 < N; i += 2) {
            uint64_t a = weir_permutation_at(&order, i) * CELLS / N;
            uint64_t b = weir_permutation_at(&order, i + 1) * CELLS / N;
            count[a * CELLS + b]++;
        }
        double z = deviate(count, (size_t)CELLS * CELLS, N / 2.0 / (CELLS * CELLS));
        if (fabs(z) > 4.5)
            fail_msg("epoch %llu: %.1f deviations from independence", (unsigned long long)epoch, z);
    }
}

/* Two orders agree at about one position: the number of fixed points of a random permutation. */
static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    enum { N = 60000 };
    for (uint64_t k = 1; k <= 32; k++) {
        struct weir_permutation one, other;
        weir_permutation_init(&one, N, 3, 0);
        weir_permutation_init(&other, N, k % 2 ? 3 : 3 + k, k % 2 ? k : 0);
        unsigned same = 0;
        for (uint64_t i = 0; i < N; i++)
            same += weir_permutation_at(&one, i) == weir_permutation_at(&other, i);
        assert_true(same < 10);
    }
}

/* As tests/interop/reference/data.py has it, which was written apart from this code. A change would void every recorded
 * run. */
static void the_order_is_pinned(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, seed, epoch, image[6];
    } pinned[] = {
        {60000, 0, 0, {50647, 56691, 6277, 54107, 26759, 18025}},
        {1000, (UINT64_C(1) << 40) + 7, (UINT64_C(3) << 32) + 5, {451, 870, 118, 644, 683, 493}},
        {(UINT64_C(1) << 33) + 1, 5, 6, {6234639469, 8419734374, 3553484769, 2390466828, 1211557301, 2858621901}},
    };
    for (size_t k = 0; k < sizeof pinned / sizeof pinned[0]; k++) {
        struct weir_permutation order;
        weir_permutation_init(&order, pinned[k].n, pinned[k].seed, pinned[k].epoch);
        for (uint64_t i = 0; i < 6; i++)
            assert_int_equal(weir_permutation_at(&order, i), pinned[k].image[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_bijection_for_every_n), cmocka_unit_test(holds_up_to_the_largest_n),
        cmocka_unit_test(every_position_is_uniform),  cmocka_unit_test(neighbours_are_independent),
        cmocka_unit_test(epochs_and_seeds_differ),    cmocka_unit_test(the_order_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
