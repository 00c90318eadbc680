/* Models, jobs and batches for the tests of this folder. */
#ifndef WEIR_TEST_MODELS_H
#define WEIR_TEST_MODELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "model/model.h"

#define MODEL(shape, layers)                                                                                           \
    "{\"class_name\": \"Sequential\", \"config\": {\"layers\": [{\"class_name\": \"InputLayer\", \"config\": "         \
    "{\"batch_shape\": [null, " shape "]}}, " layers "]}}"
#define LAYER(class_name, config) "{\"class_name\": \"" class_name "\", \"config\": {" config "}}"

#define TEST_BATCH 64

struct fixture {
    struct weir_model *model;
    struct weir_job job;
    size_t x_elements;
    uint64_t classes, flat;
    float *weights, *x, *y; /* x and y: TEST_BATCH rows; y class numbers */
};

static inline float test_uniform(uint64_t at)
{
    uint32_t word[4];
    weir_random_block(weir_random_key(4, WEIR_RANDOM_TEST, 0, 0), at, 0, word);
    return weir_random_unit(word[0]);
}

static inline void fixture_open(struct fixture *f, const char *json, bool from_logits)
{
    struct weir_error err = {""};
    *f = (struct fixture){.model = weir_model_parse(json, strlen(json), "model.json", &err)};
    if (!f->model)
        fail_msg("%s", err.text);
    f->job.loss =
        (struct weir_loss_config){.kind = WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = from_logits};
    f->job.metrics[0] = (struct weir_metric_config){.kind = WEIR_METRIC_ACCURACY, .name = "accuracy"};
    f->job.metric_count = 1;
    size_t shape[WEIR_DIMS_MAX], dims = weir_model_input(f->model, shape);
    f->x_elements = 1;
    for (size_t i = 0; i < dims; i++)
        f->x_elements *= shape[i];
    if (!weir_model_bind(f->model, &f->job, shape, dims, NULL, 0, &f->classes, &err))
        fail_msg("%s", err.text);
    const struct weir_variable *variables;
    size_t count = weir_model_variables(f->model, &variables);
    f->flat = weir_model_flat_elements(f->model);
    f->weights = weir_alloc_tensor(f->flat * sizeof(float), "test");
    weir_model_initial(variables, count, 11, 0, f->flat, f->weights);
    f->x = weir_alloc_tensor(TEST_BATCH * f->x_elements * sizeof(float), "test");
    f->y = weir_alloc_tensor(TEST_BATCH * sizeof(float), "test");
    for (size_t i = 0; i < TEST_BATCH * f->x_elements; i++)
        f->x[i] = test_uniform(i);
    for (size_t i = 0; i < TEST_BATCH; i++)
        f->y[i] = (float)(i * 7 % f->classes);
}

static inline void fixture_close(struct fixture *f)
{
    weir_model_free(f->model);
    free(f->weights);
    free(f->x);
    free(f->y);
}

#define FLATTEN LAYER("Flatten", "")
#define DENSE(config) LAYER("Dense", config)
#define CONV(config) LAYER("Conv2D", config)
#define HEAD DENSE("\"units\": 10")
#define SOFTMAX_HEAD DENSE("\"units\": 10, \"activation\": \"softmax\"")
#define RELU_33 DENSE("\"units\": 33, \"activation\": \"relu\"")
#define TANH_18 DENSE("\"units\": 18, \"activation\": \"tanh\"")
#define DROPOUT LAYER("Dropout", "\"rate\": 0.25")
#define AS_IMAGE LAYER("Reshape", "\"target_shape\": [9, 8, 1]")
#define GLOBAL_MAX LAYER("GlobalMaxPooling2D", "")
#define RESCALING LAYER("Rescaling", "\"scale\": 2.0, \"offset\": -1.0")
#define GELU_CONV CONV("\"filters\": 8, \"kernel_size\": 3, \"padding\": \"same\", \"activation\": \"gelu\"")
#define BARE_CONV CONV("\"filters\": 16, \"kernel_size\": [3, 2], \"use_bias\": false")
#define AVERAGE LAYER("AveragePooling2D", "\"padding\": \"same\", \"strides\": 1")
#define GLOBAL_AVERAGE LAYER("GlobalAveragePooling2D", "\"keepdims\": true")

#define PLAIN_MLP MODEL("7, 5", FLATTEN ", " RELU_33 ", " HEAD)
#define MLP MODEL("7, 5", FLATTEN ", " RELU_33 ", " DROPOUT ", " TANH_18 ", " HEAD)
#define CNN_OF(conv) MODEL("9, 8", AS_IMAGE ", " conv ", " GLOBAL_MAX ", " HEAD)
#define CNN CNN_OF(CONV("\"filters\": 17, \"kernel_size\": 3, \"activation\": \"relu\""))
#define STRIDED_CNN CNN_OF(CONV("\"filters\": 17, \"kernel_size\": 3, \"strides\": 2, \"activation\": \"relu\""))
#define DEEP_LAYERS_1 RESCALING ", " GELU_CONV ", " LAYER("MaxPooling2D", "") ", " BARE_CONV ", "
#define DEEP_LAYERS_2 LAYER("LeakyReLU", "") ", " AVERAGE ", " GLOBAL_AVERAGE ", " FLATTEN ", " SOFTMAX_HEAD
#define DEEP_CNN MODEL("11, 10, 3", DEEP_LAYERS_1 DEEP_LAYERS_2)

#endif
