#include "worker/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "worker/exchange_state.h"

size_t weir_exchange_actions_max(const struct weir_exchange_config *config)
{
    return 4 * (size_t)config->layout.servers + 2 * (size_t)config->replicas + 16;
}

struct weir_exchange *weir_exchange_init(struct weir_arena *arena, const struct weir_exchange_config *config)
{
    assert(config->credit > 0);
    struct weir_exchange *exchange = weir_arena_take(arena, 1, sizeof *exchange);
    const struct weir_layout *layout = &config->layout;
    exchange->config = *config;
    exchange->told_held = WEIR_NO_VERSION;
    exchange->chunk_count = weir_layout_count(layout, config->lane);
    exchange->holders = weir_arena_take(arena, layout->servers, sizeof(struct holder));
    for (uint32_t k = 0; k < layout->servers; k++)
        exchange->holders[k].order = weir_arena_take(arena, exchange->chunk_count, sizeof(uint32_t));
    exchange->chunks = weir_arena_take(arena, exchange->chunk_count, sizeof(struct pulled_chunk));
    exchange->held = weir_arena_take(arena, exchange->chunk_count, sizeof(struct weir_held));
    for (uint32_t i = 0; i < exchange->chunk_count; i++)
        exchange->chunks[i] =
            (struct pulled_chunk){.id = weir_layout_chunk(layout, config->lane, i), .held = WEIR_NO_VERSION};
    for (uint32_t i = exchange->chunk_count; i-- > 0;) {
        struct holder *holder = &exchange->holders[weir_layout_server(layout, exchange->chunks[i].id)];
        holder->order[holder->count++] = i;
    }
    exchange->hosts = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    memcpy(exchange->hosts, config->hosts, config->replicas * sizeof(uint32_t));
    exchange->nodes = weir_arena_take(arena, config->replicas, sizeof(struct weir_tree_node));
    exchange->seals = weir_arena_take(arena, config->replicas, sizeof(struct weir_seal));
    return exchange;
}

static void fail(struct weir_exchange *exchange, const char *text, struct weir_actions *actions)
{
    if (exchange->failed)
        return;
    exchange->failed = true;
    weir_actions_tell(actions, WEIR_ACTOR_NODE, 0, WEIR_ON_FAILED)->text = text;
}

static bool can_send(const struct weir_exchange *exchange, const struct holder *holder)
{
    return exchange->has_step && weir_link_up(&holder->link) && holder->unsent < UNSENT_MAX &&
           holder->next < holder->count && holder->next < holder->lowest + exchange->config.credit;
}

/* Sends contributions as far as credit, readiness and the stream's room go. */
static void push(struct weir_exchange *exchange, uint32_t server, struct weir_actions *actions)
{
    struct holder *holder = &exchange->holders[server];
    while (can_send(exchange, holder)) {
        const struct pulled_chunk *chunk = chunk_at(exchange, server, holder->next);
        if (chunk->covered || holder->next_node == exchange->node_count) {
            holder->next++;
            holder->next_node = 0;
            continue;
        }
        if (!chunk->ready && holder->next_node >= exchange->settled)
            break;
        struct weir_tree_node node = exchange->nodes[holder->next_node++];
        weir_actions_send(actions, server, WEIR_CONTRIBUTION)->contribution = (struct weir_contribution){
            .generation = exchange->config.generation,
            .step = exchange->step,
            .chunk = chunk->id,
            .level = node.level,
            .index = node.index,
        };
        holder->unsent++;
    }
}

static void push_seals(struct weir_exchange *exchange, struct weir_actions *actions)
{
    struct holder *holder = &exchange->holders[0];
    if (!carries_record(exchange, 0) || !weir_link_up(&holder->link) || seals_answered(exchange))
        return;
    for (; holder->seals_sent < exchange->seal_count; holder->unsent++)
        weir_actions_send(actions, 0, WEIR_SEAL)->seal = exchange->seals[holder->seals_sent++];
}

static void say_hello(struct weir_exchange *exchange, uint32_t server, struct weir_actions *actions)
{
    for (uint32_t i = 0; i < exchange->chunk_count; i++)
        exchange->held[i] = (struct weir_held){.chunk = exchange->chunks[i].id, .version = exchange->chunks[i].held};
    struct weir_hello *hello = &weir_actions_send(actions, server, WEIR_HELLO)->hello;
    *hello = (struct weir_hello){
        .role = WEIR_NODE_WORKER,
        .index = exchange->config.self,
        .incarnation = exchange->config.incarnation,
        .generation = exchange->config.generation,
        .view = exchange->config.view,
        .job_hash = exchange->config.job_hash,
        .numerics = exchange->config.numerics,
        .address = "",
        .canonical = "",
        .has_record = exchange->has_record,
        .record_step = exchange->record_step,
        .record_round = exchange->record_round,
        .held = exchange->held,
        .held_count = exchange->chunk_count,
    };
    exchange->holders[server].unsent++;
}

