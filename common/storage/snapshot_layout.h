/* What a part and its manifest say of the same thing: chunks, tensors, keys. Private to the library. */
#ifndef WEIR_STORAGE_SNAPSHOT_LAYOUT_H
#define WEIR_STORAGE_SNAPSHOT_LAYOUT_H

#include "storage/snapshot.h"

#define WEIR_SNAPSHOT_PART_FORMAT "weir-snapshot-part-1" /* the metadata's "format" */
#define WEIR_SNAPSHOT_ROWS_OF "chunk/"                   /* tensor "chunk/17": F32, rows x elements */
#define WEIR_SNAPSHOT_CLOCKS_OF "clocks/"                /* tensor "clocks/17": U64, by replica */
#define WEIR_SNAPSHOT_TENSOR_BYTES 24
#define WEIR_SNAPSHOT_DIMS_MAX 16 /* of a variable */

void weir_snapshot_tensor_name(char name[WEIR_SNAPSHOT_TENSOR_BYTES], const char *mark, uint32_t chunk);
/* The chunk whose tensor with that mark this is; false if it is none. */
bool weir_snapshot_tensor_parse(const char *name, const char *mark, uint32_t *chunk);

/* The number of chunks, and the elements of one of them. */
uint64_t weir_snapshot_chunks(const struct weir_snapshot_layout *layout);
uint64_t weir_snapshot_elements(const struct weir_snapshot_layout *layout, uint64_t chunk);

/* Whether elements lie at the same places, whatever the chunks; else `difference` says where they do not. */
bool weir_snapshot_layout_equal(const struct weir_snapshot_layout *here, const struct weir_snapshot_layout *there,
                                struct weir_error *difference);

#endif
