/* The backend's operations and losses in float64, written from their definitions and nothing else: no vectors, no
 * blocking, no sharing with the code that is tested. Central differences check its gradients.
 */
#ifndef WEIR_REFERENCE_REFERENCE_H
#define WEIR_REFERENCE_REFERENCE_H

#include "backend/backend.h"

/* Rows as in backend.h. Dropout is not here: it is random. */
void weir_reference_forward(const struct weir_op_desc *desc, size_t rows, const double *x, const double *kernel,
                            const double *bias, double *y);

/* The gradients of sum(y dy): dx, and dkernel and dbias (NULL where there are none), all overwritten. */
void weir_reference_backward(const struct weir_op_desc *desc, size_t rows, const double *x, const double *kernel,
                             const double *bias, const double *y, const double *dy, double *dx, double *dkernel,
                             double *dbias);

/* Elements of the kernel; 0 without. */
size_t weir_reference_kernel_elements(const struct weir_op_desc *desc);
size_t weir_reference_bias_elements(const struct weir_op_desc *desc);

double weir_reference_activate(const struct weir_activation *activation, double x);
double weir_reference_activate_slope(const struct weir_activation *activation, double x);

/* One row's loss. `output`: logits if the loss is of logits or desc->last makes it so, else the prediction; [positions]
 * [width]. dy (or NULL): its gradient with respect to `output`. */
double weir_reference_loss(const struct weir_loss_desc *desc, const double *output, const float *labels, double *dy);

#endif
