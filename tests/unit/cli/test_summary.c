#include "cli/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

static const struct weir_summary_value metrics[] = {{"accuracy", 0.9}};
static const struct weir_summary_value validation[] = {{"accuracy", 0.89}};
static const struct weir_summary_role roles[] = {
    {.role = "chief", .index = 0, .pid = 1, .cpu_s = 0.5, .peak_rss_bytes = 10},
    {.role = "worker", .index = 1, .pid = 4294967296, .cpu_s = 9.1, .replicas_computed = 4690},
};

static struct weir_summary example(void)
{
    return (struct weir_summary){
        .job = "fashion_mnist",
        .hash = "ab",
        .strategy = "ps",
        .replicas = 2,
        .workers = 2,
        .ps = 1,
        .steps = 4690,
        .epochs = 5,
        .loss = 0.27,
        .metrics = metrics,
        .metric_count = 1,
        .validated = true,
        .validation_loss = 0.3,
        .validation_metrics = validation,
        .validation_metric_count = 1,
        .seconds = 12.3,
        .samples_per_s = 24390,
        .digest = "d1",
        .state_digest = "d2",
        .reproducible = true,
        .views = 3,
        .roles = roles,
        .role_count = 2,
    };
}

static json_t *parsed(const struct weir_summary *summary)
{
    char *text = weir_summary_json(summary);
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (!json)
        fail_msg("%s: %s", error.text, text);
    free(text);
    return json;
}

static void has_the_keys_of_the_interface_in_its_order(void **state)
{
    (void)state;
    static const char *const keys[] = {"job",          "hash",       "strategy",      "replicas", "workers",
                                       "ps",           "steps",      "epochs",        "loss",     "metrics",
                                       "validation",   "seconds",    "samples_per_s", "digest",   "state_digest",
                                       "reproducible", "generation", "views",         "roles"};
    struct weir_summary summary = example();
    json_t *json = parsed(&summary);
    size_t i = 0;
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value)
    {
        assert_true(i < sizeof keys / sizeof *keys);
        assert_string_equal(key, keys[i++]);
    }
    assert_int_equal(i, sizeof keys / sizeof *keys);
    json_decref(json);
}

static void values_come_back(void **state)
{
    (void)state;
    struct weir_summary summary = example();
    json_t *json = parsed(&summary);
    const char *job, *role;
    double loss, accuracy, validation_loss, validation_accuracy, cpu_s;
    json_int_t steps, pid;
    int reproducible;
    assert_int_equal(json_unpack(json, "{s:s, s:F, s:I, s:{s:F}, s:{s:F, s:F}, s:b}", "job", &job, "loss", &loss,
                                 "steps", &steps, "metrics", "accuracy", &accuracy, "validation", "loss",
                                 &validation_loss, "accuracy", &validation_accuracy, "reproducible", &reproducible),
                     0);
    assert_string_equal(job, "fashion_mnist");
    assert_true(loss == 0.27 && accuracy == 0.9 && validation_loss == 0.3 && validation_accuracy == 0.89);
    assert_int_equal(steps, 4690);
    assert_true(reproducible);
    json_t *second = json_array_get(json_object_get(json, "roles"), 1);
    assert_int_equal(json_unpack(second, "{s:s, s:I, s:F}", "role", &role, "pid", &pid, "cpu_s", &cpu_s), 0);
    assert_string_equal(role, "worker");
    assert_int_equal(pid, 4294967296);
    json_decref(json);
}

static void without_validation_there_is_no_such_key(void **state)
{
    (void)state;
    struct weir_summary summary = example();
    summary.validated = false;
    json_t *json = parsed(&summary);
    assert_null(json_object_get(json, "validation"));
    json_decref(json);
}

/* A diverged job still gives JSON that every parser reads. */
static void what_is_no_number_is_null(void **state)
{
    (void)state;
    struct weir_summary summary = example();
    summary.loss = NAN;
    summary.validation_loss = INFINITY;
    json_t *json = parsed(&summary);
    assert_true(json_is_null(json_object_get(json, "loss")));
    assert_true(json_is_null(json_object_get(json_object_get(json, "validation"), "loss")));
    json_decref(json);
}

static void a_name_that_is_not_utf8_does_not_lose_the_key(void **state)
{
    (void)state;
    struct weir_summary summary = example();
    summary.job = "\xff\xfe";
    json_t *json = parsed(&summary);
    assert_true(json_is_string(json_object_get(json, "job")));
    json_decref(json);
}

static void the_file_is_replaced_whole(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir_summary_XXXXXX", path[128];
    struct weir_error err;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/summary.json", folder);
    struct weir_summary summary = example();
    for (int i = 0; i < 2; i++)
        assert_true(weir_summary_write(&summary, path, &err));
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    json_decref(json);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
}

static void an_impossible_file_is_named(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_summary summary = example();
    assert_false(weir_summary_write(&summary, "/nowhere/summary.json", &err));
    assert_non_null(strstr(err.text, "/nowhere/summary.json"));
    assert_non_null(strstr(err.text, "No such file"));
    assert_false(weir_summary_write(&summary, "/tmp", &err)); /* a folder is in the way */
    assert_non_null(strstr(err.text, "/tmp"));
    assert_false(weir_summary_write(&summary, "/dev/full", &err));
    assert_non_null(strstr(err.text, "No space left"));
}

/* A device is written to, and not replaced by a file. */
static void a_device_stays_one(void **state)
{
    (void)state;
    struct weir_error err;
    struct stat status;
    struct weir_summary summary = example();
    assert_true(weir_summary_write(&summary, "/dev/null", &err));
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void printed(const struct weir_summary *summary, bool json, char *text, size_t bytes)
{
    FILE *out = fmemopen(text, bytes, "w");
    assert_non_null(out);
    assert_true(weir_summary_print(summary, json, out));
    fclose(out);
}

static void people_read_three_lines(void **state)
{
    (void)state;
    char text[4096];
    struct weir_summary summary = example();
    printed(&summary, false, text, sizeof text);
    assert_string_equal(
        text, "fashion_mnist: 4690 steps, 5 epochs in 12.3 s (24390 samples/s), 2 replicas on 2 workers and 1 ps\n"
              "loss 0.2700, accuracy 0.9000; validation loss 0.3000, accuracy 0.8900\n"
              "weights d1\n");
    summary.validated = summary.reproducible = false;
    summary.epochs = summary.workers = 1;
    printed(&summary, false, text, sizeof text);
    assert_non_null(strstr(text, "1 epoch in"));
    assert_non_null(strstr(text, "on 1 worker and"));
    assert_non_null(strstr(text, "accuracy 0.9000\nweights d1 (not reproducible)\n"));
    printed(&summary, true, text, sizeof text);
    assert_int_equal(text[0], '{');
    assert_string_equal(text + strlen(text) - 2, "}\n");
}

static void a_full_disk_is_noticed(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    struct weir_summary summary = example();
    assert_non_null(full);
    assert_false(weir_summary_print(&summary, true, full));
    fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_keys_of_the_interface_in_its_order),
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(without_validation_there_is_no_such_key),
        cmocka_unit_test(what_is_no_number_is_null),
        cmocka_unit_test(a_name_that_is_not_utf8_does_not_lose_the_key),
        cmocka_unit_test(the_file_is_replaced_whole),
        cmocka_unit_test(an_impossible_file_is_named),
        cmocka_unit_test(a_device_stays_one),
        cmocka_unit_test(people_read_three_lines),
        cmocka_unit_test(a_full_disk_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
