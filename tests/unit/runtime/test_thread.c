#include "runtime/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

/* A core that counts events; the first must find what begin() made. */
struct counter {
    struct weir_actor actor;
    pthread_t began_on;
    bool began, stepped_early;
    unsigned events;
    sem_t stepped;
};

static void begin(void *context)
{
    struct counter *counter = context;
    counter->began = true;
    counter->began_on = pthread_self();
}

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    struct counter *counter = core;
    (void)event;
    (void)actions;
    counter->stepped_early = counter->stepped_early || !counter->began;
    counter->events++;
    sem_post(&counter->stepped);
}

static void counter_init(struct counter *counter, struct weir_thread *thread)
{
    *counter = (struct counter){.actor = {.name = "counter", .core = counter, .context = counter, .step = step}};
    counter->actor.begin = begin;
    counter->actor.actions_max = 1;
    sem_init(&counter->stepped, 0, 0);
    weir_thread_add(thread, &counter->actor);
}

/* Runs a thread with one counter until it has had its first event, and joins it. */
static struct weir_thread *run_to_the_end(struct weir_transport *transport, struct counter *counter)
{
    struct weir_thread *thread = weir_thread_new(transport, "test");
    struct weir_error err;
    counter_init(counter, thread);
    assert_false(counter->began); /* whoever makes the thread doesn't wait for it */
    assert_true(weir_thread_start(thread, &err));
    sem_wait(&counter->stepped);
    weir_thread_stop(thread);
    weir_thread_join(thread);
    sem_destroy(&counter->stepped);
    return thread;
}

static void an_actor_begins_on_its_thread_before_its_first_event(void **state)
{
    (void)state;
    struct weir_transport *transport = weir_transport_loopback();
    struct counter counter;
    struct weir_thread *thread = run_to_the_end(transport, &counter);
    assert_true(counter.began);
    assert_false(counter.stepped_early);
    assert_false(pthread_equal(counter.began_on, pthread_self()));
    assert_int_equal(counter.events, 1);
    weir_thread_free(thread);
    weir_transport_free(transport);
}

/* At the end of a job threads end one by one, and those that still run tell the others things. */
static void who_posts_to_a_joined_thread_does_no_harm(void **state)
{
    (void)state;
    struct weir_transport *transport = weir_transport_loopback();
    struct counter counter;
    struct weir_thread *thread = run_to_the_end(transport, &counter);
    struct weir_event late = {.kind = WEIR_ON_FAILED, .text = "too late"};
    weir_post(&counter.actor, &late);
    assert_int_equal(counter.events, 1);
    weir_thread_free(thread);
    weir_transport_free(transport);
}

/* ---- the last word */

#define LAST_WORDS 5

/* A core that connects, says a few things, and tells when all of them are with the network. */
struct speaker {
    struct weir_actor actor;
    char address[32];
    unsigned unsent;
    sem_t said;
};

static const char *where(void *context, uint32_t peer, uint32_t *channel)
{
    (void)peer;
    *channel = WEIR_CHANNEL_CONTROL;
    return ((struct speaker *)context)->address;
}

static void speak(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    struct speaker *speaker = core;
    if (event->kind == WEIR_ON_START)
        weir_actions_add(actions, WEIR_DO_CONNECT);
    for (int i = 0; event->kind == WEIR_ON_OPENED && i < LAST_WORDS; i++)
        weir_actions_send(actions, 0, WEIR_HEARTBEAT)->heartbeat =
            (struct weir_heartbeat){.leaving = i == LAST_WORDS - 1, .error = "", .waiting = "", .numerics = ""};
    if (event->kind == WEIR_ON_SENT && --speaker->unsent == 0)
        sem_post(&speaker->said);
}

static void *stop_and_join(void *thread)
{
    weir_thread_stop(thread);
    weir_thread_join(thread);
    return NULL;
}

static enum weir_transport_event_type next_of(struct weir_poller *poller, struct weir_transport_event *event)
{
    weir_poller_wait(poller, weir_clock_ns() + 10 * WEIR_NS_PER_S, event);
    return event->type;
}

/* The listener is busy while the speaker says its last words and goes. */
static void what_was_sent_before_the_end_arrives(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* gRPC's own synchronisation is invisible to the thread sanitizer */
#endif
    struct weir_transport *transport = weir_transport_grpc();
    struct weir_poller *listener = weir_poller_new(transport);
    struct weir_server_options options = {.address = "127.0.0.1:0", .message_limit_bytes = 4096};
    struct weir_transport_event event;
    struct weir_error err;
    options.pollers[WEIR_CHANNEL_CONTROL] = listener;
    struct weir_server *server = weir_server_start(transport, &options, &err);
    assert_non_null(server);
    struct speaker speaker = {.actor = {.name = "speaker", .core = &speaker, .context = &speaker, .step = speak},
                              .unsent = LAST_WORDS};
    snprintf(speaker.address, sizeof speaker.address, "127.0.0.1:%u", weir_server_port(server));
    speaker.actor.address = where;
    speaker.actor.actions_max = LAST_WORDS;
    speaker.actor.peers = 1;
    speaker.actor.message_limit_bytes = 4096;
    sem_init(&speaker.said, 0, 0);
    struct weir_thread *thread = weir_thread_new(transport, "speaker");
    weir_thread_add(thread, &speaker.actor);
    assert_true(weir_thread_start(thread, &err));
    assert_int_equal(next_of(listener, &event), WEIR_EVENT_ACCEPTED);
    struct weir_stream *stream = event.stream;
    sem_wait(&speaker.said);
    pthread_t helper;
    pthread_create(&helper, NULL, stop_and_join, thread);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 300 * 1000 * 1000; /* it ends by itself, or waits for us */
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    bool ended = pthread_timedjoin_np(helper, NULL, &until) == 0;
    unsigned heard = 0;
    for (enum weir_transport_event_type type; (type = next_of(listener, &event)) != WEIR_EVENT_CLOSED;) {
        assert_int_equal(type, WEIR_EVENT_MESSAGE);
        weir_message_unref(event.message);
        heard++;
    }
    assert_int_equal(heard, LAST_WORDS);
    if (!ended)
        pthread_join(helper, NULL);
    weir_stream_free(stream);
    weir_thread_free(thread);
    weir_server_stop(server);
    weir_poller_free(listener);
    sem_destroy(&speaker.said);
    weir_transport_free(transport);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_actor_begins_on_its_thread_before_its_first_event),
        cmocka_unit_test(who_posts_to_a_joined_thread_does_no_harm),
        cmocka_unit_test(what_was_sent_before_the_end_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
