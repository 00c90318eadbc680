/* Files that a user names in other files: read whole, within a limit, and found beside the file that names them. */
#ifndef WEIR_CONFIG_FILE_H
#define WEIR_CONFIG_FILE_H

#include <stddef.h>

#define WEIR_JOB_BYTES_MAX ((size_t)1 << 20)
#define WEIR_MODEL_BYTES_MAX ((size_t)64 << 20)

/* Reads a whole file of at most `limit` bytes (one of the two above); NULL, and *why ("it is empty"), if that can't be.
 * The caller frees it; a zero byte stands behind the last one. */
char *weir_file_read(const char *path, size_t limit, size_t *bytes, const char **why);
/* `path` as seen from the folder of the file `from`, unless it is absolute. The caller frees it. */
char *weir_path_beside(const char *from, const char *path);
/* The last part of a path. */
const char *weir_path_base(const char *path);

#endif
