/* What a model needs of the hardware: operations, forward and backward, behind one table of functions.
 *
 * An operation works on rows (samples) that lie one after the other, fp32, images as height x width x channels. It is
 * made once, for at most `max_rows` rows, and then allocates nothing. A row's result depends on that row only, to the
 * bit: not on how many rows there are, nor where it stands (dropout apart, which its global row number keys). Weight
 * gradients are made for each replica (a range of rows) by itself and summed along the tree of replica numbers, so they
 * do not depend on which replicas share a call either.
 *
 * Buffers y, dy and dx have room for `rows` rounded up to WEIR_ROWS_PAD; what lies in the rows beyond is scratch. A
 * context and its operations belong to one thread at a time.
 */
#ifndef WEIR_BACKEND_BACKEND_H
#define WEIR_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

#define WEIR_ROWS_PAD 16

enum weir_activation_kind {
    WEIR_ACTIVATION_LINEAR,
    WEIR_ACTIVATION_RELU, /* max_value, negative_slope, threshold */
    WEIR_ACTIVATION_SIGMOID,
    WEIR_ACTIVATION_TANH,
    WEIR_ACTIVATION_ELU, /* alpha */
    WEIR_ACTIVATION_SELU,
    WEIR_ACTIVATION_GELU,      /* by the error function */
    WEIR_ACTIVATION_GELU_TANH, /* Keras's approximate=True */
    WEIR_ACTIVATION_SOFTPLUS,
    WEIR_ACTIVATION_SOFTSIGN,
    WEIR_ACTIVATION_SILU,
    WEIR_ACTIVATION_EXPONENTIAL,
    WEIR_ACTIVATION_SOFTMAX, /* not elementwise: WEIR_OP_SOFTMAX */
    WEIR_ACTIVATION_KINDS
};

struct weir_activation {
    enum weir_activation_kind kind;
    float alpha;
    float max_value, negative_slope, threshold; /* no maximum: INFINITY */
};

enum weir_op_kind {
    WEIR_OP_DENSE, /* y = x kernel + bias over the last axis: `positions` vectors a row, kernel [in_width][out_width] */
    WEIR_OP_CONV2D,            /* kernel [kernel_h][kernel_w][channels in][channels out] */
    WEIR_OP_CONV2D_GLOBAL_MAX, /* fused: convolution of one channel, relu, global maximum; `first` only */
    WEIR_OP_MAX_POOL2D,        /* the gradient goes to the first maximum of a window */
    WEIR_OP_AVERAGE_POOL2D,    /* padding does not count */
    WEIR_OP_GLOBAL_MAX_POOL,   /* the gradient is split evenly among equal maxima */
    WEIR_OP_GLOBAL_AVERAGE_POOL,
    WEIR_OP_ACTIVATION,
    WEIR_OP_SOFTMAX, /* over the last axis: `positions` vectors of `in_width` */
    WEIR_OP_DROPOUT,
    WEIR_OP_SCALE, /* y = x scale + offset */
    WEIR_OP_KINDS
};

struct weir_image {
    size_t height, width, channels;
};

struct weir_op_desc {
    enum weir_op_kind kind;
    size_t in, out;                        /* elements of a row of x and y, > 0 */
    size_t positions, in_width, out_width; /* DENSE, SOFTMAX */
    struct weir_image image, result;       /* convolution and pooling (CONV2D_GLOBAL_MAX: result before the maximum) */
    size_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    bool first;          /* no operation before it has weights: nobody asks for its dx */
    bool has_bias, relu; /* DENSE, CONV2D: relu of the result, in the same pass */
    struct weir_activation activation;
    float rate;          /* DROPOUT: the part that is dropped, [0, 1) */
    uint32_t stream;     /* DROPOUT: the layer's number, keys the random numbers */
    float scale, offset; /* SCALE */
};

struct weir_row_range {
    uint32_t first, count; /* rows of the hosted batch that one replica owns; count 0: a replica without samples */
};

/* Where the weight gradient of some consecutive replicas goes: the sum along the tree over all `replica_count` (p = the
 * largest power of two below n: sum(a, n) = sum(a, p) + sum(a + p, n - p)); those without rows are passed over. At
 * least one has rows. */
