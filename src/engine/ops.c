/* Operators without a model in mind, each with its gradient in terms of others.
 *
 * A public function checks its operands, finds the shape of the result and applies a row.  It may
 * assume nothing of an operand but its engine, since a failed one may be passed.  A vjp may assume
 * what the public function checked. */
#include "engine/ops.h"

#include <string.h>

#include "engine/kernels.h"

/* --- what operators share --------------------------------------------------------------------- */

dtr_array *dtri_apply1(const struct dtri_op *op, const struct dtri_params *p, dtr_array *a,
                       dtr_shape out)
{
    dtr_array *result;
    dtri_apply(a->engine, op, p, &a, 1, &out, 1, &result);
    return result;
}

dtr_array *dtri_apply2(const struct dtri_op *op, const struct dtri_params *p, dtr_array *a,
                       dtr_array *b, dtr_shape out)
{
    dtr_array *result, *in[] = {a, b};
    dtri_apply(a->engine, op, p, in, 2, &out, 1, &result);
    return result;
}

bool dtri_floats(const char *name, dtr_array *const *operands, int n)
{
    dtr_engine *e = operands[0]->engine;
    for (int i = 0; i < n; i++)
        if (dtri_engine_ok(e) && operands[i]->integers)
            dtri_engine_fail(e, DTR_E_INVALID,
                             "%s: operand %d is of integers; it must be of floats", name, i);
    return dtri_engine_ok(e);
}

dtr_array *dtri_shapes_do_not_fit(const char *name, const dtr_array *a, const dtr_array *b)
{
    char x[DTRI_SHAPE_TEXT], y[DTRI_SHAPE_TEXT];
    dtri_engine_fail(a->engine, DTR_E_INVALID, "%s: the shapes %s and %s do not fit", name,
                     dtri_shape_text(&a->shape, x), dtri_shape_text(&b->shape, y));
    return dtri_failed(a->engine);
}

int dtri_axis(const char *name, const dtr_array *a, int axis)
{
    int dims = a->shape.n_dims;
    if (axis >= -dims && axis < dims)
        return axis < 0 ? axis + dims : axis;
    dtri_engine_fail(a->engine, DTR_E_INVALID, "%s: there is no axis %d; there are %d", name, axis,
                     dims);
    return -1;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static void add_vjp(struct dtri_vjp *v)
{
    for (int i = 0; i < 2; i++)
        if (v->wants & 1u << i)
            v->result[i] = dtri_sum_to(v->g[0], &v->node->in_shape[i]);
}

static void sub_vjp(struct dtri_vjp *v)
{
    if (v->wants & 1)
        v->result[0] = dtri_sum_to(v->g[0], &v->node->in_shape[0]);
    if (v->wants & 2)
        v->result[1] = dtri_sum_to(dtr_scale(v->g[0], -1), &v->node->in_shape[1]);
}

static void mul_vjp(struct dtri_vjp *v)
{
    for (int i = 0; i < 2; i++)
        if (v->wants & 1u << i)
            v->result[i] = dtri_sum_to(dtr_mul(v->g[0], v->in[1 - i]), &v->node->in_shape[i]);
}

/* d(a/b) = da/b - (a/b)/b db. */
static void div_vjp(struct dtri_vjp *v)
{
    dtr_array *share = dtr_div(v->g[0], v->in[1]);
    if (v->wants & 1)
        v->result[0] = dtri_sum_to(share, &v->node->in_shape[0]);
    if (v->wants & 2)
        v->result[1] = dtri_sum_to(dtr_scale(dtr_mul(share, v->out[0]), -1), &v->node->in_shape[1]);
}

static const struct dtri_op op_add = {"add", dtri_kernel_add, add_vjp};
static const struct dtri_op op_sub = {"sub", dtri_kernel_sub, sub_vjp};
static const struct dtri_op op_mul = {"mul", dtri_kernel_mul, mul_vjp, {{2, 0}, {1, 0}}};
static const struct dtri_op op_div = {"div", dtri_kernel_div, div_vjp, {{2, 0}, {2, 1}}};

static dtr_array *binary(const struct dtri_op *op, dtr_array *a, dtr_array *b)
{
    dtr_shape shape;
    if (!dtri_floats(op->name, (dtr_array *[]){a, b}, 2))
        return dtri_failed(a->engine);
    if (!dtri_shape_broadcast(&a->shape, &b->shape, &shape))
        return dtri_shapes_do_not_fit(op->name, a, b);
    return dtri_apply2(op, NULL, a, b, shape);
}

dtr_array *dtr_add(dtr_array *a, dtr_array *b)
{
    return binary(&op_add, a, b);
}

dtr_array *dtr_sub(dtr_array *a, dtr_array *b)
{
    return binary(&op_sub, a, b);
}

dtr_array *dtr_mul(dtr_array *a, dtr_array *b)
{
    return binary(&op_mul, a, b);
}

dtr_array *dtr_div(dtr_array *a, dtr_array *b)
{
    return binary(&op_div, a, b);
}

/* --- one operand ------------------------------------------------------------------------------ */

static dtr_array *unary(const struct dtri_op *op, const struct dtri_params *p, dtr_array *a)
{
    if (!dtri_floats(op->name, &a, 1))
        return dtri_failed(a->engine);
    return dtri_apply1(op, p, a, a->shape);
}

static void affine_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_scale(v->g[0], v->p->affine.scale);
}

