#include "transport_rig.h"

#include <pthread.h>

#define QUEUED 12

static void fill_and_send(struct weir_stream *stream, struct parcel *parcels, size_t bytes)
{
    for (uint32_t i = 0; i < QUEUED; i++) {
        parcel_fill(&parcels[i], bytes, i);
        parcel_send(stream, "queued", &parcels[i], 1 + i % 4);
    }
}

static void check_all(struct parcel *parcels, struct rig *rig)
{
    for (uint32_t i = 0; i < QUEUED; i++)
        parcel_check(&parcels[i], rig);
}

static void close_gives_queued_payloads_back(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++)
        for (int peer_closes = 0; peer_closes < 2; peer_closes++) {
            struct rig rig;
            struct weir_stream *ends[2];
            struct parcel parcels[QUEUED];
            rig_start(&rig);
            rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
            fill_and_send(ends[who], parcels, 2 * MIB);
            weir_stream_close(ends[peer_closes ? !who : who], "enough");
            rig_expect_closed(&rig, CLIENT, ends[CLIENT], (peer_closes ? !who : who) == CLIENT ? "" : "enough");
            rig_expect_closed(&rig, SERVER, ends[SERVER], (peer_closes ? !who : who) == CLIENT ? "enough" : "");
            check_all(parcels, &rig);
            weir_stream_free(ends[CLIENT]);
            weir_stream_free(ends[SERVER]);
            rig_stop(&rig);
        }
}

/* Not even by its owner: what is sent after the end is given back at once. */
static void after_the_end_nothing_is_sent(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcels[3];
    for (uint32_t i = 0; i < 3; i++)
        parcel_fill(&parcels[i], 100, i);
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    weir_stream_finish(ends[CLIENT]);
    parcel_send(ends[CLIENT], "", &parcels[0], 1);
    weir_stream_close(ends[CLIENT], "");
    weir_stream_close(ends[CLIENT], "again");
    parcel_send(ends[CLIENT], "", &parcels[1], 1);
    rig_expect_closed(&rig, CLIENT, ends[CLIENT], "");
    parcel_send(ends[CLIENT], "", &parcels[2], 1);
    weir_stream_close(ends[CLIENT], "");
    weir_stream_finish(ends[CLIENT]);
    struct weir_transport_event event;
    while (rig_next(&rig, SERVER, PATIENCE_MS, &event) != WEIR_EVENT_CLOSED)
        assert_int_not_equal(event.type, WEIR_EVENT_MESSAGE);
    for (uint32_t i = 0; i < 3; i++)
        parcel_check(&parcels[i], &rig);
    weir_stream_free(ends[CLIENT]);
    weir_stream_free(ends[SERVER]);
    rig_stop(&rig);
}

static void finish_delivers_all_that_was_queued(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++) {
        struct rig rig;
        struct weir_stream *ends[2];
        struct parcel parcels[QUEUED];
        rig_start(&rig);
        rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
        fill_and_send(ends[who], parcels, 300000);
        weir_stream_finish(ends[who]);
        weir_stream_finish(ends[who]);
        for (uint32_t i = 0; i < QUEUED; i++) {
            struct weir_transport_event event = rig_expect(&rig, !who, WEIR_EVENT_MESSAGE);
            assert_true(parcel_arrived(event.message, "queued", &parcels[i]));
            weir_message_unref(event.message);
        }
        rig_expect_closed(&rig, !who, ends[!who], "finished by the peer");
        rig_expect_closed(&rig, who, ends[who], "");
        check_all(parcels, &rig);
        weir_stream_free(ends[CLIENT]);
        weir_stream_free(ends[SERVER]);
        rig_stop(&rig);
    }
}

static void both_may_finish_at_once(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    weir_stream_finish(ends[CLIENT]);
    weir_stream_finish(ends[SERVER]);
    for (int who = 0; who < 2; who++) { /* one of the two may hear of the other's end first */
        struct weir_transport_event event = rig_expect(&rig, who, WEIR_EVENT_CLOSED);
        assert_true(!event.reason[0] || strstr(event.reason, "finished by the peer"));
        weir_stream_free(ends[who]);
    }
    rig_stop(&rig);
}

static void a_closed_stream_has_no_event_but_closed(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++) {
        struct rig rig;
        struct weir_stream *ends[2];
        struct weir_transport_event event;
        rig_start(&rig);
        rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
        for (int i = 0; i < 10; i++) {
            send_text(ends[who], "mine");
            send_text(ends[!who], "yours");
        }
        while (rig_next(&rig, !who, 50, &event) != WEIR_EVENT_NONE)
            weir_message_unref(event.message);
        while (rig.stash_count[who]) { /* they were handed out before the close */
            rig_next(&rig, who, 0, &event);
            weir_message_unref(event.message);
        }
        weir_stream_close(ends[who], "");
        event = rig_expect(&rig, who, WEIR_EVENT_CLOSED);
        assert_int_equal(rig.sent[who], 0);
        assert_string_equal(event.reason, "");
        rig_expect_closed(&rig, !who, ends[!who], "peer");
        weir_stream_free(ends[CLIENT]);
        weir_stream_free(ends[SERVER]);
        rig_stop(&rig);
    }
}

