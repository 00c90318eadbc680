#include "data/convert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#define COUNT 1024

/* Lengths and offsets around the vector widths; a guard behind the last element. */
static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    uint8_t in[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        in[i] = (uint8_t)(i * 37);
    const struct weir_convert_row *rows;
    size_t row_count = weir_convert_rows(&rows);
    const float scales[] = {1.0f / 255.0f, 1.0f, -0.3f, 1e-40f};
    for (size_t r = 0; r < row_count; r++) {
        if (!rows[r].supported()) {
            print_message("%s: not on this machine\n", rows[r].name);
            continue;
        }
        for (size_t n = 0; n < 100; n++) {
            float scale = scales[n % 4], out[COUNT + 1], guard = 42;
            out[n] = guard;
            rows[r].convert(in + n, n, scale, out);
            for (size_t i = 0; i < n; i++) {
                float expected = (float)in[n + i] * scale;
                assert_memory_equal(&out[i], &expected, sizeof expected);
            }
            assert_true(out[n] == guard);
        }
    }
}

static void the_last_row_runs_everywhere(void **state)
{
    (void)state;
    const struct weir_convert_row *rows;
    size_t count = weir_convert_rows(&rows);
    assert_true(count >= 1 && rows[count - 1].supported());
    assert_non_null(weir_convert_u8_best());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(the_last_row_runs_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
