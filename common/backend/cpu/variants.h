/* A loop compiled for several instruction sets, the widest that the machine has chosen at each call.
 *
 * Only for loops whose bits cannot depend on it: no reassociated sums, no contraction to fma.
 */
#ifndef WEIR_CPU_VARIANTS_H
#define WEIR_CPU_VARIANTS_H

#define WEIR_CPU_BODY static inline __attribute__((always_inline)) void

/* Defines `scope void name params` (scope: static or nothing) out of `name_body`, an always-inline function with the
 * same parameters; `args` are the names of the parameters. */
#if defined(__x86_64__)
#define WEIR_CPU_VARIANTS(scope, name, params, args)                                                                   \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static void name##_avx512 params                     \
    {                                                                                                                  \
        name##_body args;                                                                                              \
    }                                                                                                                  \
    __attribute__((target("avx2"))) static void name##_avx2 params                                                     \
    {                                                                                                                  \
        name##_body args;                                                                                              \
    }                                                                                                                  \
    scope void name params                                                                                             \
    {                                                                                                                  \
        if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&                                \
            __builtin_cpu_supports("avx512bw"))                                                                        \
            name##_avx512 args;                                                                                        \
        else if (__builtin_cpu_supports("avx2"))                                                                       \
            name##_avx2 args;                                                                                          \
        else                                                                                                           \
            name##_body args;                                                                                          \
    }
#else
#define WEIR_CPU_VARIANTS(scope, name, params, args)                                                                   \
    scope void name params                                                                                             \
    {                                                                                                                  \
        name##_body args;                                                                                              \
    }
#endif

#endif
