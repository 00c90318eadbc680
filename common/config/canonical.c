/* The canonical text of a job, its hash, and how two of them differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "config/job.h"
#include "config/job_table.h"
#include "config/keras.h"

/* ---- printing; every line is {"key":value} */

static void print_rows(const char *key, const struct weir_row *rows, size_t count, const void *from,
                       struct weir_text *out)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].type == WEIR_ROW_NEUTRAL)
            continue;
        weir_text_add(out, "{\"%s.config.%s\":", key, rows[i].name);
        weir_row_print(&rows[i], from, out);
        weir_text_add(out, "}\n");
    }
}

static void print_class(const char *key, const struct weir_keras_class *class, const void *from, struct weir_text *out)
{
    weir_text_add(out, "{\"%s.class_name\":\"%s\"}\n", key, class->name);
    print_rows(key, class->rows, class->row_count, from, out);
}

static void print_metric(const struct weir_metric_config *metric, struct weir_text *out)
{
    const struct weir_keras_class *class = weir_keras_metric_class(metric);
    json_t *name = json_string(metric->name);
    char *quoted = json_dumps(name, JSON_ENCODE_ANY);
    weir_text_add(out, "{\"class_name\":\"%s\",\"config\":{\"name\":%s", class->name, quoted);
    for (size_t i = 0; i < class->row_count; i++) {
        if (class->rows[i].type == WEIR_ROW_NEUTRAL)
            continue;
        weir_text_add(out, ",\"%s\":", class->rows[i].name);
        weir_row_print(&class->rows[i], metric, out);
    }
    weir_text_add(out, "}}");
    free(quoted);
    json_decref(name);
}

static void print_metrics(const struct weir_job *job, struct weir_text *out)
{
    weir_text_add(out, "{\"compile.metrics\":[");
    for (size_t i = 0; i < job->metric_count; i++) {
        weir_text_add(out, "%s", i ? "," : "");
        print_metric(&job->metrics[i], out);
    }
    weir_text_add(out, "]}\n");
}

static void print_model(const struct weir_job *job, struct weir_text *out)
{
    char hex[WEIR_DIGEST_HEX];
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, job->model_json, job->model_bytes);
    weir_digest_end(digest, hex);
    weir_text_add(out, "{\"model\":\"%s\"}\n", hex);
}

static void print_row(const struct weir_job *job, const struct weir_row *row, struct weir_text *out)
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
            weir_text_add(out, "{\"%s\":null}\n", row->name);
        break;
    default:
        if (row->unhashed || absent)
            break;
        weir_text_add(out, "{\"%s\":", row->name);
        weir_row_print(row, job, out);
        weir_text_add(out, "}\n");
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines of `text`, which ends with a newline. */
static char *sorted(char *text)
{
    size_t count = 0;
    for (char *c = text; *c; c++)
        count += *c == '\n';
    char **lines = weir_alloc(count, sizeof *lines, "lines of a job");
    char *rest = NULL, *line = strtok_r(text, "\n", &rest);
    for (size_t i = 0; i < count && line; i++, line = strtok_r(NULL, "\n", &rest))
        lines[i] = line;
    qsort(lines, count, sizeof *lines, by_text);
    struct weir_text out = {0};
    for (size_t i = 0; i < count; i++)
        weir_text_add(&out, "%s\n", lines[i]);
    free(lines);
    return out.bytes;
}

void weir_job_canonicalize(struct weir_job *job)
{
    struct weir_text text = {0};
    for (size_t i = 0; i < weir_job_row_count; i++)
        print_row(job, &weir_job_rows[i], &text);
    job->canonical = sorted(text.bytes);
    free(text.bytes);

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

static void print_difference(const struct line *here, const struct line *there, struct weir_text *out)
{
    const struct line *any = here ? here : there;
    weir_text_add(out, "%s%.*s: ", out->length > 0 ? "; " : "", (int)any->key_length, any->key);
    if (here)
        weir_text_add(out, "%.*s here, ", (int)here->value_length, here->value);
    else
        weir_text_add(out, "nothing here, ");
    if (there)
        weir_text_add(out, "%.*s there", (int)there->value_length, there->value);
    else
        weir_text_add(out, "nothing there");
}

/* Both texts are sorted, so this is a merge; of unsorted ones it says too much, but it ends. */
static void print_differences(const char *here, const char *there, struct weir_text *out)
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
    struct weir_text whole = {0};
    print_differences(here, there, &whole);
    for (char *c = whole.bytes; c && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    snprintf(text, text_bytes, "%s", whole.bytes ? whole.bytes : "");
    free(whole.bytes);
}
