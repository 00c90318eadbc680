/* Tables of keys: one row says of a key what it is called, what it may be, what it is when not given, what it means and
 * where it goes. Parsing, checking, defaults, the canonical text, help and --set all read the same rows.
 */
#ifndef WEIR_CONFIG_ROW_H
#define WEIR_CONFIG_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "config/report.h"
#include "base/text.h"
#include "config/tree.h"

enum weir_row_type {
    WEIR_ROW_U32,       /* uint32_t; null, where that is the default, is 0 */
    WEIR_ROW_U64,       /* uint64_t, up to 2^63 - 1 */
    WEIR_ROW_DOUBLE,    /* double; null, where that is the default, is 0 */
    WEIR_ROW_BOOL,      /* bool */
    WEIR_ROW_NAME,      /* char *: part of file names */
    WEIR_ROW_PATH,      /* char *, as written */
    WEIR_ROW_CHOICE,    /* char[size], one of `choices` */
    WEIR_ROW_PICK,      /* int or bool (by size): the number of one of `choices` */
    WEIR_ROW_NEUTRAL,   /* nothing is kept: only values that change nothing are taken, those of the list `initial` */
    WEIR_ROW_IGNORED,   /* nothing is kept, any value is taken */
    WEIR_ROW_GROUP,     /* an object whose keys are rows of their own; `offset` of a bool: present */
    WEIR_ROW_MODEL,     /* the rest is read by functions of their own; see job.c */
    WEIR_ROW_OPTIMIZER, /* struct weir_optimizer_config */
    WEIR_ROW_LOSS,      /* struct weir_loss_config */
    WEIR_ROW_METRICS,   /* metrics and metric_count of the job */
};

/* What a value may be called; a list ends with a NULL name. */
struct weir_choice {
    const char *name;
    const char *refused; /* why it can't be chosen yet; NULL if it can */
};

struct weir_row {
    const char *name; /* dotted */
    enum weir_row_type type;
    size_t offset, size;
    const char *initial; /* the default as JSON; NULL: required */
    double min, max;     /* max 0: none, unless up_to_zero */
    bool up_to_zero;     /* max is 0 and a limit */
    bool above_min;      /* min itself is not allowed */
    bool below_max;
    uint32_t multiple; /* 0: any */
    const struct weir_choice *choices;
    bool or_object;    /* may also be {"name": ...} */
    bool unhashed;     /* a path, or nothing that the result depends on */
    const char *flag;  /* the command line's short form; NULL: none but --set */
    const char *shown; /* the default in words, if `initial` doesn't tell it */
    const char *help;
};

/* Reads a simple value (up to WEIR_ROW_IGNORED) into the struct. What is wrong goes to the report. */
void weir_row_read(const struct weir_row *row, const struct weir_node *node, void *into, struct weir_report *report);
/* The same with the row's default; it must be there and right. */
void weir_row_read_initial(const struct weir_row *row, void *into);
/* Reads an object whose keys are these rows, simple ones without dots, into the struct: what is given, else the
 * default. Unknown keys, with the one that may be meant, required ones that are missing and wrong values go to the
 * report. False if anything did. */
bool weir_rows_read(const struct weir_row *rows, size_t count, const struct weir_node *node, void *into,
                    struct weir_report *report);
/* Prints the value in the struct as JSON, a simple one; returns false, printing nothing, for neutral ones. */
bool weir_row_print(const struct weir_row *row, const void *from, struct weir_text *out);
/* True for values that are strings: a bare word on the command line stays one even if it looks like JSON. */
bool weir_row_is_text(const struct weir_row *row);
/* A double so that reading it gives the same bits, in as few digits as possible. */
void weir_print_double(double value, struct weir_text *out);

#endif
