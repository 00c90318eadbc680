#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/process.h"

#define FD_MAX (1 << 20)

/* Nothing is ever written to the pipe: a read returns when its last write end is closed, the supervisor's. */
static void *watch(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char byte;
    ssize_t got;
    do
        got = read(fd, &byte, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
    _exit(1); /* at once: exit handlers could wait for threads that wait for the dead */
}

/* The number in WEIR_LIFELINE_FD if it is that of an open file, or -1. */
static int lifeline_from_environment(void)
{
    const char *text = getenv("WEIR_LIFELINE_FD");
    int fd = 0;
    if (!text || !*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || fd > FD_MAX)
            return -1;
        fd = 10 * fd + (*text - '0');
    }
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

bool weir_lifeline_watch(void)
{
    int fd = lifeline_from_environment();
    if (fd < 0)
        return false;
    unsetenv("WEIR_LIFELINE_FD");
    signal(SIGINT, SIG_IGN);
    /* If the supervisor died before this call, the kernel says nothing, but the pipe does. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, watch, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return false;
    pthread_detach(thread);
    return true;
}
