/* The smallest program that trains under DTR: a network of three layers learns a function of two
 * numbers.  Run it as it is, or with a budget and a record:
 *
 *     DTR_BUDGET=3MiB DTR_HEURISTIC=dtr-eq DTR_RECORD=mlp.dtr.sqlite ./mlp
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "dtr/engine.h"

#define ROWS   1024
#define HIDDEN 128
#define STEPS  60

struct model {
    dtr_array *weights[3], *biases[3];
};

static void model_init(struct model *m, dtr_engine *engine)
{
    const int64_t sizes[] = {2, HIDDEN, HIDDEN, 1};
    for (int i = 0; i < 3; i++) {
        float deviation = sqrtf(2 / (float)sizes[i]);
        m->weights[i] = dtr_parameter_normal(engine, DTR_SHAPE(sizes[i], sizes[i + 1]), deviation);
        m->biases[i] = dtr_parameter_full(engine, DTR_SHAPE(sizes[i + 1]), 0);
    }
}

static dtr_array *model_apply(const struct model *m, dtr_array *x)
{
    for (int i = 0; i < 3; i++) {
        x = dtr_add(dtr_matmul(x, m->weights[i]), m->biases[i]);
        if (i < 2)
            x = dtr_relu(x);
    }
    return x;
}

/* Points of the square from -1 to 1, and what the model is to learn of them. */
static void make_data(dtr_engine *engine, dtr_array **out_x, dtr_array **out_y)
{
    static float x[ROWS][2], y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x[i][0] = (float)(i % 32) / 15.5f - 1;
        x[i][1] = (float)(i / 32) / 15.5f - 1;
        y[i] = sinf(3 * x[i][0]) * x[i][1];
    }
    *out_x = dtr_array_floats(engine, DTR_SHAPE(ROWS, 2), &x[0][0]);
    *out_y = dtr_array_floats(engine, DTR_SHAPE(ROWS, 1), y);
}

static void train(dtr_engine *engine)
{
    struct model model;
    dtr_array *x, *y;
    model_init(&model, engine);
    make_data(engine, &x, &y);
    dtr_optimizer *adam = dtr_optimizer_adam(engine, 0.01f, 0.9f, 0.999f, 1e-8f);
    for (int step = 0; step < STEPS && dtr_engine_status(engine, NULL) == DTR_OK; step++) {
        dtr_engine_step_begin(engine, step);
        dtr_array *miss = dtr_sub(model_apply(&model, x), y);
        dtr_array *loss = dtr_mean(dtr_mul(miss, miss), DTR_ALL_AXES);
        float value = dtr_array_item(loss);
        if (dtr_optimizer_step(adam, loss) == DTR_OK && step % 10 == 0)
            printf("step %2d  loss %.6f\n", step, (double)value);
        dtr_engine_step_end(engine);
    }
}

static void print_summary(dtr_engine *engine)
{
    dtr_stats stats;
    dtr_runtime_stats(dtr_engine_runtime(engine), &stats);
    printf("peak %" PRId64 " bytes, %" PRId64 " evictions, %" PRId64 " replays\n", stats.peak_bytes,
           stats.evictions, stats.rematerializations);
}

int main(void)
{
    dtr_engine *engine;
    dtr_engine_options options;
    dtr_error error = {0};
    dtr_engine_options_init(&options);
    options.program = "mlp";
    if (dtr_engine_open(&options, &engine, &error) != DTR_OK) {
        fprintf(stderr, "mlp: %s\n", error.text);
        return 1;
    }
    train(engine);
    print_summary(engine);
    dtr_status trained = dtr_engine_status(engine, &error);
    dtr_status closed = dtr_engine_close(engine, trained == DTR_OK ? &error : NULL);
    if (trained == DTR_OK && closed == DTR_OK)
        return 0;
    fprintf(stderr, "mlp: %s\n", error.text);
    return 1;
}
