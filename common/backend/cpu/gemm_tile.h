/* The product of one tile, over the vector type of the file that includes this (isa_*.c): a text to compile several
 * times, so it has no include guard.
 *
 * It needs: LANES, ROWS_WIDE, ROWS_SLIM; vec, mask; vec_zero, vec_set1, vec_load, vec_store, vec_load_part,
 * vec_store_part, vec_fma, vec_add, vec_relu, mask_first, prefetch_near (into L1), prefetch_far (into L2).
 *
 * Each function below is inlined with constant `rows` and `vectors`, so the sums stay in registers and the loops over
 * them vanish.
 */
#define TILE_INLINE static inline __attribute__((always_inline))
#define COPY_AHEAD 8 /* rows: more, at a stride of 16 KiB, would not fit into their set of L1 */
#define BASES ((ROWS_MOST + 2) / 3)
#define UNROLL_STEPS _Pragma("GCC unroll 2")
#define HIDE_ORIGIN(p) __asm__("" : "+r"(p)) /* the compiler may not make one pointer from another */
#define UNROLL_ROWS _Pragma("GCC unroll 16")
#define ROWS_MOST (ROWS_WIDE > ROWS_SLIM ? ROWS_WIDE : ROWS_SLIM)

enum tile_form {
    PANEL_ROWS,    /* a_step is 1, B is a panel */
    PANEL_COLUMNS, /* a_row is 1, B is a panel */
    COPY_ROWS,     /* a_step is 1, B is copied into a panel */
};

TILE_INLINE void tile_begin(const struct weir_tile *t, vec c[ROWS_MOST][2], const mask part[2], unsigned rows,
                            unsigned vectors)
{
    for (unsigned v = 0; v < vectors; v++) {
        vec first = t->begin == WEIR_TILE_BIAS ? vec_load_part(t->bias + v * LANES, part[v]) : vec_zero();
        UNROLL_ROWS
        for (unsigned i = 0; i < rows; i++)
            c[i][v] = first;
    }
    if (t->begin != WEIR_TILE_GO_ON)
        return;
    UNROLL_ROWS
    for (unsigned i = 0; i < rows; i++)
        for (unsigned v = 0; v < vectors; v++)
            c[i][v] = vec_load_part(t->c + i * t->c_row + v * LANES, part[v]);
}

TILE_INLINE void tile_end(const struct weir_tile *t, vec c[ROWS_MOST][2], const mask part[2], unsigned rows,
                          unsigned vectors)
{
    if (t->end == WEIR_TILE_RELU) {
        UNROLL_ROWS
        for (unsigned i = 0; i < rows; i++)
            for (unsigned v = 0; v < vectors; v++)
                c[i][v] = vec_relu(c[i][v]);
    } else if (t->end == WEIR_TILE_ADD) {
        UNROLL_ROWS
        for (unsigned i = 0; i < rows; i++)
            for (unsigned v = 0; v < vectors; v++)
                c[i][v] = vec_add(vec_load_part(t->c + i * t->c_row + v * LANES, part[v]), c[i][v]);
    }
    UNROLL_ROWS
    for (unsigned i = 0; i < rows; i++)
        for (unsigned v = 0; v < vectors; v++)
            vec_store_part(t->c + i * t->c_row + v * LANES, part[v], c[i][v]);
}

/* One step: the products of a column of A and a row of B. */
TILE_INLINE void tile_step(const float *const a[BASES], size_t a_row, const float *b, size_t b_step, float *panel,
                           vec c[ROWS_MOST][2], const mask part[2], unsigned rows, unsigned vectors,
                           enum tile_form form)
{
    vec bv[2];
    for (unsigned v = 0; v < vectors; v++) {
        bv[v] = form == COPY_ROWS ? vec_load_part(b + v * LANES, part[v]) : vec_load(b + v * LANES);
        if (form == COPY_ROWS) {
            vec_store(panel + v * LANES, bv[v]);
            prefetch_near(b + COPY_AHEAD * b_step + v * LANES);
        }
    }
    UNROLL_ROWS
    for (unsigned i = 0; i < rows; i++) {
        vec av = vec_set1(form == PANEL_COLUMNS ? a[0][i] : a[i / 3][i % 3 * a_row]);
        for (unsigned v = 0; v < vectors; v++)
            c[i][v] = vec_fma(av, bv[v], c[i][v]);
    }
}

