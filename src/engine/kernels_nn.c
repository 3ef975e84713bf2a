/* Kernels of neural networks: products, softmax, normalization, tables of rows, losses, dropout,
 * and the updates of parameters.  Products are OpenBLAS's, on one thread (see engine.c). */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "engine/kernels.h"

static const struct dtri_task *task_of(const dtr_cpu_kernel *kernel)
{
    return (const struct dtri_task *)(const void *)kernel; /* its first member */
}

static int64_t last_dim(const dtr_shape *shape)
{
    return shape->n_dims ? shape->dims[shape->n_dims - 1] : 1;
}

/* --- products --------------------------------------------------------------------------------- */

dtr_status dtri_kernel_matmul(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                              dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int dims = t->out[0].n_dims;
    int m = (int)t->out[0].dims[dims - 2], n = (int)t->out[0].dims[dims - 1];
    bool ta = t->p.matmul.transpose_a, tb = t->p.matmul.transpose_b;
    int k = (int)t->in[0].dims[ta ? dims - 2 : dims - 1];
    int64_t batch = dtri_shape_size(&t->out[0]) / ((int64_t)m * n);
    const float *a = in[0], *b = in[1];
    float *c = out[0];
    (void)error;
    for (int64_t i = 0; i < batch; i++)
        cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                    m, n, k, 1.0f, a + i * m * k, ta ? m : k, b + i * k * n, tb ? k : n, 0.0f,
                    c + i * m * n, n);
    return DTR_OK;
}

/* --- along the last axis ---------------------------------------------------------------------- */

/* Softmax of the first `live` of n elements; the rest get 0. */
static void softmax_row(const float *a, float *o, int64_t live, int64_t n)
{
    float most = a[0];
    double sum = 0;
    for (int64_t i = 1; i < live; i++)
        if (a[i] > most)
            most = a[i];
    for (int64_t i = 0; i < live; i++) {
        o[i] = expf(a[i] - most);
        sum += o[i];
    }
    float scale = (float)(1 / sum);
    for (int64_t i = 0; i < live; i++)
        o[i] *= scale;
    memset(o + live, 0, (size_t)(n - live) * sizeof *o);
}

dtr_status dtri_kernel_softmax(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                               dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t n = last_dim(&t->in[0]), rows = dtri_shape_size(&t->in[0]) / n;
    const float *a = in[0];
    float *o = out[0];
    (void)error;
    for (int64_t i = 0; i < rows; i++)
        softmax_row(a + i * n, o + i * n, t->p.softmax.causal ? i % n + 1 : n, n);
    return DTR_OK;
}

#define NORMALIZE_EPSILON 1e-5

/* Outputs: (a - mean) / deviation, and 1 / deviation for each row. */
dtr_status dtri_kernel_normalize(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                                 dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t n = last_dim(&t->in[0]), rows = dtri_shape_size(&t->in[0]) / n;
    const float *a = in[0];
    float *o = out[0], *inverse = out[1];
    (void)error;
    for (int64_t i = 0; i < rows; i++, a += n, o += n) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < n; j++)
            sum += a[j];
        float mean = (float)(sum / (double)n);
        for (int64_t j = 0; j < n; j++)
            squares += (double)(a[j] - mean) * (a[j] - mean);
        inverse[i] = (float)(1 / sqrt(squares / (double)n + NORMALIZE_EPSILON));
        for (int64_t j = 0; j < n; j++)
            o[j] = (a[j] - mean) * inverse[i];
    }
    return DTR_OK;
}

/* --- rows by number --------------------------------------------------------------------------- */

static dtr_status check_ids(const char *what, const int32_t *ids, int64_t n, int64_t limit,
                            dtr_error *error)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= limit)
            return dtri_fail(error, DTR_E_INVALID, 0,
                             "%s: integer %lld is %d; it must be at least 0 and below %lld", what,
                             (long long)i, (int)ids[i], (long long)limit);
    return DTR_OK;
}

dtr_status dtri_kernel_embedding(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                                 dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t n = dtri_shape_size(&t->in[1]), rows = t->in[0].dims[0], width = t->in[0].dims[1];
    const float *table = in[0];
    const int32_t *ids = in[1];
    float *o = out[0];
    dtr_status status = check_ids("embedding", ids, n, rows, error);
    for (int64_t i = 0; i < n && status == DTR_OK; i++)
        memcpy(o + i * width, table + ids[i] * width, (size_t)width * sizeof *o);
    return status;
}

