#include "fixture.h"

#include <math.h>
#include <stdio.h>

#define COUNT 257
#define STEPS 50

/* ---- the reference: one parameter in double, from the formulas in Keras's documentation and papers */

struct reference {
    double w, slot[3];
};

static double clip(double x, double limit)
{
    return x < -limit ? -limit : x > limit ? limit : x;
}

static void reference_sgd(const struct weir_optimizer_config *c, struct reference *r, double g, double lr)
{
    if (c->momentum == 0) {
        r->w -= lr * g;
        return;
    }
    r->slot[0] = c->momentum * r->slot[0] - lr * g;
    r->w += c->nesterov ? c->momentum * r->slot[0] - lr * g : r->slot[0];
}

static void reference_adam(const struct weir_optimizer_config *c, struct reference *r, double g, double lr, double t)
{
    r->slot[0] = c->beta_1 * r->slot[0] + (1 - c->beta_1) * g;
    r->slot[1] = c->beta_2 * r->slot[1] + (1 - c->beta_2) * g * g;
    double v = r->slot[1];
    if (c->amsgrad)
        v = r->slot[2] = fmax(r->slot[2], v);
    double alpha = lr * sqrt(1 - pow(c->beta_2, t)) / (1 - pow(c->beta_1, t));
    r->w -= alpha * r->slot[0] / (sqrt(v) + c->epsilon);
}

static void reference_rmsprop(const struct weir_optimizer_config *c, struct reference *r, double g, double lr)
{
    double *momentum = &r->slot[1], *average = &r->slot[c->momentum > 0 ? 2 : 1];
    r->slot[0] = c->rho * r->slot[0] + (1 - c->rho) * g * g;
    double v = r->slot[0];
    if (c->centered) {
        *average = c->rho * *average + (1 - c->rho) * g;
        v -= *average * *average;
    }
    double down = lr * g / sqrt(v + c->epsilon);
    if (c->momentum > 0)
        down = *momentum = c->momentum * *momentum + down;
    r->w -= down;
}

static void reference_ftrl(const struct weir_optimizer_config *c, struct reference *r, double g, double lr)
{
    double power = -c->learning_rate_power, before = r->slot[0], after = before + g * g;
    double shrunk = g + 2 * c->l2_shrinkage_regularization_strength * r->w;
    r->slot[1] += shrunk - (pow(after, power) - pow(before, power)) / lr * r->w;
    double quadratic = pow(after, power) / lr + 2 * c->l2_regularization_strength + c->beta / lr;
    r->w = (clip(r->slot[1], c->l1_regularization_strength) - r->slot[1]) / quadratic;
    r->slot[0] = after;
}

static void reference_step(const struct weir_optimizer_config *c, struct reference *r, double g,
                           const struct weir_update *update)
{
    double lr = update->learning_rate;
    g *= update->scale;
    if (c->clipvalue > 0)
        g = clip(g, c->clipvalue);
    r->w -= r->w * c->weight_decay * lr;
    switch (c->kind) {
    case WEIR_OPTIMIZER_SGD:
        reference_sgd(c, r, g, lr);
        break;
    case WEIR_OPTIMIZER_ADAM:
    case WEIR_OPTIMIZER_ADAMW:
        reference_adam(c, r, g, lr, (double)update->iteration + 1);
        break;
    case WEIR_OPTIMIZER_ADAGRAD:
        r->slot[0] += g * g;
        r->w -= lr * g / sqrt(r->slot[0] + c->epsilon);
        break;
    case WEIR_OPTIMIZER_RMSPROP:
        reference_rmsprop(c, r, g, lr);
        break;
    case WEIR_OPTIMIZER_FTRL:
        reference_ftrl(c, r, g, lr);
        break;
    }
}

/* ---- a run of the engine beside it */

struct training {
    struct weir_engine *engine;
    struct reference reference[COUNT];
    float weights[COUNT], slot_memory[WEIR_SLOTS_MAX][COUNT];
    float *slots[WEIR_SLOTS_MAX];
};

static void training_begin(struct training *t, const struct weir_optimizer_config *config)
{
    struct source source = source_new(9);
    t->engine = weir_engine_new(config, WEIR_ISA_BEST);
    source_fill(&source, t->weights, COUNT);
    for (size_t s = 0; s < WEIR_SLOTS_MAX; s++)
        t->slots[s] = t->slot_memory[s];
    for (size_t i = 0; i < COUNT; i++) {
        t->reference[i].w = t->weights[i];
        for (size_t s = 0; s < weir_engine_slots(t->engine); s++)
            t->reference[i].slot[s] = t->slot_memory[s][i] = weir_engine_slot_initial(t->engine, s);
    }
}

/* Zero, tiny, huge and ordinary gradients; an element keeps its kind, so that no square drowns the others. */
static float random_gradient(struct source *source, size_t i)
{
    const float sizes[] = {1, 0, 1e-12f, 1e6f, 1e-3f};
    float g = source_symmetric(source) * sizes[i % 5];
    return source_below(source, 10) == 0 ? 0 : g;
}

