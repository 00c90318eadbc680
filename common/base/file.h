/* Files that others name: opened without waiting for anybody. */
#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <stdint.h>

/* Opens a regular file for reading and tells its size: a descriptor that the caller closes, or -1 and *why ("it is a
 * folder", "No such file or directory"; valid until the next call). A pipe or a device is refused: it could make its
 * reader wait, or never end. */
int weir_file_open(const char *path, uint64_t *bytes, const char **why);

#endif
