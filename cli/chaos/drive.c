#include "chaos/drive.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/memory.h"

#define TICK_MS 2
#define SLICE_NS (20 * WEIR_NS_PER_MS) /* in each of these a slow process runs for its share */
#define WITHIN_NS WEIR_NS_PER_S        /* a moment in a step is not later than this after its begin */

enum phase { PENDING, ARMED, ACTIVE, OVER };

struct state {
    enum phase phase;
    uint64_t at_ns; /* ARMED: to fire then; ACTIVE: to end then, 0 for never */
};

struct node {
    bool expected; /* its end is a fault's doing */
    bool ended;
    bool held; /* it gets no time at the moment: stopped, or slow */
};

struct weir_chaos_driver {
    const struct weir_chaos_scenario *scenario;
    const struct weir_chaos_fault *plan;
    size_t count;
    uint64_t limit_ns;
    struct weir_relay *relay;
    struct weir_chaos_seen *seen;
    uint32_t nodes;
    struct state *states;
    struct node *node;
    bool finished; /* the chief has ended, or the time is over: nothing more is done */
};

struct weir_chaos_driver *weir_chaos_driver_new(const struct weir_chaos_scenario *scenario,
                                                const struct weir_chaos_fault *plan, size_t count, double limit_s,
                                                struct weir_relay *relay, struct weir_chaos_seen *seen)
{
    struct weir_chaos_driver *driver = weir_alloc(1, sizeof *driver, "the driver of a plan");
    *driver = (struct weir_chaos_driver){
        .scenario = scenario,
        .plan = plan,
        .count = count,
        .limit_ns = weir_clock_ns() + (uint64_t)(limit_s * 1e9),
        .relay = relay,
        .seen = seen,
        .nodes = weir_chaos_nodes(scenario),
    };
    driver->states = weir_alloc(count + 1, sizeof *driver->states, "the driver of a plan");
    driver->node = weir_alloc(driver->nodes, sizeof *driver->node, "the driver of a plan");
    seen->hits = weir_alloc(count + 1, sizeof *seen->hits, "the driver of a plan");
    seen->hit_count = count;
    return driver;
}

void weir_chaos_driver_free(struct weir_chaos_driver *driver)
{
    free(driver->states);
    free(driver->node);
    free(driver);
}

static bool is_network(const struct weir_chaos_fault *fault)
{
    return fault->kind == WEIR_CHAOS_PARTITION || fault->kind == WEIR_CHAOS_DELAY ||
           fault->kind == WEIR_CHAOS_BANDWIDTH;
}

/* ---- the network */

static bool concerns(const struct weir_chaos_fault *fault, uint32_t from, uint32_t to)
{
    bool out = fault->node == from && (fault->peer == to || fault->peer == WEIR_CHAOS_ALL);
    bool in = fault->node == to && (fault->peer == from || fault->peer == WEIR_CHAOS_ALL);
    return (out && fault->ways != WEIR_CHAOS_FROM_PEER) || (in && fault->ways != WEIR_CHAOS_TO_PEER);
}

/* All faults that are active at once on that way, the worst of each kind. */
static struct weir_relay_rule rule_of(const struct weir_chaos_driver *driver, uint32_t from, uint32_t to)
{
    struct weir_relay_rule rule = {0};
    for (size_t i = 0; i < driver->count; i++) {
        const struct weir_chaos_fault *fault = &driver->plan[i];
        if (driver->states[i].phase != ACTIVE || !is_network(fault) || !concerns(fault, from, to))
            continue;
        rule.cut = rule.cut || fault->kind == WEIR_CHAOS_PARTITION;
        rule.delay_ms = fault->delay_ms > rule.delay_ms ? fault->delay_ms : rule.delay_ms;
        rule.jitter_ms = fault->jitter_ms > rule.jitter_ms ? fault->jitter_ms : rule.jitter_ms;
        if (fault->bytes_per_s > 0 && (rule.bytes_per_s == 0 || fault->bytes_per_s < rule.bytes_per_s))
            rule.bytes_per_s = fault->bytes_per_s;
    }
    return rule;
}

