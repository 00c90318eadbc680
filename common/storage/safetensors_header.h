/* The header of a safetensors file: made, parsed and checked. Pure; private to the library. */
#ifndef WEIR_STORAGE_SAFETENSORS_HEADER_H
#define WEIR_STORAGE_SAFETENSORS_HEADER_H

#include "base/text.h"
#include "storage/safetensors.h"

#define WEIR_SAFETENSORS_LENGTH_BYTES 8 /* in front of the header */

/* ---- making one */

/* The file's bytes before the data: the header's length, and the header. `path` names the file in errors: a name that
 * stands there twice, or a header over the limit. The caller frees head->bytes, also after false. */
bool weir_safetensors_head_make(struct weir_text *head, const char *path, const struct weir_tensor_kind *tensors,
                                size_t tensor_count, const struct weir_metadata *metadata, size_t metadata_count,
                                struct weir_error *err);
uint64_t weir_safetensors_kind_bytes(const struct weir_tensor_kind *tensor);

/* ---- parsing one */

struct weir_safetensors_header {
    struct weir_safetensors_entry *entries; /* in the order of their data */
    size_t entry_count, entry_capacity;
    const struct weir_safetensors_entry **by_name;
    struct weir_metadata *metadata; /* by key; each text is owned */
    size_t metadata_count, metadata_capacity;
};

/* Of one element; 0 if the format has no such dtype. */
uint64_t weir_safetensors_dtype_bytes(const char *dtype);

/* `data_bytes` follow the header in the file. After false, too, weir_safetensors_header_free is needed. The error does
 * not name the file. */
bool weir_safetensors_header_parse(struct weir_safetensors_header *header, const char *text, size_t count,
                                   uint64_t data_bytes, struct weir_error *err);
void weir_safetensors_header_free(struct weir_safetensors_header *header);

#endif
