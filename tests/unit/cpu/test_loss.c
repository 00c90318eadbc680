#include "cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "reference/reference.h"

#define ROWS 9
#define WIDTH 5
#define POSITIONS 2
#define ROW (WIDTH * POSITIONS)
#define TOLERANCE 3e-6

static float uniform(uint64_t at)
{
    uint32_t word[4];
    weir_random_block(weir_random_key(3, WEIR_RANDOM_TEST, 0, 0), at, 0, word);
    return weir_random_unit(word[0]);
}

struct work {
    struct weir_loss_desc desc;
    float prediction[ROWS * ROW], logits[ROWS * ROW], labels[ROWS * ROW], dy[ROWS * ROW];
    float values[(1 + WEIR_METRICS_MAX) * ROWS];
};

static void fill(struct work *w, bool logits)
{
    bool classes = w->desc.label_width == 1;
    for (size_t i = 0; i < ROWS * ROW; i++) {
        w->logits[i] = 20 * uniform(i) - 10;
        w->prediction[i] = logits ? w->logits[i] : uniform(i + 1000);
        w->labels[i] = classes ? (float)(i % WIDTH) : (float)(uniform(i + 2000) > 0.5f);
    }
    if (!logits) { /* where probabilities are clipped */
        w->prediction[3] = 0;
        w->prediction[4] = 1;
    }
}

static void run(struct work *w, const struct weir_metric_config *metrics, size_t metric_count)
{
    struct weir_error err;
    const struct weir_backend *cpu = weir_backend_cpu();
    struct weir_backend_context *context = cpu->context_new(&err);
    struct weir_loss_pass pass = {.rows = ROWS,
                                  .prediction = w->prediction,
                                  .logits = w->logits,
                                  .labels = w->labels,
                                  .values = w->values,
                                  .dy = w->dy,
                                  .scale = 0.5f};
    w->desc.metrics = metrics;
    w->desc.metric_count = metric_count;
    cpu->begin(context);
    cpu->loss(context, &w->desc, &pass);
    cpu->context_free(context);
}

static void check(const struct work *w, bool from_logits_below)
{
    for (size_t r = 0; r < ROWS; r++) {
        double output[ROW], dy[ROW], largest = 1e-3;
        for (size_t i = 0; i < ROW; i++)
            output[i] = (double)(from_logits_below ? w->logits : w->prediction)[r * ROW + i];
        double value = weir_reference_loss(&w->desc, output, w->labels + r * POSITIONS * w->desc.label_width, dy);
        if (!(fabs((double)w->values[r] - value) <= TOLERANCE * (1 + fabs(value))))
            fail_msg("loss %d, logits %d, row %zu: %.9g, should be %.9g", (int)w->desc.loss.kind,
                     (int)w->desc.loss.from_logits, r, (double)w->values[r], value);
        for (size_t i = 0; i < ROW; i++)
            largest = fmax(largest, fabs(dy[i]));
        for (size_t i = 0; i < ROW; i++)
            if (fabs((double)w->dy[r * ROW + i] - 0.5 * dy[i]) > TOLERANCE * largest)
                fail_msg("loss %d, logits %d, row %zu: dy[%zu] is %.9g, should be %.9g", (int)w->desc.loss.kind,
                         (int)w->desc.loss.from_logits, r, i, (double)w->dy[r * ROW + i], 0.5 * dy[i]);
    }
}

static void every_loss_agrees_with_the_reference(void **state)
{
    (void)state;
    static const enum weir_activation_kind last[] = {WEIR_ACTIVATION_LINEAR, WEIR_ACTIVATION_SOFTMAX,
                                                     WEIR_ACTIVATION_SIGMOID};
    for (int kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY; kind <= WEIR_LOSS_MEAN_SQUARED_ERROR; kind++)
        for (int logits = 0; logits < 2; logits++)
            for (size_t a = 0; a < 3; a++) {
                bool sparse = kind == WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
                struct work w = {.desc = {.loss = {.kind = (enum weir_loss_kind)kind,
                                                   .from_logits = logits,
                                                   .label_smoothing = sparse ? 0 : 0.1},
                                          .positions = POSITIONS,
                                          .width = WIDTH,
                                          .label_width = sparse ? 1 : WIDTH,
                                          .last = last[a]}};
                fill(&w, logits);
                run(&w, NULL, 0);
                check(&w, weir_loss_from_last_logits(&w.desc.loss, w.desc.last));
            }
}

/* Keras 3 on TensorFlow: what its fit reports and what its SGD takes off the bias, for two rows through a Dense of
 * three units with this activation. After a softmax or a sigmoid the logits count, whatever the loss is told. */
