#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "storage/snapshot_layout.h"
#include "storage/snapshot_map.h"
#include "storage/snapshot_name.h"
#include "storage/storage_file.h"

/* ---- at the start */

/* Everything that a snapshot needs of the file system: a file that is made, synced and given its name exclusively. */
static bool try_file(const char *path, struct weir_error *err)
{
    static const char text[] = "made by weir to see whether it can; remove it\n";
    struct weir_file *file = weir_file_create(path, err);
    if (!file)
        return false;
    if (!weir_file_append(file, text, sizeof text - 1, err)) {
        weir_file_abandon(file);
        return false;
    }
    bool done = weir_file_commit_new(file, err);
    unlink(path);
    return done;
}

bool weir_snapshot_folder_check(const char *folder, struct weir_error *err)
{
    char name[48];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return weir_error_set(err, "cannot make the folder for snapshots %s: %s; make it, or choose another one",
                              folder, strerror(errno));
    snprintf(name, sizeof name, ".weir-check-%016" PRIx64, weir_snapshot_draw());
    char *path = weir_snapshot_path(folder, name);
    bool good = try_file(path, err);
    free(path);
    return good || weir_error_wrap(err, "snapshots");
}

/* ---- what is there */

static int newest_first(const void *a, const void *b)
{
    const struct weir_snapshot_entry *x = a, *y = b;
    int order = weir_snapshot_order(y->generation, y->step, x->generation, x->step);
    return order ? order : strcmp(x->name, y->name);
}

bool weir_snapshot_list(const char *folder, struct weir_snapshot_list *list, struct weir_error *err)
{
    struct weir_snapshot_file *files;
    size_t count;
    *list = (struct weir_snapshot_list){0};
    if (!weir_snapshot_scan(folder, &files, &count, err))
        return false;
    list->entries = weir_alloc(count + 1, sizeof *list->entries, "a list of snapshots");
    for (size_t i = 0; i < count; i++) {
        if (files[i].kind != WEIR_SNAPSHOT_MANIFEST)
            continue;
        struct weir_snapshot_entry *entry = &list->entries[list->count++];
        memcpy(entry->name, files[i].name, sizeof entry->name);
        entry->generation = files[i].generation;
        entry->step = files[i].step;
    }
    qsort(list->entries, list->count, sizeof *list->entries, newest_first);
    free(files);
    return true;
}

void weir_snapshot_list_free(struct weir_snapshot_list *list)
{
    free(list->entries);
    *list = (struct weir_snapshot_list){0};
}

bool weir_snapshot_next_generation(const char *folder, const char *hash, uint64_t *generation, struct weir_error *err)
{
    struct weir_snapshot_file *files;
    size_t count;
    if (!weir_snapshot_scan(folder, &files, &count, err))
        return false;
    *generation = 0;
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        if (!weir_snapshot_name_of_job(&files[i], hash) || files[i].generation < *generation)
            continue;
        good = files[i].generation < UINT64_MAX ||
               weir_error_set(err, "%s/%s: no generation is larger; remove the file", folder, files[i].name);
        *generation = files[i].generation + 1;
    }
    free(files);
    return good;
}

/* ---- making a snapshot exist */

static bool check_newest(const char *folder, const struct weir_snapshot_info *info, struct weir_error *err)
{
    struct weir_snapshot_file *files;
    size_t count;
    if (!weir_snapshot_scan(folder, &files, &count, err))
        return false;
    bool good = true;
    for (size_t i = 0; i < count && good; i++)
        if (files[i].kind == WEIR_SNAPSHOT_MANIFEST && weir_snapshot_name_of_job(&files[i], info->hash) &&
            weir_snapshot_order(files[i].generation, files[i].step, info->generation, info->step) >= 0)
            good = weir_error_set(err,
                                  "no snapshot of generation %" PRIu64 ", step %" PRIu64 " is made: %s/%s is not older",
                                  info->generation, info->step, folder, files[i].name);
    free(files);
    return good;
}

/* A manifest that would be refused is never written: it is parsed before it is. */
static bool check_text(const struct weir_text *text, struct weir_error *err)
{
    struct weir_manifest manifest;
    bool good = weir_manifest_parse(&manifest, text->bytes, text->length, err);
    weir_manifest_free(&manifest);
    return good;
}

static bool write_manifest(const char *path, const struct weir_text *text, struct weir_error *err)
{
    struct weir_file *file = weir_file_create(path, err);
    if (!file)
        return false;
    if (weir_file_append(file, text->bytes, text->length, err))
        return weir_file_commit_new(file, err);
    weir_file_abandon(file);
    return false;
}

bool weir_snapshot_publish(const char *folder, const struct weir_snapshot_info *info,
                           const struct weir_snapshot_part *parts, size_t part_count, char *name,
                           struct weir_error *err)
{
    char its_name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_text text = {0};
    weir_snapshot_name_manifest(its_name, info->hash, info->generation, info->step);
    char *path = weir_snapshot_path(folder, its_name);
    bool good = weir_manifest_make(info, parts, part_count, &text, err) && check_text(&text, err) &&
                check_newest(folder, info, err);
    if (good) {
        struct weir_snapshot_place *places = weir_snapshot_map(folder, info, parts, part_count, err);
        good = places != NULL;
        free(places);
    }
    if (!good)
        weir_error_wrap(err, "cannot write %s", path);
    good = good && write_manifest(path, &text, err);
    free(text.bytes);
    free(path);
    if (good && name)
        memcpy(name, its_name, sizeof its_name);
    return good;
}
