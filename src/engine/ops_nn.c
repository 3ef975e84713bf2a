/* Operators of neural networks, each with its gradient in terms of others. */
#include <limits.h>
#include <math.h>

#include "engine/kernels.h"
#include "engine/ops.h"

static unsigned last_axis(const dtr_array *a)
{
    return a->shape.n_dims ? DTR_AXIS(a->shape.n_dims - 1) : 0;
}

/* --- products --------------------------------------------------------------------------------- */

static dtr_array *product(dtr_array *a, bool ta, dtr_array *b, bool tb);

/* C = op(A) op(B), so dA = dC op(B)' and dB = op(A)' dC, transposed where the operand was. */
static void matmul_vjp(struct dtri_vjp *v)
{
    bool ta = v->p->matmul.transpose_a, tb = v->p->matmul.transpose_b;
    dtr_array *g = v->g[0];
    if (v->wants & 1)
        v->result[0] = ta ? product(v->in[1], tb, g, true) : product(g, false, v->in[1], !tb);
    if (v->wants & 2)
        v->result[1] = tb ? product(g, true, v->in[0], ta) : product(v->in[0], !ta, g, false);
}

static const struct dtri_op op_matmul = {
    "matmul", dtri_kernel_matmul, matmul_vjp, {{2, 0}, {1, 0}}};

/* Of operands with equal leading dimensions, of which there may be none. */
static dtr_array *product(dtr_array *a, bool ta, dtr_array *b, bool tb)
{
    if (!dtri_engine_ok(a->engine))
        return dtri_failed(a->engine);
    dtr_shape shape = a->shape;
    int n = shape.n_dims;
    if (n < 2 || b->shape.n_dims != n)
        return dtri_shapes_do_not_fit("matmul", a, b);
    for (int i = 0; i < n - 2; i++)
        if (b->shape.dims[i] != shape.dims[i])
            return dtri_shapes_do_not_fit("matmul", a, b);
    int64_t inner_a = a->shape.dims[ta ? n - 2 : n - 1];
    int64_t inner_b = b->shape.dims[tb ? n - 1 : n - 2];
    shape.dims[n - 2] = a->shape.dims[ta ? n - 1 : n - 2];
    shape.dims[n - 1] = b->shape.dims[tb ? n - 2 : n - 1];
    if (inner_a != inner_b || inner_a > INT_MAX || shape.dims[n - 2] > INT_MAX ||
        shape.dims[n - 1] > INT_MAX)
        return dtri_shapes_do_not_fit("matmul", a, b);
    return dtri_apply2(&op_matmul, &(struct dtri_params){.matmul = {ta, tb}}, a, b, shape);
}

dtr_array *dtr_matmul_transposed(dtr_array *a, bool transpose_a, dtr_array *b, bool transpose_b)
{
    if (!dtri_floats("matmul", (dtr_array *[]){a, b}, 2))
        return dtri_failed(a->engine);
    if (b->shape.n_dims != 2 || a->shape.n_dims <= 2 || transpose_a)
        return product(a, transpose_a, b, transpose_b);
    /* One matrix for all: the rows of `a` stand below each other anyway. */
    dtr_shape shape = a->shape;
    dtr_array *rows = dtr_reshape(a, DTR_SHAPE(-1, shape.dims[shape.n_dims - 1]));
    dtr_array *result = product(rows, false, b, transpose_b);
    shape.dims[shape.n_dims - 1] = b->shape.dims[transpose_b ? 0 : 1];
    return dtr_reshape(result, shape);
}

dtr_array *dtr_matmul(dtr_array *a, dtr_array *b)
{
    return dtr_matmul_transposed(a, false, b, false);
}

/* --- along the last axis ---------------------------------------------------------------------- */

/* With y the result: y (g - sum(g y)).  Masked elements have y = 0. */
static void softmax_vjp(struct dtri_vjp *v)
{
    dtr_array *y = v->out[0];
    dtr_array *mean = dtr_sum_keep(dtr_mul(v->g[0], y), last_axis(y));
    v->result[0] = dtr_mul(y, dtr_sub(v->g[0], mean));
}

