/* Bytes that come in pieces, as whole lines. */
#ifndef WEIR_RUNTIME_LINES_H
#define WEIR_RUNTIME_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR_LINE_BYTES_MAX 16384

struct weir_lines {
    /* A line without its newline; a longer one comes in pieces of WEIR_LINE_BYTES_MAX. */
    void (*line)(void *context, const char *text, size_t bytes);
    void *context;
    char text[WEIR_LINE_BYTES_MAX]; /* the part that has no newline yet */
    size_t bytes;
    bool cut; /* the last piece was full, and its line may go on */
};

void weir_lines_take(struct weir_lines *lines, const char *bytes, size_t count);
/* No more comes: what has no newline is a line as well. Afterwards `lines` is as new. */
void weir_lines_end(struct weir_lines *lines);

#endif
