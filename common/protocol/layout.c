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

uint32_t weir_layout_count(const struct weir_layout *layout, uint32_t lane)
{
    uint64_t first = (uint64_t)lane * layout->servers, block = (uint64_t)layout->servers * layout->lanes;
    uint64_t whole = layout->chunks / block, rest = layout->chunks % block;
    uint64_t more = rest <= first ? 0 : rest - first;
    return (uint32_t)(whole * layout->servers + (more < layout->servers ? more : layout->servers));
}

uint32_t weir_layout_chunk(const struct weir_layout *layout, uint32_t lane, uint32_t i)
{
    uint32_t chunk = (i / layout->servers * layout->lanes + lane) * layout->servers + i % layout->servers;
    assert(chunk < layout->chunks);
    return chunk;
}

void weir_layout_hold(const struct weir_layout *layout, uint32_t copies, struct weir_view_chunk *chunks,
                      struct weir_view_chunk *record)
{
    bool two = copies > 1 && layout->servers > 1;
    struct weir_view_chunk holders = {.filling = WEIR_NO_SERVER, .chain = {.term = 1, .count = 1}};
    for (uint32_t c = 0; c < layout->chunks; c++) {
        holders.primary = weir_layout_server(layout, c);
        holders.lane = weir_layout_lane(layout, c);
        /* Not always the next one: whoever is lost, all others get a like share of what it led. */
        uint32_t step = two ? 1 + c / layout->servers % (layout->servers - 1) : 0;
        holders.standby = two ? (holders.primary + step) % layout->servers : WEIR_NO_SERVER;
        chunks[c] = holders;
    }
    *record = (struct weir_view_chunk){
        .standby = two ? 1 : WEIR_NO_SERVER, .filling = WEIR_NO_SERVER, .chain = {.term = 1, .count = 1}};
}

void weir_layout_place(uint32_t *hosts, uint32_t replicas, const bool *present, uint32_t workers)
{
    uint32_t there = 0;
    for (uint32_t w = 0; w < workers; w++)
        there += present[w];
    uint32_t used = there < replicas ? there : replicas, worker = 0;
    for (uint32_t r = 0, place = 0; r < replicas; r++) { /* `worker`: the one that has `place` */
        hosts[r] = WEIR_NO_HOST;
        if (used == 0)
            continue;
        uint32_t of_r = (uint32_t)((uint64_t)r * used / replicas);
        for (; place < of_r; place++)
            worker++;
        while (!present[worker])
            worker++;
        hosts[r] = worker;
    }
}

uint32_t weir_layout_hosted(const uint32_t *hosts, uint32_t replicas, uint32_t worker)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < replicas; r++)
        count += hosts[r] == worker;
    return count;
}
