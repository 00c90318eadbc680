#ifdef __AVX2__
#define WEIR_KERNELS weir_kernels_avx2
#include "engine/kernels_body.h"
#else
#include "engine/kernels.h" /* another architecture: no table */
#endif
