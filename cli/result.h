/* The result of a job as the chief fetched it: digests, the weights file. */
#ifndef WEIR_CLI_RESULT_H
#define WEIR_CLI_RESULT_H

#include "base/digest.h"
#include "base/error.h"
#include "model/model.h"
#include "protocol/message.h"

#define WEIR_RESULT_PARTS_MAX 8 /* weights and optimizer slots */

struct weir_result {
    const struct weir_variable *variables;
    size_t variable_count;
    size_t parts;
    const float *part[WEIR_RESULT_PARTS_MAX]; /* flat */
    char digest[WEIR_DIGEST_HEX];             /* of the weights in the order and layout of Keras's get_weights() */
    char state_digest[WEIR_DIGEST_HEX];       /* of weights, slots and record */
};

void weir_result_digest(struct weir_result *result, const struct weir_record *record);
/* Whether the files that are asked for (NULL: not) can be made: better known before training than after it. */
bool weir_result_check(const char *weights, const char *summary, struct weir_error *err);
/* Writes the weights as safetensors under Keras's variable names. */
bool weir_result_write_weights(const struct weir_result *result, const char *path, const char *job_hash,
                               struct weir_error *err);

#endif
