/* What an optimizer keeps per parameter, and its numbers for one update. Formulas and names: Keras 3,
 * keras/src/optimizers/{sgd,adam,adamw,adagrad,rmsprop,ftrl}.py. Pure; private to the engine.
 */
#ifndef WEIR_ENGINE_OPTIMIZER_H
#define WEIR_ENGINE_OPTIMIZER_H

#include "engine/kernels.h"

struct weir_slot {
    const char *name; /* Keras's name of the variable */
    float initial;
};

/* Fills slots[] in Keras's order and returns their number. */
size_t weir_optimizer_slots(const struct weir_optimizer_config *config, struct weir_slot slots[WEIR_SLOTS_MAX]);

/* The loop that `kernels` has for this optimizer. */
weir_update_loop *weir_optimizer_loop(const struct weir_optimizer_config *config, const struct weir_kernels *kernels);

/* The numbers of one update. Adam's bias corrections are computed in double from the rates as configured; Keras rounds
 * the powers to float on the way, which moves its learning rate by up to 3e-5 of itself in the first steps. */
struct weir_step weir_optimizer_step(const struct weir_optimizer_config *config, const struct weir_update *update);

#endif
