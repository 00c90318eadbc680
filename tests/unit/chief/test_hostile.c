/* No member, server or observer can make the chief crash, lose a payload, or wait without end; an observer, nothing. */
#include "../protocol/hostile.h"

#include "chief/chief.h"

#define SERVERS 2
#define WORKERS 2
#define MEMBERS (SERVERS + WORKERS)
#define LANES 1
#define CHUNKS 3
#define ELEMENTS 10
#define LEASE_NS (5000 * HOSTILE_MS)

struct house {
    bool results, stopped;
    int code;
    uint32_t finished;
    char text[700];
    struct weir_fetch asked[MEMBERS + SERVERS][64]; /* by stream, in order */
    uint32_t ask_count[MEMBERS + SERVERS];
};

static const struct weir_chief_member members[MEMBERS] = {
    {WEIR_NODE_PS, 0, "ps/0", ""},
    {WEIR_NODE_PS, 1, "ps/1", ""},
    {WEIR_NODE_WORKER, 0, "worker/0", ""},
    {WEIR_NODE_WORKER, 1, "worker/1", ""},
};

static void on_action(struct hostile *world, const struct weir_action *action)
{
    struct house *house = world->context;
    assert_false(house->stopped && action->kind != WEIR_DO_SEND && action->kind != WEIR_DO_RELEASE &&
                 action->kind != WEIR_DO_CLOSE);
    if (action->kind == WEIR_DO_RESULTS)
        house->results = true;
    if (action->kind == WEIR_DO_SEND && action->body.type == WEIR_VIEW)
        house->finished += action->body.view.state == WEIR_VIEW_FINISHED;
    if (action->kind == WEIR_DO_SEND && action->body.type == WEIR_FETCH && house->ask_count[action->peer] < 64)
        house->asked[action->peer][house->ask_count[action->peer]++] = action->body.fetch;
    if (action->kind != WEIR_DO_STOP)
        return;
    house->stopped = true;
    house->code = action->code;
    snprintf(house->text, sizeof house->text, "%s", action->text);
}

static void give(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_chief_step(core, event, actions);
}

static uint64_t deadline(const void *core)
{
    return weir_chief_deadline(core);
}

static bool admit(const void *core, const struct weir_hello *hello, uint32_t *peer)
{
    const char *reason = NULL;
    bool differs;
    bool ok = weir_chief_admit(core, hello, peer, &reason, &differs);
    assert_true(ok || reason);
    return ok;
}

static struct hostile *new_chief(uint32_t seed, struct house *house)
{
    *house = (struct house){0};
    struct weir_chief_config config = {
        .hello = {.role = WEIR_NODE_CHIEF, .incarnation = 7, .job_hash = "job", .numerics = "", .address = ""},
        .name = "chief/0",
        .members = members,
        .servers = SERVERS,
        .workers = WORKERS,
        .replicas = 2,
        .layout = weir_layout_make(CHUNKS * ELEMENTS, ELEMENTS, SERVERS, LANES),
        .slot_count = 1,
        .train_samples_min = 10,
        .start_timeout_ns = 60000 * HOSTILE_MS,
        .lease_ns = LEASE_NS,
        .heartbeat_ns = 100 * HOSTILE_MS,
        .observers = 2,
    };
    struct hostile *world = hostile_world(seed, weir_chief_actions_max(&config));
    world->core = weir_chief_init(&world->arena, &config);
    world->give = give;
    world->deadline = deadline;
    world->admit = admit;
    world->act = on_action;
    world->context = house;
    world->peer_count = MEMBERS + SERVERS * LANES + 2;
    world->chunks = CHUNKS;
    world->replicas = 2;
    world->nodes = 2;
    world->chunk_bytes = 4 * ELEMENTS;
    hostile_happens(world, WEIR_ON_START);
    return world;
}

static void arrive_with(struct hostile *world, enum weir_node_role role, uint32_t index, uint64_t samples)
{
    struct weir_hello hello = hostile_member(role, index);
    hello.train_samples = samples;
    hostile_join(world, &hello);
}

static void arrive(struct hostile *world, enum weir_node_role role, uint32_t index)
{
    arrive_with(world, role, index, 60);
}

