#include "protocol/layout.h"

#include <assert.h>

struct weir_layout weir_layout_make(uint64_t flat_elements, uint32_t chunk_elements, uint32_t servers, uint32_t lanes)
{
    assert(flat_elements > 0 && chunk_elements > 0 && servers > 0 && lanes > 0);
    uint64_t chunks = (flat_elements + chunk_elements - 1) / chunk_elements;
    assert(chunks <= UINT32_MAX);
    return (struct weir_layout){flat_elements, chunk_elements, (uint32_t)chunks, servers, lanes};
}

uint32_t weir_layout_elements(const struct weir_layout *layout, uint32_t chunk)
{
    assert(chunk < layout->chunks);
    uint64_t left = layout->flat_elements - weir_layout_first(layout, chunk);
    return left < layout->chunk_elements ? (uint32_t)left : layout->chunk_elements;
}

uint32_t weir_layout_count(const struct weir_layout *layout, uint32_t server, uint32_t lane)
{
    uint64_t first = (uint64_t)lane * layout->servers + server;
    uint64_t stride = (uint64_t)layout->servers * layout->lanes;
    return first < layout->chunks ? (uint32_t)((layout->chunks - first + stride - 1) / stride) : 0;
}

uint32_t weir_layout_chunk(const struct weir_layout *layout, uint32_t server, uint32_t lane, uint32_t i)
{
    uint32_t chunk = (i * layout->lanes + lane) * layout->servers + server;
    assert(chunk < layout->chunks);
    return chunk;
}

uint32_t weir_layout_host(uint32_t replica, uint32_t replicas, uint32_t workers)
{
    assert(replica < replicas && workers > 0);
    uint32_t hosts = workers < replicas ? workers : replicas;
    return (uint32_t)((uint64_t)replica * hosts / replicas);
}

void weir_layout_hosted(uint32_t worker, uint32_t replicas, uint32_t workers, uint32_t *first, uint32_t *count)
{
    uint32_t hosts = workers < replicas ? workers : replicas;
    *first = *count = 0;
    if (worker >= hosts)
        return;
    /* the r with floor(r * hosts / replicas) == worker: from ceil(worker * replicas / hosts) on */
    uint64_t from = ((uint64_t)worker * replicas + hosts - 1) / hosts;
    uint64_t to = ((uint64_t)(worker + 1) * replicas + hosts - 1) / hosts;
    *first = (uint32_t)from;
    *count = (uint32_t)(to - from);
}
