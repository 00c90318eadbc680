/* A checked state machine: the allowed transitions are rows of a table, and each use of one is counted.
 *
 * A move that is not in the table is a bug and stops the process. The simulator sums the counts and fails when a row
 * was never used, so that no transition goes untested.
 */
#ifndef WEIR_PROTOCOL_MACHINE_H
#define WEIR_PROTOCOL_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct weir_transition {
    uint8_t from, to;
    const char *when; /* what makes it happen, for people */
};

struct weir_machine {
    const char *name;
    const struct weir_transition *rows;
    size_t row_count;
};

#define WEIR_MACHINE_ROWS_MAX 16

struct weir_machine_counts {
    uint64_t row[WEIR_MACHINE_ROWS_MAX];
};

/* *state becomes `to`; asserts that the table allows it. */
void weir_machine_move(const struct weir_machine *machine, struct weir_machine_counts *counts, uint8_t *state,
                       uint8_t to);

#endif
