#include "base/random.h"

#define ROUNDS 10

static void philox_round(uint32_t ctr[4], const uint32_t key[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53u * ctr[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * ctr[2];
    uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ ctr[1] ^ key[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ ctr[3] ^ key[1],
                        (uint32_t)p0};
    for (int i = 0; i < 4; i++)
        ctr[i] = next[i];
}

void weir_random_block(struct weir_random_key key, uint64_t low, uint64_t high, uint32_t out[4])
{
    uint32_t ctr[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
    for (int i = 0; i < ROUNDS; i++) {
        philox_round(ctr, key.word);
        key.word[0] += 0x9E3779B9u;
        key.word[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = ctr[i];
}

struct weir_random_key weir_random_key(uint64_t seed, enum weir_random_purpose purpose, uint32_t a, uint64_t b)
{
    struct weir_random_key seed_key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    uint32_t out[4];
    weir_random_block(seed_key, (uint64_t)purpose << 32 | a, b, out);
    return (struct weir_random_key){{out[0], out[1]}};
}
