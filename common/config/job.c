#include "config/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/job_table.h"
#include "config/keras.h"
#include "config/suggest.h"

#define NAME_BYTES 256
#define SHOW_BYTES 96

static void check_group(const struct weir_node *node, const char *prefix, struct weir_report *report);

/* ---- keys that are no rows */

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Near names are looked for in the same object first, then (of the very same name) elsewhere: "epochs" is fit.epochs.
 */
static void refuse_key(const struct weir_node *node, const char *prefix, struct weir_report *report)
{
    struct weir_suggest suggest;
    char phrase[SHOW_BYTES];
    size_t prefix_length = strlen(prefix);
    weir_suggest_start(&suggest, node->key);
    for (size_t i = 0; i < weir_job_row_count; i++) {
        const char *name = weir_job_rows[i].name;
        if (strncmp(name, prefix, prefix_length) == 0) {
            char part[WEIR_SUGGEST_BYTES];
            snprintf(part, sizeof part, "%.*s", (int)strcspn(name + prefix_length, "."), name + prefix_length);
            weir_suggest_offer(&suggest, part, part);
        }
    }
    bool telling = strlen(node->key) > 1; /* any "x" is no hint at data.train.x */
    for (size_t i = 0; i < weir_job_row_count && telling && !suggest.best[0]; i++)
        if (strcmp(last_part(weir_job_rows[i].name), node->key) == 0)
            weir_suggest_offer(&suggest, node->key, weir_job_rows[i].name);
    weir_suggest_phrase(&suggest, phrase, sizeof phrase);
    weir_report_key(report, node, "unknown key%s", phrase[0] ? phrase : "; `weir help job` lists the keys");
}

static const char *end_with_dot(char *name, size_t bytes)
{
    size_t length = strlen(name);
    snprintf(name + length, bytes - length, ".");
    return name;
}

static void check_key(const struct weir_node *child, const char *prefix, struct weir_report *report)
{
    char name[NAME_BYTES], shown[SHOW_BYTES];
    snprintf(name, sizeof name, "%s%s", prefix, child->key);
    const struct weir_row *row = weir_job_row(name);
    const char *later = weir_job_row_later(name);
    if (strchr(child->key, '.')) /* would look like a row's name */
        weir_report_key(report, child, "unknown key; in a file, what a dot separates is an object in an object");
    else if (later)
        weir_report_key(report, child, "%s", later);
    else if (row && row->type != WEIR_ROW_GROUP)
        return;
    else if (!row && !weir_job_is_group(name))
        refuse_key(child, prefix, report);
    else if (json_is_object(child->value))
        check_group(child, end_with_dot(name, sizeof name), report);
    else if (!(row && row->initial && json_is_null(child->value)))
        weir_report_value(report, child, "must be an object, not %s", weir_show(child->value, shown, sizeof shown));
}

/* Reports the keys of the object `node` that are no rows or groups of rows; `prefix` ("fit.") is its name and a dot. */
static void check_group(const struct weir_node *node, const char *prefix, struct weir_report *report)
{
    for (const struct weir_node *child = node->first; child; child = child->next)
        check_key(child, prefix, report);
}

/* ---- rows */

/* Where a row's value is, or else why it isn't there. */
struct place {
    const struct weir_node *node;   /* NULL: absent */
    const struct weir_node *inside; /* the innermost object on the way to it */
    const char *rest;               /* of the row's name, inside that */
    bool blocked;                   /* what should be an object on the way is none: that is reported already */
    bool skipped;                   /* it belongs to a set of data that isn't there */
};

/* True for "data.train.x": whether it is required depends on whether "data.train" is there. */
static bool in_set(const struct weir_row *row)
{
    char name[NAME_BYTES];
    for (const char *dot = strchr(row->name, '.'); dot; dot = strchr(dot + 1, '.')) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - row->name), row->name);
        if (weir_job_row(name))
            return true;
    }
    return false;
}

