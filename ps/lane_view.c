/* The lane core and its view: which processes it has to do with, and what it holds. */
#include "ps/lane_state.h"

#include <assert.h>
#include <string.h>

static bool replicated(const struct weir_ps_lane *lane)
{
    return lane->config.copies > 1;
}

void weir_ps_view_init(struct weir_ps_lane *lane, struct weir_arena *arena)
{
    const struct weir_ps_lane_config *config = &lane->config;
    uint32_t servers = config->layout.servers;
    lane->hosts = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    memcpy(lane->hosts, config->hosts, config->replicas * sizeof(uint32_t));
    lane->worker_incarnations = weir_arena_take(arena, config->workers, sizeof(uint64_t));
    memcpy(lane->worker_incarnations, config->worker_incarnations, config->workers * sizeof(uint64_t));
    lane->server_incarnations = weir_arena_take(arena, servers, sizeof(uint64_t));
    memcpy(lane->server_incarnations, config->server_incarnations, servers * sizeof(uint64_t));
    lane->links = weir_arena_take(arena, servers, sizeof(struct weir_link));
    lane->primaries = weir_arena_take(arena, config->layout.chunks, sizeof(uint32_t));
    for (uint32_t c = 0; c < config->layout.chunks; c++)
        lane->primaries[c] = config->chunks[c].primary;
    lane->chains = weir_arena_take(arena, lane->chunk_count, sizeof(struct chain));
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        const struct weir_view_chunk *view = &config->chunks[lane->chunks[i].id];
        weir_ps_chain_set(&lane->chains[i], view);
        lane->chunks[i].replicated = replicated(lane);
        /* Whom the first view that it enters names as a holder has made the first version by itself, and so has the
         * other holder: without this one's Acks nothing later was released. */
        lane->chunks[i].held = weir_holds(view, config->self);
    }
    weir_ps_chain_set(&lane->record_chain, &config->record);
}

static void start_link(struct weir_ps_lane *lane, uint32_t server, uint64_t now_ns, struct weir_actions *actions)
{
    const struct weir_ps_lane_config *config = &lane->config;
    const struct weir_link_target target = {
        .peer = server_peer(lane, server),
        .name = config->server_names[server],
        .role = WEIR_NODE_PS,
        .incarnation = lane->server_incarnations[server],
        .job_hash = config->job_hash,
        .start_patience_ns = config->start_timeout_ns,
        .patience_ns = config->patience_ns,
    };
    weir_link_start(&lane->links[server], &target, now_ns, &lane->link_counts, actions);
}

/* Of two servers the later one opens the streams. Without replication only the record has to be told. */
static bool connects_to(const struct weir_ps_lane *lane, uint32_t server)
{
    if (lane->server_incarnations[server] == 0 || server >= lane->config.self)
        return false;
    return replicated(lane) || (server == 0 && lane->config.lane == 0);
}

void weir_ps_view_start(struct weir_ps_lane *lane, uint64_t now_ns, struct weir_actions *actions)
{
    for (uint32_t k = 0; k < lane->config.layout.servers; k++)
        if (connects_to(lane, k))
            start_link(lane, k, now_ns, actions);
}

static bool same_incarnation(uint64_t known, uint64_t said, const char **reason)
{
    if (known == said && known != 0)
        return true;
    *reason = known ? "another process than the one that the view names: it was restarted, or the address is used twice"
                    : "the view does not name it now: it counts as lost";
    return false;
}

static bool admits_server(const struct weir_ps_lane *lane, const struct weir_hello *hello, const char **reason,
                          bool *again)
{
    *reason = "a server that opens a stream to another one than the record's holder";
    if (!replicated(lane) && !leads_record(lane))
        return false;
    *reason = "an index beyond the cluster's nodes of that role";
    if (hello->index >= lane->config.layout.servers)
        return false;
    *reason = "of two servers the one with the higher index opens the streams";
    if (hello->index <= lane->config.self)
        return false;
    *again = replicated(lane);
    return same_incarnation(lane->server_incarnations[hello->index], hello->incarnation, reason);
}

bool weir_ps_lane_admit(const struct weir_ps_lane *lane, const struct weir_hello *hello, uint32_t *peer,
                        const char **reason, bool *again)
{
    const struct weir_ps_lane_config *config = &lane->config;
    *again = false;
    *reason = "an index beyond the cluster's nodes of that role";
    if (hello->generation != config->generation) {
        *reason = "another generation of the job";
        return false;
    }
    if (strcmp(hello->job_hash, config->job_hash) != 0) {
        *reason = "another job (the hash of its job file differs)";
        return false;
    }
    switch (hello->role) {
    case WEIR_NODE_WORKER:
        *peer = hello->index;
        if (hello->index >= config->workers)
            return false;
        *again = true; /* this lane's view may be older than the worker's, or a newer one takes it in again */
        return same_incarnation(lane->worker_incarnations[hello->index], hello->incarnation, reason);
    case WEIR_NODE_PS: /* of two streams between two servers, who knows which is whose: only one side opens them */
        *peer = server_peer(lane, hello->index);
        return admits_server(lane, hello, reason, again);
    case WEIR_NODE_CHIEF:
        *peer = chief_peer(lane);
        return same_incarnation(config->chief_incarnation, hello->incarnation, reason);
    default:
        *reason = "as many observers as this server takes are there already";
        for (*peer = chief_peer(lane) + 1; *peer < lane->peers; ++*peer)
            if (!lane->streams[*peer].up)
                return true;
        return false;
    }
}

