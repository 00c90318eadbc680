/* The text of a manifest, made and parsed. Pure; private to the library (and to its fuzzer). */
#ifndef WEIR_STORAGE_SNAPSHOT_MANIFEST_H
#define WEIR_STORAGE_SNAPSHOT_MANIFEST_H

#include "base/text.h"
#include "storage/snapshot.h"

#define WEIR_SNAPSHOT_VERSION 1

struct weir_manifest {
    struct weir_snapshot_info info; /* what it points at belongs to the manifest */
    struct weir_snapshot_part *parts;
    size_t part_count;
};

/* The text, which ends with its own digest. False only if it would be over the limit; `text` is the caller's to free,
 * also then. */
bool weir_manifest_make(const struct weir_snapshot_info *info, const struct weir_snapshot_part *parts,
                        size_t part_count, struct weir_text *text, struct weir_error *err);

/* Parses what weir_manifest_make wrote and checks it: digest, version, names, sizes, all numbers against each other.
 * Memory is a small multiple of `count`. The error does not name the file. weir_manifest_free is needed also after
 * false. */
bool weir_manifest_parse(struct weir_manifest *manifest, const char *text, size_t count, struct weir_error *err);
void weir_manifest_free(struct weir_manifest *manifest);

#endif