static struct place find(const struct weir_node *root, const struct weir_row *row)
{
    struct place place = {.inside = root, .rest = row->name};
    for (const char *dot; (dot = strchr(place.rest, '.')); place.rest = dot + 1) {
        char part[NAME_BYTES];
        snprintf(part, sizeof part, "%.*s", (int)(dot - place.rest), place.rest);
        const struct weir_node *node = weir_node_child(place.inside, part);
        if (!node || !json_is_object(node->value)) {
            place.blocked = node != NULL;
            place.skipped = in_set(row);
            return place;
        }
        place.inside = node;
    }
    place.node = weir_node_child(place.inside, place.rest);
    return place;
}

/* The model's text: a file's, or the object printed again, so that spaces in the job file don't matter. */
static void read_model(struct weir_job *job, const struct weir_node *node, struct weir_report *report,
                       struct weir_problems *problems)
{
    char shown[SHOW_BYTES];
    if (json_is_object(node->value)) {
        job->model_json = json_dumps(node->value, JSON_COMPACT);
        job->model_bytes = job->model_json ? strlen(job->model_json) : 0;
        return;
    }
    const char *path = json_string_value(node->value);
    if (!path || !*path) {
        weir_report_value(report, node, "must be a file's path or a model's object, not %s",
                          weir_show(node->value, shown, sizeof shown));
        return;
    }
    job->model_path = weir_path_beside(job->path, path);
    const char *why;
    job->model_json = weir_file_read(job->model_path, WEIR_MODEL_BYTES_MAX, &job->model_bytes, &why);
    if (!job->model_json) {
        weir_report_value(report, node, "can't read %s: %s", job->model_path, why);
        return;
    }
    struct weir_report of_model;
    weir_report_open(&of_model, job->model_path, job->model_json, job->model_bytes);
    weir_tree_check(job->model_json, job->model_bytes, &of_model);
    weir_report_close(&of_model, problems);
}

static void read_value(struct weir_job *job, const struct weir_row *row, const struct weir_node *node,
                       struct weir_report *report, struct weir_problems *of_model)
{
    switch (row->type) {
    case WEIR_ROW_MODEL:
        read_model(job, node, report, of_model);
        break;
    case WEIR_ROW_OPTIMIZER:
        weir_keras_read_optimizer(node, &job->optimizer, report);
        break;
    case WEIR_ROW_LOSS:
        weir_keras_read_loss(node, &job->loss, report);
        break;
    case WEIR_ROW_METRICS:
        weir_keras_read_metrics(node, job->metrics, &job->metric_count, report);
        break;
    case WEIR_ROW_GROUP:
        *(bool *)((char *)job + row->offset) = json_is_object(node->value);
        break;
    default:
        weir_row_read(row, node, job, report);
    }
}

static void read_initial(struct weir_job *job, const struct weir_row *row, struct weir_report *report)
{
    json_t *value = json_loads(row->initial, JSON_DECODE_ANY, NULL);
    struct weir_node *node = weir_node_new(value, NULL);
    read_value(job, row, node, report, NULL);
    weir_node_free(node);
    json_decref(value);
}

static void read_row(struct weir_job *job, const struct weir_row *row, const struct weir_node *root,
                     struct weir_report *report, struct weir_problems *of_model)
{
    struct place place = find(root, row);
    bool missing = !place.node && !place.blocked && !place.skipped && !row->initial;
    if (missing)
        weir_report_child(report, place.inside, place.rest, "required, but missing");
    else if (place.node)
        read_value(job, row, place.node, report, of_model);
    else if (row->initial)
        read_initial(job, row, report);
}

/* ---- what no row can tell by itself */

static void check_lease(const struct weir_job *job, const struct weir_node *root, struct weir_report *report)
{
    const struct weir_node *cluster = weir_node_child(root, "cluster");
    const struct weir_node *lease = weir_node_child(cluster, "lease_ms");
    const struct weir_node *heartbeat = weir_node_child(cluster, "heartbeat_ms");
    if ((lease || heartbeat) && job->lease_ms > 0 && job->heartbeat_ms > 0 && job->lease_ms / 2 < job->heartbeat_ms)
        weir_report_value(report, lease ? lease : heartbeat,
                          "a lease of %u ms must be at least twice the heartbeat of %u ms, or live processes are "
                          "taken for lost",
                          job->lease_ms, job->heartbeat_ms);
}

