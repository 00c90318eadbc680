#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/agent.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "data/data.h"
#include "model/model.h"
#include "protocol/tree.h"

#define SHAPE_BYTES 128

/* What a run would have, as far as it could be made. */
struct checked {
    struct weir_job job;
    bool job_ok;
    struct weir_cluster cluster;
    struct weir_model *model;
    struct weir_dataset *train, *validation;
    struct weir_problems problems;
    size_t job_problems; /* of these, such as the data has no part in */
};

static struct weir_dataset *open_data(struct checked *checked, const struct weir_data_config *config, const char *key)
{
    struct weir_error err;
    if (!config->present)
        return NULL;
    struct weir_dataset *dataset = weir_dataset_open(config, &err);
    if (!dataset)
        weir_problems_add(&checked->problems, "%s: %s: %s", checked->job.path, key, err.text);
    return dataset;
}

/* Both data sets must fit the model, and their labels must be classes that it has. */
static void check_fit(struct checked *checked, const struct weir_dataset *dataset, const char *key)
{
    struct weir_error err;
    size_t x_shape[4], y_shape[4];
    if (!checked->model || !dataset)
        return;
    size_t x_dims = weir_dataset_x_shape(dataset, x_shape), y_dims = weir_dataset_y_shape(dataset, y_shape);
    uint64_t labels = 0;
    if (!weir_model_bind(checked->model, &checked->job, x_shape, x_dims, y_shape, y_dims, &labels, &err) ||
        (labels > 0 && !weir_dataset_check_labels(dataset, labels, &err)))
        weir_problems_add(&checked->problems, "%s: %s: %s", checked->job.path, key, err.text);
}

static void check_steps(struct checked *checked)
{
    struct weir_error err;
    if (checked->train && !weir_job_has_steps(&checked->job, weir_dataset_samples(checked->train), &err))
        weir_problems_add(&checked->problems, "%s", err.text);
}

static void check_model(struct checked *checked, uint32_t workers)
{
    struct weir_error err;
    const struct weir_job *job = &checked->job;
    const struct weir_variable *variables;
    const char *path = job->model_path ? job->model_path : job->path;
    uint32_t replicas = job->replicas ? job->replicas : workers;
    checked->model = weir_model_parse(job->model_json, job->model_bytes, path, &err);
    if (!checked->model)
        weir_problems_add(&checked->problems, "%s", err.text);
    else if (weir_model_variables(checked->model, &variables) == 0)
        weir_problems_add(&checked->problems, WEIR_NOTHING_TO_TRAIN, path);
    if (replicas > WEIR_REPLICAS_MAX)
        weir_problems_add(&checked->problems, WEIR_TOO_MANY_REPLICAS, job->path, replicas, WEIR_REPLICAS_MAX);
    if (workers && job->min_workers > workers)
        weir_problems_add(&checked->problems, WEIR_TOO_FEW_WORKERS, job->path, job->min_workers, workers);
}

/* `workers`: 0, as TF_CONFIG says. */
static void check_all(struct checked *checked, const struct weir_options *options, uint32_t workers)
{
    struct weir_job *job = &checked->job;
    if (!workers) {
        weir_cluster_parse(&checked->cluster, getenv("TF_CONFIG"), &checked->problems);
        workers = (uint32_t)weir_cluster_count(&checked->cluster, WEIR_WORKER);
    }
    checked->job_ok = weir_job_load(job, options->argument, options->overrides, options->override_count,
                                    options->data_dir, &checked->problems);
    if (checked->job_ok)
        check_model(checked, workers);
    checked->job_problems = checked->problems.count;
    if (!checked->job_ok)
        return;
    checked->train = open_data(checked, &job->train, "data.train");
    checked->validation = open_data(checked, &job->validation, "data.validation");
    check_fit(checked, checked->train, "data.train");
    check_fit(checked, checked->validation, "data.validation");
    check_steps(checked);
}

static void free_checked(struct checked *checked)
{
    if (checked->validation)
        weir_dataset_close(checked->validation);
    if (checked->train)
        weir_dataset_close(checked->train);
    if (checked->model)
        weir_model_free(checked->model);
    weir_cluster_free(&checked->cluster);
    weir_job_free(&checked->job);
    weir_problems_free(&checked->problems);
}

/* ---- what it says */