static void a_message_over_the_limit_ends_its_stream_only(void **state)
{
    (void)state;
    for (int who = 0; who < 2; who++) {
        struct rig rig;
        struct weir_stream *ends[2], *others[2];
        struct parcel parcels[2];
        rig_start(&rig);
        rig_open(&rig, WEIR_CHANNEL_LANE(0), others);
        rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
        parcel_fill(&parcels[0], LIMIT, 1);
        parcel_fill(&parcels[1], LIMIT + 1, 2);
        parcel_send(ends[who], "", &parcels[0], 1); /* the limit itself is allowed */
        weir_message_unref(rig_expect(&rig, !who, WEIR_EVENT_MESSAGE).message);
        rig_expect(&rig, who, WEIR_EVENT_SENT);
        parcel_send(ends[who], "", &parcels[1], 1);
        rig_expect_closed(&rig, !who, ends[!who], "message of 8388609 bytes exceeds the limit of 8388608 bytes");
        rig_expect_closed(&rig, who, ends[who], "message of 8388609 bytes exceeds the limit of 8388608 bytes");
        send_text(others[who], "still here");
        weir_message_unref(rig_expect(&rig, !who, WEIR_EVENT_MESSAGE).message);
        parcel_check(&parcels[0], &rig);
        parcel_check(&parcels[1], &rig);
        weir_stream_free(ends[CLIENT]);
        weir_stream_free(ends[SERVER]);
        while (rig.stash_count[who]) /* SENT of "still here" */
            rig_expect(&rig, who, WEIR_EVENT_SENT);
        rig_close(&rig, others);
        rig_stop(&rig);
    }
}

static void *stop_elsewhere(void *server)
{
    weir_server_stop(server);
    return NULL;
}

static void stop_ends_accepted_streams_while_they_send(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_stream *ends[2];
    struct parcel parcels[2][QUEUED];
    rig_start(&rig);
    rig_open(&rig, WEIR_CHANNEL_LANE(0), ends);
    fill_and_send(ends[CLIENT], parcels[CLIENT], 2 * MIB);
    fill_and_send(ends[SERVER], parcels[SERVER], 2 * MIB);
    weir_message_unref(rig_expect(&rig, SERVER, WEIR_EVENT_MESSAGE).message);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_elsewhere, rig.server), 0);
    pthread_join(thread, NULL);
    rig.server = NULL;
    rig_expect_closed(&rig, SERVER, ends[SERVER], "the server stopped");
    rig_expect_closed(&rig, CLIENT, ends[CLIENT], NULL);
    check_all(parcels[CLIENT], &rig);
    check_all(parcels[SERVER], &rig);
    weir_stream_free(ends[CLIENT]);
    weir_stream_free(ends[SERVER]);
    rig_stop(&rig);
}

static void an_accepted_stream_that_nobody_saw_is_no_leak(void **state)
{
    (void)state;
    struct rig rig;
    struct weir_transport_event event;
    rig_start(&rig);
    struct weir_stream *client = weir_stream_connect(rig.pollers[CLIENT], rig.address, 0, LIMIT, PATIENCE_MS);
    weir_poller_wait(rig.pollers[CLIENT], weir_clock_ns() + 20 * WEIR_NS_PER_MS, &event);
    assert_int_equal(event.type, WEIR_EVENT_NONE); /* the server's poller does not run */
    weir_server_stop(rig.server);
    rig.server = NULL;
    weir_stream_close(client, "");
    do
        weir_poller_wait(rig.pollers[CLIENT], weir_clock_ns() + PATIENCE_MS * WEIR_NS_PER_MS, &event);
    while (event.type == WEIR_EVENT_OPENED);
    assert_int_equal(event.type, WEIR_EVENT_CLOSED);
    weir_stream_free(client);
    rig_stop(&rig);
}

int transport_end_tests(void)
{
    const struct CMUnitTest ends[] = {
        cmocka_unit_test(close_gives_queued_payloads_back),
        cmocka_unit_test(after_the_end_nothing_is_sent),
        cmocka_unit_test(finish_delivers_all_that_was_queued),
        cmocka_unit_test(both_may_finish_at_once),
        cmocka_unit_test(a_closed_stream_has_no_event_but_closed),
        cmocka_unit_test(a_message_over_the_limit_ends_its_stream_only),
        cmocka_unit_test(stop_ends_accepted_streams_while_they_send),
        cmocka_unit_test(an_accepted_stream_that_nobody_saw_is_no_leak),
    };
    return cmocka_run_group_tests(ends, NULL, NULL);
}
