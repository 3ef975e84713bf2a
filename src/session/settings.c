#include "session/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "dtr/event.h"

const char *const dtri_settings_searches[] = {"auto", "scan", "index", "sample", NULL};
const char *const dtri_settings_policies[] = {"eager", "ignore", "banish", NULL};
const char *const dtri_settings_ring_full[] = {"block", "drop", NULL};
const char *const dtri_settings_clocks[] = {"monotonic", "tsc", NULL};
const char *const dtri_settings_packings[] = {"none", "zstd", NULL};

#define AT(member) offsetof(struct dtri_settings, member)

const struct dtri_option dtri_settings_table[] = {
    {.name = "budget",
     .letter = 'b',
     .argument = "B",
     .type = DTRI_OPTION_BUDGET,
     .offset = AT(budget),
     .environment = "DTR_BUDGET",
     .help = "memory budget in bytes (512MiB), or none"},
    {.name = "heuristic",
     .letter = 'e',
     .argument = "NAME",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(heuristic),
     .environment = "DTR_HEURISTIC",
     .help = "a heuristic's name, or the path of a plugin"},
    {.name = "search",
     .argument = "S",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(search),
     .environment = "DTR_SEARCH",
     .choices = dtri_settings_searches,
     .help = "how victims are found: auto, scan, index or sample"},
    {.name = "policy",
     .argument = "P",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(deallocation),
     .environment = "DTR_DEALLOCATION",
     .choices = dtri_settings_policies,
     .help = "when the last reference goes: eager, ignore or banish"},
    {.name = "seed",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(seed),
     .environment = "DTR_SEED",
     .min = 0,
     .max = INT64_MAX,
     .help = "for random choices"},
    {.name = "remat-limit",
     .argument = "L",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(remat_limit),
     .environment = "DTR_REMAT_LIMIT",
     .help = "give up once replays cost more: 20s, or 100x first runs; 0 is no limit"},
    {.name = "overshoot",
     .type = DTRI_OPTION_FLAG,
     .offset = AT(overshoot),
     .environment = "DTR_OVERSHOOT",
     .help = "run an operator that does not fit above the budget, and report it"},
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(record),
     .environment = "DTR_RECORD",
     .help = "record the run into FILE; %p, %rank%, %hostname% and %env{NAME}% are filled in"},
    {.name = "ring-events",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(ring_events),
     .environment = "DTR_RING_EVENTS",
     .min = 64,
     .max = 1 << 26,
     .help = "events that wait to be written, a power of two"},
    {.name = "ring-full",
     .argument = "W",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(ring_full),
     .environment = "DTR_RING_FULL",
     .choices = dtri_settings_ring_full,
     .help = "when more would wait: block the program, or drop and count"},
    {.name = "commit-interval",
     .argument = "TIME",
     .type = DTRI_OPTION_DURATION,
     .offset = AT(commit_interval_ns),
     .environment = "DTR_COMMIT_INTERVAL",
     .help = "how long an event may wait to be in the file"},
    {.name = "delay",
     .argument = "TIME",
     .type = DTRI_OPTION_DURATION,
     .offset = AT(delay_ns),
     .environment = "DTR_DELAY",
     .help = "record nothing before"},
    {.name = "duration",
     .argument = "TIME",
     .type = DTRI_OPTION_DURATION,
     .offset = AT(duration_ns),
     .environment = "DTR_DURATION",
     .help = "record for so long after the delay; 0 is to the end"},
    {.name = "steps",
     .argument = "A:B",
     .type = DTRI_OPTION_TEXT,
     .offset = AT(steps),
     .environment = "DTR_STEPS",
     .help = "record only iterations A, A+1, ... below B"},
    {.name = "keep-events",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(keep_events),
     .environment = "DTR_KEEP_EVENTS",
     .min = 0,
     .max = INT64_C(1) << 32,
     .help = "flight recorder: keep only the newest N events; 0 is all"},
    {.name = "keep-time",
     .argument = "TIME",
     .type = DTRI_OPTION_DURATION,
     .offset = AT(keep_ns),
     .environment = "DTR_KEEP_TIME",
     .help = "flight recorder: keep only events of the newest TIME; 0 is all"},
    {.name = "stacks",
     .argument = "N",
     .type = DTRI_OPTION_COUNT,
     .offset = AT(stacks),
     .environment = "DTR_STACKS",
     .min = 0,
     .max = 64,
     .help = "record N frames of the call stack of each operator"},
    {.name = "clock",
     .argument = "C",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(clock),
     .environment = "DTR_CLOCK",
     .choices = dtri_settings_clocks,
     .help = "of events: monotonic, or tsc, which costs less where it is steady"},
    {.name = "compress",
     .argument = "C",
     .type = DTRI_OPTION_CHOICE,
     .offset = AT(compress),
     .environment = "DTR_COMPRESS",
     .choices = dtri_settings_packings,
     .help = "events beyond packing them: none, or zstd, for files half as large"},
    {0},
};

const char *const dtri_settings_defaults[] = {
    "none", "dtr-eq", "auto", "eager", "0", "0", "0", "",          "65536", "block",
    "1s",   "0",      "0",    "",      "0", "0", "0", "monotonic", "none",
};

dtr_status dtri_parse_remat_limit(const char *text, int64_t *out_ns, int64_t *out_ratio,
                                  dtr_error *error)
{
    size_t n = strlen(text);
    char number[32];
    dtr_status status = DTR_OK;
    *out_ns = *out_ratio = DTR_NONE;
    if (strcmp(text, "none") == 0 || strcmp(text, "0") == 0)
        return DTR_OK;
    if (n > 1 && n < sizeof number && text[n - 1] == 'x') {
        snprintf(number, sizeof number, "%.*s", (int)n - 1, text);
        status = dtri_parse_count(number, 1, 1000000, out_ratio, NULL);
    } else {
        status = dtri_parse_duration(text, out_ns, NULL);
    }
    if (status != DTR_OK)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "\"%.64s\" is no limit on replays; give a time, as in 20s, a multiple of "
                         "first runs, as in 100x, or 0",
                         text);
    return DTR_OK;
}

dtr_status dtri_parse_steps(const char *text, int64_t *out_begin, int64_t *out_end,
                            dtr_error *error)
{
    const char *colon = strchr(text, ':');
    char first[32] = "";
    *out_begin = *out_end = DTR_NONE;
    if (!*text)
        return DTR_OK;
    dtr_status status = colon && colon - text < (int)sizeof first ? DTR_OK : DTR_E_INVALID;
    if (status == DTR_OK) {
        memcpy(first, text, (size_t)(colon - text));
        *out_begin = 0;
        *out_end = INT64_MAX;
        if (first[0])
            status = dtri_parse_count(first, 0, INT64_MAX - 1, out_begin, NULL);
        if (status == DTR_OK && colon[1])
            status = dtri_parse_count(colon + 1, 0, INT64_MAX - 1, out_end, NULL);
    }
    if (status != DTR_OK || *out_begin >= *out_end)
        return dtri_fail(error, DTR_E_INVALID, 0,
                         "\"%s\" are no steps; give A:B with A < B, as in 10:12", text);
    return DTR_OK;
}
