/* Payloads cut anywhere, sums of any shape, and every instruction set: the bits are those of the plain way. */
#include "fixture.h"

#include <math.h>

#include "engine/reader.h"

#define MOST 5000 /* more than a few runs of the engine */
#define GUARD 64

static const enum weir_isa isas[] = {WEIR_ISA_PLAIN, WEIR_ISA_AVX2, WEIR_ISA_AVX512, WEIR_ISA_BEST};
#define ISAS (sizeof isas / sizeof *isas)

/* The state of a chunk between guard bytes, at an offset of `shift` floats from a cache line. */
struct chunk {
    float *memory;
    float *weights_in, *weights_out, *slots[WEIR_SLOTS_MAX];
    size_t elements;
};

static void chunk_begin(struct chunk *chunk, size_t elements, size_t shift, uint32_t which)
{
    size_t row = elements + 2 * GUARD;
    struct source source = source_new(which);
    chunk->elements = elements;
    chunk->memory = weir_alloc_tensor((5 * row + shift) * sizeof(float), "a test's chunk");
    memset(chunk->memory, 0x5A, (5 * row + shift) * sizeof(float));
    float **rows[] = {&chunk->weights_in, &chunk->weights_out, &chunk->slots[0], &chunk->slots[1], &chunk->slots[2]};
    for (size_t r = 0; r < 5; r++) {
        *rows[r] = chunk->memory + r * row + GUARD + shift;
        for (size_t i = 0; i < elements; i++)
            (*rows[r])[i] = r < 2 ? source_symmetric(&source) : weir_random_unit(source_word(&source));
    }
}

static void assert_guards(const struct chunk *chunk)
{
    const float *rows[] = {chunk->weights_in, chunk->weights_out, chunk->slots[0], chunk->slots[1], chunk->slots[2]};
    unsigned char guard[GUARD * sizeof(float)];
    memset(guard, 0x5A, sizeof guard);
    for (size_t r = 0; r < 5; r++) {
        assert_memory_equal(rows[r] - GUARD, guard, sizeof guard);
        assert_memory_equal(rows[r] + chunk->elements, guard, r < 4 ? sizeof guard : sizeof guard / 2);
    }
}

static void assert_same_state(const struct chunk *a, const struct chunk *b)
{
    assert_memory_equal(a->weights_out, b->weights_out, a->elements * sizeof(float));
    for (size_t s = 0; s < WEIR_SLOTS_MAX; s++)
        assert_memory_equal(a->slots[s], b->slots[s], a->elements * sizeof(float));
}

static void apply(const struct weir_optimizer_config *config, enum weir_isa isa, const struct weir_sum_program *sum,
                  struct chunk *chunk, bool stream)
{
    struct weir_engine *engine = weir_engine_new(config, isa);
    weir_engine_apply(engine, sum, &plain_update, NULL, 0, chunk->weights_in, chunk->weights_out, chunk->slots,
                      chunk->elements, stream);
    uint64_t straddled;
    assert_int_equal(weir_engine_copied_bytes(engine, &straddled), 0);
    weir_engine_free(engine);
}

/* The states after one apply of each instruction set, of a sum of one or two operands at any address. */
static void compare_isas(const struct weir_optimizer_config *config, const float *gradient, size_t elements,
                         size_t operand_count)
{
    static const int16_t code[] = {0, 1, WEIR_SUM_ADD};
    static unsigned char bytes[2][4 * 101 + 8];
    struct chunk first, other;
    struct whole wholes[2];
    struct weir_operand operands[2];
    for (size_t k = 0; k < 2; k++) {
        unsigned char *at = bytes[k] + elements * (k + 1) % 8;
        memcpy(at, gradient, elements * sizeof(float));
        operands[k] = *whole_set(&wholes[k], at, elements);
    }
    struct weir_sum_program sum = {code, 2 * operand_count - 1, operands, operand_count};
    chunk_begin(&first, elements, 0, 21);
    apply(config, WEIR_ISA_PLAIN, &sum, &first, false);
    for (size_t k = 1; k < ISAS; k++) {
        chunk_begin(&other, elements, elements % 16, 21);
        apply(config, isas[k], &sum, &other, false);
        assert_same_state(&first, &other);
        assert_guards(&other);
        free(other.memory);
    }
    free(first.memory);
}

static void all_instruction_sets_give_equal_bits(void **state)
{
    (void)state;
    float gradient[100];
    struct source source = source_new(20);
    source_fill(&source, gradient, 100);
    gradient[17] = NAN, gradient[33] = INFINITY, gradient[64] = -0.0f, gradient[65] = 1e-42f;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (size_t elements = 1; elements <= 100; elements++)
            for (size_t operands = 1; operands <= 2; operands++)
                compare_isas(&all_optimizers[o], gradient, elements, operands);
}

