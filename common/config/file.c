#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/file.h"

#define FIRST_BYTES ((size_t)64 << 10)

/* Reads up to limit + 1 bytes, so that "too large" shows even if the file grows meanwhile. */
static char *read_all(int fd, size_t limit, size_t *bytes, const char **why)
{
    size_t room = FIRST_BYTES, at = 0;
    char *text = weir_alloc(room + 1, 1, "a file");
    while (at <= limit) {
        if (at == room) {
            char *larger = weir_alloc(2 * room + 1, 1, "a file");
            memcpy(larger, text, at);
            free(text);
            text = larger;
            room *= 2;
        }
        size_t wanted = room - at < limit + 1 - at ? room - at : limit + 1 - at;
        ssize_t got = read(fd, text + at, wanted);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            *why = strerror(errno);
            free(text);
            return NULL;
        }
        if (got == 0)
            break;
        at += (size_t)got;
    }
    text[at] = '\0';
    *bytes = at;
    return text;
}

char *weir_file_read(const char *path, size_t limit, size_t *bytes, const char **why)
{
    uint64_t on_disk;
    int fd = weir_file_open(path, &on_disk, why);
    if (fd < 0)
        return NULL;
    char *text = read_all(fd, limit, bytes, why);
    close(fd);
    if (text && (*bytes == 0 || *bytes > limit)) {
        *why = *bytes == 0                   ? "it is empty"
               : limit == WEIR_JOB_BYTES_MAX ? "it is larger than 1 MiB"
                                             : "it is larger than 64 MiB";
        free(text);
        text = NULL;
    }
    return text;
}

char *weir_path_beside(const char *from, const char *path)
{
    const char *slash = strrchr(from, '/');
    if (path[0] == '/' || !slash)
        return weir_strdup(path);
    size_t folder = (size_t)(slash - from) + 1, bytes = folder + strlen(path) + 1;
    char *joined = weir_alloc(bytes, 1, "a path");
    snprintf(joined, bytes, "%.*s%s", (int)folder, from, path);
    return joined;
}

const char *weir_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
