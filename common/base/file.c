#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int weir_file_open(const char *path, uint64_t *bytes, const char **why)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* plainly, a FIFO would wait for a writer */
    if (fd < 0 || fstat(fd, &status) != 0)
        *why = strerror(errno);
    else if (S_ISDIR(status.st_mode))
        *why = "it is a folder";
    else if (!S_ISREG(status.st_mode))
        *why = "it is no regular file";
    else {
        *bytes = (uint64_t)status.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}