static void exp_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_mul(v->g[0], v->out[0]);
}

static void log_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_div(v->g[0], v->in[0]);
}

static void sqrt_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_div(dtr_scale(v->g[0], 0.5f), v->out[0]);
}

/* A step function: its own gradient is zero wherever it has one. */
static const struct dtri_op op_step = {"step", dtri_kernel_step, NULL};

static void relu_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_mul(v->g[0], unary(&op_step, NULL, v->in[0]));
}

/* The second derivative of x cdf(x) is (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi). */
static void gelu_slope_vjp(struct dtri_vjp *v)
{
    dtr_array *square = dtr_mul(v->in[0], v->in[0]);
    dtr_array *density = dtr_scale(dtr_exp(dtr_scale(square, -0.5f)), 0.39894228040143267794f);
    v->result[0] = dtr_mul(v->g[0], dtr_mul(density, dtr_affine(square, -1, 2)));
}

static const struct dtri_op op_gelu_slope = {
    "gelu_slope", dtri_kernel_gelu_slope, gelu_slope_vjp, {{1, 0}}};

static void gelu_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_mul(v->g[0], unary(&op_gelu_slope, NULL, v->in[0]));
}

static const struct dtri_op op_affine = {"affine", dtri_kernel_affine, affine_vjp};
static const struct dtri_op op_exp = {"exp", dtri_kernel_exp, exp_vjp, {{0, 1}}};
static const struct dtri_op op_log = {"log", dtri_kernel_log, log_vjp, {{1, 0}}};
static const struct dtri_op op_sqrt = {"sqrt", dtri_kernel_sqrt, sqrt_vjp, {{0, 1}}};
static const struct dtri_op op_relu = {"relu", dtri_kernel_relu, relu_vjp, {{1, 0}}};
static const struct dtri_op op_gelu = {"gelu", dtri_kernel_gelu, gelu_vjp, {{1, 0}}};

dtr_array *dtr_affine(dtr_array *a, float scale, float shift)
{
    return unary(&op_affine, &(struct dtri_params){.affine = {scale, shift}}, a);
}

dtr_array *dtr_scale(dtr_array *a, float scale)
{
    return dtr_affine(a, scale, 0);
}

dtr_array *dtr_exp(dtr_array *a)
{
    return unary(&op_exp, NULL, a);
}

dtr_array *dtr_log(dtr_array *a)
{
    return unary(&op_log, NULL, a);
}

dtr_array *dtr_sqrt(dtr_array *a)
{
    return unary(&op_sqrt, NULL, a);
}

