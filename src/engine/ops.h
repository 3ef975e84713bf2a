/* What the files of operators share: applying with one output, checking operands. */
#ifndef DTRI_ENGINE_OPS_H
#define DTRI_ENGINE_OPS_H

#include "engine/engine.h"

/* dtri_apply with one output. */
dtr_array *dtri_apply1(const struct dtri_op *op, const struct dtri_params *p, dtr_array *a,
                       dtr_shape out);
dtr_array *dtri_apply2(const struct dtri_op *op, const struct dtri_params *p, dtr_array *a,
                       dtr_array *b, dtr_shape out);

/* True if none of the operands failed and they are floats; otherwise the engine has failed. */
bool dtri_floats(const char *name, dtr_array *const *operands, int n);
/* Fails the engine with the names and shapes of both; returns the failed array. */
dtr_array *dtri_shapes_do_not_fit(const char *name, const dtr_array *a, const dtr_array *b);
/* An axis counted from the end becomes one counted from 0; -1, and the engine failed, if there is
 * no such axis. */
int dtri_axis(const char *name, const dtr_array *a, int axis);

#endif
