/* docs/job.md lists exactly the keys and defaults of the tables, in their order. */
#include "support.h"

#include "config/job_table.h"
#include "config/keras.h"

static char *read_docs(void)
{
    FILE *file = fopen(WEIR_SOURCE_DIR "/docs/job.md", "r");
    assert_non_null(file);
    char *text = calloc(1, 100000);
    assert_true(fread(text, 1, 99999, file) > 0);
    fclose(file);
    return text;
}

/* "| `key` | default |", as the table's row must begin. */
static void print_expected(const struct weir_row *row, char *line, size_t bytes)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%s", row->shown ? row->shown : row->initial ? row->initial : "required");
    if (shown[0] == '"')
        snprintf(shown, sizeof shown, "%.*s", (int)strlen(row->initial) - 2, row->initial + 1);
    snprintf(line, bytes, "| `%s` | %s | ", row->name, shown);
}

static void the_documentation_has_the_tables_keys(void **state)
{
    (void)state;
    char *text = read_docs(), *rest = NULL;
    char *at = strstr(text, "## Keys\n"), *end = strstr(text, "## Flags\n");
    assert_true(at && end);
    *end = '\0';
    size_t row = 0;
    for (char *line = strtok_r(at, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "| `", 3) != 0)
            continue;
        assert_true(row < weir_job_row_count);
        char expected[256];
        print_expected(&weir_job_rows[row++], expected, sizeof expected);
        line[strlen(expected) < strlen(line) ? strlen(expected) : strlen(line)] = '\0';
        assert_string_equal(line, expected);
    }
    assert_int_equal(row, weir_job_row_count);
    free(text);
}

static void the_documentation_has_the_flags(void **state)
{
    (void)state;
    char *text = read_docs(), list[512] = "Short forms: ";
    const char *join = "";
    for (size_t i = 0; i < weir_job_row_count; i++)
        if (weir_job_rows[i].flag) {
            size_t length = strlen(list);
            snprintf(list + length, sizeof list - length, "%s`%s`", join, weir_job_rows[i].flag);
            join = ", ";
        }
    if (!strstr(text, list))
        fail_msg("docs/job.md lacks: %s", list);
    free(text);
}

static bool is_shared(const struct weir_row *row)
{
    return strcmp(row->initial, "null") == 0;
}

static void the_documentation_has_the_optimizers(void **state)
{
    (void)state;
    char *text = read_docs();
    for (size_t i = 0; i < weir_keras_optimizers.class_count; i++) {
        const struct weir_keras_class *class = &weir_keras_optimizers.classes[i];
        char line[512];
        snprintf(line, sizeof line, "| `%s` | ", class->name);
        const char *join = "";
        for (size_t r = 0; r < class->row_count; r++) {
            size_t length = strlen(line);
            if (!is_shared(&class->rows[r]))
                snprintf(line + length, sizeof line - length, "%s`%s` %s", join, class->rows[r].name,
                         class->rows[r].initial);
            join = " · ";
        }
        snprintf(line + strlen(line), sizeof line - strlen(line), " |\n");
        if (!strstr(text, line))
            fail_msg("docs/job.md lacks: %s", line);
    }
    free(text);
}

static void help_has_a_line_for_each_key(void **state)
{
    (void)state;
    char *help = weir_job_help();
    size_t lines = 0;
    for (const char *c = help; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, weir_job_row_count + 1);
    assert_non_null(strstr(help, "\nfit.batch_size           32 "));
    assert_non_null(strstr(help, "\ncompile.optimizer        rmsprop "));
    free(help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documentation_has_the_tables_keys),
        cmocka_unit_test(the_documentation_has_the_flags),
        cmocka_unit_test(the_documentation_has_the_optimizers),
        cmocka_unit_test(help_has_a_line_for_each_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
