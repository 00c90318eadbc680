/* Products of dense layers in fp32, and their gradients: weir's own kernels, one thread each.
 *
 * Matrices are row-major without padding, kernels in Keras's layout w[in][out]. Any size, 0 included, and any alignment
 * (64 bytes is fastest). Outputs may not overlap inputs. Nothing is allocated: `scratch` is at least
 * weir_gemm_scratch_bytes() of the largest sizes, at a multiple of 64 bytes, used by one call at a time. Any number of
 * threads may call at once, each with its own scratch.
 *
 * Every element of a product is one chain of fused multiply-adds in ascending order of the summed index, that begins
 * with the bias or 0. So its bits depend neither on the number of rows nor on blocking, alignment or thread, and AVX2
 * and AVX-512 agree. (WEIR_ISA_PLAIN rounds the product too; all else holds.)
 */
#ifndef WEIR_CPU_GEMM_H
#define WEIR_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

size_t weir_gemm_scratch_bytes(size_t max_rows, size_t max_in, size_t max_out);

/* y[rows][out] = x[rows][in] w[in][out] + bias[out] (none if NULL), then max(., 0) if `relu` (NaN stays NaN). */
void weir_gemm_forward(float *y, const float *x, const float *w, const float *bias_or_null, size_t rows, size_t in,
                       size_t out, bool relu, void *scratch);

/* dx[rows][in] = dz[rows][out] w[in][out]^T. */
void weir_gemm_input_gradient(float *dx, const float *dz, const float *w, size_t rows, size_t in, size_t out,
                              void *scratch);

/* dw[in][out] = the sum over replicas r of x_r^T dz_r, along the fixed tree over positions in `replicas`:
 * sum(a, n) = n == 1 ? g(a) : sum(a, p) + sum(a + p, n - p), p the largest power of two < n. A replica without rows, or
 * a subtree of such, passes its sibling through (nothing is added: -0 stays -0). The bits are those of one call per
 * replica and additions along the tree. All empty: zeros. The ranges' rows together are at most scratch's max_rows.
 * The watcher is told as rows become final: at least once, the last time of row 0, unless all are empty or a size is 0.
 */
void weir_gemm_weight_gradient(float *dw, const float *x, const float *dz, const struct weir_row_range *replicas,
                               size_t replica_count, size_t in, size_t out,
                               const struct weir_op_watcher *watcher_or_null, void *scratch);

/* db[out] = column sums of dz, by the same tree. */
void weir_gemm_bias_gradient(float *db, const float *dz, const struct weir_row_range *replicas, size_t replica_count,
                             size_t out, void *scratch);

/* dz[i] = y[i] > 0 ? dz[i] : 0 for i < count, in place; y is the layer's output after relu. NaN counts as not > 0. */
void weir_relu_gradient(float *dz, const float *y, size_t count);

/* Whether these kernels are as fast as oneDNN's dnnl_sgemm for a dense layer, within 1 %: forward and both gradients
 * together, as measured (figures in gemm.c). Only speed: dnnl_sgemm keeps neither rows nor replicas apart. */
bool weir_gemm_wins(size_t rows, size_t in, size_t out);

#endif
