/* The header of a safetensors file, parsed and checked. Pure; private to the library. */
#ifndef WEIR_STORAGE_SAFETENSORS_HEADER_H
#define WEIR_STORAGE_SAFETENSORS_HEADER_H

#include "storage/safetensors.h"

struct weir_safetensors_header {
    struct weir_safetensors_entry *entries; /* in the order of their data */
    size_t entry_count, entry_capacity;
    const struct weir_safetensors_entry **by_name;
    struct weir_metadata *metadata; /* by key; each text is owned */
    size_t metadata_count, metadata_capacity;
};

/* `data_bytes` follow the header in the file. After false, too, weir_safetensors_header_free is needed. The error does
 * not name the file. */
bool weir_safetensors_header_parse(struct weir_safetensors_header *header, const char *text, size_t count,
                                   uint64_t data_bytes, struct weir_error *err);
void weir_safetensors_header_free(struct weir_safetensors_header *header);

#endif
