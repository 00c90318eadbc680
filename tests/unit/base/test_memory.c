#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void a_copy_past_caches_is_a_copy_at_every_offset_and_size(void **state)
{
    (void)state;
    unsigned char from[400], to[400];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + 1);
    for (size_t offset = 0; offset < 17; offset++)
        for (size_t source = 0; source < 5; source++)
            for (size_t bytes = 0; bytes < 300; bytes++) {
                memset(to, 0, sizeof to);
                weir_copy_past_caches(to + offset, from + source, bytes);
                assert_memory_equal(to + offset, from + source, bytes);
                for (size_t i = 0; i < sizeof to; i++)
                    if (i < offset || i >= offset + bytes)
                        assert_int_equal(to[i], 0);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_copy_past_caches_is_a_copy_at_every_offset_and_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
