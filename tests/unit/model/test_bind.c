#include "models.h"

static struct weir_model *parse(const char *json)
{
    struct weir_error err = {""};
    struct weir_model *model = weir_model_parse(json, strlen(json), "model.json", &err);
    if (!model)
        fail_msg("%s", err.text);
    return model;
}

#define ONE_OUTPUT MODEL("4", LAYER("Dense", "\"units\": 1, \"activation\": \"sigmoid\", \"name\": \"out\""))
#define TEN_OUTPUTS MODEL("4", LAYER("Dense", "\"units\": 10, \"name\": \"out\""))
#define SEQUENCE MODEL("6, 4", LAYER("Dense", "\"units\": 10, \"name\": \"out\""))

struct attempt {
    const char *json;
    enum weir_loss_kind loss;
    size_t y[2], y_dims;
};

static bool bind(const struct attempt *a, struct weir_job *job, uint64_t *limit, struct weir_error *err)
{
    struct weir_model *model = parse(a->json);
    size_t x[WEIR_DIMS_MAX], dims = weir_model_input(model, x);
    *job = (struct weir_job){.loss = {.kind = a->loss}, .metric_count = 1};
    job->metrics[0] = (struct weir_metric_config){.kind = WEIR_METRIC_ACCURACY, .name = "accuracy"};
    bool ok = weir_model_bind(model, job, x, dims, a->y, a->y_dims, limit, err);
    weir_model_free(model);
    return ok;
}

static void accuracy_becomes_what_keras_makes_of_it(void **state)
{
    (void)state;
    static const struct {
        struct attempt attempt;
        enum weir_metric_kind metric;
        uint64_t limit;
    } cases[] = {
        {{ONE_OUTPUT, WEIR_LOSS_BINARY_CROSSENTROPY, {0}, 0}, WEIR_METRIC_BINARY_ACCURACY, 0},
        {{ONE_OUTPUT, WEIR_LOSS_MEAN_SQUARED_ERROR, {1}, 1}, WEIR_METRIC_BINARY_ACCURACY, 0},
        {{TEN_OUTPUTS, WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, {0}, 0}, WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY, 10},
        {{TEN_OUTPUTS, WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, {1}, 1}, WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY, 10},
        {{TEN_OUTPUTS, WEIR_LOSS_CATEGORICAL_CROSSENTROPY, {10}, 1}, WEIR_METRIC_CATEGORICAL_ACCURACY, 0},
        {{SEQUENCE, WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, {6}, 1}, WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_job job;
        struct weir_error err = {""};
        uint64_t limit = 99;
        if (!bind(&cases[i].attempt, &job, &limit, &err))
            fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(job.metrics[0].kind, cases[i].metric);
        assert_int_equal(limit, cases[i].limit);
    }
}

static void labels_of_another_shape_are_refused_with_both_shapes(void **state)
{
    (void)state;
    static const struct {
        struct attempt attempt;
        const char *expected;
    } cases[] = {
        {{TEN_OUTPUTS, WEIR_LOSS_CATEGORICAL_CROSSENTROPY, {0}, 0}, "use the sparse form"},
        {{TEN_OUTPUTS, WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, {10}, 1}, "(out) gives (10,) a sample, a label has"},
        {{TEN_OUTPUTS, WEIR_LOSS_MEAN_SQUARED_ERROR, {9}, 1}, "a label has the shape (9,)"},
        {{SEQUENCE, WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, {5}, 1}, "(6, 10) a sample, a label has the shape (5,)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_job job;
        struct weir_error err = {""};
        uint64_t limit;
        assert_false(bind(&cases[i].attempt, &job, &limit, &err));
        if (!strstr(err.text, cases[i].expected))
            fail_msg("should say: %s\nsaid: %s", cases[i].expected, err.text);
    }
}

static void data_of_another_shape_is_refused_with_both_shapes(void **state)
{
    (void)state;
    struct weir_model *model =
        parse(MODEL("28, 28, 1", LAYER("Flatten", "\"name\": \"f\"") ", " LAYER("Dense", "\"units\": 10")));
    struct weir_job job = {.loss = {.kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY}};
    struct weir_error err = {""};
    const size_t x[] = {28, 28};
    uint64_t limit;
    assert_false(weir_model_bind(model, &job, x, 2, NULL, 0, &limit, &err));
    assert_non_null(strstr(err.text, "layer 1 (f) takes (28, 28, 1) a sample, but the data's samples have the shape "
                                     "(28, 28)"));
    weir_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accuracy_becomes_what_keras_makes_of_it),
        cmocka_unit_test(labels_of_another_shape_are_refused_with_both_shapes),
        cmocka_unit_test(data_of_another_shape_is_refused_with_both_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
