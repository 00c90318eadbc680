#include "storage/snapshot_map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "storage/safetensors.h"
#include "storage/snapshot_layout.h"
#include "storage/snapshot_name.h"
#include "storage/storage_file.h"

/* ---- the manifest */

static char *read_text(const char *path, size_t *count, struct weir_error *err)
{
    uint64_t bytes;
    const char *why;
    int fd = weir_file_open(path, &bytes, &why);
    if (fd < 0) {
        weir_error_set(err, "cannot read %s: %s; check the path and who may read it", path, why);
        return NULL;
    }
    char *text = NULL;
    if (bytes > WEIR_SNAPSHOT_MANIFEST_BYTES_MAX) {
        weir_error_set(err, "%s is no snapshot's manifest: it has %" PRIu64 " bytes, and may have %zu", path, bytes,
                       WEIR_SNAPSHOT_MANIFEST_BYTES_MAX);
    } else {
        text = weir_alloc(bytes + 1, 1, "a manifest");
        *count = (size_t)bytes;
        if (!weir_file_read_at(fd, path, 0, text, *count, err)) {
            free(text);
            text = NULL;
        }
    }
    close(fd);
    return text;
}

static bool check_name(const char *name, const struct weir_snapshot_info *info, struct weir_error *err)
{
    char its_own[WEIR_SNAPSHOT_NAME_BYTES];
    weir_snapshot_name_manifest(its_own, info->hash, info->generation, info->step);
    return strcmp(name, its_own) == 0 || weir_error_set(err, "its name should be %s: it was renamed", its_own);
}

bool weir_snapshot_load(const char *folder, const char *name, struct weir_manifest *manifest, struct weir_error *err)
{
    char *path = weir_snapshot_path(folder, name);
    size_t count;
    char *text = read_text(path, &count, err);
    bool done = false;
    if (text) {
        done = weir_manifest_parse(manifest, text, count, err) && check_name(name, &manifest->info, err);
        if (!done) {
            weir_manifest_free(manifest);
            weir_error_wrap(err, "%s", path);
        }
    }
    free(text);
    free(path);
    return done;
}

/* ---- its parts */

static bool is_present(const char *path, uint64_t bytes, struct weir_error *err)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return weir_error_set(err, "its part %s cannot be read: %s", path, strerror(errno));
    return (uint64_t)status.st_size == bytes ||
           weir_error_set(err, "its part %s has %" PRIu64 " bytes, not %" PRIu64 ": it is cut short, or another file",
                          path, (uint64_t)status.st_size, bytes);
}

bool weir_snapshot_present(const char *folder, const struct weir_snapshot_part *parts, size_t part_count,
                           struct weir_error *err)
{
    bool present = true;
    for (size_t i = 0; i < part_count && present; i++) {
        char *path = weir_snapshot_path(folder, parts[i].name);
        present = is_present(path, parts[i].bytes, err);
        free(path);
    }
    return present;
}

/* So that a small manifest cannot ask for much memory: what it describes must be there, in bytes. */
static bool check_bytes(const struct weir_snapshot_info *info, const struct weir_snapshot_part *parts,
                        size_t part_count, struct weir_error *err)
{
    uint64_t needed, there = 0;
    bool overflow =
        __builtin_mul_overflow(info->layout.flat_elements, sizeof(float) * (info->layout.slot_count + 1), &needed);
    for (size_t i = 0; i < part_count; i++)
        there = there + parts[i].bytes < there ? UINT64_MAX : there + parts[i].bytes;
    return (!overflow && needed <= there) ||
           weir_error_set(err, "its parts have %" PRIu64 " bytes: too few for %" PRIu64 " elements", there,
                          info->layout.flat_elements);
}

static bool metadata_is(const struct weir_safetensors *file, const char *key, const char *value)
{
    const char *found = weir_safetensors_metadata(file, key);
    return found && strcmp(found, value) == 0;
}

static bool check_metadata(const struct weir_safetensors *file, const struct weir_snapshot_info *info,
                           struct weir_error *err)
{
    char generation[24], step[24];
    snprintf(generation, sizeof generation, "%" PRIu64, info->generation);
    snprintf(step, sizeof step, "%" PRIu64, info->step);
    return (metadata_is(file, "format", WEIR_SNAPSHOT_PART_FORMAT) && metadata_is(file, "hash", info->hash) &&
            metadata_is(file, "generation", generation) && metadata_is(file, "step", step)) ||
           weir_error_set(err, "it is no part of generation %s, step %s of this job", generation, step);
}

