/* Bytes that come in pieces, as whole lines. */
#include "runtime/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct scene {
    struct weir_lines lines;
    char text[4 * WEIR_LINE_BYTES_MAX]; /* each line, and a | after it; a run of x as its length */
};

static void take(void *context, const char *text, size_t bytes)
{
    struct scene *scene = context;
    size_t at = strlen(scene->text), run = 0;
    while (run < bytes && text[run] == 'x')
        run++;
    if (run > 8)
        at += (size_t)snprintf(scene->text + at, sizeof scene->text - at, "%zux", run);
    else
        run = 0;
    snprintf(scene->text + at, sizeof scene->text - at, "%.*s|", (int)(bytes - run), text + run);
}

static struct scene *new_scene(void)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->lines.line = take;
    scene->lines.context = scene;
    return scene;
}

static void give(struct scene *scene, const char *text)
{
    weir_lines_take(&scene->lines, text, strlen(text));
}

static void give_x(struct scene *scene, size_t count)
{
    char *many = malloc(count);
    assert_non_null(many);
    memset(many, 'x', count);
    weir_lines_take(&scene->lines, many, count);
    free(many);
}

static void lines_are_the_same_however_the_bytes_are_cut(void **state)
{
    (void)state;
    static const char text[] = "one\n\ntwo and more\nlast";
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        struct scene *scene = new_scene();
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            size_t left = sizeof text - 1 - at;
            weir_lines_take(&scene->lines, text + at, left < piece ? left : piece);
        }
        weir_lines_end(&scene->lines);
        assert_string_equal(scene->text, "one||two and more|last|");
        free(scene);
    }
}

static void nothing_is_no_line(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    weir_lines_take(&scene->lines, "", 0);
    weir_lines_end(&scene->lines);
    weir_lines_end(&scene->lines);
    assert_string_equal(scene->text, "");
    free(scene);
}

static void bytes_of_0_belong_to_their_line(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    weir_lines_take(&scene->lines, "\0\n", 2);
    assert_string_equal(scene->text, "|"); /* written by %.*s, which ends there */
    assert_int_equal(scene->lines.bytes, 0);
    free(scene);
}

static void a_line_of_exactly_the_limit_is_one_line(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    give_x(scene, WEIR_LINE_BYTES_MAX);
    give(scene, "\n");
    give(scene, "\nnext\n");
    assert_string_equal(scene->text, "16384x|" /* its newline comes later, and makes no line of its own */
                                     "|next|");
    free(scene);
}

static void a_longer_line_comes_in_pieces(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    give_x(scene, 2 * WEIR_LINE_BYTES_MAX + 10);
    give(scene, " end\nnext\n");
    assert_string_equal(scene->text, "16384x|16384x|10x end|next|");
    free(scene);
}

/* The next who writes is another: its empty line is not the end of the line before. */
static void after_the_end_no_line_is_cut(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    give_x(scene, WEIR_LINE_BYTES_MAX);
    weir_lines_end(&scene->lines);
    give(scene, "\nnext\n");
    assert_string_equal(scene->text, "16384x||next|");
    free(scene);
}

static void after_the_end_a_line_begins_anew(void **state)
{
    (void)state;
    struct scene *scene = new_scene();
    give(scene, "half");
    weir_lines_end(&scene->lines);
    give(scene, "whole\n");
    assert_string_equal(scene->text, "half|whole|");
    free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_the_same_however_the_bytes_are_cut),
        cmocka_unit_test(nothing_is_no_line),
        cmocka_unit_test(bytes_of_0_belong_to_their_line),
        cmocka_unit_test(a_line_of_exactly_the_limit_is_one_line),
        cmocka_unit_test(a_longer_line_comes_in_pieces),
        cmocka_unit_test(after_the_end_no_line_is_cut),
        cmocka_unit_test(after_the_end_a_line_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