static void close_stream(struct weir_ps_lane *lane, uint32_t peer, struct weir_actions *actions)
{
    if (!lane->streams[peer].up)
        return;
    struct weir_action *action = weir_actions_add(actions, WEIR_DO_CLOSE);
    action->peer = peer;
    action->text = "the view no longer names this process";
    weir_ps_stream_down(lane, peer);
}

static void enter_worker(struct weir_ps_lane *lane, uint32_t w, uint64_t incarnation, struct weir_actions *actions)
{
    if (lane->worker_incarnations[w] != incarnation)
        close_stream(lane, w, actions);
    lane->worker_incarnations[w] = incarnation;
}

static void enter_server(struct weir_ps_lane *lane, uint32_t server, uint64_t incarnation, uint64_t now_ns,
                         struct weir_actions *actions)
{
    if (lane->server_incarnations[server] == incarnation || server == lane->config.self)
        return;
    lane->server_incarnations[server] = incarnation;
    if (lane->links[server].used) {
        weir_ps_stream_down(lane, server_peer(lane, server));
        weir_link_stop(&lane->links[server], "the view no longer names this process", actions);
    }
    close_stream(lane, server_peer(lane, server), actions);
    if (connects_to(lane, server))
        start_link(lane, server, now_ns, actions);
}

/* The view has all servers and all workers of the cluster, in their order. */
static void enter_nodes(struct weir_ps_lane *lane, const struct weir_view *view, uint64_t now_ns,
                        struct weir_actions *actions)
{
    uint32_t w = 0, k = 0;
    for (size_t n = 0; n < view->node_count; n++) {
        if (view->nodes[n].role == WEIR_NODE_WORKER && w < lane->config.workers)
            enter_worker(lane, w++, view->nodes[n].incarnation, actions);
        else if (view->nodes[n].role == WEIR_NODE_PS && k < lane->config.layout.servers)
            enter_server(lane, k++, view->nodes[n].incarnation, now_ns, actions);
    }
}

/* A primary that was none before has what the one before released, but does not know what that is: with others it
 * waits for their Acks. */
static void enter_chain(struct weir_ps_lane *lane, uint32_t local, const struct weir_view_chunk *view,
                        struct weir_actions *actions)
{
    struct chain *chain = &lane->chains[local];
    struct weir_chunk *chunk = &lane->chunks[local];
    bool led = leads(lane, local);
    weir_ps_chain_set(chain, view);
    chunk->copied_parts = 0;
    if (!leads(lane, local)) {
        chain->unreleased = false;
        if (!follows(lane, chain) && chunk->held) {
            lane->partly_received -= !weir_chunk_covered(chunk) && chunk->tree.covered > 0;
            weir_chunk_drop(chunk, &lane->chunk_counts, actions);
        }
        return;
    }
    if (led) {
        weir_ps_chain_advance(lane, local);
        return;
    }
    chain->unreleased = true;
    weir_ps_chain_advance(lane, local);
    for (uint32_t w = 0; w < lane->config.workers; w++)
        weir_ps_stream_note_lacking(lane, w, local);
}

static void enter_record_chain(struct weir_ps_lane *lane, const struct weir_view_chunk *view)
{
    struct chain *chain = &lane->record_chain;
    bool led = chain->view.primary == lane->config.self;
    weir_ps_chain_set(chain, view);
    if (chain->view.primary != lane->config.self || view->standby == WEIR_NO_SERVER)
        chain->unreleased = false;
    else if (!led)
        chain->unreleased = true;
}

void weir_ps_view_enter(struct weir_ps_lane *lane, const struct weir_view *view, uint64_t now_ns,
                        struct weir_actions *actions)
{
    bool moved = !weir_chain_same(view->record.chain, lane->record_chain.view.chain);
    lane->config.view = view->number;
    memcpy(lane->hosts, view->hosts, lane->config.replicas * sizeof(uint32_t));
    enter_nodes(lane, view, now_ns, actions);
    if (!replicated(lane))
        return;
    for (uint32_t c = 0; c < lane->config.layout.chunks; c++) {
        moved = moved || lane->primaries[c] != view->chunks[c].primary;
        lane->primaries[c] = view->chunks[c].primary;
    }
    if (!weir_chain_same(view->record.chain, lane->record_chain.view.chain))
        enter_record_chain(lane, &view->record);
    for (uint32_t i = 0; i < lane->chunk_count; i++) {
        const struct weir_view_chunk *chunk = &view->chunks[lane->chunks[i].id];
        if (!weir_chain_same(chunk->chain, lane->chains[i].view.chain))
            enter_chain(lane, i, chunk, actions);
    }
    for (uint32_t k = 0; k < lane->config.layout.servers; k++)
        if (lane->streams[server_peer(lane, k)].up) {
            weir_ps_stream_hello(lane, server_peer(lane, k), actions);
            weir_ps_chain_tell(lane, k);
        }
    if (moved)
        weir_ps_partial_send(lane, true, actions);
    weir_ps_stream_pump_all(lane, actions);
}
