/* A Keras model as a graph of layers, and the computation of one replica's (or several replicas') step on it.
 *
 * Variables live in one flat array of floats (struct weir_variable says where); weights and gradients have the same
 * layout. A gradient written here is that of the SUM of the samples' losses times `loss_scale` given to the step
 * (1 / samples of the global batch), so that the sum over replicas is the gradient of the global mean.
 */
#ifndef WEIR_MODEL_MODEL_H
#define WEIR_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

#define WEIR_VARIABLE_ALIGN 16 /* floats: every variable starts at a multiple of 64 bytes */
#define WEIR_DIMS_MAX 5

enum weir_initializer_kind {
    WEIR_INIT_ZEROS,
    WEIR_INIT_ONES,
    WEIR_INIT_CONSTANT,
    WEIR_INIT_UNIFORM, /* [low, high): glorot_uniform and its kin, resolved to bounds */
    WEIR_INIT_NORMAL,
    WEIR_INIT_TRUNCATED_NORMAL,
};

struct weir_variable {
    char name[128]; /* as Keras: "conv2d/kernel" */
    size_t shape[WEIR_DIMS_MAX], dims;
    uint64_t offset, elements; /* floats, in the flat array */
    enum weir_initializer_kind init;
    float a, b; /* bounds, or mean and deviation, or the constant */
};

struct weir_model; /* the graph; read-only after parsing, shared by all threads */

/* Parses a Sequential model of Keras 2 or 3. Errors name the layer ("layer 3 (conv2d_1): ..."). `path` is for
 * messages. */
struct weir_model *weir_model_parse(const char *json, size_t bytes, const char *path, struct weir_error *err);
void weir_model_free(struct weir_model *model);

size_t weir_model_variables(const struct weir_model *model, const struct weir_variable **variables);
/* Length of the flat array in floats: the end of the last variable, rounded up to WEIR_VARIABLE_ALIGN. */
uint64_t weir_model_flat_elements(const struct weir_model *model);
/* The shape of one sample at input and output, without the batch dimension. */
size_t weir_model_input(const struct weir_model *model, size_t shape[WEIR_DIMS_MAX]);
size_t weir_model_output(const struct weir_model *model, size_t shape[WEIR_DIMS_MAX]);
/* Checks that data of that shape fits: names the first layer and both shapes otherwise. Also resolves what depends on
 * loss and data: which accuracy "accuracy" is; whether labels are class numbers (then *label_limit is the number of
 * classes, else 0). */
bool weir_model_bind(struct weir_model *model, struct weir_job *job, const size_t *x_shape, size_t x_dims,
                     const size_t *y_shape, size_t y_dims, uint64_t *label_limit, struct weir_error *err);
/* A table of layers, shapes and parameters, as Keras's summary(); the caller frees it. */
char *weir_model_describe(const struct weir_model *model);

/* The initial values of flat elements [first, first + count), a pure function of (seed, variable, element): any
 * range, same bits. Padding is 0. */
void weir_model_initial(const struct weir_variable *variables, size_t variable_count, uint64_t seed, uint64_t first,
                        uint64_t count, float *out);

/* ---- computing */

struct weir_replica_rows {
    uint32_t first, count; /* rows of the hosted batch */
};

/* One thread's scratch memory and primitives for up to `max_rows` rows. Sets up its thread for compute (one OpenMP
 * thread, denormals flushed) at first use; used by one thread at a time. */
struct weir_compute;

struct weir_compute *weir_compute_new(const struct weir_model *model, const struct weir_job *job, uint32_t max_rows,
                                      struct weir_error *err);
void weir_compute_free(struct weir_compute *compute);
/* About how much memory that takes; more than a machine has may be asked for. */
double weir_compute_bytes(const struct weir_model *model, uint32_t max_rows);

/* What one step or validation batch of one replica came to. */
struct weir_sums {
    double samples;
    double loss;                     /* sum over samples */
    double metric[WEIR_METRICS_MAX]; /* sums; divided by samples they are Keras's values */
};

/* Which contributions to make of the replicas: a node of the sum tree is a set of consecutive replicas whose gradients
 * are summed along the tree (see protocol/tree.h) into one flat gradient. */
struct weir_gradient_node {
    uint32_t first_replica, replica_count; /* indices into the replicas of this call, an aligned subtree or a cut one */
    float *gradient;                       /* flat; every element is written (padding: 0) */
    bool empty;                            /* out: no sample: gradient was not written */
};

struct weir_step_input {
    uint64_t step;
    uint64_t seed;
    const float *weights; /* flat */
    const float *x, *y;   /* rows of all hosted replicas, consecutive, in replica order */
    const struct weir_replica_rows *replicas;
    const uint32_t *replica_ids;  /* global replica numbers, ascending */
    const uint32_t *replica_row0; /* each replica's first row in the global batch (keys dropout) */
    uint32_t replica_count;
    float loss_scale; /* 1 / samples of the global batch */
    struct weir_gradient_node *nodes;
    uint32_t node_count;
    /* Called during the backward pass, on the computing thread: all gradients at flat offsets >= `offset` are final in
     * every node, and the weights there are no longer read. NULL for no calls. The last call has offset 0. */
    void (*ready)(void *context, uint64_t offset);
    void *ready_context;
};

/* Forward and backward: fills nodes' gradients and sums[replica]. With several replicas, forward and input gradients
 * run once for all rows where rows do not depend on their number, and weight gradients replica by replica, summed along
 * the tree: the same bits as replica by replica in separate calls. */
void weir_compute_step(struct weir_compute *compute, const struct weir_step_input *input, struct weir_sums *sums);

/* Forward only, no dropout: the sums over `rows` rows; each row's bits do not depend on `rows`. */
void weir_compute_evaluate(struct weir_compute *compute, const float *weights, const float *x, const float *y,
                           uint32_t rows, struct weir_sums *sums);

/* to[i] += from[i] for i < count, with the bits of the sums along the tree that a step makes. On the computing thread,
 * inside `ready` or after a step (denormals are flushed as there). */
void weir_compute_add(const struct weir_compute *compute, float *to, const float *from, size_t count);

/* What the bits depend on: instruction set, caches, library versions. "cpu avx512 oneDNN 2.6.3 l1 48K l2 2048K ..." */
void weir_compute_fingerprint(char *text, size_t bytes);

#endif
