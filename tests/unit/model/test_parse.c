#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define KERAS_3(layers)                                                                                                \
    "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"sequential\", "                  \
    "\"trainable\": true, \"dtype\": {\"module\": \"keras\", \"class_name\": \"DTypePolicy\", \"config\": "            \
    "{\"name\": \"float32\"}, \"registered_name\": null}, \"layers\": [" layers                                        \
    "], \"build_input_shape\": [null, 28, 28]}, \"registered_name\": null, \"build_config\": {\"input_shape\": "       \
    "[null, 28, 28]}, \"compile_config\": null}"
#define INPUT_3                                                                                                        \
    "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 28, 28], "    \
    "\"dtype\": \"float32\", \"sparse\": false, \"ragged\": false, \"name\": \"input_layer\"}, "                       \
    "\"registered_name\": null}"
#define LAYER(class_name, config) "{\"class_name\": \"" class_name "\", \"config\": {" config "}}"

static struct weir_model *parse(const char *json)
{
    struct weir_error err = {""};
    struct weir_model *model = weir_model_parse(json, strlen(json), "model.json", &err);
    if (!model)
        fail_msg("%s", err.text);
    return model;
}

static void refuses(const char *json, const char *expected)
{
    struct weir_error err = {""};
    struct weir_model *model = weir_model_parse(json, strlen(json), "model.json", &err);
    if (model || !strstr(err.text, expected))
        fail_msg("should say: %s\nsaid: %s", expected, model ? "(nothing)" : err.text);
}

static void reads_what_keras_3_writes(void **state)
{
    (void)state;
    struct weir_model *model = parse(KERAS_3(
        INPUT_3 ", {\"module\": \"keras.layers\", \"class_name\": \"Reshape\", "
                "\"config\": {\"name\": \"reshape\", \"trainable\": true, \"dtype\": {\"module\": \"keras\", "
                "\"class_name\": "
                "\"DTypePolicy\", \"config\": {\"name\": \"float32\"}, \"registered_name\": null}, "
                "\"target_shape\": [28, 28, 1]}, "
                "\"registered_name\": null, \"build_config\": {\"input_shape\": [null, 28, 28]}}, "
                "{\"module\": \"keras.layers\", \"class_name\": \"Conv2D\", \"config\": {\"name\": \"conv2d\", "
                "\"trainable\": true, "
                "\"dtype\": \"float32\", \"filters\": 32, \"kernel_size\": [3, 3], \"strides\": [1, 1], "
                "\"padding\": \"valid\", "
                "\"data_format\": \"channels_last\", \"dilation_rate\": [1, 1], \"groups\": 1, \"activation\": "
                "\"relu\", "
                "\"use_bias\": true, \"kernel_initializer\": {\"module\": \"keras.initializers\", "
                "\"class_name\": \"GlorotUniform\", "
                "\"config\": {\"seed\": null}, \"registered_name\": null}, \"bias_initializer\": {\"module\": "
                "\"keras.initializers\", \"class_name\": \"Zeros\", \"config\": {}, \"registered_name\": null}, "
                "\"kernel_regularizer\": null, \"bias_regularizer\": null, \"activity_regularizer\": null, "
                "\"kernel_constraint\": null, \"bias_constraint\": null}}, " LAYER(
                    "GlobalMaxPooling2D", "\"name\": \"pool\", \"data_format\": \"channels_last\", \"keepdims\": "
                                          "false") ", " LAYER("Dense", "\"name\": \"dense\", \"units\": 10")));
    const struct weir_variable *v;
    size_t shape[WEIR_DIMS_MAX];
    assert_int_equal(weir_model_variables(model, &v), 4);
    assert_string_equal(v[0].name, "conv2d/kernel");
    assert_int_equal(v[0].dims, 4);
    assert_int_equal(v[0].elements, 9 * 32);
    assert_int_equal(v[0].init, WEIR_INIT_UNIFORM);
    assert_float_equal(v[0].b, sqrt(6.0 / (9 + 9 * 32)), 1e-7);
    assert_string_equal(v[1].name, "conv2d/bias");
    assert_string_equal(v[2].name, "dense/kernel");
    assert_int_equal(v[2].offset, 9 * 32 + 32);
    assert_string_equal(v[3].name, "dense/bias");
    assert_int_equal(weir_model_flat_elements(model), 9 * 32 + 32 + 320 + 16);
    assert_int_equal(weir_model_input(model, shape), 2);
    assert_int_equal(weir_model_output(model, shape), 1);
    assert_int_equal(shape[0], 10);
    weir_model_free(model);
}

