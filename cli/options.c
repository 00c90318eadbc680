#include "cli/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "config/suggest.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define HELP_COLUMN 22

/* ---- the tables */

static const struct command_row {
    const char *name, *argument, *summary, *example, *details;
    bool needs_argument;
} commands[WEIR_COMMANDS] = {
    [WEIR_COMMAND_RUN] = {"run", "JOB",
                          "train on this machine: in one process, or with --workers and --ps as a cluster",
                          "weir run job.json --workers 2 --ps 1",
                          "Without --workers and --ps one process plays all roles. Either alone implies one of the\n"
                          "other; then every role is a process of its own, with TF_CONFIG in its environment, on\n"
                          "127.0.0.1. All of them end with this one. ^C stops them in order, a second ^C at once.\n",
                          true},
    [WEIR_COMMAND_START] = {"start", "JOB", "play one role of a cluster; which one, TF_CONFIG says",
                            "TF_CONFIG='{\"cluster\": {\"chief\": [\"a:2222\"], \"ps\": [\"b:2222\"], \"worker\": "
                            "[\"c:2222\"]},\n"
                            "             \"task\": {\"type\": \"ps\", \"index\": 0}}' weir start job.json",
                            "Roles may start in any order; each waits for the others, and says for whom. Without\n"
                            "TF_CONFIG one process plays all roles.\n",
                            true},
    [WEIR_COMMAND_CHECK] = {"check", "JOB", "say all that is wrong with a job and with TF_CONFIG; run nothing",
                            "weir check job.json --set fit.batch_size=128",
                            "Reads the job file, the model and the data as a run would. Exit status 1 if anything is\n"
                            "wrong.\n",
                            true},
    [WEIR_COMMAND_CHAOS] = {"chaos", "SCENARIO", "run a job on a cluster here, do faults to it, and judge the result",
                            "weir chaos examples/chaos/worker-kill.json --out report",
                            "Runs the scenario's job twice on a cluster on this machine, first undisturbed, then with\n"
                            "the scenario's faults, and compares: digests, steps, gradients, times of recovery. Exit\n"
                            "status 1 if anything was lost. docs/chaos.md lists the keys of a scenario.\n",
                            true},
    [WEIR_COMMAND_HELP] = {"help", "[COMMAND|job]", "explain a command, or the keys of a job file", "weir help job", "",
                           false},
};

enum option_kind {
    OPTION_SET,        /* KEY=VALUE */
    OPTION_KEY_NUMBER, /* a number for the job key `key` */
    OPTION_KEY_TEXT,   /* a word for it */
    OPTION_SEED,       /* of the scenario */
    OPTION_NUMBER,     /* into the uint32_t at `offset` */
    OPTION_TEXT,       /* into the pointer at `offset` */
    OPTION_FLAG,       /* into the bool at `offset` */
};

#define RUN (1u << WEIR_COMMAND_RUN)
#define START (1u << WEIR_COMMAND_START)
#define CHECK (1u << WEIR_COMMAND_CHECK)
#define CHAOS (1u << WEIR_COMMAND_CHAOS)
#define ALL (RUN | START | CHECK | CHAOS | 1u << WEIR_COMMAND_HELP)
#define FIELD(name) offsetof(struct weir_options, name)

