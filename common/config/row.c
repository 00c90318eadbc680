#include "config/row.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/suggest.h"

#define SHOW_BYTES 96
#define NAME_LENGTH_MAX 64

static void *field(const struct weir_row *row, void *into)
{
    return (char *)into + row->offset;
}

static bool null_is_default(const struct weir_row *row)
{
    return row->initial && strcmp(row->initial, "null") == 0;
}

/* "an integer from 1 to 64, a multiple of 4", "a number >= 0 and < 1" */
static void describe(const struct weir_row *row, char *text, size_t bytes)
{
    size_t at = 0;
    if (row->type == WEIR_ROW_DOUBLE) {
        at = (size_t)snprintf(text, bytes, "a number %s %g", row->above_min ? ">" : ">=", row->min);
        if (row->max > 0 || row->up_to_zero)
            at += (size_t)snprintf(text + at, bytes - at, " and %s %g", row->below_max ? "<" : "<=", row->max);
    } else {
        at = (size_t)snprintf(text, bytes, "an integer from %.0f to ", row->min);
        if (row->type == WEIR_ROW_U64)
            at += (size_t)snprintf(text + at, bytes - at, "%" PRId64, INT64_MAX);
        else
            at += (size_t)snprintf(text + at, bytes - at, "%.0f", row->max);
        if (row->multiple)
            at += (size_t)snprintf(text + at, bytes - at, ", a multiple of %" PRIu32, row->multiple);
    }
    if (null_is_default(row))
        snprintf(text + at, bytes - at, ", or null");
}

static bool in_range(const struct weir_row *row, double value)
{
    if (!isfinite(value) || value < row->min || (row->above_min && value <= row->min))
        return false;
    if (row->below_max)
        return value < row->max;
    return (row->max == 0 && !row->up_to_zero) || value <= row->max;
}

static void refuse_number(const struct weir_row *row, const struct weir_node *node, struct weir_report *report)
{
    char wanted[SHOW_BYTES], shown[SHOW_BYTES];
    describe(row, wanted, sizeof wanted);
    weir_report_value(report, node, "must be %s, not %s", wanted, weir_show(node->value, shown, sizeof shown));
}

static void read_integer(const struct weir_row *row, const struct weir_node *node, void *into,
                         struct weir_report *report)
{
    json_int_t value = json_integer_value(node->value);
    bool null = json_is_null(node->value) && null_is_default(row);
    bool fits =
        json_is_integer(node->value) && in_range(row, (double)value) && (!row->multiple || value % row->multiple == 0);
    if (!null && !fits)
        refuse_number(row, node, report);
    else if (row->type == WEIR_ROW_U64)
        *(uint64_t *)field(row, into) = (uint64_t)value;
    else
        *(uint32_t *)field(row, into) = (uint32_t)value;
}

static void read_double(const struct weir_row *row, const struct weir_node *node, void *into,
                        struct weir_report *report)
{
    double value = json_number_value(node->value);
    bool null = json_is_null(node->value) && null_is_default(row);
    if (!null && !(json_is_number(node->value) && in_range(row, value)))
        refuse_number(row, node, report);
    else
        *(double *)field(row, into) = value + 0.0; /* -0 becomes 0 */
}

static void read_bool(const struct weir_row *row, const struct weir_node *node, void *into, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    if (json_is_boolean(node->value))
        *(bool *)field(row, into) = json_is_true(node->value);
    else
        weir_report_value(report, node, "must be true or false, not %s", weir_show(node->value, shown, sizeof shown));
}

static bool fit_for_file_names(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_LENGTH_MAX || name[0] == '.' || name[0] == '-')
        return false;
    for (const char *c = name; *c; c++)
        if (*c == '/' || (unsigned char)*c <= 0x20 || *c == 0x7f)
            return false;
    return true;
}

