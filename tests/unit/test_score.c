/* Scores are correctly rounded quotients: against vectors from exact rational arithmetic, and
 * against long division in 128 bits. */
#include "../support.h"

#include <math.h>

#include "base/rng.h"
#include "heuristic/score.h"

/* numerator, a, b, the double nearest to numerator / (a b).  From Python's integer division, which
 * rounds correctly; chosen next to ties, at the ends of the range, and at random. */
static const struct {
    int64_t numerator, a, b;
    double nearest;
} vectors[] = {
    {INT64_C(1), INT64_C(3), INT64_C(1), 0x1.5555555555555p-2},
    {INT64_C(9223372036854775807), INT64_C(1), INT64_C(1), 0x1.0000000000000p+63},
    {INT64_C(9223372036854775807), INT64_C(9223372036854775807), INT64_C(9223372036854775807),
     0x1.0000000000000p-63},
    {INT64_C(1), INT64_C(9223372036854775807), INT64_C(9223372036854775807),
     0x1.0000000000000p-126},
    {INT64_C(-5), INT64_C(7), INT64_C(3), -0x1.e79e79e79e79ep-3},
    {INT64_C(9007199254740993), INT64_C(1), INT64_C(1), 0x1.0000000000000p+53},
    {INT64_C(9007199254740995), INT64_C(1), INT64_C(1), 0x1.0000000000002p+53},
    {INT64_C(18014398509481986), INT64_C(1), INT64_C(1), 0x1.0000000000000p+54},
    {INT64_C(18014398509481990), INT64_C(1), INT64_C(1), 0x1.0000000000002p+54},
    {INT64_C(-9007199254740993), INT64_C(1), INT64_C(1), -0x1.0000000000000p+53},
    {INT64_C(9223372036854775807), INT64_C(3), INT64_C(1), 0x1.5555555555555p+61},
    {INT64_C(1), INT64_C(9007199254740993), INT64_C(1), 0x1.fffffffffffffp-54},
    {INT64_C(9223372036854775806), INT64_C(2147483647), INT64_C(8589934593), 0x1.0000000180000p-1},
    {INT64_C(4611686018427387904), INT64_C(3), INT64_C(2305843009213693951), 0x1.5555555555555p-1},
    {INT64_C(123456789012345678), INT64_C(987654321), INT64_C(1234567), 0x1.95001322f318fp+6},
    {INT64_C(3), INT64_C(4611686018427387904), INT64_C(4611686018427387904),
     0x1.8000000000000p-123},
    {INT64_C(4789510), INT64_C(812845946938), INT64_C(6670568), 0x1.f144670bd7492p-41},
    {INT64_C(-12608959916), INT64_C(13009478384), INT64_C(833179166), -0x1.3fc1ef1799917p-30},
    {INT64_C(72830363696), INT64_C(232), INT64_C(7869673), 0x1.3f1f6de51c0cbp+5},
    {INT64_C(2066614063), INT64_C(1070867290), INT64_C(57441823464099), 0x1.2e9c8478a5243p-45},
    {INT64_C(-1102403888676391970), INT64_C(40496375386968), INT64_C(317), -0x1.577fb5e8e0393p+6},
    {INT64_C(-7586349219246241231), INT64_C(15092918827889587), INT64_C(1081005539182106),
     -0x1.05c2477c3f7dcp-41},
    {INT64_C(-6868758560924346478), INT64_C(2486729324425275689), INT64_C(90177226452388933),
     -0x1.1a8404f41f1bcp-55},
    {INT64_C(6596790970081239004), INT64_C(1767306431130517811), INT64_C(22619),
     0x1.5a14a863891a6p-13},
    {INT64_C(-4124), INT64_C(8538), INT64_C(1263992), -0x1.9a50cc84290bap-22},
    {INT64_C(1771966512415421877), INT64_C(5947274183596), INT64_C(10), 0x1.d18a65af84e6bp+14},
    {INT64_C(-1811958214232235986), INT64_C(387498), INT64_C(1014768379), -0x1.1fffe24ce0e2ap+12},
    {INT64_C(3765808967860619623), INT64_C(2188753391845016680), INT64_C(237813875249075),
     0x1.04a8e75bfc7c3p-47},
    {INT64_C(-173751), INT64_C(6314364), INT64_C(3613072933), -0x1.0bf5e32c16dd9p-37},
    {INT64_C(5301169286295328331), INT64_C(906296240232411727), INT64_C(194), 0x1.edfde3eff8b3fp-6},
    {INT64_C(27622567230), INT64_C(7488604), INT64_C(13962483211), 0x1.1ba95767c98fap-22},
    {INT64_C(-8479761343832402155), INT64_C(3871717026377908), INT64_C(19206),
     -0x1.d317b8b323662p-4},
    {INT64_C(14396112259765226), INT64_C(2623484319), INT64_C(195973323923924521),
     0x1.ec9834692ba03p-36},
    {INT64_C(861455529407016895), INT64_C(719288), INT64_C(642088), 0x1.c761b5340bef9p+20},
    {INT64_C(8485010349147106575), INT64_C(43532453527265), INT64_C(346881874),
     0x1.2698b26a487c2p-11},
    {INT64_C(27505709843684), INT64_C(16851762966), INT64_C(2), 0x1.980dcbd953d39p+9},
    {INT64_C(-100724038), INT64_C(698969895), INT64_C(19545997), -0x1.faa300da7c00ap-28},
    {INT64_C(1927523195494150409), INT64_C(1435314908), INT64_C(2352169793740937),
     0x1.32842e7b30d72p-21},
    {INT64_C(-1218950066698473882), INT64_C(1734722241375), INT64_C(14311719),
     -0x1.92360e4946d2bp-5},
    {INT64_C(147145627183), INT64_C(10621756577378776), INT64_C(465), 0x1.ffd21ec078b44p-26},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        double got = dtri_quotient(vectors[i].numerator, vectors[i].a, vectors[i].b);
        if (got != vectors[i].nearest)
            fail_msg("vector %zu: %a, not %a", i, got, vectors[i].nearest);
    }
}

