/* Operations of odd sizes that tests run through: every kind, strides, paddings, activations. */
#ifndef WEIR_REFERENCE_CASES_H
#define WEIR_REFERENCE_CASES_H

#include "backend/backend.h"

struct weir_op_case {
    const char *name;
    struct weir_op_desc desc;
};

/* Case `i`; false after the last. */
bool weir_op_case(size_t i, struct weir_op_case *out);

#endif
