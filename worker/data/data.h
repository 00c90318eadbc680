/* A data set: samples that can be read at random, and the order in which a job reads them.
 *
 * Sample i of epoch e is a keyed permutation, so any process reads the samples of any (step, replica) without an
 * iterator to share or to restore.
 */
#ifndef WEIR_DATA_DATA_H
#define WEIR_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

struct weir_dataset; /* read-only once open; any thread may gather from it */

/* Reads the files of `config` ("idx": x and y, plain or gzip), whole, into memory. NULL, and an error that names the
 * file and what is wrong with it. Files are not trusted: none takes more memory than it declares and can hold. */
struct weir_dataset *weir_dataset_open(const struct weir_data_config *config, struct weir_error *err);
void weir_dataset_close(struct weir_dataset *dataset);

uint64_t weir_dataset_samples(const struct weir_dataset *dataset);
/* The shape of one sample's x and y, without the batch dimension (at most 4 dimensions); returns their number. A scalar
 * label has 0 dimensions. */
size_t weir_dataset_x_shape(const struct weir_dataset *dataset, size_t shape[4]);
size_t weir_dataset_y_shape(const struct weir_dataset *dataset, size_t shape[4]);
/* False, and an error that names file, record and label, if a label is not an integer in [0, limit). */
bool weir_dataset_check_labels(const struct weir_dataset *dataset, uint64_t limit, struct weir_error *err);

/* Gathers `count` samples: row k of x and y is sample index[k]. x is (float)element * (float)scale, one fp32 product;
 * y is not scaled. The same bits with every instruction set (AVX-512, AVX2 or neither). */
void weir_dataset_gather(const struct weir_dataset *dataset, const uint64_t *index, size_t count, float *x, float *y);

/* ---- the order */

/* A keyed permutation of [0, n): weir_permutation_at is a bijection for every n and key (a Feistel network over the
 * next even power of two, cycle-walking). */
struct weir_permutation {
    uint64_t n, mask;
    uint32_t half_bits;
    uint32_t round_key[8];
};
void weir_permutation_init(struct weir_permutation *permutation, uint64_t n, uint64_t seed, uint64_t epoch);
uint64_t weir_permutation_at(const struct weir_permutation *permutation, uint64_t i);

/* How a job walks through a data set. Pure arithmetic. */
struct weir_walk {
    uint64_t samples; /* of the data set */
    uint32_t batch_size, replicas;
    uint32_t steps_per_epoch; /* > 0 */
    bool shuffle;
    uint64_t seed;
};

/* Steps in one pass over `samples`: 0 if the remainder is dropped and the batch is larger than the set. */
uint32_t weir_walk_steps(uint64_t samples, uint32_t batch_size, bool drop_remainder);
/* The number b of samples present in the global batch of step `step` (0-based over the whole job). With
 * steps_per_epoch beyond one pass an epoch wraps round, so that batches there are whole; each pass is shuffled anew. */
uint32_t weir_walk_batch(const struct weir_walk *walk, uint64_t step);
/* Samples in the batches of one epoch. */
uint64_t weir_walk_epoch_samples(const struct weir_walk *walk);
/* Replica r takes rows [*first, *first + *count) of the batch: floor(r b / R) to floor((r + 1) b / R) - 1. */
void weir_walk_replica(const struct weir_walk *walk, uint32_t batch, uint32_t replica, uint32_t *first,
                       uint32_t *count);
/* The sample indices of rows [first, first + count) of the global batch of `step`. */
void weir_walk_indices(const struct weir_walk *walk, uint64_t step, uint32_t first, uint32_t count, uint64_t *index);

/* ---- ahead of time */

/* A thread that gathers the coming batches of the hosted rows while the current ones are computed. */
struct weir_prefetch;

/* Which samples the batch of `step` has (a callback, so that the hosted replicas decide): fills index[0..max_rows) with
 * sample numbers and returns how many; 0 if there are none, or after the last step. */
typedef size_t (*weir_prefetch_rows)(void *context, uint64_t step, uint64_t *index);

/* `depth` batches ahead (>= 1) of at most `max_rows` rows, starting with `first_step`. `rows` is called on the thread,
 * for one step at a time, until stop returns. NULL if the system gives no thread (errno says why). */
struct weir_prefetch *weir_prefetch_start(const struct weir_dataset *dataset, weir_prefetch_rows rows, void *context,
                                          uint64_t first_step, size_t max_rows, uint32_t depth);
/* Waits for the batch of `step`: steps are taken in order; another step than the next restarts the pipeline there. The
 * tensors are valid until the next take or stop. Returns the number of rows. After a step without rows nothing is
 * gathered ahead: `rows` is asked again when the next one is taken. One taker at a time. */
size_t weir_prefetch_take(struct weir_prefetch *prefetch, uint64_t step, const float **x, const float **y);
/* At any time, also in mid-batch; waits for the thread. NULL is allowed. */
void weir_prefetch_stop(struct weir_prefetch *prefetch);

#endif