dtr_array *dtr_relu(dtr_array *a)
{
    return unary(&op_relu, NULL, a);
}

dtr_array *dtr_gelu(dtr_array *a)
{
    return unary(&op_gelu, NULL, a);
}

dtr_array *dtr_array_full(dtr_engine *e, dtr_shape shape, float value)
{
    static const struct dtri_op op_fill = {"fill", dtri_kernel_fill, NULL};
    dtr_array *result;
    dtri_apply(e, &op_fill, &(struct dtri_params){.fill = {value}}, NULL, 0, &shape, 1, &result);
    return result;
}

/* --- sums and repetition ---------------------------------------------------------------------- */

static void sum_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_broadcast(v->g[0], v->node->in_shape[0]);
}

static void broadcast_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtri_sum_to(v->g[0], &v->node->in_shape[0]);
}

static const struct dtri_op op_sum = {"sum", dtri_kernel_sum, sum_vjp};
static const struct dtri_op op_broadcast = {"broadcast", dtri_kernel_broadcast, broadcast_vjp};

dtr_array *dtr_sum_keep(dtr_array *a, unsigned axes)
{
    dtr_shape shape = a->shape;
    if (!dtri_floats("sum", &a, 1))
        return dtri_failed(a->engine);
    for (int i = 0; i < shape.n_dims; i++)
        if (axes & DTR_AXIS(i))
            shape.dims[i] = 1;
    return dtri_apply1(&op_sum, NULL, a, shape);
}

dtr_array *dtr_sum(dtr_array *a, unsigned axes)
{
    dtr_shape shape = {0};
    for (int i = 0; i < a->shape.n_dims; i++)
        if (!(axes & DTR_AXIS(i)))
            shape.dims[shape.n_dims++] = a->shape.dims[i];
    return dtr_reshape(dtr_sum_keep(a, axes), shape);
}

dtr_array *dtr_mean(dtr_array *a, unsigned axes)
{
    int64_t n = 1;
    for (int i = 0; i < a->shape.n_dims; i++)
        if (axes & DTR_AXIS(i))
            n *= a->shape.dims[i];
    return dtr_scale(dtr_sum(a, axes), (float)(1 / (double)n));
}

dtr_array *dtr_broadcast(dtr_array *a, dtr_shape shape)
{
    dtr_shape joint;
    if (!dtri_floats("broadcast", &a, 1))
        return dtri_failed(a->engine);
    if (!dtri_shape_valid(&shape) || !dtri_shape_broadcast(&a->shape, &shape, &joint) ||
        !dtri_shape_equal(&joint, &shape))
        return dtri_shapes_do_not_fit("broadcast", a, &(dtr_array){.shape = shape});
    return dtri_apply1(&op_broadcast, NULL, a, shape);
}

dtr_array *dtri_sum_to(dtr_array *a, const dtr_shape *shape)
{
    int missing = a->shape.n_dims - shape->n_dims;
    unsigned axes = 0;
    if (!a->tensor || dtri_shape_equal(&a->shape, shape))
        return dtri_array_alias(a);
    for (int i = 0; i < a->shape.n_dims; i++)
        if (a->shape.dims[i] != 1 && (i < missing || shape->dims[i - missing] == 1))
            axes |= DTR_AXIS(i);
    return dtr_reshape(axes ? dtr_sum_keep(a, axes) : a, *shape);
}

/* --- layout ----------------------------------------------------------------------------------- */

static void reshape_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_reshape(v->g[0], v->node->in_shape[0]);
}

static const struct dtri_op op_reshape = {"reshape", dtri_kernel_view, reshape_vjp, .view = true};
static const struct dtri_op op_reshape_integers = {"reshape", dtri_kernel_view, NULL, .view = true,
                                                   .integers = true};

