#include "cpu/gemm.h"

#include <assert.h>
#include <string.h>

#include "cpu/gemm_parts.h"

#define DEPTH_MOST 256                     /* of a panel: 256 x 32 floats leave a third of a 48 KiB L1 to A and C */
#define DEPTH_FOLDED 128                   /* if B's rows share a set of L1: prefetched, they share few sets of L2 */
#define ROWS_BLOCK 512                     /* of A, so that A's block stays in L2 beside the panels */
#define TURNED_FLOATS ((size_t)256 * 1024) /* of dz^T, read once per strip of dx: 1 MiB, half of L2 */
#define GRADIENT_DEPTH 2048                /* of the panels of dz^T */
#define STRIP 48                           /* rows of dx^T made before they are turned: whole cache lines of dx */
#define FAR_FLOATS ((size_t)512 * 1024)    /* a matrix beyond this many is prefetched: it does not stay in L2 */
#define PAGE_FLOATS 1024                   /* addresses 4 KiB apart share a set of L1 */
#define PACKED_ROW (DEPTH_MOST + 16)

/* ---- Scratch. Each product carves its buffers from the front; the sizes here bound them all. */

static size_t gradient_block_rows(size_t depth)
{
    return min(max(TURNED_FLOATS / max(depth, 1) / COLUMNS_MOST, 1) * COLUMNS_MOST, ROWS_BLOCK);
}

size_t weir_gemm_scratch_bytes(size_t max_rows, size_t max_in, size_t max_out)
{
    (void)max_in;
    size_t forward = DEPTH_MOST * COLUMNS_MOST + min(max_rows, ROWS_BLOCK) * PACKED_ROW;
    size_t depth = min(max_out, GRADIENT_DEPTH), block = min(round_up(max_rows, COLUMNS_MOST), ROWS_BLOCK);
    size_t input = min(block * depth, max(TURNED_FLOATS, depth * COLUMNS_MOST)) + STRIP * block;
    size_t weight = weir_gemm_weight_scratch(max_rows, max_out);
    return sizeof(float) * round_up(max(forward, max(input, weight)), 16);
}

/* ---- Forward, and the gradient of the input by way of a transposed panel. */

struct product {
    const struct weir_isa_ops *ops;
    float *c;
    const float *a, *b;
    const float *bias;
    size_t rows, depth, columns; /* C[rows][columns] = A[rows][depth] B[depth][columns] */
    bool b_is_transposed;        /* b is B^T[columns][depth] */
    bool relu;
    float *panel;
    float *packed; /* NULL, or room for a block of A where rows don't share their sets of L1 */
};

/* The panel of B at (k, j) as a tile reads it, or where the first tile has to copy it from. */
static void take_panel(const struct product *p, struct weir_tile *tile, size_t k, size_t j)
{
    if (p->b_is_transposed) {
        p->ops->transpose(p->panel, vectors_width(p->ops, tile->columns), p->b + j * p->depth + k, p->depth,
                          tile->columns, tile->depth, vectors_width(p->ops, tile->columns));
        tile->b = p->panel;
        tile->panel = NULL;
    } else {
        tile->b = p->b + k * p->columns + j;
        tile->panel = p->panel;
    }
}

/* Has the tiles of a panel prefetch the next one, if B is too large for L2. */
static void look_ahead(const struct product *p, struct weir_tile *tile, size_t k, size_t j, size_t tiles)
{
    tile->ahead = NULL;
    if (p->b_is_transposed || p->depth * p->columns < FAR_FLOATS)
        return;
    if (j + tile->columns < p->columns)
        tile->ahead = p->b + k * p->columns + j + tile->columns;
    else if (k + tile->depth < p->depth)
        tile->ahead = p->b + (k + tile->depth) * p->columns;
    tile->ahead_step = p->columns;
    tile->ahead_pieces = (8 + tiles - 1) / tiles;
}

