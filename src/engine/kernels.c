/* Kernels without a model in mind: elementwise, sums, moving data about.
 *
 * Everything walks four nested dimensions (shapes are padded in front) with the innermost one as a
 * row, for which the common strides, 1 and 0, have loops of their own that compilers vectorize. */
#include "engine/kernels.h"

#include <math.h>
#include <string.h>

static const struct dtri_task *task_of(const dtr_cpu_kernel *kernel)
{
    return (const struct dtri_task *)(const void *)kernel; /* its first member */
}

/* --- two operands, broadcast ------------------------------------------------------------------ */

typedef void (*binary_row)(float *restrict out, const float *a, int64_t step_a, const float *b,
                           int64_t step_b, int64_t n);

#define BINARY(name, expression)                                                                   \
    static void name##_row(float *restrict out, const float *a, int64_t step_a, const float *b,    \
                           int64_t step_b, int64_t n)                                              \
    {                                                                                              \
        if (step_a == 1 && step_b == 1) {                                                          \
            for (int64_t i = 0; i < n; i++) {                                                      \
                float x = a[i], y = b[i];                                                          \
                out[i] = (expression);                                                             \
            }                                                                                      \
        } else if (step_a == 1 && step_b == 0) {                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                float x = a[i], y = b[0];                                                          \
                out[i] = (expression);                                                             \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                float x = a[i * step_a], y = b[i * step_b];                                        \
                out[i] = (expression);                                                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    dtr_status dtri_kernel_##name(const dtr_cpu_kernel *kernel, void *const *in, void *const *out, \
                                  dtr_error *error)                                                \
    {                                                                                              \
        (void)error;                                                                               \
        binary(task_of(kernel), in, out, name##_row);                                              \
        return DTR_OK;                                                                             \
    }

static void binary(const struct dtri_task *t, void *const *in, void *const *out, binary_row row)
{
    const float *a = in[0], *b = in[1];
    float *o = out[0];
    int64_t n[DTR_MAX_DIMS], sa[DTR_MAX_DIMS], sb[DTR_MAX_DIMS];
    if (dtri_shape_equal(&t->in[0], &t->in[1])) {
        row(o, a, 1, b, 1, dtri_shape_size(&t->out[0]));
        return;
    }
    dtri_shape_pad(&t->out[0], n);
    dtri_shape_strides(&t->in[0], &t->out[0], sa);
    dtri_shape_strides(&t->in[1], &t->out[0], sb);
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++, o += n[3])
                row(o, a + i * sa[0] + j * sa[1] + k * sa[2], sa[3],
                    b + i * sb[0] + j * sb[1] + k * sb[2], sb[3], n[3]);
}

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x *y)
BINARY(div, x / y)

/* --- one operand ------------------------------------------------------------------------------ */

#define UNARY(name, expression)                                                                    \
    dtr_status dtri_kernel_##name(const dtr_cpu_kernel *kernel, void *const *in, void *const *out, \
                                  dtr_error *error)                                                \
    {                                                                                              \
        const struct dtri_task *t = task_of(kernel);                                               \
        const float *restrict a = in[0];                                                           \
        float *restrict o = out[0];                                                                \
        int64_t n = dtri_shape_size(&t->out[0]);                                                   \
        (void)error;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                          \
            float x = a[i];                                                                        \
            o[i] = (expression);                                                                   \
        }                                                                                          \
        return DTR_OK;                                                                             \
    }

#define SQRT_HALF      0.70710678118654752440f
#define INV_SQRT_TWOPI 0.39894228040143267794f

static inline float normal_cdf(float x)
{
    return 0.5f * (1.0f + erff(x * SQRT_HALF));
}

UNARY(affine, x * t->p.affine.scale + t->p.affine.shift)
UNARY(exp, expf(x))
UNARY(log, logf(x))
UNARY(sqrt, sqrtf(x))
UNARY(relu, x > 0 ? x : 0)
UNARY(step, x > 0 ? 1.0f : 0.0f)
UNARY(gelu, x *normal_cdf(x))
UNARY(gelu_slope, normal_cdf(x) + x * INV_SQRT_TWOPI * expf(-0.5f * x * x))

dtr_status dtri_kernel_fill(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                            dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    float *o = out[0];
    int64_t n = dtri_shape_size(&t->out[0]);
    (void)in;
    (void)error;
    for (int64_t i = 0; i < n; i++)
        o[i] = t->p.fill.value;
    return DTR_OK;
}

/* --- sums and repetition ---------------------------------------------------------------------- */

static void sum_row(float *o, int64_t step, const float *a, int64_t n)
{
    if (step == 0) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += a[i];
        o[0] += (float)sum;
    } else {
        for (int64_t i = 0; i < n; i++)
            o[i] += a[i];
    }
}

