/* safetensors files (huggingface.co/docs/safetensors): the length of a header (8 bytes, little-endian), the header (a
 * JSON object: name -> dtype, shape, data_offsets; "__metadata__" -> strings), the tensors' bytes without a gap.
 *
 * Errors name the path. Any thread, one owner per open file.
 */
#ifndef WEIR_STORAGE_SAFETENSORS_H
#define WEIR_STORAGE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define WEIR_TENSOR_DIMENSIONS_MAX 8
#define WEIR_SAFETENSORS_HEADER_BYTES_MAX ((size_t)16 << 20)

/* A key and its value, both UTF-8. */
struct weir_metadata {
    const char *key;
    const char *value;
};

/* ---- writing */

struct weir_tensor {
    const char *name; /* UTF-8 */
    const uint64_t *shape;
    size_t dimensions; /* 0 for a scalar */
    const float *values;
};

/* Writes fp32 tensors in the order given, straight from where they lie, to a file that appears whole or not at all
 * (storage_file.h). Names must differ, and keys. The header is padded with spaces to a multiple of 8 bytes, so that a
 * reader may map the data. */
bool weir_safetensors_write(const char *path, const struct weir_tensor *tensors, size_t tensor_count,
                            const struct weir_metadata *metadata, size_t metadata_count, struct weir_error *err);

/* ---- writing what is never in memory at once, to a file that is never written over */

struct weir_tensor_kind {
    const char *name;  /* UTF-8 */
    const char *dtype; /* "F32", "U64", ...: any that the format has */
    const uint64_t *shape;
    size_t dimensions;
};

struct weir_safetensors_writer;

/* Begins a file of these tensors; nothing is kept of the arguments. NULL with `err` set as for weir_safetensors_write.
 */
struct weir_safetensors_writer *weir_safetensors_begin(const char *path, const struct weir_tensor_kind *tensors,
                                                       size_t tensor_count, const struct weir_metadata *metadata,
                                                       size_t metadata_count, struct weir_error *err);

/* The tensors' bytes, one behind the other, in any pieces; in all as many as their shapes say (asserted). After false
 * only weir_safetensors_abandon may follow. */
bool weir_safetensors_append(struct weir_safetensors_writer *writer, const void *bytes, size_t count,
                             struct weir_error *err);

/* Syncs the file and makes it appear, unless there is one (weir_file_commit_new); tells its length and its SHA-256
 * (WEIR_DIGEST_HEX characters). Frees the writer in any case. */
bool weir_safetensors_finish(struct weir_safetensors_writer *writer, uint64_t *file_bytes, char *sha256,
                             struct weir_error *err);

/* Removes what was written and frees the writer; NULL is allowed. */
void weir_safetensors_abandon(struct weir_safetensors_writer *writer);

/* ---- reading: the file is not trusted */

struct weir_safetensors; /* an open file */

struct weir_safetensors_entry {
    char *name;
    const char *dtype; /* "F32" */
    uint64_t shape[WEIR_TENSOR_DIMENSIONS_MAX];
    size_t dimensions;
    uint64_t elements;
    uint64_t first, bytes; /* in the data, which begins behind the header */
};

/* Reads and checks the header; NULL with `err` set if the file breaks the format in any way: beside bad JSON, names or
 * keys that occur twice, unknown dtypes, sizes that differ from the shape's, overlaps, gaps, missing or extra bytes.
 * Memory is bounded by a small multiple of the header's limit. */
struct weir_safetensors *weir_safetensors_open(const char *path, struct weir_error *err);
void weir_safetensors_close(struct weir_safetensors *file);

/* The tensors, in the order of their data. */
size_t weir_safetensors_count(const struct weir_safetensors *file);
const struct weir_safetensors_entry *weir_safetensors_entry(const struct weir_safetensors *file, size_t i);
/* By name; NULL if there is none. */
const struct weir_safetensors_entry *weir_safetensors_find(const struct weir_safetensors *file, const char *name);
/* The value of a key of the metadata; NULL if there is none. */
const char *weir_safetensors_metadata(const struct weir_safetensors *file, const char *key);

/* Of the whole file, and of an entry's first byte in it. */
uint64_t weir_safetensors_bytes(const struct weir_safetensors *file);
uint64_t weir_safetensors_offset(const struct weir_safetensors *file, const struct weir_safetensors_entry *entry);

/* Reads an entry of dtype F32 whose shape is `shape`; anything else is an error that says both shapes. */
bool weir_safetensors_read(struct weir_safetensors *file, const struct weir_safetensors_entry *entry,
                           const uint64_t *shape, size_t dimensions, float *values, struct weir_error *err);

#endif
