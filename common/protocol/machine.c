#include "protocol/machine.h"

#include <assert.h>

void weir_machine_move(const struct weir_machine *machine, struct weir_machine_counts *counts, uint8_t *state,
                       uint8_t to)
{
    assert(machine->row_count <= WEIR_MACHINE_ROWS_MAX);
    for (size_t i = 0; i < machine->row_count; i++)
        if (machine->rows[i].from == *state && machine->rows[i].to == to) {
            counts->row[i]++;
            *state = to;
            return;
        }
    assert(!"a transition that the table does not allow");
}
