/* The node core: what it says and with which exit status it ends, and that no chief can make it crash. */
#include "hostile.h"

#include "protocol/node.h"

#define MS HOSTILE_MS
#define TIMEOUT_NS (60000 * MS)
#define LEASE_NS (1000 * MS)

struct end {
    bool stopped;
    int code, lanes;
    char text[600], waits[WEIR_WAIT_BYTES];
};

static void on_action(struct hostile *world, const struct weir_action *action)
{
    struct end *end = world->context;
    assert_false(end->stopped && action->kind != WEIR_DO_STOP); /* it is silent after its end */
    if (action->kind == WEIR_DO_LANES)
        end->lanes++;
    if (action->kind == WEIR_DO_PROGRESS)
        snprintf(end->waits, sizeof end->waits, "%s", action->text);
    if (action->kind != WEIR_DO_STOP)
        return;
    assert_false(end->stopped);
    end->stopped = true;
    end->code = action->code;
    snprintf(end->text, sizeof end->text, "%s", action->text);
}

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_node_step(core, event, actions);
}

static uint64_t deadline(const void *core)
{
    return weir_node_deadline(core);
}

static struct hostile *new_node(uint32_t seed, struct end *end)
{
    struct hostile *world = hostile_world(seed, WEIR_NODE_ACTIONS_MAX);
    struct weir_node_config config = {
        .hello = {.role = WEIR_NODE_WORKER, .index = 1, .incarnation = 7, .job_hash = "job", .numerics = ""},
        .name = "worker/1 at here",
        .chief_name = "chief/0 at there",
        .start_timeout_ns = TIMEOUT_NS,
        .lease_ns = LEASE_NS,
        .heartbeat_ns = 100 * MS,
    };
    *end = (struct end){0};
    world->core = weir_node_init(&world->arena, &config);
    world->give = step;
    world->deadline = deadline;
    world->act = on_action;
    world->context = end;
    world->peer_count = world->chunks = world->replicas = world->nodes = 1;
    hostile_happens(world, WEIR_ON_START);
    return world;
}

static void say(struct hostile *world, const struct weir_message_body *body)
{
    struct weir_event event = {.kind = WEIR_ON_MESSAGE, .body = body};
    hostile_give(world, &event);
}

static void say_numbered_view(struct hostile *world, enum weir_view_state state, const char *reason, uint64_t number)
{
    struct weir_message_body body = {.type = WEIR_VIEW};
    body.view.number = number;
    body.view.state = state;
    body.view.reason = reason;
    say(world, &body);
}

static void say_view(struct hostile *world, enum weir_view_state state, const char *reason)
{
    say_numbered_view(world, state, reason, state == WEIR_VIEW_RUNNING ? 1 : 2);
}

/* A node that has joined and been told this. */
static struct hostile *new_member(struct end *end, enum weir_view_state state, const char *reason)
{
    struct hostile *world = new_node(1, end);
    hostile_answer(world, 0, WEIR_NODE_CHIEF);
    say_view(world, state, reason);
    return world;
}

static void goes_wrong(struct hostile *world, const char *why)
{
    struct weir_event event = {.kind = WEIR_ON_FAILED, .text = why};
    hostile_give(world, &event);
}

static void all_sent(struct hostile *world)
{
    while (world->peers[0].unsent && !((struct end *)world->context)->stopped) {
        world->peers[0].unsent--;
        hostile_happens(world, WEIR_ON_SENT);
    }
}

/* The clock runs; tries to connect are refused. */
static void pass(struct hostile *world, uint64_t until)
{
    const struct end *end = world->context;
    while (!end->stopped && weir_node_deadline(world->core) <= until) {
        world->now = weir_node_deadline(world->core);
        hostile_happens(world, WEIR_ON_TIME);
        if (world->peers[0].state == STREAM_CONNECTING && !end->stopped) {
            struct weir_event event = {.kind = WEIR_ON_CLOSED, .text = "connection refused"};
            world->peers[0].state = STREAM_NONE;
            hostile_give(world, &event);
        }
        world->peers[0].unsent = 0;
    }
    world->now = until;
}

static void ends(struct hostile *world, int code, const char *text)
{
    const struct end *end = world->context;
    assert_true(end->stopped);
    assert_int_equal(end->code, code);
    assert_string_equal(end->text, text);
    assert_true(weir_node_deadline(world->core) == WEIR_NEVER);
    hostile_free(world);
}

