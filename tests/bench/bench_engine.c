/* Speed of the chunk engine on one core: bench_engine [SECONDS_PER_CASE].
 *
 * GB/s count each array once for each time that it must be read or written (Adam: 7 x 4 bytes a parameter, SGD: 3 x 4),
 * as if nothing stayed in the cache; the figure is the median over the rounds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/engine.h"

#define CHUNK_ELEMENTS ((size_t)262144)
#define OPERANDS_MAX 8
#define ROUNDS_MAX 2000

enum place { IN_PLACE, NEW_BUFFER, STREAMED };
static const char *const place_names[] = {"in place", "new buffer", "new buffer, past the cache"};

struct bench {
    const char *name;
    struct weir_optimizer_config config;
    double passes; /* arrays read plus arrays written, without the operands */
    size_t parameters;
    size_t operands;
    size_t slice_bytes; /* payloads come in slices of this size; 0: whole */
    enum place place;
};

#define ADAM {.kind = WEIR_OPTIMIZER_ADAM, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7}, 6
#define SGD {.kind = WEIR_OPTIMIZER_SGD}, 2
static const struct bench benches[] = {
    {"Adam", ADAM, 669706, 1, 0, IN_PLACE},     {"Adam", ADAM, 669706, 1, 0, NEW_BUFFER},
    {"Adam", ADAM, 669706, 1, 16375, IN_PLACE}, {"Adam", ADAM, 669706, 2, 16375, IN_PLACE},
    {"Adam", ADAM, 3300000, 1, 0, IN_PLACE},    {"Adam", ADAM, 3300000, 1, 0, STREAMED},
    {"SGD", SGD, 669706, 1, 0, IN_PLACE},       {"SGD", SGD, 669706, 4, 16384, IN_PLACE},
    {"SGD", SGD, 20000000, 1, 0, IN_PLACE},     {"SGD", SGD, 20000000, 1, 0, NEW_BUFFER},
    {"SGD", SGD, 20000000, 1, 0, STREAMED},     {"SGD", SGD, 20000000, 2, 0, STREAMED},
    {"SGD", SGD, 20000000, 4, 16375, STREAMED}, {"SGD", SGD, 20000000, 8, 0, STREAMED},
};

static const int16_t codes[OPERANDS_MAX + 1][2 * OPERANDS_MAX] = {
    [1] = {0},
    [2] = {0, 1, -1},
    [4] = {0, 1, -1, 2, 3, -1, -1},
    [8] = {0, 1, -1, 2, 3, -1, -1, 4, 5, -1, 6, 7, -1, -1, -1},
};

struct state {
    float *weights, *fresh, *slots[WEIR_SLOTS_MAX], *gradients[OPERANDS_MAX];
    struct weir_slice *slices;
};

static void fill(float *out, size_t count, float size)
{
    for (size_t i = 0; i < count; i++)
        out[i] = size * (float)(i % 1000 + 1);
}

static void state_begin(struct state *s, const struct bench *b, size_t slots)
{
    size_t bytes = b->parameters * sizeof(float);
    *s = (struct state){.weights = weir_alloc_tensor(bytes, "weights"), .fresh = weir_alloc_tensor(bytes, "weights")};
    for (size_t i = 0; i < slots; i++)
        s->slots[i] = weir_alloc_tensor(bytes, "slots");
    for (size_t i = 0; i < b->operands; i++) {
        s->gradients[i] = weir_alloc_tensor(bytes, "a gradient");
        fill(s->gradients[i], b->parameters, 1e-5f);
    }
    size_t slice_bytes = b->slice_bytes ? b->slice_bytes : CHUNK_ELEMENTS * sizeof(float);
    s->slices =
        weir_alloc(b->operands * (CHUNK_ELEMENTS * sizeof(float) / slice_bytes + 1), sizeof *s->slices, "slices");
}

static void state_end(struct state *s)
{
    free(s->weights), free(s->fresh), free(s->slices);
    for (size_t i = 0; i < WEIR_SLOTS_MAX; i++)
        free(s->slots[i]);
    for (size_t i = 0; i < OPERANDS_MAX; i++)
        free(s->gradients[i]);
}

static void one_chunk(struct weir_engine *engine, const struct bench *b, struct state *s, size_t first, size_t count)
{
    struct weir_operand operands[OPERANDS_MAX];
    struct weir_slice *slice = s->slices;
    size_t bytes = count * sizeof(float), most = b->slice_bytes ? b->slice_bytes : bytes;
    for (size_t k = 0; k < b->operands; k++) {
        operands[k].slices = slice;
        for (size_t at = 0; at < bytes; at += most)
            *slice++ = (struct weir_slice){(const char *)(s->gradients[k] + first) + at,
                                           bytes - at < most ? bytes - at : most};
        operands[k].slice_count = (size_t)(slice - operands[k].slices);
    }
    struct weir_sum_program sum = {codes[b->operands], 2 * b->operands - 1, operands, b->operands};
    struct weir_update update = {.learning_rate = 1e-3, .iteration = 1000, .scale = 1};
    float *slots[WEIR_SLOTS_MAX] = {NULL};
    for (size_t i = 0; i < weir_engine_slots(engine); i++)
        slots[i] = s->slots[i] + first;
    float *out = (b->place == IN_PLACE ? s->weights : s->fresh) + first;
    weir_engine_apply(engine, &sum, &update, NULL, 0, s->weights + first, out, slots, count, b->place == STREAMED);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_seconds(struct weir_engine *engine, const struct bench *b, struct state *s, double limit_s)
{
    static double seconds[ROUNDS_MAX];
    size_t rounds = 0;
    uint64_t begin = weir_clock_ns();
    do {
        uint64_t from = weir_clock_ns();
        for (size_t first = 0; first < b->parameters; first += CHUNK_ELEMENTS) {
            size_t left = b->parameters - first;
            one_chunk(engine, b, s, first, left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS);
        }
        seconds[rounds++] = (double)(weir_clock_ns() - from) / 1e9;
        float *old = s->weights; /* versions take turns */
        if (b->place != IN_PLACE)
            s->weights = s->fresh, s->fresh = old;
    } while (rounds < ROUNDS_MAX && (double)(weir_clock_ns() - begin) < limit_s * 1e9);
    qsort(seconds, rounds, sizeof *seconds, by_size);
    return seconds[rounds / 2];
}

int main(int argc, char **argv)
{
    char *end = "";
    double limit_s = argc > 1 ? strtod(argv[1], &end) : 1;
    if (*end || !(limit_s > 0)) {
        fprintf(stderr, "bench_engine: the seconds per case must be a number above 0\n");
        return 2;
    }
    printf("%-5s %10s %8s %7s %-27s %9s %6s\n", "", "parameters", "operands", "slices", "", "ms", "GB/s");
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        const struct bench *b = &benches[i];
        struct weir_engine *engine = weir_engine_new(&b->config, WEIR_ISA_BEST);
        struct state s;
        state_begin(&s, b, weir_engine_slots(engine));
        double seconds = median_seconds(engine, b, &s, limit_s);
        double bytes = (b->passes + (double)b->operands) * (double)b->parameters * sizeof(float);
        printf("%-5s %10zu %8zu %7zu %-27s %9.3f %6.1f\n", b->name, b->parameters, b->operands, b->slice_bytes,
               place_names[b->place], seconds * 1e3, bytes / seconds / 1e9);
        state_end(&s);
        weir_engine_free(engine);
    }
    return 0;
}
