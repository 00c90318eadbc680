#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define LINE_BYTES 4096

static struct {
    enum weir_log_level level;
    bool json;
    char role[64];
    void (*before)(void);
    void (*after)(void);
} settings = {.level = WEIR_LOG_INFO};

static const char *const level_names[] = {"error", "warning", "info", "debug"};

void weir_log_setup(enum weir_log_level level, bool json, const char *role)
{
    settings.level = level;
    settings.json = json;
    snprintf(settings.role, sizeof settings.role, "%s", role);
}

bool weir_log_level_parse(const char *name, enum weir_log_level *level)
{
    for (int i = 0; i <= WEIR_LOG_DEBUG; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum weir_log_level)i;
            return true;
        }
    return false;
}

bool weir_log_enabled(enum weir_log_level level)
{
    return level <= settings.level;
}

void weir_log_around(void (*before)(void), void (*after)(void))
{
    settings.before = before;
    settings.after = after;
}

/* Appends `text` to line[*at], escaped as a JSON string's inside. */
static void append_escaped(char *line, size_t *at, const char *text)
{
    for (const char *c = text; *c && *at < LINE_BYTES - 16; c++) {
        if (*c == '"' || *c == '\\')
            line[(*at)++] = '\\', line[(*at)++] = *c;
        else if ((unsigned char)*c < 0x20)
            *at += (size_t)snprintf(line + *at, LINE_BYTES - *at, "\\u%04x", (unsigned char)*c);
        else
            line[(*at)++] = *c;
    }
}

static size_t format_line(char *line, enum weir_log_level level, const char *text)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    char stamp[64];
    size_t stamped = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + stamped, sizeof stamp - stamped, ".%03ldZ", now.tv_nsec / 1000000);
    size_t at;
    if (!settings.json) {
        at = (size_t)snprintf(line, LINE_BYTES - 1, "%s %s %s: %s", stamp, settings.role, level_names[level], text);
        if (at > LINE_BYTES - 2)
            at = LINE_BYTES - 2;
    } else {
        at = (size_t)snprintf(line, LINE_BYTES, "{\"time\":\"%s\",\"role\":\"%s\",\"level\":\"%s\",\"message\":\"",
                              stamp, settings.role, level_names[level]);
        append_escaped(line, &at, text);
        line[at++] = '"';
        line[at++] = '}';
    }
    line[at++] = '\n';
    return at;
}

void weir_log(enum weir_log_level level, const char *format, ...)
{
    if (!weir_log_enabled(level))
        return;
    char text[LINE_BYTES / 2], line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_text_disarm(text, strlen(text)); /* peers' words are in it: they must not look like lines of ours */
    size_t length = format_line(line, level, text);
    if (settings.before)
        settings.before();
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* nowhere to report it */
    if (settings.after)
        settings.after();
}
