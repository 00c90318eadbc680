#include "data/convert.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static bool always(void)
{
    return true;
}

static void convert_plain(const uint8_t *in, size_t count, float scale, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale;
}

#if defined(__x86_64__)

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

__attribute__((target("avx2"))) static void convert_avx2(const uint8_t *in, size_t count, float scale, float *out)
{
    const __m256 factor = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(in + i)));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_cvtepi32_ps(wide), factor));
    }
    convert_plain(in + i, count - i, scale, out + i);
}

__attribute__((target("avx512f"))) static void convert_avx512(const uint8_t *in, size_t count, float scale, float *out)
{
    const __m512 factor = _mm512_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(in + i)));
        _mm512_storeu_ps(out + i, _mm512_mul_ps(_mm512_cvtepi32_ps(wide), factor));
    }
    convert_plain(in + i, count - i, scale, out + i);
}

#endif

static const struct weir_convert_row rows_table[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, convert_avx512},
    {"avx2", has_avx2, convert_avx2},
#endif
    {"plain", always, convert_plain},
};

size_t weir_convert_rows(const struct weir_convert_row **rows)
{
    *rows = rows_table;
    return sizeof rows_table / sizeof rows_table[0];
}

weir_convert_u8 weir_convert_u8_best(void)
{
    const struct weir_convert_row *row = rows_table;
    while (!row->supported())
        row++;
    return row->convert;
}

#define CONVERT(type)                                                                                                  \
    do {                                                                                                               \
        const type *in = (const type *)(const void *)idx->bytes + first;                                               \
        for (size_t i = 0; i < count; i++)                                                                             \
            out[i] = (float)in[i] * scale;                                                                             \
    } while (0)

void weir_convert(const struct weir_idx *idx, weir_convert_u8 u8, uint64_t first, size_t count, float scale, float *out)
{
    switch (idx->type) {
    case WEIR_IDX_U8:
        u8(idx->bytes + first, count, scale, out);
        break;
    case WEIR_IDX_I8:
        CONVERT(int8_t);
        break;
    case WEIR_IDX_I16:
        CONVERT(int16_t);
        break;
    case WEIR_IDX_I32:
        CONVERT(int32_t);
        break;
    case WEIR_IDX_F32:
        CONVERT(float);
        break;
    case WEIR_IDX_F64:
        CONVERT(double);
        break;
    }
}
