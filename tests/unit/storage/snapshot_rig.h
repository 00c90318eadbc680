/* A small model whose every value tells row, element and step, and its snapshots. */
#ifndef WEIR_TESTS_STORAGE_SNAPSHOT_RIG_H
#define WEIR_TESTS_STORAGE_SNAPSHOT_RIG_H

#include "folder.h"

#include "storage/snapshot.h"

#define FLAT 80
#define REPLICAS 3
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_HASH "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static const uint64_t rig_shapes[][2] = {{7, 5}, {5, 0}};
static const struct weir_view_variable rig_variables[] = {{"dense/kernel", 0, 35, rig_shapes[0], 2},
                                                          {"dense/b\xC3\xAF\"as", 48, 5, rig_shapes[1], 1},
                                                          {"scale", 64, 1, NULL, 0}};
static const char *const rig_slots[] = {"momentum", "velocity"};
static const unsigned char rig_record[] = {0x08, 0x00, 0xff, 0x10};

static inline struct weir_snapshot_info rig_info(uint64_t generation, uint64_t step)
{
    return (struct weir_snapshot_info){.job = "small",
                                       .hash = HASH,
                                       .canonical = "{\"fit.epochs\":1}\n{\"seed\":0}\n",
                                       .generation = generation,
                                       .step = step,
                                       .replicas = REPLICAS,
                                       .layout = {.flat_elements = FLAT,
                                                  .chunk_elements = 16,
                                                  .variables = rig_variables,
                                                  .variable_count = 3,
                                                  .slots = rig_slots,
                                                  .slot_count = 2},
                                       .record = rig_record,
                                       .record_bytes = sizeof rig_record};
}

static inline float rig_value(uint64_t step, size_t row, size_t element)
{
    return (float)(step * 1000 + row * 100 + element);
}

static inline uint64_t rig_clock(uint64_t step, uint32_t chunk, size_t replica)
{
    return (step << 40) + chunk * 16 + replica;
}

/* Writes the chunks first, first + stride, ... as one part. */
static inline bool rig_part(const struct weir_snapshot_info *info, uint32_t first, uint32_t stride,
                            struct weir_snapshot_part *part, struct weir_error *err)
{
    const struct weir_snapshot_layout *layout = &info->layout;
    uint32_t chunks[FLAT] = {0}, count = 0;
    for (uint32_t c = first; (uint64_t)c * layout->chunk_elements < FLAT; c += stride)
        chunks[count++] = c;
    struct weir_snapshot_writer *writer = weir_snapshot_part_begin(folder, info, chunks, count, err);
    for (uint32_t i = 0; writer && i < count; i++) {
        float values[3][2 * FLAT];
        uint64_t clocks[REPLICAS];
        for (size_t row = 0; row < 3; row++)
            for (size_t e = 0; e < layout->chunk_elements; e++)
                values[row][e] = rig_value(info->step, row, (size_t)chunks[i] * layout->chunk_elements + e);
        for (size_t r = 0; r < REPLICAS; r++)
            clocks[r] = rig_clock(info->step, chunks[i], r);
        if (!weir_snapshot_part_add(writer, (const float *const[]){values[0], values[1], values[2]},
                                    layout->clocks ? clocks : NULL, err)) {
            weir_snapshot_part_abandon(writer);
            return false;
        }
    }
    return writer && weir_snapshot_part_finish(writer, part, err);
}

/* All parts, by so many servers, and the manifest. */
static inline bool rig_try(const struct weir_snapshot_info *info, uint32_t servers, char *name, struct weir_error *err)
{
    struct weir_snapshot_part parts[FLAT];
    for (uint32_t s = 0; s < servers; s++)
        if (!rig_part(info, s, servers, &parts[s], err))
            return false;
    return weir_snapshot_publish(folder, info, parts, servers, name, err);
}

static inline void rig_save(const struct weir_snapshot_info *info, uint32_t servers, char *name)
{
    struct weir_error err;
    if (!rig_try(info, servers, name, &err))
        fail_msg("%s", err.text);
}

static inline void rig_save_step(uint64_t generation, uint64_t step)
{
    struct weir_snapshot_info info = rig_info(generation, step);
    rig_save(&info, 2, NULL);
}

/* Every element of every row, in ranges that keep to no chunk's bounds. */
static inline void rig_check(struct weir_snapshot *snapshot, uint64_t step)
{
    struct weir_error err;
    for (size_t row = 0; row < 3; row++)
        for (size_t length = 1; length <= FLAT; length += length < 4 ? 1 : 19)
            for (size_t first = 0; first < FLAT; first += length) {
                float values[FLAT];
                size_t count = length < FLAT - first ? length : FLAT - first;
                if (!weir_snapshot_read(snapshot, row, first, count, values, &err))
                    fail_msg("%s", err.text);
                for (size_t e = 0; e < count; e++)
                    assert_true(values[e] == rig_value(step, row, first + e));
            }
}

struct rig_refusals {
    size_t count;
    char text[4096]; /* one line each */
};

static inline void rig_refused(void *context, const char *name, const char *reason)
{
    struct rig_refusals *refusals = context;
    size_t length = strlen(refusals->text);
    assert_non_null(strstr(reason, name));
    refusals->count++;
    snprintf(refusals->text + length, sizeof refusals->text - length, "%s\n", reason);
}

/* The newest that is usable and whole by all digests, or NULL. */
static inline struct weir_snapshot *rig_find(const char *hash, struct rig_refusals *refusals)
{
    struct weir_snapshot_info info = rig_info(0, 0);
    struct weir_snapshot_wanted wanted = {hash, info.canonical, &info.layout, true};
    struct weir_snapshot *snapshot;
    struct weir_error err;
    *refusals = (struct rig_refusals){0};
    if (!weir_snapshot_find(folder, &wanted, rig_refused, refusals, &snapshot, &err))
        fail_msg("%s", err.text);
    return snapshot;
}

/* That one is found, of that step; tells what was refused before it. */
static inline void rig_found(uint64_t generation, uint64_t step, struct rig_refusals *refusals)
{
    struct weir_snapshot *snapshot = rig_find(HASH, refusals);
    if (!snapshot)
        fail_msg("no snapshot is found; refused: %s", refusals->text);
    assert_int_equal(weir_snapshot_info(snapshot)->step, step);
    assert_int_equal(weir_snapshot_info(snapshot)->generation, generation);
    rig_check(snapshot, step);
    weir_snapshot_close(snapshot);
}

#endif
