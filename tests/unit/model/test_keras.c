/* What Keras itself wrote (fixtures/, by tests/interop/keras_fixtures.py): every layer, activation, initializer,
 * optimizer, loss and metric that weir knows is read, and computes what Keras computes. */
#include "models.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include "config/keras.h"

static const char *const files[] = {WEIR_SOURCE_DIR "/tests/unit/model/fixtures/keras_2.json",
                                    WEIR_SOURCE_DIR "/tests/unit/model/fixtures/keras_3.json"};

/* Runs `check` on all cases of both files that have the key; each file has at least `least` of them. */
static void for_each_case(const char *key, size_t least, void (*check)(const json_t *one))
{
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        json_error_t problem;
        json_t *root = json_load_file(files[f], 0, &problem);
        if (!root)
            fail_msg("%s:%d: %s", files[f], problem.line, problem.text);
        const json_t *cases = json_object_get(root, "cases");
        size_t count = 0;
        for (size_t i = 0; i < json_array_size(cases); i++)
            if (json_object_get(json_array_get(cases, i), key)) {
                check(json_array_get(cases, i));
                count++;
            }
        if (count < least)
            fail_msg("%s: only %zu cases with \"%s\"", files[f], count, key);
        json_decref(root);
    }
}

static const char *name_of(const json_t *one)
{
    return json_string_value(json_object_get(one, "name"));
}

static struct weir_model *parse_model(const json_t *one)
{
    struct weir_error err = {""};
    char *text = json_dumps(json_object_get(one, "model"), 0);
    struct weir_model *model = weir_model_parse(text, strlen(text), "model.json", &err);
    if (!model)
        fail_msg("%s: %s", name_of(one), err.text);
    free(text);
    return model;
}

/* The numbers of a list, in memory of the caller's. */
static float *floats_of(const json_t *list)
{
    float *floats = weir_alloc_tensor((json_array_size(list) + 1) * sizeof *floats, "test");
    for (size_t i = 0; i < json_array_size(list); i++)
        floats[i] = (float)json_number_value(json_array_get(list, i));
    return floats;
}

static void assert_shape(const char *name, const json_t *expected, const size_t *shape, size_t dims)
{
    if (dims != json_array_size(expected))
        fail_msg("%s: %zu dimensions, not %zu", name, dims, json_array_size(expected));
    for (size_t i = 0; i < dims; i++)
        if (shape[i] != (size_t)json_integer_value(json_array_get(expected, i)))
            fail_msg("%s: dimension %zu is %zu", name, i, shape[i]);
}

/* ---- models */

static void check_variables(const json_t *one, const struct weir_model *model)
{
    const json_t *expected = json_object_get(one, "variables");
    const struct weir_variable *variables;
    size_t count = weir_model_variables(model, &variables);
    json_int_t parameters = 0;
    assert_int_equal(count, json_array_size(expected));
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(expected, i);
        assert_string_equal(variables[i].name, json_string_value(json_array_get(pair, 0)));
        assert_shape(variables[i].name, json_array_get(pair, 1), variables[i].shape, variables[i].dims);
        parameters += (json_int_t)variables[i].elements;
    }
    assert_int_equal(parameters, json_integer_value(json_object_get(one, "parameters")));
}

static float *flat_weights(const json_t *one, const struct weir_model *model)
{
    const struct weir_variable *variables;
    size_t count = weir_model_variables(model, &variables), flat = weir_model_flat_elements(model);
    float *weights = weir_alloc_tensor(flat * sizeof *weights, "test");
    memset(weights, 0, flat * sizeof *weights);
    for (size_t i = 0; i < count; i++) {
        const json_t *list = json_array_get(json_object_get(one, "weights"), i);
        assert_int_equal(json_array_size(list), variables[i].elements);
        for (size_t k = 0; k < variables[i].elements; k++)
            weights[variables[i].offset + k] = (float)json_number_value(json_array_get(list, k));
    }
    return weights;
}

static struct weir_sums evaluate(const struct weir_model *model, const struct weir_job *job, const float *weights,
                                 const float *x, const float *y, uint32_t rows)
{
    struct weir_error err;
    struct weir_sums sums;
    struct weir_compute *compute = weir_compute_new(model, job, rows, &err);
    if (!compute)
        fail_msg("%s", err.text);
    weir_compute_evaluate(compute, weights, x, y, rows, &sums);
    weir_compute_free(compute);
    return sums;
}

