/* The parts of loading a job that only this folder knows. */
#ifndef WEIR_CONFIG_JOB_H
#define WEIR_CONFIG_JOB_H

#include "config/report.h"
#include "config/tree.h"

#define WEIR_JOB_BYTES_MAX ((size_t)1 << 20)
#define WEIR_MODEL_BYTES_MAX ((size_t)64 << 20)

/* Reads a whole file of at most `limit` bytes; NULL, and *why ("is empty"), if that can't be. The caller frees it; a
 * zero byte stands behind the last one. */
char *weir_file_read(const char *path, size_t limit, size_t *bytes, const char **why);
/* `path` as seen from the folder of the file `from`, unless it is absolute. The caller frees it. */
char *weir_path_beside(const char *from, const char *path);
/* The last part of a path. */
const char *weir_path_base(const char *path);

/* Puts a flag's value into the tree, in the place of what is there. */
void weir_override_apply(struct weir_node *root, const struct weir_override *override, struct weir_report *report);

/* Fills canonical and hash of a job that is complete. */
void weir_job_canonicalize(struct weir_job *job);

#endif
