/* Operators without a model in mind: elementwise ones, sums, repetition.
 *
 * Each is a row with a kernel and a vjp.  A vjp is written with operators itself, so a gradient has
 * gradients; it sets results only for the inputs that are wanted. */
#include "engine/kernels.h"

static bool wants(const struct dtri_vjp *v, int input)
{
    return v->wants >> input & 1;
}

static dtr_array *unary(const struct dtri_array_op *op, dtr_array *a)
{
    return dtri_apply1(op, NULL, &a, 1, a->shape);
}

/* --- two operands ----------------------------------------------------------------------------- */

static dtr_array *binary(const struct dtri_array_op *op, dtr_array *a, dtr_array *b)
{
    dtr_engine *e = a->engine;
    dtr_shape shape;
    char x[DTRI_SHAPE_TEXT], y[DTRI_SHAPE_TEXT];
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (!dtri_shape_broadcast(&a->shape, &b->shape, &shape)) {
        dtri_engine_fail(e, DTR_E_INVALID, "%s: the shapes %s and %s do not go together", op->name,
                         dtri_shape_text(&a->shape, x), dtri_shape_text(&b->shape, y));
        return dtri_failed(e);
    }
    return dtri_apply1(op, NULL, (dtr_array *[]){a, b}, 2, shape);
}

dtr_array *dtri_sum_to(dtr_array *a, const dtr_shape *shape)
{
    if (dtri_shape_equal(&a->shape, shape))
        return dtri_array_alias(a);
    int front = a->shape.n_dims - shape->n_dims;
    unsigned axes = 0;
    for (int i = 0; i < a->shape.n_dims; i++)
        if (i < front || (shape->dims[i - front] == 1 && a->shape.dims[i] != 1))
            axes |= DTR_AXIS(i);
    return dtr_reshape(dtr_sum_keep(a, axes), *shape);
}

/* The gradient of input i, which may have been broadcast. */
static void give(struct dtri_vjp *v, int i, dtr_array *g)
{
    v->result[i] = dtri_sum_to(g, &v->node->in_shape[i]);
}

static void add_vjp(struct dtri_vjp *v)
{
    for (int i = 0; i < 2; i++)
        if (wants(v, i))
            give(v, i, v->g[0]);
}

static void sub_vjp(struct dtri_vjp *v)
{
    if (wants(v, 0))
        give(v, 0, v->g[0]);
    if (wants(v, 1))
        give(v, 1, dtr_scale(v->g[0], -1));
}

static void mul_vjp(struct dtri_vjp *v)
{
    for (int i = 0; i < 2; i++)
        if (wants(v, i))
            give(v, i, dtr_mul(v->g[0], v->in[1 - i]));
}

/* d(a / b) = da / b - (a / b) db / b */
static void div_vjp(struct dtri_vjp *v)
{
    if (wants(v, 0))
        give(v, 0, dtr_div(v->g[0], v->in[1]));
    if (wants(v, 1))
        give(v, 1, dtr_scale(dtr_div(dtr_mul(v->g[0], v->out[0]), v->in[1]), -1));
}

static const struct dtri_array_op op_add = {
    .name = "add", .kernel = dtri_kernel_add, .vjp = add_vjp};
static const struct dtri_array_op op_sub = {
    .name = "sub", .kernel = dtri_kernel_sub, .vjp = sub_vjp};
static const struct dtri_array_op op_mul = {
    .name = "mul", .kernel = dtri_kernel_mul, .vjp = mul_vjp, .keeps = {{2, 0}, {1, 0}}};
static const struct dtri_array_op op_div = {
    .name = "div", .kernel = dtri_kernel_div, .vjp = div_vjp, .keeps = {{2, 0}, {2, 1}}};

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
    v->result[0] = dtr_scale(dtr_div(v->g[0], v->out[0]), 0.5f);
}

static const struct dtri_array_op op_step = {.name = "step", .kernel = dtri_kernel_step};

static void relu_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_mul(v->g[0], unary(&op_step, v->out[0]));
}

#define INV_SQRT_TWOPI 0.39894228040143267794f

/* The slope of gelu is P(x) + x p(x), with p the normal density; its own is p(x) (2 - x^2). */
static void gelu_slope_vjp(struct dtri_vjp *v)
{
    dtr_array *square = dtr_mul(v->in[0], v->in[0]);
    dtr_array *density = dtr_scale(dtr_exp(dtr_scale(square, -0.5f)), INV_SQRT_TWOPI);
    v->result[0] = dtr_mul(v->g[0], dtr_mul(density, dtr_affine(square, -1, 2)));
}

