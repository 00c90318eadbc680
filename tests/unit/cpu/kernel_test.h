/* What the tests of the CPU kernels share: random arrays that end where their memory does, outputs between guards, and
 * the instruction sets to try. */
#ifndef WEIR_TESTS_KERNEL_TEST_H
#define WEIR_TESTS_KERNEL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "cpu/isa.h"

#define GUARD 32 /* floats on both sides of an output */
#define GUARD_VALUE 12345.0f

struct draw {
    uint64_t seed, next;
};

static inline uint32_t draw_word(struct draw *draw)
{
    uint32_t out[4];
    weir_random_block(weir_random_key(draw->seed, WEIR_RANDOM_TEST, 0, 0), draw->next++, 0, out);
    return out[0];
}

/* least .. most */
static inline size_t draw_size(struct draw *draw, size_t least, size_t most)
{
    return least + draw_word(draw) % (most - least + 1);
}

/* `count` floats in [-1, 1), `offset` bytes behind a multiple of 64, with nothing allocated behind the last, so that
 * the address sanitizer sees a read too far. Free `memory`. */
struct input {
    void *memory;
    float *at;
};

static inline struct input input_new(struct draw *draw, size_t count, size_t offset)
{
    struct input input;
    if (posix_memalign(&input.memory, 64, offset + count * sizeof(float) + !count))
        abort();
    input.at = (float *)(void *)((char *)input.memory + offset);
    uint32_t word[4] = {0};
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            weir_random_block(weir_random_key(draw->seed, WEIR_RANDOM_TEST, 1, 0), draw->next++, 0, word);
        input.at[i] = 2 * weir_random_unit(word[i % 4]) - 1;
    }
    return input;
}

struct output {
    float *memory, *at;
    size_t count;
};

static inline struct output output_new(size_t count, size_t offset)
{
    struct output output = {.count = count};
    size_t floats = count + 2 * GUARD + 16;
    output.memory = weir_alloc_tensor(floats * sizeof(float), "a test's output");
    for (size_t i = 0; i < floats; i++)
        output.memory[i] = GUARD_VALUE;
    output.at = output.memory + GUARD + offset / sizeof(float);
    return output;
}

static inline void output_check_guards(const struct output *output)
{
    for (size_t i = 1; i <= GUARD; i++) {
        assert_true(output->at[-(ptrdiff_t)i] == GUARD_VALUE);
        assert_true(output->at[output->count + i - 1] == GUARD_VALUE);
    }
}

static inline void output_free(struct output *output)
{
    output_check_guards(output);
    free(output->memory);
}

/* Runs `test` once for each instruction set that this processor has. */
static inline void on_every_isa(void (*test)(enum weir_isa isa))
{
    const enum weir_isa all[] = {WEIR_ISA_PLAIN, WEIR_ISA_AVX2, WEIR_ISA_AVX512};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (weir_cpu_isa_set(all[i]))
            test(all[i]);
        else
            print_message("skipped: this processor lacks instruction set %zu\n", i);
}

#endif
