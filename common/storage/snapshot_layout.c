#include "storage/snapshot_layout.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

void weir_snapshot_tensor_name(char name[WEIR_SNAPSHOT_TENSOR_BYTES], const char *mark, uint32_t chunk)
{
    snprintf(name, WEIR_SNAPSHOT_TENSOR_BYTES, "%s%" PRIu32, mark, chunk);
}

bool weir_snapshot_tensor_parse(const char *name, const char *mark, uint32_t *chunk)
{
    char written[WEIR_SNAPSHOT_TENSOR_BYTES];
    uint64_t number;
    size_t marked = strlen(mark);
    if (strncmp(name, mark, marked) != 0 || !weir_number_parse(name + marked, 0, UINT32_MAX, &number))
        return false;
    *chunk = (uint32_t)number;
    weir_snapshot_tensor_name(written, mark, *chunk);
    return strcmp(name, written) == 0;
}

uint64_t weir_snapshot_chunks(const struct weir_snapshot_layout *layout)
{
    return layout->flat_elements / layout->chunk_elements + (layout->flat_elements % layout->chunk_elements != 0);
}

uint64_t weir_snapshot_elements(const struct weir_snapshot_layout *layout, uint64_t chunk)
{
    assert(chunk < weir_snapshot_chunks(layout));
    uint64_t left = layout->flat_elements - chunk * layout->chunk_elements;
    return left < layout->chunk_elements ? left : layout->chunk_elements;
}

static bool variables_equal(const struct weir_view_variable *here, const struct weir_view_variable *there)
{
    return strcmp(here->name, there->name) == 0 && here->offset == there->offset && here->elements == there->elements &&
           here->dims == there->dims &&
           (here->dims == 0 || memcmp(here->shape, there->shape, here->dims * sizeof *here->shape) == 0);
}

bool weir_snapshot_layout_equal(const struct weir_snapshot_layout *here, const struct weir_snapshot_layout *there,
                                struct weir_error *difference)
{
    if (here->variable_count != there->variable_count)
        return weir_error_set(difference, "it has %zu variables, the model %zu", there->variable_count,
                              here->variable_count);
    for (size_t v = 0; v < here->variable_count; v++)
        if (!variables_equal(&here->variables[v], &there->variables[v]))
            return weir_error_set(difference, "its variable \"%s\" is not the model's \"%s\", in shape or place",
                                  there->variables[v].name, here->variables[v].name);
    if (here->flat_elements != there->flat_elements)
        return weir_error_set(difference, "it has %" PRIu64 " elements, the model %" PRIu64, there->flat_elements,
                              here->flat_elements);
    if (here->slot_count != there->slot_count)
        return weir_error_set(difference, "it has %zu optimizer slots, the job %zu", there->slot_count,
                              here->slot_count);
    for (size_t s = 0; s < here->slot_count; s++)
        if (strcmp(here->slots[s], there->slots[s]) != 0)
            return weir_error_set(difference, "its optimizer slot \"%s\" is not the job's \"%s\"", there->slots[s],
                                  here->slots[s]);
    if (here->clocks != there->clocks)
        return weir_error_set(difference, "it has %s clocks, the job has %s", there->clocks ? "the replicas'" : "no",
                              here->clocks ? "them" : "none");
    return true;
}
