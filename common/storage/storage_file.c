#include "storage/storage_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define NAMES_TRIED 100 /* a process with our number may have died here before, in another container */
#define WRITE_BYTES_MAX ((size_t)1 << 30)
#define READ_BYTES_MAX ((size_t)1 << 30)

struct weir_file {
    char *path;
    char *temporary; /* NULL: the path is no regular file, and written as it is */
    int fd;
};

static bool fail(const char *path, struct weir_error *err)
{
    const char *advice = "choose another path";
    if (errno == ENOSPC || errno == EDQUOT)
        advice = "make room there, or choose another path";
    else if (errno == ENOENT)
        advice = "make its folder, or choose another path";
    else if (errno == EACCES || errno == EPERM || errno == EROFS)
        advice = "allow writing in its folder, or choose another path";
    return weir_error_set(err, "cannot write %s: %s; %s", path, strerror(errno), advice);
}

static bool is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static int open_temporary(struct weir_file *file)
{
    size_t bytes = strlen(file->path) + 64;
    file->temporary = weir_alloc(bytes, 1, "a file's name");
    for (int i = 0; i < NAMES_TRIED; i++) {
        snprintf(file->temporary, bytes, "%s.part-%ld-%d", file->path, (long)getpid(), i);
        int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static void release(struct weir_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->temporary);
    free(file->path);
    free(file);
}

struct weir_file *weir_file_create(const char *path, struct weir_error *err)
{
    struct weir_file *file = weir_alloc(1, sizeof *file, "a file being written");
    file->path = weir_strdup(path);
    file->fd = is_special(path) ? open(path, O_WRONLY | O_CLOEXEC) : open_temporary(file);
    if (file->fd >= 0)
        return file;
    fail(path, err);
    release(file);
    return NULL;
}

bool weir_file_check(const char *path, struct weir_error *err)
{
    if (is_special(path)) { /* to open and close it would be the end of it for who reads a pipe */
        struct stat status;
        if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
            errno = EISDIR;
            return fail(path, err);
        }
        return access(path, W_OK) == 0 || fail(path, err);
    }
    struct weir_file *file = weir_file_create(path, err);
    weir_file_abandon(file);
    return file != NULL;
}

bool weir_file_append(struct weir_file *file, const void *bytes, size_t count, struct weir_error *err)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t written = write(file->fd, at, count < WRITE_BYTES_MAX ? count : WRITE_BYTES_MAX);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail(file->path, err);
        at += written;
        count -= (size_t)written;
    }
    return true;
}

static bool sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A file system that cannot sync folders says EINVAL: it does what it can without. */
    bool done = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
    return done;
}

bool weir_folder_sync(const char *folder, struct weir_error *err)
{
    return sync_folder(folder) || weir_error_set(err,
                                                 "cannot sync the folder %s: %s; what was written there may be "
                                                 "lost in a crash",
                                                 folder, strerror(errno));
}

/* Syncs the folder that holds `path`, so that its new entry outlives a crash. */
static bool sync_folder_of(const char *path)
{
    char *folder = weir_strdup(path), *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder ? 1 : 0] = '\0';
    bool done = sync_folder(slash ? folder : ".");
    int saved = errno;
    free(folder);
    errno = saved;
    return done;
}

static bool close_checked(struct weir_file *file)
{
    int fd = file->fd;
    file->fd = -1;
    return close(fd) == 0;
}

/* A rename that fails where a file is. Network file systems may not know it; a second name is made there, in its place,
 * which fails likewise. */
static bool rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if ((errno != EINVAL && errno != ENOSYS) || link(from, to) != 0)
        return false;
    unlink(from); /* if it stays, it is a leftover like any other */
    return true;
}

/* Everything up to the moment when the path is the new file. */
static bool publish(struct weir_file *file, bool only_new)
{
    if (!file->temporary) {
        errno = EEXIST;
        return !only_new && close_checked(file);
    }
    return fsync(file->fd) == 0 && close_checked(file) &&
           (only_new ? rename_new(file->temporary, file->path) : rename(file->temporary, file->path) == 0);
}

static bool commit(struct weir_file *file, bool only_new, struct weir_error *err)
{
    if (!publish(file, only_new)) {
        fail(file->path, err);
        weir_file_abandon(file);
        return false;
    }
    bool done = !file->temporary || sync_folder_of(file->path) || fail(file->path, err);
    release(file);
    return done;
}

bool weir_file_commit(struct weir_file *file, struct weir_error *err)
{
    return commit(file, false, err);
}

bool weir_file_commit_new(struct weir_file *file, struct weir_error *err)
{
    return commit(file, true, err);
}

void weir_file_abandon(struct weir_file *file)
{
    if (!file)
        return;
    if (file->temporary)
        unlink(file->temporary);
    release(file);
}

bool weir_file_save(const char *path, const struct weir_slice *slices, size_t slice_count, struct weir_error *err)
{
    struct weir_file *file = weir_file_create(path, err);
    if (!file)
        return false;
    for (size_t i = 0; i < slice_count; i++)
        if (!weir_file_append(file, slices[i].bytes, slices[i].count, err)) {
            weir_file_abandon(file);
            return false;
        }
    return weir_file_commit(file, err);
}

bool weir_file_read_at(int fd, const char *path, uint64_t at, void *bytes, size_t count, struct weir_error *err)
{
    char *to = bytes;
    while (count > 0) {
        ssize_t got = pread(fd, to, count < READ_BYTES_MAX ? count : READ_BYTES_MAX, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weir_error_set(err, "cannot read %s: %s; check the path and who may read it", path, strerror(errno));
        if (got == 0)
            return weir_error_set(err, "%s ends at byte %" PRIu64 ": it is cut short; write it again", path, at);
        to += got;
        at += (uint64_t)got;
        count -= (size_t)got;
    }
    return true;
}