/* "28 x 28 x 1", or "one number". */
static const char *shape_text(const size_t *shape, size_t dims, char text[SHAPE_BYTES])
{
    size_t at = 0;
    snprintf(text, SHAPE_BYTES, "one number");
    for (size_t i = 0; i < dims && at < SHAPE_BYTES; i++)
        at += (size_t)snprintf(text + at, SHAPE_BYTES - at, "%s%zu", i ? " x " : "", shape[i]);
    return text;
}

static void print_data(const char *key, const struct weir_dataset *dataset)
{
    if (!dataset)
        return;
    size_t shape[4];
    char x[SHAPE_BYTES], y[SHAPE_BYTES];
    shape_text(shape, weir_dataset_x_shape(dataset, shape), x);
    shape_text(shape, weir_dataset_y_shape(dataset, shape), y);
    printf("%-11s %" PRIu64 " samples, x %s, y %s\n", key, weir_dataset_samples(dataset), x, y);
}

static void print_cluster(const struct weir_cluster *cluster)
{
    if (!cluster->present) {
        printf("cluster     TF_CONFIG is not set: one process plays all roles\n");
        return;
    }
    printf("cluster     ");
    for (int role = 0; role < WEIR_ROLES; role++) {
        size_t count = weir_cluster_count(cluster, (enum weir_role)role);
        if (count > 0)
            printf("%zu %s, ", count, weir_role_names[role]);
    }
    const struct weir_task *self = weir_cluster_find(cluster, cluster->self_role, cluster->self_index);
    printf("this is %s/%u%s%s%s\n", weir_role_names[cluster->self_role], cluster->self_index, self ? " at " : "",
           self ? self->address : "", cluster->chief_in_worker_0 ? "; the first worker is the chief too" : "");
}

static void print_job(const struct checked *checked)
{
    const struct weir_job *job = &checked->job;
    printf("job         %s (%s), hash %s\n", job->name, job->path, job->hash);
    print_data("data", checked->train);
    print_data("validation", checked->validation);
    printf("training    %u epoch%s of %u steps, %u samples each, strategy %s, ", job->epochs,
           job->epochs == 1 ? "" : "s", weir_job_steps_per_epoch(&checked->job, weir_dataset_samples(checked->train)),
           job->batch_size, job->strategy);
    if (job->replicas > 0)
        printf("%u replica%s\n", job->replicas, job->replicas == 1 ? "" : "s");
    else
        printf("as many replicas as workers\n");
    print_cluster(&checked->cluster);
    char *table = weir_model_describe(checked->model);
    printf("\n%s", table);
    free(table);
}

static void print_json(const struct checked *checked)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < checked->problems.count; i++) {
        json_t *line = json_string(checked->problems.lines[i]);
        json_array_append_new(lines, line ? line : json_string("a problem that is not UTF-8"));
    }
    json_t *object = json_object();
    json_object_set_new(object, "ok", json_boolean(checked->problems.count == 0));
    if (checked->job_ok)
        json_object_set_new(object, "hash", json_string(checked->job.hash));
    json_object_set_new(object, "problems", lines);
    json_dumpf(object, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(object);
}

int weir_check_command(const struct weir_options *options)
{
    struct checked checked = {0};
    check_all(&checked, options, 0);
    bool ok = checked.problems.count == 0;
    if (options->json)
        print_json(&checked);
    else if (!ok)
        for (size_t i = 0; i < checked.problems.count; i++)
            printf("%s\n", checked.problems.lines[i]);
    else if (!options->quiet)
        print_job(&checked);
    free_checked(&checked);
    return ok && fflush(stdout) == 0 ? WEIR_EXIT_DONE : WEIR_EXIT_FAILED;
}

int weir_check_before_run(const struct weir_options *options, struct weir_run_terms *terms)
{
    struct checked checked = {0};
    check_all(&checked, options, options->workers);
    size_t all = checked.problems.count;
    for (size_t i = 0; i < all; i++)
        fprintf(stderr, "weir: %s\n", checked.problems.lines[i]);
    if (checked.job_ok)
        weir_log_setup((enum weir_log_level)checked.job.log_level, checked.job.log_json, "run");
    *terms = (struct weir_run_terms){
        .lease_ms = checked.job.lease_ms,
        .min_workers = checked.job.min_workers,
        .restarts = {checked.job.max_restarts, checked.job.restart_window_s * WEIR_NS_PER_S},
    };
    int status = checked.job_problems ? WEIR_EXIT_WRONG_USE : all ? WEIR_EXIT_FAILED : WEIR_EXIT_DONE;
    free_checked(&checked);
    return status;
}
