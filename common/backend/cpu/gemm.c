#include "cpu/gemm.h"

#include <assert.h>
#include <string.h>

#include "cpu/isa_ops.h"

#define DEPTH_MOST 256                     /* of a panel: 256 x 32 floats leave a third of a 48 KiB L1 to A and C */
#define ROWS_BLOCK 512                     /* of A, so that A's block stays in L2 beside the panels */
#define TURNED_FLOATS ((size_t)256 * 1024) /* of dz^T, read once per strip of dx: 1 MiB, half of L2 */
#define PANELS_FLOATS ((size_t)6 * 1024)   /* of dz, read once per strip of x: 24 KiB, half of L1 */
#define STRIPS_FLOATS ((size_t)128 * 1024) /* of x, read once per group of panels: 512 KiB */
#define GRADIENT_DEPTH 2048                /* of the panels of dz^T */
#define STRIP 48                           /* rows of dx^T made before they are turned: whole cache lines of dx */
#define COLUMNS_MOST 32                    /* of a tile, over all instruction sets */
#define ROWS_MOST 16
#define TREE_LEVELS 33                  /* of a tree over at most 2^32 replicas */
#define FAR_FLOATS ((size_t)512 * 1024) /* a matrix beyond this many is prefetched: it does not stay in L2 */

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* The even split of `n` into as few parts as `most` allows: the size of part `i` of `parts`. */
static size_t parts_of(size_t n, size_t most)
{
    return n ? (n + most - 1) / most : 1;
}

static size_t part_size(size_t n, size_t parts, size_t i)
{
    return n / parts + (i < n % parts);
}

static size_t vectors_width(const struct weir_isa_ops *ops, size_t columns)
{
    return columns > ops->lanes ? 2 * ops->lanes : ops->lanes;
}

static size_t tile_rows_most(const struct weir_isa_ops *ops, size_t columns)
{
    return columns > ops->lanes ? ops->rows_wide : ops->rows_slim;
}

/* ---- Scratch. Each product carves its buffers from the front; the sizes here bound them all. */

/* Floats of the panels of dz that stay in L1: at least one. */
static size_t panels_floats(size_t rows, size_t out)
{
    return min(max(PANELS_FLOATS, rows * COLUMNS_MOST), rows * round_up(out, COLUMNS_MOST));
}

/* Floats of the strips of x that stay in L2: at least one; with plain C's narrow strips much of each is unused. */
static size_t strips_floats(size_t rows)
{
    return max(STRIPS_FLOATS, rows * ROWS_MOST);
}

static size_t gradient_block_rows(size_t depth)
{
    return min(max(TURNED_FLOATS / max(depth, 1) / COLUMNS_MOST, 1) * COLUMNS_MOST, ROWS_BLOCK);
}

size_t weir_gemm_scratch_bytes(size_t max_rows, size_t max_in, size_t max_out)
{
    (void)max_in;
    size_t forward = DEPTH_MOST * COLUMNS_MOST;
    size_t depth = min(max_out, GRADIENT_DEPTH), block = min(round_up(max_rows, COLUMNS_MOST), ROWS_BLOCK);
    size_t input = min(block * depth, max(TURNED_FLOATS, depth * COLUMNS_MOST)) + STRIP * block;
    size_t weight =
        TREE_LEVELS * ROWS_MOST * COLUMNS_MOST + panels_floats(max_rows, max(max_out, 1)) + strips_floats(max_rows);
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

/* One panel against a block of rows. */
static void multiply_panel(const struct product *p, size_t row, size_t rows, size_t k, size_t depth, size_t j)
{
    struct weir_tile tile = {
        .a_row = p->depth,
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
        tile.a = p->a + row * p->depth + k;
        tile.c = p->c + row * p->columns + j;
        p->ops->tile(&tile);
        row += tile.rows;
        if (tile.ahead)
            tile.ahead += depth / 8 * tile.ahead_pieces * tile.ahead_step;
        tile.b = p->panel;
        tile.panel = NULL;
    }
}

static void multiply(const struct product *p)
{
    size_t blocks = parts_of(p->rows, ROWS_BLOCK), depths = parts_of(p->depth, DEPTH_MOST);
    for (size_t b = 0, row = 0; b < blocks && p->rows; row += part_size(p->rows, blocks, b), b++)
        for (size_t d = 0, k = 0; d < depths; k += part_size(p->depth, depths, d), d++)
            for (size_t j = 0; j < p->columns; j += 2 * p->ops->lanes)
                multiply_panel(p, row, part_size(p->rows, blocks, b), k, part_size(p->depth, depths, d), j);
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
                              .panel = scratch};
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
                                  .panel = scratch};
        multiply(&product);
        return;
    }
    struct input_gradient g = {.ops = ops, .dx = dx, .dz = dz, .w = w, .in = in, .out = out};
    input_gradient_turned(&g, rows, scratch);
}

