/* A run of bytes that somebody else owns. Received messages are lists of these; nothing puts them together. */
#ifndef WEIR_BASE_SLICE_H
#define WEIR_BASE_SLICE_H

#include <stddef.h>

struct weir_slice {
    const void *bytes;
    size_t count;
};

#endif
