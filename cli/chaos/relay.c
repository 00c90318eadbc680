#include "chaos/relay.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chaos/relay_internal.h"

#define BACKLOG 128

static void on_connection(uv_stream_t *listener, int status)
{
    if (status == 0)
        weir_relay_link_accept(listener->data);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Wanted resets are done once all links have seen them; a link that is made later is not meant. */
static void on_changed(uv_async_t *changed)
{
    struct weir_relay *relay = changed->data;
    for (struct weir_relay_link *link = relay->links, *next; link; link = next) {
        next = weir_relay_link_next(link);
        weir_relay_link_update(link);
    }
    pthread_mutex_lock(&relay->lock);
    for (uint32_t i = 0; i < relay->nodes * relay->nodes; i++)
        relay->ways[i].reset = false;
    bool stopping = relay->stopping;
    pthread_mutex_unlock(&relay->lock);
    if (!stopping)
        return;
    while (relay->links)
        weir_relay_link_break(relay->links);
    uv_walk(&relay->loop, close_handle, NULL);
}

static void *work(void *argument)
{
    struct weir_relay *relay = argument;
    uv_run(&relay->loop, UV_RUN_DEFAULT);
    return NULL;
}

static bool open_door(struct weir_relay_door *door, struct weir_error *err)
{
    struct sockaddr_in address;
    int bytes = sizeof address;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(&door->relay->loop, &door->listener);
    door->listener.data = door;
    int rc = uv_tcp_bind(&door->listener, (struct sockaddr *)&address, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&door->listener, BACKLOG, on_connection);
    if (rc == 0)
        rc = uv_tcp_getsockname(&door->listener, (struct sockaddr *)&address, &bytes);
    if (rc != 0)
        return weir_error_set(err, "the relay can't listen on 127.0.0.1: %s", uv_strerror(rc));
    door->port = ntohs(address.sin_port);
    return true;
}

static bool open_doors(struct weir_relay *relay, struct weir_error *err)
{
    for (uint32_t i = 0; i < relay->nodes * relay->nodes; i++) {
        struct weir_relay_door *door = &relay->doors[i];
        door->relay = relay;
        door->from = i / relay->nodes;
        door->to = i % relay->nodes;
        if (door->from != door->to && !open_door(door, err))
            return false;
    }
    return true;
}

/* Signals are for the other threads. */
static bool start_thread(struct weir_relay *relay, struct weir_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&relay->thread, NULL, work, relay);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 || weir_error_set(err, "the relay's thread can't be started: %s", strerror(rc));
}

static void release(struct weir_relay *relay)
{
    int rc = uv_loop_close(&relay->loop);
    assert(rc == 0);
    pthread_mutex_destroy(&relay->lock);
    free(relay->ports);
    free(relay->doors);
    free(relay->ways);
    free(relay);
}

struct weir_relay *weir_relay_new(uint32_t nodes, const uint16_t *ports, struct weir_error *err)
{
    assert(nodes > 1);
    struct weir_relay *relay = weir_alloc(1, sizeof *relay, "the relay");
    relay->nodes = nodes;
    relay->random = 0x9e3779b97f4a7c15;
    relay->ports = weir_alloc(nodes, sizeof *relay->ports, "the relay");
    memcpy(relay->ports, ports, nodes * sizeof *ports);
    relay->doors = weir_alloc((size_t)nodes * nodes, sizeof *relay->doors, "the relay");
    relay->ways = weir_alloc((size_t)nodes * nodes, sizeof *relay->ways, "the relay");
    pthread_mutex_init(&relay->lock, NULL);
    uv_loop_init(&relay->loop);
    uv_async_init(&relay->loop, &relay->changed, on_changed);
    relay->changed.data = relay;
    if (open_doors(relay, err) && start_thread(relay, err))
        return relay;
    uv_walk(&relay->loop, close_handle, NULL);
    uv_run(&relay->loop, UV_RUN_DEFAULT);
    release(relay);
    return NULL;
}

void weir_relay_free(struct weir_relay *relay)
{
    if (!relay)
        return;
    pthread_mutex_lock(&relay->lock);
    relay->stopping = true;
    pthread_mutex_unlock(&relay->lock);
    uv_async_send(&relay->changed);
    pthread_join(relay->thread, NULL);
    release(relay);
}

uint16_t weir_relay_port(const struct weir_relay *relay, uint32_t from, uint32_t to)
{
    assert(from < relay->nodes && to < relay->nodes && from != to);
    return relay->doors[from * relay->nodes + to].port;
}

void weir_relay_set(struct weir_relay *relay, uint32_t from, uint32_t to, const struct weir_relay_rule *rule)
{
    assert(from < relay->nodes && to < relay->nodes && from != to);
    pthread_mutex_lock(&relay->lock);
    weir_relay_way(relay, from, to)->rule = *rule;
    pthread_mutex_unlock(&relay->lock);
    uv_async_send(&relay->changed);
}

void weir_relay_reset(struct weir_relay *relay, uint32_t a, uint32_t b)
{
    assert(a < relay->nodes && b < relay->nodes && a != b);
    pthread_mutex_lock(&relay->lock);
    weir_relay_way(relay, a, b)->reset = true;
    pthread_mutex_unlock(&relay->lock);
    uv_async_send(&relay->changed);
}

uint64_t weir_relay_bytes(struct weir_relay *relay, uint32_t from, uint32_t to)
{
    pthread_mutex_lock(&relay->lock);
    uint64_t bytes = weir_relay_way(relay, from, to)->bytes;
    pthread_mutex_unlock(&relay->lock);
    return bytes;
}
