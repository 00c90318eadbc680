#include "data/idx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/memory.h"

#define MAGIC_BYTES 4
#define READ_BYTES ((uint64_t)64 << 20) /* of one gzread, whose count is an int */
#define INFLATE_BUFFER_BYTES (128u << 10)
#define DEFLATE_RATIO_MAX UINT64_C(1032) /* no deflate stream grows more (zlib's technical page) */

struct type_row {
    enum weir_idx_type type;
    size_t bytes;
    const char *name;
};

static const struct type_row types[] = {
    {WEIR_IDX_U8, 1, "u8"},   {WEIR_IDX_I8, 1, "i8"},   {WEIR_IDX_I16, 2, "i16"},
    {WEIR_IDX_I32, 4, "i32"}, {WEIR_IDX_F32, 4, "f32"}, {WEIR_IDX_F64, 8, "f64"},
};

static const struct type_row *find_type(unsigned code)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == code)
            return &types[i];
    return NULL;
}

const char *weir_idx_type_name(enum weir_idx_type type)
{
    const struct type_row *row = find_type(type);
    return row ? row->name : "?";
}

/* ---- the file */

struct reader {
    gzFile gz;
    uint64_t file_bytes; /* on disk: compressed, if it is gzip */
    const char *path;
};

static bool open_reader(struct reader *reader, const char *path, struct weir_error *err)
{
    *reader = (struct reader){.path = path};
    const char *why;
    int fd = weir_file_open(path, &reader->file_bytes, &why);
    if (fd < 0)
        return weir_error_set(err, "%s: can't be opened: %s; correct the path in the job, or give --data DIR", path,
                              why);
    if (reader->file_bytes == 0) {
        close(fd);
        return weir_error_set(err, "%s: is empty; fetch it again", path);
    }
    reader->gz = gzdopen(fd, "rb");
    if (!reader->gz) {
        close(fd);
        return weir_error_set(err, "%s: no memory to read it", path);
    }
    gzbuffer(reader->gz, INFLATE_BUFFER_BYTES);
    return true;
}

/* Reads up to `count` bytes: fewer only at the end of the file. False if the file can't be read or is damaged. */
static bool read_up_to(struct reader *reader, void *bytes, uint64_t count, uint64_t *got, struct weir_error *err)
{
    *got = 0;
    while (*got < count) {
        uint64_t ask = count - *got < READ_BYTES ? count - *got : READ_BYTES;
        int n = gzread(reader->gz, (unsigned char *)bytes + *got, (unsigned)ask);
        if (n <= 0)
            break; /* gzerror tells the end of the file from the rest */
        *got += (uint64_t)n;
    }
    int code = Z_OK;
    const char *text = gzerror(reader->gz, &code);
    if (code == Z_BUF_ERROR)
        return weir_error_set(err, "%s: the gzip data ends too early; fetch the file again", reader->path);
    if (code == Z_ERRNO)
        return weir_error_set(err, "%s: can't be read: %s", reader->path, strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END)
        return weir_error_set(err, "%s: the gzip data is damaged (%s); fetch the file again", reader->path, text);
    return true;
}

/* ---- the header */

static uint32_t big_endian_32(const unsigned char bytes[4])
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool parse_magic(struct weir_idx *idx, const unsigned char magic[MAGIC_BYTES], const char *path,
                        struct weir_error *err)
{
    if (magic[0] != 0 || magic[1] != 0)
        return weir_error_set(err, "%s: is not an IDX file: it starts with %02x %02x %02x %02x, IDX with 00 00", path,
                              magic[0], magic[1], magic[2], magic[3]);
    const struct type_row *row = find_type(magic[2]);
    if (!row)
        return weir_error_set(err,
                              "%s: is not an IDX file: element type 0x%02x is none of 08 (u8), 09 (i8), 0b (i16), 0c "
                              "(i32), 0d (f32), 0e (f64)",
                              path, magic[2]);
    if (magic[3] == 0 || magic[3] > WEIR_IDX_DIMS_MAX)
        return weir_error_set(err, "%s: has %u dimensions; an IDX file needs 1 to %d", path, magic[3],
                              WEIR_IDX_DIMS_MAX);
    idx->type = row->type;
    idx->element_bytes = row->bytes;
    idx->dims = magic[3];
    return true;
}

static bool count_elements(struct weir_idx *idx, const char *path, struct weir_error *err)
{
    uint64_t bytes = idx->element_bytes;
    for (size_t i = 0; i < idx->dims; i++) {
        if (idx->dim[i] == 0)
            return weir_error_set(err, "%s: dimension %zu is 0: there are no samples in it", path, i);
        if (__builtin_mul_overflow(bytes, (uint64_t)idx->dim[i], &bytes))
            return weir_error_set(err, "%s: its dimensions multiply to more than 2^64 bytes: the header is wrong",
                                  path);
    }
    idx->elements = bytes / idx->element_bytes;
    return true;
}

