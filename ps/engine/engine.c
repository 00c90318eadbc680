#include "engine/engine.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/float_mode.h"
#include "engine/optimizer.h"
#include "engine/reader.h"

/* The most elements of a run. Runs end at multiples of their length, so that after a cut they are aligned again. */
#define BUFFER_RUN 1024 /* with partial sums: their buffers stay in the first-level cache */
#define STREAM_RUN 256  /* past the cache: short, so that the stores of one run overlap the loads of the next */
#define DIRECT_RUN 16384

/* A value on the stack of a sum program: an operand's bytes, or one of the engine's buffers. */
struct value {
    const weir_loose_float *at;
    bool buffer;
};

struct weir_engine {
    struct weir_optimizer_config config;
    const struct weir_kernels *kernels;
    weir_update_loop *update;
    struct weir_slot slots[WEIR_SLOTS_MAX];
    size_t slot_count;
    struct weir_reader reader;
    uint64_t copied; /* bytes */
    struct value stack[WEIR_OPERANDS_MAX];
    float *sums; /* sum_count buffers of BUFFER_RUN elements, for the partial sums that are open at one time */
    size_t sum_count;
    float *shaped, *staged; /* a run's gradient after scale and clip; its new weights on the way past the cache */
};

static const struct weir_kernels *choose_kernels(enum weir_isa isa)
{
#ifdef __x86_64__
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (isa >= WEIR_ISA_AVX512 && avx512)
        return &weir_kernels_avx512;
    if (isa >= WEIR_ISA_AVX2 && __builtin_cpu_supports("avx2"))
        return &weir_kernels_avx2;
#endif
    (void)isa;
    return &weir_kernels_plain;
}

struct weir_engine *weir_engine_new(const struct weir_optimizer_config *optimizer, enum weir_isa isa)
{
    struct weir_engine *engine = weir_alloc(1, sizeof *engine, "the engine");
    engine->config = *optimizer;
    engine->kernels = choose_kernels(isa);
    engine->update = weir_optimizer_loop(optimizer, engine->kernels);
    engine->slot_count = weir_optimizer_slots(optimizer, engine->slots);
    engine->shaped = weir_alloc_tensor(BUFFER_RUN * sizeof(float), "the engine's buffers");
    engine->staged = weir_alloc_tensor(BUFFER_RUN * sizeof(float), "the engine's buffers");
    return engine;
}

void weir_engine_free(struct weir_engine *engine)
{
    if (!engine)
        return;
    weir_reader_free(&engine->reader);
    free(engine->sums);
    free(engine->shaped);
    free(engine->staged);
    free(engine);
}

size_t weir_engine_slots(const struct weir_engine *engine)
{
    return engine->slot_count;
}

const char *weir_engine_slot_name(const struct weir_engine *engine, size_t slot)
{
    assert(slot < engine->slot_count);
    return engine->slots[slot].name;
}

float weir_engine_slot_initial(const struct weir_engine *engine, size_t slot)
{
    assert(slot < engine->slot_count);
    return engine->slots[slot].initial;
}

uint64_t weir_engine_copied_bytes(const struct weir_engine *engine, uint64_t *straddled_floats)
{
    *straddled_floats = engine->reader.straddled;
    return engine->copied;
}

/* ---- the sum of one run */

/* The buffers that the first `length` codes need at once. A sum takes the place of the upper buffer among its parts, so
 * buffers are taken and left in the order of a stack. Asserts that each code has what it needs. */
static size_t count_buffers(const struct weir_sum_program *sum, size_t length)
{
    bool is_buffer[WEIR_OPERANDS_MAX];
    size_t depth = 0, used = 0, most = 0;
    assert(sum->operand_count <= WEIR_OPERANDS_MAX);
    for (size_t i = 0; i < length; i++) {
        int16_t code = sum->code[i];
        if (code >= 0) {
            assert((size_t)code < sum->operand_count && depth < WEIR_OPERANDS_MAX);
            is_buffer[depth++] = false;
            continue;
        }
        assert(code == WEIR_SUM_ADD && depth >= 2);
        depth--;
        used = used + 1 - is_buffer[depth - 1] - is_buffer[depth];
        is_buffer[depth - 1] = true;
        most = used > most ? used : most;
    }
    assert(depth == (sum->length > 0) + (sum->length - length));
    return most;
}

/* Makes ready to run the first `length` codes of the program; returns the number of buffers that it needs. */
static size_t open_sum(struct weir_engine *engine, const struct weir_sum_program *sum, size_t length, size_t elements)
{
    size_t needed = count_buffers(sum, length);
    if (sum->length == 0)
        needed = 1; /* for the zeros */
    if (needed > engine->sum_count) {
        free(engine->sums);
        engine->sums = weir_alloc_tensor(needed * BUFFER_RUN * sizeof(float), "the partial sums of the engine");
        engine->sum_count = needed;
    }
    weir_reader_open(&engine->reader, sum->operands, sum->operand_count, elements);
    return needed;
}

/* Runs the first `length` codes on the reader's current run; the results are left on engine->stack. If `out` is given,
 * the last addition of the whole program goes there. */
static void sum_run(struct weir_engine *engine, const struct weir_sum_program *sum, size_t length, size_t run,
                    float *out)
{
    struct value *top = engine->stack; /* the first free place */
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        int16_t code = sum->code[i];
        if (code >= 0) {
            const struct weir_cursor *cursor = &engine->reader.cursors[code];
            engine->copied += weir_cursor_copied(cursor, run);
            *top++ = (struct value){cursor->at, false};
            continue;
        }
        struct value *a = top - 2, *b = top - 1;
        used = used + 1 - a->buffer - b->buffer;
        bool last = i + 1 == sum->length;
        float *to = last && out ? out : engine->sums + (used - 1) * BUFFER_RUN;
        engine->kernels->add(to, a->at, b->at, run);
        *a = (struct value){to, true};
        top--;
    }
    if (sum->length == 0)
        *top = (struct value){memset(engine->sums, 0, run * sizeof(float)), true};
}

