/* Losses and metrics, as Keras computes them: per position (a vector of `width` outputs), then the mean. */
#include "cpu/op.h"

#include <math.h>
#include <string.h>

#include "backend/formulas.h"

#define EPSILON 1e-7f /* keras.config.epsilon(): probabilities are kept that far from 0 and 1 */

/* One position. */
struct place {
    const float *output; /* logits or probabilities */
    const float *labels; /* one class number, or `width` numbers */
    size_t width;
    float *dy; /* or NULL */
    float scale;
};

static float clip(float p)
{
    p = p < EPSILON ? EPSILON : p;
    return p > 1.0f - EPSILON ? 1.0f - EPSILON : p;
}

/* The derivative of clip. */
static float clip_slope(float p)
{
    return p >= EPSILON && p <= 1.0f - EPSILON ? 1.0f : 0.0f;
}

/* `width` if the label is no class: then the loss is NaN, and says so. */
static size_t class_of(const struct place *place)
{
    float label = place->labels[0];
    return label >= 0 && label < (float)place->width ? (size_t)label : place->width;
}

/* log sum exp, and *most, the greatest; the exponentials of output - most go to dy. */
static float log_sum_exp(const struct place *place, float *most, float *sum)
{
    const float *x = place->output;
    *most = x[0];
    for (size_t i = 1; i < place->width; i++)
        *most = x[i] > *most ? x[i] : *most;
    *sum = 0;
    if (place->dy) {
        for (size_t i = 0; i < place->width; i++)
            place->dy[i] = weir_exp(x[i] - *most);
        for (size_t i = 0; i < place->width; i++)
            *sum += place->dy[i];
    } else {
        for (size_t i = 0; i < place->width; i++)
            *sum += weir_exp(x[i] - *most);
    }
    return logf(*sum) + *most;
}

static float sparse_of_logits(const struct place *place)
{
    float most, sum, lse = log_sum_exp(place, &most, &sum);
    size_t class = class_of(place);
    if (class == place->width)
        return NAN;
    if (place->dy) {
        float factor = place->scale / sum;
        for (size_t i = 0; i < place->width; i++)
            place->dy[i] *= factor;
        place->dy[class] -= place->scale;
    }
    return lse - place->output[class];
}

/* Clipped, then normalised, since Keras hands the logarithms to the softmax cross entropy. */
static float sparse_of_probabilities(const struct place *place)
{
    size_t class = class_of(place);
    float sum = 0;
    for (size_t i = 0; i < place->width; i++)
        sum += clip(place->output[i]);
    if (class == place->width)
        return NAN;
    for (size_t i = 0; place->dy && i < place->width; i++) {
        float hit = i == class ? 1.0f / clip(place->output[i]) : 0.0f;
        place->dy[i] = place->scale * clip_slope(place->output[i]) * (1.0f / sum - hit);
    }
    return logf(sum) - logf(clip(place->output[class]));
}

static float smooth(const struct weir_loss_config *loss, float label, float uniform)
{
    float smoothing = (float)loss->label_smoothing;
    return smoothing > 0 ? label * (1.0f - smoothing) + smoothing * uniform : label;
}

static float categorical_of_logits(const struct weir_loss_config *loss, const struct place *place)
{
    float most, sum, lse = log_sum_exp(place, &most, &sum), value = 0, labels = 0;
    for (size_t i = 0; i < place->width; i++) {
        float label = smooth(loss, place->labels[i], 1.0f / (float)place->width);
        value += label * (lse - place->output[i]);
        labels += label;
    }
    for (size_t i = 0; place->dy && i < place->width; i++) {
        float label = smooth(loss, place->labels[i], 1.0f / (float)place->width);
        place->dy[i] = place->scale * (place->dy[i] / sum * labels - label);
    }
    return value;
}

/* Normalised, then clipped. */
static float categorical_of_probabilities(const struct weir_loss_config *loss, const struct place *place)
{
    float sum = 0, value = 0, inner = 0;
    for (size_t i = 0; i < place->width; i++)
        sum += place->output[i];
    for (size_t i = 0; i < place->width; i++) {
        float label = smooth(loss, place->labels[i], 1.0f / (float)place->width), p = place->output[i] / sum;
        value -= label * logf(clip(p));
        inner -= label / clip(p) * clip_slope(p) * p;
    }
    for (size_t i = 0; place->dy && i < place->width; i++) {
        float label = smooth(loss, place->labels[i], 1.0f / (float)place->width), p = place->output[i] / sum;
        place->dy[i] = place->scale * (-label / clip(p) * clip_slope(p) - inner) / sum;
    }
    return value;
}

