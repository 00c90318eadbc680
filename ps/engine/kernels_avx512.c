#ifdef __AVX512F__
#define WEIR_KERNELS weir_kernels_avx512
#include "engine/kernels_body.h"
#else
#include "engine/kernels.h" /* another architecture: no table */
#endif