static size_t product(const size_t *shape, size_t dims)
{
    size_t elements = 1;
    for (size_t i = 0; i < dims; i++)
        elements *= shape[i];
    return elements;
}

/* The squared distance to Keras's outputs is that of rounding. */
static void check_outputs(const json_t *one, struct weir_model *model)
{
    size_t x_shape[WEIR_DIMS_MAX], y_shape[WEIR_DIMS_MAX];
    size_t x_dims = weir_model_input(model, x_shape), y_dims = weir_model_output(model, y_shape);
    const json_t *outputs = json_object_get(one, "y");
    size_t rows = json_array_size(outputs) / product(y_shape, y_dims);
    assert_int_equal(json_array_size(json_object_get(one, "x")), rows * product(x_shape, x_dims));
    struct weir_job job = {.loss = {.kind = WEIR_LOSS_MEAN_SQUARED_ERROR}};
    struct weir_error err = {""};
    uint64_t limit;
    if (!weir_model_bind(model, &job, x_shape, x_dims, y_shape, y_dims, &limit, &err))
        fail_msg("%s: %s", name_of(one), err.text);
    float *weights = flat_weights(one, model), *x = floats_of(json_object_get(one, "x")), *y = floats_of(outputs);
    double largest = 1;
    for (size_t i = 0; i < json_array_size(outputs); i++)
        largest = fmax(largest, fabs((double)y[i]));
    struct weir_sums sums = evaluate(model, &job, weights, x, y, (uint32_t)rows);
    double distance = sqrt(sums.loss / (double)rows);
    if (!(distance <= 1e-5 * largest))
        fail_msg("%s: outputs are off by %g", name_of(one), distance);
    free(weights);
    free(x);
    free(y);
}

static void check_model(const json_t *one)
{
    struct weir_model *model = parse_model(one);
    size_t shape[WEIR_DIMS_MAX], dims = weir_model_output(model, shape);
    check_variables(one, model);
    assert_shape(name_of(one), json_object_get(one, "output"), shape, dims);
    check_outputs(one, model);
    weir_model_free(model);
}

static void models_have_kerass_variables_and_outputs(void **state)
{
    (void)state;
    for_each_case("variables", 37, check_model);
}

/* ---- initializers */

static void check_initializer(const json_t *one)
{
    struct weir_model *model = parse_model(one);
    const struct weir_variable *variables;
    assert_int_equal(weir_model_variables(model, &variables), 1);
    size_t count = variables->elements;
    float *values = weir_alloc_tensor(count * sizeof *values, "test");
    weir_model_initial(variables, 1, 5, 0, count, values);
    double mean = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        mean += (double)values[i] / (double)count;
        square += (double)values[i] * (double)values[i] / (double)count;
    }
    double deviation = sqrt(fmax(0, square - mean * mean));
    double expected_mean = json_number_value(json_object_get(one, "mean"));
    double expected = json_number_value(json_object_get(one, "deviation"));
    if (fabs(mean - expected_mean) > 0.02 * expected + 1e-6 || fabs(deviation - expected) > 0.01 * expected + 1e-6)
        fail_msg("%s: mean %g, deviation %g; Keras has %g and %g", name_of(one), mean, deviation, expected_mean,
                 expected);
    free(values);
    weir_model_free(model);
}

static void initial_values_have_kerass_distribution(void **state)
{
    (void)state;
    for_each_case("deviation", 25, check_initializer);
}

/* ---- compile */

static struct weir_job load_job(const json_t *one, const char *compile, const char *model)
{
    char path[] = "/tmp/weir-keras-XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"model\": %s, \"data\": {\"train\": {\"format\": \"idx\", \"x\": \"x\", \"y\": \"y\"}}, "
            "\"compile\": %s}",
            model, compile);
    assert_int_equal(fclose(file), 0);
    struct weir_job job;
    struct weir_problems problems = {0};
    bool good = weir_job_load(&job, path, NULL, 0, NULL, &problems);
    unlink(path);
    if (!good)
        fail_msg("%s: %s", name_of(one), problems.count ? problems.lines[0] : "?");
    weir_problems_free(&problems);
    return job;
}

