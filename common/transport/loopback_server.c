#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/loopback_internal.h"

/* A server that listens on every address of its machine is reached by any host name. */
static bool any_host(const char *host)
{
    return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

static struct loop_server *find_server(struct loop_transport *t, const struct weir_address *address)
{
    for (struct loop_server *s = t->servers; s; s = s->next)
        if (s->address.port == address->port &&
            (!strcmp(s->address.host, address->host) || any_host(s->address.host) || any_host(address->host)))
            return s;
    return NULL;
}

static bool claim_port(struct loop_transport *t, struct loop_server *s, const char *text, struct weir_error *err)
{
    if (s->address.port == 0) {
        do
            s->address.port = t->next_port++;
        while (s->address.port == 0 || find_server(t, &s->address));
    } else if (find_server(t, &s->address)) {
        return weir_error_set(err, "%s: port in use; stop who has it, or choose another port", text);
    }
    s->base.port = s->address.port;
    return true;
}

struct weir_server *weir_loop_server_start(struct weir_transport *transport, const struct weir_server_options *options,
                                           struct weir_error *err)
{
    struct loop_transport *t = (struct loop_transport *)transport;
    struct loop_server *s = weir_alloc(1, sizeof *s, "a server");
    s->base.transport = transport;
    s->references = 1;
    s->message_limit_bytes = options->message_limit_bytes;
    for (size_t channel = 0; channel < WEIR_CHANNELS_MAX; channel++)
        s->pollers[channel] = (struct loop_poller *)options->pollers[channel];
    bool good = weir_address_parse(options->address, &s->address, err);
    pthread_mutex_lock(&t->lock);
    good = good && claim_port(t, s, options->address, err);
    if (good) {
        s->next = t->servers;
        t->servers = s;
    }
    pthread_mutex_unlock(&t->lock);
    if (good)
        return &s->base;
    free(s);
    return NULL;
}

void weir_loop_server_stop(struct weir_server *server)
{
    struct loop_server *s = (struct loop_server *)server;
    struct loop_transport *t = (struct loop_transport *)server->transport;
    struct loop_garbage garbage = {NULL};
    pthread_mutex_lock(&t->lock);
    struct loop_server **at = &t->servers;
    while (*at && *at != s)
        at = &(*at)->next;
    assert(*at); /* stopped once */
    *at = s->next;
    while (s->ends)
        weir_loop_end(s->ends, "the server stopped", "the server stopped", &garbage);
    weir_loop_server_unref(s);
    pthread_mutex_unlock(&t->lock);
    weir_loop_empty(&garbage);
}

static void add_accepted(struct loop_server *s, struct loop_end *client)
{
    char peer[64];
    snprintf(peer, sizeof peer, "loopback:%p", (void *)client);
    struct loop_end *end =
        weir_loop_end_new(s->pollers[client->channel], client->channel, s->message_limit_bytes, peer);
    end->peer = client;
    client->peer = end;
    end->server = s;
    s->references++;
    end->server_next = s->ends;
    s->ends = end;
    end->opened_event.type = WEIR_EVENT_ACCEPTED;
    weir_loop_post(end->poller, &end->opened_event);
}

struct weir_stream *weir_loop_connect(struct weir_poller *poller, const char *text, uint32_t channel,
                                      size_t message_limit_bytes, uint32_t timeout_ms)
{
    struct loop_poller *p = (struct loop_poller *)poller;
    struct loop_transport *t = (struct loop_transport *)poller->transport;
    struct loop_end *end = weir_loop_end_new(p, channel, message_limit_bytes, text);
    struct loop_garbage garbage = {NULL};
    struct weir_address address;
    struct weir_error err;
    pthread_mutex_lock(&t->lock);
    struct loop_server *server = NULL;
    if (!weir_address_parse(text, &address, &err))
        weir_loop_end(end, err.text, "", &garbage);
    else if (!(server = find_server(t, &address)))
        weir_loop_end(end, "connection refused", "", &garbage);
    else if (!server->pollers[channel])
        weir_loop_end(end, "this channel is not served here", "", &garbage);
    else
        add_accepted(server, end);
    if (end->state == LOOP_OPENING) {
        end->deadline_ns = weir_clock_ns() + timeout_ms * WEIR_NS_PER_MS;
        end->opening_next = p->opening;
        p->opening = end;
    }
    pthread_mutex_unlock(&t->lock);
    return &end->base;
}
