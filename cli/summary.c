#include "cli/summary.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "storage/storage_file.h"

/* Digits of a double that are always right: 0.27 is written as 0.27. */
#define JSON_FORMAT (JSON_INDENT(2) | JSON_REAL_PRECISION(15))

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null(); /* JSON has no other numbers */
}

static json_t *integer(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *text(const char *value)
{
    json_t *string = json_string(value ? value : "");
    return string ? string : json_string("?"); /* not UTF-8 */
}

static void put_values(json_t *object, const struct weir_summary_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, values[i].name, real(values[i].value));
}

static json_t *role_json(const struct weir_summary_role *role)
{
    json_t *object = json_object();
    json_object_set_new(object, "role", text(role->role));
    json_object_set_new(object, "index", integer(role->index));
    json_object_set_new(object, "pid", integer(role->pid));
    json_object_set_new(object, "cpu_s", real(role->cpu_s));
    json_object_set_new(object, "peak_rss_bytes", integer(role->peak_rss_bytes));
    json_object_set_new(object, "sent_bytes", integer(role->sent_bytes));
    json_object_set_new(object, "received_bytes", integer(role->received_bytes));
    json_object_set_new(object, "replicas_computed", integer(role->replicas_computed));
    json_object_set_new(object, "chunks_applied", integer(role->chunks_applied));
    json_object_set_new(object, "copied_bytes", integer(role->copied_bytes));
    return object;
}

static void put_job(json_t *object, const struct weir_summary *summary)
{
    json_object_set_new(object, "job", text(summary->job));
    json_object_set_new(object, "hash", text(summary->hash));
    json_object_set_new(object, "strategy", text(summary->strategy));
    json_object_set_new(object, "replicas", integer(summary->replicas));
    json_object_set_new(object, "workers", integer(summary->workers));
    json_object_set_new(object, "ps", integer(summary->ps));
    json_object_set_new(object, "steps", integer(summary->steps));
    json_object_set_new(object, "epochs", integer(summary->epochs));
}

static void put_result(json_t *object, const struct weir_summary *summary)
{
    json_t *metrics = json_object();
    put_values(metrics, summary->metrics, summary->metric_count);
    json_object_set_new(object, "loss", real(summary->loss));
    json_object_set_new(object, "metrics", metrics);
    if (summary->validated) {
        json_t *validation = json_object();
        json_object_set_new(validation, "loss", real(summary->validation_loss));
        put_values(validation, summary->validation_metrics, summary->validation_metric_count);
        json_object_set_new(object, "validation", validation);
    }
    json_object_set_new(object, "seconds", real(summary->seconds));
    json_object_set_new(object, "samples_per_s", real(summary->samples_per_s));
    json_object_set_new(object, "digest", text(summary->digest));
    json_object_set_new(object, "state_digest", text(summary->state_digest));
    json_object_set_new(object, "reproducible", json_boolean(summary->reproducible));
    json_object_set_new(object, "generation", integer(summary->generation));
    json_object_set_new(object, "views", integer(summary->views));
}

char *weir_summary_json(const struct weir_summary *summary)
{
    json_t *object = json_object(), *roles = json_array();
    put_job(object, summary);
    put_result(object, summary);
    for (size_t i = 0; i < summary->role_count; i++)
        json_array_append_new(roles, role_json(&summary->roles[i]));
    json_object_set_new(object, "roles", roles);
    char *dumped = json_dumps(object, JSON_FORMAT);
    json_decref(object);
    size_t length = dumped ? strlen(dumped) : 0;
    char *line = weir_alloc(length + 2, 1, "the summary");
    if (dumped)
        memcpy(line, dumped, length);
    line[length] = '\n';
    free(dumped);
    return line;
}

bool weir_summary_write(const struct weir_summary *summary, const char *path, struct weir_error *err)
{
    struct weir_file *file = weir_file_create(path, err);
    if (!file)
        return false;
    char *json = weir_summary_json(summary);
    bool ok = weir_file_append(file, json, strlen(json), err);
    free(json);
    if (ok)
        return weir_file_commit(file, err);
    weir_file_abandon(file);
    return false;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void print_values(FILE *out, double loss, const struct weir_summary_value *values, size_t count)
{
    fprintf(out, "loss %.4f", loss);
    for (size_t i = 0; i < count; i++)
        fprintf(out, ", %s %.4f", values[i].name, values[i].value);
}

static void print_for_people(const struct weir_summary *summary, FILE *out)
{
    fprintf(out, "%s: %llu step%s, %u epoch%s in %.1f s (%.0f samples/s), %u replica%s on %u worker%s and %u ps\n",
            summary->job, (unsigned long long)summary->steps, plural(summary->steps), summary->epochs,
            plural(summary->epochs), summary->seconds, summary->samples_per_s, summary->replicas,
            plural(summary->replicas), summary->workers, plural(summary->workers), summary->ps);
    print_values(out, summary->loss, summary->metrics, summary->metric_count);
    if (summary->validated) {
        fprintf(out, "; validation ");
        print_values(out, summary->validation_loss, summary->validation_metrics, summary->validation_metric_count);
    }
    fprintf(out, "\nweights %s%s\n", summary->digest, summary->reproducible ? "" : " (not reproducible)");
}

bool weir_summary_print(const struct weir_summary *summary, bool json, FILE *out)
{
    if (json) {
        char *line = weir_summary_json(summary);
        fputs(line, out);
        free(line);
    } else {
        print_for_people(summary, out);
    }
    return fflush(out) == 0 && !ferror(out);
}
