/* How fast tensors move between two processes of this machine: gRPC as weir uses it against plain TCP, in turns.
 *
 * push: one side sends a tensor of CHUNKS messages again and again, the other adds each message to its place in an fp32
 * sum, straight from where it arrived. push+pull: each message is answered by one of the same size, on the same stream,
 * which the client brings to its place in a third tensor. So every message comes from memory and goes to memory, as a
 * model's do, not from cache to cache. Every measurement runs in two fresh processes; the figures are payload (both
 * ways) by the client's time and the CPU seconds of both processes per GB, medians of ROUNDS; of is the median ratio to
 * TCP's GB/s in the same round.
 *
 * use: bench_transport [MEBIBYTES]   (of each push; 1024 if not given)
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "transport/transport.h"

#define ROUNDS 9
#define CHUNKS 80 /* of a tensor */
#define LIMIT ((size_t)64 << 20)
#define AHEAD 2 /* unsent messages, as transport.h advises */

struct plan {
    bool pull;
    size_t message_bytes;
    unsigned messages;
};

static uint8_t *new_tensor(const struct plan *plan)
{
    return weir_alloc_tensor(CHUNKS * plan->message_bytes, "a tensor");
}

/* Where the nth message has its place. */
static uint8_t *place(const struct plan *plan, uint8_t *tensor, unsigned n)
{
    return tensor + (n % CHUNKS) * plan->message_bytes;
}

struct figures {
    double gb_per_s, cpu_s_per_gb;
};

/* ---- the sum, over slices that may cut a number in two */

struct sum {
    float *total;
    size_t at;      /* bytes of the message that are done */
    uint8_t cut[4]; /* the number that two slices share */
};

__attribute__((noinline)) static void add_floats(float *restrict total, const uint8_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, from + 4 * i, sizeof value);
        total[i] += value;
    }
}

static void add_slice(struct sum *sum, const uint8_t *bytes, size_t count)
{
    while (sum->at % 4 && count) {
        sum->cut[sum->at++ % 4] = *bytes++;
        count--;
        if (sum->at % 4 == 0)
            add_floats(sum->total + sum->at / 4 - 1, sum->cut, 1);
    }
    add_floats(sum->total + sum->at / 4, bytes, count / 4);
    memcpy(sum->cut, bytes + count / 4 * 4, count % 4);
    sum->at += count;
}

static void add_message(uint8_t *total, const struct weir_message *message)
{
    static struct weir_slice slices[65536];
    size_t count = weir_message_slices(message, slices, sizeof slices / sizeof slices[0]);
    struct sum sum = {.total = (float *)(void *)total};
    for (size_t i = 0; i < count; i++)
        add_slice(&sum, slices[i].bytes, slices[i].count);
}

static void copy_message(uint8_t *to, const struct weir_message *message)
{
    static struct weir_slice slices[65536];
    size_t count = weir_message_slices(message, slices, sizeof slices / sizeof slices[0]);
    for (size_t i = 0; i < count; to += slices[i++].count)
        weir_copy_past_caches(to, slices[i].bytes, slices[i].count);
}

/* ---- gRPC */

static void keep(void *context)
{
    (void)context;
}

static void send_message(struct weir_stream *stream, const struct plan *plan, const void *from)
{
    const struct weir_slice slice = {from, plan->message_bytes};
    const struct weir_outgoing outgoing = {.payload = &slice, .payload_count = 1, .release = keep, .more = true};
    weir_stream_send(stream, &outgoing);
}

