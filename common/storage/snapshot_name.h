/* The names of a snapshot's files. They say whose a file is and of which attempt, so that what is left over can be told
 * from what is another job's without opening it. Private to the library. */
#ifndef WEIR_STORAGE_SNAPSHOT_NAME_H
#define WEIR_STORAGE_SNAPSHOT_NAME_H

#include "storage/snapshot.h"

#define WEIR_SNAPSHOT_PREFIX_BYTES 13 /* the first digits of the job's hash, and the zero byte */
#define WEIR_SNAPSHOT_SEEN_MAX 262144 /* files of ours in a folder: more are an error */

enum weir_snapshot_kind { WEIR_SNAPSHOT_MANIFEST, WEIR_SNAPSHOT_PART, WEIR_SNAPSHOT_LEFTOVER };

/* A file, as its name tells it. */
struct weir_snapshot_file {
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    char prefix[WEIR_SNAPSHOT_PREFIX_BYTES];
    enum weir_snapshot_kind kind; /* LEFTOVER: one of the others, while it was written */
    uint64_t generation, step;
};

void weir_snapshot_name_manifest(char name[WEIR_SNAPSHOT_NAME_BYTES], const char *hash, uint64_t generation,
                                 uint64_t step);
/* A number that no other process draws, now or ever: so a name is never used twice. */
uint64_t weir_snapshot_draw(void);
/* `attempt`: drawn anew for each. */
void weir_snapshot_name_part(char name[WEIR_SNAPSHOT_NAME_BYTES], const char *hash, uint64_t generation, uint64_t step,
                             uint32_t first_chunk, uint64_t attempt);
/* False for what weir does not write. */
bool weir_snapshot_name_parse(const char *name, struct weir_snapshot_file *file);
bool weir_snapshot_name_of_job(const struct weir_snapshot_file *file, const char *hash);

/* folder/name; the caller frees it. */
char *weir_snapshot_path(const char *folder, const char *name);

/* By generation, then step: < 0 if a comes before b. */
int weir_snapshot_order(uint64_t a_generation, uint64_t a_step, uint64_t b_generation, uint64_t b_step);

/* All files in the folder that are ours by name, in no order; the caller frees *files. No folder: none. */
bool weir_snapshot_scan(const char *folder, struct weir_snapshot_file **files, size_t *count, struct weir_error *err);

#endif
