/* The order in which a job reads a data set. */
#include "data/data.h"

#include <assert.h>

#include "base/random.h"

#define FEISTEL_ROUNDS 8 /* of struct weir_permutation's keys */

/* ---- the permutation */

void weir_permutation_init(struct weir_permutation *permutation, uint64_t n, uint64_t seed, uint64_t epoch)
{
    assert(n > 0);
    uint32_t half_bits = 1;
    while (half_bits < 32 && (n - 1) >> (2 * half_bits) != 0)
        half_bits++;
    *permutation = (struct weir_permutation){
        .n = n,
        .mask = (UINT64_C(1) << half_bits) - 1,
        .half_bits = half_bits,
    };
    struct weir_random_key key = weir_random_key(seed, WEIR_RANDOM_SHUFFLE, (uint32_t)epoch, epoch >> 32);
    for (uint32_t i = 0; i < FEISTEL_ROUNDS / 4; i++)
        weir_random_block(key, i, 0, permutation->round_key + 4 * i);
}

/* The finalizer of MurmurHash3 (Appleby): every bit of the result depends on every bit of the word. */
static uint32_t mix(uint32_t word)
{
    word ^= word >> 16;
    word *= 0x85EBCA6Bu;
    word ^= word >> 13;
    word *= 0xC2B2AE35u;
    return word ^ word >> 16;
}

static uint64_t feistel(const struct weir_permutation *permutation, uint64_t i)
{
    uint64_t left = i >> permutation->half_bits, right = i & permutation->mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round++) {
        uint64_t next = left ^ (mix((uint32_t)right ^ permutation->round_key[round]) & permutation->mask);
        left = right;
        right = next;
    }
    return left << permutation->half_bits | right;
}

uint64_t weir_permutation_at(const struct weir_permutation *permutation, uint64_t i)
{
    assert(i < permutation->n);
    do /* the cycle that i lies on comes back to i, so it comes back below n */
        i = feistel(permutation, i);
    while (i >= permutation->n);
    return i;
}

/* ---- the walk */

uint32_t weir_walk_steps(uint64_t samples, uint32_t batch_size, bool drop_remainder)
{
    assert(batch_size > 0);
    uint64_t steps = samples / batch_size + (!drop_remainder && samples % batch_size != 0);
    return steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps;
}

static bool wraps(const struct weir_walk *walk)
{
    return walk->steps_per_epoch > weir_walk_steps(walk->samples, walk->batch_size, false);
}

uint32_t weir_walk_batch(const struct weir_walk *walk, uint64_t step)
{
    assert(walk->samples > 0 && walk->steps_per_epoch > 0);
    uint64_t position = step % walk->steps_per_epoch * walk->batch_size;
    if (wraps(walk) || walk->samples - position >= walk->batch_size)
        return walk->batch_size;
    return (uint32_t)(walk->samples - position);
}

uint64_t weir_walk_epoch_samples(const struct weir_walk *walk)
{
    uint64_t full = walk->steps_per_epoch - 1;
    return full * walk->batch_size + weir_walk_batch(walk, full);
}

void weir_walk_replica(const struct weir_walk *walk, uint32_t batch, uint32_t replica, uint32_t *first, uint32_t *count)
{
    assert(replica < walk->replicas);
    uint64_t begin = (uint64_t)replica * batch / walk->replicas;
    uint64_t end = ((uint64_t)replica + 1) * batch / walk->replicas;
    *first = (uint32_t)begin;
    *count = (uint32_t)(end - begin);
}

/* Every pass over the data has an order of its own: a pass within an epoch counts in the upper half of the epoch's
 * number, where no epoch comes to. */
void weir_walk_indices(const struct weir_walk *walk, uint64_t step, uint32_t first, uint32_t count, uint64_t *index)
{
    uint64_t epoch = step / walk->steps_per_epoch;
    uint64_t position = step % walk->steps_per_epoch * walk->batch_size + first;
    uint64_t pass = UINT64_MAX;
    struct weir_permutation order = {0};
    assert((uint64_t)first + count <= weir_walk_batch(walk, step));
    for (uint32_t i = 0; i < count; i++, position++) {
        uint64_t sample = position % walk->samples;
        if (walk->shuffle && position / walk->samples != pass) {
            pass = position / walk->samples;
            weir_permutation_init(&order, walk->samples, walk->seed, (uint32_t)epoch | pass << 32);
        }
        index[i] = walk->shuffle ? weir_permutation_at(&order, sample) : sample;
    }
}