/* ---- Gradients of weights and bias: sums over replicas.
 *
 * Some panels of dz stay in L1 while the strips of x pass: a strip is a quarter as wide as a panel.
 */

struct weight_gradient {
    const struct weir_isa_ops *ops;
    float *dw;
    const float *x; /* row m at x + m * x_row */
    const float *dz;
    size_t x_row, in, out;
    const struct weir_row_range *replicas;
    size_t replica_count;
    size_t rows; /* of all replicas */
    bool copies_x;
    float *panels; /* of dz: [columns / width][rows][width], the rows of all replicas in their order */
    float *strips; /* of x: [rows of dw / ROWS_MOST][rows][ROWS_MOST] */
    float *levels; /* TREE_LEVELS tiles */

    /* The tile in work. */
    struct weir_tile tile; /* kept, for to clear one each time would cost as much as a replica of few rows */
    const float *strip, *panel;
    size_t panel_width;
    size_t done; /* rows of the replicas before */
};

/* g(replica) of the tile: stored, or added to what is there. */
static void replica_tile(struct weight_gradient *g, const struct weir_row_range *replica, float *to, size_t to_row,
                         enum weir_tile_end end)
{
    struct weir_tile *tile = &g->tile;
    tile->a = g->copies_x ? g->strip + g->done * ROWS_MOST : g->strip + replica->first * g->x_row;
    tile->b = g->panel + g->done * g->panel_width;
    tile->c = to;
    tile->c_row = to_row;
    tile->depth = replica->count;
    tile->end = end;
    g->ops->tile(tile);
    g->done += replica->count;
}

/* The tree's sum over `count` replicas from `first` into `to`; false, and nothing written, if all are empty. */
static bool tree_tile(struct weight_gradient *g, size_t first, size_t count, float *to, size_t to_row, float *level)
{
    if (count == 1) {
        if (g->replicas[first].count)
            replica_tile(g, &g->replicas[first], to, to_row, WEIR_TILE_STORE);
        return g->replicas[first].count != 0;
    }
    size_t left = 1;
    while (left * 2 < count)
        left *= 2;
    if (!tree_tile(g, first, left, to, to_row, level))
        return tree_tile(g, first + left, count - left, to, to_row, level);
    if (count - left == 1) {
        if (g->replicas[first + left].count)
            replica_tile(g, &g->replicas[first + left], to, to_row, WEIR_TILE_ADD);
    } else if (tree_tile(g, first + left, count - left, level, COLUMNS_MOST, level + ROWS_MOST * COLUMNS_MOST)) {
        g->ops->add(to, to_row, level, COLUMNS_MOST, g->tile.rows, g->tile.columns);
    }
    return true;
}

/* The rows of all replicas, one behind the other: columns of dz or x from `from` on, padded with zeros. */
static void copy_rows(const struct weight_gradient *g, float *to, size_t to_row, const float *from, size_t from_row,
                      size_t columns, size_t padded_columns)
{
    for (size_t r = 0; r < g->replica_count; r++) {
        size_t first = g->replicas[r].first, count = g->replicas[r].count;
        g->ops->copy(to, to_row, from + first * from_row, from_row, count, columns, padded_columns);
        to += count * to_row;
    }
}

