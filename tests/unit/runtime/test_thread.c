#include "runtime/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

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

static void an_actor_begins_on_its_thread_before_its_first_event(void **state)
{
    (void)state;
    struct weir_transport *transport = weir_transport_loopback();
    struct weir_thread *thread = weir_thread_new(transport, "test");
    struct counter counter;
    struct weir_error err;
    counter_init(&counter, thread);
    assert_false(counter.began); /* whoever makes the thread doesn't wait for it */
    assert_true(weir_thread_start(thread, &err));
    sem_wait(&counter.stepped);
    weir_thread_stop(thread);
    weir_thread_join(thread);
    assert_true(counter.began);
    assert_false(counter.stepped_early);
    assert_false(pthread_equal(counter.began_on, pthread_self()));
    assert_int_equal(counter.events, 1);
    sem_destroy(&counter.stepped);
    weir_thread_free(thread);
    weir_transport_free(transport);
}

/* At the end of a job threads end one by one, and those that still run tell the others things. */
static void who_posts_to_a_joined_thread_does_no_harm(void **state)
{
    (void)state;
    struct weir_transport *transport = weir_transport_loopback();
    struct weir_thread *thread = weir_thread_new(transport, "test");
    struct counter counter;
    struct weir_error err;
    counter_init(&counter, thread);
    assert_true(weir_thread_start(thread, &err));
    sem_wait(&counter.stepped);
    weir_thread_stop(thread);
    weir_thread_join(thread);
    struct weir_event late = {.kind = WEIR_ON_FAILED, .text = "too late"};
    weir_post(&counter.actor, &late);
    assert_int_equal(counter.events, 1);
    sem_destroy(&counter.stepped);
    weir_thread_free(thread);
    weir_transport_free(transport);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_actor_begins_on_its_thread_before_its_first_event),
        cmocka_unit_test(who_posts_to_a_joined_thread_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