/* Every third row of A has a pointer: the two rows behind it are in reach of an address with a scaled index. One
 * pointer would need an index per row, more than there are registers. */
TILE_INLINE void tile_bases(const struct weir_tile *t, const float *a[BASES], unsigned rows, enum tile_form form)
{
    UNROLL_ROWS
    for (unsigned i = 0; i < BASES; i++) {
        a[i] = t->a + (form == PANEL_COLUMNS || 3 * i >= rows ? 0 : 3 * i * t->a_row);
        HIDE_ORIGIN(a[i]);
    }
}

TILE_INLINE void tile_advance(const float *a[BASES], size_t step, unsigned rows, enum tile_form form)
{
    UNROLL_ROWS
    for (unsigned i = 0; i < BASES; i++)
        if (i == 0 || (form != PANEL_COLUMNS && 3 * i < rows))
            a[i] += step;
}

TILE_INLINE void tile_multiply(const struct weir_tile *t, unsigned rows, unsigned vectors, enum tile_form form)
{
    const size_t a_step = form == PANEL_COLUMNS ? t->a_step : 1, a_row = t->a_row;
    const size_t b_step = form == COPY_ROWS ? t->b_step : vectors * LANES;
    const size_t panel_step = form == COPY_ROWS ? vectors * LANES : 0;
    const unsigned last = t->columns - (vectors - 1) * LANES;
    const mask part[2] = {mask_first(vectors == 2 ? LANES : last), mask_first(last)};
    const float *a[BASES], *b = t->b, *ahead = t->ahead;
    float *panel = t->panel;
    vec c[ROWS_MOST][2];
    tile_bases(t, a, rows, form);
    tile_begin(t, c, part, rows, vectors);
    size_t left = t->depth;
    for (; left >= 8; left -= 8) {
        if (ahead)
            for (size_t piece = 0; piece < t->ahead_pieces; piece++, ahead += t->ahead_step) {
                prefetch_far(ahead);
                prefetch_far(ahead + 16);
            }
        UNROLL_STEPS
        for (unsigned k = 0; k < 8; k++, b += b_step, panel += panel_step) {
            tile_step(a, a_row, b, b_step, panel, c, part, rows, vectors, form);
            tile_advance(a, a_step, rows, form);
        }
    }
    for (; left > 0; left--, b += b_step, panel += panel_step) {
        tile_step(a, a_row, b, b_step, panel, c, part, rows, vectors, form);
        tile_advance(a, a_step, rows, form);
    }
    tile_end(t, c, part, rows, vectors);
}

#define TILE_CASE(n)                                                                                                   \
    case n:                                                                                                            \
        tile_multiply(t, n, vectors, form);                                                                            \
        break;

/* Picks the code for the number of rows: beyond `most` there is none. */
TILE_INLINE void tile_rows(const struct weir_tile *t, unsigned most, unsigned vectors, enum tile_form form)
{
    switch (t->rows <= most ? t->rows : 0) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
        TILE_CASE(5)
        TILE_CASE(6)
        TILE_CASE(7)
        TILE_CASE(8)
#if ROWS_WIDE > 8 || ROWS_SLIM > 8
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
        TILE_CASE(12)
#endif
#if ROWS_WIDE > 12 || ROWS_SLIM > 12
        TILE_CASE(13)
        TILE_CASE(14)
        TILE_CASE(15)
        TILE_CASE(16)
#endif
    }
}

