#include "folder.h"

#include "base/random.h"
#include "storage/safetensors.h"

static const uint64_t kernel_shape[] = {2, 3}, bias_shape[] = {3}, empty_shape[] = {0, 7};
static const float kernel[] = {1, -2, 3.5f, -0.0f, 1e-40f, 3e38f}, bias[] = {7, 8, 9}, scalar = 42;
static const struct weir_tensor tensors[] = {
    {"dense/kernel", kernel_shape, 2, kernel},
    {"nothing", empty_shape, 2, NULL},
    {"dense \"q\" \\ \xC3\xA9/bias", bias_shape, 1, bias},
    {"scalar", NULL, 0, &scalar},
};
static const struct weir_metadata metadata[] = {{"format", "weir"},
                                                {"a\nline", "\t\x01\"quoted\" \\ \xF0\x9F\x8C\x8A"}};

#define FILE_BYTES 4096

static size_t sample_file(unsigned char bytes[FILE_BYTES])
{
    char path[PATH_BYTES];
    struct weir_error err;
    assert_true(weir_safetensors_write(in_folder("sample", path), tensors, 4, metadata, 2, &err));
    return read_bytes(path, bytes, FILE_BYTES);
}

/* Opens a file of these bytes; NULL with the error if it is refused. */
static struct weir_safetensors *open_bytes(const void *bytes, size_t count, struct weir_error *err)
{
    char path[PATH_BYTES];
    write_bytes(in_folder("bytes", path), bytes, count);
    return weir_safetensors_open(path, err);
}

/* A file with this header and so many bytes of data. */
static struct weir_safetensors *open_header(const char *header, size_t data_bytes, struct weir_error *err)
{
    static unsigned char bytes[FILE_BYTES];
    size_t count = strlen(header);
    assert_true(8 + count + data_bytes <= sizeof bytes);
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (unsigned char)count, bytes[1] = (unsigned char)(count >> 8);
    memcpy(bytes + 8, header, count);
    return open_bytes(bytes, 8 + count + data_bytes, err);
}

static void what_is_written_is_read_bit_for_bit(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_true(weir_safetensors_write(in_folder("weights", path), tensors, 4, metadata, 2, &err));
    struct weir_safetensors *file = weir_safetensors_open(path, &err);
    assert_non_null(file);
    assert_int_equal(weir_safetensors_count(file), 4);
    for (size_t i = 0; i < 4; i++) {
        float values[6];
        const struct weir_safetensors_entry *entry = weir_safetensors_find(file, tensors[i].name);
        assert_non_null(entry);
        assert_string_equal(entry->dtype, "F32");
        assert_true(weir_safetensors_read(file, entry, tensors[i].shape, tensors[i].dimensions, values, &err));
        if (entry->bytes)
            assert_memory_equal(values, tensors[i].values, entry->bytes);
    }
    assert_string_equal(weir_safetensors_entry(file, 0)->name, "dense/kernel");
    assert_null(weir_safetensors_entry(file, 4));
    assert_null(weir_safetensors_find(file, "dense"));
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(weir_safetensors_metadata(file, metadata[i].key), metadata[i].value);
    assert_null(weir_safetensors_metadata(file, "other"));
    weir_safetensors_close(file);
}

/* Byte for byte what the format says, so that other programs can read it. */
static void the_file_is_what_the_format_says(void **state)
{
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                                 "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]}}";
    const struct weir_tensor two[] = {{"w", bias_shape, 1, bias}, {"s", NULL, 0, &scalar}};
    const struct weir_metadata format = {"format", "pt"};
    size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    unsigned char bytes[FILE_BYTES], expected[FILE_BYTES] = {0};
    char path[PATH_BYTES];
    struct weir_error err;
    expected[0] = (unsigned char)padded;
    memset(expected + 8, ' ', padded);
    memcpy(expected + 8, header, length);
    memcpy(expected + 8 + padded, bias, sizeof bias);
    memcpy(expected + 8 + padded + 12, &scalar, sizeof scalar);
    assert_true(padded < 256 && weir_safetensors_write(in_folder("two", path), two, 2, &format, 1, &err));
    assert_int_equal(read_bytes(path, bytes, sizeof bytes), 8 + padded + 16);
    assert_memory_equal(bytes, expected, 8 + padded + 16);
}

