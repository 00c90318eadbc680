#include "support.h"

#include "config/keras.h"

#define LOSS "\"loss\":\"mse\""

static struct weir_optimizer_config optimizer(const char *value)
{
    char text[2048];
    snprintf(text, sizeof text, JOB_COMPILE(LOSS ",\"optimizer\":%s"), value);
    struct weir_job job = good_job(text, NULL);
    struct weir_optimizer_config config = job.optimizer;
    weir_job_free(&job);
    return config;
}

static struct weir_loss_config loss(const char *value)
{
    char text[2048];
    snprintf(text, sizeof text, JOB_COMPILE("\"loss\":%s"), value);
    struct weir_job job = good_job(text, NULL);
    struct weir_loss_config config = job.loss;
    weir_job_free(&job);
    return config;
}

/* The metrics as a job that is freed by the caller. */
static struct weir_job metrics(const char *list)
{
    char text[2048];
    snprintf(text, sizeof text, JOB_COMPILE(LOSS ",\"metrics\":%s"), list);
    return good_job(text, NULL);
}

/* Refused in exactly these words, the position and "compile." left out. */
static void assert_value_refused(const char *key, const char *value, const char *expected)
{
    char text[2048], line[1024];
    bool is_loss = strcmp(key, "loss") == 0;
    snprintf(text, sizeof text, JOB_COMPILE("%s\n\"%s\":%s"), is_loss ? "" : LOSS ",", key, value);
    struct weir_job job;
    struct weir_problems problems = {0};
    assert_false(load(&job, text, NULL, &problems));
    assert_int_equal(problems.count, 1);
    const char *after = strstr(problems.lines[0], ": compile.");
    assert_non_null(after);
    snprintf(line, sizeof line, "%s", after + strlen(": compile."));
    assert_string_equal(line, expected);
    weir_problems_free(&problems);
    weir_job_free(&job);
}

static void defaults_are_keras_3s(void **state)
{
    (void)state;
    struct weir_optimizer_config c = optimizer("\"SGD\"");
    assert_int_equal(c.kind, WEIR_OPTIMIZER_SGD);
    assert_true(c.learning_rate == .01 && c.momentum == 0 && !c.nesterov && c.weight_decay == 0);
    c = optimizer("\"adam\"");
    assert_int_equal(c.kind, WEIR_OPTIMIZER_ADAM);
    assert_true(c.learning_rate == .001 && c.beta_1 == .9 && c.beta_2 == .999 && c.epsilon == 1e-7 && !c.amsgrad);
    assert_true(c.weight_decay == 0 && c.clipnorm == 0 && c.global_clipnorm == 0 && c.clipvalue == 0);
    c = optimizer("\"AdamW\"");
    assert_int_equal(c.kind, WEIR_OPTIMIZER_ADAMW);
    assert_true(c.learning_rate == .001 && c.weight_decay == .004 && c.beta_1 == .9);
    c = optimizer("\"adagrad\"");
    assert_int_equal(c.kind, WEIR_OPTIMIZER_ADAGRAD);
    assert_true(c.learning_rate == .001 && c.initial_accumulator_value == .1 && c.epsilon == 1e-7);
    c = optimizer("\"RMSprop\"");
    assert_int_equal(c.kind, WEIR_OPTIMIZER_RMSPROP);
    assert_true(c.learning_rate == .001 && c.rho == .9 && c.momentum == 0 && c.epsilon == 1e-7 && !c.centered);
    c = optimizer("\"FTRL\"");
    assert_int_equal(c.kind, WEIR_OPTIMIZER_FTRL);
    assert_true(c.learning_rate == .001 && c.learning_rate_power == -.5 && c.initial_accumulator_value == .1);
    assert_true(c.l1_regularization_strength == 0 && c.l2_regularization_strength == 0 && c.beta == 0 &&
                c.l2_shrinkage_regularization_strength == 0);
}