static void reads_what_keras_2_writes(void **state)
{
    (void)state;
    struct weir_model *model = parse(
        "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"sequential\", "
        "\"layers\": [" LAYER(
            "Flatten",
            "\"name\": \"flatten\", \"trainable\": true, "
            "\"batch_input_shape\": [null, 28, 28], "
            "\"dtype\": \"float32\", \"data_format\": "
            "\"channels_last\"") ", " LAYER("Dense", "\"name\": \"dense\", "
                                                     "\"trainable\": true, "
                                                     "\"dtype\": \"float32\", "
                                                     "\"units\": 512, "
                                                     "\"activation\": "
                                                     "\"relu\", \"use_bias\": "
                                                     "true, "
                                                     "\"kernel_initializer\": "
                                                     "{\"class_name\": "
                                                     "\"GlorotUniform\", "
                                                     "\"config\": {\"seed\": "
                                                     "null}}, "
                                                     "\"bias_initializer\": "
                                                     "{\"class_name\": "
                                                     "\"Zeros\", \"config\": "
                                                     "{}}, "
                                                     "\"kernel_regularizer\": "
                                                     "null") ", " LAYER("LeakyRe"
                                                                        "LU",
                                                                        "\"name"
                                                                        "\": "
                                                                        "\"leaky"
                                                                        "_re_"
                                                                        "lu\", "
                                                                        "\"alpha"
                                                                        "\": "
                                                                        "0.3") "]}, \"keras_version\": \"2.13.1\", "
                                                                               "\"backend\": \"tensorflow\"}");
    size_t shape[WEIR_DIMS_MAX];
    assert_int_equal(weir_model_output(model, shape), 1);
    assert_int_equal(shape[0], 512);
    weir_model_free(model);
}

static void names_that_are_missing_are_keras_automatic_ones(void **state)
{
    (void)state;
    struct weir_model *model = parse(KERAS_3(INPUT_3 ", " LAYER("Flatten", "") ", " LAYER(
        "Dense", "\"units\": 3") ", " LAYER("Dense", "\"units\": 3, \"use_bias\": false") ", " LAYER("ReLU", "")));
    const struct weir_variable *v;
    assert_int_equal(weir_model_variables(model, &v), 3);
    assert_string_equal(v[0].name, "dense/kernel");
    assert_string_equal(v[2].name, "dense_1/kernel");
    char *text = weir_model_describe(model);
    assert_non_null(strstr(text, "re_lu (ReLU)"));
    assert_non_null(strstr(text, "(None, 3)"));
    free(text);
    weir_model_free(model);
}

#define DENSE_WITH(config) KERAS_3(INPUT_3 ", " LAYER("Dense", "\"name\": \"d\", " config))
#define IMAGE(h, w, c) "{\"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, " #h ", " #w ", " #c "]}}"
#define SEQUENTIAL(layers) "{\"class_name\": \"Sequential\", \"config\": {\"layers\": [" layers "]}}"

