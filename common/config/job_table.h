/* The keys of a job file. */
#ifndef WEIR_CONFIG_JOB_TABLE_H
#define WEIR_CONFIG_JOB_TABLE_H

#include "config/row.h"

/* All rows, in the order of the help; offsets are into struct weir_job. */
extern const struct weir_row weir_job_rows[];
extern const size_t weir_job_row_count;

/* The row of that dotted name, or NULL. */
const struct weir_row *weir_job_row(const char *name);
/* True if the name is one of an object that only groups others: "fit". */
bool weir_job_is_group(const char *name);
/* Why a key of that name is refused although it is one that weir will know; NULL for all others. */
const char *weir_job_row_later(const char *name);

#endif