/* Replaces the -1, if there is one, by what is left of `size`. */
static void infer_dimension(dtr_shape *shape, int64_t size)
{
    int unknown = -1;
    int64_t known = 1;
    for (int i = 0; i < shape->n_dims && i < DTR_MAX_DIMS; i++) {
        if (shape->dims[i] == -1 && unknown < 0)
            unknown = i;
        else if (shape->dims[i] < 1 || shape->dims[i] > DTRI_MAX_ELEMENTS / known)
            return;
        else
            known *= shape->dims[i];
    }
    if (unknown >= 0 && size % known == 0)
        shape->dims[unknown] = size / known;
}

dtr_array *dtr_reshape(dtr_array *a, dtr_shape shape)
{
    if (!dtri_engine_ok(a->engine))
        return dtri_failed(a->engine);
    infer_dimension(&shape, dtri_shape_size(&a->shape));
    if (!dtri_shape_valid(&shape) || dtri_shape_size(&shape) != dtri_shape_size(&a->shape))
        return dtri_shapes_do_not_fit("reshape", a, &(dtr_array){.shape = shape});
    return dtri_apply1(a->integers ? &op_reshape_integers : &op_reshape, NULL, a, shape);
}

static void permute_vjp(struct dtri_vjp *v)
{
    int inverse[DTR_MAX_DIMS] = {0};
    for (int i = 0; i < v->g[0]->shape.n_dims; i++)
        inverse[v->p->permute.order[i]] = i;
    v->result[0] = dtr_permute(v->g[0], inverse);
}

static const struct dtri_op op_permute = {"permute", dtri_kernel_permute, permute_vjp};

dtr_array *dtr_permute(dtr_array *a, const int *order)
{
    dtr_shape shape = a->shape;
    struct dtri_params p = {0};
    unsigned seen = 0;
    if (!dtri_floats("permute", &a, 1))
        return dtri_failed(a->engine);
    for (int i = 0; i < shape.n_dims; i++) {
        int axis = dtri_axis("permute", a, order[i]);
        if (axis < 0)
            return dtri_failed(a->engine);
        seen |= DTR_AXIS(axis);
        p.permute.order[i] = axis;
        shape.dims[i] = a->shape.dims[axis];
    }
    if (seen != (1u << shape.n_dims) - 1) {
        dtri_engine_fail(a->engine, DTR_E_INVALID, "permute: an axis is named twice");
        return dtri_failed(a->engine);
    }
    return dtri_apply1(&op_permute, &p, a, shape);
}

dtr_array *dtr_transpose(dtr_array *a, int axis, int other)
{
    int order[DTR_MAX_DIMS] = {0, 1, 2, 3};
    if (!dtri_engine_ok(a->engine))
        return dtri_failed(a->engine);
    axis = dtri_axis("transpose", a, axis);
    other = dtri_axis("transpose", a, other);
    if (!dtri_engine_ok(a->engine))
        return dtri_failed(a->engine);
    order[axis] = other;
    order[other] = axis;
    return dtr_permute(a, order);
}

/* --- cutting and joining ---------------------------------------------------------------------- */

/* A part without a gradient counts as zeros. */
static void split_vjp(struct dtri_vjp *v)
{
    dtr_array *parts[DTRI_MAX_OPERANDS];
    dtr_engine *e = NULL;
    for (int i = 0; i < v->node->n_outputs; i++)
        if (v->g[i])
            e = v->g[i]->engine;
    for (int i = 0; i < v->node->n_outputs; i++)
        parts[i] = v->g[i] ? v->g[i] : dtr_array_full(e, v->node->out_shape[i], 0);
    v->result[0] = dtr_concat(parts, v->node->n_outputs, v->p->cut.axis);
}

static const struct dtri_op op_split = {"split", dtri_kernel_split, split_vjp};

static void concat_vjp(struct dtri_vjp *v)
{
    dtr_array *parts[DTRI_MAX_OPERANDS];
    dtri_apply(v->g[0]->engine, &op_split, v->p, v->g, 1, v->node->in_shape, v->node->n_inputs,
               parts);
    for (int i = 0; i < v->node->n_inputs; i++)
        if (v->wants & 1u << i)
            v->result[i] = parts[i];
}

static const struct dtri_op op_concat = {"concat", dtri_kernel_concat, concat_vjp};

