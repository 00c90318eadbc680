#include "storage/safetensors.h"

#include <assert.h>
#include <stdlib.h>

#include "base/digest.h"
#include "base/memory.h"
#include "storage/safetensors_header.h"
#include "storage/storage_file.h"

/* ---- all at once */

bool weir_safetensors_write(const char *path, const struct weir_tensor *tensors, size_t tensor_count,
                            const struct weir_metadata *metadata, size_t metadata_count, struct weir_error *err)
{
    struct weir_tensor_kind *kinds = weir_alloc(tensor_count + 1, sizeof *kinds, "a file's parts");
    for (size_t i = 0; i < tensor_count; i++)
        kinds[i] = (struct weir_tensor_kind){tensors[i].name, "F32", tensors[i].shape, tensors[i].dimensions};
    struct weir_slice *slices = weir_alloc(tensor_count + 1, sizeof *slices, "a file's parts");
    for (size_t i = 0; i < tensor_count; i++)
        slices[i + 1] = (struct weir_slice){tensors[i].values, weir_safetensors_kind_bytes(&kinds[i])};
    struct weir_text head;
    bool done = weir_safetensors_head_make(&head, path, kinds, tensor_count, metadata, metadata_count, err);
    slices[0] = (struct weir_slice){head.bytes, head.length};
    done = done && weir_file_save(path, slices, tensor_count + 1, err);
    free(head.bytes);
    free(slices);
    free(kinds);
    return done;
}

/* ---- piece by piece */

struct weir_safetensors_writer {
    struct weir_file *file;
    struct weir_digest *digest;
    uint64_t at, end; /* bytes of the file */
};

static bool append(struct weir_safetensors_writer *writer, const void *bytes, size_t count, struct weir_error *err)
{
    weir_digest_add(writer->digest, bytes, count);
    writer->at += count;
    return weir_file_append(writer->file, bytes, count, err);
}

static struct weir_safetensors_writer *begin(const char *path, const struct weir_text *head, uint64_t data_bytes,
                                             struct weir_error *err)
{
    struct weir_file *file = weir_file_create(path, err);
    if (!file)
        return NULL;
    struct weir_safetensors_writer *writer = weir_alloc(1, sizeof *writer, "a file being written");
    writer->file = file;
    writer->digest = weir_digest_new();
    writer->end = head->length + data_bytes;
    if (append(writer, head->bytes, head->length, err))
        return writer;
    weir_safetensors_abandon(writer);
    return NULL;
}

struct weir_safetensors_writer *weir_safetensors_begin(const char *path, const struct weir_tensor_kind *tensors,
                                                       size_t tensor_count, const struct weir_metadata *metadata,
                                                       size_t metadata_count, struct weir_error *err)
{
    struct weir_safetensors_writer *writer = NULL;
    struct weir_text head;
    uint64_t data_bytes = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        assert(weir_safetensors_dtype_bytes(tensors[i].dtype) > 0);
        data_bytes += weir_safetensors_kind_bytes(&tensors[i]);
    }
    if (weir_safetensors_head_make(&head, path, tensors, tensor_count, metadata, metadata_count, err))
        writer = begin(path, &head, data_bytes, err);
    free(head.bytes);
    return writer;
}

bool weir_safetensors_append(struct weir_safetensors_writer *writer, const void *bytes, size_t count,
                             struct weir_error *err)
{
    assert(count <= writer->end - writer->at);
    return append(writer, bytes, count, err);
}

static void release(struct weir_safetensors_writer *writer, char sha256[WEIR_DIGEST_HEX])
{
    weir_digest_end(writer->digest, sha256);
    free(writer);
}

bool weir_safetensors_finish(struct weir_safetensors_writer *writer, uint64_t *file_bytes, char *sha256,
                             struct weir_error *err)
{
    assert(writer->at == writer->end);
    bool done = weir_file_commit_new(writer->file, err);
    *file_bytes = writer->end;
    release(writer, sha256);
    return done;
}

void weir_safetensors_abandon(struct weir_safetensors_writer *writer)
{
    if (!writer)
        return;
    char unused[WEIR_DIGEST_HEX];
    weir_file_abandon(writer->file);
    release(writer, unused);
}
