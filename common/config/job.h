/* The parts of loading a job that only this folder knows. */
#ifndef WEIR_CONFIG_JOB_H
#define WEIR_CONFIG_JOB_H

#include "config/file.h"
#include "config/report.h"
#include "config/tree.h"

/* Puts a flag's value into the tree, in the place of what is there. */
void weir_override_apply(struct weir_node *root, const struct weir_override *override, struct weir_report *report);

/* Fills canonical and hash of a job that is complete. */
void weir_job_canonicalize(struct weir_job *job);

#endif
