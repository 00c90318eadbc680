/* Keras's classes and the keys of their configs, with Keras 3's defaults and limits. */
#include "config/keras.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- optimizers */

#define OPT(member) .name = #member, .offset = offsetof(struct weir_optimizer_config, member)
#define NUMBER(member, default_value, ...)                                                                             \
    {                                                                                                                  \
        OPT(member), .type = WEIR_ROW_DOUBLE, .initial = default_value, __VA_ARGS__                                    \
    }
#define SWITCH(member)                                                                                                 \
    {                                                                                                                  \
        OPT(member), .type = WEIR_ROW_BOOL, .initial = "false"                                                         \
    }
#define FRACTION .max = 1, .below_max = true
#define POSITIVE .above_min = true
#define NOT_NEGATIVE .min = 0

#define COMMON(rate, decay)                                                                                            \
    NUMBER(learning_rate, rate, POSITIVE), NUMBER(weight_decay, decay, NOT_NEGATIVE),                                  \
        NUMBER(clipnorm, "null", POSITIVE), NUMBER(global_clipnorm, "null", POSITIVE),                                 \
        NUMBER(clipvalue, "null", POSITIVE)
#define ADAM_ROWS                                                                                                      \
    NUMBER(beta_1, "0.9", FRACTION), NUMBER(beta_2, "0.999", FRACTION), NUMBER(epsilon, "1e-7", NOT_NEGATIVE),         \
        SWITCH(amsgrad)

static const struct weir_row sgd_rows[] = {
    COMMON("0.01", "null"),
    NUMBER(momentum, "0", .max = 1),
    SWITCH(nesterov),
};
static const struct weir_row adam_rows[] = {COMMON("0.001", "null"), ADAM_ROWS};
static const struct weir_row adamw_rows[] = {COMMON("0.001", "0.004"), ADAM_ROWS};
static const struct weir_row adagrad_rows[] = {
    COMMON("0.001", "null"),
    NUMBER(initial_accumulator_value, "0.1", NOT_NEGATIVE),
    NUMBER(epsilon, "1e-7", NOT_NEGATIVE),
};
static const struct weir_row rmsprop_rows[] = {
    COMMON("0.001", "null"),
    NUMBER(rho, "0.9", FRACTION),
    NUMBER(momentum, "0", .max = 1),
    NUMBER(epsilon, "1e-7", NOT_NEGATIVE),
    SWITCH(centered),
};
static const struct weir_row ftrl_rows[] = {
    COMMON("0.001", "null"),
    NUMBER(learning_rate_power, "-0.5", .min = -1e9, .max = 0, .up_to_zero = true),
    NUMBER(initial_accumulator_value, "0.1", NOT_NEGATIVE),
    NUMBER(l1_regularization_strength, "0", NOT_NEGATIVE),
    NUMBER(l2_regularization_strength, "0", NOT_NEGATIVE),
    NUMBER(l2_shrinkage_regularization_strength, "0", NOT_NEGATIVE),
    NUMBER(beta, "0", NOT_NEGATIVE),
};

static const struct weir_keras_class optimizers[] = {
    {"SGD", WEIR_OPTIMIZER_SGD, 0, {"sgd"}, sgd_rows, COUNT_OF(sgd_rows)},
    {"Adam", WEIR_OPTIMIZER_ADAM, 0, {"adam"}, adam_rows, COUNT_OF(adam_rows)},
    {"AdamW", WEIR_OPTIMIZER_ADAMW, 0, {"adamw"}, adamw_rows, COUNT_OF(adamw_rows)},
    {"Adagrad", WEIR_OPTIMIZER_ADAGRAD, 0, {"adagrad"}, adagrad_rows, COUNT_OF(adagrad_rows)},
    {"RMSprop", WEIR_OPTIMIZER_RMSPROP, 0, {"rmsprop"}, rmsprop_rows, COUNT_OF(rmsprop_rows)},
    {"Ftrl", WEIR_OPTIMIZER_FTRL, 0, {"ftrl"}, ftrl_rows, COUNT_OF(ftrl_rows)},
};
static const char *const other_optimizers[] = {"Adadelta", "Adafactor",          "Adamax", "Lamb", "Lion", "Muon",
                                               "Nadam",    "LossScaleOptimizer", NULL};