static void all_arrive(struct hostile *world)
{
    for (uint32_t m = 0; m < MEMBERS; m++)
        arrive(world, members[m].role, members[m].index);
    for (uint32_t s = MEMBERS; s < MEMBERS + SERVERS; s++)
        hostile_answer(world, s, WEIR_NODE_PS);
    assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_TRAINING);
}

static void heartbeat(struct hostile *world, uint32_t member, bool leaving)
{
    struct weir_message_body body = {.type = WEIR_HEARTBEAT};
    body.heartbeat = (struct weir_heartbeat){.leaving = leaving, .error = "", .waiting = "", .numerics = ""};
    hostile_say(world, member, &body);
}

/* Time goes on, in small steps: the chief itself does not stand still. */
static void pass(struct hostile *world, uint64_t until, bool heartbeats)
{
    for (; world->now < until; world->now += 50 * HOSTILE_MS) {
        for (uint32_t m = 0; heartbeats && m < MEMBERS; m++)
            if (world->peers[m].state == STREAM_OPEN)
                heartbeat(world, m, false);
        if (world->now >= weir_chief_deadline(world->core))
            hostile_happens(world, WEIR_ON_TIME);
    }
}

/* The four of them for a while, each with what it says that it waits for; NULL: is silent. */
static void say_for(struct hostile *world, uint64_t duration, const char *const waiting[MEMBERS])
{
    for (uint64_t end = world->now + duration; world->now < end; world->now += 50 * HOSTILE_MS) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            struct weir_message_body body = {.type = WEIR_HEARTBEAT};
            body.heartbeat = (struct weir_heartbeat){.error = "", .waiting = waiting[m], .numerics = ""};
            if (waiting[m])
                hostile_say(world, m, &body);
        }
        if (world->now >= weir_chief_deadline(world->core))
            hostile_happens(world, WEIR_ON_TIME);
    }
}

static void a_stop_record(struct hostile *world)
{
    struct weir_message_body body = {.type = WEIR_RECORD};
    body.record = (struct weir_record){.step = 4, .order = WEIR_ORDER_STOP, .scale = 1};
    hostile_say(world, MEMBERS, &body);
}

/* Servers answer what they were asked, until nothing more is asked. */
static void answer_all(struct hostile *world)
{
    struct house *house = world->context;
    for (uint32_t s = MEMBERS; s < MEMBERS + SERVERS; s++)
        for (uint32_t i = 0; i < house->ask_count[s]; i++) {
            struct weir_message_body body = {.type = WEIR_WEIGHTS};
            struct weir_fetch fetch = house->asked[s][i];
            body.weights = (struct weir_weights){.chunk = fetch.chunk, .version = fetch.version, .part = fetch.part};
            struct weir_event event = {.kind = WEIR_ON_MESSAGE, .peer = s, .body = &body};
            event.payload_bytes = world->chunk_bytes;
            event.payload = ++world->handles;
            world->owned[event.payload] = true;
            hostile_give(world, &event);
        }
}

static void the_chief_says_for_whom_the_job_waits_and_who_says_so(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    assert_string_equal(weir_chief_waiting(world->core), "");
    pass(world, world->now + 200 * HOSTILE_MS, false);
    assert_string_equal(weir_chief_waiting(world->core), "ps/0, ps/1, worker/0, worker/1");
    all_arrive(world);
    const char *waiting[MEMBERS] = {"", "", "", ""};
    say_for(world, 3000 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "");
    /* worker/0 waits for ps/1, which waits for worker/1, which says nothing: that is whom all wait for */
    waiting[1] = "worker/1 at here: its contribution";
    waiting[2] = "ps/1 at there: weights";
    say_for(world, 600 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "worker/1 at here (says ps/1): its contribution");
    waiting[0] = "worker/0 at here: its contribution"; /* the chief has a new end of the chain, and waits if it stays */
    waiting[1] = "";
    say_for(world, 100 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "worker/1 at here (says ps/1): its contribution");
    say_for(world, 600 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "ps/1 at there (says worker/0): weights");
    waiting[0] = "";
    waiting[1] = "worker/1 at here: its contribution";
    waiting[3] = "ps/1 at there: a connection"; /* a ring: any of it will do */
    say_for(world, 300 * HOSTILE_MS, waiting);
    assert_non_null(strstr(weir_chief_waiting(world->core), "(says "));
    struct weir_message_body body = {.type = WEIR_RECORD};
    body.record = (struct weir_record){.step = 1, .order = WEIR_ORDER_TRAIN, .scale = 1};
    hostile_say(world, MEMBERS, &body); /* the job goes on, whatever is still said */
    say_for(world, 1000 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "");
    waiting[1] = waiting[2] = "";
    waiting[3] = "chief/0 at home: the end"; /* the chief knows */
    say_for(world, 300 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "");
    waiting[3] = NULL;
    say_for(world, 4300 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "worker/1: a sign of life (no heartbeat)");
    waiting[3] = "";
    say_for(world, 300 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "");
    hostile_free(world);
}

