/* The operations of a model, in order: what the layers become for a backend. */
#ifndef WEIR_MODEL_PLAN_H
#define WEIR_MODEL_PLAN_H

#include "model/graph.h"

struct weir_plan_op {
    struct weir_op_desc desc;
    size_t layer;        /* position in the model */
    size_t kernel, bias; /* numbers of variables, or WEIR_NO_VARIABLE */
};

struct weir_plan {
    const struct weir_backend *backend;
    struct weir_plan_op *ops; /* room for all that the layers can make */
    size_t count;
    size_t layer; /* that is being lowered */
};

/* The plan for a bound or unbound model; free plan->ops with free(). */
void weir_plan_make(struct weir_plan *plan, const struct weir_model *model, const struct weir_backend *backend);

/* Appends an operation without variables. */
struct weir_plan_op *weir_plan_add(struct weir_plan *plan, const struct weir_op_desc *desc);
/* Appends the activation of `shape`: nothing for linear, a flag in the operation before for relu where it has one. */
void weir_plan_add_activation(struct weir_plan *plan, const struct weir_activation *activation,
                              const struct weir_shape *shape);
/* The last activation of the plan: what makes the model's output. */
enum weir_activation_kind weir_plan_last_activation(const struct weir_plan *plan);

#endif
