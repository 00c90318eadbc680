#include "runtime/lines.h"

#include <string.h>

static void hand_on(struct weir_lines *lines)
{
    lines->line(lines->context, lines->text, lines->bytes);
    lines->bytes = 0;
}

void weir_lines_take(struct weir_lines *lines, const char *bytes, size_t count)
{
    while (count > 0) {
        const char *newline = memchr(bytes, '\n', count);
        size_t part = newline ? (size_t)(newline - bytes) : count;
        size_t room = sizeof lines->text - lines->bytes;
        bool whole = newline && part <= room;
        if (part > room)
            part = room;
        memcpy(lines->text + lines->bytes, bytes, part);
        lines->bytes += part;
        bool ends_a_cut_line = whole && lines->cut && lines->bytes == 0;
        if ((whole && !ends_a_cut_line) || lines->bytes == sizeof lines->text)
            hand_on(lines);
        lines->cut = !whole && lines->bytes == 0;
        bytes += part + whole;
        count -= part + whole;
    }
}

void weir_lines_end(struct weir_lines *lines)
{
    if (lines->bytes > 0)
        hand_on(lines);
    lines->cut = false;
}
