/* Messages and payloads on their way: copies, and who still needs them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint64_t payload_new(struct sim *sim, uint64_t value, uint64_t replicas)
{
    uint32_t i;
    if (sim->free_count > 0) {
        i = sim->free_payloads[--sim->free_count];
    } else {
        if (sim->payload_count == sim->payload_room) {
            sim->payload_room = sim->payload_room ? 2 * sim->payload_room : 1024;
            sim->payloads = realloc(sim->payloads, sim->payload_room * sizeof *sim->payloads);
            sim->free_payloads = realloc(sim->free_payloads, sim->payload_room * sizeof *sim->free_payloads);
            assert(sim->payloads && sim->free_payloads);
        }
        i = sim->payload_count++;
    }
    sim->payloads[i] = (struct payload){.refs = 1, .value = value, .replicas = replicas};
    sim->payloads_alive++;
    return i + 1;
}

struct payload *payload_at(struct sim *sim, uint64_t handle)
{
    static struct payload none;
    if (handle == 0 || handle > sim->payload_count || sim->payloads[handle - 1].refs == 0) {
        sim_fail(sim, "a payload is used that was released");
        return &none;
    }
    return &sim->payloads[handle - 1];
}

void payload_release(struct sim *sim, uint64_t handle)
{
    if (handle == 0)
        return;
    struct payload *payload = payload_at(sim, handle);
    if (sim->failed || --payload->refs > 0)
        return;
    sim->free_payloads[sim->free_count++] = (uint32_t)(handle - 1);
    sim->payloads_alive--;
}

static void *copy_of(const void *from, size_t bytes)
{
    if (bytes == 0)
        return NULL;
    void *to = malloc(bytes);
    assert(to);
    return memcpy(to, from, bytes);
}

void parcel_copy(struct parcel *parcel, const struct weir_message_body *body)
{
    *parcel = (struct parcel){.has_body = true, .body = *body};
    switch (body->type) {
    case WEIR_HELLO:
        parcel->held = copy_of(body->hello.held, body->hello.held_count * sizeof(struct weir_held));
        parcel->body.hello.held = parcel->held;
        break;
    case WEIR_RECORD:
        parcel->numbers = copy_of(body->record.norms, body->record.norm_count * sizeof(double));
        parcel->body.record.norms = parcel->numbers;
        break;
    case WEIR_PARTIAL:
        parcel->numbers = copy_of(body->partial.squares, body->partial.square_count * sizeof(double));
        parcel->body.partial.squares = parcel->numbers;
        break;
    case WEIR_VIEW:
        parcel->hosts = copy_of(body->view.hosts, body->view.replicas * sizeof(uint32_t));
        parcel->body.view.hosts = parcel->hosts;
        parcel->nodes = copy_of(body->view.nodes, body->view.node_count * sizeof(struct weir_view_node));
        parcel->body.view.nodes = parcel->nodes;
        parcel->chunks = copy_of(body->view.chunks, body->view.chunk_count * sizeof(struct weir_view_chunk));
        parcel->body.view.chunks = parcel->chunks;
        break;
    default:
        break; /* what is left to point at lives as long as the run */
    }
}

void parcel_free(struct sim *sim, struct parcel *parcel)
{
    free(parcel->numbers);
    free(parcel->held);
    free(parcel->hosts);
    free(parcel->nodes);
    free(parcel->chunks);
    payload_release(sim, parcel->payload);
}