static const struct option_row {
    const char *name, *value, *help;
    unsigned commands;
    enum option_kind kind;
    const char *key;
    size_t offset;
    uint64_t min, max;
} option_rows[] = {
    {"--workers", "N", "number of worker processes", RUN, OPTION_NUMBER, NULL, FIELD(workers), 1, WEIR_LOCAL_ROLES_MAX},
    {"--ps", "K", "number of parameter server processes", RUN, OPTION_NUMBER, NULL, FIELD(ps), 1, WEIR_LOCAL_ROLES_MAX},
    {"--job", "JOB", "the job, in place of the scenario's", CHAOS, OPTION_TEXT, NULL, FIELD(job), 0, 0},
    {"--seed", "S", "of the faults, in place of the scenario's", CHAOS, OPTION_SEED, NULL, 0, 0, INT64_MAX},
    {"--out", "DIR", "write report.html, report.json and the logs to DIR", CHAOS, OPTION_TEXT, NULL, FIELD(out), 0, 0},
    {"--port", "P", "use ports P, P+1, ... (else any free ones)", RUN, OPTION_NUMBER, NULL, FIELD(port), 1, 65535},
    {"--set", "KEY=VALUE", "set any key of the job, VALUE being JSON or a word; repeatable",
     RUN | START | CHECK | CHAOS, OPTION_SET, NULL, 0, 0, 0},
    {"--epochs", "N", "passes over the training data", RUN | START | CHECK, OPTION_KEY_NUMBER, "fit.epochs", 0, 1,
     UINT32_MAX},
    {"--batch-size", "N", "samples in the global batch", RUN | START | CHECK, OPTION_KEY_NUMBER, "fit.batch_size", 0, 1,
     UINT32_MAX},
    {"--replicas", "R", "equal parts of the global batch", RUN | START | CHECK, OPTION_KEY_NUMBER, "replicas", 0, 1,
     UINT32_MAX},
    {"--seed", "S", "of all that is random", RUN | START | CHECK, OPTION_KEY_NUMBER, "seed", 0, 0, INT64_MAX},
    {"--data", "DIR", "look for the job's data files, by name, in DIR", RUN | START | CHECK | CHAOS, OPTION_TEXT, NULL,
     FIELD(data_dir), 0, 0},
    {"--strategy", "S", "how gradients are exchanged", RUN | START | CHECK, OPTION_KEY_TEXT, "strategy", 0, 0, 0},
    {"--device", "D", "where to compute", RUN | START | CHECK, OPTION_KEY_TEXT, "device", 0, 0, 0},
    {"--summary", "FILE", "write the result to FILE as JSON", RUN | START, OPTION_TEXT, NULL, FIELD(summary), 0, 0},
    {"--weights", "FILE", "write the final weights to FILE as safetensors", RUN | START, OPTION_TEXT, NULL,
     FIELD(weights), 0, 0},
    {"--json", NULL, "print the result as JSON", RUN | START | CHECK | CHAOS, OPTION_FLAG, NULL, FIELD(json), 0, 0},
    {"--log-level", "L", "error, warning, info or debug", RUN | START | CHECK | CHAOS, OPTION_KEY_TEXT, "log.level", 0,
     0, 0},
    {"--quiet", NULL, "no progress, only warnings, errors and results", RUN | START | CHECK | CHAOS, OPTION_FLAG, NULL,
     FIELD(quiet), 0, 0},
    {"--help", NULL, "explain the command", ALL, OPTION_FLAG, NULL, FIELD(help), 0, 0},
};

/* ---- parsing */

/* The option of that name, rather one that the command has. */
static const struct option_row *find_option(enum weir_command command, const char *name, size_t length)
{
    const struct option_row *found = NULL;
    for (size_t i = 0; i < COUNT_OF(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        bool same = strlen(row->name) == length && memcmp(row->name, name, length) == 0;
        if (same && (!found || row->commands & 1u << command))
            found = row;
    }
    return found;
}

static bool unknown_option(enum weir_command command, const char *name, size_t length, struct weir_error *err)
{
    char typed[WEIR_SUGGEST_BYTES], near[2 * WEIR_SUGGEST_BYTES];
    struct weir_suggest suggest;
    snprintf(typed, sizeof typed, "%.*s", (int)length, name);
    weir_suggest_start(&suggest, typed);
    for (size_t i = 0; i < COUNT_OF(option_rows); i++)
        if (option_rows[i].commands & 1u << command)
            weir_suggest_offer(&suggest, option_rows[i].name, option_rows[i].name);
    weir_suggest_phrase(&suggest, near, sizeof near);
    return weir_error_set(err, "unknown option %s%s (weir %s --help lists the options)", typed, near,
                          commands[command].name);
}

static bool add_override(struct weir_options *options, const char *key, const char *value, const char *flag,
                         struct weir_error *err)
{
    if (options->override_count == WEIR_OVERRIDES_MAX - 1) /* the last is for --quiet */
        return weir_error_set(err, "more than %d options of the job; put some into the job file",
                              WEIR_OVERRIDES_MAX - 1);
    options->overrides[options->override_count++] = (struct weir_override){.key = key, .value = value, .flag = flag};
    return true;
}

/* `at`: the next free byte of options->keys, which is large enough for all arguments. */
static bool parse_set(struct weir_options *options, const char *value, char **at, struct weir_error *err)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return weir_error_set(err, "--set: \"%.100s\" is not KEY=VALUE, as in --set fit.epochs=5", value);
    char *key = *at;
    size_t length = (size_t)(equals - value);
    memcpy(key, value, length);
    key[length] = '\0';
    *at += length + 1;
    return add_override(options, key, equals + 1, "--set", err);
}

static bool parse_log_level(const char *value, struct weir_error *err)
{
    enum weir_log_level level;
    return weir_log_level_parse(value, &level) ||
           weir_error_set(err, "--log-level: \"%.100s\" is not error, warning, info or debug", value);
}

