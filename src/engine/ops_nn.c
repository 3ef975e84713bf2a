/* Operators of neural networks.  Losses and normalization are split where a gradient can share the
 * work: what a backward pass needs is an output of its own or cheap to compute again. */
#include <limits.h>

#include "engine/kernels.h"

static bool wants(const struct dtri_vjp *v, int input)
{
    return v->wants >> input & 1;
}

static dtr_array *fail_shapes(dtr_engine *e, const char *name, const dtr_shape *a,
                              const dtr_shape *b)
{
    char x[DTRI_SHAPE_TEXT], y[DTRI_SHAPE_TEXT];
    dtri_engine_fail(e, DTR_E_INVALID, "%s: the shapes %s and %s do not go together", name,
                     dtri_shape_text(a, x), dtri_shape_text(b, y));
    return dtri_failed(e);
}

/* --- products --------------------------------------------------------------------------------- */

/* C = A B, each factor perhaps transposed: dA is G B', dB is A' G, or their transposes. */
static void matmul_vjp(struct dtri_vjp *v)
{
    bool ta = v->p->matmul.transpose_a, tb = v->p->matmul.transpose_b;
    dtr_array *a = v->in[0], *b = v->in[1], *g = v->g[0];
    if (wants(v, 0))
        v->result[0] =
            ta ? dtr_matmul_transposed(b, tb, g, true) : dtr_matmul_transposed(g, false, b, !tb);
    if (wants(v, 1))
        v->result[1] =
            tb ? dtr_matmul_transposed(g, true, a, ta) : dtr_matmul_transposed(a, !ta, g, false);
}

static const struct dtri_array_op op_matmul = {
    .name = "matmul", .kernel = dtri_kernel_matmul, .vjp = matmul_vjp, .keeps = {{2, 0}, {1, 0}}};

