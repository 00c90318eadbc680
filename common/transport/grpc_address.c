/* Where a server listens: gRPC only says that it could not, so its address is tried before, to learn why. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/grpc_internal.h"

#define ASK_AGAIN_NS (WEIR_NS_PER_S / 5)
#define SAY_AGAIN_NS (5 * WEIR_NS_PER_S)

/* Not known, or nobody there to ask: both may change while a cluster comes up. */
static bool may_come(int code)
{
    return code == EAI_NONAME || code == EAI_AGAIN || code == EAI_NODATA;
}

/* The addresses of this machine's own name, as soon as it has one: on Kubernetes a pod may start before its name. */
static bool find_host(const char *text, const char *host, const char *port, uint32_t timeout_ms,
                      struct addrinfo **found, struct weir_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    uint64_t begin = weir_clock_ns(), say_at = 0;
    for (;;) {
        int code = getaddrinfo(host, port, &hints, found);
        if (code == 0)
            return true;
        uint64_t now = weir_clock_ns();
        if (!may_come(code) || now - begin >= timeout_ms * WEIR_NS_PER_MS)
            return weir_error_set(err, "%s: cannot find this host: %s", text, gai_strerror(code));
        if (now >= say_at) {
            weir_log_info("waiting for this machine's own name, %s, to be known (%s)", text, gai_strerror(code));
            say_at = now + SAY_AGAIN_NS;
        }
        nanosleep(&(struct timespec){.tv_nsec = ASK_AGAIN_NS}, NULL);
    }
}

/* 0, or what keeps this process from listening there. Of a host's addresses one will do, but none may be taken. */
static int try_all(const struct addrinfo *found)
{
    int problem = 0;
    bool any = false;
    for (const struct addrinfo *at = found; at && problem != EADDRINUSE; at = at->ai_next) {
        int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        const int on = 1;
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
            bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, 1))
            problem = errno;
        else
            any = true;
        if (fd >= 0)
            close(fd);
    }
    return any && problem != EADDRINUSE ? 0 : problem;
}

bool weir_grpc_can_listen(const char *text, uint32_t name_timeout_ms, char listen_at[WEIR_LISTEN_BYTES],
                          struct weir_error *err)
{
    struct weir_address address;
    struct addrinfo *found;
    char port[8];
    if (!weir_address_parse(text, &address, err))
        return false;
    snprintf(port, sizeof port, "%u", address.port);
    if (!find_host(text, address.host, port, name_timeout_ms, &found, err))
        return false;
    int problem = try_all(found);
    freeaddrinfo(found);
    snprintf(listen_at, WEIR_LISTEN_BYTES, "%s", text);
    if (problem == EADDRNOTAVAIL) { /* the outer address of a NAT, or a service's: what is sent there comes here */
        snprintf(listen_at, WEIR_LISTEN_BYTES, "[::]:%u", address.port);
        if (!find_host(text, NULL, port, 0, &found, err))
            return false;
        problem = try_all(found);
        freeaddrinfo(found);
        if (problem == 0)
            weir_log_warning("%s is no address of this machine: listening on all of its addresses, at port %u", text,
                             address.port);
    }
    if (problem == EADDRINUSE)
        return weir_error_set(err, "%s: port in use; stop who has it, or choose another port", text);
    return problem == 0 || weir_error_set(err, "%s: cannot listen: %s", text, strerror(problem));
}
