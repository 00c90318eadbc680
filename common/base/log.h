/* The log: one line per event on stderr, as text or JSON.
 *
 * Any thread may log; a line is written with one write(2), so lines never mix. Set up once, before threads start.
 */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

#include <stdbool.h>

enum weir_log_level { WEIR_LOG_ERROR, WEIR_LOG_WARNING, WEIR_LOG_INFO, WEIR_LOG_DEBUG };

/* `role` ("worker/0"; copied) stands in front of every line. */
void weir_log_setup(enum weir_log_level level, bool json, const char *role);

/* True and *level set if `name` is error, warning, info or debug. */
bool weir_log_level_parse(const char *name, enum weir_log_level *level);

bool weir_log_enabled(enum weir_log_level level);

/* A line, without its newline. The process goes on, also for WEIR_LOG_ERROR. */
void weir_log(enum weir_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Called before and after each line is written, to take a live progress line off the terminal and put it back;
 * NULL for neither. They may run on any thread. */
void weir_log_around(void (*before)(void), void (*after)(void));

#define weir_log_error(...) weir_log(WEIR_LOG_ERROR, __VA_ARGS__)
#define weir_log_warning(...) weir_log(WEIR_LOG_WARNING, __VA_ARGS__)
#define weir_log_info(...) weir_log(WEIR_LOG_INFO, __VA_ARGS__)
#define weir_log_debug(...) weir_log(WEIR_LOG_DEBUG, __VA_ARGS__)

#endif