static void what_a_silent_member_said_last_no_longer_counts(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    all_arrive(world);
    const char *waiting[MEMBERS] = {"", "", "", ""};
    say_for(world, 2000 * HOSTILE_MS, waiting);
    waiting[2] = "ps/0 at there: weights";
    say_for(world, 600 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "ps/0 at there (says worker/0): weights");
    waiting[2] = NULL;
    say_for(world, 4300 * HOSTILE_MS, waiting);
    assert_string_equal(weir_chief_waiting(world->core), "worker/0: a sign of life (no heartbeat)");
    hostile_free(world);
}

static void at_the_end_it_says_whose_result_is_missing_and_who_has_not_left(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    const char *const quiet[MEMBERS] = {"", "", "", ""};
    all_arrive(world);
    a_stop_record(world);
    say_for(world, 3000 * HOSTILE_MS, quiet);
    assert_string_equal(weir_chief_waiting(world->core), "ps/0: piece 1 of 4 of the result (lane 0)");
    answer_all(world);
    hostile_happens(world, WEIR_ON_RESULTS);
    heartbeat(world, 0, true);
    say_for(world, 3000 * HOSTILE_MS, (const char *const[MEMBERS]){NULL, "", "", ""});
    assert_string_equal(weir_chief_waiting(world->core), "ps/1, worker/0, worker/1: to leave");
    hostile_free(world);
}

static void a_job_ends_when_results_are_written_and_all_have_left(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    all_arrive(world);
    a_stop_record(world);
    answer_all(world);
    assert_true(house.results);
    assert_int_equal(house.finished, 0); /* nobody may leave yet */
    hostile_happens(world, WEIR_ON_RESULTS);
    assert_int_equal(house.finished, MEMBERS);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_false(house.stopped);
        heartbeat(world, m, true);
    }
    assert_true(house.stopped);
    assert_int_equal(house.code, 0);
    hostile_free(world);
}

static void who_leaves_a_running_job_ends_it(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    all_arrive(world);
    heartbeat(world, 2, true);
    pass(world, world->now + 4 * LEASE_NS, true);
    assert_true(house.stopped);
    assert_int_equal(house.code, 1);
    assert_non_null(strstr(house.text, "worker/0"));
    hostile_free(world);
}

static void silence_is_a_loss_after_the_lease(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    all_arrive(world);
    pass(world, world->now + LEASE_NS - 100 * HOSTILE_MS, false);
    assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_TRAINING);
    pass(world, world->now + 300 * HOSTILE_MS, false);
    assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_FAILING);
    hostile_free(world);
}

static void its_own_pause_is_nobodys_silence(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    all_arrive(world);
    hostile_close(world, MEMBERS); /* a stream of its own is down, too */
    world->now += 20 * LEASE_NS;
    pass(world, world->now + LEASE_NS / 2, true);
    assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_TRAINING);
    hostile_free(world);
}

/* It wakes late every time, as on a machine with too much to do: silence is a loss all the same. */
static void a_chief_that_is_always_late_sees_silence(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    all_arrive(world);
    uint64_t since = world->now;
    while (weir_chief_state(world->core) == WEIR_CHIEF_TRAINING && world->now < since + 10 * LEASE_NS) {
        world->now += 210 * HOSTILE_MS; /* more than two heartbeats */
        hostile_happens(world, WEIR_ON_TIME);
    }
    assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_FAILING);
    assert_true(world->now >= since + LEASE_NS);
    hostile_free(world);
}

