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

/* Copies a list of `count` strings; *end moves on over those that lie one after the other from *end. */
static char **copy_list(char **list, size_t count, char **end)
{
    char **copies = weir_alloc(count + 1, sizeof *copies, "the command line");
    for (size_t i = 0; i < count; i++) {
        copies[i] = weir_strdup(list[i]);
        if (list[i] == *end)
            *end += strlen(list[i]) + 1;
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