static void streaming_and_in_place_give_the_bits_of_the_plain_way(void **state)
{
    (void)state;
    static float gradient[MOST];
    struct source source = source_new(22);
    source_fill(&source, gradient, MOST);
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (size_t k = 0; k < ISAS; k++)
            for (size_t shift = 0; shift < 16; shift += 5) {
                struct chunk apart, past, same;
                struct whole whole;
                size_t elements = shift ? MOST - shift : 3;
                struct weir_sum_program sum = program_of_one(whole_set(&whole, gradient, elements));
                chunk_begin(&apart, elements, shift, 23);
                chunk_begin(&past, elements, shift, 23);
                chunk_begin(&same, elements, shift, 23);
                apply(&all_optimizers[o], isas[k], &sum, &apart, false);
                apply(&all_optimizers[o], isas[k], &sum, &past, true);
                same.weights_out = same.weights_in;
                apply(&all_optimizers[o], isas[k], &sum, &same, false);
                assert_same_state(&apart, &past);
                assert_same_state(&apart, &same);
                assert_guards(&past);
                free(apart.memory), free(past.memory), free(same.memory);
            }
}

/* ---- cuts */

/* Copies `elements` floats into slices of their own memory, so that a read past a slice's end is seen by the address
 * sanitizer; `cuts` are byte positions in order. */
struct sliced {
    struct weir_slice slices[64];
    struct weir_operand operand;
    size_t straddled;
};

static void sliced_make(struct sliced *sliced, const float *payload, size_t elements, const size_t *cuts, size_t count)
{
    size_t at = 0, bytes = elements * sizeof(float), last = SIZE_MAX;
    sliced->straddled = 0;
    for (size_t c = 0; c <= count; c++) {
        size_t end = c < count ? cuts[c] : bytes;
        unsigned char *copy = weir_alloc(1, end - at, "a test's slice");
        memcpy(copy, (const unsigned char *)payload + at, end - at);
        sliced->slices[c] = (struct weir_slice){copy, end - at};
        if (end % sizeof(float) && end / sizeof(float) != last) {
            last = end / sizeof(float);
            sliced->straddled++;
        }
        at = end;
    }
    sliced->operand = (struct weir_operand){sliced->slices, count + 1};
}

