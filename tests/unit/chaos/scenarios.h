/* Scenarios as text, for the tests of this folder. After cmocka's headers. */
#ifndef WEIR_TEST_CHAOS_SCENARIOS_H
#define WEIR_TEST_CHAOS_SCENARIOS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chaos/scenario.h"

/* Writes the text to a fresh file and loads it as "s.json" in a fresh folder, which is gone afterwards. */
static inline bool load_scenario(const char *text, struct weir_chaos_scenario *scenario, struct weir_problems *problems)
{
    char folder[] = "/tmp/weir-chaos-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    FILE *file = fopen("s.json", "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    bool good = weir_chaos_scenario_load(scenario, "s.json", problems);
    unlink("s.json");
    assert_int_equal(chdir("/"), 0);
    rmdir(folder);
    return good;
}

static inline struct weir_chaos_scenario good_scenario(const char *text)
{
    struct weir_chaos_scenario scenario;
    struct weir_problems problems = {0};
    if (!load_scenario(text, &scenario, &problems))
        fail_msg("%s", problems.count ? problems.lines[0] : "refused without a reason");
    return scenario;
}

#endif
