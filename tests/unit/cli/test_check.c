#include "cli/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "tell.h"

#define SAMPLES 40

static char folder[] = "/tmp/weir-check-XXXXXX";

static void put_u32(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(value >> shift & 0xff), file);
}

/* IDX files: images of side x side, labels 0, 1, ... classes - 1, 0, ... */
static void write_data(const char *x, const char *y, uint32_t side, unsigned classes)
{
    FILE *images = fopen(x, "wb"), *labels = fopen(y, "wb");
    assert_true(images && labels);
    put_u32(images, 0x803);
    put_u32(images, SAMPLES);
    put_u32(images, side);
    put_u32(images, side);
    put_u32(labels, 0x801);
    put_u32(labels, SAMPLES);
    for (unsigned i = 0; i < SAMPLES; i++) {
        fputc((int)(i % classes), labels);
        for (uint32_t j = 0; j < side * side; j++)
            fputc((int)(i + j) & 0xff, images);
    }
    fclose(images);
    fclose(labels);
}

static struct told *check(const char *more)
{
    char line[256];
    snprintf(line, sizeof line, "check job.json %s", more);
    return tell(line, weir_check_command);
}

/* As a run would. */
static void more_replicas_than_can_be_summed_are_refused(void **state)
{
    (void)state;
    struct told *told = check("--replicas 1025");
    assert_int_equal(told->status, 1);
    assert_says(told->out, "job.json: replicas: 1025 is more than the 1024 that weir sums");
    free(told);
    told = check("--replicas 1024");
    assert_int_equal(told->status, 0);
    free(told);
}

static void a_good_job_is_shown_with_its_model(void **state)
{
    (void)state;
    struct told *told = check("--set name=tiny");
    if (told->status != 0)
        fail_msg("%s%s", told->out, told->err);
    assert_says(told->out, "tiny (job.json), hash ");
    assert_says(told->out, "40 samples, x 4 x 4, y one number");
    assert_says(told->out, "1 epoch of 4 steps, 10 samples each, strategy ps, as many replicas as workers");
    assert_says(told->out, "TF_CONFIG is not set");
    assert_says(told->out, "Flatten");
    assert_says(told->out, "Dense");
    assert_string_equal(told->err, "");
    free(told);
    told = check("--quiet");
    assert_int_equal(told->status, 0);
    assert_string_equal(told->out, "");
    free(told);
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
    (void)state;
    setenv("TF_CONFIG", "{\"cluster\": {\"master\": [\"a:1\"]}}", 1);
    struct told *told = check("--set data.train.x=nothere --set data.validation.y=nowhere");
    unsetenv("TF_CONFIG");
    assert_int_equal(told->status, 1);
    assert_says(told->out, "TF_CONFIG");
    assert_says(told->out, "data.train: ");
    assert_says(told->out, "nothere");
    assert_says(told->out, "data.validation: ");
    assert_says(told->out, "nowhere");
    free(told);
}

static void data_that_does_not_fit_the_model_is_told(void **state)
{
    (void)state;
    write_data("x5", "y5", 5, 3);
    struct told *told = check("--set data.validation.x=x5 --set data.validation.y=y5");
    assert_int_equal(told->status, 1);
    assert_says(told->out, "job.json: data.validation: ");
    assert_says(told->out, "5");
    free(told);
    write_data("x4", "y4", 4, 7); /* the model has three classes */
    told = check("--set data.train.x=x4 --set data.train.y=y4");
    assert_int_equal(told->status, 1);
    assert_says(told->out, "job.json: data.train: ");
    assert_says(told->out, "y4");
    free(told);
}

static void an_epoch_without_steps_is_told(void **state)
{
    (void)state;
    struct told *told = check("--set fit.drop_remainder=true --batch-size 41");
    assert_int_equal(told->status, 1);
    assert_says(told->out, "fit.batch_size: 41 samples, but there are only 40");
    free(told);
}

static void a_job_that_is_none_is_told_and_does_not_crash(void **state)
{
    (void)state;
    static const char *const jobs[] = {"", "[]", "{\"model\": 5}"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        FILE *file = fopen("bad.json", "w");
        assert_non_null(file);
        fputs(jobs[i], file);
        fclose(file);
        struct told *told = tell("check bad.json", weir_check_command);
        assert_int_equal(told->status, 1);
        assert_says(told->out, "bad.json");
        free(told);
    }
    struct told *told = tell("check nothere.json", weir_check_command);
    assert_int_equal(told->status, 1);
    assert_says(told->out, "nothere.json");
    free(told);
}

static void json_lists_the_problems(void **state)
{
    (void)state;
    static const char *const options[] = {"--json", "--json --set data.train.x=nothere"};
    for (int bad = 0; bad < 2; bad++) {
        struct told *told = check(options[bad]);
        json_t *json = json_loads(told->out, 0, NULL);
        assert_non_null(json);
        assert_int_equal(told->status, bad);
        assert_int_equal(json_is_true(json_object_get(json, "ok")), !bad);
        assert_int_equal(json_array_size(json_object_get(json, "problems")), bad);
        assert_true(json_is_string(json_object_get(json, "hash")));
        json_decref(json);
        free(told);
    }
}

static void the_role_in_the_cluster_is_shown(void **state)
{
    (void)state;
    setenv("TF_CONFIG",
           "{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"], \"ps\": [\"c:3\"]}, \"task\": {\"type\": \"worker\", "
           "\"index\": 1}}",
           1);
    struct told *told = check("");
    unsetenv("TF_CONFIG");
    assert_int_equal(told->status, 0);
    assert_says(told->out, "1 ps, 2 worker, this is worker/1 at b:2; the first worker is the chief too");
    free(told);
}

static int enter_folder(void **state)
{
    (void)state;
    unsetenv("TF_CONFIG");
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return -1;
    FILE *job = fopen("job.json", "w");
    if (!job)
        return -1;
    fprintf(job, "{\"model\": {\"class_name\": \"Sequential\", \"config\": {\"name\": \"tiny\", \"layers\": [\n"
                 "  {\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": [null, 4, 4]}},\n"
                 "  {\"class_name\": \"Flatten\", \"config\": {\"name\": \"flatten\"}},\n"
                 "  {\"class_name\": \"Dense\", \"config\": {\"name\": \"dense\", \"units\": 3, \"activation\": "
                 "\"linear\"}}]}},\n"
                 " \"data\": {\"train\": {\"format\": \"idx\", \"x\": \"x\", \"y\": \"y\"},\n"
                 "          \"validation\": {\"format\": \"idx\", \"x\": \"x\", \"y\": \"y\"}},\n"
                 " \"compile\": {\"loss\": {\"class_name\": \"SparseCategoricalCrossentropy\", \"config\": "
                 "{\"from_logits\": true}}},\n"
                 " \"fit\": {\"batch_size\": 10}}\n");
    write_data("x", "y", 4, 3);
    return fclose(job);
}

static int leave_folder(void **state)
{
    (void)state;
    const char *const files[] = {"job.json", "bad.json", "out", "err", "x", "y", "x4", "y4", "x5", "y5"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_job_is_shown_with_its_model),
        cmocka_unit_test(more_replicas_than_can_be_summed_are_refused),
        cmocka_unit_test(all_that_is_wrong_is_told_at_once),
        cmocka_unit_test(data_that_does_not_fit_the_model_is_told),
        cmocka_unit_test(an_epoch_without_steps_is_told),
        cmocka_unit_test(a_job_that_is_none_is_told_and_does_not_crash),
        cmocka_unit_test(json_lists_the_problems),
        cmocka_unit_test(the_role_in_the_cluster_is_shown),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
