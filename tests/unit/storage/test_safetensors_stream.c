/* Files that are written piece by piece, of any dtype, and never over another one. */
#include "folder.h"

#include "base/digest.h"
#include "storage/safetensors.h"

static const uint64_t rows_shape[] = {2, 3}, clocks_shape[] = {2}, none_shape[] = {0};
static const struct weir_tensor_kind kinds[] = {
    {"chunk/7", "F32", rows_shape, 2}, {"clocks/7", "U64", clocks_shape, 1}, {"none", "U8", none_shape, 1}};
static const struct weir_metadata metadata[] = {{"format", "weir"}};
static const float rows[] = {1, -2, 3.5f, -0.0f, 1e-40f, 3e38f};
static const uint64_t clocks[] = {5, UINT64_MAX};

static struct weir_safetensors_writer *begin(const char *path)
{
    struct weir_error err = {.text = ""};
    struct weir_safetensors_writer *writer = weir_safetensors_begin(path, kinds, 3, metadata, 1, &err);
    if (!writer)
        fail_msg("%s", err.text);
    return writer;
}

/* In pieces that keep to no tensor's bounds. */
static void write_data(struct weir_safetensors_writer *writer)
{
    char data[sizeof rows + sizeof clocks];
    struct weir_error err;
    memcpy(data, rows, sizeof rows);
    memcpy(data + sizeof rows, clocks, sizeof clocks);
    assert_true(weir_safetensors_append(writer, data, 5, &err));
    assert_true(weir_safetensors_append(writer, data + 5, 0, &err));
    assert_true(weir_safetensors_append(writer, data + 5, sizeof data - 5, &err));
}

static void what_is_written_in_pieces_is_read_bit_for_bit(void **state)
{
    (void)state;
    char path[PATH_BYTES], sha256[WEIR_DIGEST_HEX], again[WEIR_DIGEST_HEX];
    unsigned char bytes[4096];
    uint64_t file_bytes;
    struct weir_error err;
    struct weir_safetensors_writer *writer = begin(in_folder("pieces", path));
    write_data(writer);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(weir_safetensors_finish(writer, &file_bytes, sha256, &err));
    size_t count = read_bytes(path, bytes, sizeof bytes);
    assert_int_equal(count, file_bytes);
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, bytes, count);
    weir_digest_end(digest, again);
    assert_string_equal(sha256, again);
    struct weir_safetensors *file = weir_safetensors_open(path, &err);
    assert_non_null(file);
    assert_int_equal(weir_safetensors_bytes(file), file_bytes);
    const struct weir_safetensors_entry *entry = weir_safetensors_find(file, "clocks/7");
    assert_string_equal(entry->dtype, "U64");
    assert_memory_equal(bytes + weir_safetensors_offset(file, entry), clocks, sizeof clocks);
    entry = weir_safetensors_find(file, "chunk/7");
    assert_memory_equal(bytes + weir_safetensors_offset(file, entry), rows, sizeof rows);
    assert_int_equal(weir_safetensors_offset(file, entry) % 8, 0);
    weir_safetensors_close(file);
    assert_int_equal(folder_files(true), 1);
}

static void a_file_that_is_there_is_not_written_over(void **state)
{
    (void)state;
    char path[PATH_BYTES], sha256[WEIR_DIGEST_HEX], bytes[8] = "";
    uint64_t file_bytes;
    struct weir_error err;
    struct weir_safetensors_writer *writer = begin(in_folder("other", path));
    write_data(writer);
    write_bytes(path, "other", 5);
    assert_false(weir_safetensors_finish(writer, &file_bytes, sha256, &err));
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "exists"));
    assert_int_equal(read_bytes(path, bytes, sizeof bytes), 5);
    assert_string_equal(bytes, "other");
    assert_int_equal(folder_files(true), 1);
}

static void what_is_abandoned_leaves_nothing(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    struct weir_safetensors_writer *writer = begin(in_folder("never", path));
    assert_true(weir_safetensors_append(writer, rows, 4, &err));
    weir_safetensors_abandon(writer);
    weir_safetensors_abandon(NULL);
    assert_int_equal(folder_files(true), 0);
}

static void where_no_file_can_be_the_error_names_the_path(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    const struct weir_tensor_kind twice[] = {kinds[0], kinds[0]};
    assert_null(weir_safetensors_begin(in_folder("missing/file", path), kinds, 3, metadata, 1, &err));
    assert_non_null(strstr(err.text, path));
    assert_null(weir_safetensors_begin(in_folder("twice", path), twice, 2, NULL, 0, &err));
    assert_non_null(strstr(err.text, "chunk/7"));
    assert_int_equal(folder_files(true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_in_pieces_is_read_bit_for_bit),
        cmocka_unit_test(a_file_that_is_there_is_not_written_over),
        cmocka_unit_test(what_is_abandoned_leaves_nothing),
        cmocka_unit_test(where_no_file_can_be_the_error_names_the_path),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
