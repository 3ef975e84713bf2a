/* Names of files with placeholders, so that the processes of a job do not write into one file. */
#ifndef DTRI_SESSION_FILENAME_H
#define DTRI_SESSION_FILENAME_H

#include <stddef.h>
#include <stdint.h>

#include "dtr/status.h"

/* %p process id, %rank% rank among the processes of a job (0 without a launcher), %hostname%,
 * %env{NAME}% a variable ("" when not set; a slash in it becomes _), %% a percent sign.
 * DTR_E_INVALID names a placeholder that is none. */
dtr_status dtri_filename_expand(const char *pattern, char *out, size_t size, dtr_error *error);
/* The rank that the launcher gave this process (Open MPI, PMI, PMIx, Slurm, MVAPICH2, torchrun), or
 * DTR_NONE. */
int64_t dtri_launcher_rank(void);
/* Whether each process of a job gets a name of its own. */
int dtri_filename_has_placeholder(const char *pattern);

#endif
