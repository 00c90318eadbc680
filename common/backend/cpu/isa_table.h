/* The end of each isa_*.c: the algorithms over its vectors, and the table of them. It needs what gemm_tile.h and
 * conv1_tile.h need, and NAME, the instruction set's. As these, a text to compile several times. */
#include "cpu/gemm_tile.h"
#include "cpu/conv1_tile.h"

static const struct weir_isa_ops ops = {
    .name = NAME,
    .lanes = LANES,
    .rows_wide = ROWS_WIDE,
    .rows_slim = ROWS_SLIM,
    .tile = tile,
    .transpose = transpose,
    .add = add,
    .copy = copy,
    .relu_gradient = relu_gradient,
    .conv1_best = conv1_best,
    .conv1_ties = conv1_ties,
    .conv1_forward = conv1_forward,
    .conv1_weight_gradient = conv1_weight_gradient,
};
