#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* The known answers that Random123 publishes for philox4x32-10 (kat_vectors). */
static void gives_the_published_answers(void **state)
{
    (void)state;
    uint32_t out[4];
    weir_random_block((struct weir_random_key){{0, 0}}, 0, 0, out);
    const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(out, zero, sizeof zero);
    weir_random_block((struct weir_random_key){{~0u, ~0u}}, UINT64_MAX, UINT64_MAX, out);
    const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(out, ones, sizeof ones);
}

static void streams_differ_in_every_part_of_their_name(void **state)
{
    (void)state;
    struct weir_random_key keys[] = {
        weir_random_key(1, WEIR_RANDOM_INIT, 2, 3),    weir_random_key(2, WEIR_RANDOM_INIT, 2, 3),
        weir_random_key(1, WEIR_RANDOM_SHUFFLE, 2, 3), weir_random_key(1, WEIR_RANDOM_INIT, 3, 3),
        weir_random_key(1, WEIR_RANDOM_INIT, 2, 4),
    };
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&keys[i], &keys[j], sizeof keys[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_published_answers),
        cmocka_unit_test(streams_differ_in_every_part_of_their_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
