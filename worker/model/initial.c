/* Initial weights: a pure function of (seed, variable, element).
 *
 * Only IEEE arithmetic in double and a fixed order, no libm, so that the bits are the same on every machine.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "model/model.h"

/* ln x for x in (0, 1): the exponent apart, the fraction by the series of 2 artanh((f - 1) / (f + 1)); |s| < 0.172, so
 * twelve terms leave less than 2^-60. */
static double natural_log(double x)
{
    int exponent;
    double f = frexp(x, &exponent); /* exact */
    if (f < 0.70710678118654752) {
        f *= 2;
        exponent--;
    }
    double s = (f - 1) / (f + 1), s2 = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return exponent * 0.69314718055994530942 + 2 * s * sum;
}

static double ratio(const double *a, const double *b, int n, double x)
{
    double above = a[n - 1], below = b[n - 1];
    for (int i = n - 2; i >= 0; i--) {
        above = above * x + a[i];
        below = below * x + b[i];
    }
    return above / below;
}

/* The value below which a standard normal number lies with probability p, 0 < p < 1: Wichura's PPND16 (algorithm AS
 * 241, Applied Statistics 37, 1988), to about 1e-16. */
static double normal_quantile(double p)
{
    static const double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                               1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                               3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[] = {1.0,
                               4.2313330701600911252e1,
                               6.8718700749205790830e2,
                               5.3941960214247511077e3,
                               2.1213794301586595867e4,
                               3.9307895800092710610e4,
                               2.8729085735721942674e4,
                               5.2264952788528545610e3};
    static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                               3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1.0,
                               2.05319162663775882187e0,
                               1.67638483018380384940e0,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    static const double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                               2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[] = {1.0,
                               5.99832206555887937690e-1,
                               1.36929880922735805310e-1,
                               1.48753612908506148525e-2,
                               7.86869131145613259100e-4,
                               1.84631831751005468180e-5,
                               1.42151175831644588870e-7,
                               2.04426310338993978564e-15};
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * ratio(a, b, 8, 0.180625 - q * q);
    double r = sqrt(-natural_log(q < 0 ? p : 1 - p));
    double x = r <= 5 ? ratio(c, d, 8, r - 1.6) : ratio(e, f, 8, r - 5);
    return q < 0 ? -x : x;
}

/* (0, 1), by all 32 bits. */
static double open_unit(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

static float uniform(const struct weir_variable *variable, uint32_t word)
{
    float x = (float)(variable->a + ((double)variable->b - variable->a) * weir_random_unit(word));
    return x < variable->b || variable->a == variable->b ? x : variable->a; /* rounded up to the open end */
}

static float value_at(const struct weir_variable *variable, uint32_t word)
{
    const double below_two = 0.022750131948179207; /* the probability of a normal number below -2 */
    switch (variable->init) {
    case WEIR_INIT_ONES:
        return 1;
    case WEIR_INIT_CONSTANT:
        return variable->a;
    case WEIR_INIT_UNIFORM:
        return uniform(variable, word);
    case WEIR_INIT_NORMAL:
        return (float)(variable->a + variable->b * normal_quantile(open_unit(word)));
    case WEIR_INIT_TRUNCATED_NORMAL:
        return (float)(variable->a + variable->b * normal_quantile(below_two + open_unit(word) * (1 - 2 * below_two)));
    case WEIR_INIT_ZEROS:
        break;
    }
    return 0;
}

/* Elements [from, to) of a variable to out. */
static void fill(const struct weir_variable *variable, struct weir_random_key key, uint64_t from, uint64_t to,
                 float *out)
{
    for (uint64_t block = from / 4; block * 4 < to; block++) {
        uint32_t word[4];
        weir_random_block(key, block, 0, word);
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t element = block * 4 + k;
            if (element >= from && element < to)
                out[element - from] = value_at(variable, word[k]);
        }
    }
}

void weir_model_initial(const struct weir_variable *variables, size_t variable_count, uint64_t seed, uint64_t first,
                        uint64_t count, float *out)
{
    memset(out, 0, count * sizeof *out);
    uint64_t end = first + count;
    assert(end >= first);
    for (size_t v = 0; v < variable_count; v++) {
        const struct weir_variable *variable = &variables[v];
        uint64_t stop = variable->offset + variable->elements;
        uint64_t from = variable->offset > first ? variable->offset : first, to = stop < end ? stop : end;
        if (from >= to || variable->init == WEIR_INIT_ZEROS)
            continue;
        struct weir_random_key key = weir_random_key(seed, WEIR_RANDOM_INIT, (uint32_t)v, 0);
        fill(variable, key, from - variable->offset, to - variable->offset, out + (from - first));
    }
}
