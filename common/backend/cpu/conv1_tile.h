/* Convolution of one-channel images, over the vector type of the file that includes this, as gemm_tile.h and after it.
 *
 * It also needs: vec_max, vec_where_greater, vec_where_at_least and vec_where_equal (a, b, then, otherwise: by lane),
 * any_at_least (a, b).
 *
 * A vector holds neighbouring filters of one position, except in conv1_ties, where it holds neighbouring positions of
 * one filter. The chain of an output is the same in both, so are its bits.
 */
#define POSITIONS 8 /* at once: enough sums to hide latency; with nine taps and three of the maximum they fit */
#define UNROLL_TAPS _Pragma("GCC unroll 3")

/* One vector of filters: kernel and bias, padded with zeros. */
struct conv1_filters {
    float taps[WEIR_CONV1_TAPS_MOST * LANES];
    float bias[LANES];
    mask part;
};

static void filters_load(struct conv1_filters *f, const float *w, const float *bias, const struct weir_conv1_shape *s,
                         size_t first)
{
    f->part = mask_first(s->filters - first < LANES ? (unsigned)(s->filters - first) : LANES);
    for (size_t t = 0; t < s->kernel_height * s->kernel_width; t++)
        vec_store(f->taps + t * LANES, vec_load_part(w + t * s->filters + first, f->part));
    vec_store(f->bias, bias ? vec_load_part(bias + first, f->part) : vec_zero());
}

/* `count` neighbouring outputs whose first upper left input is x. */
TILE_INLINE void conv_positions(vec sum[POSITIONS], const struct conv1_filters *f, const float *x,
                                const struct weir_conv1_shape *s, bool three, unsigned count)
{
    const size_t height = three ? 3 : s->kernel_height, width = three ? 3 : s->kernel_width;
    UNROLL_ROWS
    for (unsigned u = 0; u < count; u++)
        sum[u] = vec_load(f->bias);
    UNROLL_TAPS
    for (size_t i = 0; i < height; i++) {
        UNROLL_TAPS
        for (size_t j = 0; j < width; j++) {
            vec tap = vec_load(f->taps + (i * width + j) * LANES);
            UNROLL_ROWS
            for (unsigned u = 0; u < count; u++)
                sum[u] = vec_fma(vec_set1(x[i * s->width + j + u]), tap, sum[u]);
        }
    }
}

/* The best so far of one image. Positions are floats (exact up to 2^24), so that one kind of vector is enough; a
 * maximum that occurs again has last > first. */
struct conv1_best {
    vec value, first, last;
};

TILE_INLINE void best_of_positions(struct conv1_best *best, const struct conv1_filters *f, const float *x,
                                   const struct weir_conv1_shape *s, bool three, size_t position, unsigned count)
{
    vec sum[POSITIONS];
    conv_positions(sum, f, x, s, three, count);
    vec most = sum[0];
    UNROLL_ROWS
    for (unsigned u = 1; u < count; u++)
        most = vec_max(most, sum[u]);
    if (!any_at_least(most, best->value))
        return; /* most often so: a maximum of n is renewed about ln(n) times */
    UNROLL_ROWS
    for (unsigned u = 0; u < count; u++) {
        vec here = vec_set1((float)(position + u));
        best->first = vec_where_greater(sum[u], best->value, here, best->first);
        best->last = vec_where_at_least(sum[u], best->value, here, best->last);
        best->value = vec_max(best->value, sum[u]);
    }
}

TILE_INLINE struct conv1_best best_of_image(const struct conv1_filters *f, const float *x,
                                            const struct weir_conv1_shape *s, bool three)
{
    const size_t rows = s->height - s->kernel_height + 1, columns = s->width - s->kernel_width + 1;
    struct conv1_best best = {vec_zero(), vec_set1(-1), vec_set1(-1)};
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * s->width;
        size_t c = 0, at = r * columns;
        for (; columns - c >= POSITIONS; c += POSITIONS)
            best_of_positions(&best, f, row + c, s, three, at + c, POSITIONS);
        if (columns - c >= POSITIONS / 2) {
            best_of_positions(&best, f, row + c, s, three, at + c, POSITIONS / 2);
            c += POSITIONS / 2;
        }
        if (columns - c >= 2) {
            best_of_positions(&best, f, row + c, s, three, at + c, 2);
            c += 2;
        }
        if (columns > c)
            best_of_positions(&best, f, row + c, s, three, at + c, 1);
    }
    return best;
}

