/* The kernels in plain C, for any processor: vectors of four floats as arrays, which compilers turn into what there is.
 */
#include "cpu/isa_ops.h"

#include <string.h>

#define NAME "plain"
#define LANES 4
#define ROWS_WIDE 4
#define ROWS_SLIM 8

typedef float vec __attribute__((vector_size(16)));
typedef unsigned mask; /* the number of lanes, from the first */
#define prefetch_near(p) __builtin_prefetch(p)
#define prefetch_far(p) __builtin_prefetch(p, 0, 2)

static inline vec vec_zero(void)
{
    return (vec){0};
}

static inline vec vec_set1(float x)
{
    return (vec){x, x, x, x};
}

static inline mask mask_first(unsigned count)
{
    return count;
}

static inline vec vec_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec vec_load_part(const float *p, mask part)
{
    if (part == LANES)
        return vec_load(p);
    vec v = {0};
    for (unsigned i = 0; i < part; i++)
        v[i] = p[i];
    return v;
}

static inline void vec_store_part(float *p, mask part, vec v)
{
    if (part == LANES) {
        vec_store(p, v);
        return;
    }
    for (unsigned i = 0; i < part; i++)
        p[i] = v[i];
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c; /* rounded twice: contraction is off */
}

static inline vec vec_add(vec a, vec b)
{
    return a + b;
}

static inline vec vec_relu(vec v)
{
    for (unsigned i = 0; i < LANES; i++)
        v[i] = v[i] < 0 ? 0 : v[i];
    return v;
}

static inline vec vec_where_positive(vec test, vec v)
{
    for (unsigned i = 0; i < LANES; i++)
        v[i] = test[i] > 0 ? v[i] : 0;
    return v;
}

static inline void block_transpose(vec r[LANES])
{
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned j = 0; j < i; j++) {
            float swap = r[i][j];
            r[i][j] = r[j][i];
            r[j][i] = swap;
        }
}

static inline vec vec_max(vec a, vec b)
{
    for (unsigned i = 0; i < LANES; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

static inline vec vec_where_greater(vec a, vec b, vec then, vec otherwise)
{
    for (unsigned i = 0; i < LANES; i++)
        otherwise[i] = a[i] > b[i] ? then[i] : otherwise[i];
    return otherwise;
}

static inline vec vec_where_at_least(vec a, vec b, vec then, vec otherwise)
{
    for (unsigned i = 0; i < LANES; i++)
        otherwise[i] = a[i] >= b[i] ? then[i] : otherwise[i];
    return otherwise;
}

static inline vec vec_where_equal(vec a, vec b, vec then, vec otherwise)
{
    for (unsigned i = 0; i < LANES; i++)
        otherwise[i] = a[i] == b[i] ? then[i] : otherwise[i];
    return otherwise;
}

static inline bool any_at_least(vec a, vec b)
{
    return a[0] >= b[0] || a[1] >= b[1] || a[2] >= b[2] || a[3] >= b[3];
}

#include "cpu/isa_table.h"

const struct weir_isa_ops *weir_isa_plain(void)
{
    return &ops;
}
