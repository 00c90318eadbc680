#include "engine/optimizer.h"

#include <assert.h>
#include <math.h>

#include "engine/powers.h"

size_t weir_optimizer_slots(const struct weir_optimizer_config *config, struct weir_slot slots[WEIR_SLOTS_MAX])
{
    float initial = (float)config->initial_accumulator_value;
    size_t count = 0;
    switch (config->kind) {
    case WEIR_OPTIMIZER_SGD:
        if (config->momentum != 0)
            slots[count++] = (struct weir_slot){"momentum", 0};
        break;
    case WEIR_OPTIMIZER_ADAM:
    case WEIR_OPTIMIZER_ADAMW:
        slots[count++] = (struct weir_slot){"momentum", 0};
        slots[count++] = (struct weir_slot){"velocity", 0};
        if (config->amsgrad)
            slots[count++] = (struct weir_slot){"velocity_hat", 0};
        break;
    case WEIR_OPTIMIZER_ADAGRAD:
        slots[count++] = (struct weir_slot){"accumulator", initial};
        break;
    case WEIR_OPTIMIZER_RMSPROP:
        slots[count++] = (struct weir_slot){"velocity", 0};
        if (config->momentum > 0)
            slots[count++] = (struct weir_slot){"momentum", 0};
        if (config->centered)
            slots[count++] = (struct weir_slot){"average_gradient", 0};
        break;
    case WEIR_OPTIMIZER_FTRL:
        slots[count++] = (struct weir_slot){"accumulator", initial};
        slots[count++] = (struct weir_slot){"linear", 0};
        break;
    }
    return count;
}

weir_update_loop *weir_optimizer_loop(const struct weir_optimizer_config *config, const struct weir_kernels *kernels)
{
    switch (config->kind) {
    case WEIR_OPTIMIZER_SGD:
        return kernels->sgd;
    case WEIR_OPTIMIZER_ADAM:
    case WEIR_OPTIMIZER_ADAMW:
        return kernels->adam;
    case WEIR_OPTIMIZER_ADAGRAD:
        return kernels->adagrad;
    case WEIR_OPTIMIZER_RMSPROP:
        return kernels->rmsprop;
    case WEIR_OPTIMIZER_FTRL:
        return kernels->ftrl;
    }
    assert(!"the configuration was checked: every optimizer has a loop");
    return NULL;
}

struct weir_step weir_optimizer_step(const struct weir_optimizer_config *config, const struct weir_update *update)
{
    double rate = update->learning_rate;
    struct weir_step step = {
        .learning_rate = (float)rate,
        .decay = config->weight_decay != 0,
        .weight_decay = (float)config->weight_decay,
        .momentum = (float)config->momentum,
        .nesterov = config->nesterov,
        .amsgrad = config->amsgrad,
        .centered = config->centered,
        .beta_1_rest = (float)(1 - config->beta_1),
        .beta_2_rest = (float)(1 - config->beta_2),
        .epsilon = (float)config->epsilon,
        .rho = (float)config->rho,
        .rho_rest = (float)(1 - config->rho),
        .power = -config->learning_rate_power,
        .l1 = (float)config->l1_regularization_strength,
        .shrink_2 = (float)(2 * config->l2_shrinkage_regularization_strength),
    };
    if (config->kind == WEIR_OPTIMIZER_ADAM || config->kind == WEIR_OPTIMIZER_ADAMW) {
        uint64_t t = update->iteration + 1;
        step.alpha =
            (float)(rate * sqrt(1 - weir_math_power(config->beta_2, t)) / (1 - weir_math_power(config->beta_1, t)));
    }
    if (config->kind == WEIR_OPTIMIZER_FTRL)
        step.double_l2 = (float)(2 * (config->l2_regularization_strength + config->beta / (2 * rate)));
    return step;
}
