/* A text that grows. */
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

#endif
