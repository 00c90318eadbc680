/* Convolutions of images with one channel, fp32, one thread each: direct kernels for the first layer of a CNN.
 *
 * x[images][height][width], w[kernel_height][kernel_width][filters] (Keras's HWIO layout with I = 1), bias[filters],
 * y[images][y_height][y_width][filters]; stride 1, padding "valid". Any alignment, nothing is allocated, any thread. x
 * must be finite for gradients to be. Every output is one multiply-add chain over (row, column) of the kernel that
 * begins with the bias, so its bits do not depend on the number of images; fused and unfused forms agree bit for bit.
 */
#ifndef WEIR_CPU_CONV1_H
#define WEIR_CPU_CONV1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/gemm.h"

struct weir_conv1_shape {
    size_t height, width; /* of an image */
    size_t kernel_height, kernel_width;
    size_t filters;
};

/* What the kernels below can do: kernels of at most 7 x 7 that fit the image. All else is oneDNN's. */
bool weir_conv1_supports(const struct weir_conv1_shape *shape);

/* y = conv(x, w) + bias, then max(., 0) if `relu`. `bias` may be NULL. */
void weir_conv1_forward(float *y, const float *x, const float *w, const float *bias_or_null, size_t images,
                        const struct weir_conv1_shape *shape, bool relu);

/* dw = the sum over replicas of the gradient of w, db the same of bias, from dz (the gradient of y before relu), along
 * weir_gemm_weight_gradient's tree; ranges count images. db may be NULL. All empty: zeros. */
void weir_conv1_weight_gradient(float *dw, float *db_or_null, const float *x, const float *dz,
                                const struct weir_row_range *replicas, size_t replica_count,
                                const struct weir_conv1_shape *shape);

/* pooled[images][filters] = GlobalMaxPooling of relu(conv(x, w) + bias), without y in memory.
 * where[images][filters] is the first position (row * y_width + column) of the maximum; -1 where it is not > 0 (no
 * gradient flows there: every position is 0 and relu' is 0); -2 - position where the maximum occurs more than once.
 * An image or filter with a NaN or infinity makes its outputs NaN (position -1). Returns whether there are ties.
 * `scratch`: weir_conv1_scratch_bytes() of the most images, used by one call at a time. */
size_t weir_conv1_scratch_bytes(size_t max_images, const struct weir_conv1_shape *shape);
bool weir_conv1_relu_global_max_forward(float *pooled, int32_t *where, const float *x, const float *w,
                                        const float *bias_or_null, size_t images, const struct weir_conv1_shape *shape,
                                        void *scratch);

/* dw and db of the above from d_pooled[images][filters]; equal maxima share their gradient evenly, as TensorFlow does.
 * pooled, where, w and bias are those of the forward pass. Tree and ranges as in weir_conv1_weight_gradient. */
void weir_conv1_relu_global_max_gradient(float *dw, float *db_or_null, const float *d_pooled, const float *pooled,
                                         const int32_t *where, const float *x, const float *w,
                                         const float *bias_or_null, const struct weir_row_range *replicas,
                                         size_t replica_count, const struct weir_conv1_shape *shape);

#endif
