/* Snapshots: the state of a job after a step, in a folder that all nodes share. docs/snapshots.md has the format.
 *
 * Each parameter server writes its chunks to a file of its own, a part; the chief then writes a manifest that names
 * the parts, and only the manifest makes the snapshot exist. No file is ever written over another one. Snapshots are
 * ordered by generation, then step. Nothing in the folder is trusted: what is torn, damaged or another job's is refused
 * by name and with the reason.
 *
 * Any thread; one owner per part, snapshot and list. Errors name the file or folder. Memory: a part takes no more than
 * its header, an open snapshot a small multiple of its manifest and of its number of chunks.
 */
#ifndef WEIR_STORAGE_SNAPSHOT_H
#define WEIR_STORAGE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"
#include "protocol/message.h"

#define WEIR_SNAPSHOT_NAME_BYTES 160
#define WEIR_SNAPSHOT_SLOTS_MAX 16
#define WEIR_SNAPSHOT_FILES_MAX 4096
#define WEIR_SNAPSHOT_CHUNKS_MAX ((uint64_t)1 << 22)
#define WEIR_SNAPSHOT_RECORD_BYTES_MAX ((size_t)4 << 20)
#define WEIR_SNAPSHOT_MANIFEST_BYTES_MAX ((size_t)64 << 20)

/* ---- what a snapshot says of itself */

/* Where the elements of the model lie. Equal layouts may differ in chunk_elements. */
struct weir_snapshot_layout {
    uint64_t flat_elements;  /* floats of the flat parameter space, > 0 */
    uint32_t chunk_elements; /* floats in every chunk but the last, > 0 */
    const struct weir_view_variable *variables;
    size_t variable_count;
    const char *const *slots; /* names of the optimizer's slots: row s + 1 of a chunk is slot s, row 0 the weights */
    size_t slot_count;        /* <= WEIR_SNAPSHOT_SLOTS_MAX */
    bool clocks;              /* each chunk has a clock per replica, too */
};

struct weir_snapshot_info {
    const char *job;       /* its name */
    const char *hash;      /* of the job: 64 hexadecimal digits */
    const char *canonical; /* the job's keys, so that a refusal can name those that differ */
    uint64_t generation;   /* in which it was written */
    uint64_t step;         /* the version of all chunks: the number of steps applied */
    uint32_t replicas;     /* R, > 0 */
    struct weir_snapshot_layout layout;
    const void *record; /* the record of `step`, as the caller writes it: opaque here */
    size_t record_bytes;
};

/* A part that is written and synced, as its writer reports it to the chief. */
struct weir_snapshot_part {
    char name[WEIR_SNAPSHOT_NAME_BYTES]; /* in the folder */
    uint64_t bytes;
    char sha256[WEIR_DIGEST_HEX];
};

/* ---- the folder */

/* Makes the folder if only it is missing, and tries whether files can be made and synced there; leaves nothing else.
 * For the start of every process that will write: the error says path, reason and what to do. */
bool weir_snapshot_folder_check(const char *folder, struct weir_error *err);

struct weir_snapshot_entry {
    char name[WEIR_SNAPSHOT_NAME_BYTES]; /* of the manifest */
    uint64_t generation, step;
};

struct weir_snapshot_list {
    struct weir_snapshot_entry *entries; /* the newest first */
    size_t count;
};

/* All manifests, by name alone, of any job. No folder: none. The list is freed with weir_snapshot_list_free. */
bool weir_snapshot_list(const char *folder, struct weir_snapshot_list *list, struct weir_error *err);
void weir_snapshot_list_free(struct weir_snapshot_list *list);

/* One more than any generation of this job that left a file there, whole or not; 0 if none did. */
bool weir_snapshot_next_generation(const char *folder, const char *hash, uint64_t *generation, struct weir_error *err);

/* Removes what is not needed any more: this job's snapshots but for the `keep` (> 0) newest that are usable, and what
 * abandoned attempts at them or before them left. A snapshot that is not usable does not count among those kept, and is
 * removed with what is older than they. Other jobs' files and names that weir does not write are left alone. *removed:
 * the number of files. Syncs the folder before it removes anything, so that what stays is there after a crash, and may
 * itself be cut short anywhere. */
bool weir_snapshot_prune(const char *folder, const char *hash, size_t keep, size_t *removed, struct weir_error *err);

/* ---- writing a part */

struct weir_snapshot_writer;

