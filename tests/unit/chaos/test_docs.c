/* docs/chaos.md lists exactly the keys and defaults of the tables, in their order, and the kinds of faults. */
#include "chaos/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char *read_docs(void)
{
    FILE *file = fopen(WEIR_SOURCE_DIR "/docs/chaos.md", "r");
    assert_non_null(file);
    char *text = calloc(1, 100000);
    assert_true(fread(text, 1, 99999, file) > 0);
    fclose(file);
    return text;
}

static void the_page_has_the_tables_keys(void **state)
{
    (void)state;
    char *text = read_docs(), *at = text;
    for (size_t t = 0; t < WEIR_CHAOS_TABLES; t++)
        for (size_t r = 0; r < weir_chaos_tables[t].count; r++) {
            const struct weir_row *row = &weir_chaos_tables[t].rows[r];
            char line[256];
            const char *prefix = t == 0 ? "" : weir_chaos_tables[t].name;
            snprintf(line, sizeof line, "\n| `%s%s%s` | ", prefix, *prefix ? "." : "", row->name);
            char *found = strstr(at, line);
            if (!found)
                fail_msg("docs/chaos.md lacks, or has in another order: %s", line + 1);
            at = found + 1;
        }
    free(text);
}

static void the_page_has_the_kinds(void **state)
{
    (void)state;
    char *text = read_docs();
    for (int k = 0; k < WEIR_CHAOS_KINDS; k++) {
        char line[64];
        snprintf(line, sizeof line, "\n| `\"%s\"` | ", weir_chaos_kinds[k].name);
        if (!strstr(text, line))
            fail_msg("docs/chaos.md lacks: %s", line + 1);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_the_tables_keys),
        cmocka_unit_test(the_page_has_the_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
