/* What the CPU's operations share: how they are made, their common scratch memory, and the sum tree over replicas. */
#ifndef WEIR_CPU_OP_H
#define WEIR_CPU_OP_H

#include <dnnl.h>

#include "backend/backend.h"

struct weir_backend_context {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    /* Scratch that one pass of one operation uses at a time; as large as the largest reservation. Operations read the
     * pointer when they run, since a later one may have made it larger. */
    void *scratch;
    size_t scratch_bytes;
    float *tree; /* WEIR_TREE_LEVELS * WEIR_TREE_TILE floats */
};

struct weir_op_class {
    struct weir_op *(*make)(struct weir_backend_context *context, const struct weir_op_desc *desc, uint32_t max_rows,
                            struct weir_error *err);
    void (*destroy)(struct weir_op *op); /* NULL: free() */
    void (*forward)(struct weir_op *op, const struct weir_op_pass *pass);
    void (*backward)(struct weir_op *op, const struct weir_op_pass *pass);
};

/* The head of every operation's own struct. */
struct weir_op {
    const struct weir_op_class *class;
    struct weir_backend_context *context;
    struct weir_op_desc desc;
    uint32_t max_rows;
};

extern const struct weir_op_class weir_cpu_dense;
extern const struct weir_op_class weir_cpu_conv2d;
extern const struct weir_op_class weir_cpu_conv1;
extern const struct weir_op_class weir_cpu_conv1_global_max;
extern const struct weir_op_class weir_cpu_max_pool2d;
extern const struct weir_op_class weir_cpu_average_pool2d;
extern const struct weir_op_class weir_cpu_global_max_pool;
extern const struct weir_op_class weir_cpu_global_average_pool;
extern const struct weir_op_class weir_cpu_activation;
extern const struct weir_op_class weir_cpu_softmax;
extern const struct weir_op_class weir_cpu_dropout;
extern const struct weir_op_class weir_cpu_scale;

/* Whether weir_cpu_conv1 and weir_cpu_conv1_global_max can do this convolution. */
bool weir_cpu_conv1_supports(const struct weir_op_desc *desc);

/* An operation without state of its own. */
struct weir_op *weir_cpu_op_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                 uint32_t max_rows, struct weir_error *err);

/* Makes the context's scratch at least that large. */
void weir_cpu_reserve(struct weir_backend_context *context, size_t bytes);

/* An error that says which call of oneDNN refused. Returns false. */
bool weir_cpu_dnnl_error(struct weir_error *err, const char *call, dnnl_status_t status);

/* ---- sums along the tree */

#define WEIR_TREE_TILE ((size_t)65536) /* floats that a leaf may have at once: 256 KiB, in the second-level cache */
#define WEIR_TREE_LEVELS 33            /* more halvings than a 32-bit number of replicas allows */

/* Writes to `out` the tile of the gradient of one replica's rows. */
typedef void (*weir_tree_leaf)(void *context, const struct weir_row_range *rows, float *out);

/* Sums `count` floats over the replicas into `out`. `tree`: room for WEIR_TREE_LEVELS times `count` (less will do where
 * there are fewer replicas with rows); the context's has that for WEIR_TREE_TILE. */
void weir_cpu_tree_sum(float *tree, const struct weir_row_range *replicas, size_t replica_count, size_t count,
                       weir_tree_leaf leaf, void *leaf_context, float *out);

/* out[0..width) = the sum of rows [first, first + count) of `x`, each row `repeat` vectors of `width`, in order. */
void weir_cpu_column_sum(float *out, const float *x, const struct weir_row_range *rows, size_t repeat, size_t width);
/* The bias's gradient, for a bias of any width. */
void weir_cpu_bias_gradient(float *tree, const struct weir_op_gradient *gradient, const float *dz, size_t repeat,
                            size_t width);

/* ---- plain loops over floats, on the widest instruction set; the bits do not depend on which */

void weir_cpu_add(float *out, const float *x, size_t count);                               /* out += x */
void weir_cpu_add_bias(float *y, const float *bias, size_t rows, size_t width, bool relu); /* in place */

/* The loss and the metrics. */
void weir_cpu_loss(struct weir_backend_context *context, const struct weir_loss_desc *desc,
                   const struct weir_loss_pass *pass);

#endif
