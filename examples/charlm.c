/* A transformer that learns to continue a text, character by character.
 *
 * Embedding and positions, then blocks of (layer norm, causal attention with several heads, layer
 * norm, two layers with GELU), then a projection to the characters.  The activations of a step need
 * much more memory than the parameters, as in large models: a budget of half the peak is a fair
 * one.
 *
 *     ./charlm --steps 20
 *     DTR_BUDGET=40MiB DTR_RECORD=charlm.dtr.sqlite ./charlm --steps 20
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtr/engine.h"

#define MAX_LAYERS 64
#define MAX_TEXT   (1 << 20)

static const char *const DEFAULT_TEXTS[] = {
    "/usr/share/common-licenses/GPL-3",
    "/usr/share/common-licenses/Apache-2.0",
};

/* --- options ---------------------------------------------------------------------------------- */

struct settings {
    long steps, layers, dim, heads, context, batch, seed;
    double rate, dropout;
    const char *text;
    bool adam, print_hash;
};

static const struct settings DEFAULTS = {
    .steps = 20,
    .layers = 4,
    .dim = 64,
    .heads = 4,
    .context = 64,
    .batch = 16,
    .seed = 1,
    .rate = 0.003,
    .dropout = 0.1,
    .adam = true,
};

static const struct number {
    const char *name;
    size_t offset;
    long min, max;
} NUMBERS[] = {
    {"steps", offsetof(struct settings, steps), 1, 1000000},
    {"layers", offsetof(struct settings, layers), 1, MAX_LAYERS},
    {"dim", offsetof(struct settings, dim), 1, 16384},
    {"heads", offsetof(struct settings, heads), 1, 1024},
    {"context", offsetof(struct settings, context), 1, 65536},
    {"batch", offsetof(struct settings, batch), 1, 65536},
    {"seed", offsetof(struct settings, seed), 0, INT32_MAX},
};
#define N_NUMBERS (int)(sizeof NUMBERS / sizeof NUMBERS[0])

enum { OPTION_LR = N_NUMBERS, OPTION_DROPOUT, OPTION_OPTIMIZER, OPTION_PRINT_HASH, OPTION_HELP };

static const struct option OPTIONS[] = {
    {"steps", required_argument, NULL, 0},
    {"layers", required_argument, NULL, 1},
    {"dim", required_argument, NULL, 2},
    {"heads", required_argument, NULL, 3},
    {"context", required_argument, NULL, 4},
    {"batch", required_argument, NULL, 5},
    {"seed", required_argument, NULL, 6},
    {"lr", required_argument, NULL, OPTION_LR},
    {"dropout", required_argument, NULL, OPTION_DROPOUT},
    {"optimizer", required_argument, NULL, OPTION_OPTIMIZER},
    {"print-hash", no_argument, NULL, OPTION_PRINT_HASH},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

static const char HELP[] =
    "usage: charlm [options] [TEXTFILE]\n"
    "  --steps N --layers N --dim N --heads N --context N --batch N --seed N\n"
    "  --lr X --dropout X --optimizer sgd|adam --print-hash\n"
    "DTR_BUDGET, DTR_HEURISTIC, DTR_RECORD and so on set up the runtime.\n";

static bool set_number(struct settings *s, int which, const char *text)
{
    const struct number *n = &NUMBERS[which];
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < n->min || value > n->max) {
        fprintf(stderr, "charlm: --%s takes %ld to %ld, not \"%s\"\n", n->name, n->min, n->max,
                text);
        return false;
    }
    *(long *)((char *)s + n->offset) = value;
    return true;
}

static bool set_real(double *out, const char *name, double below, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value < below)) {
        fprintf(stderr, "charlm: --%s takes a number of at least 0 and below %g, not \"%s\"\n",
                name, below, text);
        return false;
    }
    *out = value;
    return true;
}

static bool set_optimizer(struct settings *s, const char *text)
{
    s->adam = strcmp(text, "adam") == 0;
    if (s->adam || strcmp(text, "sgd") == 0)
        return true;
    fprintf(stderr, "charlm: --optimizer takes sgd or adam, not \"%s\"\n", text);
    return false;
}