static void rewind_to_lowest(struct holder *holder)
{
    holder->next = holder->lowest;
    holder->next_node = 0;
}

static void on_hello(struct weir_exchange *exchange, uint32_t server, const struct weir_hello *hello,
                     struct weir_actions *actions)
{
    struct holder *holder = &exchange->holders[server];
    if (!weir_link_greeted(&holder->link, hello)) {
        fail(exchange, weir_link_lost(&holder->link), actions);
        return;
    }
    rewind_to_lowest(holder); /* all that is not covered is sent again: what was on its way may be lost */
    holder->seals_sent = 0;
    push_seals(exchange, actions);
    push(exchange, server, actions);
}

static void advance_lowest(struct weir_exchange *exchange, uint32_t server, uint32_t from)
{
    struct holder *holder = &exchange->holders[server];
    holder->lowest = from;
    while (holder->lowest < holder->count && chunk_at(exchange, server, holder->lowest)->covered)
        holder->lowest++;
    if (holder->next < holder->lowest)
        rewind_to_lowest(holder);
}

static void cover(struct weir_exchange *exchange, uint32_t server, struct pulled_chunk *chunk)
{
    chunk->covered = true;
    advance_lowest(exchange, server, exchange->holders[server].lowest);
}

/* This lane's chunk of that number at that server, or NULL. */
static struct pulled_chunk *find_chunk(struct weir_exchange *exchange, uint32_t server, uint32_t id)
{
    const struct weir_layout *layout = &exchange->config.layout;
    if (id >= layout->chunks || weir_layout_server(layout, id) != server ||
        weir_layout_lane(layout, id) != exchange->config.lane)
        return NULL;
    return &exchange->chunks[weir_layout_local(layout, id)];
}

static bool holds(const struct pulled_chunk *chunk, uint64_t version)
{
    return chunk->held == version || (chunk->held == version + 1 && chunk->has_old);
}

/* Tells the worker when all chunks are held at a version, once for each: the newest that this can be true of is that of
 * the chunk that is furthest behind. */
static void tell_held(struct weir_exchange *exchange, struct weir_actions *actions)
{
    uint64_t version = WEIR_NO_VERSION;
    for (uint32_t i = 0; i < exchange->chunk_count; i++) {
        if (exchange->chunks[i].held == WEIR_NO_VERSION)
            return;
        if (exchange->chunks[i].held < version)
            version = exchange->chunks[i].held;
    }
    if (exchange->told_held != WEIR_NO_VERSION && exchange->told_held >= version)
        return;
    for (uint32_t i = 0; i < exchange->chunk_count; i++)
        if (!holds(&exchange->chunks[i], version))
            return;
    exchange->told_held = version;
    weir_actions_tell(actions, WEIR_ACTOR_WORKER, exchange->config.lane, WEIR_ON_HOLDS)->step = version;
}

static void on_weights(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_weights *weights = &event->body->weights;
    struct pulled_chunk *chunk = find_chunk(exchange, event->peer, weights->chunk);
    uint64_t bytes = chunk ? 4 * (uint64_t)weir_layout_elements(&exchange->config.layout, chunk->id) : 0;
    if (!chunk || weights->part != 0 || event->payload_bytes != bytes || weights->version >= WEIR_HOLDS_ALWAYS) {
        weir_actions_release(actions, event->payload);
        fail(exchange, "a server sent weights that were not to come: unknown chunk or part, or wrong length", actions);
        return;
    }
    if (chunk->held != WEIR_NO_VERSION && weights->version <= chunk->held) {
        weir_actions_release(actions, event->payload); /* sent again */
        return;
    }
    struct weir_action *store = weir_actions_add(actions, WEIR_DO_STORE);
    store->chunk = chunk->id;
    store->step = weights->version;
    store->payload = event->payload;
    chunk->has_old = chunk->held != WEIR_NO_VERSION && weights->version == chunk->held + 1;
    chunk->held = weights->version;
    if (exchange->has_step && weights->version > exchange->step && !chunk->covered) {
        cover(exchange, event->peer, chunk);
        push(exchange, event->peer, actions);
    }
    tell_held(exchange, actions);
}

