#include "cli/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"

/* Below the ports that Linux gives to clients (from 32768 on): one of those could go to a role's own connection, as
 * long as another role has not yet bound it. */
#define PORT_FIRST 10240
#define PORT_COUNT 9760

/* Binds a new socket to `port` (0: any) and writes which one it is; -1, with errno, if that can't be. */
static int bind_port(uint16_t wanted, uint16_t *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(wanted)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) {
        *port = ntohs(address.sin_port);
        return fd;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* The next free port after those that were tried, going round; when all were tried, any that the kernel has. */
static int bind_next(uint32_t start, uint32_t *tried, uint16_t *port)
{
    while (*tried < PORT_COUNT) {
        int fd = bind_port((uint16_t)(PORT_FIRST + (start + (*tried)++) % PORT_COUNT), port);
        if (fd >= 0 || errno != EADDRINUSE)
            return fd;
    }
    return bind_port(0, port);
}

/* The start is random, so that two programs that look at the same time find different ports. All sockets stay open
 * until the last port is chosen, so that no port comes twice. */
bool weir_ports_find(uint16_t *ports, size_t count, struct weir_error *err)
{
    int *sockets = weir_alloc(count, sizeof *sockets, "sockets");
    uint32_t start = 0, tried = 0;
    size_t opened = 0;
    bool ok = true;
    if (getrandom(&start, sizeof start, 0) < 0)
        start = (uint32_t)getpid();
    while (ok && opened < count) {
        sockets[opened] = bind_next(start % PORT_COUNT, &tried, &ports[opened]);
        ok = sockets[opened] >= 0 ||
             weir_error_set(err, "no free port on 127.0.0.1 (%zu of %zu found): %s", opened, count, strerror(errno));
        opened += ok;
    }
    for (size_t i = 0; i < opened; i++)
        close(sockets[i]);
    free(sockets);
    return ok;
}

static void put_role(FILE *out, enum weir_role role, const uint16_t *ports, uint32_t count)
{
    fprintf(out, "\"%s\": [", weir_role_names[role]);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s\"127.0.0.1:%u\"", i ? ", " : "", ports[i]);
    fprintf(out, "]");
}

char *weir_ports_tf_config(const uint16_t *ports, uint32_t ps, uint32_t workers, enum weir_role role, uint32_t index)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return weir_strdup("TF_CONFIG=");
    fprintf(out, "TF_CONFIG={\"cluster\": {");
    put_role(out, WEIR_CHIEF, ports, 1);
    fprintf(out, ", ");
    put_role(out, WEIR_PS, ports + 1, ps);
    fprintf(out, ", ");
    put_role(out, WEIR_WORKER, ports + 1 + ps, workers);
    fprintf(out, "}, \"task\": {\"type\": \"%s\", \"index\": %u}}", weir_role_names[role], index);
    fclose(out);
    return text;
}