/* Begins the part that holds `chunks` (> 0 of them, each once), under a name that no other attempt has. Of `info`
 * canonical and record are not used. Nothing is kept of the arguments. */
struct weir_snapshot_writer *weir_snapshot_part_begin(const char *folder, const struct weir_snapshot_info *info,
                                                      const uint32_t *chunks, size_t chunk_count,
                                                      struct weir_error *err);

/* The next chunk, in the order of `chunks`: rows[0] its weights, rows[s + 1] slot s, each as long as the chunk;
 * `clocks`: one per replica if the layout has them, else NULL. The memory is free again when this returns. After false
 * only weir_snapshot_part_abandon may follow. */
bool weir_snapshot_part_add(struct weir_snapshot_writer *writer, const float *const *rows, const uint64_t *clocks,
                            struct weir_error *err);

/* After the last chunk: syncs the file and its folder, fills *part. Frees the writer in any case. */
bool weir_snapshot_part_finish(struct weir_snapshot_writer *writer, struct weir_snapshot_part *part,
                               struct weir_error *err);

/* Removes what was written and frees the writer; NULL is allowed. */
void weir_snapshot_part_abandon(struct weir_snapshot_writer *writer);

/* ---- making it exist */

/* Writes the manifest of these parts, synced, and the folder too. Refused (and nothing written) if a manifest of this
 * job with this or a larger (generation, step) is there, if a part cannot be seen from here, is not what was reported
 * or of another attempt, or if a chunk is in none of them; one that is in several is read from the first. `name` (of
 * WEIR_SNAPSHOT_NAME_BYTES, or NULL): the manifest's. After true it outlives a crash; older ones may go. */
bool weir_snapshot_publish(const char *folder, const struct weir_snapshot_info *info,
                           const struct weir_snapshot_part *parts, size_t part_count, char *name,
                           struct weir_error *err);

/* ---- reading */

struct weir_snapshot;

/* What a snapshot must be of; all zero: any. */
struct weir_snapshot_wanted {
    const char *hash;                          /* the job's; NULL: any */
    const char *canonical;                     /* its keys, to name differences; may be NULL */
    const struct weir_snapshot_layout *layout; /* NULL: any */
    bool verify;                               /* reads all of it, and compares the digests */
};

/* Told of each snapshot that is not taken, the newest first; `reason` names it. */
typedef void weir_snapshot_refused(void *context, const char *name, const char *reason);

/* The newest that can be used, in *snapshot; NULL there if there is none. False if the folder cannot be read. While
 * another process writes and prunes there, it begins again where what it was about to take is gone (and tells of those
 * that it refuses again). */
bool weir_snapshot_find(const char *folder, const struct weir_snapshot_wanted *wanted, weir_snapshot_refused *refused,
                        void *context, struct weir_snapshot **snapshot, struct weir_error *err);

/* The snapshot of that manifest; NULL with `err` set if it is not whole: the manifest is checked by its digest, each
 * part's length and header, and that every chunk is there. */
struct weir_snapshot *weir_snapshot_open(const char *folder, const char *name, struct weir_error *err);
void weir_snapshot_close(struct weir_snapshot *snapshot); /* NULL is allowed */

/* Valid until it is closed. */
const char *weir_snapshot_name(const struct weir_snapshot *snapshot);
const struct weir_snapshot_info *weir_snapshot_info(const struct weir_snapshot *snapshot);
size_t weir_snapshot_part_count(const struct weir_snapshot *snapshot);
const struct weir_snapshot_part *weir_snapshot_part(const struct weir_snapshot *snapshot, size_t i);

/* Reads part i and compares its digest; in little memory. Several processes may share this work. */
bool weir_snapshot_verify_part(struct weir_snapshot *snapshot, size_t i, struct weir_error *err);
bool weir_snapshot_verify(struct weir_snapshot *snapshot, struct weir_error *err); /* all of them */

/* Elements [first, first + count) of the flat parameter space, whatever chunks and parts they are in: row 0 the
 * weights, row s + 1 slot s. The range must lie in the layout (asserted). */
bool weir_snapshot_read(struct weir_snapshot *snapshot, size_t row, uint64_t first, size_t count, float *values,
                        struct weir_error *err);

/* The clocks of a chunk of the snapshot's own layout, one per replica; only if the layout has clocks (asserted). */
bool weir_snapshot_read_clocks(struct weir_snapshot *snapshot, uint32_t chunk, uint64_t *clocks,
                               struct weir_error *err);

#endif
