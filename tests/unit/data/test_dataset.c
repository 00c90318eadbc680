#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "temp_files.h"

#define U8 0x08
#define I8 0x09
#define I32 0x0C
#define F32 0x0D

static struct temp_files files;
static char x_path[128], y_path[128];
static struct weir_data_config config = {.present = true, .format = "idx", .x = x_path, .y = y_path};

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

static void write_idx(char path[128], const char *name, unsigned type, size_t dims, const uint32_t *dim,
                      const void *elements, size_t bytes)
{
    unsigned char text[1024];
    size_t at = idx_header(text, type, dims, dim);
    memcpy(text + at, elements, bytes);
    snprintf(path, 128, "%s", temp_files_write(&files, name, text, at + bytes));
}

/* 4 samples of 2 x 3 bytes, 0 to 23, and the labels 3 1 0 2. */
static void write_pair(void)
{
    unsigned char x[24];
    for (unsigned char i = 0; i < 24; i++)
        x[i] = i;
    write_idx(x_path, "x", U8, 3, (uint32_t[]){4, 2, 3}, x, 24);
    write_idx(y_path, "y", U8, 1, (uint32_t[]){4}, (unsigned char[]){3, 1, 0, 2}, 4);
    config.scale = 0;
}

static struct weir_dataset *must_open(void)
{
    struct weir_error err = {""};
    struct weir_dataset *dataset = weir_dataset_open(&config, &err);
    if (!dataset)
        fail_msg("%s", err.text);
    return dataset;
}

static void assert_refused(const char *what)
{
    struct weir_error err = {"-"};
    assert_null(weir_dataset_open(&config, &err));
    if (!strstr(err.text, what))
        fail_msg("\"%s\" should say \"%s\"", err.text, what);
}

static void shapes_are_those_of_one_sample(void **state)
{
    (void)state;
    write_pair();
    struct weir_dataset *dataset = must_open();
    size_t shape[4] = {0};
    assert_int_equal(weir_dataset_samples(dataset), 4);
    assert_int_equal(weir_dataset_x_shape(dataset, shape), 2);
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[1], 3);
    assert_int_equal(weir_dataset_y_shape(dataset, shape), 0);
    weir_dataset_close(dataset);
}

static void gather_takes_the_samples_asked_for(void **state)
{
    (void)state;
    write_pair();
    struct weir_dataset *dataset = must_open();
    const uint64_t index[] = {3, 0, 3};
    const float labels[] = {2, 3, 2};
    float x[18], y[3];
    weir_dataset_gather(dataset, index, 3, x, y);
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < 6; i++)
            assert_true(x[6 * k + i] == (float)(6 * index[k] + i) * (1.0f / 255.0f));
        assert_true(y[k] == labels[k]);
    }
    weir_dataset_close(dataset);
}

static void the_jobs_scale_replaces_the_default(void **state)
{
    (void)state;
    write_pair();
    config.scale = 0.5;
    struct weir_dataset *dataset = must_open();
    float x[6], y[1];
    weir_dataset_gather(dataset, (uint64_t[]){1}, 1, x, y);
    assert_true(x[0] == 3.0f && x[5] == 5.5f && y[0] == 1.0f);
    weir_dataset_close(dataset);
}

static void other_types_are_not_scaled_and_labels_stay_exact(void **state)
{
    (void)state;
    write_pair();
    write_idx(x_path, "x", F32, 2, (uint32_t[]){1, 2}, (unsigned char[]){0x3f, 0xc0, 0, 0, 0xbf, 0x80, 0, 0}, 8);
    write_idx(y_path, "y", I32, 2, (uint32_t[]){1, 2}, (unsigned char[]){0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
              8);
    struct weir_dataset *dataset = must_open();
    float x[2], y[2];
    weir_dataset_gather(dataset, (uint64_t[]){0}, 1, x, y);
    assert_true(x[0] == 1.5f && x[1] == -1.0f);
    assert_true(y[0] == 16777215.0f && y[1] == -1.0f);
    weir_dataset_close(dataset);
}

static void files_that_do_not_belong_together_are_refused(void **state)
{
    (void)state;
    write_pair();
    write_idx(y_path, "y", U8, 1, (uint32_t[]){3}, (unsigned char[]){0, 1, 2}, 3);
    assert_refused("has 4 samples");
    write_pair();
    config.x = y_path;
    config.y = x_path;
    assert_refused("swapped");
    config.x = x_path;
    config.y = y_path;
    snprintf(y_path, sizeof y_path, "%s/absent", files.folder);
    assert_refused("absent: can't be opened");
}

static void a_label_outside_is_named_with_its_record(void **state)
{
    (void)state;
    write_pair();
    struct weir_dataset *dataset = must_open();
    struct weir_error err = {""};
    assert_true(weir_dataset_check_labels(dataset, 4, &err));
    assert_false(weir_dataset_check_labels(dataset, 3, &err));
    assert_non_null(strstr(err.text, y_path));
    assert_non_null(strstr(err.text, "record 0: label 3 is not a class number from 0 to 2"));
    weir_dataset_close(dataset);

    write_idx(y_path, "y", I8, 1, (uint32_t[]){4}, (unsigned char[]){0, 1, 0xff, 0}, 4);
    dataset = must_open();
    assert_false(weir_dataset_check_labels(dataset, 4, &err));
    assert_non_null(strstr(err.text, "record 2: label -1"));
    weir_dataset_close(dataset);

    const unsigned char halves[16] = {0x3f, 0, 0, 0, 0x7f, 0xc0, 0, 0};
    write_idx(y_path, "y", F32, 1, (uint32_t[]){4}, halves, 16);
    dataset = must_open();
    assert_false(weir_dataset_check_labels(dataset, 4, &err));
    assert_non_null(strstr(err.text, "record 0: label 0.5"));
    weir_dataset_close(dataset);

    const unsigned char not_a_number[16] = {0, 0, 0, 0, 0x7f, 0xc0, 0, 0};
    write_idx(y_path, "y", F32, 1, (uint32_t[]){4}, not_a_number, 16);
    dataset = must_open();
    assert_false(weir_dataset_check_labels(dataset, 4, &err));
    assert_non_null(strstr(err.text, "record 1: label nan"));
    weir_dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_those_of_one_sample),
        cmocka_unit_test(gather_takes_the_samples_asked_for),
        cmocka_unit_test(the_jobs_scale_replaces_the_default),
        cmocka_unit_test(other_types_are_not_scaled_and_labels_stay_exact),
        cmocka_unit_test(files_that_do_not_belong_together_are_refused),
        cmocka_unit_test(a_label_outside_is_named_with_its_record),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
