/* What workers may and must send, by what they have been told: of each server and lane, the first K chunks that are not
 * covered, from the last one down. No more, so that a holder's memory is bounded; no less, so that nothing waits.
 */
#include "sim.h"

static uint32_t bit_of(uint32_t chunk)
{
    return UINT32_C(1) << chunk;
}

/* All chunks of (server, lane), a bit each, as the worker sees it. */
static uint32_t chunks_of(const struct sim *sim, const struct actor *actor, uint32_t server)
{
    uint32_t chunks = 0, lane = actor->lane;
    for (uint32_t c = 0; c < sim->layout.chunks; c++)
        if (holders_of(sim, actor->process, c)->primary == server &&
            c / sim->config.servers % sim->config.lanes == lane)
            chunks |= bit_of(c);
    return chunks;
}

/* The chunks that the worker's lane may have under way to the server. */
static uint32_t allowed(const struct sim *sim, const struct actor *actor, uint32_t server)
{
    uint32_t own = chunks_of(sim, actor, server), window = 0, left = sim->config.credit;
    bool begun = false;
    for (uint32_t c = sim->layout.chunks; c-- > 0 && left > 0;) {
        if (!(own & bit_of(c)))
            continue;
        begun = begun || !(actor->window.covered & bit_of(c));
        window |= begun ? bit_of(c) : 0;
        left -= begun;
    }
    return window;
}

void credit_ready(const struct sim *sim, struct actor *actor, const struct sim_event *event)
{
    struct window *window = &actor->window;
    const struct process *worker = &sim->processes[actor->process];
    if (!window->has_step || event->step > window->step) {
        window->covered = window->sent = 0;
        for (uint32_t c = 0; c < sim->layout.chunks; c++) /* others have brought this worker's part */
            if (window->told[c] == event->step + 1)
                window->covered |= bit_of(c);
        for (uint32_t c = 0; c < sim->layout.chunks; c++)
            for (int parity = 0; parity < 2; parity++)
                if (worker->version[parity][c] != UINT64_MAX && worker->version[parity][c] > event->step)
                    window->covered |= bit_of(c);
    } else if (event->part > window->part) {
        window->sent = 0;
    }
    window->has_step = true;
    window->step = event->step;
    window->part = event->part;
    window->offset = event->offset;
}

void credit_received(const struct sim *sim, struct actor *actor, uint32_t server, const struct weir_message_body *body)
{
    struct window *window = &actor->window;
    if (body->type == WEIR_HELLO) { /* what was under way may be lost */
        window->greeted |= UINT32_C(1) << server;
        window->sent &= ~chunks_of(sim, actor, server);
    } else if (body->type == WEIR_COVERED) {
        if (body->covered.step + 1 > window->told[body->covered.chunk])
            window->told[body->covered.chunk] = body->covered.step + 1;
        if (window->has_step && body->covered.step == window->step)
            window->covered |= bit_of(body->covered.chunk);
    } else if (body->type == WEIR_WEIGHTS && window->has_step && body->weights.version > window->step) {
        window->covered |= bit_of(body->weights.chunk);
    }
}

void credit_closed(struct actor *actor, uint32_t server)
{
    actor->window.greeted &= ~(UINT32_C(1) << server);
}

void credit_sent(struct sim *sim, uint32_t id, uint32_t server, uint32_t chunk)
{
    struct actor *actor = &sim->actors[id];
    if (!(allowed(sim, actor, server) & bit_of(chunk)))
        sim_fail(sim, "credit: %s sends chunk %u, which is not among the first %u that are not covered",
                 sim->processes[actor->process].name, chunk, sim->config.credit);
    actor->window.sent |= bit_of(chunk);
}

void credit_check(struct sim *sim, uint32_t id)
{
    const struct actor *actor = &sim->actors[id];
    const struct window *window = &actor->window;
    for (uint32_t server = 0; server < sim->config.servers; server++) {
        if (!(window->greeted & UINT32_C(1) << server) || actor->slot[server] < 0 || !window->has_step ||
            sim->streams[actor->slot[server]].unsent[0])
            continue;
        uint32_t due = allowed(sim, actor, server) & ~window->covered & ~window->sent;
        for (uint32_t c = 0; c < sim->layout.chunks; c++)
            if (due & bit_of(c) && c * (uint64_t)sim->layout.chunk_elements >= window->offset)
                sim_fail(sim, "credit: %s does not send chunk %u of step %llu, although it may",
                         sim->processes[actor->process].name, c, (unsigned long long)window->step);
    }
}