static void slice_vjp(struct dtri_vjp *v);
static void pad_vjp(struct dtri_vjp *v);
static const struct dtri_op op_slice = {"slice", dtri_kernel_slice, slice_vjp};
static const struct dtri_op op_pad = {"pad", dtri_kernel_pad, pad_vjp};

static void slice_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtri_apply1(&op_pad, v->p, v->g[0], v->node->in_shape[0]);
}

static void pad_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtri_apply1(&op_slice, v->p, v->g[0], v->node->in_shape[0]);
}

static bool may_split(dtr_array *a, int axis, int n)
{
    if (!dtri_engine_ok(a->engine) || axis < 0)
        return false;
    if (n < 1 || n > DTR_MAX_PARTS || a->shape.dims[axis] % n != 0)
        dtri_engine_fail(a->engine, DTR_E_INVALID,
                         "split: axis %d of %lld elements does not come apart into %d equal parts "
                         "(at most %d)",
                         axis, (long long)a->shape.dims[axis], n, DTR_MAX_PARTS);
    return dtri_engine_ok(a->engine);
}

void dtr_split(dtr_array *a, int axis, int n, dtr_array **out_parts)
{
    dtr_shape shapes[DTR_MAX_PARTS];
    struct dtri_params p = {0};
    for (int i = 0; i < n; i++)
        out_parts[i] = dtri_failed(a->engine);
    if (!dtri_floats("split", &a, 1))
        return;
    axis = dtri_axis("split", a, axis);
    if (!may_split(a, axis, n))
        return;
    p.cut.axis = axis;
    for (int i = 0; i < n; i++) {
        shapes[i] = a->shape;
        shapes[i].dims[axis] /= n;
    }
    dtri_apply(a->engine, &op_split, &p, &a, 1, shapes, n, out_parts);
}

dtr_array *dtr_concat(dtr_array *const *parts, int n, int axis)
{
    dtr_engine *e = parts[0]->engine;
    struct dtri_params p = {0};
    dtr_array *result;
    if (n < 1 || n > DTR_MAX_PARTS)
        dtri_engine_fail(e, DTR_E_INVALID, "concat: %d parts; 1 to %d are possible", n,
                         DTR_MAX_PARTS);
    if (!dtri_engine_ok(e) || !dtri_floats("concat", parts, n))
        return dtri_failed(e);
    axis = dtri_axis("concat", parts[0], axis);
    if (axis < 0)
        return dtri_failed(e);
    dtr_shape shape = parts[0]->shape;
    for (int i = 1; i < n; i++) {
        dtr_shape rest = parts[i]->shape;
        if (axis < rest.n_dims)
            rest.dims[axis] = parts[0]->shape.dims[axis];
        if (!dtri_shape_equal(&rest, &parts[0]->shape))
            return dtri_shapes_do_not_fit("concat", parts[0], parts[i]);
        shape.dims[axis] += parts[i]->shape.dims[axis];
    }
    p.cut.axis = axis;
    dtri_apply(e, &op_concat, &p, parts, n, &shape, 1, &result);
    return result;
}

dtr_array *dtr_slice(dtr_array *a, int axis, int64_t begin, int64_t length)
{
    dtr_shape shape = a->shape;
    if (!dtri_floats("slice", &a, 1))
        return dtri_failed(a->engine);
    axis = dtri_axis("slice", a, axis);
    if (axis < 0)
        return dtri_failed(a->engine);
    if (begin < 0 || length < 1 || begin > shape.dims[axis] - length) {
        dtri_engine_fail(a->engine, DTR_E_INVALID,
                         "slice: %lld elements from %lld on are not within axis %d of %lld",
                         (long long)length, (long long)begin, axis, (long long)shape.dims[axis]);
        return dtri_failed(a->engine);
    }
    shape.dims[axis] = length;
    struct dtri_params p = {.cut = {.axis = axis, .begin = begin}};
    return dtri_apply1(&op_slice, &p, a, shape);
}