static bool set_option(struct settings *s, int option, const char *text)
{
    if (option >= 0 && option < N_NUMBERS)
        return set_number(s, option, text);
    if (option == OPTION_LR)
        return set_real(&s->rate, "lr", 1000, text);
    if (option == OPTION_DROPOUT)
        return set_real(&s->dropout, "dropout", 1, text);
    if (option == OPTION_OPTIMIZER)
        return set_optimizer(s, text);
    if (option == OPTION_PRINT_HASH)
        return s->print_hash = true;
    fputs(HELP, option == OPTION_HELP ? stdout : stderr);
    if (option == OPTION_HELP)
        exit(0);
    return false;
}

static bool read_options(struct settings *s, int argc, char **argv)
{
    int option;
    *s = DEFAULTS;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1)
        if (!set_option(s, option, optarg))
            return false;
    s->text = optind < argc ? argv[optind] : NULL;
    if (s->dim % s->heads == 0)
        return true;
    fprintf(stderr, "charlm: %ld heads do not divide a width of %ld\n", s->heads, s->dim);
    return false;
}

/* --- the text --------------------------------------------------------------------------------- */

struct text {
    unsigned char *characters; /* numbered from 0 in the order of their codes */
    long length;
    int n_classes;
};

static FILE *open_text(const char *path)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    for (size_t i = 0; !path && !file && i < sizeof DEFAULT_TEXTS / sizeof DEFAULT_TEXTS[0]; i++)
        file = fopen(DEFAULT_TEXTS[i], "rb");
    if (!file)
        fprintf(stderr, "charlm: cannot read %s: %s\n", path ? path : "a licence text",
                strerror(errno));
    return file;
}

static void number_characters(struct text *t)
{
    int number[256] = {0};
    for (long i = 0; i < t->length; i++)
        number[t->characters[i]] = 1;
    for (int c = 0; c < 256; c++)
        number[c] = number[c] ? t->n_classes++ : 0;
    for (long i = 0; i < t->length; i++)
        t->characters[i] = (unsigned char)number[t->characters[i]];
}

static bool read_text(struct text *t, const struct settings *s)
{
    FILE *file = open_text(s->text);
    *t = (struct text){.characters = malloc(MAX_TEXT)};
    if (file && t->characters)
        t->length = (long)fread(t->characters, 1, MAX_TEXT, file);
    if (file)
        fclose(file);
    if (file && t->length <= s->context + 1)
        fprintf(stderr, "charlm: the text has %ld characters; it needs more than %ld\n", t->length,
                s->context + 1);
    number_characters(t);
    return t->length > s->context + 1;
}

/* Pieces of the text, and each one moved on by a character.  Where they begin depends on the seed
 * and the step alone. */
static bool make_batch(dtr_engine *engine, const struct text *t, const struct settings *s,
                       long step, dtr_array **out_ids, dtr_array **out_targets)
{
    long n = s->batch * s->context;
    int32_t *ids = malloc((size_t)n * 2 * sizeof *ids), *targets = ids + n;
    uint64_t state = (uint64_t)s->seed * 0x9e3779b97f4a7c15u + (uint64_t)step;
    if (!ids)
        return false;
    for (long b = 0; b < s->batch; b++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        long begin = (long)((state >> 33) % (uint64_t)(t->length - s->context - 1));
        for (long i = 0; i < s->context; i++) {
            ids[b * s->context + i] = t->characters[begin + i];
            targets[b * s->context + i] = t->characters[begin + i + 1];
        }
    }
    *out_ids = dtr_array_integers(engine, DTR_SHAPE(s->batch, s->context), ids);
    *out_targets = dtr_array_integers(engine, DTR_SHAPE(n), targets);
    free(ids);
    return true;
}

/* --- the model -------------------------------------------------------------------------------- */

struct linear {
    dtr_array *weight, *bias;
};

struct norm {
    dtr_array *gain, *bias;
};

struct block {
    struct norm before_attention, before_layers;
    struct linear qkv, mix, wide, narrow;
};

struct model {
    const struct settings *settings;
    dtr_array *characters, *positions;
    struct block blocks[MAX_LAYERS];
    struct norm last;
    struct linear head;
};