static void a_finished_job_is_exit_0(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_RUNNING, "");
    say_view(world, WEIR_VIEW_RUNNING, ""); /* said again after a new Hello */
    assert_int_equal(end.lanes, 1);
    say_numbered_view(world, WEIR_VIEW_RUNNING, "", 3); /* a worker has gone, or come */
    assert_int_equal(end.lanes, 2);
    say_numbered_view(world, WEIR_VIEW_RUNNING, "", 2); /* late */
    assert_int_equal(end.lanes, 2);
    say_view(world, WEIR_VIEW_FINISHED, "");
    assert_false(end.stopped); /* first the last heartbeat leaves */
    all_sent(world);
    ends(world, 0, "");
}

static void a_failed_job_is_exit_1_with_the_chiefs_reason(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_FAILED, "lost ps/1: connection refused");
    all_sent(world);
    ends(world, 1, "lost ps/1: connection refused");
}

static void who_leaves_does_not_wait_for_a_chief_that_is_gone(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_FINISHED, "");
    hostile_close(world, 0);
    ends(world, 0, "");
}

static void who_leaves_waits_one_lease_at_most(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_FINISHED, "");
    assert_true(weir_node_deadline(world->core) == world->now + LEASE_NS);
    pass(world, world->now + LEASE_NS);
    ends(world, 0, "");
}

static void a_chief_that_never_comes_is_named_after_the_timeout(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_node(1, &end);
    uint64_t start = world->now;
    hostile_close(world, 0);
    pass(world, start + TIMEOUT_NS - 1);
    assert_false(end.stopped);
    pass(world, start + TIMEOUT_NS);
    ends(world, 1, "chief/0 at there could not be reached within start_timeout_s: connection refused");
}

static void a_chief_that_is_lost_is_named_after_the_lease(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_RUNNING, "");
    uint64_t start = world->now;
    hostile_close(world, 0);
    pass(world, start + LEASE_NS - 1);
    assert_false(end.stopped);
    pass(world, start + LEASE_NS);
    ends(world, 1, "lost chief/0 at there: connection refused");
}

static void waits(struct hostile *world, uint32_t actor, uint64_t step, const char *text)
{
    struct weir_event event = {.kind = WEIR_ON_WAITING, .lane = actor, .step = step, .text = text};
    hostile_give(world, &event);
}

/* The newest heartbeat's word. */
static void heartbeat_says(struct hostile *world, const char *text)
{
    pass(world, world->now + 100 * MS);
    const struct weir_action *found = NULL;
    for (size_t i = 0; i < world->actions.count; i++)
        if (world->actions.list[i].kind == WEIR_DO_SEND && world->actions.list[i].body.type == WEIR_HEARTBEAT)
            found = &world->actions.list[i];
    assert_non_null(found);
    assert_string_equal(found->body.heartbeat.waiting, text);
    assert_string_equal(((struct end *)world->context)->waits, text);
}

static void what_its_actors_wait_for_is_in_the_heartbeat_and_said(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_RUNNING, "");
    heartbeat_says(world, "");
    waits(world, WEIR_NODE_WAITS_MAX - 1, 5, "ps/1 at there: a record");
    heartbeat_says(world, "ps/1 at there: a record");
    waits(world, 2, 5, "ps/0 at there: weights");
    heartbeat_says(world, "ps/0 at there: weights"); /* of one step, the first */
    waits(world, 3, 4, "ps/2 at there: weights");
    heartbeat_says(world, "ps/2 at there: weights"); /* the oldest step holds up the others */
    waits(world, 2, 0, "");
    waits(world, 3, 0, "");
    heartbeat_says(world, "ps/1 at there: a record");
    waits(world, WEIR_NODE_WAITS_MAX - 1, 0, "");
    heartbeat_says(world, "");
    hostile_free(world);
}

static void the_chief_is_named_when_it_is_waited_for(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_node(1, &end);
    hostile_close(world, 0);
    pass(world, world->now + 1900 * MS);
    assert_string_equal(end.waits, "");
    pass(world, world->now + 500 * MS);
    assert_string_equal(end.waits, "chief/0 at there: a connection (connection refused)");
    while (world->peers[0].state != STREAM_CONNECTING) {
        world->now = weir_node_deadline(world->core);
        hostile_happens(world, WEIR_ON_TIME);
    }
    hostile_answer(world, 0, WEIR_NODE_CHIEF);
    for (int i = 0; i < 19; i++)
        pass(world, world->now + 100 * MS);
    assert_string_equal(end.waits, "");
    for (int i = 0; i < 10; i++)
        pass(world, world->now + 100 * MS);
    heartbeat_says(world, "chief/0 at there: the view (it comes when all have joined)");
    say_view(world, WEIR_VIEW_RUNNING, "");
    heartbeat_says(world, "");
    hostile_free(world);
}

