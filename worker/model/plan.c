#include "model/plan.h"

#include <assert.h>
#include <math.h>

#include "base/memory.h"
#include "model/layer.h"

#define OPS_PER_LAYER 2 /* an operation and its activation */

struct weir_plan_op *weir_plan_add(struct weir_plan *plan, const struct weir_op_desc *desc)
{
    struct weir_plan_op *op = &plan->ops[plan->count++];
    *op = (struct weir_plan_op){
        .desc = *desc, .layer = plan->layer, .kernel = WEIR_NO_VARIABLE, .bias = WEIR_NO_VARIABLE};
    op->desc.first = true;
    for (size_t i = 0; i + 1 < plan->count; i++)
        op->desc.first = op->desc.first && plan->ops[i].kernel == WEIR_NO_VARIABLE;
    return op;
}

static bool is_plain_relu(const struct weir_activation *a)
{
    return a->kind == WEIR_ACTIVATION_RELU && a->negative_slope == 0 && a->threshold == 0 && isinf(a->max_value);
}

void weir_plan_add_activation(struct weir_plan *plan, const struct weir_activation *activation,
                              const struct weir_shape *shape)
{
    if (activation->kind == WEIR_ACTIVATION_LINEAR)
        return;
    struct weir_plan_op *last = plan->count ? &plan->ops[plan->count - 1] : NULL;
    if (is_plain_relu(activation) && last && (last->desc.kind == WEIR_OP_DENSE || last->desc.kind == WEIR_OP_CONV2D)) {
        last->desc.relu = true; /* twice is once */
        return;
    }
    size_t elements;
    bool fits = weir_shape_elements(shape, WEIR_ROW_ELEMENTS_MAX, &elements);
    assert(fits);
    (void)fits;
    struct weir_op_desc desc = {.kind = WEIR_OP_ACTIVATION, .in = elements, .out = elements, .activation = *activation};
    if (activation->kind == WEIR_ACTIVATION_SOFTMAX) {
        desc.kind = WEIR_OP_SOFTMAX;
        desc.in_width = desc.out_width = shape->dim[shape->dims - 1];
        desc.positions = elements / desc.in_width;
    }
    weir_plan_add(plan, &desc);
}

/* Conv2D of one channel, relu and global maximum in a row become one operation, where the backend has it. */
static void fuse_global_max(struct weir_plan *plan)
{
    if (plan->count < 2)
        return;
    struct weir_plan_op *conv = &plan->ops[plan->count - 2], *pool = &plan->ops[plan->count - 1];
    if (pool->desc.kind != WEIR_OP_GLOBAL_MAX_POOL || conv->desc.kind != WEIR_OP_CONV2D || !conv->desc.relu)
        return;
    struct weir_op_desc fused = conv->desc;
    fused.kind = WEIR_OP_CONV2D_GLOBAL_MAX;
    fused.out = pool->desc.out;
    if (!plan->backend->supports(&fused))
        return;
    conv->desc = fused;
    plan->count--;
}

void weir_plan_make(struct weir_plan *plan, const struct weir_model *model, const struct weir_backend *backend)
{
    *plan = (struct weir_plan){
        .backend = backend,
        .ops = weir_alloc(model->layer_count * OPS_PER_LAYER + 1, sizeof *plan->ops, "a model's operations")};
    for (plan->layer = 0; plan->layer < model->layer_count; plan->layer++) {
        const struct weir_layer *layer = &model->layers[plan->layer];
        if (layer->class->lower)
            layer->class->lower(plan, layer);
        fuse_global_max(plan);
    }
}

enum weir_activation_kind weir_plan_last_activation(const struct weir_plan *plan)
{
    const struct weir_op_desc *last = plan->count ? &plan->ops[plan->count - 1].desc : NULL;
    if (last && last->kind == WEIR_OP_SOFTMAX)
        return WEIR_ACTIVATION_SOFTMAX;
    return last && last->kind == WEIR_OP_ACTIVATION ? last->activation.kind : WEIR_ACTIVATION_LINEAR;
}
