#include "transport_rig.h"

#include <pthread.h>

static void messages_arrive_in_order_with_their_bytes(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcels[40];
    char header[32];
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    for (int direction = 0; direction < 2; direction++) {
        for (uint32_t i = 0; i < 40; i++) { /* sizes from nothing to many frames; 1 to 31 slices, some empty */
            parcel_fill(&parcels[i], i < 3 ? i : (size_t)i * i * 211, i);
            snprintf(header, sizeof header, "%s%u", i % 7 ? "header " : "", i);
            parcel_send(ends[direction], i % 5 ? header : "", &parcels[i], 1 + i % 31);
        }
        for (uint32_t i = 0; i < 40; i++) {
            struct weir_transport_event event = rig_expect(&rig, !direction, WEIR_EVENT_MESSAGE);
            snprintf(header, sizeof header, "%s%u", i % 7 ? "header " : "", i);
            assert_true(parcel_arrived(event.message, i % 5 ? header : "", &parcels[i]));
            weir_message_unref(event.message);
        }
        for (uint32_t i = 0; i < 40; i++)
            parcel_check(&parcels[i], &rig);
        while (rig.sent[direction] < 40) {
            rig_expect(&rig, direction, WEIR_EVENT_SENT);
            rig.sent[direction]++;
        }
    }
    rig_close(&rig, ends);
    rig_stop(&rig);
}

#define SMALL 100000u
#define AHEAD 64u

static void a_hundred_thousand_small_messages_arrive_in_order(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_CONTROL, ends);
    char text[256];
    uint32_t begun = 0, sent = 0, arrived = 0;
    while (arrived < SMALL) {
        while (begun < SMALL && begun - sent < AHEAD) {
            int count = snprintf(text, sizeof text, "%u", begun++);
            const struct weir_outgoing outgoing = {.header = text, .header_bytes = (size_t)count, .more = true};
            weir_stream_send(ends[CLIENT], &outgoing);
        }
        struct weir_transport_event event;
        while (rig_next(&rig, CLIENT, 0, &event) == WEIR_EVENT_SENT)
            sent++;
        assert_string_equal(event.reason, "");
        assert_int_equal(event.type, WEIR_EVENT_NONE);
        while (rig_next(&rig, SERVER, 0, &event) == WEIR_EVENT_MESSAGE) {
            assert_int_equal(strtoul(text_of(event.message, text), NULL, 10), arrived++);
            weir_message_unref(event.message);
        }
        assert_int_equal(event.type, WEIR_EVENT_NONE);
    }
    rig_close(&rig, ends);
    rig_stop(&rig);
}

static void big_messages_go_both_ways_at_once(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcels[2][6];
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(1), ends);
    for (uint32_t i = 0; i < 6; i++)
        for (int who = 0; who < 2; who++) {
            parcel_fill(&parcels[who][i], 4 * MIB, 10 * i + (uint32_t)who);
            parcel_send(ends[who], "big", &parcels[who][i], 3);
        }
    for (uint32_t i = 0; i < 6; i++)
        for (int who = 0; who < 2; who++) {
            struct weir_transport_event event = rig_expect(&rig, who, WEIR_EVENT_MESSAGE);
            assert_true(parcel_arrived(event.message, "big", &parcels[!who][i]));
            weir_message_unref(event.message);
        }
    for (uint32_t i = 0; i < 6; i++)
        for (int who = 0; who < 2; who++)
            parcel_check(&parcels[who][i], &rig);
    rig_close(&rig, ends);
    rig_stop(&rig);
}

/* A receiver that does not take its messages stops the sender, and nothing piles up between them. */
static void who_does_not_read_stops_the_sender(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcels[64];
    struct weir_transport_event event;
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    for (uint32_t i = 0; i < 64; i++) {
        parcel_fill(&parcels[i], MIB, i);
        parcel_send(ends[CLIENT], "", &parcels[i], 1);
    }
    unsigned sent = 0;
    uint64_t quiet_after = weir_clock_ns() + 300 * WEIR_NS_PER_MS;
    while (weir_clock_ns() < quiet_after) {
        weir_poller_wait(rig.pollers[CLIENT], quiet_after, &event);
        sent += event.type == WEIR_EVENT_SENT;
    }
    assert_true(sent < 32);
    for (uint32_t i = 0; i < 64; i++) {
        event = rig_expect(&rig, SERVER, WEIR_EVENT_MESSAGE);
        assert_true(parcel_arrived(event.message, "", &parcels[i]));
        weir_message_unref(event.message);
    }
    for (uint32_t i = 0; i < 64; i++)
        parcel_check(&parcels[i], &rig);
    rig_close(&rig, ends);
    rig_stop(&rig);
}

static void *unref_elsewhere(void *message)
{
    weir_message_unref(message);
    return NULL;
}

