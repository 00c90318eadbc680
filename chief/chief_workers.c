/* Workers that go and come while the job trains: each view says which worker computes which replica. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "chief/chief_state.h"

static bool is_worker(const struct weir_chief *chief, uint32_t m)
{
    return m >= chief->config.servers;
}

bool weir_chief_can_lose(const struct weir_chief *chief, uint32_t m)
{
    return chief->config.elastic && is_worker(chief, m) && chief->state >= WEIR_CHIEF_TRAINING &&
           chief->state <= WEIR_CHIEF_WRITING;
}

bool weir_chief_computes(const struct weir_chief *chief)
{
    return chief->state == WEIR_CHIEF_TRAINING || chief->state == WEIR_CHIEF_FETCHING;
}

static bool takes_part(const struct member *member)
{
    return member->incarnation != 0 && !member->left;
}

uint32_t weir_chief_workers_there(const struct weir_chief *chief)
{
    uint32_t there = 0;
    for (uint32_t m = chief->config.servers; m < chief->member_count; m++)
        there += takes_part(&chief->members[m]);
    return there;
}

bool weir_chief_enough_workers(const struct weir_chief *chief)
{
    return weir_chief_workers_there(chief) >= chief->config.min_workers;
}

void weir_chief_place(struct weir_chief *chief)
{
    const struct weir_chief_config *config = &chief->config;
    bool enough = weir_chief_enough_workers(chief), there = weir_chief_workers_there(chief) > 0;
    for (uint32_t m = 0; m < chief->member_count; m++) {
        chief->nodes[m + 1].incarnation = takes_part(&chief->members[m]) ? chief->members[m].incarnation : 0;
        if (is_worker(chief, m))
            chief->present[m - config->servers] = enough && takes_part(&chief->members[m]);
    }
    if (enough && chief->keeps_hosts && there)
        weir_chief_hand_over(chief);
    else
        weir_layout_place(chief->hosts, config->replicas, chief->present, config->workers);
    chief->keeps_hosts = enough && there;
}

/* It keeps dying, however quickly it comes back. Restarts of long ago do not count, nor does it that one was drained.
 */
static bool given_up(const struct weir_chief *chief, const struct member *member)
{
    return !member->drained && weir_restarts_spent(&member->restarts, &chief->config.restarts, chief->last_ns);
}

void weir_chief_lose(struct weir_chief *chief, uint32_t m, const char *why, uint64_t now_ns,
                     struct weir_actions *actions)
{
    weir_chief_leave_out(chief, m, why, now_ns, actions);
    chief->keeps_hosts = false;
}

void weir_chief_leave_out(struct weir_chief *chief, uint32_t m, const char *why, uint64_t now_ns,
                          struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    assert(weir_chief_can_lose(chief, m) && takes_part(member));
    bool enough = weir_chief_enough_workers(chief);
    member->left = true;
    member->lost_ns = now_ns;
    if (!weir_chief_computes(chief))
        return;
    uint32_t there = weir_chief_workers_there(chief);
    if (enough && !weir_chief_enough_workers(chief))
        chief->idle_since_ns = now_ns;
    snprintf(member->lost, sizeof member->lost, "%.300s; %u of %u workers are there", why, there,
             chief->config.workers);
    weir_actions_add(actions, WEIR_DO_SAY)->text = member->lost;
    chief->view_is_old = true;
}

static bool was_replaced(const struct member *member, uint64_t incarnation)
{
    for (size_t i = 0; i < REPLACED_KEPT; i++)
        if (member->replaced[i] == incarnation)
            return true;
    return false;
}

bool weir_chief_takes_again(const struct weir_chief *chief, uint32_t m, const struct weir_hello *hello,
                            const char **reason)
{
    const struct member *member = &chief->members[m];
    *reason = "another process has that role and index already: it was restarted, or the address is used twice";
    if (!chief->config.elastic || !is_worker(chief, m) || was_replaced(member, hello->incarnation))
        return false;
    *reason = "it has failed more often than cluster.max_restarts allows, and is given up for now";
    if (given_up(chief, member))
        return false;
    *reason = "its data set has not as many samples as the one that the job began with";
    return !weir_chief_can_lose(chief, m) || /* it is told how the job ended */
           (hello->train_samples == chief->view.train_samples &&
            hello->validation_samples == chief->view.validation_samples);
}

void weir_chief_join(struct weir_chief *chief, uint32_t m, uint64_t incarnation, uint64_t now_ns,
                     struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    if (!weir_chief_can_lose(chief, m))
        return; /* it is told how the job ended, or goes on as it was */
    if (incarnation != member->incarnation) {
        char why[300];
        snprintf(why, sizeof why, "lost %s: it was restarted", chief->config.members[m].name);
        if (takes_part(member))
            weir_chief_lose(chief, m, why, now_ns, actions);
        member->replaced[member->replaced_count++ % REPLACED_KEPT] = member->incarnation;
        if (!member->drained)
            weir_restarts_add(&member->restarts, &chief->config.restarts, now_ns);
        member->drained = false;
    }
    member->incarnation = incarnation;
    member->gone = member->drained;
    weir_chief_back(chief, m, actions);
}

void weir_chief_back(struct weir_chief *chief, uint32_t m, struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    if (!member->left || member->drained || !weir_chief_can_lose(chief, m))
        return;
    member->left = member->gone = false;
    if (chief->state == WEIR_CHIEF_WRITING)
        return;
    snprintf(member->back, sizeof member->back, "%s is back; %u of %u workers are there", chief->config.members[m].name,
             weir_chief_workers_there(chief), chief->config.workers);
    weir_actions_add(actions, WEIR_DO_SAY)->text = member->back;
    chief->view_is_old = true;
    chief->keeps_hosts = false;
}

/* It is not there, and won't be taken back before its time. One that was only silent may be heard of again. */
static bool stays_out(const struct weir_chief *chief, const struct member *member)
{
    bool died_before = member->restarts.count > 0;
    bool ended =
        member->gone || (died_before && !member->up && chief->last_ns >= member->down_ns + chief->config.lease_ns);
    return !takes_part(member) && ended && given_up(chief, member);
}

bool weir_chief_idle_too_long(const struct weir_chief *chief, uint64_t now_ns, char *text, size_t bytes)
{
    const struct weir_chief_config *config = &chief->config;
    if (!weir_chief_computes(chief) || weir_chief_enough_workers(chief))
        return false;
    uint32_t may_come = config->workers;
    const struct member *last = NULL;
    for (uint32_t m = config->servers; m < chief->member_count; m++) {
        const struct member *member = &chief->members[m];
        may_come -= stays_out(chief, member);
        if (!takes_part(member) && (!last || member->lost_ns > last->lost_ns))
            last = member;
    }
    const char *why = "no other one came back within start_timeout_s";
    if (may_come < config->min_workers)
        why = "others have failed more often than cluster.max_restarts allows";
    else if (now_ns < chief->idle_since_ns + config->start_timeout_ns)
        return false;
    snprintf(text, bytes, "%u of at least %u workers are there, and %s; the last one: %.400s",
             weir_chief_workers_there(chief), config->min_workers, why, last->lost);
    return true;
}
