#include "folder.h"

#include <signal.h>
#include <sys/resource.h>

#include "storage/storage_file.h"

static bool save(const char *path, const char *text, struct weir_error *err)
{
    const struct weir_slice slices[] = {{text, strlen(text)}, {"", 0}, {"!", 1}};
    return weir_file_save(path, slices, 3, err);
}

static void assert_content(const char *path, const char *expected)
{
    char bytes[64] = "";
    bytes[read_bytes(path, bytes, sizeof bytes - 1)] = '\0';
    assert_string_equal(bytes, expected);
}

static void assert_says(const struct weir_error *err, const char *a, const char *b)
{
    if (!strstr(err->text, a) || !strstr(err->text, b))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", err->text, a, b);
}

static void a_file_replaces_the_old_one_and_leaves_nothing_else(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_true(save(in_folder("weights", path), "first", &err));
    assert_content(path, "first!");
    assert_true(save(path, "second", &err));
    assert_content(path, "second!");
    assert_int_equal(folder_files(true), 1);
}

static void the_old_file_stays_until_the_commit(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_true(save(in_folder("weights", path), "old", &err));
    struct weir_file *file = weir_file_create(path, &err);
    assert_true(weir_file_append(file, "new", 3, &err));
    assert_content(path, "old!");
    assert_true(weir_file_commit(file, &err));
    assert_content(path, "new");
    file = weir_file_create(path, &err);
    assert_true(weir_file_append(file, "never", 5, &err));
    weir_file_abandon(file);
    weir_file_abandon(NULL);
    assert_content(path, "new");
    assert_int_equal(folder_files(true), 1);
}

static void two_writers_of_a_path_do_not_mix(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    struct weir_file *a = weir_file_create(in_folder("weights", path), &err), *b = weir_file_create(path, &err);
    assert_true(weir_file_append(a, "aaa", 3, &err) && weir_file_append(b, "b", 1, &err));
    assert_true(weir_file_commit(b, &err));
    assert_content(path, "b");
    assert_true(weir_file_commit(a, &err));
    assert_content(path, "aaa");
    assert_int_equal(folder_files(true), 1);
}

static void a_commit_of_a_new_file_never_replaces_one(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    struct weir_file *a = weir_file_create(in_folder("weights", path), &err), *b = weir_file_create(path, &err);
    assert_true(weir_file_append(a, "aaa", 3, &err) && weir_file_append(b, "b", 1, &err));
    assert_true(weir_file_commit_new(b, &err));
    assert_false(weir_file_commit_new(a, &err));
    assert_says(&err, path, "exists");
    assert_content(path, "b");
    assert_false(weir_file_commit_new(weir_file_create("/dev/null", &err), &err));
    assert_says(&err, "/dev/null", "exists");
    assert_int_equal(folder_files(true), 1);
}

static void a_folder_that_cannot_be_synced_is_named(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_true(weir_folder_sync(folder, &err));
    assert_false(weir_folder_sync(in_folder("missing", path), &err));
    assert_says(&err, path, "No such file");
}

static void a_relative_path_works(void **state)
{
    (void)state;
    char path[PATH_BYTES], here[PATH_BYTES];
    struct weir_error err;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_true(save("weights", "x", &err));
    assert_int_equal(chdir(here), 0);
    assert_content(in_folder("weights", path), "x!");
    assert_int_equal(folder_files(true), 1);
}

static void a_full_disk_is_reported_and_keeps_the_old_file(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    struct rlimit before, small = {16, RLIM_INFINITY};
    assert_false(save("/dev/full", "x", &err));
    assert_says(&err, "/dev/full", "make room");
    assert_true(save(in_folder("weights", path), "old", &err));
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files stands for the end of the disk */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool saved = save(path, "far more than sixteen bytes", &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_false(saved);
    assert_says(&err, path, "too large");
    assert_content(path, "old!");
    assert_int_equal(folder_files(true), 1);
}

static void a_device_is_written_and_not_replaced(void **state)
{
    (void)state;
    struct weir_error err;
    struct stat status;
    assert_true(save("/dev/null", "x", &err));
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void where_no_file_can_be_the_error_names_the_path(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    assert_false(save(in_folder("missing/weights", path), "x", &err));
    assert_says(&err, path, "make its folder");
    assert_false(save(folder, "x", &err));
    assert_says(&err, folder, "directory");
    assert_false(save("/proc/weights", "x", &err)); /* a folder in which even root can make nothing */
    assert_says(&err, "/proc/weights", "choose another path");
    assert_false(save("", "x", &err));
    assert_int_equal(folder_files(true), 0);
}

static void whether_a_file_can_be_made_is_tried_and_leaves_nothing(void **state)
{
    (void)state;
    char path[PATH_BYTES], pipe[PATH_BYTES];
    struct weir_error err;
    assert_true(weir_file_check(in_folder("weights", path), &err));
    assert_int_equal(folder_files(true), 0);
    assert_true(save(path, "old", &err));
    assert_true(weir_file_check(path, &err));
    assert_content(path, "old!");
    assert_true(weir_file_check("/dev/null", &err));
    assert_int_equal(mkfifo(in_folder("pipe", pipe), 0600), 0);
    assert_true(weir_file_check(pipe, &err)); /* although nobody reads it yet */
    unlink(pipe);
    assert_false(weir_file_check(folder, &err));
    assert_says(&err, folder, "directory");
    assert_false(weir_file_check(in_folder("missing/weights", path), &err));
    assert_says(&err, path, "make its folder");
    assert_int_equal(folder_files(true), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_replaces_the_old_one_and_leaves_nothing_else),
        cmocka_unit_test(the_old_file_stays_until_the_commit),
        cmocka_unit_test(two_writers_of_a_path_do_not_mix),
        cmocka_unit_test(a_commit_of_a_new_file_never_replaces_one),
        cmocka_unit_test(a_folder_that_cannot_be_synced_is_named),
        cmocka_unit_test(a_relative_path_works),
        cmocka_unit_test(a_full_disk_is_reported_and_keeps_the_old_file),
        cmocka_unit_test(a_device_is_written_and_not_replaced),
        cmocka_unit_test(where_no_file_can_be_the_error_names_the_path),
        cmocka_unit_test(whether_a_file_can_be_made_is_tried_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
