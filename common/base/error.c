#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

bool weir_error_set(struct weir_error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    weir_text_disarm(err->text, strlen(err->text));
    return false;
}

bool weir_error_wrap(struct weir_error *err, const char *format, ...)
{
    struct weir_error outer;
    va_list args;
    va_start(args, format);
    vsnprintf(outer.text, sizeof outer.text / 2, format, args);
    va_end(args);
    weir_text_disarm(outer.text, strlen(outer.text));
    struct weir_error inner = *err;
    int length = snprintf(err->text, sizeof err->text, "%s: ", outer.text);
    snprintf(err->text + length, sizeof err->text - (size_t)length, "%.*s", (int)(sizeof err->text) - length - 1,
             inner.text);
    return false;
}
