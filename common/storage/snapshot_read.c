#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/config.h"
#include "storage/snapshot_layout.h"
#include "storage/snapshot_map.h"
#include "storage/snapshot_name.h"
#include "storage/storage_file.h"

#define OPEN_MAX 64 /* descriptors that a snapshot keeps: chunks lie in turn on all parts */
#define FIND_TRIES 100
#define VERIFY_BYTES ((size_t)1 << 20)

struct weir_snapshot {
    char *folder;
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_manifest manifest;
    struct weir_snapshot_place *places; /* by chunk */
    int *fds;                           /* by part; -1: not open */
    uint32_t open[OPEN_MAX];            /* the parts that are, + 1 */
    size_t next;                        /* in `open`: the one that makes room */
};

/* ---- opening */

/* Of the job and the layout that are wanted? Asked before any part is read. */
static bool check_wanted(const struct weir_snapshot_info *info, const struct weir_snapshot_wanted *wanted,
                         struct weir_error *err)
{
    struct weir_error difference;
    if (wanted->hash && strcmp(wanted->hash, info->hash) != 0) {
        char keys[512] = "";
        if (wanted->canonical)
            weir_job_differences(wanted->canonical, info->canonical, keys, sizeof keys);
        return weir_error_set(err, "it is of another job, \"%s\"%s%s; start with that job, or in another folder",
                              info->job, keys[0] ? ": " : "", keys);
    }
    if (wanted->layout && !weir_snapshot_layout_equal(wanted->layout, &info->layout, &difference))
        return weir_error_set(err, "it is of another model: %s", difference.text);
    return true;
}

static struct weir_snapshot *make(const char *folder, const char *name, const struct weir_manifest *manifest,
                                  struct weir_snapshot_place *places)
{
    struct weir_snapshot *snapshot = weir_alloc(1, sizeof *snapshot, "a snapshot");
    snapshot->folder = weir_strdup(folder);
    memcpy(snapshot->name, name, strlen(name) + 1);
    snapshot->manifest = *manifest;
    snapshot->places = places;
    snapshot->fds = weir_alloc(manifest->part_count + 1, sizeof *snapshot->fds, "a snapshot's parts");
    for (size_t i = 0; i < manifest->part_count; i++)
        snapshot->fds[i] = -1;
    return snapshot;
}

static struct weir_snapshot *open_wanted(const char *folder, const char *name,
                                         const struct weir_snapshot_wanted *wanted, struct weir_error *err)
{
    struct weir_manifest manifest;
    if (!weir_snapshot_load(folder, name, &manifest, err))
        return NULL;
    struct weir_snapshot_place *places = NULL;
    if (check_wanted(&manifest.info, wanted, err))
        places = weir_snapshot_map(folder, &manifest.info, manifest.parts, manifest.part_count, err);
    if (!places) {
        weir_error_wrap(err, "%s/%s", folder, name);
        weir_manifest_free(&manifest);
        return NULL;
    }
    struct weir_snapshot *snapshot = make(folder, name, &manifest, places);
    if (!wanted->verify || weir_snapshot_verify(snapshot, err))
        return snapshot;
    weir_snapshot_close(snapshot);
    return NULL;
}

struct weir_snapshot *weir_snapshot_open(const char *folder, const char *name, struct weir_error *err)
{
    const struct weir_snapshot_wanted any = {0};
    struct weir_snapshot_file file;
    if (weir_snapshot_name_parse(name, &file) && file.kind == WEIR_SNAPSHOT_MANIFEST)
        return open_wanted(folder, name, &any, err);
    weir_error_set(err, "\"%s\" is not the name of a snapshot's manifest (weir checkpoint ls shows them)", name);
    return NULL;
}

enum found { FOUND, FOUND_NONE, FOUND_CHANGED };

/* Whether the manifest was removed since it was listed: by a chief that made newer ones. */
static bool is_gone(const char *folder, const char *name)
{
    char *path = weir_snapshot_path(folder, name);
    bool gone = access(path, F_OK) != 0 && errno == ENOENT;
    free(path);
    return gone;
}

static enum found find_in_list(const char *folder, const struct weir_snapshot_list *list,
                               const struct weir_snapshot_wanted *wanted, weir_snapshot_refused *refused, void *context,
                               struct weir_snapshot **snapshot)
{
    for (size_t i = 0; i < list->count; i++) {
        struct weir_error reason;
        *snapshot = open_wanted(folder, list->entries[i].name, wanted, &reason);
        if (*snapshot)
            return FOUND;
        if (is_gone(folder, list->entries[i].name))
            return FOUND_CHANGED;
        if (refused)
            refused(context, list->entries[i].name, reason.text);
    }
    return FOUND_NONE;
}

bool weir_snapshot_find(const char *folder, const struct weir_snapshot_wanted *wanted, weir_snapshot_refused *refused,
                        void *context, struct weir_snapshot **snapshot, struct weir_error *err)
{
    struct weir_snapshot_list list;
    *snapshot = NULL;
    for (int i = 0; i < FIND_TRIES; i++) {
        if (!weir_snapshot_list(folder, &list, err))
            return false;
        enum found found = find_in_list(folder, &list, wanted, refused, context, snapshot);
        weir_snapshot_list_free(&list);
        if (found != FOUND_CHANGED)
            return true;
    }
    return weir_error_set(
        err, "the snapshots in %s are removed as fast as they are found; end the job that writes there", folder);
}

