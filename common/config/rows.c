#include <stdio.h>
#include <string.h>

#include "config/row.h"
#include "config/suggest.h"

#define SHOW_BYTES 96

static const struct weir_row *find(const struct weir_row *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void list_keys(const struct weir_row *rows, size_t count, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s", i ? ", " : "; the keys here are ", rows[i].name);
}

static void refuse(const struct weir_row *rows, size_t count, const struct weir_node *node, struct weir_report *report)
{
    struct weir_suggest suggest;
    char phrase[SHOW_BYTES], keys[512];
    weir_suggest_start(&suggest, node->key);
    for (size_t i = 0; i < count; i++)
        weir_suggest_offer(&suggest, rows[i].name, rows[i].name);
    weir_suggest_phrase(&suggest, phrase, sizeof phrase);
    list_keys(rows, count, keys, sizeof keys);
    weir_report_key(report, node, "unknown key%s", phrase[0] ? phrase : keys);
}

bool weir_rows_read(const struct weir_row *rows, size_t count, const struct weir_node *node, void *into,
                    struct weir_report *report)
{
    size_t before = report->count + report->more;
    char shown[SHOW_BYTES];
    bool is_object = json_is_object(node->value);
    if (!is_object)
        weir_report_value(report, node, "must be an object ({...}), not %s",
                          weir_show(node->value, shown, sizeof shown));
    for (const struct weir_node *child = is_object ? node->first : NULL; child; child = child->next)
        if (!find(rows, count, child->key))
            refuse(rows, count, child, report);
    for (size_t i = 0; i < count; i++) {
        const struct weir_node *child = weir_node_child(node, rows[i].name);
        if (child)
            weir_row_read(&rows[i], child, into, report);
        else if (rows[i].initial)
            weir_row_read_initial(&rows[i], into);
        else if (is_object)
            weir_report_child(report, node, rows[i].name, "required, but missing");
    }
    return report->count + report->more == before;
}
