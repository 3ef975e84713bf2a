/* The table of built-in heuristics.  Sources: Kirisame et al., ICLR 2021, 4.1, C.3 and the ablation
 * grid of D.1; msps after Peng et al., ASPLOS 2020. */
#include <string.h>

#include "heuristic/heuristic.h"

#define QUOTIENT(cost_, bytes_, stale_)                                                            \
    .formula = DTRI_FORMULA_QUOTIENT, .cost = DTRI_COST_##cost_, .by_bytes = (bytes_),             \
    .by_staleness = (stale_)

static const struct dtri_heuristic heuristics[] = {
    {"dtr", "cost of what is evicted around it, over size and staleness",
     QUOTIENT(NEIGHBOURHOOD, true, true)},
    {"dtr-eq", "as dtr, with the neighbourhood kept as classes that only grow together",
     QUOTIENT(CLASSES, true, true)},
    {"dtr-local", "own cost over size and staleness", QUOTIENT(LOCAL, true, true)},
    {"msps", "own cost and that of evicted ancestors, over size", QUOTIENT(ANCESTORS, true, false)},
    {"lru", "least recently used first", .formula = DTRI_FORMULA_LAST_ACCESS},
    {"size", "largest first", QUOTIENT(NONE, true, false)},
    {"random", "any, with equal chance", .formula = DTRI_FORMULA_RANDOM},
    {"dtr-nbhd-stale", "as dtr, with the staleness of the whole evicted neighbourhood",
     QUOTIENT(NEIGHBOURHOOD, true, true), .neighbourhood_access = true},
    {"e", "ablation: neighbourhood cost alone", QUOTIENT(NEIGHBOURHOOD, false, false)},
    {"e-size", "ablation: neighbourhood cost over size", QUOTIENT(NEIGHBOURHOOD, true, false)},
    {"e-stale", "ablation: neighbourhood cost over staleness",
     QUOTIENT(NEIGHBOURHOOD, false, true)},
    {"eq", "ablation: class cost alone", QUOTIENT(CLASSES, false, false)},
    {"eq-size", "ablation: class cost over size", QUOTIENT(CLASSES, true, false)},
    {"eq-stale", "ablation: class cost over staleness", QUOTIENT(CLASSES, false, true)},
    {"local", "ablation: own cost alone", QUOTIENT(LOCAL, false, false)},
    {"local-size", "ablation: own cost over size", QUOTIENT(LOCAL, true, false)},
    {"local-stale", "ablation: own cost over staleness", QUOTIENT(LOCAL, false, true)},
    {"none-size-stale", "ablation: size and staleness, no cost", QUOTIENT(NONE, true, true)},
    {"none-stale", "ablation: staleness alone", QUOTIENT(NONE, false, true)},
};

#define N_HEURISTICS (sizeof heuristics / sizeof heuristics[0])

const struct dtri_heuristic *dtri_heuristic_find(const char *name)
{
    for (size_t i = 0; i < N_HEURISTICS; i++)
        if (strcmp(heuristics[i].name, name) == 0)
            return &heuristics[i];
    return NULL;
}

const char *dtr_heuristic_name(int index)
{
    return index >= 0 && (size_t)index < N_HEURISTICS ? heuristics[index].name : NULL;
}

const char *dtr_heuristic_description(const char *name)
{
    const struct dtri_heuristic *heuristic = dtri_heuristic_find(name);
    return heuristic ? heuristic->description : NULL;
}
