#define WEIR_KERNELS weir_kernels_plain
#include "engine/kernels_body.h"
