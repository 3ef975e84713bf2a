/* Failing the Nth allocation of this thread, once or from then on. */
#ifndef DTR_TESTS_FAULT_H
#define DTR_TESTS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

struct fault {
    int64_t at;    /* the allocation that fails, from 0 */
    bool for_ever; /* and all after it */
    int64_t n;     /* allocations so far */
};

static inline bool fault_now(void *user)
{
    struct fault *fault = user;
    int64_t n = fault->n++;
    return n == fault->at || (fault->for_ever && n > fault->at);
}

static inline void fault_begin(struct fault *fault, int64_t at, bool for_ever)
{
    *fault = (struct fault){.at = at, .for_ever = for_ever};
    dtri_alloc_set_fault(fault_now, fault);
}

/* No more faults; true when there was one. */
static inline bool fault_end(struct fault *fault)
{
    dtri_alloc_set_fault(NULL, NULL);
    return fault->n > fault->at;
}

#endif