static const struct dtri_op op_softmax = {"softmax", dtri_kernel_softmax, softmax_vjp, {{0, 1}}};

dtr_array *dtr_softmax(dtr_array *a, bool causal)
{
    const dtr_shape *s = &a->shape;
    if (!dtri_floats("softmax", &a, 1))
        return dtri_failed(a->engine);
    if (s->n_dims < 1 ||
        (causal && (s->n_dims < 2 || s->dims[s->n_dims - 1] != s->dims[s->n_dims - 2]))) {
        char text[DTRI_SHAPE_TEXT];
        dtri_engine_fail(a->engine, DTR_E_INVALID, "softmax: %s does not do for %s",
                         dtri_shape_text(s, text), causal ? "square matrices" : "rows");
        return dtri_failed(a->engine);
    }
    return dtri_apply1(&op_softmax, &(struct dtri_params){.softmax = {causal}}, a, *s);
}

/* With y the result and r = 1/deviation: r (g - mean(g) - y mean(g y)) for the first output, and
 * for the second, dr/dx = -r^2 y / n. */
static void normalize_vjp(struct dtri_vjp *v)
{
    dtr_array *y = v->out[0], *r = v->out[1], *from_y = NULL, *from_r = NULL;
    int64_t n = y->shape.dims[y->shape.n_dims - 1];
    float share = (float)(1 / (double)n);
    if (v->g[0]) {
        dtr_array *mean = dtr_scale(dtr_sum_keep(v->g[0], last_axis(y)), share);
        dtr_array *along = dtr_scale(dtr_sum_keep(dtr_mul(v->g[0], y), last_axis(y)), share);
        dtr_array *rest = dtr_sub(dtr_sub(v->g[0], mean), dtr_mul(y, along));
        from_y = dtr_mul(rest, r);
    }
    if (v->g[1])
        from_r = dtr_mul(y, dtr_scale(dtr_mul(v->g[1], dtr_mul(r, r)), -share));
    v->result[0] = !from_r ? from_y : !from_y ? from_r : dtr_add(from_y, from_r);
}

static const struct dtri_op op_normalize = {
    "normalize", dtri_kernel_normalize, normalize_vjp, {{0, 3}}};

dtr_array *dtr_layer_norm(dtr_array *a, dtr_array *gain, dtr_array *bias)
{
    dtr_engine *e = a->engine;
    dtr_array *parts[2];
    if (!dtri_floats("layer_norm", (dtr_array *[]){a, gain, bias}, 3))
        return dtri_failed(e);
    if (a->shape.n_dims < 1)
        return dtri_shapes_do_not_fit("layer_norm", a, gain);
    dtr_shape row = a->shape;
    row.dims[row.n_dims - 1] = 1;
    dtri_apply(e, &op_normalize, NULL, &a, 1, (dtr_shape[]){a->shape, row}, 2, parts);
    dtr_array *result = dtr_add(dtr_mul(parts[0], gain), bias);
    dtr_array_drop(parts[1]); /* the tape keeps it, if anyone needs it */
    return result;
}

/* --- rows by number --------------------------------------------------------------------------- */

static bool are_ids(const char *name, const dtr_array *ids)
{
    if (dtri_engine_ok(ids->engine) && !ids->integers)
        dtri_engine_fail(ids->engine, DTR_E_INVALID, "%s: the numbers of rows must be integers",
                         name);
    return dtri_engine_ok(ids->engine);
}

static void embedding_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_scatter_add(v->g[0], v->in[1], v->node->in_shape[0].dims[0]);
}

static void scatter_add_vjp(struct dtri_vjp *v)
{
    v->result[0] = dtr_embedding(v->g[0], v->in[1]);
}

static const struct dtri_op op_embedding = {
    "embedding", dtri_kernel_embedding, embedding_vjp, {{2, 0}}};
