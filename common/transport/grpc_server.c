#include <assert.h>
#include <grpc/grpc_security.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "transport/grpc_internal.h"

#define STREAMS_PER_CONNECTION 64 /* ours use one; a client of another language may put all on one connection */
#define PING_INTERVAL_MS 500      /* clients may ping this often */

void weir_grpc_server_unref(struct weir_grpc_server *server)
{
    if (atomic_fetch_sub(&server->references, 1) == 1)
        free(server);
}

/* ---- accepting */

static void request_call(struct weir_grpc_accept *a)
{
    weir_grpc_started(a->poller);
    grpc_completion_queue *queue = a->poller->queue;
    grpc_call_error error =
        a->method
            ? grpc_server_request_registered_call(a->server->server, a->method, &a->call, &a->deadline, &a->metadata,
                                                  NULL, queue, queue, &a->op)
            : grpc_server_request_call(a->server->server, &a->call, &a->details, &a->metadata, queue, queue, &a->op);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

/* A call to a channel that is not served. */
struct refusal {
    struct weir_grpc_op op;
    grpc_call *call;
    int cancelled;
};

static void refused(struct weir_grpc_op *op, bool ok)
{
    (void)ok;
    struct refusal *refusal = op->owner;
    grpc_call_unref(refusal->call);
    free(refusal);
}

static void refuse(struct weir_grpc_accept *a)
{
    struct refusal *refusal = weir_alloc(1, sizeof *refusal, "a refused call");
    refusal->op = (struct weir_grpc_op){refused, refusal};
    refusal->call = a->call;
    char method[80], text[128];
    size_t bytes = GRPC_SLICE_LENGTH(a->details.method);
    snprintf(method, sizeof method, "%.*s", (int)(bytes < sizeof method ? bytes : sizeof method - 1),
             (const char *)GRPC_SLICE_START_PTR(a->details.method));
    snprintf(text, sizeof text, "%s is not served here", method);
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
                      {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}};
    ops[1].data.send_status_from_server.status = GRPC_STATUS_UNIMPLEMENTED;
    ops[1].data.send_status_from_server.status_details = &details;
    ops[2].data.recv_close_on_server.cancelled = &refusal->cancelled;
    weir_grpc_started(a->poller);
    grpc_call_start_batch(a->call, ops, 3, &refusal->op, NULL);
    grpc_slice_unref(details);
    grpc_call_details_destroy(&a->details);
    grpc_call_details_init(&a->details);
}

static void accept_done(struct weir_grpc_op *op, bool ok)
{
    struct weir_grpc_accept *a = op->owner;
    if (!ok) { /* the server has stopped */
        grpc_metadata_array_destroy(&a->metadata);
        if (!a->method)
            grpc_call_details_destroy(&a->details);
        weir_grpc_server_unref(a->server);
        return;
    }
    if (a->method)
        weir_grpc_accepted(a);
    else
        refuse(a);
    a->call = NULL;
    grpc_metadata_array_destroy(&a->metadata);
    grpc_metadata_array_init(&a->metadata);
    request_call(a);
}

static void start_accept(struct weir_grpc_accept *a, struct weir_grpc_server *server, struct weir_grpc_poller *poller)
{
    a->op = (struct weir_grpc_op){accept_done, a};
    a->server = server;
    a->poller = poller;
    grpc_metadata_array_init(&a->metadata);
    grpc_call_details_init(&a->details);
    atomic_fetch_add(&server->references, 1);
    request_call(a);
}

/* ---- starting */

/* Calls are killed when the quota runs out, and received messages count as long as they are kept. gRPC checks a
 * message's length only when it is whole, so this is what keeps an endless one from filling the machine. */
static grpc_resource_quota *new_quota(size_t limit_bytes)
{
    grpc_resource_quota *quota = grpc_resource_quota_create("weir");
    grpc_resource_quota_resize(quota, limit_bytes ? limit_bytes : (size_t)(weir_memory_of_machine() / 4 * 3));
    return quota;
}

static grpc_server *create_server(const struct weir_server_options *options)
{
    int handshake = options->handshake_timeout_ms > INT_MAX ? INT_MAX : (int)options->handshake_timeout_ms;
    grpc_resource_quota *quota = new_quota(options->memory_limit_bytes);
    grpc_arg args[24];
    size_t count = weir_grpc_common_args(args, options->message_limit_bytes);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0); /* or two servers share a port, silently */
    args[count++] = weir_grpc_int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_PER_CONNECTION);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, PING_INTERVAL_MS);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    args[count++] = weir_grpc_int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    if (handshake) {
        args[count++] = weir_grpc_int_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, handshake);
        args[count++] = weir_grpc_int_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, handshake);
    }
    args[count++] = (grpc_arg){
        .type = GRPC_ARG_POINTER,
        .key = GRPC_ARG_RESOURCE_QUOTA,
        .value.pointer = {.p = quota, .vtable = grpc_resource_quota_arg_vtable()},
    };
    const grpc_channel_args all = {.num_args = count, .args = args};
    grpc_server *server = grpc_server_create(&all, NULL);
    grpc_resource_quota_unref(quota);
    return server;
}