/* A block of rows against one panel; `a` is the block's columns from k on. */
static void multiply_panel(const struct product *p, const float *a, size_t a_row, size_t row, size_t rows, size_t k,
                           size_t depth, size_t j)
{
    struct weir_tile tile = {
        .a = a,
        .a_row = a_row,
        .a_step = 1,
        .b_step = p->columns,
        .c_row = p->columns,
        .bias = p->bias ? p->bias + j : NULL,
        .depth = depth,
        .columns = (unsigned)min(p->columns - j, 2 * p->ops->lanes),
        .begin = k         ? WEIR_TILE_GO_ON
                 : p->bias ? WEIR_TILE_BIAS
                           : WEIR_TILE_ZERO,
        .end = p->relu && k + depth == p->depth ? WEIR_TILE_RELU : WEIR_TILE_STORE,
    };
    size_t tiles = parts_of(rows, tile_rows_most(p->ops, tile.columns));
    take_panel(p, &tile, k, j);
    look_ahead(p, &tile, k, j, tiles);
    for (size_t t = 0; t < tiles; t++) {
        tile.rows = (unsigned)part_size(rows, tiles, t);
        tile.c = p->c + row * p->columns + j;
        p->ops->tile(&tile);
        tile.a += tile.rows * a_row;
        row += tile.rows;
        if (tile.ahead)
            tile.ahead += depth / 8 * tile.ahead_pieces * tile.ahead_step;
        tile.b = p->panel;
        tile.panel = NULL;
    }
}

static void multiply_block(const struct product *p, size_t row, size_t rows, size_t k, size_t depth)
{
    const float *a = p->a + row * p->depth + k;
    size_t a_row = p->depth;
    if (p->packed) {
        p->ops->copy(p->packed, PACKED_ROW, a, a_row, rows, depth, depth);
        a = p->packed;
        a_row = PACKED_ROW;
    }
    for (size_t j = 0; j < p->columns; j += 2 * p->ops->lanes)
        multiply_panel(p, a, a_row, row, rows, k, depth, j);
}

static void multiply(struct product *p)
{
    size_t blocks = parts_of(p->rows, ROWS_BLOCK);
    size_t depths = parts_of(p->depth, p->columns % PAGE_FLOATS ? DEPTH_MOST : DEPTH_FOLDED);
    if (p->depth % PAGE_FLOATS || p->columns <= 4 * p->ops->lanes)
        p->packed = NULL; /* not needed, or not worth it */
    for (size_t b = 0, row = 0; b < blocks && p->rows; row += part_size(p->rows, blocks, b), b++)
        for (size_t d = 0, k = 0; d < depths; k += part_size(p->depth, depths, d), d++)
            multiply_block(p, row, part_size(p->rows, blocks, b), k, part_size(p->depth, depths, d));
}

void weir_gemm_forward(float *y, const float *x, const float *w, const float *bias_or_null, size_t rows, size_t in,
                       size_t out, bool relu, void *scratch)
{
    assert((uintptr_t)scratch % 64 == 0);
    struct product product = {.ops = weir_isa_ops(),
                              .c = y,
                              .a = x,
                              .b = w,
                              .bias = bias_or_null,
                              .rows = rows,
                              .depth = in,
                              .columns = out,
                              .relu = relu,
                              .panel = scratch,
                              .packed = (float *)scratch + DEPTH_MOST * COLUMNS_MOST};
    multiply(&product);
}

/* ---- The gradient of the input, transposed: dx^T = w dz^T reads each row of w once, as it lies. */

struct input_gradient {
    const struct weir_isa_ops *ops;
    float *dx;
    const float *dz, *w;
    size_t in, out;
    size_t row, rows; /* the block of rows */
    size_t k, depth;  /* the block of out */
    float *panels;    /* dz^T: [rows / width][depth][width] */
    float *strip;     /* dx^T: [STRIP][rows] */
    size_t strip_row;
    struct weir_tile tile;
};

static void turn_dz(const struct input_gradient *g)
{
    size_t width = 2 * g->ops->lanes;
    for (size_t m = 0; m < g->rows; m += width) {
        size_t rows = min(g->rows - m, width), padded = vectors_width(g->ops, rows);
        g->ops->transpose(g->panels + m * g->depth, padded, g->dz + (g->row + m) * g->out + g->k, g->out, rows,
                          g->depth, padded);
    }
}

