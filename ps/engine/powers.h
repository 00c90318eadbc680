/* exp, log and pow in plain double arithmetic: the same bits on every machine and instruction set, which libm does not
 * promise. exp and log are within 2 units in the last place; pow's relative error is below 1e-13 where its result and
 * argument are in the range of a float.
 *
 * Series: log by 2 artanh((m - 1) / (m + 1)) after halving to [sqrt(1/2), sqrt(2)); exp by Taylor after taking out the
 * nearest multiple of ln 2, which stands here as a sum of two numbers (Cody and Waite's reduction).
 */
#ifndef WEIR_ENGINE_POWERS_H
#define WEIR_ENGINE_POWERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define WEIR_LN2_HIGH 0x1.62e42fefap-1 /* 32 bits at most: its product with any exponent is exact */
#define WEIR_LN2_LOW 0x1.cf79abc9e3b39p-40
#define WEIR_EXP_MAX 709.78
#define WEIR_EXP_MIN (-708.0) /* below, the result would be denormal: 0 */

static inline double weir_math_two_to(int exponent) /* -1022 to 1023 */
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* x normal, zero (-inf) or infinite; less than zero gives not-a-number. */
static inline double weir_math_log(double x)
{
    if (!(x > 0) || isinf(x))
        return x == 0 ? -INFINITY : x > 0 ? x : NAN;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    double m = x * weir_math_two_to(exponent > 1022 ? -1022 : -exponent);
    if (exponent > 1022)
        m *= 0.5;
    if (m > 0x1.6a09e667f3bcdp+0) /* sqrt(2) */
        m *= 0.5, exponent++;
    double f = (m - 1) / (m + 1), s = f * f, series = 0;
    for (int k = 23; k >= 3; k -= 2)
        series = (series + 1.0 / k) * s;
    return exponent * WEIR_LN2_HIGH + (2 * f + (2 * f * series + exponent * WEIR_LN2_LOW));
}

static inline double weir_math_exp(double x)
{
    if (!(x <= WEIR_EXP_MAX) || x < WEIR_EXP_MIN)
        return x > 0 ? INFINITY : x < 0 ? 0.0 : x;
    int k = (int)(x * 0x1.71547652b82fep+0 + (x < 0 ? -0.5 : 0.5)); /* 1 / ln 2 */
    double r = (x - k * WEIR_LN2_HIGH) - k * WEIR_LN2_LOW, series = 1;
    for (int i = 15; i >= 2; i--)
        series = 1 + series * r / i;
    double result = 1 + series * r;
    return k > 1023 ? result * 2 * weir_math_two_to(k - 1) : result * weir_math_two_to(k);
}

/* x >= 0. */
static inline double weir_math_pow(double x, double y)
{
    if (y == 0)
        return 1;
    return weir_math_exp(y * weir_math_log(x));
}

/* base^exponent by repeated squaring; the relative error grows as exponent * 2^-53. */
static inline double weir_math_power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

#endif