static int listen_on(grpc_server *server, const char *address)
{
    grpc_server_credentials *insecure = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server, address, insecure);
    grpc_server_credentials_release(insecure);
    return port;
}

static void begin_shutdown(struct weir_grpc_server *s)
{
    struct weir_grpc_transport *t = (struct weir_grpc_transport *)s->base.transport;
    pthread_mutex_lock(&t->ending);
    grpc_server_shutdown_and_notify(s->server, t->reaper, &s->shutdown_op);
    grpc_server_cancel_all_calls(s->server);
    pthread_mutex_unlock(&t->ending);
}

static void register_methods(struct weir_grpc_server *s, const struct weir_server_options *options)
{
    struct weir_grpc_transport *t = (struct weir_grpc_transport *)s->base.transport;
    grpc_server_register_completion_queue(s->server, t->reaper, NULL);
    for (uint32_t channel = 0; channel < WEIR_CHANNELS_MAX; channel++) {
        struct weir_grpc_poller *poller = (struct weir_grpc_poller *)options->pollers[channel];
        if (!poller)
            continue;
        s->accepts[channel].channel = channel;
        s->accepts[channel].method =
            grpc_server_register_method(s->server, weir_grpc_method(channel), NULL, GRPC_SRM_PAYLOAD_NONE, 0);
        grpc_server_register_completion_queue(s->server, poller->queue, NULL);
    }
}

static void start_accepts(struct weir_grpc_server *s, const struct weir_server_options *options)
{
    struct weir_grpc_poller *any = NULL;
    for (uint32_t channel = 0; channel < WEIR_CHANNELS_MAX; channel++) {
        struct weir_grpc_poller *poller = (struct weir_grpc_poller *)options->pollers[channel];
        if (!poller)
            continue;
        any = any ? any : poller;
        start_accept(&s->accepts[channel], s, poller);
    }
    if (any)
        start_accept(&s->refuse, s, any);
}

static void shutdown_done(struct weir_grpc_op *op, bool ok)
{
    (void)ok;
    struct weir_grpc_server *s = op->owner;
    struct weir_grpc_transport *t = (struct weir_grpc_transport *)s->base.transport;
    grpc_server_destroy(s->server);
    atomic_fetch_sub(&t->servers, 1);
    weir_grpc_server_unref(s);
}

struct weir_server *weir_grpc_server_start(struct weir_transport *transport, const struct weir_server_options *options,
                                           struct weir_error *err)
{
    struct weir_grpc_transport *t = (struct weir_grpc_transport *)transport;
    weir_grpc_reap(t, 0);
    char listen_at[WEIR_LISTEN_BYTES];
    if (!weir_grpc_can_listen(options->address, options->name_timeout_ms, listen_at, err))
        return NULL;
    struct weir_grpc_server *s = weir_alloc(1, sizeof *s, "a server");
    s->base.transport = transport;
    s->message_limit_bytes = options->message_limit_bytes;
    s->shutdown_op = (struct weir_grpc_op){shutdown_done, s};
    s->server = create_server(options);
    atomic_init(&s->references, 1);
    atomic_fetch_add(&t->servers, 1);
    register_methods(s, options);
    int port = listen_on(s->server, listen_at);
    grpc_server_start(s->server);
    if (port <= 0) {
        weir_error_set(err, "%s: cannot listen; is the port in use?", options->address);
        begin_shutdown(s);
        return NULL;
    }
    s->base.port = (uint16_t)port;
    start_accepts(s, options);
    return &s->base;
}

void weir_grpc_server_stop(struct weir_server *server)
{
    struct weir_grpc_server *s = (struct weir_grpc_server *)server;
    struct weir_grpc_transport *t = (struct weir_grpc_transport *)server->transport;
    if (atomic_exchange(&s->stopped, true))
        return;
    begin_shutdown(s);
    weir_grpc_reap(t, 0);
}

void weir_grpc_reap(struct weir_grpc_transport *t, uint64_t deadline_ns)
{
    pthread_mutex_lock(&t->ending);
    while (atomic_load(&t->servers)) {
        grpc_event completed = grpc_completion_queue_next(t->reaper, weir_grpc_timespec(deadline_ns), NULL);
        if (completed.type != GRPC_OP_COMPLETE)
            break;
        struct weir_grpc_op *op = completed.tag;
        op->done(op, completed.success != 0);
    }
    pthread_mutex_unlock(&t->ending);
}