/* As keras.optimizers.serialize(Adam(3e-4, clipnorm=1)) prints it. */
static void keras_3_serialised_forms_are_read(void **state)
{
    (void)state;
    struct weir_optimizer_config c = optimizer(
        "{\"module\":\"keras.optimizers\",\"class_name\":\"Adam\",\"config\":{\"name\":\"adam\","
        "\"learning_rate\":0.0003000000142492354,\"weight_decay\":null,\"clipnorm\":1.0,\"global_clipnorm\":null,"
        "\"clipvalue\":null,\"use_ema\":false,\"ema_momentum\":0.99,\"ema_overwrite_frequency\":null,"
        "\"loss_scale_factor\":null,\"gradient_accumulation_steps\":null,\"beta_1\":0.8,\"beta_2\":0.99,"
        "\"epsilon\":1e-07,\"amsgrad\":true},\"registered_name\":null}");
    assert_true(c.learning_rate == 0.0003000000142492354 && c.clipnorm == 1 && c.beta_1 == .8 && c.amsgrad);
    struct weir_loss_config l =
        loss("{\"module\":\"keras.losses\",\"class_name\":\"CategoricalCrossentropy\",\"config\":{\"name\":\"c\","
             "\"reduction\":\"sum_over_batch_size\",\"dtype\":{\"module\":\"keras\",\"class_name\":\"DTypePolicy\","
             "\"config\":{\"name\":\"float32\"},\"registered_name\":null},\"from_logits\":true,\"label_smoothing\":0.1,"
             "\"axis\":-1},\"registered_name\":null}");
    assert_int_equal(l.kind, WEIR_LOSS_CATEGORICAL_CROSSENTROPY);
    assert_true(l.from_logits && l.label_smoothing == .1);
    l = loss("{\"module\":\"builtins\",\"class_name\":\"function\",\"config\":\"mean_squared_error\","
             "\"registered_name\":\"function\"}");
    assert_int_equal(l.kind, WEIR_LOSS_MEAN_SQUARED_ERROR);
}

static void keras_2_serialised_forms_are_read(void **state)
{
    (void)state;
    struct weir_optimizer_config c = optimizer(
        "{\"class_name\":\"SGD\",\"config\":{\"name\":\"SGD\",\"learning_rate\":0.1,\"decay\":0.0,\"momentum\":0.9,"
        "\"nesterov\":true,\"jit_compile\":true,\"is_legacy_optimizer\":false}}");
    assert_true(c.momentum == .9 && c.nesterov && c.learning_rate == .1);
    struct weir_loss_config l = loss("{\"class_name\":\"SparseCategoricalCrossentropy\",\"config\":{\"reduction\":"
                                     "\"auto\",\"name\":\"s\",\"from_logits\":true,\"ignore_class\":null}}");
    assert_true(l.from_logits);
}

/* Newer versions of Keras write null for settings that were not made. */
static void unknown_keys_may_be_null(void **state)
{
    (void)state;
    struct weir_optimizer_config c =
        optimizer("{\"class_name\":\"SGD\",\"new\":null,\"config\":{\"learning_rate\":0.5,\"new\":null}}");
    assert_true(c.learning_rate == .5);
    assert_value_refused("optimizer", "{\"class_name\":\"SGD\",\"new\":1}",
                         "optimizer.new: unknown key; the keys here are class_name and config");
    assert_value_refused("optimizer", "{\"class_name\":\"SGD\",\"config\":{\"new\":1}}",
                         "optimizer.config.new: unknown key; SGD has no such setting");
}

static void losses_have_keras_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum weir_loss_kind kind;
    } names[] = {
        {"\"sparse_categorical_crossentropy\"", WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY},
        {"\"SparseCategoricalCrossentropy\"", WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY},
        {"\"categorical_crossentropy\"", WEIR_LOSS_CATEGORICAL_CROSSENTROPY},
        {"\"BinaryCrossentropy\"", WEIR_LOSS_BINARY_CROSSENTROPY},
        {"\"bce\"", WEIR_LOSS_BINARY_CROSSENTROPY},
        {"\"mse\"", WEIR_LOSS_MEAN_SQUARED_ERROR},
        {"\"MSE\"", WEIR_LOSS_MEAN_SQUARED_ERROR},
        {"\"mean_squared_error\"", WEIR_LOSS_MEAN_SQUARED_ERROR},
        {"{\"class_name\":\"MeanSquaredError\"}", WEIR_LOSS_MEAN_SQUARED_ERROR},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct weir_loss_config l = loss(names[i].name);
        assert_int_equal(l.kind, names[i].kind);
        assert_true(!l.from_logits && l.label_smoothing == 0);
    }
}

static void metrics_are_reported_under_keras_names(void **state)
{
    (void)state;
    struct weir_job job =
        metrics("[\"accuracy\", \"acc\", \"mse\", \"MeanSquaredError\", \"sparse_categorical_accuracy\","
                "{\"class_name\":\"BinaryAccuracy\",\"config\":{\"name\":\"b\",\"threshold\":0.25}},"
                "{\"class_name\":\"CategoricalAccuracy\"}, \"mse\"]");
    static const struct {
        enum weir_metric_kind kind;
        const char *name;
    } expected[] = {
        {WEIR_METRIC_ACCURACY, "accuracy"},
        {WEIR_METRIC_ACCURACY, "acc"},
        {WEIR_METRIC_MEAN_SQUARED_ERROR, "mse"},
        {WEIR_METRIC_MEAN_SQUARED_ERROR, "MeanSquaredError"},
        {WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY, "sparse_categorical_accuracy"},
        {WEIR_METRIC_BINARY_ACCURACY, "b"},
        {WEIR_METRIC_CATEGORICAL_ACCURACY, "categorical_accuracy"},
        {WEIR_METRIC_MEAN_SQUARED_ERROR, "mse_1"},
    };
    assert_int_equal(job.metric_count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(job.metrics[i].kind, expected[i].kind);
        assert_string_equal(job.metrics[i].name, expected[i].name);
        assert_true(job.metrics[i].threshold == (i == 5 ? .25 : .5));
    }
    weir_job_free(&job);
}

