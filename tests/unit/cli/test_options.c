#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct weir_options options;
static struct weir_error err;

/* Parses words separated by blanks. */
static bool parse(const char *line)
{
    static char words[8192];
    static char *arguments[1024];
    int count = 0;
    weir_options_free(&options);
    err.text[0] = '\0';
    snprintf(words, sizeof words, "%s", line);
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    return weir_options_parse(&options, count, arguments, &err);
}

static void assert_override(size_t i, const char *key, const char *value, const char *flag)
{
    assert_true(i < options.override_count);
    assert_string_equal(options.overrides[i].key, key);
    assert_string_equal(options.overrides[i].value, value);
    assert_string_equal(options.overrides[i].flag, flag);
}

static void flags_of_the_job_become_its_keys_in_order(void **state)
{
    (void)state;
    assert_true(parse("run --epochs 5 job.json --set data.train.scale=0.5 --batch-size=64 --seed 0 --set name=a=b"));
    assert_string_equal(options.argument, "job.json");
    assert_int_equal(options.override_count, 5);
    assert_override(0, "fit.epochs", "5", "--epochs");
    assert_override(1, "data.train.scale", "0.5", "--set");
    assert_override(2, "fit.batch_size", "64", "--batch-size");
    assert_override(3, "seed", "0", "--seed");
    assert_override(4, "name", "a=b", "--set");
}

static void either_of_workers_and_ps_implies_one_of_the_other(void **state)
{
    (void)state;
    assert_true(parse("run j"));
    assert_true(options.local);
    assert_true(parse("run j --workers 3"));
    assert_false(options.local);
    assert_int_equal(options.workers, 3);
    assert_int_equal(options.ps, 1);
    assert_true(parse("run j --ps 2"));
    assert_false(options.local);
    assert_int_equal(options.workers, 1);
    assert_int_equal(options.ps, 2);
}

static void numbers_are_digits_within_the_limits(void **state)
{
    (void)state;
    const char *const bad[] = {"0", "-1", "+1", "1.0", "1e3", "0x10", "5x", "4294967296", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[128];
        snprintf(line, sizeof line, "run j --epochs %s", bad[i]);
        assert_false(parse(line));
        assert_non_null(strstr(err.text, "--epochs: \""));
        assert_non_null(strstr(err.text, "is not a whole number from 1 to 4294967295"));
    }
    assert_false(parse("run j --epochs="));
    assert_true(parse("run j --epochs 4294967295"));
    assert_true(parse("run j --seed 9223372036854775807"));
    assert_false(parse("run j --seed 9223372036854775808"));
    assert_false(parse("run j --seed 18446744073709551616"));
    assert_false(parse("run j --workers 1025"));
}

static void wrong_use_is_told_with_a_cure(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"rnu j", "unknown command \"rnu\"; did you mean \"run\"?"},
        {"frobnicate", "unknown command \"frobnicate\" (weir alone lists"},
        {"run j --epoch 5", "unknown option --epoch; did you mean \"--epochs\"?"},
        {"run j --bacth-size=5", "unknown option --bacth-size; did you mean \"--batch-size\"?"},
        {"run j --xyzzy", "unknown option --xyzzy (weir run --help"},
        {"run j -x", "unknown option -x"},
        {"start j --workers 2", "--workers is not an option of weir start"},
        {"check j --weights w", "--weights is not an option of weir check"},
        {"run j --epochs", "--epochs needs a value: --epochs N"},
        {"run j --json=1", "--json takes no value"},
        {"run", "weir run needs a job file, as in: weir run"},
        {"run a b", "\"b\" is one too many"},
        {"run j --set epochs", "--set: \"epochs\" is not KEY=VALUE"},
        {"run j --set =5", "--set: \"=5\" is not KEY=VALUE"},
        {"run j --log-level loud", "--log-level: \"loud\" is not error, warning, info or debug"},
        {"run j --port 2222", "--port is for a cluster"},
        {"run j --workers 9 --port 65530", "11 roles from port 65530 on need ports up to 65540"},
        {"run j --summary=", "--summary: the name is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(parse(cases[i].line));
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].line, err.text);
    }
    assert_true(parse("run j --workers 9 --port 65525"));
}

static void help_needs_no_job(void **state)
{
    (void)state;
    assert_true(parse("run --help"));
    assert_true(options.help);
    assert_true(parse("start -h"));
    assert_true(options.help);
    assert_true(parse("help"));
    assert_null(options.argument);
    assert_true(parse("help job"));
    assert_string_equal(options.argument, "job");
}