static void test_zeros(void **state)
{
    (void)state;
    assert_true(dtri_quotient(0, 5, 7) == 0.0);
    assert_true(isinf(dtri_quotient(3, 0, 7)) && dtri_quotient(3, 0, 7) > 0);
    assert_true(isinf(dtri_quotient(0, 5, 0)) && dtri_quotient(0, 5, 0) > 0);
}

typedef unsigned __int128 u128;

/* Whether `q` is no further from n / d than its two neighbours, by exact comparison:
 * |n - q d| 2 <= ulp(q) d, with q = mantissa 2^exponent; and even where it is a tie. */
static int is_nearest(uint64_t n, uint64_t d, double q)
{
    int exponent;
    uint64_t mantissa = (uint64_t)ldexp(frexp(q, &exponent), 53);
    exponent -= 53;
    if (exponent > 0) /* only for quotients of 2^53 and more: not drawn here */
        return 0;
    u128 left = n, right = (u128)mantissa * d, step = d;
    if (-exponent > 63)
        return 0;
    left <<= -exponent; /* all times 2^-exponent */
    u128 off = left > right ? left - right : right - left;
    return 2 * off < step || (2 * off == step && mantissa % 2 == 0);
}

/* Random operands, of all sizes for which the comparison fits into 128 bits. */
static void test_long_division(void **state)
{
    struct dtri_rng rng;
    int n_checked = 0;
    (void)state;
    dtri_rng_seed(&rng, 9);
    for (int i = 0; i < 2000000; i++) {
        int64_t n = (int64_t)(dtri_rng_next(&rng) >> (1 + dtri_rng_below(&rng, 62)));
        int64_t a = (int64_t)(dtri_rng_next(&rng) >> (32 + dtri_rng_below(&rng, 31)));
        int64_t b = (int64_t)(dtri_rng_next(&rng) >> (34 + dtri_rng_below(&rng, 29)));
        if (!n || !a || !b)
            continue;
        double q = dtri_quotient(n, a, b);
        if (q >= 0x1p52 || q < 0x1p-10)
            continue;
        n_checked++;
        if (!is_nearest((uint64_t)n, (uint64_t)(a * b), q))
            fail_msg("%lld / (%lld %lld) is not %a", (long long)n, (long long)a, (long long)b, q);
    }
    assert_true(n_checked > 500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_long_division),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