/* Shape of the product; false: there is none. */
static bool product_shape(const dtr_shape *a, bool ta, const dtr_shape *b, bool tb, dtr_shape *out)
{
    int n = a->n_dims;
    if (n < 2 || b->n_dims != n)
        return false;
    for (int i = 0; i < n - 2; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    if (a->dims[ta ? n - 2 : n - 1] != b->dims[tb ? n - 1 : n - 2])
        return false;
    for (int i = n - 2; i < n; i++) /* OpenBLAS counts in int */
        if (a->dims[i] > INT_MAX || b->dims[i] > INT_MAX)
            return false;
    *out = *a;
    out->dims[n - 2] = a->dims[ta ? n - 1 : n - 2];
    out->dims[n - 1] = b->dims[tb ? n - 2 : n - 1];
    return true;
}

/* One matrix for all: the rows of all of `a` times it. */
static dtr_array *matmul_rows(dtr_array *a, dtr_array *b, bool tb)
{
    dtr_shape shape = a->shape;
    dtr_array *rows = dtr_reshape(a, DTR_SHAPE(-1, shape.dims[shape.n_dims - 1]));
    dtr_array *product = dtr_matmul_transposed(rows, false, b, tb);
    shape.dims[shape.n_dims - 1] = b->shape.dims[tb ? 0 : 1];
    return dtr_reshape(product, shape);
}

dtr_array *dtr_matmul_transposed(dtr_array *a, bool ta, dtr_array *b, bool tb)
{
    dtr_engine *e = a->engine;
    dtr_shape shape;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (b->shape.n_dims == 2 && a->shape.n_dims > 2 && !ta)
        return matmul_rows(a, b, tb);
    if (!product_shape(&a->shape, ta, &b->shape, tb, &shape))
        return fail_shapes(e, "matmul", &a->shape, &b->shape);
    struct dtri_params p = {.matmul = {ta, tb}};
    return dtri_apply1(&op_matmul, &p, (dtr_array *[]){a, b}, 2, shape);
}

dtr_array *dtr_matmul(dtr_array *a, dtr_array *b)
{
    return dtr_matmul_transposed(a, false, b, false);
}

/* --- along the last axis ---------------------------------------------------------------------- */

static unsigned last_axis(const dtr_array *a)
{
    return DTR_AXIS(a->shape.n_dims - 1);
}

/* y (g - sum(g y)); elements that the mask leaves out have y = 0 and so no gradient. */
static void softmax_vjp(struct dtri_vjp *v)
{
    dtr_array *y = v->out[0], *g = v->g[0];
    dtr_array *total = dtr_sum_keep(dtr_mul(g, y), last_axis(y));
    v->result[0] = dtr_mul(y, dtr_sub(g, total));
}

static const struct dtri_array_op op_softmax = {
    .name = "softmax", .kernel = dtri_kernel_softmax, .vjp = softmax_vjp, .keeps = {{0, 1}}};

dtr_array *dtr_softmax(dtr_array *a, bool causal)
{
    dtr_engine *e = a->engine;
    int n = a->shape.n_dims;
    char text[DTRI_SHAPE_TEXT];
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (n < 1 || (causal && (n < 2 || a->shape.dims[n - 1] != a->shape.dims[n - 2]))) {
        dtri_engine_fail(e, DTR_E_INVALID, "softmax: %s is not made of %s",
                         dtri_shape_text(&a->shape, text), causal ? "square matrices" : "rows");
        return dtri_failed(e);
    }
    struct dtri_params p = {.softmax = {causal}};
    return dtri_apply1(&op_softmax, &p, &a, 1, a->shape);
}

/* With y = (x - mean) r and r = 1 / deviation: through y flows r (g - mean(g) - y mean(g y)),
 * through r, which gradients of gradients reach, -r^2 y g / n. */
static void normalize_vjp(struct dtri_vjp *v)
{
    dtr_array *y = v->out[0], *r = v->out[1], *g = v->g[0], *through_y = NULL;
    float per_row = 1 / (float)v->node->in_shape[0].dims[v->node->in_shape[0].n_dims - 1];
    if (g) {
        dtr_array *mean = dtr_scale(dtr_sum_keep(g, last_axis(y)), per_row);
        dtr_array *along = dtr_scale(dtr_sum_keep(dtr_mul(g, y), last_axis(y)), per_row);
        through_y = dtr_mul(r, dtr_sub(dtr_sub(g, mean), dtr_mul(y, along)));
    }
    v->result[0] = through_y;
    if (v->g[1]) {
        dtr_array *scale = dtr_scale(dtr_mul(v->g[1], dtr_mul(r, r)), -per_row);
        dtr_array *through_r = dtr_mul(y, scale);
        v->result[0] = through_y ? dtr_add(through_y, through_r) : through_r;
    }
}

static const struct dtri_array_op op_normalize = {
    .name = "normalize", .kernel = dtri_kernel_normalize, .vjp = normalize_vjp, .keeps = {{0, 3}}};

dtr_array *dtr_layer_norm(dtr_array *a, dtr_array *gain, dtr_array *bias)
{
    dtr_engine *e = a->engine;
    dtr_shape shapes[2] = {a->shape, a->shape};
    dtr_array *out[2];
    int n = a->shape.n_dims;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (n < 1 || gain->shape.n_dims != 1 || gain->shape.dims[0] != a->shape.dims[n - 1])
        return fail_shapes(e, "layer norm", &a->shape, &gain->shape);
    if (!dtri_shape_equal(&gain->shape, &bias->shape))
        return fail_shapes(e, "layer norm", &gain->shape, &bias->shape);
    shapes[1].dims[n - 1] = 1;
    dtri_apply(e, &op_normalize, NULL, &a, 1, shapes, 2, out);
    return dtr_add(dtr_mul(out[0], gain), bias);
}

/* --- rows by number --------------------------------------------------------------------------- */

static void embedding_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_scatter_add(v->g[0], v->in[1], v->node->in_shape[0].dims[0]);
}

static void scatter_add_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_embedding(v->g[0], v->in[1]);
}

