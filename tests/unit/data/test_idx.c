#include "data/idx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/random.h"
#include "temp_files.h"

#define ROOM 4096

static struct temp_files files;

static int begin(void **state)
{
    (void)state;
    temp_files_begin(&files);
    return 0;
}

static int end(void **state)
{
    (void)state;
    temp_files_end(&files);
    return 0;
}

/* The error names the file, says `what`, and leaves nothing behind. */
static void assert_refused(const char *path, const char *what)
{
    struct weir_idx idx;
    struct weir_error err = {"-"};
    assert_false(weir_idx_read(&idx, path, &err));
    assert_null(idx.bytes);
    if (!strstr(err.text, path) || !strstr(err.text, what))
        fail_msg("\"%s\" should name %s and say \"%s\"", err.text, path, what);
}

/* 3 x 2 x 2 bytes, 0 to 11, and what is asked for behind them. */
static size_t small_file(unsigned char *out, size_t extra)
{
    size_t at = idx_header(out, WEIR_IDX_U8, 3, (uint32_t[]){3, 2, 2});
    for (size_t i = 0; i < 12 + extra; i++)
        out[at + i] = (unsigned char)i;
    return at + 12 + extra;
}

static void assert_is_the_small_file(const char *path)
{
    struct weir_idx idx;
    struct weir_error err = {""};
    if (!weir_idx_read(&idx, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(idx.type, WEIR_IDX_U8);
    assert_int_equal(idx.dims, 3);
    assert_int_equal(idx.dim[0], 3);
    assert_int_equal(idx.dim[1], 2);
    assert_int_equal(idx.dim[2], 2);
    assert_int_equal(idx.elements, 12);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(idx.bytes[i], i);
    weir_idx_free(&idx);
}

static void plain_and_gzip_are_told_apart_by_content(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    size_t count = small_file(bytes, 0);
    assert_is_the_small_file(temp_files_write(&files, "plain.gz", bytes, count));
    assert_is_the_small_file(temp_files_gzip(&files, "zipped", bytes, count));
}

static void every_type_comes_in_host_order(void **state)
{
    (void)state;
    static const struct {
        enum weir_idx_type type;
        size_t bytes;
        unsigned char first[8];
        double value;
    } cases[] = {
        {WEIR_IDX_U8, 1, {200}, 200},
        {WEIR_IDX_I8, 1, {0x80}, -128},
        {WEIR_IDX_I16, 2, {0xff, 0xfe}, -2},
        {WEIR_IDX_I32, 4, {0x01, 0x02, 0x03, 0x04}, 16909060},
        {WEIR_IDX_F32, 4, {0xbf, 0xc0, 0, 0}, -1.5},
        {WEIR_IDX_F64, 8, {0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a}, 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char bytes[ROOM];
        size_t at = idx_header(bytes, cases[i].type, 1, (uint32_t[]){1});
        memcpy(bytes + at, cases[i].first, 8);
        struct weir_idx idx;
        struct weir_error err;
        assert_true(weir_idx_read(&idx, temp_files_write(&files, "typed", bytes, at + cases[i].bytes), &err));
        const void *p = idx.bytes;
        double value = idx.type == WEIR_IDX_U8    ? *(const uint8_t *)p
                       : idx.type == WEIR_IDX_I8  ? *(const int8_t *)p
                       : idx.type == WEIR_IDX_I16 ? *(const int16_t *)p
                       : idx.type == WEIR_IDX_I32 ? *(const int32_t *)p
                       : idx.type == WEIR_IDX_F32 ? (double)*(const float *)p
                                                  : *(const double *)p;
        assert_true(value == cases[i].value);
        assert_int_equal(idx.element_bytes, cases[i].bytes);
        weir_idx_free(&idx);
    }
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[ROOM], zipped[ROOM];
    size_t count = small_file(bytes, 0);
    for (size_t cut = 1; cut < count; cut++) {
        assert_refused(temp_files_write(&files, "cut", bytes, cut), "");
        assert_refused(temp_files_gzip(&files, "cut-zipped", bytes, cut), "");
    }
    FILE *file = fopen(temp_files_gzip(&files, "whole", bytes, count), "rb");
    size_t zipped_count = fread(zipped, 1, sizeof zipped, file);
    fclose(file);
    for (size_t cut = 1; cut < zipped_count; cut++)
        assert_refused(temp_files_write(&files, "torn", zipped, cut), "");
    assert_refused(temp_files_write(&files, "torn", zipped, zipped_count - 1), "ends too early");
    assert_refused(temp_files_write(&files, "cut", bytes, count - 1),
                   "is cut off: 3x2x2 u8 are 12 bytes, the file has 11");
}

/* A few bits of the padding between deflate's end and the checksum mean nothing: then the array is the right one. */
static void a_flipped_bit_of_gzip_data_is_noticed_or_harmless(void **state)
{
    (void)state;
    unsigned char bytes[ROOM], zipped[ROOM];
    size_t count = small_file(bytes, 0), harmless = 0;
    FILE *file = fopen(temp_files_gzip(&files, "whole", bytes, count), "rb");
    size_t zipped_count = fread(zipped, 1, sizeof zipped, file);
    fclose(file);
    for (size_t bit = 8 * 10; bit < 8 * zipped_count; bit++) { /* after gzip's header */
        zipped[bit / 8] ^= (unsigned char)(1u << bit % 8);
        struct weir_idx idx;
        struct weir_error err;
        if (weir_idx_read(&idx, temp_files_write(&files, "flipped", zipped, zipped_count), &err)) {
            harmless++;
            weir_idx_free(&idx);
            assert_is_the_small_file(files.path);
        }
        zipped[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(harmless < 8);
}

static void trailing_bytes_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    size_t count = small_file(bytes, 1);
    assert_refused(temp_files_write(&files, "long", bytes, count), "has 1 bytes after the declared 3x2x2 u8");
    assert_refused(temp_files_gzip(&files, "long-zipped", bytes, count), "goes on after the declared 3x2x2 u8");
}

static void a_header_that_is_not_idx_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[ROOM] = "PK\3\4 and so on";
    assert_refused(temp_files_write(&files, "zip", bytes, 100), "starts with 50 4b 03 04");
    idx_header(bytes, 0x0A, 1, (uint32_t[]){1});
    assert_refused(temp_files_write(&files, "type", bytes, 9), "element type 0x0a");
    idx_header(bytes, WEIR_IDX_U8, 0, NULL);
    assert_refused(temp_files_write(&files, "scalar", bytes, 5), "has 0 dimensions");
    idx_header(bytes, WEIR_IDX_U8, 6, (uint32_t[]){1, 1, 1, 1, 1, 1});
    assert_refused(temp_files_write(&files, "deep", bytes, 29), "has 6 dimensions");
    idx_header(bytes, WEIR_IDX_U8, 2, (uint32_t[]){5, 0});
    assert_refused(temp_files_write(&files, "none", bytes, 12), "dimension 1 is 0");
}

static void dimensions_that_overflow_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    size_t at = idx_header(bytes, WEIR_IDX_F64, 3, (uint32_t[]){1u << 31, 1u << 31, 1u << 31});
    assert_refused(temp_files_write(&files, "huge", bytes, at), "more than 2^64 bytes");
    /* 2^64 exactly: the product itself would be 0 */
    at = idx_header(bytes, WEIR_IDX_F64, 3, (uint32_t[]){1u << 31, 1u << 30, 1});
    assert_refused(temp_files_write(&files, "wraps", bytes, at), "more than 2^64 bytes");
}

/* The memory of the process stays below what the smallest of these files declares. */
static void liars_cost_no_memory(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    const uint32_t dim[] = {1u << 20, 1u << 12}; /* 4 GiB */
    size_t at = idx_header(bytes, WEIR_IDX_U8, 2, dim);
    assert_refused(temp_files_write(&files, "liar", bytes, at + 10), "is cut off");
    assert_refused(temp_files_gzip(&files, "liar-zipped", bytes, at + 10), "gzip can't hold");
    at = idx_header(bytes, WEIR_IDX_F64, 3, (uint32_t[]){1u << 20, 1u << 20, 1u << 20});
    assert_refused(temp_files_gzip(&files, "dreamer", bytes, at + 10), "gzip can't hold");
    at = idx_header(bytes, WEIR_IDX_U8, 2, (uint32_t[]){1u << 31, 1u << 11}); /* 4 TiB, all holes */
    temp_files_write(&files, "holes", bytes, at);
    assert_int_equal(truncate(files.path, (off_t)(at + (UINT64_C(1) << 42))), 0);
    assert_refused(files.path, "more than this machine's memory");
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    assert_true(usage.ru_maxrss < 1 << 20); /* KiB */
}

/* 64 MiB of zeros in 64 KiB of gzip, behind a header that declares 1000 bytes. */
static void a_bomb_is_stopped_after_what_it_declares(void **state)
{
    (void)state;
    enum { BOMB = 64 << 20 };
    unsigned char *bytes = calloc(BOMB, 1);
    idx_header(bytes, WEIR_IDX_U8, 1, (uint32_t[]){1000});
    temp_files_gzip(&files, "bomb", bytes, BOMB);
    free(bytes);
    assert_refused(files.path, "goes on after the declared 1000 u8");
}

/* Whatever the bytes: an array that fits its header, or an error that names the file. */
static void any_bytes_are_read_or_refused(void **state)
{
    (void)state;
    struct weir_random_key key = weir_random_key(1, WEIR_RANDOM_TEST, 0, 0);
    unsigned read = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        unsigned char bytes[ROOM];
        uint32_t word[4];
        size_t count = small_file(bytes, round % 5 == 0);
        weir_random_block(key, round, 0, word);
        for (uint32_t i = 0; i < 1 + word[0] % 3; i++) /* spoils up to three bytes, of the header mostly */
            bytes[word[i + 1] % (round % 2 ? 16 : count)] = (unsigned char)(word[i + 1] >> (i % 2 ? 24 : 29));
        const char *path = round % 3 ? temp_files_write(&files, "spoiled", bytes, count)
                                     : temp_files_gzip(&files, "spoiled-zipped", bytes, count);
        struct weir_idx idx;
        struct weir_error err = {"-"};
        if (weir_idx_read(&idx, path, &err)) {
            read++;
            assert_int_equal(4 + 4 * idx.dims + idx.elements * idx.element_bytes, count);
            weir_idx_free(&idx);
        } else {
            assert_memory_equal(err.text, path, strlen(path));
        }
    }
    assert_true(read > 100 && read < 2900);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    char path[128];
    assert_refused(temp_files_write(&files, "empty", "", 0), "is empty");
    assert_refused(files.folder, "it is a folder");
    snprintf(path, sizeof path, "%s/absent", files.folder);
    assert_refused(path, "No such file");
    snprintf(path, sizeof path, "%s/fifo", files.folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, "it is no regular file");
    assert_refused("/dev/zero", "it is no regular file");
    assert_refused(temp_files_gzip(&files, "nothing", "", 0), "too short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_gzip_are_told_apart_by_content),
        cmocka_unit_test(every_type_comes_in_host_order),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(a_flipped_bit_of_gzip_data_is_noticed_or_harmless),
        cmocka_unit_test(trailing_bytes_are_refused),
        cmocka_unit_test(a_header_that_is_not_idx_is_refused),
        cmocka_unit_test(dimensions_that_overflow_are_refused),
        cmocka_unit_test(liars_cost_no_memory),
        cmocka_unit_test(a_bomb_is_stopped_after_what_it_declares),
        cmocka_unit_test(any_bytes_are_read_or_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