static void read_text(const struct weir_row *row, const struct weir_node *node, void *into, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    const char *text = json_string_value(node->value);
    if (json_is_null(node->value) && null_is_default(row))
        return;
    if (!text)
        weir_report_value(report, node, "must be a string, not %s", weir_show(node->value, shown, sizeof shown));
    else if (!*text)
        weir_report_value(report, node, "must not be empty");
    else if (row->type == WEIR_ROW_NAME && !fit_for_file_names(text))
        weir_report_value(report, node,
                          "must be fit for a file's name: at most %d bytes, no space or '/', no '.' or '-' at the "
                          "start; not %s",
                          NAME_LENGTH_MAX, weir_show(node->value, shown, sizeof shown));
    else
        *(char **)field(row, into) = weir_strdup(text);
}

static void list_choices(const struct weir_choice *choices, char *text, size_t bytes)
{
    size_t at = 0, count = 0, shown = 0;
    for (const struct weir_choice *c = choices; c->name; c++)
        count += !c->refused;
    text[0] = '\0';
    for (const struct weir_choice *c = choices; c->name; c++)
        if (!c->refused && at < bytes) {
            const char *join = shown == 0 ? "" : shown + 1 == count ? " or " : ", ";
            at += (size_t)snprintf(text + at, bytes - at, "%s\"%s\"", join, c->name);
            shown++;
        }
}

static void refuse_choice(const struct weir_row *row, const struct weir_node *node, const struct weir_choice *chosen,
                          struct weir_report *report)
{
    char list[2 * SHOW_BYTES], shown[SHOW_BYTES], phrase[SHOW_BYTES];
    list_choices(row->choices, list, sizeof list);
    weir_show(node->value, shown, sizeof shown);
    if (chosen) {
        weir_report_value(report, node, "%s %s; it can be %s", shown, chosen->refused, list);
        return;
    }
    struct weir_suggest suggest;
    weir_suggest_start(&suggest, json_is_string(node->value) ? json_string_value(node->value) : "");
    for (const struct weir_choice *c = row->choices; c->name; c++)
        if (!c->refused)
            weir_suggest_offer(&suggest, c->name, c->name);
    weir_suggest_phrase(&suggest, phrase, sizeof phrase);
    weir_report_value(report, node, "must be %s, not %s%s", list, shown, phrase);
}

static void read_choice(const struct weir_row *row, const struct weir_node *node, void *into,
                        struct weir_report *report)
{
    const char *text = json_string_value(node->value);
    const struct weir_choice *c = row->choices;
    while (c->name && !(text && strcmp(c->name, text) == 0))
        c++;
    if (!c->name || c->refused) {
        refuse_choice(row, node, c->name ? c : NULL, report);
    } else if (row->type == WEIR_ROW_CHOICE) {
        assert(strlen(c->name) < row->size);
        snprintf(field(row, into), row->size, "%s", c->name);
    } else if (row->size == sizeof(bool)) {
        *(bool *)field(row, into) = c != row->choices;
    } else {
        *(int *)field(row, into) = (int)(c - row->choices);
    }
}

/* A DTypePolicy object of Keras 3 says no more than its name. */
static json_t *policy_name(json_t *value)
{
    json_t *name = json_object_get(json_object_get(value, "config"), "name");
    return name ? name : value;
}

static void read_neutral(const struct weir_row *row, const struct weir_node *node, struct weir_report *report)
{
    json_t *neutral = json_loads(row->initial, 0, NULL), *item;
    assert(json_array_size(neutral) > 0);
    size_t index;
    bool found = false;
    json_array_foreach(neutral, index, item)
    {
        found = found || json_equal(item, policy_name(node->value)) ||
                (json_is_number(item) && json_is_number(node->value) &&
                 json_number_value(item) == json_number_value(node->value));
    }
    char shown[SHOW_BYTES], only[SHOW_BYTES];
    if (!found)
        weir_report_value(report, node, "%s is not supported by this version; only %s is",
                          weir_show(node->value, shown, sizeof shown),
                          weir_show(json_array_get(neutral, 0), only, sizeof only));
    json_decref(neutral);
}