/* ---- apply */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Where the run that begins `at` must end. */
static size_t run_end(size_t at, size_t most, size_t elements)
{
    return smaller((at / most + 1) * most, elements);
}

/* The pieces of a chunk, read along with it. */
struct walk {
    const struct weir_piece *piece, *end;
    const double *variable_scale;
};

/* The factor of the element `at`, and in *end (only ever lowered) how far it holds. Padding has the factor 1. */
static float walk_factor(struct walk *walk, size_t at, size_t *end)
{
    if (!walk->variable_scale)
        return 1;
    while (walk->piece < walk->end && at >= (size_t)walk->piece->first + walk->piece->count)
        walk->piece++;
    if (walk->piece == walk->end)
        return 1;
    size_t first = walk->piece->first;
    if (at < first) {
        *end = smaller(*end, first);
        return 1;
    }
    *end = smaller(*end, first + walk->piece->count);
    return (float)walk->variable_scale[walk->piece->variable];
}

static float clip_limit(const struct weir_engine *engine)
{
    return engine->config.clipvalue > 0 ? (float)engine->config.clipvalue : INFINITY;
}

/* An apply under way. */
struct pass {
    const struct weir_sum_program *sum;
    size_t sum_length; /* without the last addition where the update loop does that itself */
    size_t most;       /* elements of a run */
    float scale;
    bool shape; /* scale, factors or clipvalue change the gradient */
    struct weir_step step;
    struct walk walk;
};

static struct pass open_pass(struct weir_engine *engine, const struct weir_sum_program *sum,
                             const struct weir_update *update, size_t elements, bool stream)
{
    struct pass pass = {.sum = sum, .sum_length = sum->length, .scale = (float)update->scale};
    pass.step = weir_optimizer_step(&engine->config, update);
    pass.walk.variable_scale = update->variable_scale;
    pass.shape = pass.scale != 1 || update->variable_scale || isfinite(clip_limit(engine));
    if (!pass.shape && sum->length > 1) {
        assert(sum->code[sum->length - 1] == WEIR_SUM_ADD);
        pass.sum_length--;
    }
    size_t buffers = open_sum(engine, sum, pass.sum_length, elements);
    pass.most = stream ? STREAM_RUN : buffers || pass.shape ? BUFFER_RUN : DIRECT_RUN;
    return pass;
}

/* Sums the current run and points `rows` at its gradient. */
static void gradient_run(struct weir_engine *engine, const struct pass *pass, float factor, struct weir_rows *rows)
{
    sum_run(engine, pass->sum, pass->sum_length, rows->count, NULL);
    rows->gradient = engine->stack[0].at;
    rows->addend = pass->sum_length < pass->sum->length ? engine->stack[1].at : NULL;
    if (pass->shape) {
        engine->kernels->shape(engine->shaped, rows->gradient, pass->scale, factor, clip_limit(engine), rows->count);
        rows->gradient = engine->shaped;
    }
}

void weir_engine_apply(struct weir_engine *engine, const struct weir_sum_program *sum, const struct weir_update *update,
                       const struct weir_piece *pieces, size_t piece_count, const float *weights_in, float *weights_out,
                       float *const slots[], size_t elements, bool stream)
{
    weir_float_mode saved = weir_float_mode_enter();
    struct pass pass = open_pass(engine, sum, update, elements, stream);
    pass.walk.piece = pieces;
    pass.walk.end = pieces + piece_count;
    for (size_t at = 0, run; at < elements; at += run) {
        size_t end = run_end(at, pass.most, elements);
        float factor = walk_factor(&pass.walk, at, &end);
        run = weir_reader_next(&engine->reader, end - at);
        struct weir_rows rows = {
            .weights_in = weights_in + at, .weights_out = stream ? engine->staged : weights_out + at, .count = run};
        gradient_run(engine, &pass, factor, &rows);
        for (size_t s = 0; s < engine->slot_count; s++)
            rows.slots[s] = slots[s] + at;
        engine->update(&pass.step, &rows);
        if (stream)
            engine->kernels->stream(weights_out + at, engine->staged, run);
    }
    if (stream)
        weir_stores_fence();
    weir_float_mode_leave(saved);
}

/* ---- the gated path */

static void sum_range(struct weir_engine *engine, const struct weir_sum_program *sum, float *out, size_t at, size_t end)
{
    for (size_t run; at < end; at += run) {
        run = weir_reader_next(&engine->reader, run_end(at, BUFFER_RUN, end) - at);
        sum_run(engine, sum, sum->length, run, out + at);
        const void *result = engine->stack[0].at;
        if (result != (const void *)(out + at))
            memcpy(out + at, result, run * sizeof *out);
    }
}

void weir_engine_sum(struct weir_engine *engine, const struct weir_sum_program *sum, const struct weir_piece *pieces,
                     size_t piece_count, float *out, double *squares, size_t elements)
{
    weir_float_mode saved = weir_float_mode_enter();
    open_sum(engine, sum, sum->length, elements);
    size_t at = 0;
    for (size_t p = 0; p < piece_count; p++) {
        size_t end = (size_t)pieces[p].first + pieces[p].count;
        assert(pieces[p].first >= at && end <= elements);
        sum_range(engine, sum, out, at, end);
        squares[p] = engine->kernels->squares(out + pieces[p].first, pieces[p].count); /* still in the cache */
        at = end;
    }
    sum_range(engine, sum, out, at, elements);
    weir_float_mode_leave(saved);
}
