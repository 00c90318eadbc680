/* The loops of kernels.h. Included once by each kernels_<isa>.c, which defines WEIR_KERNELS, the name of its table.
 *
 * The formulas are those of Keras 3 (keras/src/optimizers), operation by operation. Each has one loop whose flags are
 * constants at every call, so that the compiler makes a branchless loop of each combination.
 */
#include "engine/kernels.h"

#include <math.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "engine/powers.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LANES 32

static void add(float *out, const weir_loose_float *a, const weir_loose_float *b, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

static void shape(float *out, const weir_loose_float *in, float scale, float factor, float limit, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float value = in[i] * scale * factor;
        value = value < -limit ? -limit : value;
        out[i] = value > limit ? limit : value;
    }
}

static double squares(const float *in, size_t count)
{
    double lanes[LANES] = {0};
    size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
#pragma omp simd
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += (double)in[i + j] * (double)in[i + j];
    for (size_t i = whole; i < count; i++)
        lanes[i - whole] += (double)in[i] * (double)in[i];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

#if defined(__AVX512F__)
#define STREAM_FLOATS 16
#define STREAM(to, from) _mm512_stream_ps(to, _mm512_loadu_ps(from))
#elif defined(__AVX__)
#define STREAM_FLOATS 8
#define STREAM(to, from) _mm256_stream_ps(to, _mm256_loadu_ps(from))
#elif defined(__SSE2__)
#define STREAM_FLOATS 4
#define STREAM(to, from) _mm_stream_ps(to, _mm_loadu_ps(from))
#else
#define STREAM_FLOATS 1
#define STREAM(to, from) (void)(*(to) = *(from))
#endif

static void stream(float *out, const float *in, size_t count)
{
    size_t i = 0;
    for (; i < count && (uintptr_t)(out + i) % (sizeof *out * STREAM_FLOATS); i++)
        out[i] = in[i];
    for (; i + STREAM_FLOATS <= count; i += STREAM_FLOATS)
        STREAM(out + i, in + i);
    for (; i < count; i++)
        out[i] = in[i];
}

ALWAYS_INLINE float decayed(float w, const struct weir_step step, bool decay)
{
    return decay ? w - w * step.weight_decay * step.learning_rate : w;
}

ALWAYS_INLINE float gradient_at(const struct weir_rows rows, size_t i, bool two)
{
    return two ? rows.gradient[i] + rows.addend[i] : rows.gradient[i];
}

/* Defines the update loop `name` from name_loops(step, rows, two, decay), in which the last two are constants. */
#define UPDATE_LOOP(name)                                                                                              \
    static void name(const struct weir_step *step, const struct weir_rows *rows)                                       \
    {                                                                                                                  \
        if (!rows->addend && !step->decay)                                                                             \
            name##_loops(*step, *rows, false, false);                                                                  \
        else if (!rows->addend)                                                                                        \
            name##_loops(*step, *rows, false, true);                                                                   \
        else if (!step->decay)                                                                                         \
            name##_loops(*step, *rows, true, false);                                                                   \
        else                                                                                                           \
            name##_loops(*step, *rows, true, true);                                                                    \
    }

ALWAYS_INLINE void sgd_loop(const struct weir_step step, const struct weir_rows rows, bool two, bool decay,
                            bool momentum, bool nesterov)
{
    float *velocity = rows.slots[0];
#pragma omp simd
    for (size_t i = 0; i < rows.count; i++) {
        float w = decayed(rows.weights_in[i], step, decay), down = gradient_at(rows, i, two) * step.learning_rate;
        if (momentum) {
            float m = velocity[i] * step.momentum - down;
            velocity[i] = m;
            rows.weights_out[i] = w + (nesterov ? m * step.momentum - down : m);
        } else {
            rows.weights_out[i] = w - down;
        }
    }
}

ALWAYS_INLINE void sgd_loops(const struct weir_step step, const struct weir_rows rows, bool two, bool decay)
{
    if (step.momentum == 0)
        sgd_loop(step, rows, two, decay, false, false);
    else if (!step.nesterov)
        sgd_loop(step, rows, two, decay, true, false);
    else
        sgd_loop(step, rows, two, decay, true, true);
}
UPDATE_LOOP(sgd)

ALWAYS_INLINE void adam_loop(const struct weir_step step, const struct weir_rows rows, bool two, bool decay,
                             bool amsgrad)
{
    float *momentum = rows.slots[0], *velocity = rows.slots[1], *velocity_hat = rows.slots[2];
#pragma omp simd
    for (size_t i = 0; i < rows.count; i++) {
        float w = decayed(rows.weights_in[i], step, decay), g = gradient_at(rows, i, two);
        float m = momentum[i] + (g - momentum[i]) * step.beta_1_rest;
        float v = velocity[i] + (g * g - velocity[i]) * step.beta_2_rest;
        momentum[i] = m;
        velocity[i] = v;
        if (amsgrad) {
            v = velocity_hat[i] > v ? velocity_hat[i] : v; /* not-a-number in v stays visible */
            velocity_hat[i] = v;
        }
        rows.weights_out[i] = w - m * step.alpha / (sqrtf(v) + step.epsilon);
    }
}

ALWAYS_INLINE void adam_loops(const struct weir_step step, const struct weir_rows rows, bool two, bool decay)
{
    if (step.amsgrad)
        adam_loop(step, rows, two, decay, true);
    else
        adam_loop(step, rows, two, decay, false);
}
UPDATE_LOOP(adam)

ALWAYS_INLINE void adagrad_loops(const struct weir_step step, const struct weir_rows rows, bool two, bool decay)
{
    float *accumulator = rows.slots[0];
#pragma omp simd
    for (size_t i = 0; i < rows.count; i++) {
        float w = decayed(rows.weights_in[i], step, decay), g = gradient_at(rows, i, two);
        float sum = accumulator[i] + g * g;
        accumulator[i] = sum;
        rows.weights_out[i] = w - step.learning_rate * g / sqrtf(sum + step.epsilon);
    }
}
UPDATE_LOOP(adagrad)

/* Slots: velocity, then momentum if there is one, then the average gradient if centered. */
ALWAYS_INLINE void rmsprop_loop(const struct weir_step step, const struct weir_rows rows, bool two, bool decay,
                                bool momentum, bool centered)
{
    float *velocity = rows.slots[0], *running = rows.slots[1], *average = rows.slots[momentum ? 2 : 1];
#pragma omp simd
    for (size_t i = 0; i < rows.count; i++) {
        float w = decayed(rows.weights_in[i], step, decay), g = gradient_at(rows, i, two);
        float v = step.rho * velocity[i] + step.rho_rest * (g * g);
        velocity[i] = v;
        if (centered) {
            float mean = step.rho * average[i] + step.rho_rest * g;
            average[i] = mean;
            v = v - mean * mean;
        }
        float down = step.learning_rate * g / sqrtf(v + step.epsilon);
        if (momentum) {
            down = step.momentum * running[i] + down;
            running[i] = down;
        }
        rows.weights_out[i] = w - down;
    }
}

ALWAYS_INLINE void rmsprop_loops(const struct weir_step step, const struct weir_rows rows, bool two, bool decay)
{
    if (!(step.momentum > 0) && !step.centered)
        rmsprop_loop(step, rows, two, decay, false, false);
    else if (!(step.momentum > 0))
        rmsprop_loop(step, rows, two, decay, false, true);
    else if (!step.centered)
        rmsprop_loop(step, rows, two, decay, true, false);
    else
        rmsprop_loop(step, rows, two, decay, true, true);
}
UPDATE_LOOP(rmsprop)

ALWAYS_INLINE float ftrl_power(float x, double power, bool square_root)
{
    return square_root ? sqrtf(x) : (float)weir_math_pow(x, power);
}

ALWAYS_INLINE void ftrl_element(const struct weir_step step, const struct weir_rows rows, size_t i, bool two,
                                bool decay, bool square_root)
{
    float *accumulator = rows.slots[0], *linear = rows.slots[1];
    float w = decayed(rows.weights_in[i], step, decay), g = gradient_at(rows, i, two);
    float sum = accumulator[i] + g * g;
    float power = ftrl_power(sum, step.power, square_root);
    float growth = (power - ftrl_power(accumulator[i], step.power, square_root)) / step.learning_rate;
    float line = linear[i] + ((g + step.shrink_2 * w) - growth * w);
    float held = line < -step.l1 ? -step.l1 : line;
    held = held > step.l1 ? step.l1 : held;
    accumulator[i] = sum;
    linear[i] = line;
    rows.weights_out[i] = (held - line) / (power / step.learning_rate + step.double_l2);
}

ALWAYS_INLINE void ftrl_loops(const struct weir_step step, const struct weir_rows rows, bool two, bool decay)
{
    if (step.power != 0.5) { /* the series of pow make no vectors */
        for (size_t i = 0; i < rows.count; i++)
            ftrl_element(step, rows, i, two, decay, false);
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < rows.count; i++)
        ftrl_element(step, rows, i, two, decay, true);
}
UPDATE_LOOP(ftrl)

const struct weir_kernels WEIR_KERNELS = {
    .add = add,
    .shape = shape,
    .squares = squares,
    .stream = stream,
    .sgd = sgd,
    .adam = adam,
    .adagrad = adagrad,
    .rmsprop = rmsprop,
    .ftrl = ftrl,
};
