#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "storage/safetensors.h"
#include "storage/snapshot_layout.h"
#include "storage/snapshot_name.h"

struct weir_snapshot_writer {
    struct weir_safetensors_writer *file;
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    uint64_t *bytes; /* of a row of each chunk */
    size_t chunks, at;
    size_t rows;
    uint32_t clocks; /* per chunk; 0: none */
};

/* The tensors of the part and the memory behind them. */
struct plan {
    struct weir_tensor_kind *tensors;
    char (*names)[WEIR_SNAPSHOT_TENSOR_BYTES];
    uint64_t (*shapes)[2];
    size_t count;
};

static void plan_add(struct plan *plan, const char *mark, uint32_t chunk, const char *dtype, uint64_t first,
                     uint64_t second)
{
    size_t i = plan->count++;
    weir_snapshot_tensor_name(plan->names[i], mark, chunk);
    plan->shapes[i][0] = first;
    plan->shapes[i][1] = second;
    plan->tensors[i] = (struct weir_tensor_kind){plan->names[i], dtype, plan->shapes[i], second ? 2 : 1};
}

static struct plan plan_make(const struct weir_snapshot_info *info, const uint32_t *chunks, size_t chunk_count)
{
    struct plan plan = {.tensors = weir_alloc(2 * chunk_count, sizeof *plan.tensors, "a snapshot's part"),
                        .names = weir_alloc(2 * chunk_count, sizeof *plan.names, "a snapshot's part"),
                        .shapes = weir_alloc(2 * chunk_count, sizeof *plan.shapes, "a snapshot's part")};
    for (size_t i = 0; i < chunk_count; i++) {
        plan_add(&plan, WEIR_SNAPSHOT_ROWS_OF, chunks[i], "F32", info->layout.slot_count + 1,
                 weir_snapshot_elements(&info->layout, chunks[i]));
        if (info->layout.clocks)
            plan_add(&plan, WEIR_SNAPSHOT_CLOCKS_OF, chunks[i], "U64", info->replicas, 0);
    }
    return plan;
}

static void plan_free(struct plan *plan)
{
    free(plan->tensors);
    free(plan->names);
    free(plan->shapes);
}

/* Says what the part is of, so that it can be told from others without the manifest. */
static struct weir_safetensors_writer *begin(const char *path, const struct weir_snapshot_info *info,
                                             const struct plan *plan, struct weir_error *err)
{
    char generation[24], step[24];
    struct weir_text rows = {0};
    snprintf(generation, sizeof generation, "%" PRIu64, info->generation);
    snprintf(step, sizeof step, "%" PRIu64, info->step);
    weir_text_add(&rows, "weights");
    for (size_t s = 0; s < info->layout.slot_count; s++)
        weir_text_add(&rows, ", %s", info->layout.slots[s]);
    const struct weir_metadata metadata[] = {{"format", WEIR_SNAPSHOT_PART_FORMAT},
                                             {"hash", info->hash},
                                             {"generation", generation},
                                             {"step", step},
                                             {"rows", rows.bytes}};
    struct weir_safetensors_writer *file =
        weir_safetensors_begin(path, plan->tensors, plan->count, metadata, sizeof metadata / sizeof *metadata, err);
    free(rows.bytes);
    return file;
}

struct weir_snapshot_writer *weir_snapshot_part_begin(const char *folder, const struct weir_snapshot_info *info,
                                                      const uint32_t *chunks, size_t chunk_count,
                                                      struct weir_error *err)
{
    assert(chunk_count > 0 && strlen(info->hash) == WEIR_DIGEST_HEX - 1);
    struct weir_snapshot_writer *writer = weir_alloc(1, sizeof *writer, "a snapshot's part");
    *writer = (struct weir_snapshot_writer){.bytes = weir_alloc(chunk_count, sizeof(uint64_t), "a snapshot's part"),
                                            .chunks = chunk_count,
                                            .rows = info->layout.slot_count + 1,
                                            .clocks = info->layout.clocks ? info->replicas : 0};
    for (size_t i = 0; i < chunk_count; i++)
        writer->bytes[i] = weir_snapshot_elements(&info->layout, chunks[i]) * sizeof(float);
    weir_snapshot_name_part(writer->name, info->hash, info->generation, info->step, chunks[0], weir_snapshot_draw());
    struct plan plan = plan_make(info, chunks, chunk_count);
    char *path = weir_snapshot_path(folder, writer->name);
    writer->file = begin(path, info, &plan, err);
    free(path);
    plan_free(&plan);
    if (writer->file)
        return writer;
    weir_snapshot_part_abandon(writer);
    return NULL;
}

bool weir_snapshot_part_add(struct weir_snapshot_writer *writer, const float *const *rows, const uint64_t *clocks,
                            struct weir_error *err)
{
    assert(writer->at < writer->chunks && !clocks == !writer->clocks);
    for (size_t r = 0; r < writer->rows; r++)
        if (!weir_safetensors_append(writer->file, rows[r], writer->bytes[writer->at], err))
            return false;
    writer->at++;
    return !clocks || weir_safetensors_append(writer->file, clocks, writer->clocks * sizeof *clocks, err);
}

static void release(struct weir_snapshot_writer *writer)
{
    free(writer->bytes);
    free(writer);
}

bool weir_snapshot_part_finish(struct weir_snapshot_writer *writer, struct weir_snapshot_part *part,
                               struct weir_error *err)
{
    assert(writer->at == writer->chunks);
    memcpy(part->name, writer->name, sizeof part->name);
    bool done = weir_safetensors_finish(writer->file, &part->bytes, part->sha256, err);
    release(writer);
    return done;
}

void weir_snapshot_part_abandon(struct weir_snapshot_writer *writer)
{
    if (!writer)
        return;
    weir_safetensors_abandon(writer->file);
    release(writer);
}
