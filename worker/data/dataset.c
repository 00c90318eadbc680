#include "data/data.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "data/convert.h"
#include "data/idx.h"

#define CACHE_LINE 64
#define AHEAD 2          /* samples */
#define AHEAD_BYTES 4096 /* of one sample: the hardware finds the rest of a longer one */

struct weir_dataset {
    struct weir_idx x, y;
    size_t x_elements, y_elements; /* of one sample */
    float x_scale;
    weir_convert_u8 convert;
    char *y_path;
};

/* Both files are whole; do they belong together? */
static bool check_pair(const struct weir_data_config *config, const struct weir_idx *x, const struct weir_idx *y,
                       struct weir_error *err)
{
    if (x->dims == 1 && y->dims > 1)
        return weir_error_set(err,
                              "%s (x) has one number per sample and %s (y) has many: are x and y swapped in the job?",
                              config->x, config->y);
    if (x->dim[0] != y->dim[0])
        return weir_error_set(err, "%s (x) has %u samples, %s (y) has %u: they don't belong together", config->x,
                              x->dim[0], config->y, y->dim[0]);
    return true;
}

static float scale_of(const struct weir_data_config *config, enum weir_idx_type type)
{
    if (config->scale != 0)
        return (float)config->scale;
    return type == WEIR_IDX_U8 ? 1.0f / 255.0f : 1.0f;
}

struct weir_dataset *weir_dataset_open(const struct weir_data_config *config, struct weir_error *err)
{
    struct weir_idx x, y;
    if (!weir_idx_read(&x, config->x, err))
        return NULL;
    if (!weir_idx_read(&y, config->y, err))
        goto free_x;
    if (!check_pair(config, &x, &y, err))
        goto free_y;

    struct weir_dataset *dataset = weir_alloc(1, sizeof *dataset, "a data set");
    *dataset = (struct weir_dataset){
        .x = x,
        .y = y,
        .x_elements = x.elements / x.dim[0],
        .y_elements = y.elements / y.dim[0],
        .x_scale = scale_of(config, x.type),
        .convert = weir_convert_u8_best(),
        .y_path = weir_strdup(config->y),
    };
    return dataset;

free_y:
    weir_idx_free(&y);
free_x:
    weir_idx_free(&x);
    return NULL;
}

void weir_dataset_close(struct weir_dataset *dataset)
{
    if (!dataset)
        return;
    weir_idx_free(&dataset->x);
    weir_idx_free(&dataset->y);
    free(dataset->y_path);
    free(dataset);
}

uint64_t weir_dataset_samples(const struct weir_dataset *dataset)
{
    return dataset->x.dim[0];
}

static size_t sample_shape(const struct weir_idx *idx, size_t shape[4])
{
    for (size_t i = 1; i < idx->dims; i++)
        shape[i - 1] = idx->dim[i];
    return idx->dims - 1;
}

size_t weir_dataset_x_shape(const struct weir_dataset *dataset, size_t shape[4])
{
    return sample_shape(&dataset->x, shape);
}

size_t weir_dataset_y_shape(const struct weir_dataset *dataset, size_t shape[4])
{
    return sample_shape(&dataset->y, shape);
}

/* Exact for every type: a double holds all of them. */
static double element(const struct weir_idx *idx, uint64_t i)
{
    const void *bytes = idx->bytes;
    switch (idx->type) {
    case WEIR_IDX_U8:
        return ((const uint8_t *)bytes)[i];
    case WEIR_IDX_I8:
        return ((const int8_t *)bytes)[i];
    case WEIR_IDX_I16:
        return ((const int16_t *)bytes)[i];
    case WEIR_IDX_I32:
        return ((const int32_t *)bytes)[i];
    case WEIR_IDX_F32:
        return (double)((const float *)bytes)[i];
    case WEIR_IDX_F64:
        return ((const double *)bytes)[i];
    }
    return NAN;
}

bool weir_dataset_check_labels(const struct weir_dataset *dataset, uint64_t limit, struct weir_error *err)
{
    for (uint64_t i = 0; i < dataset->y.elements; i++) {
        double label = element(&dataset->y, i);
        if (label >= 0 && label < (double)limit && label == floor(label))
            continue;
        return weir_error_set(err,
                              "%s: record %llu: label %.9g is not a class number from 0 to %llu; correct the data, or "
                              "give the model's last layer more outputs",
                              dataset->y_path, (unsigned long long)(i / dataset->y_elements), label,
                              (unsigned long long)limit - 1);
    }
    return true;
}

/* Samples lie anywhere in memory: asks for all cache lines of one at once, some samples before they are read. */
static void ask_ahead(const struct weir_idx *idx, uint64_t sample, size_t elements)
{
    size_t bytes = elements * idx->element_bytes;
    const unsigned char *at = idx->bytes + sample * bytes;
    for (size_t i = 0; i < bytes && i < AHEAD_BYTES; i += CACHE_LINE)
        __builtin_prefetch(at + i);
}

void weir_dataset_gather(const struct weir_dataset *dataset, const uint64_t *index, size_t count, float *x, float *y)
{
    size_t x_elements = dataset->x_elements, y_elements = dataset->y_elements;
    for (size_t k = 0; k < count; k++) {
        assert(index[k] < dataset->x.dim[0]);
        if (k + AHEAD < count)
            ask_ahead(&dataset->x, index[k + AHEAD], x_elements);
        weir_convert(&dataset->x, dataset->convert, index[k] * x_elements, x_elements, dataset->x_scale,
                     x + k * x_elements);
        weir_convert(&dataset->y, dataset->convert, index[k] * y_elements, y_elements, 1.0f, y + k * y_elements);
    }
}
