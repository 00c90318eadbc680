/* Collects what is wrong with one text, and hands it over sorted by position. */
#ifndef WEIR_CONFIG_REPORT_H
#define WEIR_CONFIG_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

#define WEIR_REPORT_MAX 50 /* problems of one text that are told; the rest is counted */

struct weir_node;
struct weir_report_entry;

struct weir_report {
    const char *path; /* how messages name the text */
    const char *text;
    size_t length;
    struct weir_report_entry *entries;
    size_t count, more;
};

void weir_report_open(struct weir_report *report, const char *path, const char *text, size_t length);

/* At a byte of the text. */
void weir_report_offset(struct weir_report *report, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* At the node's value, its key, or (for a key that is missing in it, or a key within a string) its value with that
 * key's name; a node that came from a flag is named by the flag. */
void weir_report_value(struct weir_report *report, const struct weir_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void weir_report_key(struct weir_report *report, const struct weir_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void weir_report_child(struct weir_report *report, const struct weir_node *node, const char *child, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
/* About a flag as such. */
void weir_report_flag(struct weir_report *report, const char *flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds all to `problems`, by position, those of flags last; frees what the report holds. True if there was nothing. */
bool weir_report_close(struct weir_report *report, struct weir_problems *problems);

#endif