static void assert_near(double got, double expected, double size, const char *what, size_t optimizer, size_t element)
{
    if (fabs(got - expected) <= 3e-5 * fabs(size) + 1e-6)
        return;
    fail_msg("%s of optimizer %zu, element %zu: %.9g, expected %.9g", what, optimizer, element, got, expected);
}

static void each_optimizer_follows_its_formula_for_fifty_steps(void **state)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        struct training t;
        training_begin(&t, &all_optimizers[o]);
        struct source source = source_new(10);
        for (uint64_t step = 0; step < STEPS; step++) {
            float gradient[COUNT];
            struct whole whole;
            struct weir_update update = {.learning_rate = 0.01, .iteration = step, .scale = 0.5};
            for (size_t i = 0; i < COUNT; i++)
                gradient[i] = random_gradient(&source, i);
            struct weir_sum_program sum = program_of_one(whole_set(&whole, gradient, COUNT));
            weir_engine_apply(t.engine, &sum, &update, NULL, 0, t.weights, t.weights, t.slots, COUNT, false);
            for (size_t i = 0; i < COUNT; i++)
                reference_step(&all_optimizers[o], &t.reference[i], gradient[i], &update);
        }
        for (size_t i = 0; i < COUNT; i++) {
            double size = fmax(1, fabs(t.reference[i].w));
            if (all_optimizers[o].kind == WEIR_OPTIMIZER_SGD && i % 5 == 3)
                size = 1e6; /* steps of that size cancel in the weight */
            assert_near(t.weights[i], t.reference[i].w, size, "weight", o, i);
        }
        weir_engine_free(t.engine);
    }
}

static void names_and_first_values_of_slots_are_those_of_keras(void **state)
{
    (void)state;
    const char *const expected[OPTIMIZERS] = {
        [2] = "momentum 0;",
        [7] = "momentum 0;velocity 0;velocity_hat 0;",
        [8] = "momentum 0;velocity 0;",
        [11] = "accumulator 0.5;",
        [12] = "velocity 0;",
        [15] = "velocity 0;momentum 0;average_gradient 0;",
        [14] = "velocity 0;average_gradient 0;",
        [17] = "accumulator 0.2;linear 0;",
    };
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        struct weir_engine *engine = weir_engine_new(&all_optimizers[o], WEIR_ISA_BEST);
        char text[256] = "";
        for (size_t s = 0, at = 0; s < weir_engine_slots(engine); s++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s %g;", weir_engine_slot_name(engine, s),
                                   (double)weir_engine_slot_initial(engine, s));
        if (expected[o])
            assert_string_equal(text, expected[o]);
        weir_engine_free(engine);
    }
}

/* scale, then the variable's factor, then clipvalue: any other order gives another step. */
static void clipping_comes_after_all_scaling(void **state)
{
    (void)state;
    struct weir_optimizer_config config = {.kind = WEIR_OPTIMIZER_SGD, .clipvalue = 1.5};
    struct weir_engine *engine = weir_engine_new(&config, WEIR_ISA_BEST);
    const double factors[] = {4, 0.25};
    const struct weir_piece pieces[] = {{1, 1, 2}, {0, 3, 2}};
    struct weir_update update = {.learning_rate = 1, .scale = 0.5, .variable_scale = factors};
    const float gradient[] = {2, 2, -20, 0.5f, 3, -9}, expected[] = {-1, -0.25f, 1.5f, -1, -1.5f, 1.5f};
    float weights[6] = {0};
    struct whole whole;
    struct weir_sum_program sum = program_of_one(whole_set(&whole, gradient, 6));
    weir_engine_apply(engine, &sum, &update, pieces, 2, weights, weights, NULL, 6, false);
    for (size_t i = 0; i < 6; i++)
        assert_true(weights[i] == expected[i]);
    weir_engine_free(engine);
}

static void decay_comes_before_the_update_and_uses_the_old_weight(void **state)
{
    (void)state;
    struct weir_optimizer_config config = {.kind = WEIR_OPTIMIZER_SGD, .weight_decay = 0.5};
    struct weir_engine *engine = weir_engine_new(&config, WEIR_ISA_BEST);
    const float gradient[] = {1, 0}, weights[] = {8, -8};
    float out[2];
    struct whole whole;
    struct weir_sum_program sum = program_of_one(whole_set(&whole, gradient, 2));
    struct weir_update update = {.learning_rate = 0.25, .scale = 1};
    weir_engine_apply(engine, &sum, &update, NULL, 0, weights, out, NULL, 2, false);
    assert_true(out[0] == 8 - 1 - 0.25f && out[1] == -7);
    weir_engine_free(engine);
}

/* ---- what Keras itself computes
 *
 * Made once with keras 3.15.1 (TensorFlow 2.21 backend): an optimizer with these arguments is built for one variable
 * that holds keras_start, `apply` is called with each row of keras_gradients in turn, the variable is printed with nine
 * digits. */
