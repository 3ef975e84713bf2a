/* Three ways, from fast to exact.  If the operands are integers below 2^53, one double division is
 * correctly rounded already.  Otherwise long double (64-bit mantissa on x86) usually decides: its
 * quotient is within half a unit of its last place, so rounding it to double goes wrong only when
 * the bits that double drops are exactly, or next to, one half.  What is left is long division. */
#include "heuristic/score.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef unsigned __int128 u128;

static int bit_length(u128 x)
{
    uint64_t high = (uint64_t)(x >> 64), low = (uint64_t)x;
    return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

/* n / d for n, d > 0: 54 quotient bits (53 and the rounding bit) and a sticky remainder. */
static double divide_exactly(uint64_t n, u128 d)
{
    int shift = bit_length(d) - bit_length(n); /* n * 2^shift is within a factor of 2 of d */
    u128 remainder = n, divisor = d;
    if (shift >= 0)
        remainder <<= shift;
    else
        divisor <<= -shift;
    if (remainder < divisor) { /* make the first quotient bit a 1 */
        remainder <<= 1;
        shift++;
    }
    uint64_t quotient = 0;
    for (int i = 0; i < 54; i++) {
        quotient <<= 1;
        if (remainder >= divisor) {
            remainder -= divisor;
            quotient |= 1;
        }
        remainder <<= 1;
    }
    int sticky = remainder != 0;
    uint64_t rounded = quotient >> 1;
    if ((quotient & 1) && (sticky || (rounded & 1)))
        rounded++;
    return ldexp((double)rounded, -52 - shift);
}

/* Whether rounding q, itself rounded to 64 bits, to double's 53 is certain to be right. */
static int certain(long double q)
{
#if LDBL_MANT_DIG == 64
    uint64_t mantissa;
    memcpy(&mantissa, &q, sizeof mantissa);
    unsigned dropped = mantissa & 0x7ff;
    return dropped < 0x3ff || dropped > 0x401;
#else
    (void)q;
    return 0;
#endif
}

double dtri_quotient(int64_t numerator, int64_t a, int64_t b)
{
    const int64_t exact = INT64_C(1) << 53;
    u128 product = (u128)(uint64_t)a * (uint64_t)b;
    if (product == 0)
        return INFINITY;
    if (numerator == 0)
        return 0.0;
    if (numerator < exact && numerator > -exact && product < (u128)exact)
        return (double)numerator / (double)(int64_t)product;
    if (product >> 64 == 0) {
        long double q = (long double)numerator / (long double)(uint64_t)product;
        if (certain(q))
            return (double)q;
    }
    double q = divide_exactly(numerator < 0 ? -(uint64_t)numerator : (uint64_t)numerator, product);
    return numerator < 0 ? -q : q;
}
