/* What the tests of this folder share: job files in a folder of their own, and what loading them says. */
#ifndef WEIR_TEST_CONFIG_SUPPORT_H
#define WEIR_TEST_CONFIG_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ftw.h>
#include <unistd.h>
#include <cmocka.h>

#include "config/config.h"

#define MODEL "{\"class_name\":\"Sequential\",\"config\":{}}"

/* A job that is complete, with room for more keys at the end. */
#define JOB_WITH(more)                                                                                                 \
    "{\"model\": " MODEL ",\n"                                                                                         \
    "\"data\": {\"train\": {\"format\": \"idx\", \"x\": \"x.gz\", \"y\": \"sub/y.gz\"}},\n"                            \
    "\"compile\": {\"loss\": \"mse\"}" more "}"

/* With these under compile. */
#define JOB_COMPILE(keys)                                                                                              \
    "{\"model\": " MODEL ",\n"                                                                                         \
    "\"data\": {\"train\": {\"format\": \"idx\", \"x\": \"x.gz\", \"y\": \"y.gz\"}},\n"                                \
    "\"compile\": {" keys "}}"

/* Tests run in a fresh folder, which is removed at the end. */
static char test_folder[] = "/tmp/weir-config-XXXXXX";

static inline int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(test_folder) && chdir(test_folder) == 0 ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static inline int leave_folder(void **state)
{
    (void)state;
    return chdir("/") == 0 ? nftw(test_folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) : -1;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

/* Loads the text as job.json with `key=value` overrides from "--set", up to a NULL. */
static inline bool load(struct weir_job *job, const char *text, const char *const *sets, struct weir_problems *problems)
{
    static char copies[16][256];
    struct weir_override overrides[16];
    size_t count = 0;
    for (; sets && sets[count]; count++) {
        snprintf(copies[count], sizeof copies[count], "%s", sets[count]);
        char *equals = strchr(copies[count], '=');
        *equals = '\0';
        overrides[count] = (struct weir_override){.key = copies[count], .value = equals + 1, .flag = "--set"};
    }
    write_text("job.json", text);
    return weir_job_load(job, "job.json", overrides, count, NULL, problems);
}

/* Loads what must be right. Free with weir_job_free. */
static inline struct weir_job good_job(const char *text, const char *const *sets)
{
    struct weir_job job;
    struct weir_problems problems = {0};
    bool good = load(&job, text, sets, &problems);
    for (size_t i = 0; i < problems.count; i++)
        print_error("%s\n", problems.lines[i]);
    assert_true(good);
    assert_int_equal(problems.count, 0);
    return job;
}

static inline void assert_lines(const struct weir_problems *problems, const char *expected)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    for (size_t i = 0; i < problems->count; i++)
        fprintf(out, "%s\n", problems->lines[i]);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

/* Loads what must be wrong in exactly these lines. */
static inline void assert_refused(const char *text, const char *const *sets, const char *expected)
{
    struct weir_job job;
    struct weir_problems problems = {0};
    assert_false(load(&job, text, sets, &problems));
    assert_lines(&problems, expected);
    weir_problems_free(&problems);
    weir_job_free(&job);
}

#endif
