/* An error as text, written by the first who detects it.
 *
 * Functions that can fail return bool, take `struct weir_error *err` last, and fill it exactly when they return false.
 * The text says what is wrong, where (file, key, line, address) and what to do.
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <stdbool.h>

struct weir_error {
    char text[1024];
};

/* Writes the text (cut to fit). Returns false, so that a caller can `return weir_error_set(err, ...)`. */
bool weir_error_set(struct weir_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the text that is there. Returns false. */
bool weir_error_wrap(struct weir_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