static void a_refusal_ends_with_its_reason(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_node(1, &end);
    struct weir_message_body body = {.type = WEIR_REFUSED};
    body.refused.reason = "its job differs";
    hostile_open(world, 0);
    say(world, &body);
    ends(world, 1, "its job differs");
}

static void who_fails_alone_ends_at_once(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_node(1, &end);
    goes_wrong(world, "told to stop");
    ends(world, 1, "worker/1 at here: told to stop");
}

static void who_fails_in_the_job_tells_the_chief_and_waits_for_its_word(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_RUNNING, "");
    goes_wrong(world, "told to stop");
    assert_false(end.stopped);
    const struct weir_action *last = &world->actions.list[world->actions.count - 1];
    assert_int_equal(last->kind, WEIR_DO_SEND);
    assert_string_equal(last->body.heartbeat.error, "worker/1 at here: told to stop");
    goes_wrong(world, "and again"); /* the first is the cause */
    say_view(world, WEIR_VIEW_FAILED, "worker/1 at here: told to stop");
    all_sent(world);
    ends(world, 1, "worker/1 at here: told to stop");
}

static void who_fails_and_gets_no_answer_ends_after_one_lease(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_RUNNING, "");
    uint64_t start = world->now;
    goes_wrong(world, "told to stop");
    pass(world, start + LEASE_NS - 1);
    assert_false(end.stopped);
    pass(world, start + LEASE_NS);
    ends(world, 1, "worker/1 at here: told to stop");
}

/* ---- told to go */

/* The view names this worker, or another process in its place. */
static void say_named(struct hostile *world, uint64_t number, uint64_t incarnation)
{
    const struct weir_view_node nodes[] = {{WEIR_NODE_CHIEF, 0, 1, ""}, {WEIR_NODE_WORKER, 1, incarnation, ""}};
    struct weir_message_body body = {.type = WEIR_VIEW};
    body.view = (struct weir_view){.number = number, .state = WEIR_VIEW_RUNNING, .nodes = nodes, .node_count = 2};
    say(world, &body);
}

static struct hostile *new_named(struct end *end)
{
    struct hostile *world = new_node(1, end);
    hostile_answer(world, 0, WEIR_NODE_CHIEF);
    say_named(world, 1, 7);
    return world;
}

static void told_to_go(struct hostile *world)
{
    struct weir_event event = {.kind = WEIR_ON_DRAIN, .text = "SIGTERM"};
    hostile_give(world, &event);
}

static void has_drained(struct hostile *world)
{
    struct weir_event event = {.kind = WEIR_ON_DRAINED, .step = 8, .round = 3};
    hostile_give(world, &event);
}

static const struct weir_heartbeat *last_heartbeat(const struct hostile *world)
{
    const struct weir_action *last = &world->actions.list[world->actions.count - 1];
    assert_int_equal(last->kind, WEIR_DO_SEND);
    assert_int_equal(last->body.type, WEIR_HEARTBEAT);
    return &last->body.heartbeat;
}

static void who_is_told_to_go_waits_until_no_view_counts_on_it(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_named(&end);
    told_to_go(world);
    assert_int_equal(world->actions.list[0].kind, WEIR_DO_TELL);
    assert_int_equal(world->actions.list[0].tell, WEIR_ON_DRAIN);
    told_to_go(world); /* it knows */
    assert_int_equal(world->actions.count, 0);
    say_named(world, 2, 7); /* it may have to do more for this step */
    assert_int_equal(end.lanes, 2);
    has_drained(world);
    assert_true(last_heartbeat(world)->drained && !last_heartbeat(world)->leaving);
    assert_int_equal(last_heartbeat(world)->drained_step, 8);
    assert_int_equal(last_heartbeat(world)->drained_round, 3);
    say_named(world, 3, 7);         /* made before the chief knew */
    goes_wrong(world, "lost ps/0"); /* whose view is newer */
    assert_int_equal(weir_node_state(world->core), WEIR_NODE_DRAINING);
    world->now += 100 * MS;
    hostile_happens(world, WEIR_ON_TIME);
    assert_true(last_heartbeat(world)->drained); /* until it is heard */
    say_named(world, 4, 0);
    assert_true(last_heartbeat(world)->drained && last_heartbeat(world)->leaving);
    all_sent(world);
    ends(world, WEIR_NODE_EXIT_DRAINED, "worker/1 at here is drained: SIGTERM; others do its part from now on");
}

