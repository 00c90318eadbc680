#include "transport_rig.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connects and expects the attempt to fail, for `reason`. */
static void expect_failure(struct rig *rig, const char *address, uint32_t channel, uint32_t timeout_ms,
                           const char *reason)
{
    struct weir_stream *stream = weir_stream_connect(rig->pollers[CLIENT], address, channel, LIMIT, timeout_ms);
    assert_string_equal(weir_stream_peer(stream), address);
    rig_expect_closed(rig, CLIENT, stream, reason);
    weir_stream_free(stream);
}

static void nobody_there_is_said_as_such(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    weir_server_stop(rig.server);
    rig.server = NULL;
    struct weir_transport_event event;
    rig_next(&rig, SERVER, 20, &event); /* the server's end is carried out by its pollers */
    expect_failure(&rig, rig.address, 0, PATIENCE_MS, "connection refused");
    rig_stop(&rig);
}

static void bad_addresses_are_said_as_such(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    expect_failure(&rig, "", 0, PATIENCE_MS, "is not host:port");
    expect_failure(&rig, "localhost", 0, PATIENCE_MS, "\"localhost\" is not host:port");
    expect_failure(&rig, "localhost:65536", 0, PATIENCE_MS, "is not host:port");
    expect_failure(&rig, "localhost:22x", 0, PATIENCE_MS, "is not host:port");
    expect_failure(&rig, "::1:2222", 0, PATIENCE_MS, "needs brackets");
    if (is_grpc)
        expect_failure(&rig, "no-such-host.invalid:2222", 0, PATIENCE_MS, "host not found");
    rig_stop(&rig);
}

static void a_channel_without_poller_is_not_served(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    expect_failure(&rig, rig.address, WEIR_CHANNEL_LANE(WEIR_LANES_MAX - 1), PATIENCE_MS, "not served here");
    rig_stop(&rig);
}

static void a_server_that_does_not_answer_is_given_up(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_transport_event event;
    rig_start(&rig);
    uint64_t start = weir_clock_ns();
    struct weir_stream *stream = weir_stream_connect(rig.pollers[CLIENT], rig.address, 0, LIMIT, 100);
    weir_poller_wait(rig.pollers[CLIENT], UINT64_MAX, &event); /* the server's poller does not run */
    assert_int_equal(event.type, WEIR_EVENT_CLOSED);
    assert_string_equal(event.reason, "timed out");
    assert_true(weir_clock_ns() - start >= 100 * WEIR_NS_PER_MS);
    weir_stream_free(stream);
    while (rig_next(&rig, SERVER, 100, &event) != WEIR_EVENT_NONE) /* perhaps it sees the stream, as ended */
        if (event.type == WEIR_EVENT_CLOSED)
            weir_stream_free(event.stream);
    rig_stop(&rig);
}

static void close_before_opened_ends_the_attempt(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_transport_event event;
    rig_start(&rig);
    struct weir_stream *stream = weir_stream_connect(rig.pollers[CLIENT], rig.address, 0, LIMIT, PATIENCE_MS);
    struct parcel parcel;
    parcel_fill(&parcel, 1000, 1);
    parcel_send(stream, "", &parcel, 1);
    weir_stream_close(stream, "changed my mind");
    rig_expect_closed(&rig, CLIENT, stream, "");
    weir_stream_free(stream);
    parcel_check(&parcel, &rig);
    while (rig_next(&rig, SERVER, 100, &event) != WEIR_EVENT_NONE)
        if (event.type == WEIR_EVENT_CLOSED)
            weir_stream_free(event.stream);
    rig_stop(&rig);
}

static void what_is_sent_before_opened_arrives(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    char text[256];
    rig_start(&rig);
    ends[CLIENT] = weir_stream_connect(rig.pollers[CLIENT], rig.address, 0, LIMIT, PATIENCE_MS);
    send_text(ends[CLIENT], "hello");
    ends[SERVER] = rig_expect(&rig, SERVER, WEIR_EVENT_ACCEPTED).stream;
    send_text(ends[SERVER], "welcome");
    struct weir_message *message = rig_expect(&rig, SERVER, WEIR_EVENT_MESSAGE).message;
    assert_string_equal(text_of(message, text), "hello");
    weir_message_unref(message);
    rig_expect(&rig, CLIENT, WEIR_EVENT_OPENED); /* before any message */
    message = rig_expect(&rig, CLIENT, WEIR_EVENT_MESSAGE).message;
    assert_string_equal(text_of(message, text), "welcome");
    weir_message_unref(message);
    rig_close(&rig, ends);
    rig_stop(&rig);
}