#define KERAS_COUNT 4
#define KERAS_TOLERANCE 1e-6
static const float keras_start[KERAS_COUNT] = {0.5f, -0.25f, 1, -2};
static const float keras_gradients[4][KERAS_COUNT] = {
    {0.1f, -0.7f, 0, 3}, {0.2f, 0.3f, -1e-4f, -2}, {-0.05f, 0.9f, 2e-3f, 1}, {0.4f, -0.01f, 0, 5}};

#define ADAM .beta_1 = 0.9, .epsilon = 1e-7
#define FTRL .kind = WEIR_OPTIMIZER_FTRL, .learning_rate = 0.1, .initial_accumulator_value = 0.1
static const struct {
    struct weir_optimizer_config config;
    float expected[KERAS_COUNT];
} keras_runs[] = {
    {{.kind = WEIR_OPTIMIZER_SGD, .learning_rate = 0.1, .weight_decay = 0.01},
     {0.433067977f, -0.298061311f, 0.995816231f, -2.69141245f}},
    {{.kind = WEIR_OPTIMIZER_SGD, .learning_rate = 0.1, .momentum = 0.9},
     {0.380909979f, -0.26056999f, 0.999647141f, -3.1796999f}},
    {{.kind = WEIR_OPTIMIZER_SGD, .learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .clipvalue = 0.5},
     {0.32781899f, -0.282014996f, 0.999492347f, -2.26330495f}},
    {{.kind = WEIR_OPTIMIZER_ADAM, .learning_rate = 0.01, .beta_2 = 0.999, ADAM},
     {0.467024475f, -0.242670774f, 0.996146619f, -2.0202508f}},
    {{.kind = WEIR_OPTIMIZER_ADAM, .learning_rate = 0.01, .beta_2 = 0.5, .amsgrad = true, ADAM},
     {0.470677167f, -0.242083699f, 0.998358488f, -2.01905537f}},
    {{.kind = WEIR_OPTIMIZER_ADAMW, .learning_rate = 0.01, .beta_2 = 0.999, .weight_decay = 0.004, ADAM},
     {0.466946661f, -0.242632106f, 0.995986283f, -2.01992941f}},
    {{.kind = WEIR_OPTIMIZER_ADAGRAD, .learning_rate = 0.1, .initial_accumulator_value = 0.1, .epsilon = 1e-7},
     {0.359458625f, -0.268159807f, 0.999399126f, -2.15078402f}},
    {{.kind = WEIR_OPTIMIZER_RMSPROP, .learning_rate = 0.01, .rho = 0.9, .epsilon = 1e-7},
     {0.418984056f, -0.256180912f, 0.974887669f, -2.04907417f}},
    {{.kind = WEIR_OPTIMIZER_RMSPROP,
      .learning_rate = 0.01,
      .rho = 0.9,
      .epsilon = 1e-3,
      .momentum = 0.9,
      .centered = true},
     {0.328003436f, -0.219803795f, 0.998884261f, -2.11098433f}},
    {{.learning_rate_power = -0.5, FTRL}, {-0.117272697f, -0.165236413f, -0.000600820058f, -1.94112718f}},
    {{.learning_rate_power = -0.6,
      .l1_regularization_strength = 0.05,
      .l2_regularization_strength = 0.1,
      .l2_shrinkage_regularization_strength = 0.02,
      .beta = 0.3,
      FTRL},
     {-0.0714716017f, -0.123625301f, 0, -1.81963933f}},
};

static void weights_are_those_of_keras_after_four_steps(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof keras_runs / sizeof *keras_runs; k++) {
        struct weir_engine *engine = weir_engine_new(&keras_runs[k].config, WEIR_ISA_BEST);
        float weights[KERAS_COUNT], memory[WEIR_SLOTS_MAX][KERAS_COUNT];
        float *slots[WEIR_SLOTS_MAX] = {memory[0], memory[1], memory[2]};
        memcpy(weights, keras_start, sizeof weights);
        for (size_t s = 0; s < weir_engine_slots(engine); s++)
            for (size_t i = 0; i < KERAS_COUNT; i++)
                memory[s][i] = weir_engine_slot_initial(engine, s);
        for (uint64_t step = 0; step < 4; step++) {
            struct whole whole;
            struct weir_sum_program sum = program_of_one(whole_set(&whole, keras_gradients[step], KERAS_COUNT));
            struct weir_update update = {keras_runs[k].config.learning_rate, step, 1, NULL};
            weir_engine_apply(engine, &sum, &update, NULL, 0, weights, weights, slots, KERAS_COUNT, false);
        }
        for (size_t i = 0; i < KERAS_COUNT; i++)
            if (fabs((double)weights[i] - (double)keras_runs[k].expected[i]) > KERAS_TOLERANCE)
                fail_msg("run %zu, element %zu: %.9g, Keras has %.9g", k, i, (double)weights[i],
                         (double)keras_runs[k].expected[i]);
        weir_engine_free(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_optimizer_follows_its_formula_for_fifty_steps),
        cmocka_unit_test(weights_are_those_of_keras_after_four_steps),
        cmocka_unit_test(names_and_first_values_of_slots_are_those_of_keras),
        cmocka_unit_test(clipping_comes_after_all_scaling),
        cmocka_unit_test(decay_comes_before_the_update_and_uses_the_old_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