static void every_pair_of_activation_and_loss_gives_what_keras_gives(void **state)
{
    (void)state;
    static const float logits[2][3] = {{0.3f, -1.2f, 2}, {-0.5f, 0.75f, 0.1f}};
    static const float labels[3][2][3] = {{{1}, {2}}, {{0, 1, 0}, {0, 0, 1}}, {{0, 1, 0}, {1, 0, 1}}};
    struct outcome {
        double loss, bias[3];
    };
    const struct outcome classes = {2.3220985, {0.15386784, -0.20687672, 0.05300891}};
    const struct outcome bits = {1.19998515, {-0.0080028, -0.01489101, 0.06762938}};
    const struct outcome unsure[3] = {{9.26026344, {0.38461539, 0.58823526, -4.41176462}},
                                      {8.68542957, {1.42857134, 1.42857134, -3.5714283}},
                                      {8.70402145, {0.23809525, 0.66666669, -1.66666675}}};
    static const enum weir_activation_kind last[3] = {WEIR_ACTIVATION_LINEAR, WEIR_ACTIVATION_SOFTMAX,
                                                      WEIR_ACTIVATION_SIGMOID};
    for (int kind = 0; kind < 3; kind++)
        for (int from_logits = 0; from_logits < 2; from_logits++)
            for (size_t a = 0; a < 3; a++) {
                size_t label_width = kind == 0 ? 1 : 3;
                struct work w = {.desc = {.loss = {.kind = (enum weir_loss_kind)kind, .from_logits = from_logits},
                                          .positions = 1,
                                          .width = 3,
                                          .label_width = label_width,
                                          .last = last[a]}};
                for (size_t r = 0; r < 2; r++) {
                    double sum = 0;
                    for (size_t i = 0; i < 3; i++)
                        sum += exp((double)logits[r][i]);
                    for (size_t i = 0; i < 3; i++) {
                        double z = (double)logits[r][i];
                        w.logits[3 * r + i] = logits[r][i];
                        w.prediction[3 * r + i] = (float)(a == 0 ? z : a == 1 ? exp(z) / sum : 1 / (1 + exp(-z)));
                    }
                    memcpy(w.labels + r * label_width, labels[kind][r], label_width * sizeof(float));
                }
                run(&w, NULL, 0);
                const struct outcome *want = a == 0 && !from_logits ? &unsure[kind] : kind == 2 ? &bits : &classes;
                assert_float_equal((w.values[0] + w.values[1]) / 2, want->loss, 1e-5);
                for (size_t i = 0; i < 3; i++)
                    assert_float_equal(w.dy[i] + w.dy[3 + i], want->bias[i], 1e-5);
            }
}

static void a_label_that_is_no_class_makes_the_loss_nan(void **state)
{
    (void)state;
    struct work w = {.desc = {.loss = {.kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true},
                              .positions = POSITIONS,
                              .width = WIDTH,
                              .label_width = 1}};
    fill(&w, true);
    w.labels[0] = WIDTH;
    w.labels[2 * POSITIONS] = -1;
    run(&w, NULL, 0);
    assert_true(isnan(w.values[0]));
    assert_false(isnan(w.values[1]));
    assert_true(isnan(w.values[2]));
}

static void metrics_are_counted_as_keras_counts_them(void **state)
{
    (void)state;
    static const struct weir_metric_config metrics[] = {
        {.kind = WEIR_METRIC_CATEGORICAL_ACCURACY},
        {.kind = WEIR_METRIC_BINARY_ACCURACY, .threshold = 0.5},
        {.kind = WEIR_METRIC_MEAN_SQUARED_ERROR},
        {.kind = WEIR_METRIC_MEAN_ABSOLUTE_ERROR},
        {.kind = WEIR_METRIC_LOSS_MEAN, .loss = {.kind = WEIR_LOSS_MEAN_SQUARED_ERROR}},
    };
    struct work w = {.desc = {.loss = {.kind = WEIR_LOSS_MEAN_SQUARED_ERROR},
                              .positions = POSITIONS,
                              .width = WIDTH,
                              .label_width = WIDTH}};
    memset(w.labels, 0, sizeof w.labels);
    memset(w.prediction, 0, sizeof w.prediction);
    w.labels[1] = 1;        /* row 0: position 0 right, with 1 where .75 is; position 1 all 0: the first wins */
    w.prediction[1] = .75f; /* squares: .0625 of 10; absolutes: .25 of 10 */
    w.labels[ROW] = 1;      /* row 1: position 0 wrong (0, should be .. element 0; 2 is greatest) */
    w.prediction[ROW + 2] = 0.5f;
    run(&w, metrics, 5);
    const float expected[5][2] = {{1, 0.5f}, {1, 0.9f}, {.00625f, .125f}, {.025f, .15f}, {.00625f, .125f}};
    for (size_t m = 0; m < 5; m++)
        for (size_t r = 0; r < 2; r++)
            assert_float_equal(w.values[(m + 1) * ROWS + r], expected[m][r], 1e-6);
}

static void sparse_accuracy_takes_the_first_of_equal_outputs(void **state)
{
    (void)state;
    static const struct weir_metric_config metric = {.kind = WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY};
    struct work w = {.desc = {.loss = {.kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true},
                              .positions = POSITIONS,
                              .width = WIDTH,
                              .label_width = 1}};
    memset(w.prediction, 0, sizeof w.prediction);
    w.prediction[2] = w.prediction[3] = 1;
    memset(w.labels, 0, sizeof w.labels);
    w.labels[0] = 2;
    w.labels[1] = 1;
    w.labels[2] = w.labels[3] = 4;
    run(&w, &metric, 1);
    assert_float_equal(w.values[ROWS], 0.5, 0);
    assert_float_equal(w.values[ROWS + 1], 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_agrees_with_the_reference),
        cmocka_unit_test(every_pair_of_activation_and_loss_gives_what_keras_gives),
        cmocka_unit_test(a_label_that_is_no_class_makes_the_loss_nan),
        cmocka_unit_test(metrics_are_counted_as_keras_counts_them),
        cmocka_unit_test(sparse_accuracy_takes_the_first_of_equal_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