static void conv1_best(float *value, float *first, float *last, const float *x, const float *w, const float *bias,
                       size_t images, const struct weir_conv1_shape *s)
{
    const bool three = s->kernel_height == 3 && s->kernel_width == 3;
    struct conv1_filters f;
    for (size_t n = 0; n < s->filters; n += LANES) {
        filters_load(&f, w, bias, s, n);
        for (size_t lane = s->filters - n; lane < LANES; lane++)
            f.bias[lane] = -1; /* lanes without a filter never reach a maximum */
        for (size_t i = 0; i < images; i++) {
            const float *image = x + i * s->height * s->width;
            struct conv1_best best = three ? best_of_image(&f, image, s, true) : best_of_image(&f, image, s, false);
            vec_store_part(value + i * s->filters + n, f.part, best.value);
            vec_store_part(first + i * s->filters + n, f.part, best.first);
            vec_store_part(last + i * s->filters + n, f.part, best.last);
        }
    }
}

TILE_INLINE void store_positions(float *y, const struct conv1_filters *f, const float *x,
                                 const struct weir_conv1_shape *s, bool three, bool relu, unsigned count)
{
    vec sum[POSITIONS];
    conv_positions(sum, f, x, s, three, count);
    UNROLL_ROWS
    for (unsigned u = 0; u < count; u++)
        vec_store_part(y + u * s->filters, f->part, relu ? vec_relu(sum[u]) : sum[u]);
}

TILE_INLINE void store_row(float *y, const struct conv1_filters *f, const float *x, const struct weir_conv1_shape *s,
                           bool three, bool relu)
{
    size_t columns = s->width - s->kernel_width + 1, c = 0;
    for (; columns - c >= POSITIONS; c += POSITIONS)
        store_positions(y + c * s->filters, f, x + c, s, three, relu, POSITIONS);
    for (; columns - c >= 2; c += 2)
        store_positions(y + c * s->filters, f, x + c, s, three, relu, 2);
    if (columns > c)
        store_positions(y + c * s->filters, f, x + c, s, three, relu, 1);
}

static void conv1_forward(float *y, const float *x, const float *w, const float *bias, size_t images,
                          const struct weir_conv1_shape *s, bool relu)
{
    const bool three = s->kernel_height == 3 && s->kernel_width == 3;
    const size_t rows = s->height - s->kernel_height + 1, columns = s->width - s->kernel_width + 1;
    struct conv1_filters f;
    for (size_t n = 0; n < s->filters; n += LANES) {
        filters_load(&f, w, bias, s, n);
        for (size_t i = 0; i < images; i++)
            for (size_t r = 0; r < rows; r++) {
                const float *row = x + (i * s->height + r) * s->width;
                float *to = y + (i * rows + r) * columns * s->filters + n;
                if (three)
                    store_row(to, &f, row, s, true, relu);
                else
                    store_row(to, &f, row, s, false, relu);
            }
    }
}