static void a_file_without_tensors_is_a_file(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_true(weir_safetensors_write(in_folder("none", path), NULL, 0, NULL, 0, &err));
    struct weir_safetensors *file = weir_safetensors_open(path, &err);
    assert_int_equal(weir_safetensors_count(file), 0);
    assert_null(weir_safetensors_find(file, "w"));
    weir_safetensors_close(file);
}

static void double_names_are_not_written(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    const struct weir_tensor twice[] = {tensors[0], tensors[3], tensors[0]};
    const struct weir_tensor reserved = {"__metadata__", NULL, 0, &scalar};
    const struct weir_metadata keys[] = {metadata[0], metadata[0]};
    in_folder("double", path);
    assert_false(weir_safetensors_write(path, twice, 3, NULL, 0, &err));
    assert_non_null(strstr(err.text, "dense/kernel"));
    assert_non_null(strstr(err.text, path));
    assert_false(weir_safetensors_write(path, &reserved, 1, NULL, 0, &err));
    assert_false(weir_safetensors_write(path, tensors, 1, keys, 2, &err));
    assert_int_equal(access(path, F_OK), -1);
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    struct weir_error err;
    assert_false(weir_safetensors_write("/dev/full", tensors, 4, metadata, 2, &err));
    assert_non_null(strstr(err.text, "/dev/full"));
}

static void every_truncation_and_every_extra_byte_is_refused_by_name(void **state)
{
    (void)state;
    unsigned char bytes[FILE_BYTES] = {0};
    size_t count = sample_file(bytes);
    for (size_t length = 0; length <= count + 1; length++) {
        struct weir_error err = {.text = ""};
        struct weir_safetensors *file = open_bytes(bytes, length, &err);
        assert_int_equal(file != NULL, length == count);
        if (!file)
            assert_non_null(strstr(err.text, "/bytes"));
        weir_safetensors_close(file);
    }
}

/* What is no longer well formed is refused, what still is can be read; the sanitizers watch. */
static void damage_never_does_harm(void **state)
{
    (void)state;
    unsigned char bytes[FILE_BYTES] = {0}, broken[FILE_BYTES];
    size_t count = sample_file(bytes);
    struct weir_random_key key = weir_random_key(1, WEIR_RANDOM_TEST, 50, 0);
    int opened = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        uint32_t words[4];
        weir_random_block(key, round, 0, words);
        memcpy(broken, bytes, count);
        for (uint32_t i = 0; i <= words[0] % 3; i++)
            broken[words[1 + i] % count] = (unsigned char)(words[1 + i] >> 24);
        struct weir_error err;
        struct weir_safetensors *file = open_bytes(broken, count, &err);
        opened += file != NULL;
        for (size_t i = 0; file && i < weir_safetensors_count(file); i++) {
            const struct weir_safetensors_entry *entry = weir_safetensors_entry(file, i);
            float values[16];
            assert_true(entry->bytes <= sizeof values);
            weir_safetensors_read(file, entry, entry->shape, entry->dimensions, values, &err);
        }
        weir_safetensors_close(file);
    }
    assert_in_range(opened, 100, 2000);
}