static struct linear linear_new(dtr_engine *engine, long in, long out)
{
    dtr_array *weight = dtr_parameter_normal(engine, DTR_SHAPE(in, out), 1 / sqrtf((float)in));
    return (struct linear){weight, dtr_parameter_full(engine, DTR_SHAPE(out), 0)};
}

static struct norm norm_new(dtr_engine *engine, long dim)
{
    dtr_array *gain = dtr_parameter_full(engine, DTR_SHAPE(dim), 1);
    return (struct norm){gain, dtr_parameter_full(engine, DTR_SHAPE(dim), 0)};
}

static void model_init(struct model *m, dtr_engine *engine, const struct settings *s, int n_classes)
{
    m->settings = s;
    m->characters = dtr_parameter_normal(engine, DTR_SHAPE(n_classes, s->dim), 0.1f);
    m->positions = dtr_parameter_normal(engine, DTR_SHAPE(s->context, s->dim), 0.1f);
    for (long i = 0; i < s->layers; i++) {
        struct block *b = &m->blocks[i];
        b->before_attention = norm_new(engine, s->dim);
        b->qkv = linear_new(engine, s->dim, 3 * s->dim);
        b->mix = linear_new(engine, s->dim, s->dim);
        b->before_layers = norm_new(engine, s->dim);
        b->wide = linear_new(engine, s->dim, 4 * s->dim);
        b->narrow = linear_new(engine, 4 * s->dim, s->dim);
    }
    m->last = norm_new(engine, s->dim);
    m->head = linear_new(engine, s->dim, n_classes);
}

static dtr_array *linear_apply(const struct linear *l, dtr_array *x)
{
    return dtr_add(dtr_matmul(x, l->weight), l->bias);
}

static dtr_array *norm_apply(const struct norm *n, dtr_array *x)
{
    return dtr_layer_norm(x, n->gain, n->bias);
}

/* [batch, context, dim] to [batch, heads, context, dim / heads]. */
static dtr_array *heads_apart(dtr_array *x, const struct settings *s)
{
    dtr_shape shape = DTR_SHAPE(s->batch, s->context, s->heads, s->dim / s->heads);
    return dtr_transpose(dtr_reshape(x, shape), 1, 2);
}

static dtr_array *attention(const struct block *b, dtr_array *x, const struct settings *s)
{
    dtr_array *parts[3];
    dtr_split(linear_apply(&b->qkv, x), -1, 3, parts);
    dtr_array *q = heads_apart(parts[0], s);
    dtr_array *k = heads_apart(parts[1], s);
    dtr_array *v = heads_apart(parts[2], s);
    float scale = 1 / sqrtf((float)s->dim / (float)s->heads);
    dtr_array *scores = dtr_scale(dtr_matmul_transposed(q, false, k, true), scale);
    dtr_array *mixed = dtr_matmul(dtr_softmax(scores, true), v);
    dtr_shape shape = DTR_SHAPE(s->batch, s->context, s->dim);
    return linear_apply(&b->mix, dtr_reshape(dtr_transpose(mixed, 1, 2), shape));
}

static dtr_array *block_apply(dtr_engine *engine, const struct block *b, dtr_array *x,
                              const struct settings *s)
{
    dtr_scope_enter(engine);
    x = dtr_add(x, attention(b, norm_apply(&b->before_attention, x), s));
    dtr_array *wide = dtr_gelu(linear_apply(&b->wide, norm_apply(&b->before_layers, x)));
    dtr_array *narrow = linear_apply(&b->narrow, wide);
    if (s->dropout > 0)
        narrow = dtr_dropout(narrow, (float)s->dropout, dtr_dropout_seed(engine));
    return dtr_scope_leave(engine, dtr_add(x, narrow));
}

static dtr_array *model_loss(dtr_engine *engine, const struct model *m, dtr_array *ids,
                             dtr_array *targets)
{
    const struct settings *s = m->settings;
    dtr_array *x = dtr_add(dtr_embedding(m->characters, ids), m->positions);
    for (long i = 0; i < s->layers; i++)
        x = block_apply(engine, &m->blocks[i], x, s);
    x = dtr_reshape(norm_apply(&m->last, x), DTR_SHAPE(-1, s->dim));
    return dtr_cross_entropy(linear_apply(&m->head, x), targets);
}

/* --- training --------------------------------------------------------------------------------- */