static void whom_nobody_counts_on_goes_at_once(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_node(1, &end);
    told_to_go(world);
    ends(world, WEIR_NODE_EXIT_DRAINED, "worker/1 at here is drained: SIGTERM, before the job began");
    world = new_node(1, &end);
    hostile_answer(world, 0, WEIR_NODE_CHIEF);
    told_to_go(world);
    assert_true(last_heartbeat(world)->drained && last_heartbeat(world)->leaving);
    all_sent(world);
    ends(world, WEIR_NODE_EXIT_DRAINED, "worker/1 at here is drained: SIGTERM, before the job began");
    world = new_named(&end);
    say_named(world, 2, 0); /* it counts as lost */
    told_to_go(world);
    all_sent(world);
    ends(world, WEIR_NODE_EXIT_DRAINED, "worker/1 at here is drained: SIGTERM");
    world = new_named(&end);
    told_to_go(world);
    struct weir_message_body body = {.type = WEIR_REFUSED, .refused = {.reason = "another process"}};
    say(world, &body);
    ends(world, WEIR_NODE_EXIT_DRAINED, "worker/1 at here is drained: SIGTERM; another process has its place");
}

static void while_it_drains_what_ends_the_job_ends_it(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_named(&end);
    told_to_go(world);
    goes_wrong(world, "no memory");
    assert_string_equal(last_heartbeat(world)->error, "worker/1 at here: no memory");
    hostile_free(world);
    world = new_named(&end);
    told_to_go(world);
    say_view(world, WEIR_VIEW_FINISHED, "");
    all_sent(world);
    ends(world, 0, "");
}

static void no_chief_makes_it_crash_or_speak_after_its_end(void **state)
{
    (void)state;
    uint32_t ended = 0;
    for (uint32_t seed = 0; seed < 2000; seed++) {
        struct end end;
        struct hostile *world = new_node(seed, &end);
        for (int i = 0; i < 100 && !end.stopped; i++) {
            if (hostile_below(world, 300) == 0)
                goes_wrong(world, "told to stop");
            else if (hostile_below(world, 300) == 0)
                told_to_go(world);
            else if (hostile_below(world, 100) == 0)
                has_drained(world);
            else
                hostile_event(world);
        }
        assert_true(end.lanes <= 1);
        assert_int_equal(hostile_owned(world), 0);
        ended += end.stopped;
        hostile_free(world);
    }
    assert_in_range(ended, 1000, 1999); /* both kinds of life were seen */
}

/* The job goes on without it: nothing is to be waited for. */
static void who_cannot_go_on_leaves_at_the_chiefs_word_with_its_own_reason(void **state)
{
    (void)state;
    struct end end;
    struct hostile *world = new_member(&end, WEIR_VIEW_RUNNING, "");
    struct weir_message_body body = {.type = WEIR_REFUSED};
    goes_wrong(world, "no memory");
    body.refused.reason = "it may go";
    say(world, &body);
    ends(world, 1, "worker/1 at here: no memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_job_is_exit_0),
        cmocka_unit_test(who_cannot_go_on_leaves_at_the_chiefs_word_with_its_own_reason),
        cmocka_unit_test(a_failed_job_is_exit_1_with_the_chiefs_reason),
        cmocka_unit_test(who_leaves_does_not_wait_for_a_chief_that_is_gone),
        cmocka_unit_test(who_leaves_waits_one_lease_at_most),
        cmocka_unit_test(a_chief_that_never_comes_is_named_after_the_timeout),
        cmocka_unit_test(a_chief_that_is_lost_is_named_after_the_lease),
        cmocka_unit_test(what_its_actors_wait_for_is_in_the_heartbeat_and_said),
        cmocka_unit_test(the_chief_is_named_when_it_is_waited_for),
        cmocka_unit_test(a_refusal_ends_with_its_reason),
        cmocka_unit_test(who_fails_alone_ends_at_once),
        cmocka_unit_test(who_is_told_to_go_waits_until_no_view_counts_on_it),
        cmocka_unit_test(whom_nobody_counts_on_goes_at_once),
        cmocka_unit_test(while_it_drains_what_ends_the_job_ends_it),
        cmocka_unit_test(who_fails_in_the_job_tells_the_chief_and_waits_for_its_word),
        cmocka_unit_test(who_fails_and_gets_no_answer_ends_after_one_lease),
        cmocka_unit_test(no_chief_makes_it_crash_or_speak_after_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