/* {"name": "ps"} says the same as "ps". Returns the node that holds the name, or NULL if something is wrong. */
static const struct weir_node *unwrap(const struct weir_row *row, const struct weir_node *node,
                                      struct weir_report *report)
{
    if (!row->or_object || !json_is_object(node->value))
        return node;
    for (const struct weir_node *child = node->first; child; child = child->next)
        if (strcmp(child->key, "name") != 0)
            weir_report_key(report, child, "unknown key; the only one here is \"name\"");
    const struct weir_node *name = weir_node_child(node, "name");
    if (!name)
        weir_report_child(report, node, "name", "required, but missing");
    return name;
}

void weir_row_read(const struct weir_row *row, const struct weir_node *node, void *into, struct weir_report *report)
{
    node = unwrap(row, node, report);
    if (!node)
        return;
    switch (row->type) {
    case WEIR_ROW_U32:
    case WEIR_ROW_U64:
        read_integer(row, node, into, report);
        break;
    case WEIR_ROW_DOUBLE:
        read_double(row, node, into, report);
        break;
    case WEIR_ROW_BOOL:
        read_bool(row, node, into, report);
        break;
    case WEIR_ROW_NAME:
    case WEIR_ROW_PATH:
        read_text(row, node, into, report);
        break;
    case WEIR_ROW_CHOICE:
    case WEIR_ROW_PICK:
        read_choice(row, node, into, report);
        break;
    case WEIR_ROW_NEUTRAL:
        read_neutral(row, node, report);
        break;
    default:
        assert(row->type == WEIR_ROW_IGNORED);
    }
}

void weir_row_read_initial(const struct weir_row *row, void *into)
{
    if (row->type == WEIR_ROW_NEUTRAL || row->type == WEIR_ROW_IGNORED)
        return;
    json_t *value = json_loads(row->initial, JSON_DECODE_ANY, NULL);
    assert(value);
    struct weir_node *node = weir_node_new(value, NULL);
    struct weir_report report;
    weir_report_open(&report, "default", "", 0);
    weir_row_read(row, node, into, &report);
    assert(report.count == 0);
    weir_node_free(node);
    json_decref(value);
}

bool weir_row_print(const struct weir_row *row, const void *from, struct weir_text *out)
{
    const void *at = (const char *)from + row->offset;
    switch (row->type) {
    case WEIR_ROW_U32: {
        uint32_t value = *(const uint32_t *)at;
        if (value == 0 && null_is_default(row))
            weir_text_add(out, "null");
        else
            weir_text_add(out, "%" PRIu32, value);
        return true;
    }
    case WEIR_ROW_U64:
        weir_text_add(out, "%" PRIu64, *(const uint64_t *)at);
        return true;
    case WEIR_ROW_DOUBLE:
        if (*(const double *)at == 0 && null_is_default(row))
            weir_text_add(out, "null");
        else
            weir_print_double(*(const double *)at, out);
        return true;
    case WEIR_ROW_BOOL:
        weir_text_add(out, "%s", *(const bool *)at ? "true" : "false");
        return true;
    case WEIR_ROW_CHOICE:
        weir_text_add(out, "\"%s\"", (const char *)at);
        return true;
    default:
        return false;
    }
}

bool weir_row_is_text(const struct weir_row *row)
{
    switch (row->type) {
    case WEIR_ROW_NAME:
    case WEIR_ROW_PATH:
    case WEIR_ROW_CHOICE:
    case WEIR_ROW_PICK:
    case WEIR_ROW_MODEL:
    case WEIR_ROW_OPTIMIZER:
    case WEIR_ROW_LOSS:
        return true;
    default:
        return false;
    }
}

void weir_print_double(double value, struct weir_text *out)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    weir_text_add(out, "%s", text);
}