static bool is_tensor(const struct weir_safetensors_entry *entry, const char *dtype, uint64_t first, uint64_t second)
{
    return strcmp(entry->dtype, dtype) == 0 && entry->dimensions == (second ? 2 : 1) && entry->shape[0] == first &&
           (!second || entry->shape[1] == second);
}

/* One tensor of part `part`: a chunk's rows, or its clocks. */
static bool place_tensor(const struct weir_snapshot_info *info, const struct weir_safetensors *file,
                         const struct weir_safetensors_entry *entry, uint32_t part, struct weir_snapshot_place *places,
                         struct weir_error *err)
{
    const struct weir_snapshot_layout *layout = &info->layout;
    uint32_t chunk;
    bool rows = weir_snapshot_tensor_parse(entry->name, WEIR_SNAPSHOT_ROWS_OF, &chunk);
    bool clocks = !rows && layout->clocks && weir_snapshot_tensor_parse(entry->name, WEIR_SNAPSHOT_CLOCKS_OF, &chunk);
    if ((!rows && !clocks) || chunk >= weir_snapshot_chunks(layout))
        return weir_error_set(err, "\"%s\" is no chunk of this model", entry->name);
    if (rows ? !is_tensor(entry, "F32", layout->slot_count + 1, weir_snapshot_elements(layout, chunk))
             : !is_tensor(entry, "U64", info->replicas, 0))
        return weir_error_set(err, "\"%s\" has another shape than the manifest says", entry->name);
    struct weir_snapshot_place *place = &places[chunk];
    if (place->part && place->part != part)
        return true;
    place->part = part;
    *(rows ? &place->rows : &place->clocks) = weir_safetensors_offset(file, entry);
    return true;
}

static bool map_part(const struct weir_snapshot_info *info, const struct weir_safetensors *file, uint32_t part,
                     struct weir_snapshot_place *places, struct weir_error *err)
{
    if (!check_metadata(file, info, err))
        return false;
    for (size_t i = 0; i < weir_safetensors_count(file); i++)
        if (!place_tensor(info, file, weir_safetensors_entry(file, i), part, places, err))
            return false;
    return true;
}

static bool map_parts(const char *folder, const struct weir_snapshot_info *info, const struct weir_snapshot_part *parts,
                      size_t part_count, struct weir_snapshot_place *places, struct weir_error *err)
{
    for (size_t i = 0; i < part_count; i++) {
        char *path = weir_snapshot_path(folder, parts[i].name);
        struct weir_safetensors *file = weir_safetensors_open(path, err);
        bool done = file && map_part(info, file, (uint32_t)i + 1, places, err);
        if (file && !done)
            weir_error_wrap(err, "its part %s", path);
        weir_safetensors_close(file);
        free(path);
        if (!done)
            return false;
    }
    return true;
}

static bool check_complete(const struct weir_snapshot_layout *layout, const struct weir_snapshot_place *places,
                           struct weir_error *err)
{
    for (uint64_t c = 0; c < weir_snapshot_chunks(layout); c++) {
        if (!places[c].rows)
            return weir_error_set(err, "none of its parts has chunk %" PRIu64, c);
        if (layout->clocks && !places[c].clocks)
            return weir_error_set(err, "its part has no clocks of chunk %" PRIu64, c);
    }
    return true;
}

struct weir_snapshot_place *weir_snapshot_map(const char *folder, const struct weir_snapshot_info *info,
                                              const struct weir_snapshot_part *parts, size_t part_count,
                                              struct weir_error *err)
{
    assert(weir_snapshot_chunks(&info->layout) <= WEIR_SNAPSHOT_CHUNKS_MAX);
    if (!weir_snapshot_present(folder, parts, part_count, err) || !check_bytes(info, parts, part_count, err))
        return NULL;
    struct weir_snapshot_place *places =
        weir_alloc(weir_snapshot_chunks(&info->layout), sizeof *places, "a snapshot's chunks");
    if (map_parts(folder, info, parts, part_count, places, err) && check_complete(&info->layout, places, err))
        return places;
    free(places);
    return NULL;
}
