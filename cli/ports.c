#include "cli/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"

/* Binds a socket to a port that the kernel chooses. */
static bool bind_one(int *fd, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(*fd, (struct sockaddr *)&address, &bytes) != 0)
        return false;
    *port = ntohs(address.sin_port);
    return true;
}

/* All sockets stay open until the last port is chosen, so that no port comes twice. */
bool weir_ports_find(uint16_t *ports, size_t count, struct weir_error *err)
{
    int *sockets = weir_alloc(count, sizeof *sockets, "sockets");
    size_t opened = 0;
    bool ok = true;
    for (; ok && opened < count; opened++)
        ok = bind_one(&sockets[opened], &ports[opened]) ||
             weir_error_set(err, "no free port on 127.0.0.1 (%zu of %zu found): %s", opened, count, strerror(errno));
    for (size_t i = 0; i < opened; i++)
        if (sockets[i] >= 0)
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