static void grpc_server(const struct plan *plan, int port_pipe)
{
    struct weir_transport *t = weir_transport_grpc();
    struct weir_poller *poller = weir_poller_new(t);
    struct weir_server_options options = {.address = "127.0.0.1:0", .message_limit_bytes = LIMIT};
    options.pollers[WEIR_CHANNEL_LANE(0)] = poller;
    struct weir_error err;
    struct weir_server *server = weir_server_start(t, &options, &err);
    uint16_t port = server ? weir_server_port(server) : 0;
    if (write(port_pipe, &port, sizeof port) != sizeof port)
        return;
    uint8_t *total = new_tensor(plan);
    unsigned added = 0, answered = 0, unsent = 0;
    for (bool open = true; open;) {
        struct weir_transport_event event;
        weir_poller_wait(poller, UINT64_MAX, &event);
        if (event.type == WEIR_EVENT_MESSAGE) {
            add_message(place(plan, total, added++), event.message);
            weir_message_unref(event.message);
        }
        unsent -= event.type == WEIR_EVENT_SENT;
        for (; plan->pull && answered < added && unsent < AHEAD; answered++, unsent++)
            send_message(event.stream, plan, place(plan, total, answered));
        if (event.type == WEIR_EVENT_CLOSED) {
            weir_stream_free(event.stream);
            open = false;
        }
    }
    weir_server_stop(server);
    weir_poller_free(poller);
    weir_transport_free(t);
}

static double grpc_client(const struct plan *plan, uint16_t port)
{
    struct weir_transport *t = weir_transport_grpc();
    struct weir_poller *poller = weir_poller_new(t);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    struct weir_stream *stream = weir_stream_connect(poller, address, WEIR_CHANNEL_LANE(0), LIMIT, 5000);
    uint8_t *tensor = new_tensor(plan), *copy = new_tensor(plan);
    unsigned begun = 0, sent = 0, pulled = plan->pull ? 0 : plan->messages;
    uint64_t start = 0;
    for (bool open = true; open;) {
        struct weir_transport_event event;
        weir_poller_wait(poller, UINT64_MAX, &event);
        if (event.type == WEIR_EVENT_OPENED)
            start = weir_clock_ns();
        sent += event.type == WEIR_EVENT_SENT;
        if (event.type == WEIR_EVENT_MESSAGE) {
            copy_message(place(plan, copy, pulled++), event.message);
            weir_message_unref(event.message);
        }
        for (; start && begun < plan->messages && begun - sent < AHEAD; begun++)
            send_message(stream, plan, place(plan, tensor, begun));
        if (sent == plan->messages && pulled == plan->messages)
            weir_stream_finish(stream);
        if (event.type == WEIR_EVENT_CLOSED) {
            if (event.reason[0])
                fprintf(stderr, "bench_transport: %s\n", event.reason);
            open = false;
        }
    }
    weir_stream_free(stream);
    double seconds = (double)(weir_clock_ns() - start) / 1e9;
    weir_poller_free(poller);
    weir_transport_free(t);
    return seconds;
}

/* ---- plain TCP: a thread for each way */

struct way {
    const struct plan *plan;
    int fd;
    bool sum;        /* or bring to its place */
    uint8_t *tensor; /* that is sent, summed into or filled */
};

static void *send_all(void *context)
{
    struct way *way = context;
    for (unsigned i = 0; i < way->plan->messages; i++) {
        const uint8_t *from = place(way->plan, way->tensor, i);
        for (size_t sent = 0; sent < way->plan->message_bytes;) {
            ssize_t count = send(way->fd, from + sent, way->plan->message_bytes - sent, 0);
            if (count <= 0)
                return NULL;
            sent += (size_t)count;
        }
    }
    return NULL;
}

static void *receive_all(void *context)
{
    struct way *way = context;
    size_t bytes = way->plan->message_bytes;
    uint8_t *arrived = weir_alloc_tensor(bytes, "a message");
    for (unsigned i = 0; i < way->plan->messages; i++) {
        uint8_t *to = place(way->plan, way->tensor, i);
        if (recv(way->fd, way->sum ? arrived : to, bytes, MSG_WAITALL) != (ssize_t)bytes)
            break;
        if (way->sum)
            add_floats((float *)(void *)to, arrived, bytes / 4);
    }
    free(arrived);
    return NULL;
}

static struct way make_way(const struct plan *plan, int fd, bool sum)
{
    return (struct way){plan, fd, sum, new_tensor(plan)};
}

