/* Rings full of nonsense, as an ordinary test: what a session would say, from a seed, with some
 * words changed; as a stream of records of its own, and into a file. */
#include "../support.h"

#include "base/rng.h"
#include "ring_target.c"

#define MAX_WORDS 4000

struct maker {
    struct dtri_rng rng;
    uint64_t words[MAX_WORDS];
    size_t n;
};

static int64_t below(struct maker *m, int64_t n)
{
    return (int64_t)dtri_rng_below(&m->rng, (uint64_t)n);
}

/* A number that programs get wrong. */
static uint64_t odd(struct maker *m)
{
    static const uint64_t values[] = {0,       1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
                                      1 << 16, 64};
    int64_t i = below(m, 10);
    return i < 7 ? values[i] : i < 9 ? (uint64_t)below(m, 70) : dtri_rng_next(&m->rng);
}

static void add(struct maker *m, unsigned kind, const void *data, size_t size)
{
    size_t n = 1 + (size + 7) / 8;
    if (m->n + n > MAX_WORDS)
        return;
    m->words[m->n] = kind | (uint64_t)n << 16;
    if (size)
        memcpy(m->words + m->n + 1, data, size);
    m->n += n;
}

static void add_data(struct maker *m, unsigned kind, int64_t id, const void *data, size_t size)
{
    char whole[16 + 12000];
    int64_t head[2] = {id, (int64_t)size};
    memcpy(whole, head, sizeof head);
    memcpy(whole + 16, data, size);
    add(m, kind, whole, 16 + size);
}

static void add_event(struct maker *m)
{
    int n;
    const dtr_event_info *infos = dtr_event_infos(&n);
    const dtr_event_info *info = &infos[below(m, n)];
    int64_t words[2 + DTR_EVENT_MAX_FIELDS];
    for (int i = 0; i < 2 + info->n_fields; i++)
        words[i] = below(m, 4) ? below(m, 1000000) : (int64_t)odd(m);
    add(m, (unsigned)info->kind, words, (size_t)(2 + info->n_fields) * 8);
}

static void add_result(struct maker *m)
{
    struct dtri_run run;
    dtri_run_init(&run, "live");
    dtri_run_set_text(run.result, "ok");
    run.record_ns = (int64_t)odd(m);
    add_data(m, DTRI_RECORD_MESSAGE, DTRI_MESSAGE_RESULT, &run, sizeof run);
}

static void add_record(struct maker *m)
{
    struct dtri_record_window window = {0, 5, INT64_MIN, DTRI_WINDOW_STEP, -1, 3};
    int64_t clock[3] = {1, 2, 3};
    switch (below(m, 24)) {
    case 0:
        add_data(m, DTRI_RECORD_NAME, below(m, 9), "a name", (size_t)below(m, 7));
        break;
    case 1:
        window.id = (int64_t)odd(m);
        window.closed_by = (int64_t)odd(m);
        add(m, DTRI_RECORD_WINDOW, &window, sizeof window);
        break;
    case 2:
        add(m, DTRI_RECORD_DUMP, &(uint64_t){odd(m)}, 8);
        break;
    case 3:
        add_data(m, DTRI_RECORD_MESSAGE, DTRI_MESSAGE_CLOCK, clock, sizeof clock);
        break;
    case 4:
        add_data(m, DTRI_RECORD_MESSAGE, DTRI_MESSAGE_SETTING, "a\0b\0default", 12);
        break;
    case 5:
        if (below(m, 20) == 0)
            add_result(m);
        break;
    default:
        add_event(m);
    }
}

static void feed(struct maker *m, unsigned how, bool change)
{
    uint8_t data[1 + sizeof m->words];
    struct dtri_message_run message = {.path = "somewhere"};
    m->n = 0;
    if (how & INTO_A_FILE) {
        dtri_run_init(&message.run, "live");
        add_data(m, DTRI_RECORD_MESSAGE, DTRI_MESSAGE_RUN, &message, sizeof message);
    }
    size_t first = m->n;
    for (int64_t i = below(m, 120); i > 0; i--)
        add_record(m);
    for (int64_t i = change ? below(m, 4) : 0; i > 0 && m->n > first; i--)
        m->words[below(m, 8) ? first + (size_t)below(m, (int64_t)(m->n - first)) : 0] =
            below(m, 2) ? odd(m) : m->words[m->n / 2];
    data[0] = (uint8_t)how;
    memcpy(data + 1, m->words, m->n * 8);
    LLVMFuzzerTestOneInput(data, 1 + m->n * 8);
}

static void test_rings(void **state)
{
    static struct maker maker;
    (void)state;
    dtri_rng_seed(&maker.rng, 1);
    for (unsigned i = 0; i < 2000; i++)
        feed(&maker, (unsigned)below(&maker, 64) & ~(unsigned)INTO_A_FILE, true);
}

static void test_into_files(void **state)
{
    static struct maker maker;
    (void)state;
    dtri_rng_seed(&maker.rng, 2);
    for (unsigned i = 0; i < 150; i++)
        feed(&maker, (unsigned)below(&maker, 64) | INTO_A_FILE, i % 3);
}

/* The head is far beyond what a ring can hold, and every record up to there would be one. */
static void test_head_far_away(void **state)
{
    uint64_t words[2] = {DTRI_RECORD_PAD | UINT64_C(8192) << 16, UINT64_MAX / 2};
    uint8_t data[1 + sizeof words] = {HEAD_IS_A_WORD};
    (void)state;
    memcpy(data + 1, words, sizeof words);
    LLVMFuzzerTestOneInput(data, sizeof data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_far_away),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_into_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