static void set_rules(struct weir_chaos_driver *driver)
{
    for (uint32_t from = 0; from < driver->nodes; from++)
        for (uint32_t to = 0; to < driver->nodes; to++) {
            if (from == to)
                continue;
            struct weir_relay_rule rule = rule_of(driver, from, to);
            weir_relay_set(driver->relay, from, to, &rule);
        }
}

static void reset(struct weir_chaos_driver *driver, const struct weir_chaos_fault *fault)
{
    for (uint32_t other = 0; other < driver->nodes; other++)
        if (other != fault->node && (fault->peer == WEIR_CHAOS_ALL || fault->peer == other))
            weir_relay_reset(driver->relay, fault->node, other);
}

/* ---- processes */

/* Whether a process may run at this moment, after all that is active. */
static bool may_run(const struct weir_chaos_driver *driver, uint32_t node, uint64_t now)
{
    for (size_t i = 0; i < driver->count; i++) {
        const struct weir_chaos_fault *fault = &driver->plan[i];
        if (driver->states[i].phase != ACTIVE || fault->node != node)
            continue;
        if (fault->kind == WEIR_CHAOS_STOP)
            return false;
        if (fault->kind == WEIR_CHAOS_SLOW_CPU && (double)(now % SLICE_NS) >= fault->share * (double)SLICE_NS)
            return false;
    }
    return true;
}

static void hold_and_let_go(struct weir_chaos_driver *driver, struct weir_group *group, uint64_t now)
{
    for (uint32_t n = 0; n < driver->nodes; n++) {
        bool held = !driver->finished && !may_run(driver, n, now);
        if (held != driver->node[n].held)
            weir_group_signal(group, n, held ? SIGSTOP : SIGCONT);
        driver->node[n].held = held;
    }
}

/* No file of the process may grow any more, as on a full disk; the write says EFBIG. */
static void limit_files(struct weir_group *group, uint32_t node, bool full)
{
    struct rlimit limit;
    int pid = weir_group_pid(group, node);
    if (pid == 0 || prlimit(pid, RLIMIT_FSIZE, NULL, &limit) != 0)
        return;
    limit.rlim_cur = full ? 0 : limit.rlim_max;
    prlimit(pid, RLIMIT_FSIZE, &limit, NULL);
}

static void end_process(struct weir_chaos_driver *driver, struct weir_group *group,
                        const struct weir_chaos_fault *fault)
{
    driver->node[fault->node].expected = true;
    weir_group_expect(group, fault->node, fault->after_s > 0);
    weir_group_signal(group, fault->node, fault->kind == WEIR_CHAOS_TERMINATE ? SIGTERM : SIGKILL);
}

/* ---- a fault's life */

static uint64_t steps_done(const struct weir_chaos_seen *seen)
{
    return seen->step_count ? seen->steps[seen->step_count - 1].step : 0;
}

/* When a fault is to fire: 0 if that is not known yet. */
static uint64_t moment(const struct weir_chaos_driver *driver, const struct weir_chaos_fault *fault, uint64_t now)
{
    const struct weir_chaos_seen *seen = driver->seen;
    if (seen->step_count == 0)
        return 0;
    if (fault->at_step == 0)
        return seen->steps[0].ns + (uint64_t)(fault->at_s * 1e9);
    if (steps_done(seen) < fault->at_step)
        return 0;
    uint64_t whole = seen->steps[seen->step_count - 1].ns - seen->steps[0].ns;
    uint64_t step = seen->step_count > 1 ? whole / (seen->step_count - 1) : 0;
    return now + (uint64_t)(fault->within * (double)(step < WITHIN_NS ? step : WITHIN_NS));
}