/* The output has size 1 on the axes that are summed. */
dtr_status dtri_kernel_sum(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                           dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    const float *a = in[0];
    float *o = out[0];
    int64_t n[DTR_MAX_DIMS], so[DTR_MAX_DIMS];
    (void)error;
    dtri_shape_pad(&t->in[0], n);
    dtri_shape_strides(&t->out[0], &t->in[0], so);
    memset(o, 0, (size_t)dtri_shape_size(&t->out[0]) * sizeof *o);
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++, a += n[3])
                sum_row(o + i * so[0] + j * so[1] + k * so[2], so[3], a, n[3]);
    return DTR_OK;
}

static void copy_row(float *restrict o, const float *a, int64_t step, int64_t n)
{
    if (step == 1)
        memcpy(o, a, (size_t)n * sizeof *o);
    else
        for (int64_t i = 0; i < n; i++)
            o[i] = a[i * step];
}

/* Copies `a`, walked with `strides`, to a contiguous output. */
static void copy_strided(float *o, const dtr_shape *shape, const float *a,
                         const int64_t strides[DTR_MAX_DIMS])
{
    int64_t n[DTR_MAX_DIMS];
    dtri_shape_pad(shape, n);
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++, o += n[3])
                copy_row(o, a + i * strides[0] + j * strides[1] + k * strides[2], strides[3], n[3]);
}

dtr_status dtri_kernel_broadcast(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                                 dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t strides[DTR_MAX_DIMS];
    (void)error;
    dtri_shape_strides(&t->in[0], &t->out[0], strides);
    copy_strided(out[0], &t->out[0], in[0], strides);
    return DTR_OK;
}

dtr_status dtri_kernel_permute(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                               dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int missing = DTR_MAX_DIMS - t->in[0].n_dims;
    int64_t own[DTR_MAX_DIMS], strides[DTR_MAX_DIMS];
    (void)error;
    dtri_shape_strides(&t->in[0], &t->in[0], own);
    for (int i = 0; i < DTR_MAX_DIMS; i++)
        strides[i] = i < missing ? 0 : own[missing + t->p.permute.order[i - missing]];
    copy_strided(out[0], &t->out[0], in[0], strides);
    return DTR_OK;
}

/* A view shares the bytes of its input: there is nothing to do. */
dtr_status dtri_kernel_view(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                            dtr_error *error)
{
    (void)kernel;
    (void)in;
    (void)out;
    (void)error;
    return DTR_OK;
}

/* --- cutting and joining along one axis ------------------------------------------------------- */

/* A part of a whole along an axis: copies it out of the whole, or into it. */
struct cut {
    int64_t rows;  /* product of the dimensions before the axis */
    int64_t part;  /* elements of one row of the part */
    int64_t whole; /* of one row of the whole */
    int64_t offset;
};

static struct cut cut_of(const dtr_shape *part, const dtr_shape *whole, int axis, int64_t begin)
{
    int64_t before, after;
    dtri_shape_around(whole, axis, &before, &after);
    return (struct cut){before, part->dims[axis] * after, whole->dims[axis] * after, begin * after};
}

static void cut_out(struct cut c, float *part, const float *whole)
{
    for (int64_t i = 0; i < c.rows; i++)
        memcpy(part + i * c.part, whole + i * c.whole + c.offset, (size_t)c.part * sizeof *part);
}

static void cut_in(struct cut c, const float *part, float *whole)
{
    for (int64_t i = 0; i < c.rows; i++)
        memcpy(whole + i * c.whole + c.offset, part + i * c.part, (size_t)c.part * sizeof *part);
}

dtr_status dtri_kernel_split(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                             dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int axis = t->p.cut.axis;
    int64_t begin = 0;
    (void)error;
    for (int i = 0; i < t->n_outputs; begin += t->out[i++].dims[axis])
        cut_out(cut_of(&t->out[i], &t->in[0], axis, begin), out[i], in[0]);
    return DTR_OK;
}

dtr_status dtri_kernel_concat(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                              dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int axis = t->p.cut.axis;
    int64_t begin = 0;
    (void)error;
    for (int i = 0; i < t->n_inputs; begin += t->in[i++].dims[axis])
        cut_in(cut_of(&t->in[i], &t->out[0], axis, begin), in[i], out[0]);
    return DTR_OK;
}

dtr_status dtri_kernel_slice(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                             dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    (void)error;
    cut_out(cut_of(&t->out[0], &t->in[0], t->p.cut.axis, t->p.cut.begin), out[0], in[0]);
    return DTR_OK;
}

dtr_status dtri_kernel_pad(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                           dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    (void)error;
    memset(out[0], 0, (size_t)dtri_shape_size(&t->out[0]) * sizeof(float));
    cut_in(cut_of(&t->in[0], &t->out[0], t->p.cut.axis, t->p.cut.begin), in[0], out[0]);
    return DTR_OK;
}