static const struct dtri_array_op op_gelu_slope = {.name = "gelu_slope",
                                                   .kernel = dtri_kernel_gelu_slope,
                                                   .vjp = gelu_slope_vjp,
                                                   .keeps = {{1, 0}}};

static void gelu_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_mul(v->g[0], unary(&op_gelu_slope, v->in[0]));
}

static const struct dtri_array_op op_affine = {
    .name = "affine", .kernel = dtri_kernel_affine, .vjp = affine_vjp};
static const struct dtri_array_op op_exp = {
    .name = "exp", .kernel = dtri_kernel_exp, .vjp = exp_vjp, .keeps = {{0, 1}}};
static const struct dtri_array_op op_log = {
    .name = "log", .kernel = dtri_kernel_log, .vjp = log_vjp, .keeps = {{1, 0}}};
static const struct dtri_array_op op_sqrt = {
    .name = "sqrt", .kernel = dtri_kernel_sqrt, .vjp = sqrt_vjp, .keeps = {{0, 1}}};
static const struct dtri_array_op op_relu = {
    .name = "relu", .kernel = dtri_kernel_relu, .vjp = relu_vjp, .keeps = {{0, 1}}};
static const struct dtri_array_op op_gelu = {
    .name = "gelu", .kernel = dtri_kernel_gelu, .vjp = gelu_vjp, .keeps = {{1, 0}}};

dtr_array *dtr_affine(dtr_array *a, float scale, float shift)
{
    struct dtri_params p = {.affine = {scale, shift}};
    return dtri_apply1(&op_affine, &p, &a, 1, a->shape);
}

dtr_array *dtr_scale(dtr_array *a, float scale)
{
    return dtr_affine(a, scale, 0);
}

dtr_array *dtr_exp(dtr_array *a)
{
    return unary(&op_exp, a);
}

dtr_array *dtr_log(dtr_array *a)
{
    return unary(&op_log, a);
}

dtr_array *dtr_sqrt(dtr_array *a)
{
    return unary(&op_sqrt, a);
}

dtr_array *dtr_relu(dtr_array *a)
{
    return unary(&op_relu, a);
}

dtr_array *dtr_gelu(dtr_array *a)
{
    return unary(&op_gelu, a);
}

/* --- none ------------------------------------------------------------------------------------- */

static const struct dtri_array_op op_fill = {.name = "fill", .kernel = dtri_kernel_fill};

dtr_array *dtr_array_full(dtr_engine *e, dtr_shape shape, float value)
{
    struct dtri_params p = {.fill = {value}};
    dtr_array *out;
    dtri_apply(e, &op_fill, &p, NULL, 0, &shape, 1, &out);
    return out;
}

/* --- sums and repetition ---------------------------------------------------------------------- */

static void sum_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_broadcast(v->g[0], v->node->in_shape[0]);
}

static void broadcast_vjp(struct dtri_vjp *v)
{
    give(v, 0, v->g[0]);
}

static const struct dtri_array_op op_sum = {
    .name = "sum", .kernel = dtri_kernel_sum, .vjp = sum_vjp};
static const struct dtri_array_op op_broadcast = {
    .name = "broadcast", .kernel = dtri_kernel_broadcast, .vjp = broadcast_vjp};

dtr_array *dtr_sum_keep(dtr_array *a, unsigned axes)
{
    dtr_shape shape = a->shape;
    for (int i = 0; i < shape.n_dims; i++)
        if (axes & DTR_AXIS(i))
            shape.dims[i] = 1;
    return dtri_apply1(&op_sum, NULL, &a, 1, shape);
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
    return dtr_scale(dtr_sum(a, axes), 1 / (float)n);
}

dtr_array *dtr_broadcast(dtr_array *a, dtr_shape shape)
{
    dtr_engine *e = a->engine;
    dtr_shape both;
    char x[DTRI_SHAPE_TEXT], y[DTRI_SHAPE_TEXT];
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (!dtri_shape_valid(&shape) || !dtri_shape_broadcast(&a->shape, &shape, &both) ||
        !dtri_shape_equal(&both, &shape)) {
        dtri_engine_fail(e, DTR_E_INVALID, "the shape %s cannot be broadcast to %s",
                         dtri_shape_text(&a->shape, x), dtri_shape_text(&shape, y));
        return dtri_failed(e);
    }
    return dtri_apply1(&op_broadcast, NULL, &a, 1, shape);
}
