/* Reads IDX files: the format of the MNIST data sets (two zero bytes, a type, the number of dimensions, the dimensions
 * as big-endian 32-bit numbers, the elements as big-endian numbers), plain or gzip.
 *
 * A file is not trusted: what it declares is checked against its size before memory is taken, and no more than that is
 * read. Whole files are read into memory.
 */
#ifndef WEIR_DATA_IDX_H
#define WEIR_DATA_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define WEIR_IDX_DIMS_MAX 5 /* samples, and 4 of each sample */

/* As the third byte of the file has it. */
enum weir_idx_type {
    WEIR_IDX_U8 = 0x08,
    WEIR_IDX_I8 = 0x09,
    WEIR_IDX_I16 = 0x0B,
    WEIR_IDX_I32 = 0x0C,
    WEIR_IDX_F32 = 0x0D,
    WEIR_IDX_F64 = 0x0E,
};

struct weir_idx {
    enum weir_idx_type type;
    size_t element_bytes;
    size_t dims;
    uint32_t dim[WEIR_IDX_DIMS_MAX]; /* all > 0; dim[0] is the number of samples */
    uint64_t elements;               /* their product */
    unsigned char *bytes;            /* the elements in this machine's byte order; aligned for any type */
};

/* Reads the whole file. False, and an error that begins with the path, if it can't be read or is not exactly one IDX
 * array; then nothing is held. */
bool weir_idx_read(struct weir_idx *idx, const char *path, struct weir_error *err);
void weir_idx_free(struct weir_idx *idx);

/* "u8", "f32", ... */
const char *weir_idx_type_name(enum weir_idx_type type);

#endif