static const struct dtri_op op_scatter_add = {
    "scatter_add", dtri_kernel_scatter_add, scatter_add_vjp, {{2, 0}}};

dtr_array *dtr_embedding(dtr_array *table, dtr_array *ids)
{
    if (!dtri_floats("embedding", &table, 1) || !are_ids("embedding", ids))
        return dtri_failed(table->engine);
    dtr_shape shape = ids->shape;
    if (table->shape.n_dims != 2 || shape.n_dims == DTR_MAX_DIMS)
        return dtri_shapes_do_not_fit("embedding", table, ids);
    shape.dims[shape.n_dims++] = table->shape.dims[1];
    return dtri_apply2(&op_embedding, NULL, table, ids, shape);
}

dtr_array *dtr_scatter_add(dtr_array *a, dtr_array *ids, int64_t rows)
{
    if (!dtri_floats("scatter_add", &a, 1) || !are_ids("scatter_add", ids))
        return dtri_failed(a->engine);
    dtr_shape leading = a->shape;
    if (leading.n_dims-- < 1 || !dtri_shape_equal(&leading, &ids->shape))
        return dtri_shapes_do_not_fit("scatter_add", a, ids);
    dtr_shape shape = DTR_SHAPE(rows, a->shape.dims[leading.n_dims]);
    return dtri_apply2(&op_scatter_add, NULL, a, ids, shape);
}

/* --- loss ------------------------------------------------------------------------------------- */

/* (softmax(logits) - one_hot(targets)) g / n. */
static void cross_entropy_vjp(struct dtri_vjp *v)
{
    static const struct dtri_op op_one_hot = {"one_hot", dtri_kernel_one_hot, NULL};
    dtr_array *logits = v->in[0];
    dtr_array *hot = dtri_apply1(&op_one_hot, NULL, v->in[1], logits->shape);
    dtr_array *share = dtr_scale(v->g[0], (float)(1 / (double)logits->shape.dims[0]));
    v->result[0] = dtr_mul(dtr_sub(dtr_softmax(logits, false), hot), share);
}

static const struct dtri_op op_cross_entropy = {
    "cross_entropy", dtri_kernel_cross_entropy, cross_entropy_vjp, {{3, 0}}};

dtr_array *dtr_cross_entropy(dtr_array *logits, dtr_array *targets)
{
    if (!dtri_floats("cross_entropy", &logits, 1) || !are_ids("cross_entropy", targets))
        return dtri_failed(logits->engine);
    if (logits->shape.n_dims != 2 || targets->shape.n_dims != 1 ||
        logits->shape.dims[0] != targets->shape.dims[0])
        return dtri_shapes_do_not_fit("cross_entropy", logits, targets);
    return dtri_apply2(&op_cross_entropy, NULL, logits, targets, DTR_SCALAR);
}

/* --- dropout ---------------------------------------------------------------------------------- */

dtr_array *dtr_dropout(dtr_array *a, float rate, dtr_array *seed)
{
    static const struct dtri_op op_mask = {"dropout_mask", dtri_kernel_dropout_mask, NULL};
    if (!dtri_floats("dropout", &a, 1) || !dtri_engine_ok(seed->engine))
        return dtri_failed(a->engine);
    if (!(rate >= 0 && rate < 1)) {
        dtri_engine_fail(a->engine, DTR_E_INVALID,
                         "dropout: the rate is %g; it must be at least 0 and below 1",
                         (double)rate);
        return dtri_failed(a->engine);
    }
    if (!seed->integers || dtri_shape_size(&seed->shape) != 2) {
        dtri_engine_fail(a->engine, DTR_E_INVALID, "dropout: a seed is an array of two integers");
        return dtri_failed(a->engine);
    }
    struct dtri_params p = {.dropout = {rate}};
    return dtr_mul(a, dtri_apply1(&op_mask, &p, seed, a->shape));
}