static bool take_option(struct weir_options *options, const struct option_row *row, const char *value, char **at,
                        struct weir_error *err)
{
    char *field = (char *)options + row->offset;
    uint64_t number = 0;
    bool is_number = row->kind == OPTION_NUMBER || row->kind == OPTION_KEY_NUMBER || row->kind == OPTION_SEED;
    if (is_number && !weir_number_parse(value, row->min, row->max, &number))
        return weir_error_set(err, "%s: \"%.100s\" is not a whole number from %llu to %llu", row->name, value,
                              (unsigned long long)row->min, (unsigned long long)row->max);
    switch (row->kind) {
    case OPTION_SET:
        return parse_set(options, value, at, err);
    case OPTION_KEY_TEXT:
        if (strcmp(row->key, "log.level") == 0 && !parse_log_level(value, err))
            return false;
        return add_override(options, row->key, value, row->name, err);
    case OPTION_KEY_NUMBER:
        return add_override(options, row->key, value, row->name, err);
    case OPTION_SEED:
        options->has_seed = true;
        options->scenario_seed = number;
        return true;
    case OPTION_NUMBER:
        *(uint32_t *)(void *)field = (uint32_t)number;
        return true;
    case OPTION_TEXT:
        *(const char **)(void *)field = value;
        return *value || weir_error_set(err, "%s: the name is empty", row->name);
    case OPTION_FLAG:
        *(bool *)field = true;
        return true;
    }
    return false;
}

/* Reads the option at arguments[*i] and, if it has one, its value; *i is the last one read. */
static bool parse_option(struct weir_options *options, int count, char *const *arguments, int *i, char **at,
                         struct weir_error *err)
{
    const char *name = strcmp(arguments[*i], "-h") == 0 ? "--help" : arguments[*i];
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row = find_option(options->command, name, length);
    const char *command = commands[options->command].name;
    if (!row)
        return unknown_option(options->command, name, length, err);
    if (!(row->commands & 1u << options->command))
        return weir_error_set(err, "%s is not an option of weir %s (weir %s --help lists the options)", row->name,
                              command, command);
    if (!row->value && equals)
        return weir_error_set(err, "%s takes no value", row->name);
    if (row->value && !equals && *i + 1 == count)
        return weir_error_set(err, "%s needs a value: %s %s", row->name, row->name, row->value);
    const char *value = equals ? equals + 1 : row->value ? arguments[++*i] : NULL;
    return take_option(options, row, value, at, err);
}

static const char *what_it_takes(enum weir_command command)
{
    if (command == WEIR_COMMAND_CHAOS)
        return "scenario";
    return commands[command].needs_argument ? "job file" : "topic";
}

static bool take_argument(struct weir_options *options, const char *argument, struct weir_error *err)
{
    const struct command_row *command = &commands[options->command];
    if (options->argument)
        return weir_error_set(err, "weir %s takes one %s: \"%.200s\" is one too many", command->name,
                              what_it_takes(options->command), argument);
    options->argument = argument;
    return true;
}

static bool finish(struct weir_options *options, struct weir_error *err)
{
    const struct command_row *command = &commands[options->command];
    if (options->help)
        return true;
    if (command->needs_argument && !options->argument)
        return weir_error_set(err, "weir %s needs a %s, as in: %s", command->name, what_it_takes(options->command),
                              command->example);
    bool level_given = false;
    for (size_t i = 0; i < options->override_count; i++)
        level_given |= strcmp(options->overrides[i].flag, "--log-level") == 0;
    if (options->quiet && !level_given)
        options->overrides[options->override_count++] =
            (struct weir_override){.key = "log.level", .value = "warning", .flag = "--quiet"};
    options->local = options->workers == 0 && options->ps == 0;
    if (options->local && options->port != 0)
        return weir_error_set(err, "--port is for a cluster: give --workers or --ps too");
    if (options->workers == 0)
        options->workers = 1;
    if (options->ps == 0)
        options->ps = 1;
    uint64_t last_port = (uint64_t)options->port + options->workers + options->ps;
    if (options->port != 0 && last_port > 65535)
        return weir_error_set(err, "--port: %u roles from port %u on need ports up to %llu; the last one is 65535",
                              options->workers + options->ps + 1, options->port, (unsigned long long)last_port);
    return true;
}

bool weir_options_parse(struct weir_options *options, int count, char *const *arguments, struct weir_error *err)
{
    *options = (struct weir_options){0};
    assert(count > 0);
    if (!weir_options_command(arguments[0], &options->command))
        return weir_options_unknown_command(arguments[0], err);
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += strlen(arguments[i]) + 1;
    char *at = options->keys = weir_alloc(bytes, 1, "the command line");
    bool only_arguments = false;
    for (int i = 1; i < count; i++) {
        bool is_option = !only_arguments && arguments[i][0] == '-' && arguments[i][1] != '\0';
        if (is_option && strcmp(arguments[i], "--") == 0)
            only_arguments = true;
        else if (is_option ? !parse_option(options, count, arguments, &i, &at, err)
                           : !take_argument(options, arguments[i], err))
            return false;
    }
    return finish(options, err);
}

