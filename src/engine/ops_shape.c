/* Operators that move elements about: views, permutations, cutting and joining along an axis. */
#include "engine/kernels.h"

/* An axis counted from 0, or -1 after a failure. */
static int axis_of(dtr_array *a, int axis, const char *name)
{
    int n = a->shape.n_dims;
    if (dtri_engine_ok(a->engine) && (axis < -n || axis >= n))
        dtri_engine_fail(a->engine, DTR_E_INVALID, "%s: there is no axis %d in %d dimensions", name,
                         axis, n);
    if (!dtri_engine_ok(a->engine))
        return -1;
    return axis < 0 ? axis + n : axis;
}

/* --- views ------------------------------------------------------------------------------------ */

static void view_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_reshape(v->g[0], v->node->in_shape[0]);
}

static const struct dtri_array_op op_view = {
    .name = "view", .kernel = dtri_kernel_view, .vjp = view_vjp, .view = true};

/* Sets the dimension that is -1, if one is. */
static void infer_dimension(dtr_shape *shape, int64_t size)
{
    int64_t others = 1;
    int open = -1;
    for (int i = 0; i < shape->n_dims && i < DTR_MAX_DIMS; i++) {
        if (shape->dims[i] < 1 || shape->dims[i] > size) {
            if (shape->dims[i] != -1 || open >= 0)
                return;
            open = i;
        } else if (others > size / shape->dims[i]) {
            return;
        } else {
            others *= shape->dims[i];
        }
    }
    if (open >= 0 && size % others == 0)
        shape->dims[open] = size / others;
}

dtr_array *dtr_reshape(dtr_array *a, dtr_shape shape)
{
    dtr_engine *e = a->engine;
    int64_t size = dtr_array_size(a);
    char x[DTRI_SHAPE_TEXT], y[DTRI_SHAPE_TEXT];
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    infer_dimension(&shape, size);
    if (!dtri_shape_valid(&shape) || dtri_shape_size(&shape) != size) {
        dtri_engine_fail(e, DTR_E_INVALID, "the shape %s cannot be seen as %s",
                         dtri_shape_text(&a->shape, x), dtri_shape_text(&shape, y));
        return dtri_failed(e);
    }
    return dtri_apply1(&op_view, NULL, &a, 1, shape);
}

/* --- permutations ----------------------------------------------------------------------------- */

static void permute_vjp(struct dtri_vjp *v)
{
    int inverse[DTR_MAX_DIMS] = {0};
    for (int i = 0; i < v->node->in_shape[0].n_dims; i++)
        inverse[v->p->permute.order[i]] = i;
    v->result[0] = dtr_permute(v->g[0], inverse);
}

static const struct dtri_array_op op_permute = {
    .name = "permute", .kernel = dtri_kernel_permute, .vjp = permute_vjp};

dtr_array *dtr_permute(dtr_array *a, const int *order)
{
    dtr_engine *e = a->engine;
    struct dtri_params p = {0};
    dtr_shape shape = a->shape;
    unsigned seen = 0;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    for (int i = 0; i < shape.n_dims; i++) {
        if (order[i] < 0 || order[i] >= shape.n_dims || (seen & DTR_AXIS(order[i]))) {
            dtri_engine_fail(e, DTR_E_INVALID, "permute: %d is no axis, or comes twice", order[i]);
            return dtri_failed(e);
        }
        seen |= DTR_AXIS(order[i]);
        p.permute.order[i] = order[i];
        shape.dims[i] = a->shape.dims[order[i]];
    }
    return dtri_apply1(&op_permute, &p, &a, 1, shape);
}

dtr_array *dtr_transpose(dtr_array *a, int axis, int other)
{
    int order[DTR_MAX_DIMS] = {0, 1, 2, 3};
    axis = axis_of(a, axis, "transpose");
    other = axis_of(a, other, "transpose");
    if (axis < 0 || other < 0)
        return dtri_failed(a->engine);
    order[axis] = other;
    order[other] = axis;
    return dtr_permute(a, order);
}

/* --- cutting and joining ---------------------------------------------------------------------- */

/* Parts into which no gradient flows count as zeros. */
static void split_vjp(struct dtri_vjp *v)
{
    dtr_array *parts[DTR_MAX_PARTS];
    for (int i = 0; i < v->node->n_outputs; i++)
        parts[i] = v->g[i] ? v->g[i] : dtr_array_full(v->engine, v->node->out_shape[i], 0);
    if (v->node->n_outputs == 1)
        v->result[0] = dtri_array_alias(parts[0]);
    else
        v->result[0] = dtr_concat(parts, v->node->n_outputs, v->p->cut.axis);
}

