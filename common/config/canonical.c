/* The canonical text of a job, its hash, and how two of them differ. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "config/job.h"
#include "config/job_table.h"
#include "config/keras.h"

static FILE *open_text(char **text, size_t *bytes)
{
    FILE *out = open_memstream(text, bytes);
    if (!out)
        abort(); /* out of memory */
    return out;
}

/* ---- printing; every line is {"key":value} */

static void print_rows(const char *key, const struct weir_row *rows, size_t count, const void *from, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].type == WEIR_ROW_NEUTRAL)
            continue;
        fprintf(out, "{\"%s.config.%s\":", key, rows[i].name);
        weir_row_print(&rows[i], from, out);
        fprintf(out, "}\n");
    }
}

static void print_class(const char *key, const struct weir_keras_class *class, const void *from, FILE *out)
{
    fprintf(out, "{\"%s.class_name\":\"%s\"}\n", key, class->name);
    print_rows(key, class->rows, class->row_count, from, out);
}

static void print_metric(const struct weir_metric_config *metric, FILE *out)
{
    const struct weir_keras_class *class = weir_keras_metric_class(metric);
    json_t *name = json_string(metric->name);
    char *quoted = json_dumps(name, JSON_ENCODE_ANY);
    fprintf(out, "{\"class_name\":\"%s\",\"config\":{\"name\":%s", class->name, quoted);
    for (size_t i = 0; i < class->row_count; i++) {
        if (class->rows[i].type == WEIR_ROW_NEUTRAL)
            continue;
        fprintf(out, ",\"%s\":", class->rows[i].name);
        weir_row_print(&class->rows[i], metric, out);
    }
    fprintf(out, "}}");
    free(quoted);
    json_decref(name);
}

static void print_metrics(const struct weir_job *job, FILE *out)
{
    fprintf(out, "{\"compile.metrics\":[");
    for (size_t i = 0; i < job->metric_count; i++) {
        fprintf(out, "%s", i ? "," : "");
        print_metric(&job->metrics[i], out);
    }
    fprintf(out, "]}\n");
}

static void print_model(const struct weir_job *job, FILE *out)
{
    char hex[WEIR_DIGEST_HEX];
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, job->model_json, job->model_bytes);
    weir_digest_end(digest, hex);
    fprintf(out, "{\"model\":\"%s\"}\n", hex);
}

static void print_row(const struct weir_job *job, const struct weir_row *row, FILE *out)
{
    bool absent = !job->validation.present && strncmp(row->name, "data.validation", strlen("data.validation")) == 0;
    switch (row->type) {
    case WEIR_ROW_MODEL:
        print_model(job, out);
        break;
    case WEIR_ROW_OPTIMIZER:
        print_class(row->name, weir_keras_optimizer_class(&job->optimizer), &job->optimizer, out);
        break;
    case WEIR_ROW_LOSS:
        print_class(row->name, weir_keras_loss_class(&job->loss), &job->loss, out);
        break;
    case WEIR_ROW_METRICS:
        print_metrics(job, out);
        break;
    case WEIR_ROW_GROUP:
        if (absent)
            fprintf(out, "{\"%s\":null}\n", row->name);
        break;
    default:
        if (row->unhashed || absent)
            break;
        fprintf(out, "{\"%s\":", row->name);
        weir_row_print(row, job, out);
        fprintf(out, "}\n");
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines of `text`, which ends with a newline. */
static char *sorted(char *text)
{
    size_t count = 0, length = strlen(text);
    for (char *c = text; *c; c++)
        count += *c == '\n';
    char **lines = weir_alloc(count, sizeof *lines, "lines of a job");
    char *rest = NULL, *line = strtok_r(text, "\n", &rest);
    for (size_t i = 0; i < count && line; i++, line = strtok_r(NULL, "\n", &rest))
        lines[i] = line;
    qsort(lines, count, sizeof *lines, by_text);
    char *out = weir_alloc(length + 1, 1, "a job's text");
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(out + at, length + 1 - at, "%s\n", lines[i]);
    free(lines);
    return out;
}

void weir_job_canonicalize(struct weir_job *job)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_text(&text, &bytes);
    for (size_t i = 0; i < weir_job_row_count; i++)
        print_row(job, &weir_job_rows[i], out);
    fclose(out);
    job->canonical = sorted(text);
    free(text);

    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, job->canonical, strlen(job->canonical));
    weir_digest_add(digest, job->model_json, job->model_bytes);
    weir_digest_end(digest, job->hash);
}

/* ---- differences */

/* One line, {"key":value}, taken apart where it stands. What isn't of that form (it may come from another process) is a
 * key without value. */
struct line {
    const char *key, *value;
    size_t key_length, value_length;
};

static bool next_line(const char **text, struct line *line)
{
    if (!**text)
        return false;
    size_t length = strcspn(*text, "\n");
    *line = (struct line){.key = *text, .key_length = length, .value = "", .value_length = 0};
    const char *end = *text + length, *colon = memmem(*text, length, "\":", 2);
    if (length >= 2 && line->key[0] == '{' && line->key[1] == '"' && end[-1] == '}' && colon && colon >= *text + 2) {
        line->key += 2;
        line->key_length = (size_t)(colon - line->key);
        line->value = colon + 2;
        line->value_length = (size_t)(end - 1 - line->value);
    }
    *text = *end ? end + 1 : end;
    return true;
}

static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static void print_difference(const struct line *here, const struct line *there, FILE *out)
{
    const struct line *any = here ? here : there;
    fprintf(out, "%s%.*s: ", ftell(out) > 0 ? "; " : "", (int)any->key_length, any->key);
    if (here)
        fprintf(out, "%.*s here, ", (int)here->value_length, here->value);
    else
        fprintf(out, "nothing here, ");
    if (there)
        fprintf(out, "%.*s there", (int)there->value_length, there->value);
    else
        fprintf(out, "nothing there");
}

/* Both texts are sorted, so this is a merge; of unsorted ones it says too much, but it ends. */
static void print_differences(const char *here, const char *there, FILE *out)
{
    struct line a, b;
    bool has_a = next_line(&here, &a), has_b = next_line(&there, &b);
    while (has_a || has_b) {
        int order = !has_b ? -1 : !has_a ? 1 : compare(a.key, a.key_length, b.key, b.key_length);
        if (order < 0) {
            print_difference(&a, NULL, out);
            has_a = next_line(&here, &a);
        } else if (order > 0) {
            print_difference(NULL, &b, out);
            has_b = next_line(&there, &b);
        } else {
            if (compare(a.value, a.value_length, b.value, b.value_length) != 0)
                print_difference(&a, &b, out);
            has_a = next_line(&here, &a);
            has_b = next_line(&there, &b);
        }
    }
}

void weir_job_differences(const char *here, const char *there, char *text, size_t text_bytes)
{
    char *whole = NULL;
    size_t bytes = 0;
    FILE *out = open_text(&whole, &bytes);
    print_differences(here, there, out);
    fclose(out);
    for (char *c = whole; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    snprintf(text, text_bytes, "%s", whole);
    free(whole);
}