static void after_two_dashes_all_is_argument(void **state)
{
    (void)state;
    assert_true(parse("check --json -- --job.json"));
    assert_string_equal(options.argument, "--job.json");
    assert_true(options.json);
}

static void quiet_lowers_the_log_unless_a_level_is_given(void **state)
{
    (void)state;
    assert_true(parse("run j --quiet"));
    assert_int_equal(options.override_count, 1);
    assert_override(0, "log.level", "warning", "--quiet");
    assert_true(parse("run j --quiet --log-level debug"));
    assert_int_equal(options.override_count, 1);
    assert_override(0, "log.level", "debug", "--log-level");
}

static void overrides_are_bounded(void **state)
{
    (void)state;
    char line[8192] = "run j --quiet";
    for (int i = 0; i < WEIR_OVERRIDES_MAX - 1; i++)
        strncat(line, " --set a=1", sizeof line - strlen(line) - 1);
    assert_true(parse(line));
    assert_int_equal(options.override_count, WEIR_OVERRIDES_MAX);
    strncat(line, " --set a=1", sizeof line - strlen(line) - 1);
    assert_false(parse(line));
    assert_non_null(strstr(err.text, "put some into the job file"));
}

/* What a child is told reads back as what the parent was told. */
static void children_are_told_the_same(void **state)
{
    (void)state;
    assert_true(parse("run -- -job.json"));
    char **arguments = weir_options_start_arguments(&options, true);
    assert_string_equal(arguments[0], "weir");
    assert_string_equal(arguments[1], "start");
    assert_string_equal(arguments[2], "--");
    assert_string_equal(arguments[3], "-job.json");
    assert_null(arguments[4]);
    free(arguments);
    assert_true(parse("run j --epochs 5 --set fit.shuffle=false --data d --quiet --workers 2 --summary s --weights w "
                      "--json --log-level error"));
    for (int results = 0; results < 2; results++) {
        arguments = weir_options_start_arguments(&options, results);
        struct weir_options told;
        int count = 0;
        while (arguments[count])
            count++;
        assert_true(weir_options_parse(&told, count - 1, arguments + 1, &err));
        assert_int_equal(told.command, WEIR_COMMAND_START);
        assert_string_equal(told.argument, "j");
        assert_int_equal(told.override_count, options.override_count);
        for (size_t i = 0; i < told.override_count; i++)
            assert_override(i, told.overrides[i].key, told.overrides[i].value, told.overrides[i].flag);
        assert_string_equal(told.data_dir, "d");
        assert_true(told.quiet);
        assert_int_equal(told.json, results);
        assert_int_equal(told.summary != NULL, results);
        assert_int_equal(told.weights != NULL, results);
        weir_options_free(&told);
        free(arguments);
    }
}

static void help_shows_each_option_of_the_command_and_no_other(void **state)
{
    (void)state;
    char *run = weir_options_help(WEIR_COMMAND_RUN), *check = weir_options_help(WEIR_COMMAND_CHECK);
    assert_non_null(strstr(run, "usage: weir run JOB [OPTION]..."));
    assert_non_null(strstr(run, "--workers N"));
    assert_non_null(strstr(run, "(fit.epochs)"));
    assert_null(strstr(check, "--workers"));
    assert_non_null(strstr(check, "--set KEY=VALUE"));
    char *overview = weir_options_overview();
    for (const char *const *name = (const char *const[]){"run JOB", "start JOB", "check JOB", "help [", NULL}; *name;
         name++)
        assert_non_null(strstr(overview, *name));
    free(run);
    free(check);
    free(overview);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_of_the_job_become_its_keys_in_order),
        cmocka_unit_test(either_of_workers_and_ps_implies_one_of_the_other),
        cmocka_unit_test(numbers_are_digits_within_the_limits),
        cmocka_unit_test(wrong_use_is_told_with_a_cure),
        cmocka_unit_test(help_needs_no_job),
        cmocka_unit_test(after_two_dashes_all_is_argument),
        cmocka_unit_test(quiet_lowers_the_log_unless_a_level_is_given),
        cmocka_unit_test(overrides_are_bounded),
        cmocka_unit_test(children_are_told_the_same),
        cmocka_unit_test(help_shows_each_option_of_the_command_and_no_other),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weir_options_free(&options);
    return failed;
}
