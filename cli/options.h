/* The command line: one table of commands and one of options, which parse it and print its help.
 *
 * Flags of the job (--epochs, --seed, ...) are rows that map to a key of the job file, so that a flag, --set and the
 * file itself are checked by the same rules.
 */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

#define WEIR_OVERRIDES_MAX 256
#define WEIR_LOCAL_ROLES_MAX 1024 /* of one kind, in weir run */

enum weir_command {
    WEIR_COMMAND_RUN,
    WEIR_COMMAND_START,
    WEIR_COMMAND_CHECK,
    WEIR_COMMAND_CHAOS,
    WEIR_COMMAND_HELP,
    WEIR_COMMANDS
};

struct weir_options {
    enum weir_command command;
    const char *argument; /* JOB, SCENARIO, or what help is wanted for; NULL if there is none */
    bool help;            /* --help: show help of the command, and do nothing else */

    struct weir_override overrides[WEIR_OVERRIDES_MAX]; /* for weir_job_load */
    size_t override_count;
    const char *data_dir; /* --data, or NULL */
    const char *summary;  /* --summary, or NULL */
    const char *weights;  /* --weights, or NULL */
    bool json;            /* the result on stdout as JSON */
    bool quiet;           /* no progress, no log but errors and warnings */

    bool local;           /* run: neither --workers nor --ps: all roles in this process */
    uint32_t workers, ps; /* run, if not local: >= 1 */
    uint32_t port;        /* run: the first port; 0: any free ones */

    const char *job; /* chaos: --job, or NULL */
    const char *out; /* chaos: --out, or NULL */
    bool has_seed;   /* chaos: --seed */
    uint64_t scenario_seed;

    char *keys; /* owned: the keys of --set, cut from their values */
};

/* Reads the arguments after the program's name (arguments[0] is the command). Strings of `options` point into
 * `arguments`. False for wrong use: the error says what to do. Free with weir_options_free, also after false. */
bool weir_options_parse(struct weir_options *options, int count, char *const *arguments, struct weir_error *err);
void weir_options_free(struct weir_options *options);

/* The arguments that `weir start` needs to be told what `weir run` was told: the job, overrides, --data; for the one
 * that writes results (`results`) also --summary, --weights and --json. Returns an array that ends with NULL, in one
 * piece of memory: free() it. arguments[0] is "weir", arguments[1] "start". */
char **weir_options_start_arguments(const struct weir_options *options, bool results);

/* What `weir` alone prints; the help of one command. The caller frees the text. */
char *weir_options_overview(void);
char *weir_options_help(enum weir_command command);
/* True, and *command set, if there is a command of that name. */
bool weir_options_command(const char *name, enum weir_command *command);
/* The error for `name`, which is neither a command nor a topic. Returns false. */
bool weir_options_unknown_command(const char *name, struct weir_error *err);

#endif