#define NEUTRAL(key, values)                                                                                           \
    {                                                                                                                  \
        .name = key, .type = WEIR_ROW_NEUTRAL, .initial = values                                                       \
    }
#define IGNORED(key)                                                                                                   \
    {                                                                                                                  \
        .name = key, .type = WEIR_ROW_IGNORED                                                                          \
    }

/* The values of ema_* change nothing as long as use_ema is false; compilation is Keras's own matter. */
static const struct weir_row optimizer_neutral[] = {
    IGNORED("name"),
    NEUTRAL("trainable", "[true]"),
    NEUTRAL("dtype", "[\"float32\", null]"),
    NEUTRAL("use_ema", "[false]"),
    IGNORED("ema_momentum"),
    IGNORED("ema_overwrite_frequency"),
    NEUTRAL("loss_scale_factor", "[null]"),
    NEUTRAL("gradient_accumulation_steps", "[null]"),
    NEUTRAL("decay", "[0]"), /* of Keras 2's old optimizers */
    IGNORED("jit_compile"),
    NEUTRAL("is_legacy_optimizer", "[false]"),
};

const struct weir_keras_family weir_keras_optimizers = {
    .what = "optimizer",
    .classes = optimizers,
    .class_count = COUNT_OF(optimizers),
    .any_case = true,
    .unsupported = other_optimizers,
    .neutral = optimizer_neutral,
    .neutral_count = COUNT_OF(optimizer_neutral),
};

/* ---- losses; `base` is where struct weir_loss_config stands in the family's struct */

#define FROM_LOGITS(base)                                                                                              \
    {                                                                                                                  \
        .name = "from_logits", .type = WEIR_ROW_BOOL,                                                                  \
        .offset = (base) + offsetof(struct weir_loss_config, from_logits), .initial = "false"                          \
    }
#define LABEL_SMOOTHING(base)                                                                                          \
    {                                                                                                                  \
        .name = "label_smoothing", .type = WEIR_ROW_DOUBLE,                                                            \
        .offset = (base) + offsetof(struct weir_loss_config, label_smoothing), .initial = "0", .max = 1                \
    }
#define SPARSE_ROWS(base) FROM_LOGITS(base), NEUTRAL("ignore_class", "[null]"), NEUTRAL("axis", "[-1]")
#define SMOOTH_ROWS(base) FROM_LOGITS(base), LABEL_SMOOTHING(base), NEUTRAL("axis", "[-1]")

static const struct weir_row sparse_rows[] = {SPARSE_ROWS(0)};
static const struct weir_row smooth_rows[] = {SMOOTH_ROWS(0)};

static const struct weir_keras_class losses[] = {
    {"SparseCategoricalCrossentropy",
     WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
     0,
     {"sparse_categorical_crossentropy"},
     sparse_rows,
     COUNT_OF(sparse_rows)},
    {"CategoricalCrossentropy",
     WEIR_LOSS_CATEGORICAL_CROSSENTROPY,
     0,
     {"categorical_crossentropy"},
     smooth_rows,
     COUNT_OF(smooth_rows)},
    {"BinaryCrossentropy",
     WEIR_LOSS_BINARY_CROSSENTROPY,
     0,
     {"binary_crossentropy", "bce", "BCE"},
     smooth_rows,
     COUNT_OF(smooth_rows)},
    {"MeanSquaredError", WEIR_LOSS_MEAN_SQUARED_ERROR, 0, {"mean_squared_error", "mse", "MSE"}, NULL, 0},
};
static const char *const other_losses[] = {
    "BinaryFocalCrossentropy",
    "CategoricalFocalCrossentropy",
    "CategoricalHinge",
    "Circle",
    "CosineSimilarity",
    "CTC",
    "Dice",
    "Hinge",
    "Huber",
    "KLDivergence",
    "LogCosh",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "SquaredHinge",
    "Tversky",
    "mean_absolute_error",
    "mae",
    "huber",
    "hinge",
    "kl_divergence",
    "poisson",
    NULL,
};

