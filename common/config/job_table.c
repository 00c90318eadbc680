#include "config/job_table.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static const struct weir_choice formats[] = {{"idx", NULL}, {NULL, NULL}};
static const struct weir_choice strategies[] = {
    {"ps", NULL},
    {"allreduce", "is not there yet"},
    {NULL, NULL},
};
static const struct weir_choice devices[] = {{"auto", NULL}, {"cpu", NULL}, {"cuda", "is not built in"}, {NULL, NULL}};
static const struct weir_choice log_levels[] = {
    /* in the order of enum weir_log_level */
    {"error", NULL}, {"warning", NULL}, {"info", NULL}, {"debug", NULL}, {NULL, NULL},
};
static const struct weir_choice log_formats[] = {{"text", NULL}, {"json", NULL}, {NULL, NULL}};

/* Keys that the interface names and this version does not know yet. */
static const char *const later[] = {"snapshot"};

#define AT(member) .offset = offsetof(struct weir_job, member), .size = sizeof(((struct weir_job *)NULL)->member)

#define DATA_ROWS(set)                                                                                                 \
    {.name = "data." #set ".format",                                                                                   \
     .type = WEIR_ROW_CHOICE,                                                                                          \
     AT(set.format),                                                                                                   \
     .choices = formats,                                                                                               \
     .help = "of the files: \"idx\", plain or gzip"},                                                                  \
        {.name = "data." #set ".x", .type = WEIR_ROW_PATH, AT(set.x), .unhashed = true, .help = "file of the inputs"}, \
        {.name = "data." #set ".y", .type = WEIR_ROW_PATH, AT(set.y), .unhashed = true, .help = "file of the labels"}, \
    {                                                                                                                  \
        .name = "data." #set ".scale", .type = WEIR_ROW_DOUBLE, AT(set.scale), .initial = "null", .above_min = true,   \
        .shown = "1/255 for bytes, else 1", .help = "inputs are multiplied by it"                                      \
    }

/* A number of things: an integer from `low` to `high`. */
#define COUNT(low, high) .type = WEIR_ROW_U32, .min = (low), .max = (high)

const struct weir_row weir_job_rows[] = {
    {.name = "name",
     .type = WEIR_ROW_NAME,
     AT(name),
     .initial = "null",
     .unhashed = true,
     .shown = "the folder's name",
     .help = "shown, and part of file names"},
    {.name = "model",
     .type = WEIR_ROW_MODEL,
     .help = "a Keras architecture file (model.to_json()), or the object itself"},
    {.name = "data.train", .type = WEIR_ROW_GROUP, AT(train.present), .help = "the training set"},
    DATA_ROWS(train),
    {.name = "data.validation",
     .type = WEIR_ROW_GROUP,
     AT(validation.present),
     .initial = "null",
     .shown = "none",
     .help = "the validation set, gone through after each epoch"},
    DATA_ROWS(validation),
    {.name = "data.prefetch", COUNT(1, 64), AT(prefetch), .initial = "2", .help = "batches read ahead"},
    {.name = "compile.optimizer",
     .type = WEIR_ROW_OPTIMIZER,
     AT(optimizer),
     .initial = "\"rmsprop\"",
     .help = "a name, or {class_name, config} as Keras serialises it"},
    {.name = "compile.loss", .type = WEIR_ROW_LOSS, AT(loss), .help = "a name, or {class_name, config}"},
    {.name = "compile.metrics",
     .type = WEIR_ROW_METRICS,
     .initial = "[]",
     .help = "a list of names or {class_name, config}"},
    {.name = "fit.batch_size",
     COUNT(1, 1 << 24),
     AT(batch_size),
     .initial = "32",
     .flag = "--batch-size",
     .help = "samples of a step, over all replicas together"},
    {.name = "fit.epochs",
     COUNT(1, 1000000),
     AT(epochs),
     .initial = "1",
     .flag = "--epochs",
     .help = "times that the training set is gone through"},
    {.name = "fit.steps_per_epoch",
     COUNT(1, INT32_MAX),
     AT(steps_per_epoch),
     .initial = "null",
     .shown = "the whole set",
     .help = "steps that make an epoch"},
    {.name = "fit.shuffle",
     .type = WEIR_ROW_BOOL,
     AT(shuffle),
     .initial = "true",
     .help = "another order of the samples in each epoch"},
    {.name = "fit.drop_remainder",
     .type = WEIR_ROW_BOOL,
     AT(drop_remainder),
     .initial = "false",
     .help = "leave out a last batch that is not full"},
    {.name = "seed",
     .type = WEIR_ROW_U64,
     AT(seed),
     .initial = "0",
     .flag = "--seed",
     .help = "of everything that is random"},
    {.name = "replicas",
     COUNT(1, 65536),
     AT(replicas),
     .initial = "null",
     .flag = "--replicas",
     .shown = "workers x devices at the first start",
     .help = "parts of each batch; fixed from the first start on"},
    {.name = "threads_per_replica",
     COUNT(1, 256),
     AT(threads_per_replica),
     .initial = "1",
     .help = "compute threads of one replica; only 1 so far"},
    {.name = "strategy",
     .type = WEIR_ROW_CHOICE,
     AT(strategy),
     .initial = "\"ps\"",
     .choices = strategies,
     .or_object = true,
     .flag = "--strategy",
     .help = "how gradients meet: a name, or {\"name\": ...}"},
    {.name = "placement.chunk_bytes",
     COUNT(4096, 4 << 20),
     AT(chunk_bytes),
     .multiple = 4096,
     .initial = "1048576",
     .help = "size of the pieces in which the parameters travel"},
    {.name = "placement.lanes",
     COUNT(0, 8),
     AT(lanes),
     .initial = "0",
     .help = "threads and connections of a server; 0: one for now"},
    {.name = "device",
     .type = WEIR_ROW_CHOICE,
     AT(device),
     .initial = "\"auto\"",
     .choices = devices,
     .flag = "--device",
     .help = "what workers compute on"},
    {.name = "cluster.start_timeout_s",
     COUNT(1, 86400),
     AT(start_timeout_s),
     .initial = "600",
     .unhashed = true,
     .help = "how long to wait for the others before giving up"},
    {.name = "cluster.heartbeat_ms",
     COUNT(10, 60000),
     AT(heartbeat_ms),
     .initial = "100",
     .unhashed = true,
     .help = "time between signs of life"},
    {.name = "cluster.lease_ms",
     COUNT(50, 600000),
     AT(lease_ms),
     .initial = "1000",
     .unhashed = true,
     .help = "silence after which a process counts as lost"},
    {.name = "cluster.min_workers",
     COUNT(1, 1000000),
     AT(min_workers),
     .initial = "1",
     .unhashed = true,
     .help = "while fewer workers are there, training waits"},
    {.name = "cluster.max_restarts",
     COUNT(0, 1000000),
     AT(max_restarts),
     .initial = "5",
     .unhashed = true,
     .help = "a worker that fails more often within restart_window_s is given up"},
    {.name = "cluster.restart_window_s",
     COUNT(1, 604800),
     AT(restart_window_s),
     .initial = "600",
     .unhashed = true,
     .help = "seconds in which restarts are counted, from the first one on"},
    {.name = "log.level",
     .type = WEIR_ROW_PICK,
     AT(log_level),
     .initial = "\"info\"",
     .choices = log_levels,
     .unhashed = true,
     .flag = "--log-level",
     .help = "error, warning, info or debug"},
    {.name = "log.format",
     .type = WEIR_ROW_PICK,
     AT(log_json),
     .initial = "\"text\"",
     .choices = log_formats,
     .unhashed = true,
     .help = "text, or json for one object per line"},
};
const size_t weir_job_row_count = sizeof weir_job_rows / sizeof weir_job_rows[0];

const struct weir_row *weir_job_row(const char *name)
{
    for (size_t i = 0; i < weir_job_row_count; i++)
        if (strcmp(weir_job_rows[i].name, name) == 0)
            return &weir_job_rows[i];
    return NULL;
}

bool weir_job_is_group(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < weir_job_row_count; i++)
        if (strncmp(weir_job_rows[i].name, name, length) == 0 && weir_job_rows[i].name[length] == '.')
            return true;
    return false;
}

const char *weir_job_row_later(const char *name)
{
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (strcmp(later[i], name) == 0)
            return "not supported by this version";
    return NULL;
}

const char *weir_job_flag_key(const char *flag)
{
    for (size_t i = 0; i < weir_job_row_count; i++)
        if (weir_job_rows[i].flag && strcmp(weir_job_rows[i].flag, flag) == 0)
            return weir_job_rows[i].name;
    return NULL;
}

/* The default as help shows it: words if there are some, a string without its quotes. */
static void show_default(const struct weir_row *row, struct weir_text *out)
{
    if (row->shown || !row->initial)
        weir_text_add(out, "%s", row->shown ? row->shown : "required");
    else if (row->initial[0] == '"')
        weir_text_add(out, "%.*s", (int)strlen(row->initial) - 2, row->initial + 1);
    else
        weir_text_add(out, "%s", row->initial);
}

char *weir_job_help(void)
{
    struct weir_text text = {0};
    weir_text_add(&text, "%-23s  %-36s  %s\n", "key", "default", "meaning");
    for (size_t i = 0; i < weir_job_row_count; i++) {
        struct weir_text shown = {0};
        show_default(&weir_job_rows[i], &shown);
        weir_text_add(&text, "%-23s  %-36s  %s\n", weir_job_rows[i].name, shown.bytes, weir_job_rows[i].help);
        free(shown.bytes);
    }
    return text.bytes;
}
