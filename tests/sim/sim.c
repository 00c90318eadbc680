/* Virtual clock, heap of what is to happen, and chance. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t sim_random(struct sim *sim)
{
    return mix(sim->rng += UINT64_C(0x9E3779B97F4A7C15));
}

uint32_t sim_below(struct sim *sim, uint32_t n)
{
    return (uint32_t)((sim_random(sim) >> 32) * n >> 32);
}

uint64_t sim_delay(struct sim *sim)
{
    if (sim->config.fixed)
        return MS;
    uint64_t delay = 1000 + sim_random(sim) % sim->config.delay_max_ns;
    return sim_below(sim, 50) == 0 ? delay * 20 : delay; /* now and then a slow one */
}

uint64_t sim_hash(uint64_t a, uint64_t b, uint64_t c)
{
    return mix(mix(mix(a + UINT64_C(0x9E3779B97F4A7C15)) ^ b) ^ (c * UINT64_C(0xD6E8FEB86659FD93)));
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    if (sim->failed)
        return; /* the first is the cause */
    sim->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, args);
    va_end(args);
}

void sim_say(struct sim *sim, const char *format, ...)
{
    if (!sim->trace)
        return;
    fprintf(sim->trace, "%9.3f  ", (double)sim->now / 1e6);
    va_list args;
    va_start(args, format);
    vfprintf(sim->trace, format, args);
    va_end(args);
    fputc('\n', sim->trace);
}

static bool before(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void *grow(void *list, uint32_t *room, size_t size)
{
    *room = *room ? 2 * *room : 1024;
    list = realloc(list, *room * size);
    assert(list);
    return list;
}

struct sim_event *sim_schedule(struct sim *sim, uint64_t at, enum sim_event_kind kind)
{
    if (sim->heap_count == sim->heap_room)
        sim->heap = grow(sim->heap, &sim->heap_room, sizeof *sim->heap);
    struct sim_event *event = sim->spare_count ? sim->spare[--sim->spare_count] : malloc(sizeof *event);
    assert(event);
    *event = (struct sim_event){.kind = kind};
    struct heap_entry key = {at, sim->order++, event};
    uint32_t i = sim->heap_count++;
    while (i > 0 && before(&key, &sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = key;
    return event;
}

struct sim_event *sim_next(struct sim *sim)
{
    if (sim->heap_count == 0)
        return NULL;
    struct heap_entry first = sim->heap[0], last = sim->heap[--sim->heap_count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= sim->heap_count)
            break;
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!before(&sim->heap[child], &last))
            break;
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    sim->heap[i] = last;
    sim->now = first.at;
    return first.event;
}

void sim_done(struct sim *sim, struct sim_event *event)
{
    parcel_free(sim, &event->parcel);
    if (sim->spare_count == sim->spare_room)
        sim->spare = grow(sim->spare, &sim->spare_room, sizeof(struct sim_event *));
    sim->spare[sim->spare_count++] = event;
}

void sim_free_heap(struct sim *sim)
{
    while (sim->spare_count)
        free(sim->spare[--sim->spare_count]);
    free(sim->spare);
    free(sim->heap);
}
