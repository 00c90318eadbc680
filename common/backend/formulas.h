/* Formulas that every backend computes: activations and their derivatives, and the exponential under them.
 *
 * Written once, as inline functions without branches that a compiler can turn into vectors. Only +, -, *, / and bit
 * operations in a fixed order, so that the bits are the same in a vector, in its remainder and on every instruction set
 * (with -ffp-contract=off). erf and log1p are the exceptions: they are libm's.
 */
#ifndef WEIR_BACKEND_FORMULAS_H
#define WEIR_BACKEND_FORMULAS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/backend.h"

#define WEIR_FORMULA static inline __attribute__((always_inline))

/* e^x, relative error below 2e-7; 0 below -87.3, infinity above 88.7. Range reduction by ln 2 in two parts (Cody and
 * Waite, "Software Manual for the Elementary Functions", 1980), then the Taylor series to the 7th power. */
WEIR_FORMULA float weir_exp(float x)
{
    const float low = -87.33654f, high = 88.72283f;
    float in = x >= low ? x : low; /* also catches NaN */
    in = in <= high ? in : high;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the integer in the lowest bits */
    float power = in * 1.44269504f + round;
    power -= round;
    float r = in - power * 0.693359375f;
    r -= power * -2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    /* 2^power as two factors: power reaches 128, beyond one exponent */
    int32_t n = (int32_t)power, half = n >> 1;
    uint32_t bits_a = (uint32_t)(half + 127) << 23, bits_b = (uint32_t)(n - half + 127) << 23;
    float a, b;
    memcpy(&a, &bits_a, sizeof a);
    memcpy(&b, &bits_b, sizeof b);
    float y = p * a * b;
    y = x < low ? 0.0f : y;
    y = x > high ? INFINITY : y;
    return x == x ? y : x;
}

WEIR_FORMULA float weir_sigmoid(float x)
{
    float e = weir_exp(x < 0 ? x : -x); /* of -|x|: never overflows */
    float s = 1.0f / (1.0f + e);
    return x < 0 ? e * s : s;
}

/* Near 0 the odd series to x^9 (1 - 2 / (e^2x + 1) would cancel). */
WEIR_FORMULA float weir_tanh(float x)
{
    float size = x < 0 ? -x : x;
    float e = weir_exp(-2.0f * size);
    float far = (1.0f - e) / (1.0f + e);
    float s = x * x;
    float near = 62.0f / 2835;
    near = near * s - 17.0f / 315;
    near = near * s + 2.0f / 15;
    near = near * s - 1.0f / 3;
    near = size + size * s * near;
    float y = size < 0.25f ? near : far;
    return x < 0 ? -y : y;
}

#define WEIR_SELU_SCALE 1.05070098735548049342f
#define WEIR_SELU_ALPHA 1.67326324235437728481f
#define WEIR_GELU_ROOT 0.79788456080286535588f /* sqrt(2 / pi) */
#define WEIR_GELU_CUBIC 0.044715f

WEIR_FORMULA float weir_relu(const struct weir_activation *a, float x)
{
    float y = x >= a->threshold ? x : a->negative_slope * (x - a->threshold);
    y = x >= a->max_value ? a->max_value : y;
    return x == x ? y : x;
}

WEIR_FORMULA float weir_relu_slope(const struct weir_activation *a, float x)
{
    float d = x > a->threshold ? 1.0f : a->negative_slope;
    return x >= a->max_value ? 0.0f : d;
}

WEIR_FORMULA float weir_gelu_tanh_inner(float x)
{
    return WEIR_GELU_ROOT * (x + WEIR_GELU_CUBIC * x * x * x);
}

/* f(x), for the elementwise kinds. `kind` stands apart from `a` so that a constant there folds the switch away. */
WEIR_FORMULA float weir_activate(enum weir_activation_kind kind, const struct weir_activation *a, float x)
{
    switch (kind) {
    case WEIR_ACTIVATION_RELU:
        return weir_relu(a, x);
    case WEIR_ACTIVATION_SIGMOID:
        return weir_sigmoid(x);
    case WEIR_ACTIVATION_TANH:
        return weir_tanh(x);
    case WEIR_ACTIVATION_ELU:
        return x > 0 ? x : a->alpha * (weir_exp(x) - 1.0f);
    case WEIR_ACTIVATION_SELU:
        return WEIR_SELU_SCALE * (x > 0 ? x : WEIR_SELU_ALPHA * (weir_exp(x) - 1.0f));
    case WEIR_ACTIVATION_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case WEIR_ACTIVATION_GELU_TANH:
        return 0.5f * x * (1.0f + weir_tanh(weir_gelu_tanh_inner(x)));
    case WEIR_ACTIVATION_SOFTPLUS:
        return (x > 0 ? x : 0) + log1pf(weir_exp(x > 0 ? -x : x));
    case WEIR_ACTIVATION_SOFTSIGN:
        return x / (1.0f + (x < 0 ? -x : x));
    case WEIR_ACTIVATION_SILU:
        return x * weir_sigmoid(x);
    case WEIR_ACTIVATION_EXPONENTIAL:
        return weir_exp(x);
    default:
        return x;
    }
}

WEIR_FORMULA float weir_gelu_tanh_slope(float x)
{
    float t = weir_tanh(weir_gelu_tanh_inner(x));
    float inner = WEIR_GELU_ROOT * (1.0f + 3.0f * WEIR_GELU_CUBIC * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

WEIR_FORMULA float weir_softsign_slope(float x)
{
    float d = 1.0f + (x < 0 ? -x : x);
    return 1.0f / (d * d);
}

/* f'(x), given y = f(x). */
WEIR_FORMULA float weir_activate_slope(enum weir_activation_kind kind, const struct weir_activation *a, float x,
                                       float y)
{
    float s;
    switch (kind) {
    case WEIR_ACTIVATION_RELU:
        return weir_relu_slope(a, x);
    case WEIR_ACTIVATION_SIGMOID:
        return y * (1.0f - y);
    case WEIR_ACTIVATION_TANH:
        return 1.0f - y * y;
    case WEIR_ACTIVATION_ELU:
        return x > 0 ? 1.0f : y + a->alpha;
    case WEIR_ACTIVATION_SELU:
        return x > 0 ? WEIR_SELU_SCALE : y + WEIR_SELU_SCALE * WEIR_SELU_ALPHA;
    case WEIR_ACTIVATION_GELU:
        return 0.5f * (1.0f + erff(x * 0.70710678f)) + x * 0.39894228f * weir_exp(-0.5f * x * x);
    case WEIR_ACTIVATION_GELU_TANH:
        return weir_gelu_tanh_slope(x);
    case WEIR_ACTIVATION_SOFTPLUS:
        return weir_sigmoid(x);
    case WEIR_ACTIVATION_SOFTSIGN:
        return weir_softsign_slope(x);
    case WEIR_ACTIVATION_SILU:
        s = weir_sigmoid(x);
        return s * (1.0f + x * (1.0f - s));
    case WEIR_ACTIVATION_EXPONENTIAL:
        return y;
    default:
        return 1.0f;
    }
}

#endif