static void errors_say_where_and_what(void **state)
{
    (void)state;
    refuses(DENSE_WITH("\"units\": 0"), "model.json: layer 1 (d, Dense): units: is 0; must be from 1");
    refuses(DENSE_WITH("\"units\": 1.5"), "units: must be an integer");
    refuses(DENSE_WITH("\"unit\": 4"), "unit: unknown key; did you mean \"units\"?");
    refuses(DENSE_WITH("\"units\": 4, \"zzzzzzzzzzzzz\": 4"), "zzzzzzzzzzzzz: unknown key");
    refuses(DENSE_WITH("\"units\": 4, \"activation\": \"rely\""), "\"rely\" is not supported; did you mean \"relu\"?");
    refuses(DENSE_WITH("\"units\": 4, \"activation\": \"zzzzzzzzz\""), "use one of: linear, relu");
    refuses(DENSE_WITH("\"units\": 4, \"kernel_regularizer\": {\"class_name\": \"L2\"}"), "kernel_regularizer: is not");
    refuses(DENSE_WITH("\"units\": 4, \"kernel_initializer\": \"Orthogonal\""), "kernel_initializer: \"Orthogonal\"");
    refuses(DENSE_WITH("\"units\": 4, \"kernel_initializer\": {\"class_name\": \"HeNormal\", \"config\": "
                       "{\"input_axes\": [0]}}"),
            "kernel_initializer: input_axes: unknown key");
    refuses(DENSE_WITH("\"units\": 4, \"trainable\": false"), "trainable: frozen layers are not supported");
    refuses(DENSE_WITH("\"units\": 4, \"dtype\": \"mixed_float16\""), "dtype: mixed_float16 is not supported yet");
    refuses(KERAS_3(INPUT_3 ", " LAYER("Dens", "\"units\": 1")), "layer 1 (unnamed, Dens): class_name: \"Dens\" is not "
                                                                 "supported; did you mean \"Dense\"?");
    refuses(KERAS_3(INPUT_3 ", " LAYER("MultiHeadAttention", "")), "use one of: InputLayer, Dense, Flatten");
    refuses(KERAS_3(INPUT_3 ", " LAYER("Conv2D", "\"filters\": 1, \"kernel_size\": 3")),
            "needs images (height, width, channels), but its input has the shape (28, 28)");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Conv2D", "\"filters\": 1, \"kernel_size\": 6")),
            "a window of 6 x 6 does not fit into an input of shape (5, 5, 1)");
    refuses(
        SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Conv2D", "\"filters\": 1, \"kernel_size\": 3, \"padding\": \"sama\"")),
        "padding: \"sama\" is not supported; did you mean \"same\"?");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Conv2D", "\"filters\": 1, \"kernel_size\": 3, \"groups\": 2")),
            "groups: only 1");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("MaxPooling2D", "\"data_format\": \"channels_first\"")),
            "data_format: \"channels_first\" is not supported");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Reshape", "\"target_shape\": [-1, 4]")), "can't become");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Reshape", "\"target_shape\": [-1, -1]")), "only one");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Dropout", "\"rate\": 1")), "rate: must be >= 0 and < 1");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1)), "none with weights");
    refuses(SEQUENTIAL(LAYER("Dense", "\"units\": 1")), "no input shape");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Dense", "\"name\": \"a\", \"units\": 1") ", " LAYER(
                "Dense", "\"name\": \"a\", \"units\": 1")),
            "layer 1 is called \"a\", too");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Dense", "\"name\": \"a/b\", \"units\": 1")), "slash");
    refuses("{\"class_name\": \"Functional\", \"config\": {}}", "functional models are not supported yet");
    refuses("{\"class_name\": \"Sequential\", \"config\": {\"layers\": {}}}", "layers: must be a list");
    refuses("[]", "must be a JSON object");
    refuses("{", "model.json: 1:1: ");
    refuses("{\"a\": NaN}", "model.json: 1:");
    refuses("{\"a\": 1, \"a\": 2}", "duplicate");
}

