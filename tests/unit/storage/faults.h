/* A disk that fails, a process that dies, a machine that loses its power: at the n-th call, for tests that are linked
 * with --wrap for the calls below (tests/CMakeLists.txt).
 *
 * No call syncs anything here: what is not synced is known, and is taken away when the power is lost. Data that was
 * not synced is cut off; an entry of a folder (a file's new name) that was not synced stays or goes, as the test says,
 * for a file system may do either. What was removed is gone. */
#ifndef WEIR_TESTS_STORAGE_FAULTS_H
#define WEIR_TESTS_STORAGE_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FAULT_FILES 64
#define FAULT_EXIT 77

enum fault_kind { FAULT_NONE, FAULT_FAILS, FAULT_DIES, FAULT_POWER_NAMES_STAY, FAULT_POWER_NAMES_GO };

struct fault_file {
    char path[PATH_BYTES], before[PATH_BYTES]; /* before: its name on the disk, if the folder was not synced since */
    int fd;                                    /* -1: closed */
    off_t synced;                              /* bytes that the disk has */
};

static struct {
    bool armed;
    enum fault_kind kind;
    int at, error;       /* the n-th call, from 1 on; errno of FAULT_FAILS */
    int count;           /* calls so far */
    bool no_rename;      /* renameat2 is not known here */
    bool file_sync_lies; /* says that data is synced, and does nothing */
    bool folder_sync_lies;
    bool stutters; /* writes are interrupted, and write a little */
    char trace[8192];
    struct fault_file files[FAULT_FILES];
    int file_count;
} faults;

int __real_open(const char *path, int flags, ...);
int __real_close(int fd);
int __real_unlink(const char *path);
int __real_link(const char *from, const char *to);
ssize_t __real_write(int fd, const void *bytes, size_t count);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);
int __wrap_fsync(int fd);
int __wrap_unlink(const char *path);
int __wrap_link(const char *from, const char *to);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);

static inline struct fault_file *fault_find(const char *path, int fd)
{
    for (int i = 0; i < faults.file_count; i++)
        if (path ? strcmp(faults.files[i].path, path) == 0 : faults.files[i].fd == fd)
            return &faults.files[i];
    return NULL;
}

/* What the disk has once the power is back. */
static inline void fault_lose_power(bool names_stay)
{
    for (int i = 0; i < faults.file_count; i++) {
        struct fault_file *file = &faults.files[i];
        struct stat status;
        if (stat(file->path, &status) != 0)
            continue; /* removed */
        if (status.st_size > file->synced && truncate(file->path, file->synced) != 0)
            abort();
        if (!names_stay && file->before[0] && rename(file->path, file->before) != 0)
            abort();
    }
}

/* Counts the call; true if it shall fail. "open" and the like with the kind of file: what tests compare. */
static inline bool fault_here(const char *call, const char *path)
{
    if (!faults.armed)
        return false;
    const char *what = !path                          ? "folder"
                       : strstr(path, ".json")        ? "manifest"
                       : strstr(path, ".safetensors") ? "part"
                                                      : "folder";
    char line[64];
    snprintf(line, sizeof line, "%s %s\n", call, what);
    size_t length = strlen(faults.trace), last = strlen(line);
    if (length < last || strcmp(faults.trace + length - last, line) != 0) /* repeats are told once */
        snprintf(faults.trace + length, sizeof faults.trace - length, "%s", line);
    if (++faults.count != faults.at || faults.kind == FAULT_NONE)
        return false;
    if (faults.kind == FAULT_FAILS) {
        errno = faults.error;
        return true;
    }
    if (faults.kind != FAULT_DIES)
        fault_lose_power(faults.kind == FAULT_POWER_NAMES_STAY);
    _exit(FAULT_EXIT);
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    bool writes = flags & O_CREAT;
    if (writes && fault_here("create", path))
        return -1;
    if (!writes && !(flags & O_DIRECTORY) && fault_here("read", path))
        return -1;
    int fd = __real_open(path, flags, mode);
    if (faults.armed && fd >= 0 && writes) {
        if (faults.file_count == FAULT_FILES)
            abort();
        struct fault_file *file = &faults.files[faults.file_count++];
        *file = (struct fault_file){.fd = fd};
        snprintf(file->path, sizeof file->path, "%s", path);
    }
    return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    const struct fault_file *file = fault_find(NULL, fd);
    if (!faults.armed || !file) /* not what is tested */
        return __real_write(fd, bytes, count);
    if (fault_here("write", file->path))
        return -1;
    if (faults.stutters && faults.count % 2) {
        errno = EINTR;
        return -1;
    }
    return __real_write(fd, bytes, faults.stutters && count > 7 ? 7 : count);
}

static inline void fault_folder_synced(void)
{
    for (int i = 0; i < faults.file_count; i++)
        faults.files[i].before[0] = '\0';
}

int __wrap_fsync(int fd)
{
    struct fault_file *file = fault_find(NULL, fd);
    if (!faults.armed)
        return 0;
    if (fault_here("sync", file ? file->path : NULL))
        return -1;
    if (file && !faults.file_sync_lies)
        file->synced = lseek(fd, 0, SEEK_END);
    else if (!file && !faults.folder_sync_lies)
        fault_folder_synced();
    return 0;
}

int __wrap_close(int fd)
{
    struct fault_file *file = fault_find(NULL, fd);
    if (faults.armed && file) {
        file->fd = -1;
        if (fault_here("close", file->path)) {
            __real_close(fd);
            return -1;
        }
    }
    return __real_close(fd);
}

int __wrap_unlink(const char *path)
{
    if (fault_here("remove", path))
        return -1;
    return __real_unlink(path);
}

static inline void fault_renamed(const char *from, const char *to)
{
    struct fault_file *file = fault_find(from, -1);
    if (!file)
        return;
    snprintf(file->before, sizeof file->before, "%s", from);
    snprintf(file->path, sizeof file->path, "%s", to);
}

int __wrap_link(const char *from, const char *to)
{
    if (fault_here("link", to) || __real_link(from, to) != 0)
        return -1;
    if (faults.armed)
        fault_renamed(from, to);
    return 0;
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (fault_here("rename", to))
        return -1;
    if (faults.no_rename) {
        errno = EINVAL;
        return -1;
    }
    if (__real_renameat2(from_fd, from, to_fd, to, flags) != 0)
        return -1;
    if (faults.armed)
        fault_renamed(from, to);
    return 0;
}

#endif