/* Rows i .. i + rows of dw in `strips` even strips, columns j .. j + columns. */
static void weight_block(struct weight_gradient *g, size_t i, size_t rows, size_t strips, size_t j, size_t columns)
{
    size_t wide = 2 * g->ops->lanes;
    for (size_t s = 0; s < strips; i += g->tile.rows, s++) {
        g->tile.rows = (unsigned)part_size(rows, strips, s);
        g->strip = g->copies_x ? g->strips + s * g->rows * ROWS_MOST : g->x + i;
        for (size_t p = 0; p < columns; p += wide) {
            g->tile.columns = (unsigned)min(columns - p, wide);
            g->panel = g->panels + p * g->rows;
            g->panel_width = vectors_width(g->ops, g->tile.columns);
            g->done = 0;
            tree_tile(g, 0, g->replica_count, g->dw + i * g->out + j + p, g->out, g->levels);
        }
    }
}

static void copy_panel(const struct weight_gradient *g, size_t j, size_t p, size_t columns)
{
    size_t width = vectors_width(g->ops, columns);
    copy_rows(g, g->panels + p * g->rows, width, g->dz + j + p, g->out, columns, width);
}

/* Rows i .. i + rows of dw. */
static void weight_rows(struct weight_gradient *g, size_t i, size_t rows)
{
    size_t wide = 2 * g->ops->lanes, group = max(PANELS_FLOATS / g->rows / wide, 1) * wide;
    size_t strips = parts_of(rows, tile_rows_most(g->ops, g->out));
    for (size_t s = 0, row = i; s < strips && g->copies_x; row += part_size(rows, strips, s), s++)
        copy_rows(g, g->strips + s * g->rows * ROWS_MOST, ROWS_MOST, g->x + row, g->x_row, part_size(rows, strips, s),
                  part_size(rows, strips, s));
    for (size_t j = 0; j < g->out; j += group) {
        size_t columns = min(g->out - j, group);
        for (size_t p = 0; p < columns; p += wide)
            copy_panel(g, j, p, min(columns - p, wide));
        weight_block(g, i, rows, strips, j, columns);
    }
}

static void weight_gradient(struct weight_gradient *g, void *scratch)
{
    assert((uintptr_t)scratch % 64 == 0);
    g->ops = weir_isa_ops();
    g->copies_x = g->out > 4 * g->ops->lanes; /* it pays when each strip is read more than twice */
    g->tile = (struct weir_tile){.a_row = 1, .a_step = g->copies_x ? ROWS_MOST : g->x_row, .begin = WEIR_TILE_ZERO};
    for (size_t r = 0; r < g->replica_count; r++)
        g->rows += g->replicas[r].count;
    if (!g->rows) {
        memset(g->dw, 0, g->in * g->out * sizeof *g->dw);
        return;
    }
    g->levels = scratch;
    g->panels = g->levels + TREE_LEVELS * ROWS_MOST * COLUMNS_MOST;
    g->strips = g->panels + panels_floats(g->rows, g->out);
    size_t most = max(STRIPS_FLOATS / g->rows / ROWS_MOST, 1) * tile_rows_most(g->ops, g->out);
    for (size_t i = 0; i < g->in; i += most)
        weight_rows(g, i, min(g->in - i, most));
}

void weir_gemm_weight_gradient(float *dw, const float *x, const float *dz, const struct weir_row_range *replicas,
                               size_t replica_count, size_t in, size_t out, void *scratch)
{
    struct weight_gradient g = {.dw = dw,
                                .x = x,
                                .dz = dz,
                                .x_row = in,
                                .in = in,
                                .out = out,
                                .replicas = replicas,
                                .replica_count = replica_count};
    weight_gradient(&g, scratch);
}

/* The gradient of the weights of one input that is always 1: 1 * dz + sum is exactly dz + sum. */
void weir_gemm_bias_gradient(float *db, const float *dz, const struct weir_row_range *replicas, size_t replica_count,
                             size_t out, void *scratch)
{
    static const float one = 1;
    struct weight_gradient g = {
        .dw = db, .x = &one, .dz = dz, .in = 1, .out = out, .replicas = replicas, .replica_count = replica_count};
    weight_gradient(&g, scratch);
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
