/* Which part holds which chunk, and where: what opening and publishing check. Private to the library. */
#ifndef WEIR_STORAGE_SNAPSHOT_MAP_H
#define WEIR_STORAGE_SNAPSHOT_MAP_H

#include "storage/snapshot_manifest.h"

struct weir_snapshot_place {
    uint64_t rows, clocks; /* bytes from the file's beginning; 0: not there */
    uint32_t part;         /* its number + 1; 0: none has the chunk */
};

/* Reads the manifest of that name and compares what it says of itself with the name. weir_manifest_free is needed only
 * after true. */
bool weir_snapshot_load(const char *folder, const char *name, struct weir_manifest *manifest, struct weir_error *err);

/* Whether all parts are there, as long as they should be: cheap. */
bool weir_snapshot_present(const char *folder, const struct weir_snapshot_part *parts, size_t part_count,
                           struct weir_error *err);

/* The places of all chunks, by number, which the caller frees; NULL if a part is not what it should be (its header is
 * read, not its data), or if a chunk is missing. */
struct weir_snapshot_place *weir_snapshot_map(const char *folder, const struct weir_snapshot_info *info,
                                              const struct weir_snapshot_part *parts, size_t part_count,
                                              struct weir_error *err);

#endif