static const struct dtri_array_op op_embedding = {.name = "embedding",
                                                  .kernel = dtri_kernel_embedding,
                                                  .vjp = embedding_vjp,
                                                  .keeps = {{2, 0}},
                                                  .integer_inputs = 2};
static const struct dtri_array_op op_scatter_add = {.name = "scatter_add",
                                                    .kernel = dtri_kernel_scatter_add,
                                                    .vjp = scatter_add_vjp,
                                                    .keeps = {{2, 0}},
                                                    .integer_inputs = 2};

dtr_array *dtr_embedding(dtr_array *table, dtr_array *ids)
{
    dtr_engine *e = table->engine;
    dtr_shape shape = ids->shape;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (table->shape.n_dims != 2 || shape.n_dims >= DTR_MAX_DIMS)
        return fail_shapes(e, "embedding", &table->shape, &ids->shape);
    shape.dims[shape.n_dims++] = table->shape.dims[1];
    return dtri_apply1(&op_embedding, NULL, (dtr_array *[]){table, ids}, 2, shape);
}

dtr_array *dtr_scatter_add(dtr_array *a, dtr_array *ids, int64_t rows)
{
    dtr_engine *e = a->engine;
    dtr_shape leading = a->shape;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    leading.n_dims--;
    if (leading.n_dims < 0 || !dtri_shape_equal(&leading, &ids->shape))
        return fail_shapes(e, "scatter_add", &a->shape, &ids->shape);
    dtr_shape shape = DTR_SHAPE(rows, a->shape.dims[leading.n_dims]);
    return dtri_apply1(&op_scatter_add, NULL, (dtr_array *[]){a, ids}, 2, shape);
}

static const struct dtri_array_op op_one_hot = {
    .name = "one_hot", .kernel = dtri_kernel_one_hot, .integer_inputs = 1};

/* (softmax - one hot) g / n */
static void cross_entropy_vjp(struct dtri_vjp *v)
{
    dtr_array *hit = dtri_apply1(&op_one_hot, NULL, &v->in[1], 1, v->node->in_shape[0]);
    dtr_array *miss = dtr_sub(dtr_softmax(v->in[0], false), hit);
    v->result[0] = dtr_mul(miss, dtr_scale(v->g[0], 1 / (float)v->node->in_shape[0].dims[0]));
}

static const struct dtri_array_op op_cross_entropy = {.name = "cross_entropy",
                                                      .kernel = dtri_kernel_cross_entropy,
                                                      .vjp = cross_entropy_vjp,
                                                      .keeps = {{3, 0}},
                                                      .integer_inputs = 2};

dtr_array *dtr_cross_entropy(dtr_array *logits, dtr_array *targets)
{
    dtr_engine *e = logits->engine;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (logits->shape.n_dims != 2 || targets->shape.n_dims != 1 ||
        targets->shape.dims[0] != logits->shape.dims[0])
        return fail_shapes(e, "cross entropy", &logits->shape, &targets->shape);
    return dtri_apply1(&op_cross_entropy, NULL, (dtr_array *[]){logits, targets}, 2, DTR_SCALAR);
}

/* --- dropout ---------------------------------------------------------------------------------- */

static const struct dtri_array_op op_dropout_mask = {
    .name = "dropout_mask", .kernel = dtri_kernel_dropout_mask, .integer_inputs = 1};

dtr_array *dtr_dropout(dtr_array *a, float rate, dtr_array *seed)
{
    dtr_engine *e = a->engine;
    if (!dtri_engine_ok(e))
        return dtri_failed(e);
    if (!(rate >= 0 && rate < 1) || dtr_array_size(seed) != 2) {
        dtri_engine_fail(
            e, DTR_E_INVALID,
            "dropout needs a rate of at least 0 and below 1, not %g, and a seed of two "
            "integers",
            (double)rate);
        return dtri_failed(e);
    }
    struct dtri_params p = {.dropout = {rate}};
    return dtr_mul(a, dtri_apply1(&op_dropout_mask, &p, &seed, 1, a->shape));
}