/* sums[tap] += the inputs of that tap over all positions whose output is `value`; returns how many there are. */
static size_t conv1_ties(float *sums, const float *x, const float *w, const float *bias, float value,
                         const struct weir_conv1_shape *s)
{
    const size_t taps = s->kernel_height * s->kernel_width;
    const size_t rows = s->height - s->kernel_height + 1, columns = s->width - s->kernel_width + 1;
    vec total[WEIR_CONV1_TAPS_MOST], count = vec_zero(), start = vec_set1(bias ? *bias : 0);
    for (size_t t = 0; t < taps; t++)
        total[t] = vec_zero();
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c += LANES) {
            const mask part = mask_first(columns - c < LANES ? (unsigned)(columns - c) : LANES);
            vec in[WEIR_CONV1_TAPS_MOST], sum = start;
            for (size_t t = 0; t < taps; t++) {
                in[t] = vec_load_part(x + (r + t / s->kernel_width) * s->width + c + t % s->kernel_width, part);
                sum = vec_fma(in[t], vec_set1(w[t * s->filters]), sum);
            }
            float lanes[LANES];
            vec_store(lanes, vec_zero());
            vec_store_part(lanes, part, vec_set1(1));
            vec counts = vec_where_equal(sum, vec_set1(value), vec_load(lanes), vec_zero());
            count = vec_add(count, counts);
            for (size_t t = 0; t < taps; t++)
                total[t] = vec_fma(in[t], counts, total[t]);
        }
    float lanes[LANES], found = 0;
    for (size_t t = 0; t < taps; t++) {
        vec_store(lanes, total[t]);
        for (unsigned i = 0; i < LANES; i++)
            sums[t] += lanes[i];
    }
    vec_store(lanes, count);
    for (unsigned i = 0; i < LANES; i++)
        found += lanes[i];
    return (size_t)found;
}

/* One image's gradient of one kernel row of one vector of filters: every sum is a chain over positions. */
TILE_INLINE void weight_row(float *dw, const float *x, const float *dz, mask part, const struct weir_conv1_shape *s,
                            size_t width)
{
    const size_t rows = s->height - s->kernel_height + 1, columns = s->width - s->kernel_width + 1;
    vec sum[WEIR_CONV1_SIDE_MOST];
    for (size_t j = 0; j < width; j++)
        sum[j] = vec_zero();
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++, dz += s->filters) {
            vec d = vec_load_part(dz, part);
            UNROLL_TAPS
            for (size_t j = 0; j < width; j++)
                sum[j] = vec_fma(vec_set1(x[r * s->width + c + j]), d, sum[j]);
        }
    for (size_t j = 0; j < width; j++, dw += LANES)
        vec_store(dw, vec_add(vec_load(dw), sum[j]));
}

/* The same for a whole kernel of 3 x 3 and its bias, in one pass over dz. */
TILE_INLINE void weight_three(float *dw, float *db, const float *x, const float *dz, mask part,
                              const struct weir_conv1_shape *s)
{
    vec sum[9], bias = vec_zero();
    UNROLL_ROWS
    for (size_t t = 0; t < 9; t++)
        sum[t] = vec_zero();
    for (size_t r = 0; r + 2 < s->height; r++)
        for (size_t c = 0; c + 2 < s->width; c++, dz += s->filters) {
            vec d = vec_load_part(dz, part);
            bias = vec_add(bias, d);
            UNROLL_ROWS
            for (size_t t = 0; t < 9; t++)
                sum[t] = vec_fma(vec_set1(x[(r + t / 3) * s->width + c + t % 3]), d, sum[t]);
        }
    UNROLL_ROWS
    for (size_t t = 0; t < 9; t++)
        vec_store(dw + t * LANES, vec_add(vec_load(dw + t * LANES), sum[t]));
    vec_store(db, vec_add(vec_load(db), bias));
}

/* dw[tap][LANES] and db[LANES] += the gradients of the images, for the filters from `first`: image by image. */
static void conv1_weight_gradient(float *dw, float *db, const float *x, const float *dz, size_t images,
                                  const struct weir_conv1_shape *s, size_t first)
{
    const size_t positions = (s->height - s->kernel_height + 1) * (s->width - s->kernel_width + 1);
    const mask part = mask_first(s->filters - first < LANES ? (unsigned)(s->filters - first) : LANES);
    for (size_t i = 0; i < images; i++, x += s->height * s->width, dz += positions * s->filters) {
        if (s->kernel_height == 3 && s->kernel_width == 3) {
            weight_three(dw, db, x, dz + first, part, s);
            continue;
        }
        for (size_t k = 0; k < s->kernel_height; k++)
            weight_row(dw + k * s->kernel_width * LANES, x + k * s->width, dz + first, part, s, s->kernel_width);
        vec bias = vec_zero();
        for (size_t p = 0; p < positions; p++)
            bias = vec_add(bias, vec_load_part(dz + first + p * s->filters, part));
        vec_store(db, vec_add(vec_load(db), bias));
    }
}
