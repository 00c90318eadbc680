#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "storage/snapshot_map.h"
#include "storage/snapshot_name.h"
#include "storage/storage_file.h"

/* This job's files, the newest first, and which of them stay. */
struct pruning {
    const char *folder;
    struct weir_snapshot_file *files;
    size_t count;
    bool *stays;
    const struct weir_snapshot_file *newest; /* manifest that is usable; NULL: none is */
    char **needed;                           /* the parts of the manifests that stay, sorted */
    size_t needed_count, needed_room;
    size_t removed;
};

static int newest_first(const void *a, const void *b)
{
    const struct weir_snapshot_file *x = a, *y = b;
    int order = weir_snapshot_order(y->generation, y->step, x->generation, x->step);
    return order ? order : strcmp(x->name, y->name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- what stays */

static void need(struct pruning *pruning, const char *name)
{
    if (pruning->needed_count == pruning->needed_room) {
        size_t room = pruning->needed_room ? 2 * pruning->needed_room : 16;
        char **larger = weir_alloc(room, sizeof *larger, "the parts of snapshots");
        if (pruning->needed_count)
            memcpy(larger, pruning->needed, pruning->needed_count * sizeof *larger);
        free(pruning->needed);
        pruning->needed = larger;
        pruning->needed_room = room;
    }
    pruning->needed[pruning->needed_count++] = weir_strdup(name);
}

/* The parts of a manifest that cannot be read are not known: those of its name stay. */
static void need_all_of(struct pruning *pruning, const struct weir_snapshot_file *manifest)
{
    for (size_t i = 0; i < pruning->count; i++)
        if (pruning->files[i].kind == WEIR_SNAPSHOT_PART && pruning->files[i].generation == manifest->generation &&
            pruning->files[i].step == manifest->step)
            need(pruning, pruning->files[i].name);
}

/* Keeps a manifest and its parts; true if it is usable, as far as lengths tell. */
static bool keep_manifest(struct pruning *pruning, const struct weir_snapshot_file *file)
{
    struct weir_manifest manifest;
    struct weir_error unused;
    if (!weir_snapshot_load(pruning->folder, file->name, &manifest, &unused)) {
        need_all_of(pruning, file);
        return false;
    }
    for (size_t i = 0; i < manifest.part_count; i++)
        need(pruning, manifest.parts[i].name);
    bool usable = weir_snapshot_present(pruning->folder, manifest.parts, manifest.part_count, &unused);
    weir_manifest_free(&manifest);
    return usable;
}

static void decide_manifests(struct pruning *pruning, size_t keep)
{
    size_t usable = 0;
    for (size_t i = 0; i < pruning->count && usable < keep; i++) {
        const struct weir_snapshot_file *file = &pruning->files[i];
        if (file->kind != WEIR_SNAPSHOT_MANIFEST)
            continue;
        pruning->stays[i] = true;
        if (!keep_manifest(pruning, file))
            continue;
        usable++;
        if (!pruning->newest)
            pruning->newest = file;
    }
    if (pruning->needed_count)
        qsort(pruning->needed, pruning->needed_count, sizeof *pruning->needed, by_text);
}

/* What is newer than the newest snapshot may belong to the next one. */
static void decide_others(struct pruning *pruning)
{
    for (size_t i = 0; i < pruning->count; i++) {
        const struct weir_snapshot_file *file = &pruning->files[i];
        const char *name = file->name;
        if (file->kind == WEIR_SNAPSHOT_MANIFEST)
            continue;
        bool newer =
            weir_snapshot_order(file->generation, file->step, pruning->newest->generation, pruning->newest->step) > 0;
        bool needed = pruning->needed_count > 0 &&
                      bsearch(&name, pruning->needed, pruning->needed_count, sizeof *pruning->needed, by_text);
        pruning->stays[i] = newer || needed;
    }
}

/* ---- what goes */

/* Goes on after an error, and tells the first one. */
static bool remove_file(struct pruning *pruning, const char *name, bool good, struct weir_error *err)
{
    char *path = weir_snapshot_path(pruning->folder, name);
    int failed = unlink(path) == 0 ? 0 : errno;
    pruning->removed += !failed;
    if (failed && failed != ENOENT && good)
        good = weir_error_set(err, "cannot remove %s, which is not needed any more: %s; allow writing in its folder",
                              path, strerror(failed));
    free(path);
    return good;
}

/* Manifests before their parts, so that no manifest is ever without them; what stays is on the disk before. */
static bool remove_all(struct pruning *pruning, struct weir_error *err)
{
    if (!weir_folder_sync(pruning->folder, err))
        return false;
    bool good = true;
    for (size_t i = 0; i < pruning->count; i++)
        if (!pruning->stays[i] && pruning->files[i].kind == WEIR_SNAPSHOT_MANIFEST)
            good = remove_file(pruning, pruning->files[i].name, good, err);
    if (!good || (pruning->removed > 0 && !weir_folder_sync(pruning->folder, err)))
        return false;
    for (size_t i = 0; i < pruning->count; i++)
        if (!pruning->stays[i] && pruning->files[i].kind != WEIR_SNAPSHOT_MANIFEST)
            good = remove_file(pruning, pruning->files[i].name, good, err);
    return good;
}

static size_t select_own(struct weir_snapshot_file *files, size_t count, const char *hash)
{
    size_t own = 0;
    for (size_t i = 0; i < count; i++)
        if (weir_snapshot_name_of_job(&files[i], hash))
            files[own++] = files[i];
    return own;
}

bool weir_snapshot_prune(const char *folder, const char *hash, size_t keep, size_t *removed, struct weir_error *err)
{
    struct pruning pruning = {.folder = folder};
    assert(keep > 0);
    *removed = 0;
    if (!weir_snapshot_scan(folder, &pruning.files, &pruning.count, err))
        return false;
    pruning.count = select_own(pruning.files, pruning.count, hash);
    pruning.stays = weir_alloc(pruning.count + 1, sizeof *pruning.stays, "a folder's files");
    bool good = true;
    if (pruning.count > 0) {
        qsort(pruning.files, pruning.count, sizeof *pruning.files, newest_first);
        decide_manifests(&pruning, keep);
    }
    if (pruning.newest) {
        decide_others(&pruning);
        good = remove_all(&pruning, err);
    }
    *removed = pruning.removed;
    for (size_t i = 0; i < pruning.needed_count; i++)
        free(pruning.needed[i]);
    free(pruning.needed);
    free(pruning.stays);
    free(pruning.files);
    return good;
}