static float binary(const struct weir_loss_config *loss, const struct place *place, bool logits)
{
    float value = 0, scale = place->scale / (float)place->width;
    for (size_t i = 0; i < place->width; i++) {
        float x = place->output[i], label = smooth(loss, place->labels[i], 0.5f), slope;
        if (logits) {
            value += (x > 0 ? x : 0) - x * label + log1pf(weir_exp(x > 0 ? -x : x));
            slope = weir_sigmoid(x) - label;
        } else {
            float p = clip(x);
            value -= label * logf(p) + (1.0f - label) * logf(1.0f - p);
            slope = ((1.0f - label) / (1.0f - p) - label / p) * clip_slope(x);
        }
        if (place->dy)
            place->dy[i] = scale * slope;
    }
    return value / (float)place->width;
}

static float squared_error(const struct place *place)
{
    float value = 0, scale = 2.0f * place->scale / (float)place->width;
    for (size_t i = 0; i < place->width; i++) {
        float difference = place->output[i] - place->labels[i];
        value += difference * difference;
        if (place->dy)
            place->dy[i] = scale * difference;
    }
    return value / (float)place->width;
}

static float loss_at(const struct weir_loss_config *loss, const struct place *place, bool logits)
{
    switch (loss->kind) {
    case WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY:
        return logits ? sparse_of_logits(place) : sparse_of_probabilities(place);
    case WEIR_LOSS_CATEGORICAL_CROSSENTROPY:
        return logits ? categorical_of_logits(loss, place) : categorical_of_probabilities(loss, place);
    case WEIR_LOSS_BINARY_CROSSENTROPY:
        return binary(loss, place, logits);
    case WEIR_LOSS_MEAN_SQUARED_ERROR:
        break;
    }
    return squared_error(place);
}

/* The mean over the positions of a row. */
static float row_loss(const struct weir_loss_desc *desc, const struct weir_loss_config *loss,
                      const struct weir_loss_pass *pass, size_t row, float *dy)
{
    bool fused = weir_loss_from_last_logits(loss, desc->last);
    const float *output = fused ? pass->logits : pass->prediction;
    float value = 0;
    for (size_t p = 0; p < desc->positions; p++) {
        size_t at = row * desc->positions + p;
        struct place place = {.output = output + at * desc->width,
                              .labels = pass->labels + at * desc->label_width,
                              .width = desc->width,
                              .dy = dy ? dy + at * desc->width : NULL,
                              .scale = pass->scale / (float)desc->positions};
        value += loss_at(loss, &place, fused || loss->from_logits);
    }
    return value / (float)desc->positions;
}

/* ---- metrics */

static size_t greatest(const float *x, size_t width)
{
    size_t best = 0;
    for (size_t i = 1; i < width; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static float metric_at(const struct weir_metric_config *metric, const float *output, const float *labels, size_t width)
{
    float value = 0;
    switch (metric->kind) {
    case WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY:
        return labels[0] == (float)greatest(output, width) ? 1.0f : 0.0f;
    case WEIR_METRIC_CATEGORICAL_ACCURACY:
        return greatest(labels, width) == greatest(output, width) ? 1.0f : 0.0f;
    case WEIR_METRIC_BINARY_ACCURACY:
        for (size_t i = 0; i < width; i++)
            value += (output[i] > (float)metric->threshold ? 1.0f : 0.0f) == labels[i] ? 1.0f : 0.0f;
        break;
    case WEIR_METRIC_MEAN_SQUARED_ERROR:
        for (size_t i = 0; i < width; i++)
            value += (output[i] - labels[i]) * (output[i] - labels[i]);
        break;
    case WEIR_METRIC_MEAN_ABSOLUTE_ERROR:
        for (size_t i = 0; i < width; i++)
            value += fabsf(output[i] - labels[i]);
        break;
    case WEIR_METRIC_LOSS_MEAN:
    case WEIR_METRIC_ACCURACY:
        break;
    }
    return value / (float)width;
}

static float row_metric(const struct weir_loss_desc *desc, const struct weir_metric_config *metric,
                        const struct weir_loss_pass *pass, size_t row)
{
    if (metric->kind == WEIR_METRIC_LOSS_MEAN)
        return row_loss(desc, &metric->loss, pass, row, NULL);
    float value = 0;
    for (size_t p = 0; p < desc->positions; p++) {
        size_t at = row * desc->positions + p;
        value +=
            metric_at(metric, pass->prediction + at * desc->width, pass->labels + at * desc->label_width, desc->width);
    }
    return value / (float)desc->positions;
}

void weir_cpu_loss(struct weir_backend_context *context, const struct weir_loss_desc *desc,
                   const struct weir_loss_pass *pass)
{
    (void)context;
    for (size_t row = 0; row < pass->rows; row++)
        pass->values[row] = row_loss(desc, &desc->loss, pass, row, pass->dy);
    for (size_t m = 0; m < desc->metric_count; m++)
        for (size_t row = 0; row < pass->rows; row++)
            pass->values[(m + 1) * pass->rows + row] = row_metric(desc, &desc->metrics[m], pass, row);
}
