#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/agent.h"
#include "cli/commands.h"
#include "cli/live.h"
#include "cli/local.h"
#include "cli/result.h"
#include "cli/start.h"
#include "runtime/process.h"

#define ROLES_PER_CPU 16
#define CHIEF WEIR_LOCAL_CHIEF
/* When a role has ended: the lease, in which the chief finds it out if it knew that role, and this for all to leave.
 * The chief can't miss one that died before it had joined, so the others are told to stop then. */
#define GRACE_MS 2000
#define GRACE_MOST_MS 30000
#define STOP_MS 10000

/* The terminal that all roles share; the log calls back without a context. */
static struct weir_live terminal;

/* The chief's result, or a part of it, could not be written: the errno. */
static int result_lost;

/* The chief has said that all roles have joined. */
static bool all_joined;

static void hide_live_line(void)
{
    weir_live_hide(&terminal);
}

static void show_live_line(void)
{
    weir_live_show(&terminal);
}

/* ---- what the roles write */

static void pass_on_output(void *context, size_t child, const char *bytes, size_t count)
{
    (void)context;
    weir_live_hide(&terminal);
    while (count > 0) {
        ssize_t written = write(child == CHIEF ? STDOUT_FILENO : STDERR_FILENO, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) { /* the job goes on, but what it made is not where it should be */
            if (child == CHIEF)
                result_lost = errno;
            break;
        }
        bytes += written;
        count -= (size_t)written;
    }
    weir_live_show(&terminal);
}

static void pass_on_line(void *context, size_t child, const char *text, size_t count)
{
    (void)context;
    if (child == CHIEF && weir_live_is_joined(text, count))
        all_joined = true;
    else if (child != CHIEF || !weir_live_take_frame(&terminal, text, count))
        weir_live_print(&terminal, text, count);
}

static bool have_joined(void *context)
{
    (void)context;
    return all_joined;
}

/* What the group's callbacks are told. */
struct supervised {
    const struct weir_local *cluster;
    const struct weir_run_terms *terms;
};

static bool can_do_without(void *context, size_t child)
{
    const struct supervised *run = context;
    (void)child;
    return weir_local_enough_workers(run->cluster, run->terms->min_workers);
}

static void pass_on_note(void *context, const char *text)
{
    (void)context;
    weir_log_warning("%s", text);
}

/* ---- how it ended */

static bool failed(const struct weir_child_end *end)
{
    return !end->went && (end->signal != 0 || end->status != 0);
}

/* Who of two failed is more likely the cause. Not one that was told to stop; rather one that a signal ended, for the
 * others exit by themselves once they notice; and then the first, as far as the kernel's notices came one by one. */
static bool is_likelier(const struct weir_child_end *a, const struct weir_child_end *b)
{
    if (a->stopped != b->stopped)
        return b->stopped;
    if ((a->signal == 0) != (b->signal == 0))
        return a->signal != 0;
    return a->order < b->order;
}

/* Whose failure was the cause; the others failed because of it. */
static size_t find_cause(const struct weir_local *cluster, size_t *failures)
{
    size_t cause = 0;
    *failures = 0;
    for (size_t i = 0; i < cluster->count; i++) {
        if (!failed(&cluster->ends[i]) || cluster->ends[i].harmless)
            continue;
        if (*failures == 0 || is_likelier(&cluster->ends[i], &cluster->ends[cause]))
            cause = i;
        ++*failures;
    }
    return cause;
}

static void blame(const struct weir_local *cluster, size_t cause, size_t failures)
{
    char how[128], others[64] = "";
    weir_child_describe(&cluster->ends[cause], how, sizeof how);
    if (failures > 1)
        snprintf(others, sizeof others, ", and then %zu more failed", failures - 1);
    weir_log_error("the job failed: %s ended with %s%s", cluster->roles[cause].name, how, others);
}

static int verdict(const struct weir_local *cluster, unsigned interrupted)
{
    bool all_done = true; /* workers may go: what counts is that the chief has the result */
    for (size_t i = 0; i < cluster->count; i++)
        all_done = all_done && (!failed(&cluster->ends[i]) || cluster->roles[i].role == WEIR_WORKER);
    if (all_done && result_lost)
        weir_log_error("the result could not be written to standard output: %s", strerror(result_lost));
    if (all_done)
        return result_lost ? WEIR_EXIT_FAILED : WEIR_EXIT_DONE;
    size_t failures, cause = find_cause(cluster, &failures);
    if (!interrupted)
        blame(cluster, cause, failures);
    if (cluster->ends[cause].status == WEIR_EXIT_WRONG_USE)
        return WEIR_EXIT_WRONG_USE;
    int chief = cluster->ends[CHIEF].signal ? WEIR_EXIT_FAILED : cluster->ends[CHIEF].status;
    bool has_a_meaning = chief == WEIR_EXIT_START_AGAIN || chief == WEIR_EXIT_DRAINED;
    return has_a_meaning ? chief : WEIR_EXIT_FAILED;
}

/* A role that gets no processor for a lease counts as lost, on a machine that has too few of them. */
static void warn_of_a_crowd(const struct weir_local *cluster, uint32_t lease_ms)
{
    uint32_t cpus = weir_process_cpus();
    if (cluster->count > (size_t)ROLES_PER_CPU * cpus)
        weir_log_warning("%zu roles share %u CPU%s: if some count as lost, allow for more than the %u ms of silence by "
                         "--set cluster.lease_ms=MS, or start fewer",
                         cluster->count, cpus, cpus == 1 ? "" : "s", lease_ms);
}

static int run_cluster(struct weir_local *cluster, const struct weir_run_terms *terms)
{
    struct supervised run = {cluster, terms};
    uint32_t lease_ms = terms->lease_ms;
    struct weir_group_options group = {
        .children = cluster->children,
        .count = cluster->count,
        .grace_ms = lease_ms < GRACE_MOST_MS - GRACE_MS ? lease_ms + GRACE_MS : GRACE_MOST_MS,
        .stop_ms = STOP_MS,
        .joined = have_joined,
        .can_do_without = can_do_without,
        .output = pass_on_output,
        .line = pass_on_line,
        .note = pass_on_note,
        .context = &run,
    };
    unsigned interrupted = 0;
    struct weir_error err;
    warn_of_a_crowd(cluster, lease_ms);
    if (!weir_group_run(&group, cluster->ends, &interrupted, &err)) {
        weir_log_error("%s", err.text);
        return WEIR_EXIT_FAILED;
    }
    return verdict(cluster, interrupted);
}

int weir_run_command(const struct weir_options *options)
{
    if (options->local)
        return weir_start_local(options);
    struct weir_run_terms terms;
    int status = weir_check_before_run(options, &terms);
    if (status != WEIR_EXIT_DONE)
        return status;
    struct weir_local cluster;
    struct weir_error err;
    if (!weir_result_check(options->weights, options->summary, &err)) {
        fprintf(stderr, "weir: %s\n", err.text);
        return WEIR_EXIT_WRONG_USE;
    }
    weir_live_init(&terminal, STDERR_FILENO, false);
    weir_log_around(hide_live_line, show_live_line);
    bool relays = !options->quiet && weir_live_possible(STDERR_FILENO);
    if (weir_local_init(&cluster, options, relays ? "relay" : "plain", &terms.restarts, &err)) {
        status = run_cluster(&cluster, &terms);
    } else {
        weir_log_error("%s", err.text);
        status = WEIR_EXIT_FAILED;
    }
    weir_log_around(NULL, NULL);
    weir_live_end(&terminal);
    weir_local_free(&cluster);
    return status;
}