#define W "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
static const struct {
    const char *header;
    size_t data_bytes;
    const char *says; /* NULL: the file is good */
} headers[] = {
    {"{" W "}", 8, NULL},
    {" { \"w\" : {\"shape\":[ 2 ] ,\n\"data_offsets\" : [0 , 8],\"dtype\":\"F32\"}\t} \r\n ", 8, NULL},
    {"{\"\\u0077\\n\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "control character"},
    {"{\"x\\ud83c\\udf0a\\/\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, NULL},
    {"{\"w\":{\"dtype\":\"BF16\",\"shape\":[4611686018427387904,0,2],\"data_offsets\":[0,0]}}", 0, NULL},
    {"", 0, "an object is expected"},
    {"[]", 0, "an object is expected"},
    {"{", 0, "a string is expected"},
    {"{" W, 8, "a comma or }"},
    {"{" W ",}", 8, "a string is expected"},
    {"{" W "}x", 8, "behind the last }"},
    {"{" W "," W "}", 8, "overlaps"},
    {"{" W ",\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", 16, "twice"},
    {"{" W ",\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "overlaps"},
    {"{" W ",\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16, "gap"},
    {"{" W ",\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 13, "belong to none"},
    {"{" W "}", 7, "cut short"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "differ from the size"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "differ from the size"},
    {"{\"w\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype is unknown"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "too large"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "too large"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,0]}}", 0, "too large"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "8 dimensions"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole number"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "whole number"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "a comma or ]"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "a comma or ]"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "two numbers"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "each once"},
    {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "each once"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, "nothing else"},
    {"{\"w\":[]}", 0, "an object is expected"},
    {"{\"w\" {}}", 0, "a colon"},
    {"{\"w", 0, "not closed"},
    {"{\"w\\", 0, "not closed"},
    {"{\"w\\x\":{}}", 0, "no escape"},
    {"{\"w\\u0000\":{}}", 0, "no escape"},
    {"{\"w\\ud800\":{}}", 0, "no escape"},
    {"{\"w\\udc00\":{}}", 0, "no escape"},
    {"{\"w\\u00\":{}}", 0, "no escape"},
    {"{\"w\n\":{}}", 0, "no UTF-8"},
    {"{\"\xC0\x80\":{}}", 0, "no UTF-8"},
    {"{\"\xED\xA0\x80\":{}}", 0, "no UTF-8"},
    {"{\"\xE2\x82\":{}}", 0, "no UTF-8"},
    {"{\"__metadata__\":{}}", 0, NULL},
    {"{\"__metadata__\":{\"k\":1}}", 0, "a string is expected"},
    {"{\"__metadata__\":{\"k\"}}", 0, "a colon"},
    {"{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}", 0, "twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
};

static void each_break_of_the_format_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct weir_error err = {.text = ""};
        struct weir_safetensors *file = open_header(headers[i].header, headers[i].data_bytes, &err);
        if (!headers[i].says && !file)
            fail_msg("%s: refused: %s", headers[i].header, err.text);
        if (headers[i].says && (file || !strstr(err.text, headers[i].says) || !strstr(err.text, "/bytes")))
            fail_msg("%s: \"%s\" does not say \"%s\"", headers[i].header, err.text, headers[i].says);
        weir_safetensors_close(file);
    }
}

static void a_header_that_claims_too_much_takes_no_memory(void **state)
{
    (void)state;
    struct weir_error err;
    unsigned char bytes[16];
    memset(bytes, 0xFF, sizeof bytes);
    assert_null(open_bytes(bytes, sizeof bytes, &err));
    assert_non_null(strstr(err.text, "no safetensors file"));
    memset(bytes, 0, sizeof bytes);
    bytes[0] = 9;
    assert_null(open_bytes(bytes, sizeof bytes, &err));
    assert_non_null(strstr(err.text, "cut short"));
}

static void only_the_shape_that_was_asked_for_is_read(void **state)
{
    (void)state;
    struct weir_error err;
    float values[2] = {5, 5};
    const uint64_t wanted[] = {1, 2};
    struct weir_safetensors *file = open_header("{" W "}", 8, &err);
    const struct weir_safetensors_entry *entry = weir_safetensors_find(file, "w");
    assert_false(weir_safetensors_read(file, entry, wanted, 2, values, &err));
    assert_non_null(strstr(err.text, "\"w\" is F32 (2,), but F32 (1, 2) is needed"));
    assert_true(values[0] == 5);
    weir_safetensors_close(file);
    file = open_header("{\"w\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, &err);
    entry = weir_safetensors_find(file, "w");
    assert_false(weir_safetensors_read(file, entry, entry->shape, 1, values, &err));
    weir_safetensors_close(file);
}

static void what_is_no_file_is_refused_at_once(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_null(weir_safetensors_open(in_folder("missing", path), &err));
    assert_non_null(strstr(err.text, path));
    assert_null(weir_safetensors_open(folder, &err));
    assert_int_equal(mkfifo(in_folder("pipe", path), 0600), 0); /* opened plainly, it would wait for a writer */
    assert_null(weir_safetensors_open(path, &err));
    assert_non_null(strstr(err.text, "no regular file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_bit_for_bit),
        cmocka_unit_test(the_file_is_what_the_format_says),
        cmocka_unit_test(a_file_without_tensors_is_a_file),
        cmocka_unit_test(double_names_are_not_written),
        cmocka_unit_test(a_full_disk_is_reported),
        cmocka_unit_test(every_truncation_and_every_extra_byte_is_refused_by_name),
        cmocka_unit_test(damage_never_does_harm),
        cmocka_unit_test(each_break_of_the_format_is_told),
        cmocka_unit_test(a_header_that_claims_too_much_takes_no_memory),
        cmocka_unit_test(only_the_shape_that_was_asked_for_is_read),
        cmocka_unit_test(what_is_no_file_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
