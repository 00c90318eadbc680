#include "reference/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "reference/cases.h"

#define STEP 1e-5
#define TOLERANCE 2e-6 /* of central differences: truncation, STEP^2, and rounding, 1e-16 / STEP */

static double uniform(uint64_t at)
{
    uint32_t word[4];
    weir_random_block(weir_random_key(1, WEIR_RANDOM_TEST, 0, 0), at, 0, word);
    return 4.0 * (double)weir_random_unit(word[0]) - 2.0;
}

static double *numbers(size_t count, uint64_t from)
{
    double *out = weir_alloc(count, sizeof *out, "test");
    for (size_t i = 0; i < count; i++)
        out[i] = uniform(from + i);
    return out;
}

struct work {
    struct weir_op_desc desc;
    double *x, *kernel, *bias, *y, *dy, *dx, *dkernel, *dbias;
};

static double weighted_output(struct work *w)
{
    double sum = 0;
    weir_reference_forward(&w->desc, 1, w->x, w->kernel, w->bias, w->y);
    for (size_t i = 0; i < w->desc.out; i++)
        sum += w->y[i] * w->dy[i];
    return sum;
}

static void check_slopes(struct work *w, double *at, const double *gradient, size_t count, const char *name)
{
    size_t stride = count / 50 + 1; /* a sample of them is enough */
    for (size_t i = 0; i < count; i += stride) {
        double before = at[i];
        at[i] = before + STEP;
        double above = weighted_output(w);
        at[i] = before - STEP;
        double below = weighted_output(w);
        at[i] = before;
        double slope = (above - below) / (2 * STEP);
        if (fabs(slope - gradient[i]) > TOLERANCE * (1 + fabs(slope)))
            fail_msg("%s: element %zu: %.9g, by differences %.9g", name, i, gradient[i], slope);
    }
}

static void gradients_are_those_of_central_differences(void **state)
{
    (void)state;
    struct weir_op_case c;
    for (size_t n = 0; weir_op_case(n, &c); n++) {
        size_t kernel = weir_reference_kernel_elements(&c.desc), bias = weir_reference_bias_elements(&c.desc);
        struct work w = {c.desc,
                         numbers(c.desc.in, 0),
                         numbers(kernel, 100000),
                         numbers(bias, 200000),
                         numbers(c.desc.out, 0),
                         numbers(c.desc.out, 300000),
                         numbers(c.desc.in, 0),
                         numbers(kernel, 0),
                         numbers(bias, 0)};
        weir_reference_forward(&w.desc, 1, w.x, w.kernel, w.bias, w.y);
        weir_reference_backward(&w.desc, 1, w.x, w.kernel, w.bias, w.y, w.dy, w.dx, w.dkernel, w.dbias);
        check_slopes(&w, w.x, w.dx, c.desc.in, c.name);
        check_slopes(&w, w.kernel, w.dkernel, kernel, c.name);
        check_slopes(&w, w.bias, w.dbias, bias, c.name);
        double *all[] = {w.x, w.kernel, w.bias, w.y, w.dy, w.dx, w.dkernel, w.dbias};
        for (size_t i = 0; i < 8; i++)
            free(all[i]);
    }
}

static void check_loss(const struct weir_loss_desc *desc, double *output, const float *labels)
{
    double dy[32];
    weir_reference_loss(desc, output, labels, dy);
    for (size_t i = 0; i < desc->positions * desc->width; i++) {
        double before = output[i];
        output[i] = before + STEP;
        double above = weir_reference_loss(desc, output, labels, NULL);
        output[i] = before - STEP;
        double below = weir_reference_loss(desc, output, labels, NULL);
        output[i] = before;
        double slope = (above - below) / (2 * STEP);
        if (fabs(slope - dy[i]) > TOLERANCE * (1 + fabs(slope)))
            fail_msg("loss %d: element %zu: %.9g, by differences %.9g", (int)desc->loss.kind, i, dy[i], slope);
    }
}

static void gradients_of_losses_are_those_of_central_differences(void **state)
{
    (void)state;
    for (int kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY; kind <= WEIR_LOSS_MEAN_SQUARED_ERROR; kind++)
        for (int logits = 0; logits < 2; logits++) {
            bool sparse = kind == WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
            struct weir_loss_desc desc = {
                .loss = {.kind = (enum weir_loss_kind)kind, .from_logits = logits, .label_smoothing = sparse ? 0 : 0.1},
                .positions = 2,
                .width = 5,
                .label_width = sparse ? 1 : 5};
            float labels[10];
            double output[10];
            for (size_t i = 0; i < 10; i++) {
                labels[i] = sparse ? (float)(i % 5) : (float)(i % 3 == 0);
                output[i] = logits ? uniform(i) : 0.5 + 0.2 * uniform(i);
            }
            check_loss(&desc, output, labels);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_central_differences),
        cmocka_unit_test(gradients_of_losses_are_those_of_central_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
