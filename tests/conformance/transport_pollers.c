#include "transport_rig.h"

#include <pthread.h>

static void the_deadline_is_kept(void **state)
{
    (void)state;
    struct weir_poller *poller = weir_poller_new(transport);
    struct weir_transport_event event;
    weir_poller_wait(poller, 0, &event);
    assert_int_equal(event.type, WEIR_EVENT_NONE);
    for (uint32_t ms = 0; ms < 60; ms += 7) {
        uint64_t deadline = weir_clock_ns() + ms * WEIR_NS_PER_MS;
        weir_poller_wait(poller, deadline, &event);
        assert_int_equal(event.type, WEIR_EVENT_NONE);
        assert_true(weir_clock_ns() >= deadline);
        assert_true(weir_clock_ns() < deadline + 5 * WEIR_NS_PER_S);
    }
    weir_poller_free(poller);
}

struct waker {
    struct weir_poller *poller;
    atomic_uint calls;
};

static void *wake_often(void *context)
{
    struct waker *waker = context;
    for (int i = 0; i < 2000; i++) {
        atomic_fetch_add(&waker->calls, 1);
        weir_poller_wake(waker->poller);
    }
    return NULL;
}

/* Wakes may be merged, but after each one a wait returns: so no call that precedes its wake goes unseen. */
static void no_wake_is_lost(void **state)
{
    (void)state;
    struct waker waker = {.poller = weir_poller_new(transport)};
    struct weir_transport_event event;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, &waker), 0);
    unsigned seen = 0;
    while (seen < 6000) {
        weir_poller_wait(waker.poller, weir_clock_ns() + PATIENCE_MS * WEIR_NS_PER_MS, &event);
        assert_int_equal(event.type, WEIR_EVENT_WOKEN);
        unsigned now = atomic_load(&waker.calls);
        assert_true(now >= seen);
        seen = now;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    weir_poller_wake(waker.poller); /* one that nobody waits for */
    weir_poller_free(waker.poller);
}

/* ---- lanes: as weir runs, each poller with a thread of its own on both sides */

#define LANES 3
#define ROUNDS 300

struct lane {
    struct weir_poller *poller;
    const char *address;
    uint32_t channel;
    unsigned echoed, failed;
};

static void next(struct weir_poller *poller, struct weir_transport_event *event)
{
    weir_poller_wait(poller, weir_clock_ns() + PATIENCE_MS * WEIR_NS_PER_MS, event);
}

static void give_back(void *message)
{
    weir_message_unref(message);
}

/* Sends each message back as it is: its slices, until they are sent. */
static void echo(struct weir_stream *stream, struct weir_message *message)
{
    struct weir_slice slices[512];
    size_t count = weir_message_slices(message, slices, 512);
    const struct weir_outgoing outgoing = {
        .payload = slices, .payload_count = count, .release = give_back, .release_context = message};
    weir_stream_send(stream, &outgoing);
}

static void *serve_lane(void *context)
{
    struct lane *lane = context;
    struct weir_transport_event event;
    for (unsigned closed = 0; closed < 2;) { /* two clients for each lane */
        next(lane->poller, &event);
        if (event.type == WEIR_EVENT_MESSAGE)
            echo(event.stream, event.message);
        else if (event.type == WEIR_EVENT_CLOSED && ++closed)
            weir_stream_free(event.stream);
        else if (event.type == WEIR_EVENT_NONE && ++lane->failed)
            break;
    }
    return NULL;
}

static void *use_lane(void *context)
{
    struct lane *lane = context;
    struct weir_transport_event event;
    struct parcel parcel;
    parcel_fill(&parcel, 50000, lane->channel);
    struct weir_stream *stream = weir_stream_connect(lane->poller, lane->address, lane->channel, LIMIT, PATIENCE_MS);
    do {
        next(lane->poller, &event);
        if (event.type == WEIR_EVENT_MESSAGE) {
            lane->failed += !parcel_arrived(event.message, "again", &parcel);
            weir_message_unref(event.message);
            lane->echoed++;
        }
        if (event.type == WEIR_EVENT_NONE)
            lane->failed++;
        if (lane->echoed == ROUNDS)
            weir_stream_finish(stream);
        else if (event.type == WEIR_EVENT_OPENED || event.type == WEIR_EVENT_MESSAGE)
            parcel_send(stream, "again", &parcel, 5);
    } while (event.type != WEIR_EVENT_CLOSED && !lane->failed);
    lane->failed += event.reason[0] != 0 || atomic_load(&parcel.released) != ROUNDS;
    weir_stream_free(stream);
    free(parcel.bytes);
    return NULL;
}

static void lanes_on_threads_of_their_own_do_not_mix(void **state)
{
    (void)state;
    struct lane servers[LANES] = {0}, clients[2 * LANES] = {0};
    struct weir_server_options options = {.address = "127.0.0.1:0", .message_limit_bytes = LIMIT};
    for (uint32_t i = 0; i < LANES; i++) {
        servers[i].poller = weir_poller_new(transport);
        options.pollers[WEIR_CHANNEL_LANE(i)] = servers[i].poller;
    }
    struct weir_error err;
    struct weir_server *server = weir_server_start(transport, &options, &err);
    assert_non_null(server);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", weir_server_port(server));
    pthread_t threads[3 * LANES];
    for (uint32_t i = 0; i < LANES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve_lane, &servers[i]), 0);
    for (uint32_t i = 0; i < 2 * LANES; i++) {
        clients[i] = (struct lane){weir_poller_new(transport), address, WEIR_CHANNEL_LANE(i % LANES), 0, 0};
        assert_int_equal(pthread_create(&threads[LANES + i], NULL, use_lane, &clients[i]), 0);
    }
    for (uint32_t i = 0; i < 3 * LANES; i++)
        pthread_join(threads[i], NULL);
    weir_server_stop(server);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(servers[i].failed, 0);
        weir_poller_free(servers[i].poller);
    }
    for (uint32_t i = 0; i < 2 * LANES; i++) {
        assert_int_equal(clients[i].failed, 0);
        assert_int_equal(clients[i].echoed, ROUNDS);
        weir_poller_free(clients[i].poller);
    }
}

int transport_poller_tests(void)
{
    const struct CMUnitTest pollers[] = {
        cmocka_unit_test(the_deadline_is_kept),
        cmocka_unit_test(no_wake_is_lost),
        cmocka_unit_test(lanes_on_threads_of_their_own_do_not_mix),
    };
    return cmocka_run_group_tests(pollers, NULL, NULL);
}
