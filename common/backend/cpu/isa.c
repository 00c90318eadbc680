#include "cpu/isa.h"

#include <stdatomic.h>

#include "cpu/isa_ops.h"

/* NULL until first asked for. Two threads that ask at once find the same answer, so the race is harmless. */
static _Atomic(const struct weir_isa_ops *) in_use;

static bool processor_has(enum weir_isa isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    switch (isa) {
    case WEIR_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    case WEIR_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case WEIR_ISA_PLAIN:
        break;
    }
#endif
    return isa == WEIR_ISA_PLAIN;
}

static const struct weir_isa_ops *find(enum weir_isa isa)
{
    if (!processor_has(isa))
        return NULL;
    switch (isa) {
    case WEIR_ISA_AVX512:
        return weir_isa_avx512();
    case WEIR_ISA_AVX2:
        return weir_isa_avx2();
    case WEIR_ISA_PLAIN:
        break;
    }
    return weir_isa_plain();
}

bool weir_cpu_isa_set(enum weir_isa isa)
{
    const struct weir_isa_ops *found = find(isa);
    if (found)
        atomic_store_explicit(&in_use, found, memory_order_release);
    return found != NULL;
}

const struct weir_isa_ops *weir_isa_ops(void)
{
    const struct weir_isa_ops *ops = atomic_load_explicit(&in_use, memory_order_acquire);
    if (ops)
        return ops;
    if (!weir_cpu_isa_set(WEIR_ISA_AVX512) && !weir_cpu_isa_set(WEIR_ISA_AVX2))
        weir_cpu_isa_set(WEIR_ISA_PLAIN);
    return atomic_load_explicit(&in_use, memory_order_acquire);
}

const char *weir_cpu_isa_name(void)
{
    return weir_isa_ops()->name;
}