static void on_covered(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_covered *covered = &event->body->covered;
    struct pulled_chunk *chunk = find_chunk(exchange, event->peer, covered->chunk);
    if (!chunk) {
        fail(exchange, "a server said that a chunk is covered which it does not hold", actions);
        return;
    }
    if (covered->step >= chunk->told_covered && covered->step < WEIR_HOLDS_ALWAYS)
        chunk->told_covered = covered->step + 1;
    if (exchange->has_step && covered->step == exchange->step && !chunk->covered) {
        cover(exchange, event->peer, chunk);
        push(exchange, event->peer, actions);
    }
}

static void on_record(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_record *record = &event->body->record;
    if (record->generation != exchange->config.generation)
        return;
    bool newer = !exchange->has_record || exchange->record_step < record->step ||
                 (exchange->record_step == record->step && exchange->record_round < record->round);
    if (!newer)
        return;
    exchange->has_record = true;
    exchange->record_order = record->order;
    exchange->record_step = record->step;
    exchange->record_round = record->round;
    struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_WORKER, 0, WEIR_ON_RECORD);
    action->has_body = true;
    action->body = *event->body;
}

static void on_message(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    if (event->body->type == WEIR_WEIGHTS) {
        on_weights(exchange, event, actions);
        return;
    }
    weir_actions_release(actions, event->payload);
    switch (event->body->type) {
    case WEIR_HELLO:
        on_hello(exchange, event->peer, &event->body->hello, actions);
        break;
    case WEIR_COVERED:
        on_covered(exchange, event, actions);
        break;
    case WEIR_RECORD:
        on_record(exchange, event, actions);
        break;
    case WEIR_REFUSED:
        if (event->body->refused.again) /* the link tries again once the stream is closed, until a view takes us in */
            weir_link_put_off(&exchange->holders[event->peer].link, event->now_ns);
        else
            fail(exchange, event->body->refused.reason, actions);
        break;
    default:
        fail(exchange, "a server sent a message that does not belong on a worker's stream", actions);
    }
}

/* The first of a step: the step before is done with. */
static void begin_step(struct weir_exchange *exchange, uint64_t step)
{
    exchange->has_step = true;
    exchange->step = step;
    exchange->parts = 0;
    exchange->node_count = 0;
    for (uint32_t i = 0; i < exchange->chunk_count; i++) {
        struct pulled_chunk *chunk = &exchange->chunks[i];
        chunk->covered = (chunk->held != WEIR_NO_VERSION && chunk->held > step) || chunk->told_covered == step + 1;
    }
    for (uint32_t k = 0; k < exchange->config.layout.servers; k++)
        advance_lowest(exchange, k, 0);
}

/* More of the step's replicas are computed: their nodes go behind those of the parts before, chunk by chunk, and
 * what is not covered is sent again. */
static void begin_part(struct weir_exchange *exchange, const struct weir_event *event)
{
    assert(event->part == exchange->parts);
    exchange->parts++;
    exchange->settled = exchange->node_count;
    exchange->node_count += weir_tree_cover(exchange->config.replicas, event->replicas, event->replica_count,
                                            exchange->nodes + exchange->node_count);
    assert(exchange->node_count <= exchange->config.replicas);
    for (uint32_t i = 0; i < exchange->chunk_count; i++)
        exchange->chunks[i].ready = false;
    for (uint32_t k = 0; k < exchange->config.layout.servers; k++)
        rewind_to_lowest(&exchange->holders[k]);
}

static void on_ready(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    if (!exchange->has_step || event->step > exchange->step)
        begin_step(exchange, event->step);
    if (event->part >= exchange->parts)
        begin_part(exchange, event);
    for (uint32_t i = 0; i < exchange->chunk_count; i++)
        if (weir_layout_first(&exchange->config.layout, exchange->chunks[i].id) >= event->offset)
            exchange->chunks[i].ready = true;
    for (uint32_t k = 0; k < exchange->config.layout.servers; k++)
        push(exchange, k, actions);
}

static void on_seal(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    const struct weir_seal *seal = &event->body->seal;
    const struct weir_seal *other = &exchange->seals[0];
    if (exchange->seal_count && (seal->step != other->step || seal->round != other->round)) {
        exchange->seal_count = 0; /* the first of a new round */
        exchange->holders[0].seals_sent = 0;
    }
    assert(exchange->seal_count < exchange->config.replicas);
    exchange->seals[exchange->seal_count++] = *seal;
    push_seals(exchange, actions);
}

