#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Room for `more` bytes and a zero byte. */
static void grow(struct weir_text *text, size_t more)
{
    if (text->room - text->length > more)
        return;
    size_t room = 2 * text->room + more + 1;
    char *bytes = weir_alloc(room, 1, "a text");
    if (text->length > 0)
        memcpy(bytes, text->bytes, text->length);
    free(text->bytes);
    text->bytes = bytes;
    text->room = room;
}

void weir_text_add_bytes(struct weir_text *text, const char *bytes, size_t count)
{
    grow(text, count);
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = 0;
}

void weir_text_add_args(struct weir_text *text, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0) {
        grow(text, (size_t)length);
        vsnprintf(text->bytes + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void weir_text_disarm(char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)text[i], next = i + 1 < count ? (unsigned char)text[i + 1] : 0;
        if (byte == 0xc2 && next >= 0x80 && next < 0xa0)
            text[i] = text[i + 1] = '?';
        else if (byte < 0x20 || byte == 0x7f)
            text[i] = '?';
    }
}

void weir_text_add(struct weir_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weir_text_add_args(text, format, args);
    va_end(args);
}
