/* Shapes: sizes, broadcasting, strides.  Pure functions. */
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"

int64_t dtri_shape_size(const dtr_shape *shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape->n_dims; i++)
        size *= shape->dims[i];
    return size;
}

bool dtri_shape_valid(const dtr_shape *shape)
{
    int64_t left = DTRI_MAX_ELEMENTS;
    if (shape->n_dims < 0 || shape->n_dims > DTR_MAX_DIMS)
        return false;
    for (int i = 0; i < shape->n_dims; i++) {
        if (shape->dims[i] < 1 || shape->dims[i] > left)
            return false;
        left /= shape->dims[i];
    }
    return true;
}

bool dtri_shape_equal(const dtr_shape *a, const dtr_shape *b)
{
    return a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof a->dims[0]) == 0;
}

void dtri_shape_pad(const dtr_shape *shape, int64_t out_dims[DTR_MAX_DIMS])
{
    int missing = DTR_MAX_DIMS - shape->n_dims;
    for (int i = 0; i < DTR_MAX_DIMS; i++)
        out_dims[i] = i < missing ? 1 : shape->dims[i - missing];
}

bool dtri_shape_broadcast(const dtr_shape *a, const dtr_shape *b, dtr_shape *out)
{
    int64_t x[DTR_MAX_DIMS], y[DTR_MAX_DIMS];
    dtri_shape_pad(a, x);
    dtri_shape_pad(b, y);
    dtr_shape result = {.n_dims = a->n_dims > b->n_dims ? a->n_dims : b->n_dims};
    int missing = DTR_MAX_DIMS - result.n_dims;
    for (int i = missing; i < DTR_MAX_DIMS; i++) {
        if (x[i] != y[i] && x[i] != 1 && y[i] != 1)
            return false;
        result.dims[i - missing] = x[i] == 1 ? y[i] : x[i];
    }
    *out = result;
    return true;
}

void dtri_shape_strides(const dtr_shape *shape, const dtr_shape *full,
                        int64_t out_strides[DTR_MAX_DIMS])
{
    int64_t dims[DTR_MAX_DIMS], all[DTR_MAX_DIMS], stride = 1;
    dtri_shape_pad(shape, dims);
    dtri_shape_pad(full, all);
    for (int i = DTR_MAX_DIMS - 1; i >= 0; i--) {
        out_strides[i] = dims[i] == 1 && all[i] != 1 ? 0 : stride;
        stride *= dims[i];
    }
}

void dtri_shape_around(const dtr_shape *shape, int axis, int64_t *out_before, int64_t *out_after)
{
    *out_before = *out_after = 1;
    for (int i = 0; i < axis; i++)
        *out_before *= shape->dims[i];
    for (int i = axis + 1; i < shape->n_dims; i++)
        *out_after *= shape->dims[i];
}

const char *dtri_shape_text(const dtr_shape *shape, char *buffer)
{
    size_t at = (size_t)snprintf(buffer, DTRI_SHAPE_TEXT, "[");
    for (int i = 0; i < shape->n_dims && i < DTR_MAX_DIMS; i++)
        at += (size_t)snprintf(buffer + at, DTRI_SHAPE_TEXT - at, "%s%lld", i ? ", " : "",
                               (long long)shape->dims[i]);
    snprintf(buffer + at, DTRI_SHAPE_TEXT - at, "]");
    return buffer;
}
