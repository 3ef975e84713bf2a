/* Many simulated runs on all cores. */
#ifndef DTRI_SIM_SWEEP_H
#define DTRI_SIM_SWEEP_H

#include <signal.h>

#include "sim/sim.h"

struct dtri_sweep_job {
    const struct dtri_trace *trace; /* borrowed */
    struct dtri_sim_options options;
    void *user; /* the caller's */
};

/* Told of each finished job, on the thread that called dtri_sweep_run, in the order of finishing.
 * `error` is set when `status` is not DTR_OK: then the job has no result.  Returning a failure ends
 * the sweep. */
typedef dtr_status (*dtri_sweep_done)(void *user, const struct dtri_sweep_job *job,
                                      dtr_status status, const struct dtri_sim_result *result,
                                      const dtr_error *error, dtr_error *out_error);

/* Runs jobs on `n_threads` threads.  When *cancel becomes nonzero (a signal handler may set it), no
 * further job is begun and DTR_E_INTERRUPTED is returned once those in progress are done and told.
 */
dtr_status dtri_sweep_run(const struct dtri_sweep_job *jobs, size_t n_jobs, int n_threads,
                          const volatile sig_atomic_t *cancel, dtri_sweep_done done, void *user,
                          dtr_error *error);

#endif
