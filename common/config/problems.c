#include "config/config.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"

void weir_problems_add(struct weir_problems *problems, const char *format, ...)
{
    struct weir_text line = {0};
    va_list args;
    va_start(args, format);
    weir_text_add_args(&line, format, args);
    va_end(args);

    char **lines = weir_alloc(problems->count + 1, sizeof *lines, "messages");
    for (size_t i = 0; i < problems->count; i++)
        lines[i] = problems->lines[i];
    lines[problems->count++] = line.bytes;
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