static void on_closed(struct weir_exchange *exchange, const struct weir_event *event)
{
    struct holder *holder = &exchange->holders[event->peer];
    holder->unsent = 0;
    weir_link_closed(&holder->link, event->now_ns, event->text);
}

static void on_time(struct weir_exchange *exchange, uint64_t now_ns, struct weir_actions *actions)
{
    for (uint32_t k = 0; k < exchange->config.layout.servers; k++) {
        struct weir_link *link = &exchange->holders[k].link;
        if (weir_link_time(link, now_ns, actions))
            fail(exchange, weir_link_lost(link), actions);
    }
}

static void start_link(struct weir_exchange *exchange, uint32_t server, uint64_t now_ns, struct weir_actions *actions)
{
    const struct weir_exchange_config *config = &exchange->config;
    const struct weir_link_target target = {
        .peer = server,
        .name = config->server_names[server],
        .role = WEIR_NODE_PS,
        .incarnation = config->server_incarnations[server],
        .job_hash = config->job_hash,
        .start_patience_ns = config->start_timeout_ns,
        .patience_ns = config->patience_ns,
    };
    weir_link_start(&exchange->holders[server].link, &target, now_ns, &exchange->link_counts, actions);
}

/* A worker without replicas stands by, and a server without chunks or record of this lane has nothing to say. Once
 * connected it stays so. */
static void connect(struct weir_exchange *exchange, uint64_t now_ns, struct weir_actions *actions)
{
    const struct weir_exchange_config *config = &exchange->config;
    bool stands_by = weir_layout_hosted(exchange->hosts, config->replicas, config->self) == 0;
    for (uint32_t k = 0; !stands_by && k < config->layout.servers; k++)
        if (!exchange->holders[k].link.used && (exchange->holders[k].count || carries_record(exchange, k)))
            start_link(exchange, k, now_ns, actions);
}

static void on_start(struct weir_exchange *exchange, uint64_t now_ns, struct weir_actions *actions)
{
    connect(exchange, now_ns, actions);
    if (exchange->chunk_count == 0) { /* vacuously, at any version */
        exchange->told_held = WEIR_HOLDS_ALWAYS;
        weir_actions_tell(actions, WEIR_ACTOR_WORKER, exchange->config.lane, WEIR_ON_HOLDS)->step = exchange->told_held;
    }
}

void weir_exchange_step(struct weir_exchange *exchange, const struct weir_event *event, struct weir_actions *actions)
{
    assert(event->peer < exchange->config.layout.servers);
    switch (event->kind) {
    case WEIR_ON_START:
        on_start(exchange, event->now_ns, actions);
        break;
    case WEIR_ON_OPENED:
        weir_link_opened(&exchange->holders[event->peer].link);
        say_hello(exchange, event->peer, actions);
        break;
    case WEIR_ON_CLOSED:
        on_closed(exchange, event);
        break;
    case WEIR_ON_MESSAGE:
        on_message(exchange, event, actions);
        break;
    case WEIR_ON_SENT:
        if (exchange->holders[event->peer].unsent > 0)
            exchange->holders[event->peer].unsent--;
        push(exchange, event->peer, actions);
        break;
    case WEIR_ON_READY:
        on_ready(exchange, event, actions);
        break;
    case WEIR_ON_SEAL:
        on_seal(exchange, event, actions);
        break;
    case WEIR_ON_VIEW:
        memcpy(exchange->hosts, event->body->view.hosts, exchange->config.replicas * sizeof(uint32_t));
        exchange->config.view = event->body->view.number;
        connect(exchange, event->now_ns, actions);
        break;
    case WEIR_ON_TIME:
        on_time(exchange, event->now_ns, actions);
        break;
    default:
        assert(!"an event that an exchange does not have");
    }
}

uint64_t weir_exchange_deadline(const struct weir_exchange *exchange)
{
    uint64_t first = WEIR_NEVER;
    if (exchange->failed)
        return first;
    for (uint32_t k = 0; k < exchange->config.layout.servers; k++) {
        uint64_t deadline = weir_link_deadline(&exchange->holders[k].link);
        first = deadline < first ? deadline : first;
    }
    return first;
}

const struct weir_machine_counts *weir_exchange_link_counts(const struct weir_exchange *exchange)
{
    return &exchange->link_counts;
}
