#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void an_empty_text_has_no_memory(void **state)
{
    (void)state;
    struct weir_text text = {0};
    assert_null(text.bytes);
    weir_text_add(&text, "%s", "");
    assert_string_equal(text.bytes, "");
    assert_int_equal(text.length, 0);
    free(text.bytes);
}

/* Byte by byte and in pieces across every growth; asan sees a piece that was put beyond the room. */
static void a_text_is_whole_and_ends_with_a_zero_byte_however_it_grows(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 70; piece++) {
        struct weir_text text = {0};
        char bytes[70];
        memset(bytes, 'x', piece);
        for (size_t i = 1; i <= 100; i++) {
            weir_text_add_bytes(&text, bytes, piece);
            weir_text_add(&text, "%03zu", i);
            assert_int_equal(text.length, i * (piece + 3));
            assert_int_equal(strlen(text.bytes), text.length);
            assert_int_equal(text.bytes[text.length - 1], (int)(48 + i % 10));
        }
        free(text.bytes);
    }
}

static void bytes_may_be_zero(void **state)
{
    (void)state;
    struct weir_text text = {0};
    weir_text_add_bytes(&text, "a\0b", 3);
    weir_text_add(&text, "%c", 'c');
    assert_int_equal(text.length, 4);
    assert_memory_equal(text.bytes, "a\0bc", 5);
    free(text.bytes);
}

static void control_characters_of_others_do_nothing(void **state)
{
    (void)state;
    char text[] = "a\x1b[31mb\nc\x7f\xc2\x9b"
                  "d\xc3\xa9\xc2\xa0\te\xc2";
    weir_text_disarm(text, sizeof text - 1);
    assert_string_equal(text, "a?[31mb?c???d\xc3\xa9\xc2\xa0?e\xc2");
    char part[] = "\xc2\x9b";
    weir_text_disarm(part, 1);
    assert_string_equal(part, "\xc2\x9b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_text_has_no_memory),
        cmocka_unit_test(a_text_is_whole_and_ends_with_a_zero_byte_however_it_grows),
        cmocka_unit_test(bytes_may_be_zero),
        cmocka_unit_test(control_characters_of_others_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
