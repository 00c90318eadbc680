/* The relay between real sockets: everything passes, whole and in order, and each fault does what it says. */
#include "chaos/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

#define NODES 3
#define GUARD_MS 20000
#define QUIET_MS 60 /* so long nothing may come through a cut */

static struct weir_relay *relay;
static uint16_t ports[NODES];
static int listeners[NODES];

static int open_listener(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int set_up(void **state)
{
    (void)state;
    struct weir_error err;
    for (int i = 0; i < NODES; i++)
        listeners[i] = open_listener(&ports[i]);
    relay = weir_relay_new(NODES, ports, &err);
    return relay ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    weir_relay_free(relay);
    for (int i = 0; i < NODES; i++)
        close(listeners[i]);
    return 0;
}

static int connect_through(uint32_t from, uint32_t to)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(weir_relay_port(relay, from, to))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool is_ready(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, timeout_ms) == 1;
}

static int accept_at(uint32_t node)
{
    assert_true(is_ready(listeners[node], GUARD_MS));
    return accept(listeners[node], NULL, NULL);
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void assert_comes(int fd, const char *text)
{
    char bytes[256] = "";
    size_t at = 0;
    while (at < strlen(text)) {
        assert_true(is_ready(fd, GUARD_MS));
        ssize_t got = recv(fd, bytes + at, strlen(text) - at, 0);
        assert_true(got > 0);
        at += (size_t)got;
    }
    assert_string_equal(bytes, text);
}

struct pair {
    int client, server;
};

static struct pair join(uint32_t from, uint32_t to)
{
    struct pair pair = {.client = connect_through(from, to)};
    pair.server = accept_at(to);
    return pair;
}

static void part(struct pair pair)
{
    close(pair.client);
    close(pair.server);
}

static void set_rule(uint32_t from, uint32_t to, struct weir_relay_rule rule)
{
    weir_relay_set(relay, from, to, &rule);
}

static double ms_since(uint64_t begin)
{
    return (double)(weir_clock_ns() - begin) / 1e6;
}

static void both_ways_pass_whole_and_in_order(void **state)
{
    (void)state;
    enum { COUNT = 3 << 20 };
    struct pair pair = join(0, 1);
    char *sent = malloc(COUNT), *got = malloc(COUNT);
    for (size_t i = 0; i < COUNT; i++)
        sent[i] = (char)(i * 2654435761u >> 13);
    size_t out = 0, in = 0;
    while (in < COUNT) {
        struct pollfd both[2] = {{.fd = pair.client, .events = out < COUNT ? POLLOUT : 0},
                                 {.fd = pair.server, .events = POLLIN}};
        assert_true(poll(both, 2, GUARD_MS) > 0);
        ssize_t count = 0;
        if (both[0].revents & POLLOUT)
            count = send(pair.client, sent + out, COUNT - out, MSG_NOSIGNAL | MSG_DONTWAIT);
        out += count > 0 ? (size_t)count : 0;
        count = both[1].revents & POLLIN ? recv(pair.server, got + in, COUNT - in, 0) : 0;
        in += count > 0 ? (size_t)count : 0;
    }
    assert_memory_equal(sent, got, COUNT);
    send_text(pair.server, "and back");
    assert_comes(pair.client, "and back");
    close(pair.client); /* the end passes, too */
    char byte;
    assert_true(is_ready(pair.server, GUARD_MS));
    assert_true(recv(pair.server, &byte, 1, 0) <= 0);
    close(pair.server);
    free(sent);
    free(got);
}

static void the_end_comes_after_all_that_was_sent(void **state)
{
    (void)state;
    struct pair pair = join(2, 0);
    set_rule(2, 0, (struct weir_relay_rule){.delay_ms = 30});
    send_text(pair.client, "last words");
    shutdown(pair.client, SHUT_WR);
    assert_comes(pair.server, "last words");
    char byte;
    assert_int_equal(recv(pair.server, &byte, 1, 0), 0);
    send_text(pair.server, "heard"); /* the other way is still open */
    assert_comes(pair.client, "heard");
    part(pair);
}

static void a_cut_holds_one_way_and_lets_it_go_afterwards(void **state)
{
    (void)state;
    struct pair pair = join(0, 1), other = join(0, 2);
    set_rule(0, 1, (struct weir_relay_rule){.cut = true});
    send_text(pair.client, "held");
    send_text(other.client, "free");
    send_text(pair.server, "the other way");
    assert_comes(pair.client, "the other way");
    assert_comes(other.server, "free");
    assert_false(is_ready(pair.server, QUIET_MS));
    set_rule(0, 1, (struct weir_relay_rule){0});
    assert_comes(pair.server, "held");
    part(pair);
    part(other);
}

/* Who made the connection does not matter: what 1 sends to 0 goes the way from 1 to 0. */
static void a_cut_is_of_the_direction_and_not_of_the_connection(void **state)
{
    (void)state;
    struct pair pair = join(0, 1);
    set_rule(1, 0, (struct weir_relay_rule){.cut = true});
    send_text(pair.server, "held");
    send_text(pair.client, "free");
    assert_comes(pair.server, "free");
    assert_false(is_ready(pair.client, QUIET_MS));
    set_rule(1, 0, (struct weir_relay_rule){0});
    assert_comes(pair.client, "held");
    part(pair);
}

static void nobody_hears_of_an_end_through_a_cut(void **state)
{
    (void)state;
    struct pair pair = join(0, 1);
    set_rule(0, 1, (struct weir_relay_rule){.cut = true});
    set_rule(1, 0, (struct weir_relay_rule){.cut = true});
    close(pair.client);
    assert_false(is_ready(pair.server, QUIET_MS));
    set_rule(0, 1, (struct weir_relay_rule){0});
    set_rule(1, 0, (struct weir_relay_rule){0});
    assert_true(is_ready(pair.server, GUARD_MS));
    close(pair.server);
}

static void no_connection_comes_about_during_a_cut(void **state)
{
    (void)state;
    set_rule(1, 0, (struct weir_relay_rule){.cut = true});
    int client = connect_through(0, 1);
    send_text(client, "early");
    assert_false(is_ready(listeners[1], QUIET_MS));
    set_rule(1, 0, (struct weir_relay_rule){0});
    int server = accept_at(1);
    assert_comes(server, "early");
    close(client);
    close(server);
}

static void a_delay_is_kept(void **state)
{
    (void)state;
    struct pair pair = join(0, 1);
    set_rule(0, 1, (struct weir_relay_rule){.delay_ms = 50, .jitter_ms = 20});
    send_text(pair.server, "x"); /* once this is there the rule is, too: it came by the same thread */
    assert_comes(pair.client, "x");
    for (int i = 0; i < 3; i++) {
        uint64_t begin = weir_clock_ns();
        send_text(pair.client, "slow");
        assert_comes(pair.server, "slow");
        assert_true(ms_since(begin) >= 49);
    }
    part(pair);
}

static void jitter_changes_no_order(void **state)
{
    (void)state;
    struct pair pair = join(0, 1);
    set_rule(0, 1, (struct weir_relay_rule){.jitter_ms = 10});
    for (char c = 'a'; c <= 'z'; c++) {
        char text[2] = {c, '\0'}, echo[2] = {c, '\0'};
        send_text(pair.client, text);
        send_text(pair.server, echo); /* so that each letter is a piece of its own */
        assert_comes(pair.client, echo);
    }
    assert_comes(pair.server, "abcdefghijklmnopqrstuvwxyz");
    part(pair);
}

static void a_bandwidth_is_kept(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    static char bytes[COUNT];
    struct pair pair = join(0, 1);
    set_rule(0, 1, (struct weir_relay_rule){.bytes_per_s = 1e6});
    send_text(pair.server, "x");
    assert_comes(pair.client, "x");
    uint64_t begin = weir_clock_ns();
    size_t out = 0, in = 0;
    while (in < COUNT) {
        if (out < COUNT) {
            ssize_t count = send(pair.client, bytes + out, COUNT - out, MSG_NOSIGNAL | MSG_DONTWAIT);
            out += count > 0 ? (size_t)count : 0;
        }
        ssize_t count = is_ready(pair.server, 1) ? recv(pair.server, bytes, COUNT, 0) : 0;
        in += count > 0 ? (size_t)count : 0;
        assert_true(ms_since(begin) < GUARD_MS);
    }
    assert_true(ms_since(begin) >= 200); /* the last piece need not be waited for */
    part(pair);
}

static void a_reset_breaks_the_pair_and_no_other(void **state)
{
    (void)state;
    struct pair there = join(0, 1), back = join(1, 0), other = join(0, 2);
    weir_relay_reset(relay, 1, 0);
    const int broken[] = {there.client, there.server, back.client, back.server};
    for (int i = 0; i < 4; i++) {
        char byte;
        assert_true(is_ready(broken[i], GUARD_MS));
        assert_int_equal(recv(broken[i], &byte, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
    }
    send_text(other.client, "whole");
    assert_comes(other.server, "whole");
    part(there);
    part(back);
    part(other);
    there = join(0, 1); /* only once */
    send_text(there.client, "again");
    assert_comes(there.server, "again");
    part(there);
}

static void a_peer_that_is_not_there_ends_the_connection(void **state)
{
    (void)state;
    close(listeners[1]);
    int client = connect_through(0, 1);
    char byte;
    assert_true(is_ready(client, GUARD_MS));
    assert_true(recv(client, &byte, 1, 0) <= 0);
    close(client);
}

static void bytes_are_counted_by_direction(void **state)
{
    (void)state;
    struct pair pair = join(0, 1);
    send_text(pair.client, "12345");
    assert_comes(pair.server, "12345");
    send_text(pair.server, "1");
    assert_comes(pair.client, "1");
    send_text(pair.client, "6"); /* the count of a piece is there before the next is passed on */
    assert_comes(pair.server, "6");
    send_text(pair.server, "2");
    assert_comes(pair.client, "2");
    assert_true(weir_relay_bytes(relay, 0, 1) >= 5 && weir_relay_bytes(relay, 0, 1) <= 6);
    assert_true(weir_relay_bytes(relay, 1, 0) >= 1 && weir_relay_bytes(relay, 1, 0) <= 2);
    assert_int_equal(weir_relay_bytes(relay, 0, 2), 0);
    part(pair);
}

#define WITH_RELAY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RELAY(both_ways_pass_whole_and_in_order),
        WITH_RELAY(the_end_comes_after_all_that_was_sent),
        WITH_RELAY(a_cut_holds_one_way_and_lets_it_go_afterwards),
        WITH_RELAY(a_cut_is_of_the_direction_and_not_of_the_connection),
        WITH_RELAY(nobody_hears_of_an_end_through_a_cut),
        WITH_RELAY(no_connection_comes_about_during_a_cut),
        WITH_RELAY(a_delay_is_kept),
        WITH_RELAY(jitter_changes_no_order),
        WITH_RELAY(a_bandwidth_is_kept),
        WITH_RELAY(a_reset_breaks_the_pair_and_no_other),
        WITH_RELAY(a_peer_that_is_not_there_ends_the_connection),
        WITH_RELAY(bytes_are_counted_by_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
