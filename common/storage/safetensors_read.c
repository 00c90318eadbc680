#include "storage/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "storage/safetensors_header.h"
#include "storage/storage_file.h"

#define LENGTH_BYTES WEIR_SAFETENSORS_LENGTH_BYTES

struct weir_safetensors {
    char *path;
    int fd;
    uint64_t data_first, bytes;
    struct weir_safetensors_header header;
};

static bool read_at(struct weir_safetensors *file, uint64_t at, void *bytes, size_t count, struct weir_error *err)
{
    return weir_file_read_at(file->fd, file->path, at, bytes, count, err);
}

static bool read_header(struct weir_safetensors *file, struct weir_error *err)
{
    uint64_t file_bytes = 0, count = 0;
    unsigned char length[LENGTH_BYTES];
    const char *why;
    file->fd = weir_file_open(file->path, &file_bytes, &why);
    if (file->fd < 0)
        return weir_error_set(err, "cannot read %s: %s; check the path and who may read it", file->path, why);
    if (!read_at(file, 0, length, sizeof length, err))
        return false;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        count |= (uint64_t)length[i] << 8 * i;
    if (count > WEIR_SAFETENSORS_HEADER_BYTES_MAX)
        return weir_error_set(err,
                              "%s is no safetensors file: its header would have %" PRIu64 " bytes, and may have %zu",
                              file->path, count, WEIR_SAFETENSORS_HEADER_BYTES_MAX);
    if (count > file_bytes - LENGTH_BYTES)
        return weir_error_set(err,
                              "%s is cut short, or no safetensors file: its header ends behind its end; write it "
                              "again",
                              file->path);
    file->data_first = LENGTH_BYTES + count;
    file->bytes = file_bytes;
    char *text = weir_alloc(count, 1, "a file's header");
    bool done = read_at(file, LENGTH_BYTES, text, count, err);
    if (done) {
        done = weir_safetensors_header_parse(&file->header, text, count, file_bytes - file->data_first, err);
        if (!done)
            weir_error_wrap(err, "%s is damaged, or no safetensors file", file->path);
    }
    free(text);
    return done;
}

struct weir_safetensors *weir_safetensors_open(const char *path, struct weir_error *err)
{
    struct weir_safetensors *file = weir_alloc(1, sizeof *file, "an open safetensors file");
    file->path = weir_strdup(path);
    file->fd = -1;
    if (read_header(file, err))
        return file;
    weir_safetensors_close(file);
    return NULL;
}

void weir_safetensors_close(struct weir_safetensors *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    weir_safetensors_header_free(&file->header);
    free(file->path);
    free(file);
}

size_t weir_safetensors_count(const struct weir_safetensors *file)
{
    return file->header.entry_count;
}

const struct weir_safetensors_entry *weir_safetensors_entry(const struct weir_safetensors *file, size_t i)
{
    return i < file->header.entry_count ? &file->header.entries[i] : NULL;
}

static int name_to_entry(const void *name, const void *entry)
{
    return strcmp(name, (*(const struct weir_safetensors_entry *const *)entry)->name);
}

const struct weir_safetensors_entry *weir_safetensors_find(const struct weir_safetensors *file, const char *name)
{
    const struct weir_safetensors_header *header = &file->header;
    const struct weir_safetensors_entry *const *found =
        bsearch(name, header->by_name, header->entry_count, sizeof *header->by_name, name_to_entry);
    return found ? *found : NULL;
}

const char *weir_safetensors_metadata(const struct weir_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->header.metadata_count; i++)
        if (strcmp(file->header.metadata[i].key, key) == 0)
            return file->header.metadata[i].value;
    return NULL;
}

uint64_t weir_safetensors_bytes(const struct weir_safetensors *file)
{
    return file->bytes;
}

uint64_t weir_safetensors_offset(const struct weir_safetensors *file, const struct weir_safetensors_entry *entry)
{
    return file->data_first + entry->first;
}

#define SHAPE_TEXT 256

static const char *print_shape(char text[SHAPE_TEXT], const uint64_t *shape, size_t dimensions)
{
    size_t at = (size_t)snprintf(text, SHAPE_TEXT, "(");
    for (size_t d = 0; d < dimensions && at < SHAPE_TEXT - 32; d++)
        at += (size_t)snprintf(text + at, SHAPE_TEXT - at, "%s%" PRIu64, d ? ", " : "", shape[d]);
    snprintf(text + at, SHAPE_TEXT - at, dimensions == 1 ? ",)" : ")");
    return text;
}

bool weir_safetensors_read(struct weir_safetensors *file, const struct weir_safetensors_entry *entry,
                           const uint64_t *shape, size_t dimensions, float *values, struct weir_error *err)
{
    char here[SHAPE_TEXT], there[SHAPE_TEXT];
    bool equal = dimensions == entry->dimensions && strcmp(entry->dtype, "F32") == 0;
    for (size_t d = 0; equal && d < dimensions; d++)
        equal = shape[d] == entry->shape[d];
    if (!equal)
        return weir_error_set(err,
                              "%s: \"%s\" is %s %s, but F32 %s is needed; take a file that was written for this "
                              "model",
                              file->path, entry->name, entry->dtype,
                              print_shape(there, entry->shape, entry->dimensions),
                              print_shape(here, shape, dimensions));
    return read_at(file, file->data_first + entry->first, values, entry->bytes, err);
}