static void tile_panel_rows(const struct weir_tile *t)
{
    if (t->columns > LANES)
        tile_rows(t, ROWS_WIDE, 2, PANEL_ROWS);
    else
        tile_rows(t, ROWS_SLIM, 1, PANEL_ROWS);
}

static void tile_panel_columns(const struct weir_tile *t)
{
    if (t->columns > LANES)
        tile_rows(t, ROWS_WIDE, 2, PANEL_COLUMNS);
    else
        tile_rows(t, ROWS_SLIM, 1, PANEL_COLUMNS);
}

static void tile_copy_rows(const struct weir_tile *t)
{
    if (t->columns > LANES)
        tile_rows(t, ROWS_WIDE, 2, COPY_ROWS);
    else
        tile_rows(t, ROWS_SLIM, 1, COPY_ROWS);
}

static void tile(const struct weir_tile *t)
{
    if (t->panel)
        tile_copy_rows(t);
    else if (t->a_step == 1)
        tile_panel_rows(t);
    else
        tile_panel_columns(t);
}

static void add(float *to, size_t to_row, const float *from, size_t from_row, size_t rows, size_t columns)
{
    for (size_t i = 0; i < rows; i++, to += to_row, from += from_row)
        for (size_t j = 0; j < columns; j += LANES) {
            mask part = mask_first(columns - j < LANES ? (unsigned)(columns - j) : LANES);
            vec_store_part(to + j, part, vec_add(vec_load_part(to + j, part), vec_load_part(from + j, part)));
        }
}

/* Column by column of vectors, so that the masks are made once. */
static void copy(float *to, size_t to_row, const float *from, size_t from_row, size_t rows, size_t columns,
                 size_t padded_columns)
{
    for (size_t j = 0; j < padded_columns; j += LANES) {
        size_t left = columns > j ? columns - j : 0, padded_left = padded_columns - j;
        mask in = mask_first(left < LANES ? (unsigned)left : LANES);
        mask out = mask_first(padded_left < LANES ? (unsigned)padded_left : LANES);
        for (size_t i = 0; i < rows; i++)
            vec_store_part(to + i * to_row + j, out, vec_load_part(from + i * from_row + j, in));
    }
}

static void relu_gradient(float *dz, const float *y, size_t count)
{
    for (size_t j = 0; j < count; j += LANES) {
        mask part = mask_first(count - j < LANES ? (unsigned)(count - j) : LANES);
        vec_store_part(dz + j, part, vec_where_positive(vec_load_part(y + j, part), vec_load_part(dz + j, part)));
    }
}

/* One LANES x LANES block at most; block_transpose works on whole vectors. */
TILE_INLINE void transpose_block(float *to, size_t to_row, const float *from, size_t from_row, unsigned rows,
                                 unsigned columns, unsigned padded_rows)
{
    vec r[LANES];
    const mask in = mask_first(columns), out = mask_first(padded_rows);
    for (unsigned i = 0; i < LANES; i++)
        r[i] = i < rows ? vec_load_part(from + i * from_row, in) : vec_zero();
    block_transpose(r);
    for (unsigned i = 0; i < columns; i++)
        vec_store_part(to + i * to_row, out, r[i]);
}

static void transpose(float *to, size_t to_row, const float *from, size_t from_row, size_t rows, size_t columns,
                      size_t padded_rows)
{
    for (size_t i = 0; i < padded_rows; i += LANES) {
        unsigned in = i >= rows ? 0 : rows - i < LANES ? (unsigned)(rows - i) : LANES;
        unsigned out = padded_rows - i < LANES ? (unsigned)(padded_rows - i) : LANES;
        for (size_t j = 0; j < columns; j += LANES) {
            const float *block = in ? from + i * from_row + j : from;
            if (in == LANES && columns - j >= LANES)
                transpose_block(to + j * to_row + i, to_row, block, from_row, LANES, LANES, LANES);
            else
                transpose_block(to + j * to_row + i, to_row, block, from_row, in,
                                columns - j < LANES ? (unsigned)(columns - j) : LANES, out);
        }
    }
}
