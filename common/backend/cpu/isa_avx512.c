/* The kernels for AVX-512 (F, DQ, VL, BW). */
#include "cpu/isa_ops.h"

#ifdef __AVX512F__
#include <immintrin.h>

#define NAME "avx512"
#define LANES 16
#define ROWS_WIDE 14 /* 28 sums, two vectors of B, one of A: nearly all 32 registers */
#define ROWS_SLIM 16

typedef __m512 vec;
typedef __mmask16 mask;
#define vec_zero _mm512_setzero_ps
#define vec_set1 _mm512_set1_ps
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_fma _mm512_fmadd_ps
#define vec_add _mm512_add_ps
#define prefetch_near(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define prefetch_far(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)

static inline mask mask_first(unsigned count)
{
    return (mask)((1u << count) - 1);
}

static inline vec vec_load_part(const float *p, mask part)
{
    return _mm512_maskz_loadu_ps(part, p);
}

static inline void vec_store_part(float *p, mask part, vec v)
{
    _mm512_mask_storeu_ps(p, part, v);
}

/* The second operand is what the instruction gives for NaN. */
static inline vec vec_relu(vec v)
{
    return _mm512_max_ps(_mm512_setzero_ps(), v);
}

static inline vec vec_where_positive(vec test, vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(test, _mm512_setzero_ps(), _CMP_GT_OQ), v);
}

/* First the 4 x 4 blocks, by quarters of a vector, then the elements of each block. */
static inline __attribute__((always_inline)) void block_transpose(vec r[LANES])
{
    vec s[LANES];
    for (int i = 0; i < 4; i++) {
        vec even0 = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88), odd0 = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        vec even1 = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        vec odd1 = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
        s[i] = _mm512_shuffle_f32x4(even0, even1, 0x88);
        s[i + 4] = _mm512_shuffle_f32x4(odd0, odd1, 0x88);
        s[i + 8] = _mm512_shuffle_f32x4(even0, even1, 0xdd);
        s[i + 12] = _mm512_shuffle_f32x4(odd0, odd1, 0xdd);
    }
    for (int q = 0; q < 16; q += 4) {
        vec low0 = _mm512_unpacklo_ps(s[q], s[q + 1]), high0 = _mm512_unpackhi_ps(s[q], s[q + 1]);
        vec low1 = _mm512_unpacklo_ps(s[q + 2], s[q + 3]), high1 = _mm512_unpackhi_ps(s[q + 2], s[q + 3]);
        r[q] = _mm512_shuffle_ps(low0, low1, 0x44);
        r[q + 1] = _mm512_shuffle_ps(low0, low1, 0xee);
        r[q + 2] = _mm512_shuffle_ps(high0, high1, 0x44);
        r[q + 3] = _mm512_shuffle_ps(high0, high1, 0xee);
    }
}

#define vec_max _mm512_max_ps

static inline vec vec_where_greater(vec a, vec b, vec then, vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), then);
}

static inline vec vec_where_at_least(vec a, vec b, vec then, vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), then);
}

static inline vec vec_where_equal(vec a, vec b, vec then, vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), then);
}

static inline bool any_at_least(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ) != 0;
}

#include "cpu/isa_table.h"

const struct weir_isa_ops *weir_isa_avx512(void)
{
    return &ops;
}
#else
const struct weir_isa_ops *weir_isa_avx512(void)
{
    return NULL;
}
#endif
