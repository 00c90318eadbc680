/* Reads the operands of a sum side by side, where they lie, in runs in which none of them is cut.
 *
 * A float that straddles slices is put together in four bytes of the operand's cursor, and makes a run of one. Private
 * to the engine; one owner.
 */
#ifndef WEIR_ENGINE_READER_H
#define WEIR_ENGINE_READER_H

#include "engine/kernels.h"

struct weir_cursor {
    const struct weir_slice *slice, *end;
    size_t offset;              /* into *slice */
    const weir_loose_float *at; /* the operand's current run */
    unsigned char carry[sizeof(float)];
};

struct weir_reader {
    struct weir_cursor *cursors;
    size_t count, capacity;
    uint64_t straddled;
};

/* Begins with the first float of all operands, each of which must hold exactly `elements` floats (asserted). They must
 * stay where they are until the last run. */
void weir_reader_open(struct weir_reader *reader, const struct weir_operand *operands, size_t count, size_t elements);

/* The next run: returns its length, 1 to `limit`, and sets cursors[i].at. `limit` > 0 must not pass the end. */
size_t weir_reader_next(struct weir_reader *reader, size_t limit);

/* The bytes of the cursor's run of `run` floats that are read elsewhere than in the slice that was received: 0, or all.
 * A float that straddles slices is in `straddled` instead. Judged by addresses, so that a reader that copies can't keep
 * silent about it. */
size_t weir_cursor_copied(const struct weir_cursor *cursor, size_t run);

void weir_reader_free(struct weir_reader *reader);

#endif