/* FNV-1a, byte by byte. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n)
{
    for (const unsigned char *byte = data; n > 0; n--)
        hash = (hash ^ *byte++) * 1099511628211u;
    return hash;
}

static bool hash_parameters(dtr_engine *engine, uint64_t *hash)
{
    for (int i = 0; i < dtr_engine_n_parameters(engine); i++) {
        dtr_array *parameter = dtr_engine_parameter(engine, i);
        int64_t n = dtr_array_size(parameter);
        float *values = malloc((size_t)n * sizeof *values);
        bool read = values && dtr_array_read(parameter, values, n) == DTR_OK;
        if (read)
            *hash = hash_bytes(*hash, values, (size_t)n * sizeof *values);
        free(values);
        if (!read)
            return false;
    }
    return true;
}

static dtr_optimizer *make_optimizer(dtr_engine *engine, const struct settings *s)
{
    float rate = (float)s->rate;
    return s->adam ? dtr_optimizer_adam(engine, rate, 0.9f, 0.999f, 1e-8f)
                   : dtr_optimizer_sgd(engine, rate, 0.9f);
}

/* One step; returns false when it failed. */
static bool train_step(dtr_engine *engine, const struct model *m, const struct text *text,
                       dtr_optimizer *optimizer, long step, float *out_loss)
{
    dtr_array *ids, *targets;
    dtr_engine_step_begin(engine, step);
    bool made = make_batch(engine, text, m->settings, step, &ids, &targets);
    if (made) {
        dtr_array *loss = model_loss(engine, m, ids, targets);
        *out_loss = dtr_array_item(loss);
        dtr_optimizer_step(optimizer, loss);
    }
    dtr_engine_step_end(engine);
    return made && dtr_engine_status(engine, NULL) == DTR_OK;
}

static bool train(dtr_engine *engine, const struct settings *s, const struct text *text)
{
    struct model model;
    uint64_t hash = 14695981039346656037u;
    model_init(&model, engine, s, text->n_classes);
    dtr_optimizer *optimizer = make_optimizer(engine, s);
    for (long step = 0; step < s->steps; step++) {
        float loss;
        if (!train_step(engine, &model, text, optimizer, step, &loss))
            return false;
        printf("step %3ld  loss %.6f\n", step, (double)loss);
        hash = hash_bytes(hash, &loss, sizeof loss);
    }
    if (s->print_hash && hash_parameters(engine, &hash))
        printf("hash %016" PRIx64 "\n", hash);
    return true;
}

static void print_summary(dtr_engine *engine)
{
    dtr_stats stats;
    dtr_runtime_stats(dtr_engine_runtime(engine), &stats);
    printf("peak %" PRId64 " bytes (allocator %" PRId64 ", parameters and inputs made %" PRId64
           ")\n",
           stats.peak_bytes, dtr_engine_memory(engine).peak_bytes, stats.constant_bytes);
    printf("%" PRId64 " operator runs, %" PRId64 " evictions, %" PRId64 " replays\n",
           stats.operator_runs, stats.evictions, stats.rematerializations);
    printf("%.3f s in first runs, %.3f s in replays\n", (double)stats.model_compute_ns * 1e-9,
           (double)stats.remat_compute_ns * 1e-9);
}

int main(int argc, char **argv)
{
    struct settings settings;
    struct text text = {0};
    dtr_engine *engine;
    dtr_engine_options options;
    dtr_error error = {.text = "out of memory"};
    if (!read_options(&settings, argc, argv))
        return 2;
    if (!read_text(&text, &settings)) {
        free(text.characters);
        return 1;
    }
    dtr_engine_options_init(&options);
    options.program = "charlm";
    options.seed = (uint64_t)settings.seed;
    if (dtr_engine_open(&options, &engine, &error) != DTR_OK) {
        fprintf(stderr, "charlm: %s\n", error.text);
        free(text.characters);
        return 1;
    }
    bool ok = train(engine, &settings, &text);
    print_summary(engine);
    dtr_engine_status(engine, &error);
    ok = dtr_engine_close(engine, ok ? &error : NULL) == DTR_OK && ok;
    if (!ok)
        fprintf(stderr, "charlm: %s\n", error.text);
    free(text.characters);
    return ok ? 0 : 1;
}