dtr_status dtri_kernel_scatter_add(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                                   dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t n = dtri_shape_size(&t->in[1]), rows = t->out[0].dims[0], width = t->out[0].dims[1];
    const float *a = in[0];
    const int32_t *ids = in[1];
    float *table = out[0];
    dtr_status status = check_ids("scatter_add", ids, n, rows, error);
    memset(table, 0, (size_t)(rows * width) * sizeof *table);
    for (int64_t i = 0; i < n && status == DTR_OK; i++)
        for (int64_t j = 0; j < width; j++)
            table[ids[i] * width + j] += a[i * width + j];
    return status;
}

dtr_status dtri_kernel_one_hot(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                               dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t n = t->out[0].dims[0], classes = t->out[0].dims[1];
    const int32_t *ids = in[0];
    float *o = out[0];
    dtr_status status = check_ids("one_hot", ids, n, classes, error);
    memset(o, 0, (size_t)(n * classes) * sizeof *o);
    for (int64_t i = 0; i < n && status == DTR_OK; i++)
        o[i * classes + ids[i]] = 1;
    return status;
}

/* -log softmax(row)[target], by way of the largest element. */
static double row_loss(const float *row, int64_t n, int32_t target)
{
    float most = row[0];
    double sum = 0;
    for (int64_t i = 1; i < n; i++)
        if (row[i] > most)
            most = row[i];
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)row[i] - most);
    return log(sum) + most - row[target];
}

dtr_status dtri_kernel_cross_entropy(const dtr_cpu_kernel *kernel, void *const *in,
                                     void *const *out, dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    int64_t n = t->in[0].dims[0], classes = t->in[0].dims[1];
    const float *logits = in[0];
    const int32_t *targets = in[1];
    double sum = 0;
    dtr_status status = check_ids("cross_entropy", targets, n, classes, error);
    for (int64_t i = 0; i < n && status == DTR_OK; i++)
        sum += row_loss(logits + i * classes, classes, targets[i]);
    *(float *)out[0] = (float)(sum / (double)n);
    return status;
}

/* --- dropout ---------------------------------------------------------------------------------- */

/* A number in [0, 1) that depends on the seed and the place alone (the finalizer of splitmix64). */
static float unit_hash(uint64_t seed, int64_t place)
{
    uint64_t z = seed + (uint64_t)(place + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)((z ^ (z >> 31)) >> 40) * 0x1p-24f;
}

dtr_status dtri_kernel_dropout_mask(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                                    dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    const uint32_t *half = in[0];
    uint64_t seed = (uint64_t)half[1] << 32 | half[0];
    float rate = t->p.dropout.rate, kept = 1 / (1 - rate);
    float *o = out[0];
    int64_t n = dtri_shape_size(&t->out[0]);
    (void)error;
    for (int64_t i = 0; i < n; i++)
        o[i] = unit_hash(seed, i) < rate ? 0 : kept;
    return DTR_OK;
}

/* --- updates ---------------------------------------------------------------------------------- */

/* Without momentum there are neither its input nor its output. */
dtr_status dtri_kernel_sgd(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                           dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    bool with_momentum = t->n_inputs == 3;
    const float *parameter = in[0], *old = in[1], *grad = in[with_momentum ? 2 : 1];
    float *o = out[0], *velocity = with_momentum ? out[1] : NULL;
    int64_t n = dtri_shape_size(&t->out[0]);
    (void)error;
    for (int64_t i = 0; i < n; i++) {
        float direction = grad[i];
        if (with_momentum)
            velocity[i] = direction += t->p.sgd.momentum * old[i];
        o[i] = parameter[i] - t->p.sgd.rate * direction;
    }
    return DTR_OK;
}

dtr_status dtri_kernel_adam(const dtr_cpu_kernel *kernel, void *const *in, void *const *out,
                            dtr_error *error)
{
    const struct dtri_task *t = task_of(kernel);
    const float *parameter = in[0], *m = in[1], *v = in[2], *grad = in[3];
    float *o = out[0], *new_m = out[1], *new_v = out[2];
    float beta1 = t->p.adam.beta1, beta2 = t->p.adam.beta2;
    int64_t n = dtri_shape_size(&t->out[0]);
    (void)error;
    for (int64_t i = 0; i < n; i++) {
        new_m[i] = beta1 * m[i] + (1 - beta1) * grad[i];
        new_v[i] = beta2 * v[i] + (1 - beta2) * grad[i] * grad[i];
        float deviation = sqrtf(new_v[i] / t->p.adam.correction2) + t->p.adam.epsilon;
        o[i] = parameter[i] - t->p.adam.rate * (new_m[i] / t->p.adam.correction1) / deviation;
    }
    return DTR_OK;
}