void weir_snapshot_close(struct weir_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (size_t i = 0; i < snapshot->manifest.part_count; i++)
        if (snapshot->fds[i] >= 0)
            close(snapshot->fds[i]);
    free(snapshot->fds);
    free(snapshot->places);
    free(snapshot->folder);
    weir_manifest_free(&snapshot->manifest);
    free(snapshot);
}

const char *weir_snapshot_name(const struct weir_snapshot *snapshot)
{
    return snapshot->name;
}

const struct weir_snapshot_info *weir_snapshot_info(const struct weir_snapshot *snapshot)
{
    return &snapshot->manifest.info;
}

size_t weir_snapshot_part_count(const struct weir_snapshot *snapshot)
{
    return snapshot->manifest.part_count;
}

const struct weir_snapshot_part *weir_snapshot_part(const struct weir_snapshot *snapshot, size_t i)
{
    assert(i < snapshot->manifest.part_count);
    return &snapshot->manifest.parts[i];
}

/* ---- reading */

/* Opens a part that is not open, and closes the one that was opened first if there are many. */
static bool open_part(struct weir_snapshot *snapshot, uint32_t part, const char *path, struct weir_error *err)
{
    uint64_t bytes;
    const char *why;
    if (snapshot->fds[part] >= 0)
        return true;
    uint32_t *slot = &snapshot->open[snapshot->next];
    if (*slot) {
        close(snapshot->fds[*slot - 1]);
        snapshot->fds[*slot - 1] = -1;
        *slot = 0;
    }
    snapshot->fds[part] = weir_file_open(path, &bytes, &why);
    if (snapshot->fds[part] < 0)
        return weir_error_set(err, "cannot read %s: %s; check the path and who may read it", path, why);
    *slot = part + 1;
    snapshot->next = (snapshot->next + 1) % OPEN_MAX;
    return true;
}

static bool read_part(struct weir_snapshot *snapshot, uint32_t part, uint64_t at, void *bytes, size_t count,
                      struct weir_error *err)
{
    char *path = weir_snapshot_path(snapshot->folder, snapshot->manifest.parts[part].name);
    bool done =
        open_part(snapshot, part, path, err) && weir_file_read_at(snapshot->fds[part], path, at, bytes, count, err);
    free(path);
    return done;
}

bool weir_snapshot_read(struct weir_snapshot *snapshot, size_t row, uint64_t first, size_t count, float *values,
                        struct weir_error *err)
{
    const struct weir_snapshot_layout *layout = &snapshot->manifest.info.layout;
    assert(row <= layout->slot_count && first <= layout->flat_elements && count <= layout->flat_elements - first);
    while (count > 0) {
        uint64_t chunk = first / layout->chunk_elements, within = first % layout->chunk_elements;
        uint64_t elements = weir_snapshot_elements(layout, chunk), rest = elements - within;
        size_t part_of = count < rest ? count : (size_t)rest;
        const struct weir_snapshot_place *place = &snapshot->places[chunk];
        if (!read_part(snapshot, place->part - 1, place->rows + (row * elements + within) * sizeof *values, values,
                       part_of * sizeof *values, err))
            return false;
        values += part_of;
        first += part_of;
        count -= part_of;
    }
    return true;
}

bool weir_snapshot_read_clocks(struct weir_snapshot *snapshot, uint32_t chunk, uint64_t *clocks, struct weir_error *err)
{
    const struct weir_snapshot_info *info = &snapshot->manifest.info;
    assert(info->layout.clocks && chunk < weir_snapshot_chunks(&info->layout));
    const struct weir_snapshot_place *place = &snapshot->places[chunk];
    return read_part(snapshot, place->part - 1, place->clocks, clocks, info->replicas * sizeof *clocks, err);
}

/* ---- verifying */

static bool digest_part(struct weir_snapshot *snapshot, uint32_t part, char hex[WEIR_DIGEST_HEX],
                        struct weir_error *err)
{
    uint64_t bytes = snapshot->manifest.parts[part].bytes, at = 0;
    char *buffer = weir_alloc(VERIFY_BYTES, 1, "verifying a snapshot");
    struct weir_digest *digest = weir_digest_new();
    bool done = true;
    while (done && at < bytes) {
        size_t count = bytes - at < VERIFY_BYTES ? (size_t)(bytes - at) : VERIFY_BYTES;
        done = read_part(snapshot, part, at, buffer, count, err);
        weir_digest_add(digest, buffer, count);
        at += count;
    }
    weir_digest_end(digest, hex);
    free(buffer);
    return done;
}

bool weir_snapshot_verify_part(struct weir_snapshot *snapshot, size_t i, struct weir_error *err)
{
    char hex[WEIR_DIGEST_HEX];
    const struct weir_snapshot_part *part = weir_snapshot_part(snapshot, i);
    if (!digest_part(snapshot, (uint32_t)i, hex, err))
        return weir_error_wrap(err, "%s/%s", snapshot->folder, snapshot->name);
    return strcmp(hex, part->sha256) == 0 ||
           weir_error_set(err, "%s/%s: its part %s/%s is damaged: its SHA-256 is %s, not %s", snapshot->folder,
                          snapshot->name, snapshot->folder, part->name, hex, part->sha256);
}

bool weir_snapshot_verify(struct weir_snapshot *snapshot, struct weir_error *err)
{
    for (size_t i = 0; i < snapshot->manifest.part_count; i++)
        if (!weir_snapshot_verify_part(snapshot, i, err))
            return false;
    return true;
}