static void sizes_that_do_not_fit_anywhere_are_refused(void **state)
{
    (void)state;
    refuses(SEQUENTIAL(IMAGE(2000000000, 2000000000, 2000000000) ", " LAYER("Flatten", "")), "a sample has over");
    refuses(SEQUENTIAL(IMAGE(1000, 1000, 1000) ", " LAYER("Dense", "\"units\": 2000000000")),
            "kernel of shape (1000, 2000000000): the model has over 2^36");
    refuses(SEQUENTIAL(IMAGE(1000, 1000, 1000) ", " LAYER("Dense", "\"units\": 20000")),
            "its output of shape (1000, 1000, 20000) has over");
    refuses(SEQUENTIAL(IMAGE(1000, 1000, 1000) ", " LAYER("Flatten", "") ", " LAYER("Dense", "\"units\": 1000000")),
            "over 2^36 parameters");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Dense", "\"units\": 99999999999999999999")), "model.json: 1:");
    refuses(SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Dense", "\"units\": -4")), "units: is -4");
}

/* Newer versions of Keras write them for settings that were not made; test_keras.c has files of some. */
static void unknown_keys_may_be_null_at_every_level(void **state)
{
    (void)state;
    struct weir_model *model = parse(
        "{\"class_name\": \"Sequential\", \"new\": null, \"config\": {\"new\": null, \"layers\": [{\"class_name\": "
        "\"InputLayer\", \"config\": {\"batch_shape\": [null, 4], \"new\": null}}, {\"class_name\": \"Dense\", "
        "\"new\": null, \"config\": {\"units\": 2, \"new\": null, \"kernel_initializer\": {\"class_name\": "
        "\"VarianceScaling\", \"config\": {\"new\": null}}}}, {\"class_name\": \"ReLU\", \"config\": {\"new\": "
        "null}}]}}");
    weir_model_free(model);
}

static void a_file_that_is_too_large_is_not_looked_at(void **state)
{
    (void)state;
    struct weir_error err = {""};
    assert_null(weir_model_parse("", ((size_t)64 << 20) + 1, "model.json", &err)); /* reading it would crash */
    assert_non_null(strstr(err.text, "model.json: has 67108865 bytes; at most 67108864 are read"));
}

static void depth_is_bounded(void **state)
{
    (void)state;
    static char json[300000];
    for (size_t depth = 50; depth <= 100000; depth *= 10) {
        size_t used = (size_t)snprintf(json, sizeof json, "{\"class_name\": \"Sequential\", \"config\": ");
        memset(json + used, '[', depth);
        memset(json + used + depth, ']', depth);
        snprintf(json + used + 2 * depth, sizeof json - used - 2 * depth, "}");
        struct weir_error err;
        assert_null(weir_model_parse(json, strlen(json), "model.json", &err));
    }
}

/* Any cut of a good file is refused, and so is any byte of it changed for a bracket, without a crash. */
static void damaged_files_are_refused_or_read_but_never_crash(void **state)
{
    (void)state;
    static const char good[] =
        SEQUENTIAL(IMAGE(5, 5, 1) ", " LAYER("Conv2D", "\"filters\": 2, \"kernel_size\": [3, 3]") ", " LAYER(
            "Flatten", "") ", " LAYER("Dense", "\"units\": 3"));
    char json[sizeof good];
    struct weir_error err;
    for (size_t cut = 0; cut + 1 < sizeof good; cut++) {
        memcpy(json, good, cut);
        assert_null(weir_model_parse(json, cut, "model.json", &err));
    }
    static const char others[] = "[]{}\"0-9,:\x01\xff";
    for (size_t at = 0; at + 1 < sizeof good; at++)
        for (const char *other = others; *other; other++) {
            memcpy(json, good, sizeof good);
            json[at] = *other;
            weir_model_free(weir_model_parse(json, sizeof good - 1, "model.json", &err));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_keras_3_writes),
        cmocka_unit_test(reads_what_keras_2_writes),
        cmocka_unit_test(names_that_are_missing_are_keras_automatic_ones),
        cmocka_unit_test(errors_say_where_and_what),
        cmocka_unit_test(sizes_that_do_not_fit_anywhere_are_refused),
        cmocka_unit_test(unknown_keys_may_be_null_at_every_level),
        cmocka_unit_test(a_file_that_is_too_large_is_not_looked_at),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(damaged_files_are_refused_or_read_but_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
