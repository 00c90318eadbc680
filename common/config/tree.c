#include "config/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define SHOWN_BYTES 60 /* of a string in a message */

static void append(struct weir_node *node, struct weir_node *child)
{
    child->parent = node;
    child->index = node->last ? node->last->index + 1 : 0;
    if (node->last)
        node->last->next = child;
    else
        node->first = child;
    node->last = child;
}

struct weir_node *weir_node_new(json_t *value, const char *flag)
{
    struct weir_node *node = weir_alloc(1, sizeof *node, "a JSON node");
    node->value = json_incref(value);
    node->flag = flag;
    const char *key;
    size_t index;
    json_t *item;
    json_object_foreach(value, key, item)
    {
        struct weir_node *child = weir_node_new(item, flag);
        child->key = weir_strdup(key);
        append(node, child);
    }
    json_array_foreach(value, index, item)
    {
        append(node, weir_node_new(item, flag));
    }
    return node;
}

void weir_node_free(struct weir_node *node)
{
    if (!node)
        return;
    for (struct weir_node *child = node->first, *next; child; child = next) {
        next = child->next;
        weir_node_free(child);
    }
    json_decref(node->value);
    free(node->key);
    free(node);
}

struct weir_node *weir_node_child(const struct weir_node *node, const char *key)
{
    if (!node || !json_is_object(node->value))
        return NULL;
    for (struct weir_node *child = node->first; child; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

void weir_node_put(struct weir_node *node, const char *key, struct weir_node *child)
{
    child->key = weir_strdup(key);
    struct weir_node *old = weir_node_child(node, key), *before = NULL;
    if (!old) {
        append(node, child);
        return;
    }
    for (struct weir_node *n = node->first; n != old; n = n->next)
        before = n;
    child->parent = node;
    child->index = old->index;
    child->next = old->next;
    if (before)
        before->next = child;
    else
        node->first = child;
    if (node->last == old)
        node->last = child;
    weir_node_free(old);
}

void weir_node_name(const struct weir_node *node, char *name, size_t name_bytes)
{
    name[0] = '\0';
    if (!node->parent)
        return;
    weir_node_name(node->parent, name, name_bytes);
    size_t length = strlen(name);
    if (node->key)
        snprintf(name + length, name_bytes - length, "%s%s", length ? "." : "", node->key);
    else
        snprintf(name + length, name_bytes - length, "[%zu]", node->index);
}

/* Cuts behind a whole character. */
static size_t cut(const char *text, size_t length)
{
    if (length <= SHOWN_BYTES)
        return length;
    length = SHOWN_BYTES;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

const char *weir_show(const json_t *value, char *text, size_t text_bytes)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        snprintf(text, text_bytes, "an object");
        break;
    case JSON_ARRAY:
        snprintf(text, text_bytes, "a list");
        break;
    case JSON_STRING: {
        size_t length = json_string_length(value), shown = cut(json_string_value(value), length);
        snprintf(text, text_bytes, "\"%.*s\"%s", (int)shown, json_string_value(value), shown < length ? "..." : "");
        break;
    }
    default: {
        char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        snprintf(text, text_bytes, "%s", dump ? dump : "?");
        free(dump);
    }
    }
    return text;
}

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

const char *weir_tree_excess(const char *text, size_t length, size_t *at)
{
    size_t depth = 0, values = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '['))
            depth++, values++;
        else if (!in_string && (c == '}' || c == ']') && depth > 0)
            depth--;
        else if (!in_string && c == ',')
            values++;
        *at = i;
        if (depth > WEIR_DEPTH_MAX)
            return "objects and lists are nested deeper than " TEXT_OF(WEIR_DEPTH_MAX);
        if (values > WEIR_VALUES_MAX)
            return "too many values for a file of this kind";
    }
    return NULL;
}

static void report_syntax(struct weir_report *report, const char *text, size_t length, const json_error_t *error)
{
    size_t at = error->position > 0 ? (size_t)error->position : 0;
    size_t second_at, first_at;
    char name[256];
    if (json_error_code(error) == json_error_duplicate_key &&
        weir_tree_twice(text, length, at, &second_at, &first_at, name, sizeof name)) {
        size_t line = 1;
        for (size_t i = 0; i < first_at; i++)
            line += text[i] == '\n';
        weir_report_offset(report, second_at, "%s: stands twice, first in line %zu; remove one", name, line);
    } else if (json_error_code(error) == json_error_premature_end_of_input) {
        weir_report_offset(report, length, "the JSON ends too early: the file seems to be cut short");
    } else {
        weir_report_offset(report, at > 0 ? at - 1 : 0, "not JSON: %s", error->text);
    }
}

/* The value, or NULL and a report. */
static json_t *parse(const char *text, size_t length, struct weir_report *report)
{
    size_t at;
    const char *excess = weir_tree_excess(text, length, &at);
    if (excess) {
        weir_report_offset(report, at, "%s", excess);
        return NULL;
    }
    json_error_t error;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!value) {
        report_syntax(report, text, length, &error);
        return NULL;
    }
    if (json_is_object(value))
        return value;
    char shown[80];
    weir_report_offset(report, strspn(text, " \t\r\n"), "must be an object ({...}), not %s",
                       weir_show(value, shown, sizeof shown));
    json_decref(value);
    return NULL;
}

struct weir_node *weir_tree_parse(const char *text, size_t length, struct weir_report *report)
{
    json_t *value = parse(text, length, report);
    if (!value)
        return NULL;
    struct weir_node *root = weir_node_new(value, NULL);
    json_decref(value);
    weir_tree_place(root, text, length); /* if it failed, messages would only name the first line */
    return root;
}

bool weir_tree_check(const char *text, size_t length, struct weir_report *report)
{
    json_t *value = parse(text, length, report);
    json_decref(value);
    return value != NULL;
}