/* Rows i .. i + count of dx^T, all columns of the block. */
static void make_strip(struct input_gradient *g, size_t i, size_t count)
{
    size_t width = 2 * g->ops->lanes;
    float *dx = g->dx + g->row * g->in + i;
    struct weir_tile *tile = &g->tile;
    if (g->k)
        g->ops->transpose(g->strip, g->strip_row, dx, g->in, g->rows, count, g->rows);
    for (size_t m = 0; m < g->rows; m += width) {
        tile->b = g->panels + m * g->depth;
        tile->columns = (unsigned)min(g->rows - m, width);
        size_t tiles = parts_of(count, tile_rows_most(g->ops, tile->columns));
        for (size_t t = 0, r = 0; t < tiles; r += tile->rows, t++) {
            tile->rows = (unsigned)part_size(count, tiles, t);
            tile->a = g->w + (i + r) * g->out + g->k;
            tile->c = g->strip + r * g->strip_row + m;
            g->ops->tile(tile);
        }
    }
    g->ops->transpose(dx, g->in, g->strip, g->strip_row, count, g->rows, count);
}

static void input_gradient_turned(struct input_gradient *g, size_t rows, float *scratch)
{
    size_t depths = parts_of(g->out, GRADIENT_DEPTH), block = gradient_block_rows(part_size(g->out, depths, 0));
    for (g->row = 0; g->row < rows; g->row += g->rows) {
        g->rows = min(rows - g->row, block);
        g->strip_row = round_up(g->rows, 16);
        g->strip = scratch;
        g->panels = scratch + STRIP * g->strip_row;
        g->k = 0;
        for (size_t d = 0; d < depths; g->k += g->depth, d++) {
            g->depth = part_size(g->out, depths, d);
            g->tile = (struct weir_tile){.a_row = g->out,
                                         .a_step = 1,
                                         .c_row = g->strip_row,
                                         .depth = g->depth,
                                         .begin = g->k ? WEIR_TILE_GO_ON : WEIR_TILE_ZERO,
                                         .end = WEIR_TILE_STORE};
            turn_dz(g);
            for (size_t i = 0; i < g->in; i += STRIP)
                make_strip(g, i, min(g->in - i, STRIP));
        }
    }
}

void weir_gemm_input_gradient(float *dx, const float *dz, const float *w, size_t rows, size_t in, size_t out,
                              void *scratch)
{
    assert((uintptr_t)scratch % 64 == 0);
    const struct weir_isa_ops *ops = weir_isa_ops();
    if (in * out < rows * (in + out)) { /* turning w costs less than turning dz and dx; the bits are the same */
        struct product product = {.ops = ops,
                                  .c = dx,
                                  .a = dz,
                                  .b = w,
                                  .rows = rows,
                                  .depth = out,
                                  .columns = in,
                                  .b_is_transposed = true,
                                  .panel = scratch,
                                  .packed = (float *)scratch + DEPTH_MOST * COLUMNS_MOST};
        multiply(&product);
        return;
    }
    struct input_gradient g = {.ops = ops, .dx = dx, .dz = dz, .w = w, .in = in, .out = out};
    input_gradient_turned(&g, rows, scratch);
}

void weir_relu_gradient(float *dz, const float *y, size_t count)
{
    weir_isa_ops()->relu_gradient(dz, y, count);
}

/* GF/s of these kernels / dnnl_sgemm (oneDNN 2.6.3), one thread of a Sapphire-Rapids-like virtual machine that other
 * jobs kept busy, the better of two runs of bench_kernels:
 *
 *   rows  in->out     forward      dw           dx          all three, time of sgemm / time of these
 *     16  784->512   119 / 120   109 / 128    90 /  72     1.05
 *     64  784->512   129 / 137   126 / 135   118 / 108     0.99
 *    256  784->512   123 / 135   111 / 130   103 / 119     0.87
 *     64  512->512   130 / 138   127 / 136   124 / 113     0.99
 *    256  512->512   124 / 135   116 / 124   112 / 121     0.93
 *     16  512->10     60 /  53    52 /  51    51 /  75     0.94
 *     64  512->10     62 /  60    68 /  57    78 /  97     1.02
 *
 * Layers of 4096: not measured well, for the other jobs took the memory bandwidth. */
bool weir_gemm_wins(size_t rows, size_t in, size_t out)
{
    (void)in;
    return rows <= 64 && (out >= 64 || rows >= 64);
}
