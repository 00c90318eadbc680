#include "config/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/tree.h"

#define NAME_BYTES 256
#define TEXT_BYTES 768

struct weir_report_entry {
    size_t offset; /* WEIR_NO_OFFSET: from a flag */
    size_t number; /* keeps the order of what stands at the same place */
    char line[NAME_BYTES + TEXT_BYTES + NAME_BYTES];
};

void weir_report_open(struct weir_report *report, const char *path, const char *text, size_t length)
{
    *report = (struct weir_report){.path = path, .text = text, .length = length};
}

/* Line and column, from 1; a column is a character, not a byte. */
static void line_and_column(const struct weir_report *report, size_t offset, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < report->length; i++) {
        unsigned char c = (unsigned char)report->text[i];
        if (c == '\n') {
            ++*line;
            *column = 1;
        } else if ((c & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static struct weir_report_entry *new_entry(struct weir_report *report, size_t offset)
{
    if (report->count == WEIR_REPORT_MAX) {
        report->more++;
        return NULL;
    }
    if (!report->entries)
        report->entries = weir_alloc(WEIR_REPORT_MAX, sizeof *report->entries, "messages");
    struct weir_report_entry *entry = &report->entries[report->count];
    *entry = (struct weir_report_entry){.offset = offset, .number = report->count++};
    return entry;
}

static void add(struct weir_report *report, size_t offset, const char *flag, const char *name, const char *format,
                va_list args)
{
    struct weir_report_entry *entry = new_entry(report, flag ? WEIR_NO_OFFSET : offset);
    if (!entry)
        return;
    char text[TEXT_BYTES];
    vsnprintf(text, sizeof text, format, args);
    const char *colon = name[0] ? ": " : "";
    if (flag) {
        snprintf(entry->line, sizeof entry->line, "%s: %s%s%s", flag, name, colon, text);
    } else {
        size_t line, column;
        line_and_column(report, offset, &line, &column);
        snprintf(entry->line, sizeof entry->line, "%s:%zu:%zu: %s%s%s", report->path, line, column, name, colon, text);
    }
    weir_text_disarm(entry->line, strlen(entry->line));
}

void weir_report_offset(struct weir_report *report, size_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(report, offset, NULL, "", format, args);
    va_end(args);
}

void weir_report_value(struct weir_report *report, const struct weir_node *node, const char *format, ...)
{
    char name[NAME_BYTES];
    weir_node_name(node, name, sizeof name);
    va_list args;
    va_start(args, format);
    add(report, node->value_at, node->flag, name, format, args);
    va_end(args);
}

void weir_report_key(struct weir_report *report, const struct weir_node *node, const char *format, ...)
{
    char name[NAME_BYTES];
    weir_node_name(node, name, sizeof name);
    va_list args;
    va_start(args, format);
    add(report, node->key_at, node->flag, name, format, args);
    va_end(args);
}

void weir_report_child(struct weir_report *report, const struct weir_node *node, const char *child, const char *format,
                       ...)
{
    char parent[NAME_BYTES], name[2 * NAME_BYTES];
    weir_node_name(node, parent, sizeof parent);
    snprintf(name, sizeof name, "%s%s%s", parent, parent[0] ? "." : "", child);
    va_list args;
    va_start(args, format);
    add(report, node->value_at, node->flag, name, format, args);
    va_end(args);
}

void weir_report_flag(struct weir_report *report, const char *flag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(report, 0, flag, "", format, args);
    va_end(args);
}

static int by_position(const void *a, const void *b)
{
    const struct weir_report_entry *left = a, *right = b;
    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

bool weir_report_close(struct weir_report *report, struct weir_problems *problems)
{
    bool nothing = report->count == 0;
    if (!nothing)
        qsort(report->entries, report->count, sizeof *report->entries, by_position);
    for (size_t i = 0; i < report->count; i++)
        weir_problems_add(problems, "%s", report->entries[i].line);
    if (report->more)
        weir_problems_add(problems, "%s: %zu problems more; these are the first ones found", report->path,
                          report->more);
    free(report->entries);
    *report = (struct weir_report){0};
    return nothing;
}
