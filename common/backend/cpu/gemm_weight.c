#include <assert.h>
#include <string.h>

#include "cpu/gemm_parts.h"

#define PANELS_FLOATS ((size_t)256 * 1024) /* of dz, read once per strip of x: 1 MiB, half of L2 */
#define STRIPS_FLOATS ((size_t)128 * 1024) /* of x, read once per group of panels: 512 KiB */
#define BLOCK_FLOATS ((size_t)256 * 1024)  /* of dw, between two reports: a usual chunk, half of L2 */
#define TREE_LEVELS 33                     /* of a tree over at most 2^32 replicas */

/* Floats of the panels of dz that are kept: at least one. */
static size_t panels_floats(size_t rows, size_t out)
{
    return min(max(PANELS_FLOATS, rows * COLUMNS_MOST), rows * round_up(out, COLUMNS_MOST));
}

/* Floats of the strips of x that are kept: at least one; with plain C's narrow strips much of each is unused. */
static size_t strips_floats(size_t rows)
{
    return max(STRIPS_FLOATS, rows * ROWS_MOST);
}

size_t weir_gemm_weight_scratch(size_t max_rows, size_t max_out)
{
    return TREE_LEVELS * ROWS_MOST * COLUMNS_MOST + panels_floats(max_rows, max(max_out, 1)) + strips_floats(max_rows);
}

/* Gradients of weights and bias: sums over replicas. */
struct weight_gradient {
    const struct weir_isa_ops *ops;
    float *dw;
    const float *x; /* row m at x + m * x_row */
    const float *dz;
    size_t x_row, in, out;
    const struct weir_row_range *replicas;
    size_t replica_count;
    size_t rows;  /* of all replicas */
    size_t group; /* columns whose panels are kept together */
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

static void copy_panels(const struct weight_gradient *g, size_t j, size_t columns)
{
    size_t wide = 2 * g->ops->lanes;
    for (size_t p = 0; p < columns; p += wide)
        copy_panel(g, j, p, min(columns - p, wide));
}

/* Rows i .. i + rows of dw. */
static void weight_rows(struct weight_gradient *g, size_t i, size_t rows)
{
    size_t strips = parts_of(rows, tile_rows_most(g->ops, g->out));
    for (size_t s = 0, row = i; s < strips && g->copies_x; row += part_size(rows, strips, s), s++)
        copy_rows(g, g->strips + s * g->rows * ROWS_MOST, ROWS_MOST, g->x + row, g->x_row, part_size(rows, strips, s),
                  part_size(rows, strips, s));
    if (g->group >= g->out) {
        weight_block(g, i, rows, strips, 0, g->out);
        return;
    }
    for (size_t j = 0; j < g->out; j += g->group) {
        copy_panels(g, j, min(g->out - j, g->group));
        weight_block(g, i, rows, strips, j, min(g->out - j, g->group));
    }
}

/* Rows of dw that are made together: as many as strips of x are kept; if the panels stay, no more than a report. */
static size_t rows_together(const struct weight_gradient *g)
{
    size_t strip = tile_rows_most(g->ops, g->out), kept = STRIPS_FLOATS / g->rows / ROWS_MOST;
    if (g->group >= g->out)
        kept = min(kept, BLOCK_FLOATS / g->out / strip);
    return max(kept, 1) * strip;
}

static void weight_gradient(struct weight_gradient *g, const struct weir_op_watcher *watcher, void *scratch)
{
    assert((uintptr_t)scratch % 64 == 0);
    g->ops = weir_isa_ops();
    g->copies_x = g->out > 4 * g->ops->lanes; /* it pays when each strip is read more than twice */
    g->tile = (struct weir_tile){.a_row = 1, .a_step = g->copies_x ? ROWS_MOST : g->x_row, .begin = WEIR_TILE_ZERO};
    for (size_t r = 0; r < g->replica_count; r++)
        g->rows += g->replicas[r].count;
    if (!g->rows || !g->out) {
        memset(g->dw, 0, g->in * g->out * sizeof *g->dw);
        return;
    }
    g->levels = scratch;
    g->panels = g->levels + TREE_LEVELS * ROWS_MOST * COLUMNS_MOST;
    g->strips = g->panels + panels_floats(g->rows, g->out);
    g->group = max(PANELS_FLOATS / g->rows / COLUMNS_MOST, 1) * COLUMNS_MOST;
    if (g->group >= g->out)
        copy_panels(g, 0, g->out);
    size_t blocks = parts_of(g->in, rows_together(g)), end = g->in;
    for (size_t b = blocks; b-- > 0 && end > 0;) {
        size_t rows = part_size(g->in, blocks, b);
        end -= rows;
        weight_rows(g, end, rows);
        if (watcher)
            watcher->rows_final(watcher->context, end);
    }
}

void weir_gemm_weight_gradient(float *dw, const float *x, const float *dz, const struct weir_row_range *replicas,
                               size_t replica_count, size_t in, size_t out,
                               const struct weir_op_watcher *watcher_or_null, void *scratch)
{
    struct weight_gradient g = {.dw = dw,
                                .x = x,
                                .dz = dz,
                                .x_row = in,
                                .in = in,
                                .out = out,
                                .replicas = replicas,
                                .replica_count = replica_count};
    weight_gradient(&g, watcher_or_null, scratch);
}

/* The gradient of the weights of one input that is always 1: 1 * dz + sum is exactly dz + sum. */
void weir_gemm_bias_gradient(float *db, const float *dz, const struct weir_row_range *replicas, size_t replica_count,
                             size_t out, void *scratch)
{
    static const float one = 1;
    struct weight_gradient g = {
        .dw = db, .x = &one, .dz = dz, .in = 1, .out = out, .replicas = replicas, .replica_count = replica_count};
    weight_gradient(&g, NULL, scratch);
}