static void fire(struct weir_chaos_driver *driver, struct weir_group *group, size_t i, uint64_t now)
{
    const struct weir_chaos_fault *fault = &driver->plan[i];
    struct state *state = &driver->states[i];
    if (weir_group_pid(group, fault->node) == 0)
        return; /* another fault has it: once it is back */
    driver->seen->hits[i] = (struct weir_chaos_hit){.fired = true, .ns = now, .done = steps_done(driver->seen)};
    double lasts_s = weir_chaos_ends_process(fault) ? fault->after_s : fault->for_s;
    *state = (struct state){ACTIVE, lasts_s > 0 ? now + (uint64_t)(lasts_s * 1e9) : 0};
    if (is_network(fault))
        set_rules(driver);
    else if (fault->kind == WEIR_CHAOS_RESET)
        reset(driver, fault);
    else if (fault->kind == WEIR_CHAOS_FULL_DISK)
        limit_files(group, fault->node, true);
    else if (weir_chaos_ends_process(fault))
        end_process(driver, group, fault);
    if (fault->kind == WEIR_CHAOS_RESET || (weir_chaos_ends_process(fault) && state->at_ns == 0))
        state->phase = OVER;
}

static void finish(struct weir_chaos_driver *driver, struct weir_group *group, size_t i, uint64_t now)
{
    const struct weir_chaos_fault *fault = &driver->plan[i];
    if (weir_chaos_ends_process(fault)) {
        if (!driver->node[fault->node].ended || !weir_group_start(group, fault->node))
            return; /* it takes its time to end */
        driver->node[fault->node] = (struct node){0};
    }
    driver->states[i].phase = OVER;
    driver->seen->hits[i].over_ns = now;
    if (is_network(fault))
        set_rules(driver);
    else if (fault->kind == WEIR_CHAOS_FULL_DISK)
        limit_files(group, fault->node, false);
}

/* The job is over, however: whoever still lives must be able to end. */
static void let_all_go(struct weir_chaos_driver *driver, struct weir_group *group, uint64_t now)
{
    driver->finished = true;
    for (size_t i = 0; i < driver->count; i++) {
        if (driver->states[i].phase == ACTIVE && driver->plan[i].kind == WEIR_CHAOS_FULL_DISK)
            limit_files(group, driver->plan[i].node, false);
        driver->states[i].phase = OVER;
    }
    set_rules(driver);
    hold_and_let_go(driver, group, now);
}

void weir_chaos_driver_begun(struct weir_chaos_driver *driver, struct weir_group *group)
{
    (void)driver;
    weir_group_alarm(group, TICK_MS);
}

void weir_chaos_driver_alarm(struct weir_chaos_driver *driver, struct weir_group *group)
{
    uint64_t now = weir_clock_ns();
    if (driver->finished)
        return;
    for (size_t i = 0; i < driver->count; i++) {
        struct state *state = &driver->states[i];
        if (state->phase == PENDING) {
            state->at_ns = moment(driver, &driver->plan[i], now);
            state->phase = state->at_ns ? ARMED : PENDING;
        }
        if (state->phase == ARMED && now >= state->at_ns)
            fire(driver, group, i, now);
        else if (state->phase == ACTIVE && state->at_ns && now >= state->at_ns)
            finish(driver, group, i, now);
    }
    hold_and_let_go(driver, group, now);
    if (now < driver->limit_ns) {
        weir_group_alarm(group, TICK_MS);
        return;
    }
    driver->seen->timed_out = true;
    let_all_go(driver, group, now);
    weir_group_stop(group);
}

void weir_chaos_driver_ended(struct weir_chaos_driver *driver, struct weir_group *group, size_t child,
                             const struct weir_child_end *end)
{
    struct node *node = &driver->node[child];
    uint64_t now = weir_clock_ns();
    char how[64];
    bool chief = child == weir_chaos_node(driver->scenario, WEIR_CHIEF, 0);
    weir_child_describe(end, how, sizeof how);
    node->ended = node->expected;
    if (!node->expected && !end->stopped && !driver->finished && (end->signal || end->status))
        weir_chaos_see_end(driver->seen, (uint32_t)child, how, now);
    if (chief && !node->expected)
        let_all_go(driver, group, now);
}