static void unit_matrix(const struct weir_model *model, float **weights)
{
    const struct weir_variable *kernel;
    assert_int_equal(weir_model_variables(model, &kernel), 1);
    size_t flat = weir_model_flat_elements(model);
    *weights = weir_alloc_tensor(flat * sizeof **weights, "test");
    memset(*weights, 0, flat * sizeof **weights);
    for (size_t i = 0; i < kernel->shape[0]; i++)
        (*weights)[kernel->offset + i * kernel->shape[1] + i] = 1;
}

static void check_figure(const json_t *one, const char *name, double value)
{
    const json_t *figure = json_object_get(json_object_get(one, "figures"), name);
    if (!figure)
        fail_msg("%s: Keras reports no \"%s\"", name_of(one), name);
    double expected = json_number_value(figure);
    if (!(fabs(value - expected) <= 2e-6 * fmax(1, fabs(expected))))
        fail_msg("%s: %s is %.8g; Keras has %.8g", name_of(one), name, value, expected);
}

static void check_compile(const json_t *one)
{
    char *compile = json_dumps(json_object_get(one, "compile"), 0);
    char *text = json_dumps(json_object_get(one, "model"), 0);
    struct weir_job job = load_job(one, compile, text);
    struct weir_model *model = parse_model(one);
    size_t x_shape[WEIR_DIMS_MAX], y_shape[WEIR_DIMS_MAX] = {0}, x_dims = weir_model_input(model, x_shape);
    const json_t *labels = json_object_get(one, "labels");
    for (size_t i = 0; i < json_array_size(labels); i++)
        y_shape[i] = (size_t)json_integer_value(json_array_get(labels, i));
    struct weir_error err = {""};
    uint64_t limit;
    if (!weir_model_bind(model, &job, x_shape, x_dims, y_shape, json_array_size(labels), &limit, &err))
        fail_msg("%s: %s", name_of(one), err.text);
    float *weights, *x = floats_of(json_object_get(one, "x")), *y = floats_of(json_object_get(one, "y"));
    unit_matrix(model, &weights);
    uint32_t rows = (uint32_t)(json_array_size(json_object_get(one, "x")) / x_shape[0]);
    struct weir_sums sums = evaluate(model, &job, weights, x, y, rows);
    check_figure(one, "loss", sums.loss / rows);
    assert_int_equal(job.metric_count + 1, json_object_size(json_object_get(one, "figures")));
    for (size_t m = 0; m < job.metric_count; m++)
        check_figure(one, job.metrics[m].name, sums.metric[m] / rows);
    free(weights);
    free(x);
    free(y);
    free(compile);
    free(text);
    weir_model_free(model);
    weir_job_free(&job);
}

static void losses_and_metrics_have_kerass_figures_and_names(void **state)
{
    (void)state;
    for_each_case("figures", 11, check_compile);
}

/* Each setting that weir knows of the optimizer has Keras's value, also where that is its default. */
static void check_optimizer(const json_t *one)
{
    json_t *compile = json_pack("{s:O, s:s}", "optimizer", json_object_get(one, "optimizer"), "loss", "mse");
    char *text = json_dumps(compile, 0);
    struct weir_job job = load_job(one, text, "{\"class_name\": \"Sequential\", \"config\": {}}");
    const struct weir_keras_class *class = weir_keras_optimizer_class(&job.optimizer);
    assert_string_equal(class->name, json_string_value(json_object_get(one, "class_name")));
    const json_t *config = json_object_get(json_object_get(one, "optimizer"), "config");
    for (size_t i = 0; i < class->row_count; i++) {
        const json_t *expected = json_object_get(config, class->rows[i].name);
        struct weir_text printed = {0};
        weir_row_print(&class->rows[i], &job.optimizer, &printed);
        json_t *value = json_loads(printed.bytes, JSON_DECODE_ANY, NULL);
        bool same = json_is_number(expected) ? fabs(json_number_value(value) - json_number_value(expected)) <= 1e-9
                                             : json_equal(value, expected);
        if (expected && !same)
            fail_msg("%s: %s is %s", name_of(one), class->rows[i].name, printed.bytes);
        json_decref(value);
        free(printed.bytes);
    }
    free(text);
    json_decref(compile);
    weir_job_free(&job);
}

static void optimizers_have_kerass_settings(void **state)
{
    (void)state;
    for_each_case("class_name", 13, check_optimizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_kerass_variables_and_outputs),
        cmocka_unit_test(initial_values_have_kerass_distribution),
        cmocka_unit_test(losses_and_metrics_have_kerass_figures_and_names),
        cmocka_unit_test(optimizers_have_kerass_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
