/* A worker that was told to go: it has finished what it had begun, and its replicas move to the others without any
 * being computed twice. So only they move; those of the others stay where they are, even where another placement would
 * be in better order. */
#include <assert.h>
#include <stdio.h>

#include "chief/chief_state.h"

/* Whether worker w hosts a replica whose node of the sum tree it would share with r, or one next to r. */
static bool is_neighbour(const uint32_t *hosts, uint32_t replicas, uint32_t r, uint32_t w, bool sibling)
{
    uint32_t other = r ^ 1;
    if (sibling)
        return other < replicas && hosts[other] == w;
    return (r > 0 && hosts[r - 1] == w) || (r + 1 < replicas && hosts[r + 1] == w);
}

/* Of those that have the fewest replicas, one that has the sibling of r, else one that has a neighbour, else the first.
 */
static uint32_t choose_heir(const struct weir_chief *chief, uint32_t r)
{
    const struct weir_chief_config *config = &chief->config;
    uint32_t best = WEIR_NO_HOST, best_rank = 0;
    for (uint32_t w = 0; w < config->workers; w++) {
        if (!chief->present[w])
            continue;
        uint32_t rank = is_neighbour(chief->hosts, config->replicas, r, w, true)    ? 2
                        : is_neighbour(chief->hosts, config->replicas, r, w, false) ? 1
                                                                                    : 0;
        bool fewer = best == WEIR_NO_HOST || chief->loads[w] < chief->loads[best];
        if (fewer || (chief->loads[w] == chief->loads[best] && rank > best_rank)) {
            best = w;
            best_rank = rank;
        }
    }
    assert(best != WEIR_NO_HOST);
    return best;
}

void weir_chief_hand_over(struct weir_chief *chief)
{
    const struct weir_chief_config *config = &chief->config;
    for (uint32_t w = 0; w < config->workers; w++)
        chief->loads[w] = 0;
    for (uint32_t r = 0; r < config->replicas; r++)
        if (chief->present[chief->hosts[r]])
            chief->loads[chief->hosts[r]]++;
        else
            chief->hosts[r] = WEIR_NO_HOST;
    for (uint32_t r = 0; r < config->replicas; r++)
        if (chief->hosts[r] == WEIR_NO_HOST) {
            chief->hosts[r] = choose_heir(chief, r);
            chief->loads[chief->hosts[r]]++;
        }
}

void weir_chief_drained(struct weir_chief *chief, uint32_t m, const struct weir_heartbeat *heartbeat, uint64_t now_ns,
                        struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    struct weir_view *view = &chief->view;
    char why[300];
    snprintf(why, sizeof why, "%s is drained", chief->config.members[m].name);
    member->drained = member->gone = true;
    if (member->left)
        return;
    bool newer = heartbeat->drained_step > view->complete_step ||
                 (heartbeat->drained_step == view->complete_step && heartbeat->drained_round > view->complete_round);
    if (newer) {
        view->complete_step = heartbeat->drained_step;
        view->complete_round = heartbeat->drained_round;
    }
    weir_chief_leave_out(chief, m, why, now_ns, actions);
}

void weir_chief_forget(struct weir_chief *chief, uint32_t m, struct weir_actions *actions)
{
    struct member *member = &chief->members[m];
    assert(chief->state == WEIR_CHIEF_GATHERING);
    member->up = false;
    member->incarnation = 0;
    snprintf(member->lost, sizeof member->lost, "%.300s went before the job began; another may come",
             chief->config.members[m].name);
    weir_actions_add(actions, WEIR_DO_SAY)->text = member->lost;
}
