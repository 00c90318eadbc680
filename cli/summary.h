/* The result of a job: the summary file (docs/job.md), and what the chief prints. */
#ifndef WEIR_CLI_SUMMARY_H
#define WEIR_CLI_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct weir_summary_value {
    const char *name; /* "accuracy" */
    double value;
};

struct weir_summary_role {
    const char *role; /* "worker" */
    uint32_t index;
    uint64_t pid;
    double cpu_s;
    uint64_t peak_rss_bytes, sent_bytes, received_bytes, replicas_computed, chunks_applied;
    uint64_t copied_bytes; /* of payload, between the received message and the sum */
};

/* All texts and arrays belong to the caller. A number that is not finite is written as null. */
struct weir_summary {
    const char *job, *hash, *strategy;
    uint32_t replicas, workers, ps;
    uint64_t steps;
    uint32_t epochs;
    double loss; /* of the last epoch, over the whole training set; so are the metrics */
    const struct weir_summary_value *metrics;
    size_t metric_count;
    bool validated; /* else the key "validation" is left out */
    double validation_loss;
    const struct weir_summary_value *validation_metrics;
    size_t validation_metric_count;
    double seconds, samples_per_s;
    const char *digest, *state_digest;
    bool reproducible;
    uint64_t generation, views;
    const struct weir_summary_role *roles;
    size_t role_count;
};

/* The summary as indented JSON with a newline at its end; free() it. */
char *weir_summary_json(const struct weir_summary *summary);

/* Writes it to the file, whole or not at all (storage/storage_file.h). Errors name the file. */
bool weir_summary_write(const struct weir_summary *summary, const char *path, struct weir_error *err);

/* Prints the JSON, or for people:
 *   fashion_mnist: 4690 steps, 5 epochs in 12.3 s (24390 samples/s), 2 replicas on 2 workers and 2 ps
 *   loss 0.2731, accuracy 0.9012; validation loss 0.3012, accuracy 0.8911
 *   weights 5891b5b522d5df08...
 * False if the stream could not be written. */
bool weir_summary_print(const struct weir_summary *summary, bool json, FILE *out);

#endif