static void sliced_free(struct sliced *sliced)
{
    for (size_t i = 0; i < sliced->operand.slice_count; i++)
        free((void *)(uintptr_t)sliced->slices[i].bytes);
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static const struct weir_optimizer_config *const adam = &all_optimizers[6];

/* Applies the sum, and takes it alone as the gated path does: neither copies anything but floats that straddle. */
static void apply_counting(const struct weir_sum_program *sum, struct chunk *chunk, uint64_t straddled)
{
    uint64_t counted;
    struct weir_engine *engine = weir_engine_new(adam, WEIR_ISA_BEST);
    weir_engine_apply(engine, sum, &plain_update, NULL, 0, chunk->weights_in, chunk->weights_out, chunk->slots,
                      chunk->elements, false);
    assert_int_equal(weir_engine_copied_bytes(engine, &counted), 0);
    assert_int_equal(counted, straddled);
    float *out = weir_alloc_tensor(chunk->elements * sizeof *out, "a test's sum");
    double square;
    const struct weir_piece piece = {0, 0, (uint32_t)chunk->elements};
    weir_engine_sum(engine, sum, &piece, 1, out, &square, chunk->elements);
    assert_int_equal(weir_engine_copied_bytes(engine, &counted), 0);
    assert_int_equal(counted, 2 * straddled);
    free(out);
    weir_engine_free(engine);
}

/* The run would be counted if it lay there. */
static void assert_counted_at(struct weir_cursor cursor, const unsigned char *at, size_t run)
{
    cursor.at = (const weir_loose_float *)(const void *)at;
    assert_int_equal(weir_cursor_copied(&cursor, run), run * sizeof(float));
}

/* What a reader would be caught at that copied its runs, to align them or to join slices. */
static void a_run_that_does_not_lie_in_its_slice_is_counted(void **state)
{
    (void)state;
    enum { ELEMENTS = 12, BYTES = ELEMENTS * 4 };
    static const unsigned char memory[BYTES + 16], other[BYTES];
    for (size_t shift = 4; shift < 8; shift++) /* also slices that are not aligned */
        for (size_t cut = 0; cut <= BYTES; cut++) {
            const unsigned char *bytes = memory + shift;
            const struct weir_slice slices[] = {{bytes, cut}, {bytes + cut, BYTES - cut}};
            const struct weir_operand operand = {slices, 2};
            struct weir_reader reader = {0};
            weir_reader_open(&reader, &operand, 1, ELEMENTS);
            for (size_t at = 0, run; at < ELEMENTS; at += run) {
                run = weir_reader_next(&reader, ELEMENTS - at);
                const struct weir_cursor *cursor = &reader.cursors[0];
                const unsigned char *begin = cursor->slice->bytes, *end = begin + cursor->slice->count;
                assert_int_equal(weir_cursor_copied(cursor, run), 0);
                assert_counted_at(*cursor, other, run);
                assert_counted_at(*cursor, begin - 1, run);
                assert_counted_at(*cursor, end - run * sizeof(float) + 1, run);
            }
            weir_reader_free(&reader);
        }
}

static void a_payload_may_be_cut_at_any_two_bytes(void **state)
{
    (void)state;
    enum { ELEMENTS = 12, BYTES = ELEMENTS * 4 };
    float payload[ELEMENTS];
    struct source source = source_new(30);
    source_fill(&source, payload, ELEMENTS);
    struct chunk expected;
    struct whole whole;
    struct weir_sum_program plain = program_of_one(whole_set(&whole, payload, ELEMENTS));
    chunk_begin(&expected, ELEMENTS, 0, 31);
    apply_counting(&plain, &expected, 0);
    for (size_t a = 0; a <= BYTES; a++)
        for (size_t b = a; b <= BYTES; b++) {
            struct sliced sliced;
            struct chunk chunk;
            const size_t cuts[] = {a, b};
            sliced_make(&sliced, payload, ELEMENTS, cuts, 2);
            struct weir_sum_program sum = program_of_one(&sliced.operand);
            chunk_begin(&chunk, ELEMENTS, 0, 31);
            apply_counting(&sum, &chunk, sliced.straddled);
            assert_same_state(&expected, &chunk);
            free(chunk.memory);
            sliced_free(&sliced);
        }
    free(expected.memory);
}

static void a_payload_may_come_byte_by_byte(void **state)
{
    (void)state;
    float payload[15];
    size_t cuts[59];
    struct source source = source_new(32);
    source_fill(&source, payload, 15);
    for (size_t i = 0; i < 59; i++)
        cuts[i] = i + 1;
    struct sliced sliced;
    struct chunk expected, chunk;
    struct whole whole;
    sliced_make(&sliced, payload, 15, cuts, 59);
    struct weir_sum_program plain = program_of_one(whole_set(&whole, payload, 15));
    struct weir_sum_program sum = program_of_one(&sliced.operand);
    chunk_begin(&expected, 15, 0, 33);
    chunk_begin(&chunk, 15, 0, 33);
    apply_counting(&plain, &expected, 0);
    apply_counting(&sum, &chunk, 15);
    assert_same_state(&expected, &chunk);
    free(expected.memory), free(chunk.memory);
    sliced_free(&sliced);
}

static void operands_may_be_cut_each_at_its_own_places(void **state)
{
    (void)state;
    static float payload[4][MOST];
    static const int16_t code[] = {0, 1, WEIR_SUM_ADD, 2, 3, WEIR_SUM_ADD, WEIR_SUM_ADD};
    struct source source = source_new(34);
    for (size_t k = 0; k < 4; k++)
        source_fill(&source, payload[k], MOST);
    for (int round = 0; round < 100; round++) {
        size_t elements = 1 + source_below(&source, MOST);
        struct whole wholes[4];
        struct sliced sliced[4];
        struct weir_operand plain_operands[4], operands[4];
        uint64_t straddled = 0;
        for (size_t k = 0; k < 4; k++) {
            size_t cuts[63], count = source_below(&source, 64);
            for (size_t c = 0; c < count; c++)
                cuts[c] = source_below(&source, (uint32_t)elements * 4 + 1);
            qsort(cuts, count, sizeof *cuts, by_size);
            plain_operands[k] = *whole_set(&wholes[k], payload[k], elements);
            sliced_make(&sliced[k], payload[k], elements, cuts, count);
            operands[k] = sliced[k].operand;
            straddled += sliced[k].straddled;
        }
        struct weir_sum_program plain = {code, 7, plain_operands, 4}, sum = {code, 7, operands, 4};
        struct chunk expected, chunk;
        chunk_begin(&expected, elements, 0, 35);
        chunk_begin(&chunk, elements, 0, 35);
        apply_counting(&plain, &expected, 0);
        apply_counting(&sum, &chunk, straddled);
        assert_same_state(&expected, &chunk);
        assert_guards(&chunk);
        free(expected.memory), free(chunk.memory);
        for (size_t k = 0; k < 4; k++)
            sliced_free(&sliced[k]);
    }
}

static void denormals_are_flushed_whatever_the_callers_mode(void **state)
{
    (void)state;
    struct weir_engine *engine =
        weir_engine_new(&(struct weir_optimizer_config){.kind = WEIR_OPTIMIZER_SGD}, WEIR_ISA_BEST);
    const float gradient[] = {1e-38f, 1e-41f}, weights[] = {0, 0};
    float out[2];
    struct whole whole;
    struct weir_sum_program sum = program_of_one(whole_set(&whole, gradient, 2));
    weir_engine_apply(engine, &sum, &plain_update, NULL, 0, weights, out, NULL, 2, false);
    assert_true(out[0] == 0 && out[1] == 0);
    volatile float tiny = 1e-38f;
    assert_true(tiny * 0.01f != 0); /* the caller's own mode is back */
    weir_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_instruction_sets_give_equal_bits),
        cmocka_unit_test(streaming_and_in_place_give_the_bits_of_the_plain_way),
        cmocka_unit_test(a_run_that_does_not_lie_in_its_slice_is_counted),
        cmocka_unit_test(a_payload_may_be_cut_at_any_two_bytes),
        cmocka_unit_test(a_payload_may_come_byte_by_byte),
        cmocka_unit_test(operands_may_be_cut_each_at_its_own_places),
        cmocka_unit_test(denormals_are_flushed_whatever_the_callers_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
