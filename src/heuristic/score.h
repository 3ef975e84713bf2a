/* Scores as the published simulator computes them: the IEEE double nearest to an exact quotient of
 * integers, +infinity for a zero denominator. */
#ifndef DTRI_HEURISTIC_SCORE_H
#define DTRI_HEURISTIC_SCORE_H

#include <stdint.h>

/* numerator / (a * b), correctly rounded; a, b >= 0. */
double dtri_quotient(int64_t numerator, int64_t a, int64_t b);

#endif
