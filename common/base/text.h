/* A text that grows, and text of others that must not act where it is shown. */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* All zero: empty. `bytes` is NULL or ends with a zero byte, which `length` doesn't count; its owner frees it. */
struct weir_text {
    char *bytes;
    size_t length, room;
};

void weir_text_add(struct weir_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weir_text_add_bytes(struct weir_text *text, const char *bytes, size_t count);
void weir_text_add_args(struct weir_text *text, const char *format, va_list args);

/* Control characters among the `count` bytes (below 0x20, 0x7f, and UTF-8's of C1) become '?': what files and peers say
 * goes to logs and terminals, where it must neither steer anything nor begin a line. */
void weir_text_disarm(char *text, size_t count);

#endif