/* "auto" is what Keras 2 writes; fit takes it as the mean over the batch. "fn" repeats the class's name. */
static const struct weir_row loss_neutral[] = {
    IGNORED("name"),
    IGNORED("fn"),
    NEUTRAL("dtype", "[\"float32\", null]"),
    NEUTRAL("reduction", "[\"sum_over_batch_size\", \"auto\"]"),
};

const struct weir_keras_family weir_keras_losses = {
    .what = "loss",
    .classes = losses,
    .class_count = COUNT_OF(losses),
    .unsupported = other_losses,
    .neutral = loss_neutral,
    .neutral_count = COUNT_OF(loss_neutral),
};

/* ---- metrics */

#define LOSS_IN_METRIC offsetof(struct weir_metric_config, loss)

static const struct weir_row sparse_metric_rows[] = {SPARSE_ROWS(LOSS_IN_METRIC)};
static const struct weir_row smooth_metric_rows[] = {SMOOTH_ROWS(LOSS_IN_METRIC)};
static const struct weir_row threshold_rows[] = {
    {.name = "threshold",
     .type = WEIR_ROW_DOUBLE,
     .offset = offsetof(struct weir_metric_config, threshold),
     .initial = "0.5",
     POSITIVE,
     FRACTION},
};

static const struct weir_keras_class metrics[] = {
    {"accuracy", WEIR_METRIC_ACCURACY, 0, {"acc"}, NULL, 0}, /* a word of compile(), not a class */
    {"BinaryAccuracy", WEIR_METRIC_BINARY_ACCURACY, 0, {"binary_accuracy"}, threshold_rows, COUNT_OF(threshold_rows)},
    {"CategoricalAccuracy", WEIR_METRIC_CATEGORICAL_ACCURACY, 0, {"categorical_accuracy"}, NULL, 0},
    {"SparseCategoricalAccuracy", WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY, 0, {"sparse_categorical_accuracy"}, NULL, 0},
    {"MeanSquaredError", WEIR_METRIC_MEAN_SQUARED_ERROR, 0, {"mean_squared_error", "mse", "MSE"}, NULL, 0},
    {"MeanAbsoluteError", WEIR_METRIC_MEAN_ABSOLUTE_ERROR, 0, {"mean_absolute_error", "mae", "MAE"}, NULL, 0},
    {"SparseCategoricalCrossentropy",
     WEIR_METRIC_LOSS_MEAN,
     WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
     {"sparse_categorical_crossentropy"},
     sparse_metric_rows,
     COUNT_OF(sparse_metric_rows)},
    {"CategoricalCrossentropy",
     WEIR_METRIC_LOSS_MEAN,
     WEIR_LOSS_CATEGORICAL_CROSSENTROPY,
     {"categorical_crossentropy"},
     smooth_metric_rows,
     COUNT_OF(smooth_metric_rows)},
    {"BinaryCrossentropy",
     WEIR_METRIC_LOSS_MEAN,
     WEIR_LOSS_BINARY_CROSSENTROPY,
     {"binary_crossentropy", "bce", "BCE"},
     smooth_metric_rows,
     COUNT_OF(smooth_metric_rows)},
};
static const char *const other_metrics[] = {
    "Accuracy",
    "AUC",
    "CosineSimilarity",
    "F1Score",
    "FalseNegatives",
    "FalsePositives",
    "KLDivergence",
    "LogCoshError",
    "Mean",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "Precision",
    "R2Score",
    "Recall",
    "RootMeanSquaredError",
    "SparseTopKCategoricalAccuracy",
    "Sum",
    "TopKCategoricalAccuracy",
    "TrueNegatives",
    "TruePositives",
    NULL,
};

static const struct weir_row metric_neutral[] = {
    IGNORED("name"), /* kept, but by hand: not a row's matter */
    IGNORED("fn"),
    NEUTRAL("dtype", "[\"float32\", null]"),
};

const struct weir_keras_family weir_keras_metrics = {
    .what = "metric",
    .classes = metrics,
    .class_count = COUNT_OF(metrics),
    .unsupported = other_metrics,
    .neutral = metric_neutral,
    .neutral_count = COUNT_OF(metric_neutral),
};
