/* A command in a process of its own, and what it wrote. For tests, after cmocka's headers, in a folder to write into.
 */
#ifndef WEIR_TEST_CLI_TELL_H
#define WEIR_TEST_CLI_TELL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"

struct told {
    int status;
    char out[65536], err[65536];
};

/* Carries out a command line (words separated by blanks) and returns its exit status. */
static inline int obey(const char *line, int (*function)(const struct weir_options *options))
{
    char words[256], *arguments[32], *rest = NULL;
    int count = 0;
    struct weir_options options;
    struct weir_error err;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok_r(words, " ", &rest); word && count < 32; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    int status = 98;
    if (weir_options_parse(&options, count, arguments, &err))
        status = function(&options);
    else
        fprintf(stderr, "%s\n", err.text);
    weir_options_free(&options);
    return status;
}

static inline void read_back(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

/* Carries it out in a child with files for stdout and stderr. The caller frees what it told. */
static inline struct told *tell(const char *line, int (*function)(const struct weir_options *options))
{
    struct told *told = calloc(1, sizeof *told);
    assert_non_null(told);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    int status;
    if (child == 0) {
        if (!freopen("out", "w", stdout) || !freopen("err", "w", stderr))
            _exit(97);
        status = obey(line, function);
        fflush(NULL);
        _exit(status);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    told->status = WEXITSTATUS(status);
    read_back("out", told->out, sizeof told->out);
    read_back("err", told->err, sizeof told->err);
    return told;
}

static inline void assert_says(const char *told, const char *text)
{
    if (!strstr(told, text))
        fail_msg("no \"%s\" in: %s", text, told);
}

#endif
