/* The inner loops of the engine, built once per instruction set (kernels_body.h).
 *
 * Every loop treats its elements alike and apart, with IEEE operations in the order that the source gives (no fused
 * multiply-add, no approximate reciprocal), so all builds give equal bits. Private to the engine.
 */
#ifndef WEIR_ENGINE_KERNELS_H
#define WEIR_ENGINE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

/* A float at any byte address: payloads start where the message puts them. */
typedef float weir_loose_float __attribute__((aligned(1), may_alias));

/* An optimizer's numbers for one update, as the loops need them. */
struct weir_step {
    float learning_rate;
    bool decay; /* w -= w * weight_decay * learning_rate goes first */
    float weight_decay;
    float momentum;
    bool nesterov, amsgrad, centered;
    float beta_1_rest, beta_2_rest; /* 1 - beta */
    float alpha;                    /* Adam's learning rate with both bias corrections */
    float epsilon;
    float rho, rho_rest;           /* rho, 1 - rho */
    double power;                  /* FTRL: -learning_rate_power */
    float l1, double_l2, shrink_2; /* FTRL: l1; 2 * (l2 + beta / (2 * learning_rate)); 2 * l2_shrinkage */
};

/* Parallel rows of `count` elements. The gradient is gradient + addend: the last addition of a sum costs no pass of its
 * own; addend NULL: gradient alone. weights_out is weights_in or does not overlap it. */
struct weir_rows {
    const weir_loose_float *gradient, *addend;
    const float *weights_in;
    float *weights_out;
    float *slots[WEIR_SLOTS_MAX];
    size_t count;
};

typedef void weir_update_loop(const struct weir_step *step, const struct weir_rows *rows);

struct weir_kernels {
    /* out = a + b; out may be a or b. */
    void (*add)(float *out, const weir_loose_float *a, const weir_loose_float *b, size_t count);
    /* out = in * scale * factor, then held to [-limit, limit]; not-a-number stays. */
    void (*shape)(float *out, const weir_loose_float *in, float scale, float factor, float limit, size_t count);
    /* The sum of squares: element i is added to lane i mod 32 in order, then lanes are added in pairs. */
    double (*squares)(const float *in, size_t count);
    /* out = in past the cache, where `out` allows it; the caller fences. */
    void (*stream)(float *out, const float *in, size_t count);
    weir_update_loop *sgd, *adam, *adagrad, *rmsprop, *ftrl;
};

extern const struct weir_kernels weir_kernels_plain;
#ifdef __x86_64__
extern const struct weir_kernels weir_kernels_avx2;
extern const struct weir_kernels weir_kernels_avx512;
#endif

#endif
