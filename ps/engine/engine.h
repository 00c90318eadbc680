/* The chunk engine: one fused pass of tree sum, optimizer and write, straight from received slices.
 *
 * Not pure (it works on memory it is given) but without I/O, clock or threads: one lane owns one engine. The
 * instruction set (plain, AVX2, AVX-512) is chosen by function pointers at start; all give equal bits.
 */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/config.h"

#define WEIR_SLOTS_MAX 3

/* One contribution's payload: `slice_count` slices, together exactly 4 * elements bytes of little-endian fp32; they may
 * be cut anywhere, also inside a float. */
struct weir_operand {
    const struct weir_slice *slices;
    size_t slice_count;
};

/* The sum of operands in the shape of the tree: postfix program over operands. value >= 0: push operand[value];
 * WEIR_SUM_ADD: pop b, pop a, push a + b. An empty program (length 0) is a sum of no contributions: all zeros. */
#define WEIR_SUM_ADD (-1)
struct weir_sum_program {
    const int16_t *code;
    size_t length;
    const struct weir_operand *operands;
    size_t operand_count; /* <= WEIR_OPERANDS_MAX */
};
#define WEIR_OPERANDS_MAX 1024

/* What the record decided for this step. */
struct weir_update {
    double learning_rate;
    uint64_t iteration;           /* number of updates before this one: Keras's `iterations` */
    double scale;                 /* multiplies the sum first: global_clipnorm's factor, 1 / loss scale; 1.0 for none */
    const double *variable_scale; /* clipnorm: a factor for each variable number; NULL for none */
};

/* A run of a chunk that belongs to one variable (pieces end at variables' ends and 64 Ki-parameter blocks of the flat
 * space); padding belongs to none. */
struct weir_piece {
    uint32_t variable;
    uint32_t first, count; /* elements of the chunk */
};
#define WEIR_PIECE_ELEMENTS 65536

enum weir_isa { WEIR_ISA_PLAIN, WEIR_ISA_AVX2, WEIR_ISA_AVX512, WEIR_ISA_BEST };

struct weir_engine;

/* `isa` WEIR_ISA_BEST: the best this CPU has. */
struct weir_engine *weir_engine_new(const struct weir_optimizer_config *optimizer, enum weir_isa isa);
void weir_engine_free(struct weir_engine *engine);
size_t weir_engine_slots(const struct weir_engine *engine); /* fp32 slots per parameter; 0 to WEIR_SLOTS_MAX */
/* Keras's variable name of a slot, as "velocity"; and its initial value. */
const char *weir_engine_slot_name(const struct weir_engine *engine, size_t slot);
float weir_engine_slot_initial(const struct weir_engine *engine, size_t slot);

/* weights_out[i] = optimizer(weights_in[i], sum[i], slots[.][i]) for `elements` elements. weights_out may be weights_in
 * (in place). `stream` asks for non-temporal stores of weights_out. Slots are updated in place. `pieces` is only read
 * with variable_scale. No payload byte is copied: operands are read where they lie. */
void weir_engine_apply(struct weir_engine *engine, const struct weir_sum_program *sum, const struct weir_update *update,
                       const struct weir_piece *pieces, size_t piece_count, const float *weights_in, float *weights_out,
                       float *const slots[], size_t elements, bool stream);

/* The gated path: out = the sum, and squares[p] = the sum of squares of piece p in double, by a fixed tree.
 * All that is not finite makes its square not finite. */
void weir_engine_sum(struct weir_engine *engine, const struct weir_sum_program *sum, const struct weir_piece *pieces,
                     size_t piece_count, float *out, double *squares, size_t elements);

/* Bytes of payload that additions and updates read elsewhere than in the slices that they were given: stays 0. Only a
 * float that straddles slices is put together, and counted in *straddled_floats. */
uint64_t weir_engine_copied_bytes(const struct weir_engine *engine, uint64_t *straddled_floats);

#endif
