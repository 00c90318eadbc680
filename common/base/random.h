/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011). A number is a pure function of (key, counter), so any process can make any of them, in any
 * order, and get the same bits.
 */
#ifndef WEIR_BASE_RANDOM_H
#define WEIR_BASE_RANDOM_H

#include <stdint.h>

/* What a stream of numbers is for: streams with different purposes never meet. */
enum weir_random_purpose {
    WEIR_RANDOM_INIT = 1,    /* a = variable, counter = element / 4 */
    WEIR_RANDOM_SHUFFLE = 2, /* a = epoch */
    WEIR_RANDOM_DROPOUT = 3, /* a = layer, b = step; counter = (sample of the global batch, element / 4) */
    WEIR_RANDOM_TEST = 4,
    WEIR_RANDOM_CHAOS = 5, /* a = what is chosen, b = which fault */
};

struct weir_random_key {
    uint32_t word[2];
};

/* The key of the stream (seed, purpose, a, b): Philox itself mixes them. */
struct weir_random_key weir_random_key(uint64_t seed, enum weir_random_purpose purpose, uint32_t a, uint64_t b);

/* Four words for the 128-bit counter (low, high). */
void weir_random_block(struct weir_random_key key, uint64_t low, uint64_t high, uint32_t out[4]);

/* [0, 1): the upper 24 bits of a word. */
static inline float weir_random_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
