/* The instruction set of weir's own CPU kernels (gemm.h, conv1.h): the best that the processor has, unless set.
 *
 * Results may differ in their last bits between WEIR_ISA_PLAIN and the others (no fused multiply-add), so the name is
 * part of the numerics fingerprint. AVX2 and AVX-512 kernels of gemm.h give the same bits.
 */
#ifndef WEIR_CPU_ISA_H
#define WEIR_CPU_ISA_H

#include <stdbool.h>

enum weir_isa { WEIR_ISA_PLAIN, WEIR_ISA_AVX2, WEIR_ISA_AVX512 };

/* Uses `isa` from now on, in the whole process. False, and nothing changes, where the processor or the build lacks it.
 * For tests and comparisons: not while a kernel runs on another thread. */
bool weir_cpu_isa_set(enum weir_isa isa);

/* "avx512", "avx2" or "plain": what is in use. Any thread. */
const char *weir_cpu_isa_name(void);

#endif
