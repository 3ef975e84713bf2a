#include "session/settings.h"

const char *const dtri_settings_searches[] = {"auto", "scan", "index", "sample", NULL};
const char *const dtri_settings_policies[] = {"eager", "ignore", "banish", NULL};
const char *const dtri_settings_ring_full[] = {"block", "drop", NULL};

#define AT(member) offsetof(struct dtri_settings, member)

const struct dtri_option dtri_settings_table[] = {
    {.name = "budget", .letter = 'b', .argument = "B", .type = DTRI_OPTION_BUDGET,
     .offset = AT(budget), .environment = "DTR_BUDGET",
     .help = "memory budget in bytes (512MiB), or none"},
    {.name = "heuristic", .letter = 'e', .argument = "NAME", .type = DTRI_OPTION_TEXT,
     .offset = AT(heuristic), .environment = "DTR_HEURISTIC",
     .help = "a heuristic's name, or the path of a plugin"},
    {.name = "search", .argument = "S", .type = DTRI_OPTION_CHOICE, .offset = AT(search),
     .environment = "DTR_SEARCH", .choices = dtri_settings_searches,
     .help = "how victims are found: auto, scan, index or sample"},
    {.name = "policy", .argument = "P", .type = DTRI_OPTION_CHOICE, .offset = AT(deallocation),
     .environment = "DTR_DEALLOCATION", .choices = dtri_settings_policies,
     .help = "when the last reference goes: eager, ignore or banish"},
    {.name = "seed", .argument = "N", .type = DTRI_OPTION_COUNT, .offset = AT(seed),
     .environment = "DTR_SEED", .min = 0, .max = INT64_MAX, .help = "for random choices"},
    {.name = "remat-limit", .argument = "TIME", .type = DTRI_OPTION_DURATION,
     .offset = AT(remat_limit_ns), .environment = "DTR_REMAT_LIMIT",
     .help = "give up once replays cost more than this; 0 is no limit"},
    {.name = "overshoot", .type = DTRI_OPTION_FLAG, .offset = AT(overshoot),
     .environment = "DTR_OVERSHOOT",
     .help = "run an operator that does not fit above the budget, and report it"},
    {.name = "output", .letter = 'o', .argument = "FILE", .type = DTRI_OPTION_TEXT,
     .offset = AT(record), .environment = "DTR_RECORD", .help = "record the run into FILE"},
    {.name = "ring-events", .argument = "N", .type = DTRI_OPTION_COUNT, .offset = AT(ring_events),
     .environment = "DTR_RING_EVENTS", .min = 64, .max = 1 << 26,
     .help = "events that wait to be written, a power of two"},
    {.name = "ring-full", .argument = "W", .type = DTRI_OPTION_CHOICE, .offset = AT(ring_full),
     .environment = "DTR_RING_FULL", .choices = dtri_settings_ring_full,
     .help = "when more would wait: block the program, or drop and count"},
    {0},
};

const char *const dtri_settings_defaults[] = {
    "none", "dtr-eq", "auto", "eager", "0", "0", "0", "", "65536", "block",
};
