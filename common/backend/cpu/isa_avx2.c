/* The kernels for AVX2 with FMA. */
#include "cpu/isa_ops.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#define NAME "avx2"
#define LANES 8
#define ROWS_WIDE 6 /* 12 sums, two vectors of B and two of A: all 16 registers */
#define ROWS_SLIM 12

typedef __m256 vec;
typedef __m256i mask;
#define vec_zero _mm256_setzero_ps
#define vec_set1 _mm256_set1_ps
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_fma _mm256_fmadd_ps
#define vec_add _mm256_add_ps
#define prefetch_near(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define prefetch_far(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)

static inline mask mask_first(unsigned count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vec vec_load_part(const float *p, mask part)
{
    return _mm256_maskload_ps(p, part);
}

static inline void vec_store_part(float *p, mask part, vec v)
{
    _mm256_maskstore_ps(p, part, v);
}

/* The second operand is what the instruction gives for NaN. */
static inline vec vec_relu(vec v)
{
    return _mm256_max_ps(_mm256_setzero_ps(), v);
}

static inline vec vec_where_positive(vec test, vec v)
{
    return _mm256_and_ps(_mm256_cmp_ps(test, _mm256_setzero_ps(), _CMP_GT_OQ), v);
}

/* Swaps blocks of 4, 2 and 1 lanes across the diagonal, in that order. */
static inline __attribute__((always_inline)) void block_transpose(vec r[LANES])
{
    vec s[LANES];
    for (int i = 0; i < 4; i++) {
        s[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        s[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int h = 0; h < 8; h += 4) {
        vec low0 = _mm256_unpacklo_ps(s[h], s[h + 1]), high0 = _mm256_unpackhi_ps(s[h], s[h + 1]);
        vec low1 = _mm256_unpacklo_ps(s[h + 2], s[h + 3]), high1 = _mm256_unpackhi_ps(s[h + 2], s[h + 3]);
        r[h] = _mm256_shuffle_ps(low0, low1, 0x44);
        r[h + 1] = _mm256_shuffle_ps(low0, low1, 0xee);
        r[h + 2] = _mm256_shuffle_ps(high0, high1, 0x44);
        r[h + 3] = _mm256_shuffle_ps(high0, high1, 0xee);
    }
}

#define vec_max _mm256_max_ps

static inline vec vec_where_greater(vec a, vec b, vec then, vec otherwise)
{
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

static inline vec vec_where_at_least(vec a, vec b, vec then, vec otherwise)
{
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(a, b, _CMP_GE_OQ));
}

static inline vec vec_where_equal(vec a, vec b, vec then, vec otherwise)
{
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}

static inline bool any_at_least(vec a, vec b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)) != 0;
}

#include "cpu/isa_table.h"

const struct weir_isa_ops *weir_isa_avx2(void)
{
    return &ops;
}
#else
const struct weir_isa_ops *weir_isa_avx2(void)
{
    return NULL;
}
#endif