static void a_loss_can_be_a_metric(void **state)
{
    (void)state;
    struct weir_job job = metrics("[{\"class_name\":\"CategoricalCrossentropy\",\"config\":{\"from_logits\":true,"
                                  "\"label_smoothing\":0.2}},\"bce\"]");
    assert_int_equal(job.metrics[0].kind, WEIR_METRIC_LOSS_MEAN);
    assert_int_equal(job.metrics[0].loss.kind, WEIR_LOSS_CATEGORICAL_CROSSENTROPY);
    assert_true(job.metrics[0].loss.from_logits && job.metrics[0].loss.label_smoothing == .2);
    assert_string_equal(job.metrics[0].name, "categorical_crossentropy");
    assert_int_equal(job.metrics[1].loss.kind, WEIR_LOSS_BINARY_CROSSENTROPY);
    assert_string_equal(job.metrics[1].name, "bce");
    weir_job_free(&job);
    job = metrics("null");
    assert_int_equal(job.metric_count, 0);
    weir_job_free(&job);
}

static void what_would_change_something_is_not_ignored(void **state)
{
    (void)state;
#define ADAM(config) "{\"class_name\":\"Adam\",\"config\":{" config "}}"
    static const struct {
        const char *config, *text;
    } cases[] = {
        {ADAM("\"use_ema\":true"), "use_ema: true is not supported by this version; only false is"},
        {ADAM("\"loss_scale_factor\":2"), "loss_scale_factor: 2 is not supported by this version; only null is"},
        {ADAM("\"gradient_accumulation_steps\":2"),
         "gradient_accumulation_steps: 2 is not supported by this version; only null is"},
        {ADAM("\"decay\":0.1"), "decay: 0.1 is not supported by this version; only 0 is"},
        {ADAM("\"is_legacy_optimizer\":true"),
         "is_legacy_optimizer: true is not supported by this version; only false is"},
        {ADAM("\"learning_rate\":{\"class_name\":\"CosineDecay\",\"config\":{}}"),
         "learning_rate: a learning-rate schedule is not supported yet; give a number > 0"},
        {ADAM("\"learning_rate\":0"), "learning_rate: must be a number > 0, not 0"},
        {ADAM("\"learning_rate\":\"0.1\""), "learning_rate: must be a number > 0, not \"0.1\""},
        {ADAM("\"learning_rate\":null"), "learning_rate: must be a number > 0, not null"},
        {ADAM("\"beta_1\":1"), "beta_1: must be a number >= 0 and < 1, not 1"},
        {ADAM("\"epsilon\":-1"), "epsilon: must be a number >= 0, not -1"},
        {ADAM("\"clipnorm\":0"), "clipnorm: must be a number > 0, or null, not 0"},
        {ADAM("\"momentum\":0"), "momentum: unknown key; Adam has no such setting"},
        {ADAM("\"beta1\":0"), "beta1: unknown key; did you mean \"beta_1\"?"},
        {ADAM("\"clipnorm\":1,\"clipvalue\":1"),
         "clipvalue: only one of clipnorm, global_clipnorm and clipvalue can be set; \"clipnorm\" is"},
        {"{\"class_name\":\"Ftrl\",\"config\":{\"learning_rate_power\":0.5}}",
         "learning_rate_power: must be a number >= -1e+09 and <= 0, not 0.5"},
        {"{\"class_name\":\"SGD\",\"config\":{\"momentum\":1.5}}", "momentum: must be a number >= 0 and <= 1, not 1.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, "optimizer.config.%s", cases[i].text);
        assert_value_refused("optimizer", cases[i].config, expected);
    }
    assert_value_refused("loss", "{\"class_name\":\"MeanSquaredError\",\"config\":{\"reduction\":\"sum\"}}",
                         "loss.config.reduction: \"sum\" is not supported by this version; only "
                         "\"sum_over_batch_size\" is");
    assert_value_refused("loss", "{\"class_name\":\"SparseCategoricalCrossentropy\",\"config\":{\"ignore_class\":-1}}",
                         "loss.config.ignore_class: -1 is not supported by this version; only null is");
    assert_value_refused("loss",
                         "{\"class_name\":\"SparseCategoricalCrossentropy\",\"config\":{\"label_smoothing\":0}}",
                         "loss.config.label_smoothing: unknown key; SparseCategoricalCrossentropy has no such setting");
    assert_value_refused("metrics", "[{\"class_name\":\"MeanSquaredError\",\"config\":{\"dtype\":\"float16\"}}]",
                         "metrics[0].config.dtype: \"float16\" is not supported by this version; only \"float32\" is");
}

static void unknown_classes_are_named_with_the_known_ones(void **state)
{
    (void)state;
    assert_value_refused("optimizer", "\"adma\"", "optimizer: unknown optimizer \"adma\"; did you mean \"Adam\"?");
    assert_value_refused("optimizer", "\"nadam\"",
                         "optimizer: optimizer \"nadam\" is not supported by this version; there are SGD, Adam, AdamW, "
                         "Adagrad, RMSprop, Ftrl");
    assert_value_refused(
        "optimizer", "{\"class_name\":\"custom>Mine\"}",
        "optimizer.class_name: unknown optimizer \"custom>Mine\"; there are SGD, Adam, AdamW, Adagrad, "
        "RMSprop, Ftrl");
    assert_value_refused(
        "loss", "\"huber\"",
        "loss: loss \"huber\" is not supported by this version; there are "
        "SparseCategoricalCrossentropy, CategoricalCrossentropy, BinaryCrossentropy, MeanSquaredError");
    assert_value_refused("loss", "\"sparse_categorical_cross_entropy\"",
                         "loss: unknown loss \"sparse_categorical_cross_entropy\"; did you mean "
                         "\"sparse_categorical_crossentropy\"?");
    assert_value_refused("optimizer", "{\"config\":{}}", "optimizer.class_name: required, but missing");
    assert_value_refused("optimizer", "{\"class_name\":5}", "optimizer.class_name: must be a string, not 5");
    assert_value_refused("optimizer", "{\"class_name\":\"Adam\",\"config\":[]}",
                         "optimizer.config: must be an object, not a list");
    assert_value_refused("optimizer", "{\"class_name\":\"Adam\",\"conf\":{}}",
                         "optimizer.conf: unknown key; did you mean \"config\"?");
    assert_value_refused("metrics", "[\"accurcy\"]",
                         "metrics[0]: unknown metric \"accurcy\"; did you mean \"accuracy\"?");
    assert_value_refused(
        "metrics", "[[\"accuracy\"]]",
        "metrics[0]: must be the name of a Keras metric or {\"class_name\": ..., \"config\": ...}, not "
        "a list");
    assert_value_refused("metrics", "[{\"class_name\":\"accuracy\"}]",
                         "metrics[0]: no class of Keras that weir knows; write \"accuracy\" alone, as a string");
    assert_value_refused("metrics", "[{\"class_name\":\"BinaryAccuracy\",\"config\":{\"name\":\"loss\"}}]",
                         "metrics[0].config.name: \"loss\" is the name of the loss itself; choose another");
    assert_value_refused("metrics", "[\"acc\",\"acc\",\"acc\",\"acc\",\"acc\",\"acc\",\"acc\",\"acc\",\"acc\"]",
                         "metrics[8]: at most 8 metrics are supported");
}

/* A default that its own row would refuse is a mistake in the table; so is a class that can't be found again. */
static void the_tables_agree_with_themselves(void **state)
{
    (void)state;
    static const struct weir_keras_family *const families[] = {&weir_keras_optimizers, &weir_keras_losses,
                                                               &weir_keras_metrics};
    for (size_t f = 0; f < 3; f++)
        for (size_t i = 0; i < families[f]->class_count; i++) {
            const struct weir_keras_class *class = &families[f]->classes[i];
            union {
                struct weir_optimizer_config optimizer;
                struct weir_loss_config loss;
                struct weir_metric_config metric;
            } into = {0};
            for (size_t r = 0; r < class->row_count; r++)
                weir_row_read_initial(&class->rows[r], &into);
            assert_non_null(class->also[0]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_keras_3s),
        cmocka_unit_test(keras_3_serialised_forms_are_read),
        cmocka_unit_test(keras_2_serialised_forms_are_read),
        cmocka_unit_test(unknown_keys_may_be_null),
        cmocka_unit_test(losses_have_keras_names),
        cmocka_unit_test(metrics_are_reported_under_keras_names),
        cmocka_unit_test(a_loss_can_be_a_metric),
        cmocka_unit_test(what_would_change_something_is_not_ignored),
        cmocka_unit_test(unknown_classes_are_named_with_the_known_ones),
        cmocka_unit_test(the_tables_agree_with_themselves),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