static void check_threads(const struct weir_job *job, const struct weir_node *root, struct weir_report *report)
{
    if (job->threads_per_replica > 1)
        weir_report_value(
            report, weir_node_child(root, "threads_per_replica"),
            "must be 1, not %u: one thread computes a replica in this version; a worker that hosts several "
            "replicas computes them on several threads",
            job->threads_per_replica);
}

/* The name of the folder that the job file lies in, as far as it is fit for file names. */
static char *folder_name(const char *path)
{
    char *folder = weir_path_beside(path, "."), *whole = realpath(folder, NULL);
    const char *base = whole ? weir_path_base(whole) : "";
    size_t length = strlen(base) < 64 ? strlen(base) : 64;
    char *name = weir_alloc(length + sizeof "job", 1, "a job's name");
    if (length == 0)
        memcpy(name, "job", sizeof "job");
    for (size_t i = 0; i < length; i++) {
        bool fit = (unsigned char)base[i] > 0x20 && base[i] != 0x7f && !(i == 0 && (base[i] == '.' || base[i] == '-'));
        name[i] = fit ? base[i] : '_';
    }
    free(folder);
    free(whole);
    return name;
}

static void resolve_path(char **path, const struct weir_job *job, const char *data_dir)
{
    if (!*path)
        return;
    char *resolved;
    if (data_dir) {
        const char *base = weir_path_base(*path);
        size_t bytes = strlen(data_dir) + strlen(base) + 2;
        resolved = weir_alloc(bytes, 1, "a path");
        snprintf(resolved, bytes, "%s/%s", data_dir, base);
    } else {
        resolved = weir_path_beside(job->path, *path);
    }
    free(*path);
    *path = resolved;
}

static void finish(struct weir_job *job, const char *data_dir)
{
    if (!job->name)
        job->name = folder_name(job->path);
    resolve_path(&job->train.x, job, data_dir);
    resolve_path(&job->train.y, job, data_dir);
    resolve_path(&job->validation.x, job, data_dir);
    resolve_path(&job->validation.y, job, data_dir);
}

static void read_job(struct weir_job *job, const struct weir_node *root, struct weir_report *report,
                     struct weir_problems *of_model)
{
    check_group(root, "", report);
    for (size_t i = 0; i < weir_job_row_count; i++)
        read_row(job, &weir_job_rows[i], root, report, of_model);
    check_lease(job, root, report);
    check_threads(job, root, report);
}

/* Those of the model's file come last: positions in another file. */
static void append(struct weir_problems *problems, struct weir_problems *of_model)
{
    for (size_t i = 0; i < of_model->count; i++)
        weir_problems_add(problems, "%s", of_model->lines[i]);
    weir_problems_free(of_model);
}

bool weir_job_load(struct weir_job *job, const char *path, const struct weir_override *overrides, size_t override_count,
                   const char *data_dir, struct weir_problems *problems)
{
    *job = (struct weir_job){.path = weir_strdup(path)};
    size_t bytes = 0;
    const char *why;
    char *text = weir_file_read(path, WEIR_JOB_BYTES_MAX, &bytes, &why);
    if (!text) {
        weir_problems_add(problems, "%s: can't read the job file: %s", path, why);
        return false;
    }
    struct weir_report report;
    struct weir_problems of_model = {0};
    weir_report_open(&report, path, text, bytes);
    struct weir_node *root = weir_tree_parse(text, bytes, &report);
    if (root) {
        for (size_t i = 0; i < override_count; i++)
            weir_override_apply(root, &overrides[i], &report);
        if (data_dir && !*data_dir)
            weir_report_flag(&report, "--data", "the folder's name is empty");
        read_job(job, root, &report, &of_model);
        finish(job, data_dir);
    }
    bool good = weir_report_close(&report, problems) && of_model.count == 0;
    append(problems, &of_model);
    weir_node_free(root);
    free(text);
    if (good)
        weir_job_canonicalize(job);
    return good;
}

void weir_job_free(struct weir_job *job)
{
    free(job->path);
    free(job->name);
    free(job->model_path);
    free(job->model_json);
    free(job->train.x);
    free(job->train.y);
    free(job->validation.x);
    free(job->validation.y);
    free(job->canonical);
    *job = (struct weir_job){0};
}