static void concat_vjp(struct dtri_vjp *v)
{
    int axis = v->p->cut.axis;
    int64_t begin = 0;
    for (int i = 0; i < v->node->n_inputs; i++) {
        int64_t length = v->node->in_shape[i].dims[axis];
        if (v->wants >> i & 1)
            v->result[i] = dtr_slice(v->g[0], axis, begin, length);
        begin += length;
    }
}

static dtr_array *pad(dtr_array *a, dtr_shape whole, const struct dtri_params *p);

static void slice_vjp(struct dtri_vjp *v)
{
    v->result[0] = pad(v->g[0], v->node->in_shape[0], v->p);
}

static void pad_vjp(struct dtri_vjp *v)
{
    int axis = v->p->cut.axis;
    v->result[0] = dtr_slice(v->g[0], axis, v->p->cut.begin, v->node->in_shape[0].dims[axis]);
}

static const struct dtri_array_op op_split = {
    .name = "split", .kernel = dtri_kernel_split, .vjp = split_vjp};
static const struct dtri_array_op op_concat = {
    .name = "concat", .kernel = dtri_kernel_concat, .vjp = concat_vjp};
static const struct dtri_array_op op_slice = {
    .name = "slice", .kernel = dtri_kernel_slice, .vjp = slice_vjp};
static const struct dtri_array_op op_pad = {
    .name = "pad", .kernel = dtri_kernel_pad, .vjp = pad_vjp};

/* A part put into zeros of the whole's shape, where slice took it from. */
static dtr_array *pad(dtr_array *a, dtr_shape whole, const struct dtri_params *p)
{
    return dtri_apply1(&op_pad, p, &a, 1, whole);
}

void dtr_split(dtr_array *a, int axis, int n, dtr_array **out_parts)
{
    dtr_engine *e = a->engine;
    dtr_shape shapes[DTR_MAX_PARTS];
    axis = axis_of(a, axis, "split");
    for (int i = 0; i < n; i++)
        out_parts[i] = dtri_failed(e);
    if (axis < 0)
        return;
    if (n < 1 || n > DTR_MAX_PARTS || a->shape.dims[axis] % n) {
        dtri_engine_fail(e, DTR_E_INVALID,
                         "split: %lld elements do not make %d equal parts (1 to %d)",
                         (long long)a->shape.dims[axis], n, DTR_MAX_PARTS);
        return;
    }
    for (int i = 0; i < n; i++) {
        shapes[i] = a->shape;
        shapes[i].dims[axis] /= n;
    }
    struct dtri_params p = {.cut = {.axis = axis}};
    dtri_apply(e, &op_split, &p, &a, 1, shapes, n, out_parts);
}

/* Whether two shapes agree but for one axis. */
static bool agree_around(const dtr_shape *a, dtr_shape b, int axis)
{
    if (a->n_dims != b.n_dims)
        return false;
    b.dims[axis] = a->dims[axis];
    return dtri_shape_equal(a, &b);
}

dtr_array *dtr_concat(dtr_array *const *parts, int n, int axis)
{
    dtr_engine *e = parts[0]->engine;
    axis = axis_of(parts[0], axis, "concat");
    if (axis < 0)
        return dtri_failed(e);
    if (n < 1 || n > DTR_MAX_PARTS) {
        dtri_engine_fail(e, DTR_E_INVALID, "concat: there are %d parts; 1 to %d can be joined", n,
                         DTR_MAX_PARTS);
        return dtri_failed(e);
    }
    dtr_shape shape = parts[0]->shape;
    for (int i = 1; i < n; i++) {
        if (!agree_around(&shape, parts[i]->shape, axis)) {
            dtri_engine_fail(e, DTR_E_INVALID, "concat: part %d differs from part 0 beside axis %d",
                             i, axis);
            return dtri_failed(e);
        }
        shape.dims[axis] += parts[i]->shape.dims[axis];
    }
    struct dtri_params p = {.cut = {.axis = axis}};
    return dtri_apply1(&op_concat, &p, parts, n, shape);
}

dtr_array *dtr_slice(dtr_array *a, int axis, int64_t begin, int64_t length)
{
    axis = axis_of(a, axis, "slice");
    if (axis < 0)
        return dtri_failed(a->engine);
    dtr_shape shape = a->shape;
    if (begin < 0 || length < 1 || begin > shape.dims[axis] - length) {
        dtri_engine_fail(a->engine, DTR_E_INVALID,
                         "slice: %lld elements from %lld on are not within %lld", (long long)length,
                         (long long)begin, (long long)shape.dims[axis]);
        return dtri_failed(a->engine);
    }
    shape.dims[axis] = length;
    struct dtri_params p = {.cut = {axis, begin}};
    return dtri_apply1(&op_slice, &p, &a, 1, shape);
}
