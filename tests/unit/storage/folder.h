/* A folder of its own for each test program, in the build tree. */
#ifndef WEIR_TESTS_STORAGE_FOLDER_H
#define WEIR_TESTS_STORAGE_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512

static char folder[PATH_BYTES];

static inline int folder_begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/storage-XXXXXX", WEIR_BINARY_DIR);
    return mkdtemp(folder) ? 0 : -1;
}

/* The files in the folder; removes them if asked. */
static inline int folder_files(bool removing)
{
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (removing)
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    closedir(entries);
    return count;
}

static inline int folder_end(void **state)
{
    (void)state;
    folder_files(true);
    return rmdir(folder);
}

static inline const char *in_folder(const char *name, char path[PATH_BYTES])
{
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    assert_true(length > 0 && length < PATH_BYTES);
    return path;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count)
{
    unlink(path); /* a file that is cut and written again goes to the disk at once, which takes milliseconds */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static inline size_t read_bytes(const char *path, void *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, most, file);
    fclose(file);
    return count;
}

#endif
