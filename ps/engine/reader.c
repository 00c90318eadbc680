#include "engine/reader.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

static void check_bytes(const struct weir_operand *operand, size_t elements)
{
    size_t bytes = 0;
    for (size_t i = 0; i < operand->slice_count; i++)
        bytes += operand->slices[i].count;
    assert(bytes == elements * sizeof(float));
}

void weir_reader_open(struct weir_reader *reader, const struct weir_operand *operands, size_t count, size_t elements)
{
    if (count > reader->capacity) {
        free(reader->cursors);
        reader->cursors = weir_alloc(count, sizeof *reader->cursors, "the cursors of a sum");
        reader->capacity = count;
    }
    reader->count = count;
    for (size_t i = 0; i < count; i++) {
        check_bytes(&operands[i], elements);
        const struct weir_slice *first = operands[i].slices;
        reader->cursors[i] = (struct weir_cursor){.slice = first, .end = first + operands[i].slice_count};
    }
}

/* Goes past slices that are used up; false at the end. */
static bool cursor_settle(struct weir_cursor *cursor)
{
    for (; cursor->slice < cursor->end; cursor->slice++, cursor->offset = 0)
        if (cursor->offset < cursor->slice->count)
            return true;
    return false;
}

static const unsigned char *cursor_bytes(const struct weir_cursor *cursor)
{
    return (const unsigned char *)cursor->slice->bytes + cursor->offset;
}

/* Takes the next float byte by byte. */
static void cursor_carry(struct weir_cursor *cursor)
{
    for (size_t i = 0; i < sizeof cursor->carry; i++) {
        bool more = cursor_settle(cursor);
        assert(more);
        cursor->carry[i] = *cursor_bytes(cursor);
        cursor->offset++;
    }
    cursor->at = (const weir_loose_float *)(const void *)cursor->carry;
}

size_t weir_reader_next(struct weir_reader *reader, size_t limit)
{
    size_t run = limit;
    for (size_t i = 0; i < reader->count; i++) {
        struct weir_cursor *cursor = &reader->cursors[i];
        bool more = cursor_settle(cursor);
        assert(more);
        size_t whole = (cursor->slice->count - cursor->offset) / sizeof(float);
        if (whole == 0) {
            cursor_carry(cursor);
            reader->straddled++;
            run = 1;
        } else {
            cursor->at = (const weir_loose_float *)(const void *)cursor_bytes(cursor);
            run = whole < run ? whole : run;
        }
    }
    for (size_t i = 0; i < reader->count; i++) {
        struct weir_cursor *cursor = &reader->cursors[i];
        if (cursor->at != (const weir_loose_float *)(const void *)cursor->carry)
            cursor->offset += run * sizeof(float);
    }
    return run;
}

size_t weir_cursor_copied(const struct weir_cursor *cursor, size_t run)
{
    const size_t bytes = run * sizeof(float);
    if ((const void *)cursor->at == cursor->carry)
        return bytes > sizeof cursor->carry ? bytes : 0;
    const uintptr_t at = (uintptr_t)cursor->at, received = (uintptr_t)cursor->slice->bytes;
    bool inside = at >= received && at + bytes <= received + cursor->slice->count;
    return inside ? 0 : bytes;
}

void weir_reader_free(struct weir_reader *reader)
{
    free(reader->cursors);
}
