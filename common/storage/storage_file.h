/* A file that appears whole or not at all.
 *
 * It is written under a name of its own in the same folder, synced, renamed over the path, and the folder is synced. So
 * whoever opens the path sees the old file or the new one, also after a crash. A path that names no regular file (a
 * device, a pipe) is written as it is. One owner per file being written; any thread. Errors name the path.
 */
#ifndef WEIR_STORAGE_STORAGE_FILE_H
#define WEIR_STORAGE_STORAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

struct weir_file;

/* Whether a file can be made there: tries, and leaves nothing. */
bool weir_file_check(const char *path, struct weir_error *err);

/* Begins a file; NULL with `err` set if it cannot be made there. */
struct weir_file *weir_file_create(const char *path, struct weir_error *err);

/* Appends bytes. After false only weir_file_abandon may follow. */
bool weir_file_append(struct weir_file *file, const void *bytes, size_t count, struct weir_error *err);

/* Makes the file appear, and frees `file` in any case; after false the path is as it was. (Only a failure to sync the
 * folder leaves the new file there: then it may be lost again in a crash.) */
bool weir_file_commit(struct weir_file *file, struct weir_error *err);

/* The same, but never in the place of another file: if one is there, false, and it stays as it is. */
bool weir_file_commit_new(struct weir_file *file, struct weir_error *err);

/* Removes what was written, and frees `file`; NULL is allowed. The path is as it was. */
void weir_file_abandon(struct weir_file *file);

/* All three at once: the file is the slices, one behind the other. */
bool weir_file_save(const char *path, const struct weir_slice *slices, size_t slice_count, struct weir_error *err);

/* Reads `count` bytes from `at` on of a file that is open; `path` names it in errors. */
bool weir_file_read_at(int fd, const char *path, uint64_t at, void *bytes, size_t count, struct weir_error *err);

/* Syncs a folder, so that what was made, renamed or removed in it outlives a crash. */
bool weir_folder_sync(const char *folder, struct weir_error *err);

#endif