void weir_options_free(struct weir_options *options)
{
    free(options->keys);
    *options = (struct weir_options){0};
}

/* ---- telling the children */

/* Appends "NAME=VALUE" (or only NAME) and its zero byte. */
static void put_argument(FILE *out, size_t *count, const char *name, const char *value)
{
    fprintf(out, "%s%s%s%c", name, value ? "=" : "", value ? value : "", '\0');
    ++*count;
}

static void put_arguments(FILE *out, size_t *count, const struct weir_options *options, bool results)
{
    put_argument(out, count, "weir", NULL);
    put_argument(out, count, commands[WEIR_COMMAND_START].name, NULL);
    for (size_t i = 0; i < options->override_count; i++) {
        const struct weir_override *override = &options->overrides[i];
        if (strcmp(override->flag, "--set") == 0) {
            fprintf(out, "--set=");
            put_argument(out, count, override->key, override->value);
        } else if (strcmp(override->flag, "--quiet") != 0) {
            put_argument(out, count, override->flag, override->value);
        }
    }
    if (options->data_dir)
        put_argument(out, count, "--data", options->data_dir);
    if (options->quiet)
        put_argument(out, count, "--quiet", NULL);
    if (results && options->summary)
        put_argument(out, count, "--summary", options->summary);
    if (results && options->weights)
        put_argument(out, count, "--weights", options->weights);
    if (results && options->json)
        put_argument(out, count, "--json", NULL);
    put_argument(out, count, "--", NULL);
    put_argument(out, count, options->argument, NULL);
}

char **weir_options_start_arguments(const struct weir_options *options, bool results)
{
    char *texts = NULL;
    size_t bytes = 0, count = 0;
    FILE *out = open_memstream(&texts, &bytes);
    if (out) {
        put_arguments(out, &count, options, results);
        fclose(out);
    }
    char **list = weir_alloc(1, (count + 1) * sizeof *list + bytes, "a child's arguments");
    char *at = (char *)(list + count + 1);
    if (bytes > 0)
        memcpy(at, texts, bytes);
    for (size_t i = 0; i < count; i++) {
        list[i] = at;
        at += strlen(at) + 1;
    }
    free(texts);
    return list;
}

/* ---- help */

bool weir_options_command(const char *name, enum weir_command *command)
{
    for (int i = 0; i < WEIR_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) {
            *command = (enum weir_command)i;
            return true;
        }
    return false;
}

bool weir_options_unknown_command(const char *name, struct weir_error *err)
{
    char near[2 * WEIR_SUGGEST_BYTES];
    struct weir_suggest suggest;
    weir_suggest_start(&suggest, name);
    for (int i = 0; i < WEIR_COMMANDS; i++)
        weir_suggest_offer(&suggest, commands[i].name, commands[i].name);
    weir_suggest_phrase(&suggest, near, sizeof near);
    return weir_error_set(err, "unknown command \"%.100s\"%s (weir alone lists the commands)", name, near);
}

char *weir_options_overview(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return weir_strdup("");
    fprintf(out, "weir trains a Keras model on many processes at once: workers compute gradients, parameter\n"
                 "servers (ps) hold the weights, a chief leads, gRPC joins them.\n\n"
                 "  weir run job.json                      one process plays all roles\n"
                 "  weir run job.json --workers 2 --ps 1   a cluster on this machine\n"
                 "  weir start job.json                    one role of the cluster that TF_CONFIG names\n\n"
                 "commands:\n");
    for (int i = 0; i < WEIR_COMMANDS; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", commands[i].name, commands[i].argument);
        fprintf(out, "  %-*s%s\n", HELP_COLUMN, usage, commands[i].summary);
    }
    fprintf(out, "\nweir COMMAND --help explains a command, weir help job the job file; weir --version.\n");
    fclose(out);
    return text;
}

char *weir_options_help(enum weir_command command)
{
    const struct command_row *row = &commands[command];
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return weir_strdup("");
    fprintf(out, "usage: weir %s %s%s\n\n%s\n\n", row->name, row->argument,
            command == WEIR_COMMAND_HELP ? "" : " [OPTION]...", row->summary);
    if (*row->details)
        fprintf(out, "%s\n", row->details);
    fprintf(out, "example:\n  %s\n\noptions:\n", row->example);
    for (size_t i = 0; i < COUNT_OF(option_rows); i++) {
        const struct option_row *option = &option_rows[i];
        char usage[64];
        if (!(option->commands & 1u << command))
            continue;
        snprintf(usage, sizeof usage, "%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        fprintf(out, "  %-*s%s", HELP_COLUMN, usage, option->help);
        fprintf(out, option->key ? " (%s)\n" : "\n", option->key);
    }
    fclose(out);
    return text;
}
