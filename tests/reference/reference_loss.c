#include "reference/reference.h"

#include <math.h>
#include <string.h>

/* Keras's epsilon and 1 - epsilon, as fp32 rounds them: part of the definition, since 1 - p is taken of the latter. */
#define LEAST ((double)1e-7f)
#define MOST ((double)(1.0f - 1e-7f))

static double clip(double p)
{
    return p < LEAST ? LEAST : p > MOST ? MOST : p;
}

static double clip_slope(double p)
{
    return p >= LEAST && p <= MOST ? 1 : 0;
}

struct place {
    const double *output;
    size_t width;
    double *dy; /* or NULL */
};

/* -sum target log softmax(output) */
static double softmax_cross_entropy(const struct place *p, const double *target)
{
    double most = -INFINITY, sum = 0, value = 0, weight = 0;
    for (size_t i = 0; i < p->width; i++)
        most = fmax(most, p->output[i]);
    for (size_t i = 0; i < p->width; i++)
        sum += exp(p->output[i] - most);
    for (size_t i = 0; i < p->width; i++) {
        value -= target[i] * (p->output[i] - most - log(sum));
        weight += target[i];
    }
    for (size_t i = 0; p->dy && i < p->width; i++)
        p->dy[i] = weight * exp(p->output[i] - most) / sum - target[i];
    return value;
}

/* The logarithms of the clipped probabilities, taken as logits. */
static double sparse_of_probabilities(const struct place *p, const double *target)
{
    double sum = 0, value = 0;
    for (size_t i = 0; i < p->width; i++)
        sum += clip(p->output[i]);
    for (size_t i = 0; i < p->width; i++) {
        double c = clip(p->output[i]);
        value -= target[i] * log(c / sum);
        if (p->dy)
            p->dy[i] = clip_slope(p->output[i]) * (1 / sum - target[i] / c);
    }
    return value;
}

static double categorical_of_probabilities(const struct place *p, const double *target)
{
    double sum = 0, value = 0;
    for (size_t i = 0; i < p->width; i++)
        sum += p->output[i];
    for (size_t i = 0; i < p->width; i++)
        value -= target[i] * log(clip(p->output[i] / sum));
    for (size_t k = 0; p->dy && k < p->width; k++) {
        p->dy[k] = 0;
        for (size_t i = 0; i < p->width; i++) { /* d(p_i / sum) / dp_k */
            double n = p->output[i] / sum, share = ((i == k ? 1 : 0) - n) / sum;
            p->dy[k] -= target[i] / clip(n) * clip_slope(n) * share;
        }
    }
    return value;
}

static double binary(const struct place *p, const double *target, bool logits)
{
    double value = 0, n = (double)p->width;
    for (size_t i = 0; i < p->width; i++) {
        double x = p->output[i], t = target[i], q = logits ? 1 / (1 + exp(-x)) : clip(x);
        value += logits ? fmax(x, 0) - x * t + log1p(exp(-fabs(x))) : -t * log(q) - (1 - t) * log(1 - q);
        if (p->dy)
            p->dy[i] = (logits ? q - t : ((1 - t) / (1 - q) - t / q) * clip_slope(x)) / n;
    }
    return value / n;
}

static double squared_error(const struct place *p, const double *target)
{
    double value = 0, n = (double)p->width;
    for (size_t i = 0; i < p->width; i++) {
        value += (p->output[i] - target[i]) * (p->output[i] - target[i]) / n;
        if (p->dy)
            p->dy[i] = 2 * (p->output[i] - target[i]) / n;
    }
    return value;
}

#define WIDTH_MAX 64

static double place_loss(const struct weir_loss_desc *desc, const struct place *p, const float *labels)
{
    const struct weir_loss_config *loss = &desc->loss;
    bool logits = loss->from_logits || weir_loss_from_last_logits(loss, desc->last);
    double target[WIDTH_MAX] = {0};
    double smoothing = loss->kind == WEIR_LOSS_MEAN_SQUARED_ERROR ? 0 : loss->label_smoothing;
    bool sparse = loss->kind == WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    double uniform = loss->kind == WEIR_LOSS_BINARY_CROSSENTROPY ? 0.5 : 1.0 / (double)p->width;
    for (size_t i = 0; i < p->width; i++)
        target[i] = sparse ? (size_t)labels[0] == i : (double)labels[i] * (1 - smoothing) + smoothing * uniform;
    if (loss->kind == WEIR_LOSS_MEAN_SQUARED_ERROR)
        return squared_error(p, target);
    if (loss->kind == WEIR_LOSS_BINARY_CROSSENTROPY)
        return binary(p, target, logits);
    if (logits)
        return softmax_cross_entropy(p, target);
    return sparse ? sparse_of_probabilities(p, target) : categorical_of_probabilities(p, target);
}

double weir_reference_loss(const struct weir_loss_desc *desc, const double *output, const float *labels, double *dy)
{
    double value = 0, n = (double)desc->positions;
    for (size_t i = 0; i < desc->positions; i++) {
        struct place place = {output + i * desc->width, desc->width, dy ? dy + i * desc->width : NULL};
        value += place_loss(desc, &place, labels + i * desc->label_width) / n;
        for (size_t k = 0; dy && k < desc->width; k++)
            place.dy[k] /= n;
    }
    return value;
}
