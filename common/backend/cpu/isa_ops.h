/* What each instruction set provides to gemm.c and conv1.c. Internal to this folder.
 *
 * The algorithms are written once, in gemm_tile.h and conv1_tile.h, over a small vector type; isa_plain.c, isa_avx2.c
 * and isa_avx512.c define that type and compile them.
 */
#ifndef WEIR_CPU_ISA_OPS_H
#define WEIR_CPU_ISA_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/conv1.h"
#include "cpu/isa.h"

#define WEIR_CONV1_SIDE_MOST 7
#define WEIR_CONV1_TAPS_MOST (WEIR_CONV1_SIDE_MOST * WEIR_CONV1_SIDE_MOST)
#define WEIR_LANES_MOST 16

/* How a tile's chains begin, and what becomes of their ends. */
enum weir_tile_begin { WEIR_TILE_ZERO, WEIR_TILE_BIAS, WEIR_TILE_GO_ON };
enum weir_tile_end { WEIR_TILE_STORE, WEIR_TILE_RELU, WEIR_TILE_ADD };

/* C (rows x columns) from A (rows x depth) times B (depth x columns): small enough for C to stay in registers. */
struct weir_tile {
    const float *a; /* element (i, k) is a[i * a_row + k * a_step]; one of the two strides is 1 */
    size_t a_row, a_step;
    const float *b; /* row k begins at b + k * b_step */
    size_t b_step;
    float *panel; /* NULL: b is such a panel. Else b's rows are also copied here, padded with zeros to whole vectors */
    float *c;
    size_t c_row;
    const float *bias;   /* for WEIR_TILE_BIAS */
    const float *ahead;  /* memory to prefetch, a piece of two cache lines every 8 steps; NULL: none */
    size_t ahead_step;   /* floats from one piece to the next */
    size_t ahead_pieces; /* per 8 steps */
    size_t depth;
    unsigned rows, columns; /* 1 .. the instruction set's most */
    enum weir_tile_begin begin;
    enum weir_tile_end end; /* ADD: c = c + the chain, a plain sum of the two */
};

struct weir_isa_ops {
    const char *name;
    unsigned lanes;     /* floats per vector */
    unsigned rows_wide; /* most rows of a tile two vectors wide */
    unsigned rows_slim; /* and one vector wide */

    void (*tile)(const struct weir_tile *tile);
    /* to[c][r] = from[r][c]; columns of `to` from `rows` up to `padded_rows` become 0. */
    void (*transpose)(float *to, size_t to_row, const float *from, size_t from_row, size_t rows, size_t columns,
                      size_t padded_rows);
    /* to += from, element by element, both [rows][columns]. */
    void (*add)(float *to, size_t to_row, const float *from, size_t from_row, size_t rows, size_t columns);
    /* to = from[rows][columns]; columns of `to` from `columns` up to `padded_columns` become 0. */
    void (*copy)(float *to, size_t to_row, const float *from, size_t from_row, size_t rows, size_t columns,
                 size_t padded_columns);
    void (*relu_gradient)(float *dz, const float *y, size_t count);

    /* The maximum of relu(conv) over each image's positions, and the first and last position that has it: [images]
     * [filters] each. Where the maximum is 0, `first` is -1. */
    void (*conv1_best)(float *value, float *first, float *last, const float *x, const float *w, const float *bias,
                       size_t images, const struct weir_conv1_shape *shape);
    /* For one filter (w and bias begin at it) and image: sums[tap] += the inputs of that tap over all positions whose
     * output is `value`; returns how many there are. */
    size_t (*conv1_ties)(float *sums, const float *x, const float *w, const float *bias, float value,
                         const struct weir_conv1_shape *shape);
    void (*conv1_forward)(float *y, const float *x, const float *w, const float *bias, size_t images,
                          const struct weir_conv1_shape *shape, bool relu);
    /* dw[tap][lanes] and db[lanes] += the gradients of the images, for the filters from `first`. */
    void (*conv1_weight_gradient)(float *dw, float *db, const float *x, const float *dz, size_t images,
                                  const struct weir_conv1_shape *shape, size_t first);
};

/* NULL where the build's target has no such instructions. */
const struct weir_isa_ops *weir_isa_plain(void);
const struct weir_isa_ops *weir_isa_avx2(void);
const struct weir_isa_ops *weir_isa_avx512(void);

/* The one in use. */
const struct weir_isa_ops *weir_isa_ops(void);

#endif
