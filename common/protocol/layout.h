/* The flat parameter space, cut into chunks, and where each chunk lives.
 *
 * All variables lie end to end (padded to 64 bytes each) in one flat array of floats. Chunk c holds the floats
 * [c * chunk_elements, (c + 1) * chunk_elements), the last one what remains. Chunks are dealt to the parameter servers
 * in turn, and on each server to its lanes in turn: server c mod K, lane (c / K) mod L. So servers differ by at most
 * one chunk, and every layer is spread over all of them. That is where a chunk's primary is at first; its lane is the
 * same for ever, on whichever server.
 */
#ifndef WEIR_PROTOCOL_LAYOUT_H
#define WEIR_PROTOCOL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/message.h"

struct weir_layout {
    uint64_t flat_elements;  /* > 0 */
    uint32_t chunk_elements; /* > 0 */
    uint32_t chunks;         /* ceil(flat / chunk) */
    uint32_t servers, lanes; /* > 0 */
};

struct weir_layout weir_layout_make(uint64_t flat_elements, uint32_t chunk_elements, uint32_t servers, uint32_t lanes);

static inline uint32_t weir_layout_server(const struct weir_layout *layout, uint32_t chunk)
{
    return chunk % layout->servers;
}

static inline uint32_t weir_layout_lane(const struct weir_layout *layout, uint32_t chunk)
{
    return chunk / layout->servers % layout->lanes;
}

static inline uint64_t weir_layout_first(const struct weir_layout *layout, uint32_t chunk)
{
    return (uint64_t)chunk * layout->chunk_elements;
}

/* Floats in a chunk. */
uint32_t weir_layout_elements(const struct weir_layout *layout, uint32_t chunk);

/* Number of chunks of a lane over all servers, and the i-th of them, ascending. */
uint32_t weir_layout_count(const struct weir_layout *layout, uint32_t lane);
uint32_t weir_layout_chunk(const struct weir_layout *layout, uint32_t lane, uint32_t i);
/* Which of its lane's chunks a chunk is. */
static inline uint32_t weir_layout_local(const struct weir_layout *layout, uint32_t chunk)
{
    return chunk / layout->servers / layout->lanes * layout->servers + chunk % layout->servers;
}

/* Who holds each chunk, and the record, at first: `copies` servers (1 or 2; of one server, 1). Room for layout->chunks.
 */
void weir_layout_hold(const struct weir_layout *layout, uint32_t copies, struct weir_view_chunk *chunks,
                      struct weir_view_chunk *record);
/* Primary or standby: it has all released versions. */
static inline bool weir_holds(const struct weir_view_chunk *chunk, uint32_t server)
{
    return chunk->primary == server || chunk->standby == server;
}

#define WEIR_NO_HOST UINT32_MAX

/* Which worker computes which replica: hosts[r], for the workers that are there (present[w]). Consecutive replicas to
 * each, in aligned ranges where R allows it: the i-th of n workers has those r with floor(r * min(n, R) / R) == i, and
 * workers beyond R have none. Nobody there: all are WEIR_NO_HOST. */
void weir_layout_place(uint32_t *hosts, uint32_t replicas, const bool *present, uint32_t workers);
/* Replicas that a worker hosts. */
uint32_t weir_layout_hosted(const uint32_t *hosts, uint32_t replicas, uint32_t worker);

#endif
