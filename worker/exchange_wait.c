/* What a worker's lane waits for. */
#include <stdio.h>

#include "worker/exchange_state.h"

/* The newest version that is known to exist before this worker's first step; false if none is. */
static bool first_version(const struct weir_exchange *exchange, uint64_t *version)
{
    bool known = exchange->has_record;
    *version = known ? exchange->record_step : 0;
    for (uint32_t i = 0; i < exchange->chunk_count; i++) {
        uint64_t held = exchange->chunks[i].held;
        if (held == WEIR_NO_VERSION)
            continue;
        *version = !known || held > *version ? held : *version;
        known = true;
    }
    return known;
}

/* Its contributions wait to be sent. */
static bool sending(const struct weir_exchange *exchange, uint32_t server, char *text, size_t bytes)
{
    const struct holder *holder = &exchange->holders[server];
    const char *name = exchange->config.server_names[server];
    if (!exchange->has_step || holder->next >= holder->count)
        return false;
    const struct pulled_chunk *next = chunk_at(exchange, server, holder->next);
    if (!next->ready || next->covered)
        return false;
    unsigned long long step = exchange->step;
    if (holder->next >= holder->lowest + exchange->config.credit)
        snprintf(text, bytes,
                 "%s: word that it has all contributions to step %llu of the chunks sent (chunk %u, lane %u)", name,
                 step, chunk_at(exchange, server, holder->lowest)->id, exchange->config.lane);
    else
        snprintf(text, bytes, "%s: to take contributions to step %llu (chunk %u, lane %u)", name, step, next->id,
                 exchange->config.lane);
    return true;
}

/* It needs weights that are not here. While this worker computes, it does not wait. */
static bool pulling(const struct weir_exchange *exchange, uint32_t server, char *text, size_t bytes)
{
    const struct holder *holder = &exchange->holders[server];
    uint64_t version = exchange->step + 1;
    bool known = exchange->has_step || first_version(exchange, &version);
    if (exchange->has_step && holder->count && !chunk_at(exchange, server, holder->count - 1)->ready)
        return false;
    for (uint32_t position = 0; position < holder->count; position++) {
        const struct pulled_chunk *chunk = chunk_at(exchange, server, position);
        bool has = chunk->held != WEIR_NO_VERSION;
        if (has && chunk->held >= version)
            continue;
        char what[64] = "its first weights", there[48] = "";
        if (known)
            snprintf(what, sizeof what, "weights of version %llu", (unsigned long long)version);
        if (has)
            snprintf(there, sizeof there, "; version %llu is here", (unsigned long long)chunk->held);
        snprintf(text, bytes, "%s: %s (chunk %u, lane %u%s)", exchange->config.server_names[server], what, chunk->id,
                 exchange->config.lane, there);
        return true;
    }
    return false;
}

static bool awaits_record(const struct weir_exchange *exchange, char *text, size_t bytes)
{
    const char *name = exchange->config.server_names[0];
    uint64_t version;
    if (!exchange->holders[0].link.used)
        return false;
    if (!exchange->has_record)
        snprintf(text, bytes, "%s: its first record", name);
    else if (exchange->record_order == WEIR_ORDER_STOP)
        snprintf(text, bytes, "%s: the end of the job (training is over)", exchange->config.chief_name);
    else if (exchange->holders[0].seals_sent && !seals_answered(exchange))
        snprintf(text, bytes, "%s: the record that follows step %llu, round %u", name,
                 (unsigned long long)exchange->record_step, exchange->record_round);
    else if (!exchange->has_step && first_version(exchange, &version) && version > exchange->record_step)
        snprintf(text, bytes, "%s: the record of step %llu (that of step %llu is here)", name,
                 (unsigned long long)version, (unsigned long long)exchange->record_step);
    else
        return false;
    return true;
}

uint64_t weir_exchange_waiting(const struct weir_exchange *exchange, char *text, size_t bytes)
{
    text[0] = '\0';
    for (uint32_t k = 0; k < exchange->config.layout.servers; k++) {
        const struct weir_link *link = &exchange->holders[k].link;
        if (!link->used)
            continue;
        if (!weir_link_up(link)) {
            snprintf(text, bytes, "%s: " WEIR_WAIT_CONNECTION " (lane %u: %s)", link->target.name,
                     exchange->config.lane, link->error[0] ? link->error : "no answer");
            return 0;
        }
        if (sending(exchange, k, text, bytes) || pulling(exchange, k, text, bytes))
            return exchange->step;
    }
    return carries_record(exchange, 0) && awaits_record(exchange, text, bytes) ? exchange->record_step : 0;
}
