/* Exports of more than one table: a directory with a file each. */
#ifndef DTRI_EXPORT_DIRECTORY_H
#define DTRI_EXPORT_DIRECTORY_H

#include "export/export.h"

/* Makes `path` with TABLE.EXTENSION for each kind of event that has rows and for the tables of few
 * rows.  It appears when it is whole.  With `force` a directory that exists gets new files one by
 * one, and loses those of tables that are not there any more; what else is in it stays. */
dtr_status dtri_export_directory(struct dtri_export *job, const struct dtri_export_format *format,
                                 const char *path, bool force, dtr_error *error);

#endif
