#include "cli/title.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* What ps shows. */
static void read_title(char *text, size_t bytes)
{
    FILE *file = fopen("/proc/self/cmdline", "r");
    assert_non_null(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

static void a_title_longer_than_the_arguments_is_shown_whole(void **state)
{
    (void)state;
    char seen[4096];
    weir_title_set("weir start a_job_with_quite_a_long_name_for_a_file_%d.json worker/%d", 12345, 0);
    read_title(seen, sizeof seen);
    assert_string_equal(seen, "weir start a_job_with_quite_a_long_name_for_a_file_12345.json worker/0");
}

static void a_short_title_leaves_nothing_of_the_old_one(void **state)
{
    (void)state;
    char seen[4096];
    weir_title_set("weir start j ps/1");
    weir_title_set("w");
    FILE *file = fopen("/proc/self/cmdline", "r");
    assert_non_null(file);
    size_t count = fread(seen, 1, sizeof seen, file);
    fclose(file);
    assert_true(count >= 1);
    assert_int_equal(seen[0], 'w');
    for (size_t i = 1; i < count; i++)
        assert_int_equal(seen[i], '\0');
}

static void the_environment_outlives_the_title(void **state)
{
    (void)state;
    char title[900];
    memset(title, 'x', sizeof title);
    title[sizeof title - 1] = '\0';
    weir_title_set("%s", title);
    assert_string_equal(getenv("WEIR_TEST_TITLE"), "kept");
    setenv("WEIR_TEST_TITLE", "changed", 1);
    assert_string_equal(getenv("WEIR_TEST_TITLE"), "changed");
    unsetenv("WEIR_TEST_TITLE");
    assert_null(getenv("WEIR_TEST_TITLE"));
}

int main(int argc, char **argv)
{
    if (argc == 1) { /* again, with a known environment */
        setenv("WEIR_TEST_TITLE", "kept", 1);
        execl("/proc/self/exe", "w", "again", (char *)NULL);
        return 1;
    }
    char **arguments = weir_title_init(argc, argv);
    weir_title_set("somebody else");
    if (strcmp(arguments[1], "again") != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_title_longer_than_the_arguments_is_shown_whole),
        cmocka_unit_test(a_short_title_leaves_nothing_of_the_old_one),
        cmocka_unit_test(the_environment_outlives_the_title),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
