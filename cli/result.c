#include "cli/result.h"

#include <stdlib.h>

#include "base/memory.h"
#include "storage/safetensors.h"
#include "storage/storage_file.h"

/* Variables one behind the other, without the padding between them. */
static void add_part(const struct weir_result *result, size_t part, struct weir_digest *digest)
{
    for (size_t v = 0; v < result->variable_count; v++)
        weir_digest_add(digest, result->part[part] + result->variables[v].offset,
                        (size_t)result->variables[v].elements * sizeof(float));
}

static void add_totals(const struct weir_totals *totals, struct weir_digest *digest)
{
    weir_digest_add(digest, &totals->samples, sizeof totals->samples);
    weir_digest_add(digest, &totals->loss, sizeof totals->loss);
    weir_digest_add(digest, totals->metrics, sizeof totals->metrics);
}

static void add_record(const struct weir_record *record, struct weir_digest *digest)
{
    uint64_t numbers[] = {record->step,  record->round,      (uint64_t)record->order,
                          record->epoch, record->iterations, record->last_epoch};
    weir_digest_add(digest, numbers, sizeof numbers);
    add_totals(&record->train, digest);
    add_totals(&record->validation, digest);
    add_totals(&record->last_train, digest);
    add_totals(&record->last_validation, digest);
}

void weir_result_digest(struct weir_result *result, const struct weir_record *record)
{
    struct weir_digest *weights = weir_digest_new(), *state = weir_digest_new();
    add_part(result, 0, weights);
    weir_digest_end(weights, result->digest);
    for (size_t part = 0; part < result->parts; part++)
        add_part(result, part, state);
    add_record(record, state);
    weir_digest_end(state, result->state_digest);
}

bool weir_result_write_weights(const struct weir_result *result, const char *path, const char *job_hash,
                               struct weir_error *err)
{
    struct weir_tensor *tensors = weir_alloc(result->variable_count, sizeof *tensors, "the weights file");
    uint64_t(*shapes)[WEIR_DIMS_MAX] = weir_alloc(result->variable_count, sizeof *shapes, "the weights file");
    for (size_t v = 0; v < result->variable_count; v++) {
        const struct weir_variable *variable = &result->variables[v];
        for (size_t d = 0; d < variable->dims; d++)
            shapes[v][d] = variable->shape[d];
        tensors[v] =
            (struct weir_tensor){variable->name, shapes[v], variable->dims, result->part[0] + variable->offset};
    }
    struct weir_metadata metadata[] = {{"format", "weir"}, {"job", job_hash}, {"digest", result->digest}};
    bool ok = weir_safetensors_write(path, tensors, result->variable_count, metadata, 3, err);
    free(tensors);
    free(shapes);
    return ok;
}

bool weir_result_check(const char *weights, const char *summary, struct weir_error *err)
{
    if (weights && !weir_file_check(weights, err))
        return weir_error_wrap(err, "--weights");
    if (summary && !weir_file_check(summary, err))
        return weir_error_wrap(err, "--summary");
    return true;
}
