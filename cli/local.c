#include "cli/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/ports.h"

/* How each role is supervised. The protocol can lose workers only, so far: where another role ends, so does the job. */
static const struct policy {
    bool leads, may_be_lost;
    int goes_with;
} policies[WEIR_ROLES] = {
    [WEIR_CHIEF] = {.leads = true},
    [WEIR_PS] = {.may_be_lost = false},
    [WEIR_WORKER] = {.may_be_lost = true, .goes_with = WEIR_EXIT_DRAINED},
};

/* The file of this program, so that ps shows its name; if it is no longer there, what the kernel kept of it. */
static void find_program(char *path, size_t path_bytes)
{
    ssize_t length = readlink("/proc/self/exe", path, path_bytes - 1);
    path[length > 0 ? length : 0] = '\0';
    if (access(path, X_OK) != 0)
        snprintf(path, path_bytes, "/proc/self/exe");
}

void weir_local_route(struct weir_local *local, size_t child, const uint16_t *ports)
{
    struct weir_local_role *role = &local->roles[child];
    free(role->tf_config);
    role->tf_config = weir_ports_tf_config(ports, local->ps, local->workers, role->role, role->index);
    role->environment[0] = role->tf_config;
}

static const char *progress_variable(const char *progress)
{
    if (strcmp(progress, "relay") == 0)
        return "WEIR_PROGRESS=relay";
    return strcmp(progress, "steps") == 0 ? "WEIR_PROGRESS=steps" : "WEIR_PROGRESS=plain";
}

static void fill_role(struct weir_local *local, size_t i, const char *progress,
                      const struct weir_restart_limit *restarts)
{
    struct weir_local_role *role = &local->roles[i];
    bool is_chief = i == WEIR_LOCAL_CHIEF, is_ps = i <= local->ps;
    role->role = is_chief ? WEIR_CHIEF : is_ps ? WEIR_PS : WEIR_WORKER;
    role->index = (uint32_t)(is_chief ? 0 : is_ps ? i - 1 : i - 1 - local->ps);
    snprintf(role->name, sizeof role->name, "%s/%u", weir_role_names[role->role], role->index);
    weir_local_route(local, i, local->ports);
    role->environment[1] = is_chief ? progress_variable(progress) : "WEIR_PROGRESS";
    const struct policy *policy = &policies[role->role];
    local->children[i] = (struct weir_child){
        .name = role->name,
        .program = local->program,
        .arguments = (const char *const *)(is_chief ? local->chief_arguments : local->arguments),
        .environment = role->environment,
        .leads = policy->leads,
        .may_be_lost = policy->may_be_lost,
        .goes_with = policy->goes_with,
        .final_status = WEIR_EXIT_WRONG_USE,
        .restarts = *restarts,
    };
}

static bool choose_ports(struct weir_local *local, const struct weir_options *options, struct weir_error *err)
{
    if (options->port == 0)
        return weir_ports_find(local->ports, local->count, err);
    for (size_t i = 0; i < local->count; i++)
        local->ports[i] = (uint16_t)(options->port + i);
    return true;
}

bool weir_local_init(struct weir_local *local, const struct weir_options *options, const char *progress,
                     const struct weir_restart_limit *restarts, struct weir_error *err)
{
    size_t count = 1 + (size_t)options->ps + options->workers;
    *local = (struct weir_local){
        .count = count,
        .ps = options->ps,
        .workers = options->workers,
        .roles = weir_alloc(count, sizeof *local->roles, "roles"),
        .children = weir_alloc(count, sizeof *local->children, "roles"),
        .ends = weir_alloc(count, sizeof *local->ends, "roles"),
        .ports = weir_alloc(count, sizeof *local->ports, "roles"),
        .chief_arguments = weir_options_start_arguments(options, true),
        .arguments = weir_options_start_arguments(options, false),
    };
    find_program(local->program, sizeof local->program);
    if (!choose_ports(local, options, err))
        return false;
    for (size_t i = 0; i < count; i++)
        fill_role(local, i, progress, restarts);
    return true;
}

bool weir_local_enough_workers(const struct weir_local *local, uint32_t min_workers)
{
    uint32_t left = 0;
    for (size_t i = 0; i < local->count; i++)
        left += local->roles[i].role == WEIR_WORKER && !local->ends[i].given_up;
    if (left < min_workers)
        weir_log_error("the job can't go on: of %u worker%s, %u can still be there, and cluster.min_workers is %u",
                       local->workers, local->workers == 1 ? "" : "s", left, min_workers);
    return left >= min_workers;
}

void weir_local_free(struct weir_local *local)
{
    for (size_t i = 0; i < local->count; i++)
        free(local->roles[i].tf_config);
    free(local->roles);
    free(local->children);
    free(local->ends);
    free(local->ports);
    free(local->chief_arguments);
    free(local->arguments);
}
