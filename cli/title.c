#include "cli/title.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

extern char **environ;

/* There is one such memory in a process; weir_title_init finds it. */
static struct {
    char *start;
    size_t bytes;
    char **arguments, **environment; /* the copies: kept, for they are used until the end */
} area;

/* Copies a list of `count` strings, in one piece of memory, for setenv and unsetenv forget single ones; *end moves on
 * over those that lie one after the other from *end. */
static char **copy_list(char **list, size_t count, char **end)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(list[i]) + 1;
    char **copies = weir_alloc(1, (count + 1) * sizeof *copies + bytes, "the command line");
    char *at = (char *)(copies + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(list[i]) + 1;
        copies[i] = memcpy(at, list[i], length);
        at += length;
        if (list[i] == *end)
            *end += length;
    }
    return copies;
}

char **weir_title_init(int argc, char **argv)
{
    if (argc < 1)
        return argv;
    size_t variables = 0;
    while (environ && environ[variables])
        variables++;
    char *end = argv[0];
    area.arguments = copy_list(argv, (size_t)argc, &end);
    area.environment = copy_list(environ, variables, &end);
    area.start = argv[0];
    area.bytes = (size_t)(end - argv[0]);
    environ = area.environment;
    return area.arguments;
}

void weir_title_set(const char *format, ...)
{
    if (area.bytes < 2)
        return;
    char title[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(title, sizeof title, format, args);
    va_end(args);
    /* The kernel goes on beyond the arguments only if their last byte is not zero; the rest is zeroed, so that old
     * arguments don't show. */
    memset(area.start, 0, area.bytes);
    snprintf(area.start, area.bytes, "%s", title);
}
