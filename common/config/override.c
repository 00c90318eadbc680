/* Flags over the job file: a flag's value takes its key's place in the tree, and is checked there like a file's. */
#include <string.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "config/job.h"
#include "config/job_table.h"

#define KEY_BYTES 256

/* The value's JSON; a bare word, and whatever is given for a key that holds text, is a string. */
static json_t *parse_value(const struct weir_override *override, struct weir_report *report)
{
    const struct weir_row *row = weir_job_row(override->key);
    const char *text = override->value;
    size_t length = strlen(text), at;
    bool bracket = text[0] == '"' || text[0] == '{' || text[0] == '[';
    json_error_t error = {0};
    json_t *value = NULL;
    if (length > WEIR_JOB_BYTES_MAX || weir_tree_excess(text, length, &at)) {
        weir_report_flag(report, override->flag, "%s: the value is too large or nested too deep", override->key);
        return NULL;
    }
    if (bracket || !row || !weir_row_is_text(row))
        value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!value && bracket) {
        weir_report_flag(report, override->flag, "%s: the value is not JSON: %s", override->key, error.text);
        return NULL;
    }
    if (!value)
        value = json_string(text);
    if (!value)
        weir_report_flag(report, override->flag, "%s: the value is not UTF-8", override->key);
    return value;
}

/* The key that a plain name stands for in an object: "adam" is {"class_name": "adam"}. NULL if names are all there is.
 */
static const char *key_of_name(const struct weir_row *row)
{
    if (row && (row->type == WEIR_ROW_OPTIMIZER || row->type == WEIR_ROW_LOSS))
        return "class_name";
    return row && row->or_object ? "name" : NULL;
}

/* A child that can hold others, where there is none yet, or only a name. A name is kept within it, so that
 * `--set compile.optimizer.config.learning_rate=0.1` works for "adam" too. */
static struct weir_node *make_object(struct weir_node *parent, const char *key, const char *name, const char *flag)
{
    const struct weir_row *row = weir_job_row(name);
    const char *inner = key_of_name(row);
    struct weir_node *old = weir_node_child(parent, key);
    json_t *empty = json_object(), *plain = NULL;
    struct weir_node *made = weir_node_new(empty, flag), *kept = NULL;
    if (old && inner && json_is_string(old->value)) {
        kept = weir_node_new(old->value, old->flag);
        kept->key_at = kept->value_at = old->value_at;
    } else if (!old && inner && row->initial) {
        plain = json_loads(row->initial, JSON_DECODE_ANY, NULL);
        kept = weir_node_new(plain, flag);
    }
    if (kept)
        weir_node_put(made, inner, kept);
    weir_node_put(parent, key, made);
    json_decref(empty);
    json_decref(plain);
    return made;
}

/* The node of that key, as an object; NULL and a report if it can't be one. `name` is the dotted name down to it. */
static struct weir_node *enter(struct weir_node *parent, const char *key, const char *name,
                               const struct weir_override *override, struct weir_report *report)
{
    const struct weir_row *row = weir_job_row(name);
    struct weir_node *child = weir_node_child(parent, key);
    if (row && (row->type == WEIR_ROW_MODEL || row->type == WEIR_ROW_METRICS)) {
        weir_report_flag(report, override->flag, "%s: \"%s\" can only be set as a whole", override->key, name);
        return NULL;
    }
    if (child && json_is_object(child->value))
        return child;
    bool name_only = child && json_is_string(child->value) && key_of_name(row);
    if (!child || json_is_null(child->value) || name_only)
        return make_object(parent, key, name, override->flag);
    char shown[80];
    weir_report_flag(report, override->flag, "%s: \"%s\" is %s, not an object", override->key, name,
                     weir_show(child->value, shown, sizeof shown));
    return NULL;
}

static bool well_formed(const char *key)
{
    size_t length = strlen(key);
    return length > 0 && length < KEY_BYTES && key[0] != '.' && key[length - 1] != '.' && !strstr(key, "..");
}

void weir_override_apply(struct weir_node *root, const struct weir_override *override, struct weir_report *report)
{
    if (!well_formed(override->key)) {
        weir_report_flag(report, override->flag, "\"%.60s\" is not a key; write it as in fit.epochs", override->key);
        return;
    }
    json_t *value = parse_value(override, report);
    if (!value)
        return;
    char name[KEY_BYTES] = "";
    const char *part = override->key;
    struct weir_node *node = root;
    for (const char *dot; node && (dot = strchr(part, '.')); part = dot + 1) {
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "%.*s", (int)(dot - part), part);
        snprintf(name, sizeof name, "%.*s", (int)(dot - override->key), override->key);
        node = enter(node, key, name, override, report);
    }
    if (node)
        weir_node_put(node, part, weir_node_new(value, override->flag));
    json_decref(value);
}
