/* What gemm.c and gemm_weight.c share. Internal to this folder. */
#ifndef WEIR_CPU_GEMM_PARTS_H
#define WEIR_CPU_GEMM_PARTS_H

#include "cpu/gemm.h"
#include "cpu/isa_ops.h"

#define COLUMNS_MOST 32 /* of a tile, over all instruction sets */
#define ROWS_MOST 16

/* Floats of scratch that the gradients of weights and bias take. */
size_t weir_gemm_weight_scratch(size_t max_rows, size_t max_out);

static inline size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* The even split of `n` into as few parts as `most` allows: the size of part `i` of `parts`. */
static inline size_t parts_of(size_t n, size_t most)
{
    return n ? (n + most - 1) / most : 1;
}

static inline size_t part_size(size_t n, size_t parts, size_t i)
{
    return n / parts + (i < n % parts);
}

static inline size_t vectors_width(const struct weir_isa_ops *ops, size_t columns)
{
    return columns > ops->lanes ? 2 * ops->lanes : ops->lanes;
}

static inline size_t tile_rows_most(const struct weir_isa_ops *ops, size_t columns)
{
    return columns > ops->lanes ? ops->rows_wide : ops->rows_slim;
}

#endif