static void a_message_outlives_its_stream_and_may_be_freed_by_any_thread(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcel;
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    parcel_fill(&parcel, MIB, 1);
    parcel_send(ends[CLIENT], "h", &parcel, 2);
    struct weir_message *message = rig_expect(&rig, SERVER, WEIR_EVENT_MESSAGE).message;
    rig_close(&rig, ends);
    assert_true(parcel_arrived(message, "h", &parcel));
    weir_message_ref(message);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, unref_elsewhere, message), 0);
    pthread_join(thread, NULL);
    assert_true(parcel_arrived(message, "h", &parcel));
    weir_message_unref(message);
    parcel_check(&parcel, &rig);
    rig_stop(&rig);
}

static void one_poller_can_hold_both_ends(void **state)
{
    (void)state;
    struct weir_poller *poller = weir_poller_new(transport);
    struct weir_server_options options = {.address = "127.0.0.1:0", .pollers = {poller}, .message_limit_bytes = LIMIT};
    struct weir_error err;
    struct weir_server *server = weir_server_start(transport, &options, &err);
    assert_non_null(server);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", weir_server_port(server));
    struct weir_stream *client = weir_stream_connect(poller, address, 0, LIMIT, PATIENCE_MS);
    struct weir_transport_event event;
    int echoes = 0, closed = 0;
    while (closed < 2) {
        weir_poller_wait(poller, weir_clock_ns() + PATIENCE_MS * WEIR_NS_PER_MS, &event);
        assert_int_not_equal(event.type, WEIR_EVENT_NONE);
        if (event.type == WEIR_EVENT_OPENED)
            send_text(client, "to and fro");
        if (event.type == WEIR_EVENT_MESSAGE) {
            char text[256];
            assert_string_equal(text_of(event.message, text), "to and fro");
            weir_message_unref(event.message);
            if (echoes++ < 10)
                send_text(event.stream, "to and fro");
            else
                weir_stream_finish(client);
        }
        if (event.type == WEIR_EVENT_CLOSED) {
            weir_stream_free(event.stream);
            closed++;
        }
    }
    weir_server_stop(server);
    weir_poller_free(poller);
}

#define MANY 64

static void many_streams_keep_apart_and_are_freed_in_any_order(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[MANY][2];
    rig_start(&rig);
    for (unsigned i = 0; i < MANY; i++) {
        rig_open(&rig, i % (WEIR_CHANNELS_MAX - 1), ends[i]);
        weir_stream_set_user(ends[i][SERVER], ends[i]);
        assert_null(weir_stream_user(ends[i][CLIENT]));
    }
    char text[256], expected[32];
    for (unsigned round = 0; round < 5; round++)
        for (unsigned i = 0; i < MANY; i++) {
            snprintf(text, sizeof text, "%u %u", i, round);
            send_text(ends[i][CLIENT], text);
        }
    unsigned seen[MANY] = {0};
    for (unsigned n = 0; n < 5 * MANY; n++) {
        struct weir_transport_event event = rig_expect(&rig, SERVER, WEIR_EVENT_MESSAGE);
        struct weir_stream *(*pair)[2] = weir_stream_user(event.stream);
        unsigned i = (unsigned)(pair - ends);
        snprintf(expected, sizeof expected, "%u %u", i, seen[i]++);
        assert_string_equal(text_of(event.message, text), expected);
        weir_message_unref(event.message);
    }
    for (unsigned n = 0; n < MANY; n++)
        weir_stream_close(ends[n][n % 2], "");
    for (int who = 0; who < 2; who++) {
        struct weir_stream *closed[MANY];
        for (unsigned n = 0; n < MANY; n++)
            closed[n] = rig_expect(&rig, who, WEIR_EVENT_CLOSED).stream;
        for (unsigned n = 0; n < MANY; n++)
            weir_stream_free(closed[(n * 37 + 5) % MANY]);
    }
    rig_stop(&rig);
}

static void bytes_are_counted_both_ways(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcel;
    uint64_t sent[2], received[2];
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    weir_transport_bytes(transport, &sent[0], &received[0]);
    parcel_fill(&parcel, 1000, 1);
    parcel_send(ends[SERVER], "12345", &parcel, 2);
    weir_message_unref(rig_expect(&rig, CLIENT, WEIR_EVENT_MESSAGE).message);
    rig_expect(&rig, SERVER, WEIR_EVENT_SENT);
    weir_transport_bytes(transport, &sent[1], &received[1]);
    assert_int_equal(sent[1] - sent[0], 1005);
    assert_int_equal(received[1] - received[0], 1005);
    parcel_check(&parcel, &rig);
    rig_close(&rig, ends);
    rig_stop(&rig);
}

int transport_message_tests(void)
{
    const struct CMUnitTest messages[] = {
        cmocka_unit_test(messages_arrive_in_order_with_their_bytes),
        cmocka_unit_test(a_hundred_thousand_small_messages_arrive_in_order),
        cmocka_unit_test(big_messages_go_both_ways_at_once),
        cmocka_unit_test(who_does_not_read_stops_the_sender),
        cmocka_unit_test(a_message_outlives_its_stream_and_may_be_freed_by_any_thread),
        cmocka_unit_test(one_poller_can_hold_both_ends),
        cmocka_unit_test(many_streams_keep_apart_and_are_freed_in_any_order),
        cmocka_unit_test(bytes_are_counted_both_ways),
    };
    return cmocka_run_group_tests(messages, NULL, NULL);
}
