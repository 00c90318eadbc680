/* What only a network has: peers that say nothing, say nonsense, or die. */
#include "transport_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program;
extern char **environ;

static int dial(const struct rig *rig)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(weir_server_port(rig->server))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Until the server ends the connection; the server's pollers run meanwhile. */
static void expect_hangup(struct rig *rig, int fd)
{
    uint64_t deadline = weir_clock_ns() + PATIENCE_MS * WEIR_NS_PER_MS;
    struct weir_transport_event event;
    for (;;) {
        char bytes[4096];
        ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EAGAIN))
            break;
        assert_true(weir_clock_ns() < deadline);
        assert_int_equal(rig_next(rig, SERVER, 5, &event), WEIR_EVENT_NONE);
    }
    close(fd);
}

static void who_connects_and_says_nothing_is_hung_up_on(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    expect_hangup(&rig, dial(&rig));
    rig_stop(&rig);
}

static void who_says_nonsense_is_hung_up_on(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    const char *const nonsense[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (size_t i = 0; i < 3; i++) {
        int fd = dial(&rig);
        assert_true(send(fd, nonsense[i], strlen(nonsense[i]), MSG_NOSIGNAL) > 0);
        expect_hangup(&rig, fd);
    }
    rig_stop(&rig);
}

/* HTTP/2 as it should be, but never a call. */
static void who_never_calls_is_hung_up_on(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    int fd = dial(&rig);
    const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0"; /* and an empty SETTINGS frame */
    assert_int_equal(send(fd, preface, sizeof preface, MSG_NOSIGNAL), sizeof preface);
    expect_hangup(&rig, fd);
    rig_stop(&rig);
}

/* A server that takes connections and never answers. */
static void a_mute_server_is_given_up(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 5), 0);
    getsockname(fd, (struct sockaddr *)&at, &bytes);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    struct weir_stream *stream = weir_stream_connect(rig.pollers[CLIENT], address, 0, LIMIT, 200);
    rig_expect_closed(&rig, CLIENT, stream, "timed out");
    weir_stream_free(stream);
    close(fd);
    rig_stop(&rig);
}

/* Sends big messages for ever: runs as a process of its own, and is killed. */
int transport_child(const char *address)
{
    struct weir_transport *t = weir_transport_grpc();
    struct weir_poller *poller = weir_poller_new(t);
    struct weir_stream *stream = weir_stream_connect(poller, address, 0, LIMIT, PATIENCE_MS);
    static char megabyte[1 << 20];
    const struct weir_outgoing outgoing = {.header = megabyte, .header_bytes = sizeof megabyte};
    for (;;) {
        struct weir_transport_event event;
        weir_poller_wait(poller, UINT64_MAX, &event);
        if (event.type == WEIR_EVENT_OPENED || event.type == WEIR_EVENT_SENT)
            weir_stream_send(stream, &outgoing);
        if (event.type == WEIR_EVENT_CLOSED)
            return 1;
    }
}

static pid_t start_child(const struct rig *rig)
{
    char *const arguments[] = {(char *)program, "child", (char *)rig->address, NULL};
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, arguments, environ), 0);
    return pid;
}

static void a_peer_that_is_killed_closes_its_stream_at_once(void **state)
{
    (void)state;
    struct rig rig;
    struct parcel parcel;
    rig_start(&rig);
    pid_t pid = start_child(&rig);
    struct weir_stream *stream = rig_expect(&rig, SERVER, WEIR_EVENT_ACCEPTED).stream;
    weir_message_unref(rig_expect(&rig, SERVER, WEIR_EVENT_MESSAGE).message);
    parcel_fill(&parcel, MIB, 1);
    kill(pid, SIGSTOP);
    parcel_send(stream, "", &parcel, 1); /* under way when the peer dies */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    uint64_t start = weir_clock_ns();
    rig_expect_closed(&rig, SERVER, stream, "connection lost");
    assert_true(weir_clock_ns() - start < 2 * WEIR_NS_PER_S);
    weir_stream_free(stream);
    parcel_check(&parcel, &rig);
    rig_stop(&rig);
}

int transport_network_tests(const char *own_program)
{
    const struct CMUnitTest network[] = {
        cmocka_unit_test(who_connects_and_says_nothing_is_hung_up_on),
        cmocka_unit_test(who_says_nonsense_is_hung_up_on),
        cmocka_unit_test(who_never_calls_is_hung_up_on),
        cmocka_unit_test(a_mute_server_is_given_up),
        cmocka_unit_test(a_peer_that_is_killed_closes_its_stream_at_once),
    };
    program = own_program;
    return cmocka_run_group_tests(network, NULL, NULL);
}