static void expect_no_server(struct rig *rig, const char *address, const char *what)
{
    struct weir_server_options options = {.address = address, .message_limit_bytes = LIMIT};
    options.pollers[0] = rig->pollers[SERVER];
    struct weir_error err = {""};
    assert_null(weir_server_start(transport, &options, &err));
    if (!strstr(err.text, what) || !strstr(err.text, address))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", err.text, address, what);
}

static void a_port_in_use_is_said_with_its_address(void **state)
{
    (void)state;
    struct rig rig;
    rig_start(&rig);
    expect_no_server(&rig, rig.address, "port in use");
    expect_no_server(&rig, "nonsense", "is not host:port");
    if (is_grpc) {
        expect_no_server(&rig, "no-such-name.invalid:0", "cannot find this host");
        char elsewhere[64];
        snprintf(elsewhere, sizeof elsewhere, "198.51.100.1%s", strrchr(rig.address, ':'));
        expect_no_server(&rig, elsewhere, "port in use"); /* there it would listen on all addresses */
    }
    rig_stop(&rig);
}

/* As the outer address of a NAT, whose connections end here. */
static void at_an_address_of_another_machine_a_server_takes_what_comes_to_its_port(void **state)
{
    (void)state;
    if (!is_grpc)
        skip();
    struct rig rig;
    struct weir_stream *ends[2];
    rig_start(&rig);
    weir_server_stop(rig.server);
    rig_start_server(&rig, "198.51.100.1:0", LIMIT);
    snprintf(rig.address, sizeof rig.address, "127.0.0.1:%u", weir_server_port(rig.server));
    rig_open(&rig, 0, ends);
    rig_close(&rig, ends);
    rig_stop(&rig);
}

static bool ipv6_is_there(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

/* A bare system has no /etc/hosts. */
static bool localhost_is_known(void)
{
    struct addrinfo *found;
    if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

static void ipv6_and_names_and_wildcards_work(void **state)
{
    (void)state;
    const char *const addresses[] = {"localhost:0", "0.0.0.0:0", "[::1]:0", "[::]:0"};
    for (size_t i = localhost_is_known() ? 0 : 1; i < (ipv6_is_there() ? 4 : 2); i++) {
        struct rig rig;
        struct weir_stream *ends[2];
        rig_start(&rig);
        weir_server_stop(rig.server);
        rig_start_server(&rig, addresses[i], LIMIT);
        if (i == 1)
            snprintf(rig.address, sizeof rig.address, "127.0.0.1:%u", weir_server_port(rig.server));
        if (i == 3)
            snprintf(rig.address, sizeof rig.address, "[::1]:%u", weir_server_port(rig.server));
        rig_open(&rig, 0, ends);
        rig_close(&rig, ends);
        rig_stop(&rig);
    }
}

/* Attempts fail while nobody is there, and the first ones after that succeed: no back-off is left over. */
static void a_restarted_server_is_reached_at_once(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct weir_transport_event event;
    rig_start(&rig);
    rig_open(&rig, 0, ends);
    char address[64];
    snprintf(address, sizeof address, "%s", rig.address);
    weir_server_stop(rig.server);
    rig.server = NULL;
    rig_expect_closed(&rig, SERVER, ends[SERVER], NULL);
    rig_expect_closed(&rig, CLIENT, ends[CLIENT], NULL);
    weir_stream_free(ends[CLIENT]);
    weir_stream_free(ends[SERVER]);
    for (int i = 0; i < 30; i++) {
        expect_failure(&rig, address, 0, PATIENCE_MS, "connection refused");
        rig_next(&rig, CLIENT, 10, &event);
    }
    rig_start_server(&rig, address, LIMIT);
    uint64_t start = weir_clock_ns();
    rig_open(&rig, 0, ends);
    assert_true(weir_clock_ns() - start < 1000 * WEIR_NS_PER_MS); /* some 1 ms; a back-off would take seconds */
    rig_close(&rig, ends);
    rig_stop(&rig);
}

int transport_connect_tests(void)
{
    const struct CMUnitTest connects[] = {
        cmocka_unit_test(nobody_there_is_said_as_such),
        cmocka_unit_test(bad_addresses_are_said_as_such),
        cmocka_unit_test(a_channel_without_poller_is_not_served),
        cmocka_unit_test(a_server_that_does_not_answer_is_given_up),
        cmocka_unit_test(close_before_opened_ends_the_attempt),
        cmocka_unit_test(what_is_sent_before_opened_arrives),
        cmocka_unit_test(a_port_in_use_is_said_with_its_address),
        cmocka_unit_test(at_an_address_of_another_machine_a_server_takes_what_comes_to_its_port),
        cmocka_unit_test(ipv6_and_names_and_wildcards_work),
        cmocka_unit_test(a_restarted_server_is_reached_at_once),
    };
    return cmocka_run_group_tests(connects, NULL, NULL);
}