static void tcp_server(const struct plan *plan, int port_pipe)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 2) ||
        getsockname(listener, (struct sockaddr *)&at, &bytes))
        return;
    uint16_t port = ntohs(at.sin_port);
    if (write(port_pipe, &port, sizeof port) != sizeof port)
        return;
    struct way up = make_way(plan, accept(listener, NULL, NULL), true);
    struct way down = make_way(plan, plan->pull ? accept(listener, NULL, NULL) : -1, false);
    pthread_t thread;
    if (plan->pull && pthread_create(&thread, NULL, send_all, &down))
        return;
    receive_all(&up);
    if (plan->pull)
        pthread_join(thread, NULL);
    if (write(up.fd, "", 1) != 1)
        return;
}

static double tcp_client(const struct plan *plan, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[2] = {-1, -1};
    for (int i = 0; i < 1 + plan->pull; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fds[i], (struct sockaddr *)&to, sizeof to))
            return 0;
    }
    struct way up = make_way(plan, fds[0], false), down = make_way(plan, fds[1], false);
    uint64_t start = weir_clock_ns();
    pthread_t thread;
    if (plan->pull && pthread_create(&thread, NULL, receive_all, &down))
        return 0;
    send_all(&up);
    if (plan->pull)
        pthread_join(thread, NULL);
    char end;
    if (read(up.fd, &end, 1) != 1)
        return 0;
    return (double)(weir_clock_ns() - start) / 1e9;
}

/* ---- rounds */

static double cpu_of_children(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static struct figures measure(const struct plan *plan, bool grpc)
{
    int port_pipe[2], result_pipe[2];
    double seconds = 0, cpu = cpu_of_children();
    if (pipe(port_pipe) || pipe(result_pipe))
        return (struct figures){0, 0};
    fflush(stdout);
    if (fork() == 0) {
        (grpc ? grpc_server : tcp_server)(plan, port_pipe[1]);
        _exit(0);
    }
    if (fork() == 0) {
        uint16_t port;
        if (read(port_pipe[0], &port, sizeof port) == sizeof port)
            seconds = (grpc ? grpc_client : tcp_client)(plan, port);
        _exit(write(result_pipe[1], &seconds, sizeof seconds) != sizeof seconds);
    }
    ssize_t got = read(result_pipe[0], &seconds, sizeof seconds);
    while (wait(NULL) > 0)
        ;
    for (int i = 0; i < 2; i++) {
        close(port_pipe[i]);
        close(result_pipe[i]);
    }
    double gb = (double)plan->message_bytes * plan->messages * (1 + plan->pull) / 1e9;
    return got > 0 && seconds > 0 ? (struct figures){gb / seconds, (cpu_of_children() - cpu) / gb}
                                  : (struct figures){0, 0};
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof values[0], by_size);
    return values[ROUNDS / 2];
}

static void compare(const struct plan *plan)
{
    double speeds[2][ROUNDS], cpu[2][ROUNDS], ratios[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int grpc = 0; grpc < 2; grpc++) {
            struct figures figures = measure(plan, grpc);
            speeds[grpc][round] = figures.gb_per_s;
            cpu[grpc][round] = figures.cpu_s_per_gb;
        }
        ratios[round] = speeds[1][round] / speeds[0][round];
    }
    const char *what = plan->pull ? "push+pull" : "push";
    size_t kib = plan->message_bytes >> 10;
    printf("%-10s %4zu KiB  TCP   %6.2f %10.2f\n", what, kib, median(speeds[0]), median(cpu[0]));
    printf("%-10s %4zu KiB  gRPC  %6.2f %10.2f %6.2f\n", what, kib, median(speeds[1]), median(cpu[1]), median(ratios));
}

int main(int argc, char **argv)
{
    uint64_t mebibytes = 1024;
    if (argc > 2 || (argc == 2 && !weir_number_parse(argv[1], 1, 1 << 20, &mebibytes))) {
        fprintf(stderr, "use: %s [MEBIBYTES]\n", argv[0]);
        return 2;
    }
    printf("%-10s %-9s %-5s %6s %10s %6s\n", "what", "message", "by", "GB/s", "CPU s/GB", "of TCP");
    for (int pull = 0; pull < 2; pull++)
        for (size_t kib = 512; kib <= 1024; kib *= 2)
            compare(&(struct plan){pull, kib << 10, (unsigned)(mebibytes * 1024 / kib)});
    return 0;
}
