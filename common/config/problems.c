#include "config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

void weir_problems_add(struct weir_problems *problems, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t bytes = length < 0 ? 1 : (size_t)length + 1;
    char *line = weir_alloc(bytes, 1, "a message");
    vsnprintf(line, bytes, format, again);
    va_end(again);

    char **lines = weir_alloc(problems->count + 1, sizeof *lines, "messages");
    for (size_t i = 0; i < problems->count; i++)
        lines[i] = problems->lines[i];
    lines[problems->count++] = line;
    free(problems->lines);
    problems->lines = lines;
}

void weir_problems_free(struct weir_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        free(problems->lines[i]);
    free(problems->lines);
    *problems = (struct weir_problems){0};
}
