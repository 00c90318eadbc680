/* What a lane of a parameter server waits for. */
#include <stdio.h>

#include "ps/lane_state.h"

/* Whose contribution is missing first (WEIR_NO_HOST: no worker's yet), and how many other workers' are. */
static uint32_t missing_worker(const struct weir_ps_lane *lane, const struct weir_tree *tree, uint32_t *others)
{
    uint32_t first = WEIR_NO_HOST, last = WEIR_NO_HOST;
    *others = 0;
    for (uint32_t r = 0; r < tree->replicas; r += tree->first[r].count ? tree->first[r].count : 1) {
        if (tree->first[r].count)
            continue;
        uint32_t worker = lane->hosts[r];
        if (first == WEIR_NO_HOST)
            first = worker;
        else if (worker != last)
            ++*others;
        last = worker;
    }
    return first;
}

static void for_contribution(const struct weir_ps_lane *lane, const struct weir_chunk *chunk, char *text, size_t bytes)
{
    uint32_t others;
    uint32_t worker = missing_worker(lane, &chunk->tree, &others);
    char and_others[32] = "";
    if (worker == WEIR_NO_HOST) {
        snprintf(text, bytes, "%s: a worker that computes step %llu (chunk %u, lane %u)", lane->config.chief_name,
                 (unsigned long long)chunk->version, chunk->id, lane->config.lane);
        return;
    }
    if (others)
        snprintf(and_others, sizeof and_others, "; and %u more", others);
    snprintf(text, bytes, "%s: its contribution to step %llu (chunk %u, lane %u%s%s)",
             lane->config.worker_names[worker], (unsigned long long)chunk->version, chunk->id, lane->config.lane,
             lane->streams[worker].up ? "" : ", not connected", and_others);
}

static const char *record_name(const struct weir_ps_lane *lane)
{
    return lane->config.server_names[lane->record_chain.view.primary];
}

/* The record's own lane waits for none: it makes it (ps/recorder.h says for whom that waits). */
static bool for_record(const struct weir_ps_lane *lane, const struct weir_chunk *chunk, uint64_t *step, char *text,
                       size_t bytes)
{
    bool verdict = weir_ps_record_of(lane, chunk->version) != NULL;
    *step = chunk->version + verdict;
    if (lane->record_chain.view.primary == lane->config.self)
        return false;
    snprintf(text, bytes, "%s: the record of step %llu (chunk %u, lane %u)", record_name(lane),
             (unsigned long long)*step, chunk->id, lane->config.lane);
    return true;
}

/* The newest version that workers may have, + 1. */
static uint64_t released(const struct weir_ps_lane *lane, uint32_t local)
{
    return lane->chunks[local].version + !lane->chains[local].unreleased;
}

/* The chunk that holds up all others: of the oldest version; of these one that lacks contributions rather than a
 * record, which needs them; and the first in the order in which workers send. */
static const struct weir_chunk *slowest(const struct weir_ps_lane *lane)
{
    const struct weir_chunk *found = NULL;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = lane->chunk_count; i-- > 0;) {
        const struct weir_chunk *chunk = &lane->chunks[i];
        uint64_t version = released(lane, i);
        if (!leads(lane, i) || !chunk->held) /* its primary says for whom it waits */
            continue;
        bool lacks_more = found && version == oldest && weir_chunk_covered(found) > weir_chunk_covered(chunk);
        if (version < oldest || lacks_more) {
            found = chunk;
            oldest = version;
        }
    }
    return found;
}

/* Its newest version is released when others have it. */
static void for_ack(const struct weir_ps_lane *lane, const struct weir_chunk *chunk, char *text, size_t bytes)
{
    const struct chain *chain = &lane->chains[local_of(lane, chunk)];
    uint32_t server = chain->view.standby;
    const struct follower *standby = &chain->followers[0];
    bool has = server == WEIR_NO_SERVER || (standby->acked != WEIR_NO_VERSION && standby->acked >= chunk->version);
    if (has && chain->view.filling != WEIR_NO_SERVER)
        server = chain->view.filling;
    snprintf(text, bytes, "%s: word that it has version %llu too (chunk %u, lane %u)",
             lane->config.server_names[server], (unsigned long long)chunk->version, chunk->id, lane->config.lane);
}

/* During validation, and after the end, chunks wait for nobody. */
static bool for_chunk(const struct weir_ps_lane *lane, uint64_t *step, char *text, size_t bytes)
{
    const struct weir_chunk *chunk = slowest(lane);
    if (!chunk)
        return false;
    bool collecting = chunk->state == WEIR_CHUNK_COLLECTING;
    if (lane->chains[local_of(lane, chunk)].unreleased) {
        for_ack(lane, chunk, text, bytes);
        *step = chunk->version;
        return true;
    }
    if (collecting && weir_ps_record_of(lane, chunk->version)) {
        for_contribution(lane, chunk, text, bytes);
        *step = chunk->version;
        return true;
    }
    return (!collecting || lane->newest.record.step < chunk->version) && for_record(lane, chunk, step, text, bytes);
}

uint64_t weir_ps_lane_waiting(const struct weir_ps_lane *lane, char *text, size_t bytes)
{
    uint64_t step = 0;
    text[0] = '\0';
    for (uint32_t k = 0; k < lane->config.layout.servers; k++) {
        const struct weir_link *link = &lane->links[k];
        if (!link->used || weir_link_up(link))
            continue;
        snprintf(text, bytes, "%s: " WEIR_WAIT_CONNECTION " (lane %u: %s)", link->target.name, lane->config.lane,
                 link->error[0] ? link->error : "no answer");
        return 0;
    }
    if (!lane->newest.valid)
        snprintf(text, bytes, "%s: its first record (lane %u)", record_name(lane), lane->config.lane);
    else if (for_chunk(lane, &step, text, bytes))
        return step;
    else if (lane->newest.record.order == WEIR_ORDER_STOP && lane->config.lane == 0) {
        snprintf(text, bytes, "%s: the end of the job (training is over)", lane->config.chief_name);
        return lane->newest.record.step; /* another lane may still lack what that needs */
    }
    return 0;
}