static bool read_header(struct reader *reader, struct weir_idx *idx, uint64_t *header_bytes, struct weir_error *err)
{
    unsigned char bytes[MAGIC_BYTES + 4 * WEIR_IDX_DIMS_MAX];
    uint64_t got;
    if (!read_up_to(reader, bytes, MAGIC_BYTES, &got, err))
        return false;
    if (got < MAGIC_BYTES)
        return weir_error_set(err, "%s: %llu bytes are too short for an IDX header", reader->path,
                              (unsigned long long)got);
    if (!parse_magic(idx, bytes, reader->path, err))
        return false;
    *header_bytes = MAGIC_BYTES + 4 * idx->dims;
    if (!read_up_to(reader, bytes + MAGIC_BYTES, 4 * idx->dims, &got, err))
        return false;
    if (got < 4 * idx->dims)
        return weir_error_set(err, "%s: ends within the IDX header", reader->path);
    for (size_t i = 0; i < idx->dims; i++)
        idx->dim[i] = big_endian_32(bytes + MAGIC_BYTES + 4 * i);
    return count_elements(idx, reader->path, err);
}

/* ---- the elements */

/* "60000x28x28 u8" */
static const char *describe(const struct weir_idx *idx, char text[96])
{
    size_t used = 0;
    for (size_t i = 0; i < idx->dims; i++)
        used += (size_t)snprintf(text + used, 96 - used, "%s%u", i ? "x" : "", idx->dim[i]);
    snprintf(text + used, 96 - used, " %s", weir_idx_type_name(idx->type));
    return text;
}

/* Could the file hold what its header declares? For a plain file this is exact; for gzip, as far as one can know. */
static bool check_size(const struct reader *reader, const struct weir_idx *idx, uint64_t header_bytes,
                       struct weir_error *err)
{
    char shape[96];
    uint64_t payload = idx->elements * idx->element_bytes;
    unsigned long long declared = payload, has = reader->file_bytes - header_bytes;
    if (gzdirect(reader->gz) && has < declared)
        return weir_error_set(err, "%s: is cut off: %s are %llu bytes, the file has %llu; fetch it again", reader->path,
                              describe(idx, shape), declared, has);
    if (gzdirect(reader->gz) && has > declared)
        return weir_error_set(err, "%s: has %llu bytes after the declared %s: the header is wrong", reader->path,
                              has - declared, describe(idx, shape));
    if (payload / DEFLATE_RATIO_MAX > reader->file_bytes)
        return weir_error_set(err, "%s: declares %s, which %llu bytes of gzip can't hold: it is cut off or damaged",
                              reader->path, describe(idx, shape), (unsigned long long)reader->file_bytes);
    uint64_t machine_bytes = weir_memory_of_machine();
    if (payload >= machine_bytes)
        return weir_error_set(err, "%s: declares %s: %llu bytes, more than this machine's memory (%llu)", reader->path,
                              describe(idx, shape), declared, (unsigned long long)machine_bytes);
    return true;
}

static void to_host_order(struct weir_idx *idx)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    void *at = idx->bytes;
    for (uint64_t i = 0; idx->element_bytes == 2 && i < idx->elements; i++)
        ((uint16_t *)at)[i] = __builtin_bswap16(((uint16_t *)at)[i]);
    for (uint64_t i = 0; idx->element_bytes == 4 && i < idx->elements; i++)
        ((uint32_t *)at)[i] = __builtin_bswap32(((uint32_t *)at)[i]);
    for (uint64_t i = 0; idx->element_bytes == 8 && i < idx->elements; i++)
        ((uint64_t *)at)[i] = __builtin_bswap64(((uint64_t *)at)[i]);
#else
    (void)idx;
#endif
}

static bool read_elements(struct reader *reader, struct weir_idx *idx, struct weir_error *err)
{
    char shape[96];
    unsigned char more;
    uint64_t got, payload = idx->elements * idx->element_bytes;
    idx->bytes = malloc(payload); /* not touched before it is read: a liar costs no memory */
    if (!idx->bytes)
        return weir_error_set(err, "%s: no memory for its %llu bytes", reader->path, (unsigned long long)payload);
    if (!read_up_to(reader, idx->bytes, payload, &got, err))
        return false;
    if (got < payload)
        return weir_error_set(err, "%s: is cut off: %s are %llu bytes, the file has %llu; fetch it again", reader->path,
                              describe(idx, shape), (unsigned long long)payload, (unsigned long long)got);
    if (!read_up_to(reader, &more, 1, &got, err)) /* also makes zlib compare the checksum */
        return false;
    if (got != 0)
        return weir_error_set(err, "%s: goes on after the declared %s: the header is wrong", reader->path,
                              describe(idx, shape));
    to_host_order(idx);
    return true;
}

bool weir_idx_read(struct weir_idx *idx, const char *path, struct weir_error *err)
{
    struct reader reader;
    uint64_t header_bytes = 0;
    *idx = (struct weir_idx){0};
    if (!open_reader(&reader, path, err))
        return false;
    bool ok = read_header(&reader, idx, &header_bytes, err) && check_size(&reader, idx, header_bytes, err) &&
              read_elements(&reader, idx, err);
    gzclose_r(reader.gz);
    if (!ok)
        weir_idx_free(idx);
    return ok;
}

void weir_idx_free(struct weir_idx *idx)
{
    free(idx->bytes);
    *idx = (struct weir_idx){0};
}