static void data_that_does_not_fit_ends_the_job_before_it_begins(void **state)
{
    (void)state;
    static const uint64_t samples[][2] = {{60, 61}, {0, 0}, {9, 9}, {0, 60}, {60, 0}};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        struct house house;
        struct hostile *world = new_chief(1, &house);
        for (uint32_t s = 0; s < SERVERS; s++)
            arrive(world, WEIR_NODE_PS, s);
        for (uint32_t w = 0; w < WORKERS; w++)
            arrive_with(world, WEIR_NODE_WORKER, w, samples[i][w]);
        assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_FAILING);
        hostile_free(world);
    }
}

/* While others are still missing, it may be put right. */
static void a_worker_that_comes_again_with_the_right_data_is_welcome(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    arrive_with(world, WEIR_NODE_WORKER, 0, 59);
    hostile_close(world, SERVERS);
    all_arrive(world);
    hostile_free(world);
}

static void a_process_without_incarnation_is_no_member(void **state)
{
    (void)state;
    struct house house;
    struct hostile *world = new_chief(1, &house);
    struct weir_hello hello = {.role = WEIR_NODE_PS, .job_hash = "job"};
    uint32_t peer;
    assert_false(admit(world->core, &hello, &peer));
    hostile_free(world);
}

static void no_observer_changes_the_job(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 500; seed++) {
        struct house house;
        struct hostile *world = new_chief(seed, &house);
        all_arrive(world);
        arrive(world, WEIR_NODE_OBSERVER, 0);
        uint32_t peer = MEMBERS + SERVERS;
        assert_int_equal(world->peers[peer].state, STREAM_OPEN);
        hostile_say_anything(world, peer);
        assert_int_equal(world->peers[peer].state, STREAM_NONE);
        assert_int_equal(weir_chief_state(world->core), WEIR_CHIEF_TRAINING);
        hostile_free(world);
    }
}

static void nobody_crashes_the_chief_or_keeps_it_for_ever(void **state)
{
    (void)state;
    uint32_t ended = 0;
    for (uint32_t seed = 0; seed < 600; seed++) {
        struct house house;
        struct hostile *world = new_chief(seed, &house);
        if (hostile_below(world, 4))
            all_arrive(world);
        if (world->peers[MEMBERS].state == STREAM_OPEN && hostile_below(world, 2))
            a_stop_record(world);
        if (hostile_below(world, 2))
            answer_all(world);
        for (int i = 0; i < 1000 && !house.stopped; i++) {
            struct weir_event results = {.kind = WEIR_ON_RESULTS, .text = hostile_below(world, 2) ? "" : "no space"};
            if (house.results && hostile_below(world, 10) == 0) {
                house.results = false;
                hostile_give(world, &results);
            }
            hostile_event(world);
        }
        for (uint32_t p = 0; p < world->peer_count && !house.stopped; p++)
            if (world->peers[p].state != STREAM_NONE)
                hostile_close(world, p);
        world->now += HOSTILE_MS;
        pass(world, world->now + 70000 * HOSTILE_MS, false); /* all are gone: it ends by itself */
        ended += house.stopped;
        assert_int_equal(hostile_owned(world), 0);
        hostile_free(world);
    }
    assert_int_equal(ended, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chief_says_for_whom_the_job_waits_and_who_says_so),
        cmocka_unit_test(what_a_silent_member_said_last_no_longer_counts),
        cmocka_unit_test(at_the_end_it_says_whose_result_is_missing_and_who_has_not_left),
        cmocka_unit_test(a_job_ends_when_results_are_written_and_all_have_left),
        cmocka_unit_test(who_leaves_a_running_job_ends_it),
        cmocka_unit_test(silence_is_a_loss_after_the_lease),
        cmocka_unit_test(its_own_pause_is_nobodys_silence),
        cmocka_unit_test(a_chief_that_is_always_late_sees_silence),
        cmocka_unit_test(data_that_does_not_fit_ends_the_job_before_it_begins),
        cmocka_unit_test(a_worker_that_comes_again_with_the_right_data_is_welcome),
        cmocka_unit_test(a_process_without_incarnation_is_no_member),
        cmocka_unit_test(no_observer_changes_the_job),
        cmocka_unit_test(nobody_crashes_the_chief_or_keeps_it_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
