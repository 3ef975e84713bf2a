/* Runs into a database: recorder output, simulated runs with their events. */
#ifndef DTRI_STORE_STORE_RUN_H
#define DTRI_STORE_STORE_RUN_H

#include "dtr/recorder.h"
#include "sim/sim.h"
#include "store/store.h"

/* Output of a recorder that fills run `run`.  Borrows store and writer until it is closed. */
struct dtri_store_output {
    struct dtri_store *store;
    struct dtri_store_writer *writer;
    int64_t run;
};
dtr_recorder_output dtri_store_output(struct dtri_store_output *output);

/* Fills the result columns of a run. */
void dtri_run_set_stats(struct dtri_run *run, const dtr_stats *stats);
/* Fills the columns that say what a simulated run is, and what came out. */
void dtri_run_set_sim(struct dtri_run *run, const struct dtri_trace *trace,
                      const struct dtri_sim_options *options, int64_t unlimited_peak);
void dtri_run_set_sim_result(struct dtri_run *run, const struct dtri_sim_result *result);

/* Simulates with all events recorded as a run that was added to the store before. */
dtr_status dtri_store_record_into(struct dtri_store *store, struct dtri_run *run,
                                  const struct dtri_trace *trace,
                                  const struct dtri_sim_options *options,
                                  struct dtri_sim_result *out_result, dtr_error *error);
/* The same into a new file. */
dtr_status dtri_store_record_sim(const char *path, bool force, const struct dtri_trace *trace,
                                 const struct dtri_sim_options *options, int64_t unlimited_peak,
                                 struct dtri_sim_result *out_result, dtr_error *error);

#endif