struct weir_op_gradient {
    const struct weir_row_range *replicas;
    size_t replica_count;
    float *kernel, *bias; /* written, not added to; bias NULL without one */
};

/* Told, on the calling thread, as a kernel's gradient becomes final, from its last row to its first (an operation may
 * tell or not): the rows from `row` on and the bias, of all gradients of the pass. The pass reads the kernel there no
 * more. */
struct weir_op_watcher {
    void (*rows_final)(void *context, size_t row);
    void *context;
};

/* The arguments of one pass. Forward reads x and writes y. Backward reads x, y and dy (and may overwrite dy), writes dx
 * unless it is NULL, and the gradients. */
struct weir_op_pass {
    uint32_t rows;
    const float *x;
    float *y;
    const float *kernel, *bias;
    float *dy, *dx;
    const struct weir_op_gradient *gradients;
    size_t gradient_count;
    const struct weir_op_watcher *watcher; /* of backward; NULL: none */
    /* What keys dropout; not training: x passes unchanged. */
    bool training;
    uint64_t seed, step;
    const struct weir_row_range *replicas; /* of all rows, in order */
    const uint32_t *replica_row0;          /* each replica's first row in the global batch */
    size_t replica_count;
};

/* A loss over rows of `positions` vectors of `width`, and metrics of the same outputs; all are means over positions
 * (and over the width, where Keras takes that mean). */
struct weir_loss_desc {
    struct weir_loss_config loss;
    const struct weir_metric_config *metrics; /* none is WEIR_METRIC_ACCURACY any more */
    size_t metric_count;
    size_t positions, width;
    size_t label_width;             /* labels per position: 1 for class numbers, else `width` */
    enum weir_activation_kind last; /* the model's last activation, which made the prediction out of the logits */
};

/* The arguments of the loss. `logits`: what the model's last softmax or sigmoid read (not used if it ends with
 * neither); a loss of probabilities is taken from there, as Keras does (weir_loss_from_last_logits). */
struct weir_loss_pass {
    uint32_t rows;
    const float *prediction, *logits;
    const float *labels;
    float *values; /* out: [1 + metric_count][rows], loss first */
    float *dy; /* out, if not NULL: the gradient times `scale`, with respect to the logits if the loss was taken there,
                  else to the prediction */
    float scale;
};

struct weir_backend_context; /* of one compute thread */
struct weir_op;

struct weir_backend {
    const char *name; /* "cpu" */
    /* NULL, and an error, if the device or its library refuses. */
    struct weir_backend_context *(*context_new)(struct weir_error *err);
    void (*context_free)(struct weir_backend_context *context); /* after its operations */
    /* To be called on the computing thread before a step's passes: puts the thread into the state that the bits depend
     * on. Cheap. */
    void (*begin)(struct weir_backend_context *context);
    bool (*supports)(const struct weir_op_desc *desc); /* for fused kinds: whether it has them for these sizes */
    struct weir_op *(*op_new)(struct weir_backend_context *context, const struct weir_op_desc *desc, uint32_t max_rows,
                              struct weir_error *err);
    void (*op_free)(struct weir_op *op);
    void (*forward)(struct weir_op *op, const struct weir_op_pass *pass);
    void (*backward)(struct weir_op *op, const struct weir_op_pass *pass);
    void (*loss)(struct weir_backend_context *context, const struct weir_loss_desc *desc,
                 const struct weir_loss_pass *pass);
    /* to[i] += from[i] for i < count; they do not overlap. The additions of the tree: gradients that were made by
     * several contexts are summed with it to the same bits as by one. */
    void (*add)(float *to, const float *from, size_t count);
    void (*fingerprint)(char *text, size_t bytes); /* what the bits depend on */
};

/* Whether the loss is taken from the logits of a last softmax or sigmoid (`last`). Keras on TensorFlow does so in all
 * crossentropies, whichever of the two it was and whatever `from_logits` says: _get_logits of its backend. */
static inline bool weir_loss_from_last_logits(const struct weir_loss_config *loss, enum weir_activation_kind last)
{
    return loss->kind != WEIR_LOSS_MEAN_SQUARED_ERROR &&
           (last == WEIR_ACTIVATION_SOFTMAX || last == WEIR_ACTIVATION_SIGMOID);
}

#endif
