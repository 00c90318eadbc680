/* What the engine's tests share: random floats, payloads cut into slices, sum programs. */
#ifndef WEIR_TESTS_ENGINE_FIXTURE_H
#define WEIR_TESTS_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "engine/engine.h"

struct source {
    struct weir_random_key key;
    uint64_t counter;
};

static inline struct source source_new(uint32_t which)
{
    return (struct source){weir_random_key(1, WEIR_RANDOM_TEST, which, 0), 0};
}

static inline uint32_t source_word(struct source *source)
{
    uint32_t out[4];
    weir_random_block(source->key, source->counter++, 0, out);
    return out[0];
}

/* 0 to limit - 1 */
static inline uint32_t source_below(struct source *source, uint32_t limit)
{
    return source_word(source) % limit;
}

static inline float source_symmetric(struct source *source)
{
    return 2 * weir_random_unit(source_word(source)) - 1;
}

static inline void source_fill(struct source *source, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = source_symmetric(source);
}

/* One slice that is the whole payload. */
struct whole {
    struct weir_slice slice;
    struct weir_operand operand;
};

static inline const struct weir_operand *whole_set(struct whole *whole, const void *bytes, size_t elements)
{
    whole->slice = (struct weir_slice){bytes, elements * sizeof(float)};
    whole->operand = (struct weir_operand){&whole->slice, 1};
    return &whole->operand;
}

static const int16_t just_first[] = {0};

static inline struct weir_sum_program program_of_one(const struct weir_operand *operand)
{
    return (struct weir_sum_program){just_first, 1, operand, 1};
}

static const struct weir_update plain_update = {.learning_rate = 0.01, .iteration = 3, .scale = 1};

/* Every optimizer with its options on and off. */
static const struct weir_optimizer_config all_optimizers[] = {
    {.kind = WEIR_OPTIMIZER_SGD},
    {.kind = WEIR_OPTIMIZER_SGD, .weight_decay = 0.01},
    {.kind = WEIR_OPTIMIZER_SGD, .momentum = 0.9},
    {.kind = WEIR_OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = WEIR_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true},
    {.kind = WEIR_OPTIMIZER_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01, .clipvalue = 0.5},
    {.kind = WEIR_OPTIMIZER_ADAM, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7},
    {.kind = WEIR_OPTIMIZER_ADAM, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-7, .amsgrad = true},
    {.kind = WEIR_OPTIMIZER_ADAMW, .beta_1 = 0.8, .beta_2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.004},
    {.kind = WEIR_OPTIMIZER_ADAMW,
     .beta_1 = 0.8,
     .beta_2 = 0.99,
     .epsilon = 1e-6,
     .weight_decay = 0.1,
     .amsgrad = true,
     .clipvalue = 0.3},
    {.kind = WEIR_OPTIMIZER_ADAGRAD, .initial_accumulator_value = 0.1, .epsilon = 1e-7},
    {.kind = WEIR_OPTIMIZER_ADAGRAD, .initial_accumulator_value = 0.5, .epsilon = 1e-5, .weight_decay = 0.02},
    {.kind = WEIR_OPTIMIZER_RMSPROP, .rho = 0.9, .epsilon = 1e-7},
    {.kind = WEIR_OPTIMIZER_RMSPROP, .rho = 0.8, .epsilon = 1e-7, .momentum = 0.7, .weight_decay = 0.01},
    {.kind = WEIR_OPTIMIZER_RMSPROP, .rho = 0.9, .epsilon = 1e-3, .centered = true},
    {.kind = WEIR_OPTIMIZER_RMSPROP, .rho = 0.9, .epsilon = 1e-3, .centered = true, .momentum = 0.5},
    {.kind = WEIR_OPTIMIZER_FTRL, .initial_accumulator_value = 0.1, .learning_rate_power = -0.5},
    {.kind = WEIR_OPTIMIZER_FTRL,
     .initial_accumulator_value = 0.2,
     .learning_rate_power = -0.5,
     .l1_regularization_strength = 0.01,
     .l2_regularization_strength = 0.02,
     .l2_shrinkage_regularization_strength = 0.03,
     .beta = 0.5,
     .weight_decay = 0.01},
    {.kind = WEIR_OPTIMIZER_FTRL,
     .initial_accumulator_value = 0.1,
     .learning_rate_power = -0.7,
     .beta = 1,
     .l1_regularization_strength = 0.001},
    {.kind = WEIR_OPTIMIZER_FTRL, .initial_accumulator_value = 0.1, .learning_rate_power = 0},
};
#define OPTIMIZERS (sizeof all_optimizers / sizeof *all_optimizers)

#endif
