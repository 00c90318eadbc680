/* Files for the tests of this folder, in a folder of their own that is removed at the end. */
#ifndef TEST_TEMP_FILES_H
#define TEST_TEMP_FILES_H

#include <assert.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct temp_files {
    char folder[64];
    char path[128]; /* of the file written last */
};

static inline void temp_files_begin(struct temp_files *t)
{
    snprintf(t->folder, sizeof t->folder, "/tmp/weir-test-XXXXXX");
    char *made = mkdtemp(t->folder);
    assert(made);
    (void)made;
}

static inline void temp_files_end(struct temp_files *t)
{
    DIR *dir = opendir(t->folder);
    assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(t->folder);
}

static inline const char *temp_files_write(struct temp_files *t, const char *name, const void *bytes, size_t count)
{
    snprintf(t->path, sizeof t->path, "%s/%s", t->folder, name);
    FILE *file = fopen(t->path, "wb");
    assert(file);
    size_t written = fwrite(bytes, 1, count, file);
    assert(written == count);
    (void)written;
    fclose(file);
    return t->path;
}

static inline const char *temp_files_gzip(struct temp_files *t, const char *name, const void *bytes, size_t count)
{
    snprintf(t->path, sizeof t->path, "%s/%s", t->folder, name);
    gzFile file = gzopen(t->path, "wb9");
    assert(file);
    if (count)
        gzwrite(file, bytes, (unsigned)count);
    gzclose(file);
    return t->path;
}

/* An IDX header; returns its length. */
static inline size_t idx_header(unsigned char *out, unsigned type, size_t dims, const uint32_t *dim)
{
    memcpy(out, (unsigned char[]){0, 0, (unsigned char)type, (unsigned char)dims}, 4);
    for (size_t i = 0; i < dims; i++)
        for (size_t b = 0; b < 4; b++)
            out[4 + 4 * i + b] = (unsigned char)(dim[i] >> (24 - 8 * b));
    return 4 + 4 * dims;
}

#endif
