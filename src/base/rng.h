/* A small seeded generator (xoshiro256**, Blackman and Vigna 2018; seeded by splitmix64). */
#ifndef DTRI_BASE_RNG_H
#define DTRI_BASE_RNG_H

#include <stdint.h>

struct dtri_rng {
    uint64_t s[4];
};

static inline void dtri_rng_seed(struct dtri_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng->s[i] = z ^ (z >> 31);
    }
}

static inline uint64_t dtri_rng_next(struct dtri_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t m = s[1] * 5, t = s[1] << 17;
    uint64_t result = ((m << 7) | (m >> 57)) * 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* Uniform in [0, n), n > 0, without modulo bias. */
static inline uint64_t dtri_rng_below(struct dtri_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;
    do
        x = dtri_rng_next(rng);
    while (x >= limit);
    return x % n;
}

/* Uniform in [0, 1) with 53 bits. */
static inline double dtri_rng_unit(struct dtri_rng *rng)
{
    return (double)(dtri_rng_next(rng) >> 11) * 0x1p-53;
}

#endif
