/* What a user reads when a job is wrong: exact texts, with line and column. */
#include "support.h"

static void all_errors_of_a_file_come_at_once_sorted(void **state)
{
    (void)state;
    assert_refused("{\n"
                   "  \"modle\": \"model.json\",\n"
                   "  \"data\": {\n"
                   "    \"train\": {\n"
                   "      \"format\": \"csv\",\n"
                   "      \"x\": 5,\n"
                   "      \"z\": \"y.gz\",\n"
                   "      \"scale\": -1},\n"
                   "    \"prefetch\": 1.5},\n"
                   "  \"compile\": {\n"
                   "    \"optimizer\": {\"class_name\": \"Adam\", \"config\": {\n"
                   "      \"lr\": 0.1}},\n"
                   "    \"metrics\": \"accuracy\"},\n"
                   "  \"fit\": {\n"
                   "    \"batch_size\": 0,\n"
                   "    \"epochs\": \"5\",\n"
                   "    \"shuffel\": true,\n"
                   "    \"shuffle\": 1},\n"
                   "  \"seed\": -1,\n"
                   "  \"replicas\": 0,\n"
                   "  \"placement\": {\"chunk_bytes\": 5000},\n"
                   "  \"log\": {\"level\": \"inf\"},\n"
                   "  \"cluster\": {\"lease_ms\": 150}\n"
                   "}\n",
                   NULL,
                   "job.json:1:1: model: required, but missing\n"
                   "job.json:2:3: modle: unknown key; did you mean \"model\"?\n"
                   "job.json:4:14: data.train.y: required, but missing\n"
                   "job.json:5:17: data.train.format: must be \"idx\", not \"csv\"\n"
                   "job.json:6:12: data.train.x: must be a string, not 5\n"
                   "job.json:7:7: data.train.z: unknown key; `weir help job` lists the keys\n"
                   "job.json:8:16: data.train.scale: must be a number > 0, or null, not -1\n"
                   "job.json:9:17: data.prefetch: must be an integer from 1 to 64, not 1.5\n"
                   "job.json:10:14: compile.loss: required, but missing\n"
                   "job.json:12:7: compile.optimizer.config.lr: unknown key; did you mean \"learning_rate\"?\n"
                   "job.json:13:16: compile.metrics: must be a list ([...]), not \"accuracy\"\n"
                   "job.json:15:19: fit.batch_size: must be an integer from 1 to 16777216, not 0\n"
                   "job.json:16:15: fit.epochs: must be an integer from 1 to 1000000, not \"5\"\n"
                   "job.json:17:5: fit.shuffel: unknown key; did you mean \"shuffle\"?\n"
                   "job.json:18:16: fit.shuffle: must be true or false, not 1\n"
                   "job.json:19:11: seed: must be an integer from 0 to 9223372036854775807, not -1\n"
                   "job.json:20:15: replicas: must be an integer from 1 to 65536, or null, not 0\n"
                   "job.json:21:32: placement.chunk_bytes: must be an integer from 4096 to 4194304, a multiple of "
                   "4096, not 5000\n"
                   "job.json:22:20: log.level: must be \"error\", \"warning\", \"info\" or \"debug\", not \"inf\"; did "
                   "you mean \"info\"?\n"
                   "job.json:23:27: cluster.lease_ms: a lease of 150 ms must be at least twice the heartbeat of 100 "
                   "ms, or live processes are taken for lost\n");
}

static void what_is_not_there_yet_is_said_so(void **state)
{
    (void)state;
    assert_refused(JOB_WITH(",\n\"strategy\": \"allreduce\""), NULL,
                   "job.json:4:13: strategy: \"allreduce\" is not there yet; it can be \"ps\"\n");
    assert_refused(JOB_WITH(",\n\"strategy\": {\"name\": \"allreduce\"}"), NULL,
                   "job.json:4:22: strategy.name: \"allreduce\" is not there yet; it can be \"ps\"\n");
    assert_refused(
        JOB_WITH(",\n\"threads_per_replica\": 4"), NULL,
        "job.json:4:24: threads_per_replica: must be 1, not 4: one thread computes a replica in this version; "
        "a worker that hosts several replicas computes them on several threads\n");
    assert_refused(JOB_WITH(",\n\"device\": \"cuda\""), NULL,
                   "job.json:4:11: device: \"cuda\" is not built in; it can be \"auto\" or \"cpu\"\n");
    assert_refused(JOB_WITH(",\n\"snapshot\": {\"dir\": \"s\"}"), NULL,
                   "job.json:4:1: snapshot: not supported by this version\n");
}

static void keys_of_another_place_are_pointed_to(void **state)
{
    (void)state;
    assert_refused(JOB_WITH(",\n\"epochs\": 3,\n\"level\": 1"), NULL,
                   "job.json:4:1: epochs: unknown key; did you mean \"fit.epochs\"?\n"
                   "job.json:5:1: level: unknown key; did you mean \"log.level\"?\n");
    assert_refused(
        JOB_WITH(",\n\"fit.epochs\": 3"), NULL,
        "job.json:4:1: fit.epochs: unknown key; in a file, what a dot separates is an object in an object\n");
}

static void objects_must_be_objects(void **state)
{
    (void)state;
    assert_refused("{\"model\": " MODEL ",\n\"data\": null,\n\"compile\": [],\n\"fit\": 5}", NULL,
                   "job.json:2:9: data: must be an object, not null\n"
                   "job.json:3:12: compile: must be an object, not a list\n"
                   "job.json:4:8: fit: must be an object, not 5\n");
    assert_refused("{\"model\": [],\n\"data\": {\"train\": 1},\n\"compile\": {\"loss\": 1}}", NULL,
                   "job.json:1:11: model: must be a file's path or a model's object, not a list\n"
                   "job.json:2:19: data.train: must be an object, not 1\n"
                   "job.json:3:21: compile.loss: must be the name of a Keras loss or {\"class_name\": ..., \"config\": "
                   "...}, not 1\n");
}

static void columns_count_characters(void **state)
{
    (void)state;
    assert_refused(JOB_WITH(",\n\"é☃\": 1, \"name\": \"\""), NULL,
                   "job.json:4:1: é☃: unknown key; `weir help job` lists the keys\n"
                   "job.json:4:18: name: must not be empty\n");
}

static void names_must_fit_into_file_names(void **state)
{
    (void)state;
    assert_refused(JOB_WITH(",\n\"name\": \"a/b\""), NULL,
                   "job.json:4:9: name: must be fit for a file's name: at most 64 bytes, no space or '/', no '.' or "
                   "'-' at the start; not \"a/b\"\n");
}

static void long_values_are_cut(void **state)
{
    (void)state;
    assert_refused(
        JOB_WITH(",\n\"device\": \"0123456789012345678901234567890123456789012345678901234567890123456789\""), NULL,
        "job.json:4:11: device: must be \"auto\" or \"cpu\", not "
        "\"012345678901234567890123456789012345678901234567890123456789\"...\n");
}

static void flags_stand_in_for_positions(void **state)
{
    (void)state;
    const char *const sets[] = {"fit..x=1",
                                "model.a=1",
                                "data.train={\"format\":1",
                                "seed.x=1",
                                "epochs=3",
                                "snapshot.dir=x",
                                "compile.optimizer.config.lr=1",
                                "fit.epochs=x",
                                "fit.steps_per_epoch=0",
                                "strategy.name=foo",
                                "device=cuda",
                                NULL};
    assert_refused(JOB_WITH(",\n\"seed\": 1, \"fit\": {\"batch_size\": 0}"), sets,
                   "job.json:4:34: fit.batch_size: must be an integer from 1 to 16777216, not 0\n"
                   "--set: \"fit..x\" is not a key; write it as in fit.epochs\n"
                   "--set: model.a: \"model\" can only be set as a whole\n"
                   "--set: data.train: the value is not JSON: '}' expected near end of file\n"
                   "--set: seed.x: \"seed\" is 1, not an object\n"
                   "--set: epochs: unknown key; did you mean \"fit.epochs\"?\n"
                   "--set: snapshot: not supported by this version\n"
                   "--set: compile.optimizer.config.lr: unknown key; did you mean \"learning_rate\"?\n"
                   "--set: fit.epochs: must be an integer from 1 to 1000000, not \"x\"\n"
                   "--set: fit.steps_per_epoch: must be an integer from 1 to 2147483647, or null, not 0\n"
                   "--set: strategy.name: must be \"ps\", not \"foo\"\n"
                   "--set: device: \"cuda\" is not built in; it can be \"auto\" or \"cpu\"\n");
}

static void a_named_flag_is_named(void **state)
{
    (void)state;
    write_text("job.json", JOB_WITH(""));
    const struct weir_override override = {.key = "fit.epochs", .value = "many", .flag = "--epochs"};
    struct weir_job job;
    struct weir_problems problems = {0};
    assert_false(weir_job_load(&job, "job.json", &override, 1, NULL, &problems));
    assert_lines(&problems, "--epochs: fit.epochs: must be an integer from 1 to 1000000, not \"many\"\n");
    weir_problems_free(&problems);
    weir_job_free(&job);
}

static void an_empty_data_folder_is_refused(void **state)
{
    (void)state;
    write_text("job.json", JOB_WITH(",\n\"x\": 1"));
    struct weir_job job;
    struct weir_problems problems = {0};
    assert_false(weir_job_load(&job, "job.json", NULL, 0, "", &problems));
    assert_lines(&problems, "job.json:4:1: x: unknown key; `weir help job` lists the keys\n"
                            "--data: the folder's name is empty\n");
    weir_problems_free(&problems);
    weir_job_free(&job);
}

/* ---- files */

static void assert_file_refused(const char *path, const char *expected)
{
    struct weir_job job;
    struct weir_problems problems = {0};
    assert_false(weir_job_load(&job, path, NULL, 0, NULL, &problems));
    assert_lines(&problems, expected);
    weir_problems_free(&problems);
    weir_job_free(&job);
}

static void files_that_cannot_be_a_job_are_refused(void **state)
{
    (void)state;
    assert_file_refused("none.json", "none.json: can't read the job file: No such file or directory\n");
    assert_file_refused("/tmp", "/tmp: can't read the job file: it is a folder\n");
    assert_file_refused("/dev/zero", "/dev/zero: can't read the job file: it is no regular file\n");
    assert_int_equal(mkfifo("pipe.json", 0600), 0); /* opened plainly, it would wait for a writer */
    assert_file_refused("pipe.json", "pipe.json: can't read the job file: it is no regular file\n");
    write_text("empty.json", "");
    assert_file_refused("empty.json", "empty.json: can't read the job file: it is empty\n");
    write_bytes("nul.json", "{\"a\0\":1}", 9);
    assert_file_refused("nul.json", "nul.json:1:3: not JSON: control character 0x0 near '\"a'\n");
    write_text("utf.json", "{\"a\xff\":1}");
    assert_file_refused("utf.json", "utf.json:1:3: not JSON: unable to decode byte 0xff near '\"a'\n");
    char *large = malloc((1 << 20) + 1);
    memset(large, ' ', (1 << 20) + 1);
    memcpy(large, "{}", 2);
    write_bytes("large.json", large, (1 << 20) + 1);
    assert_file_refused("large.json", "large.json: can't read the job file: it is larger than 1 MiB\n");
    write_bytes("limit.json", large, 1 << 20);
    assert_file_refused("limit.json", "limit.json:1:1: model: required, but missing\n"
                                      "limit.json:1:1: data.train: required, but missing\n"
                                      "limit.json:1:1: compile.loss: required, but missing\n");
    free(large);
}

static void a_model_file_is_checked_too(void **state)
{
    (void)state;
    const char *job =
        "{\"model\": \"m.json\",\n\"data\": {\"train\": {\"format\": \"idx\", \"x\": \"x\", \"y\": \"y\"}},\n"
        "\"compile\": {\"loss\": \"mse\"}, \"seed\": -1}";
    assert_refused(job, NULL,
                   "job.json:1:11: model: can't read m.json: No such file or directory\n"
                   "job.json:3:37: seed: must be an integer from 0 to 9223372036854775807, not -1\n");
    assert_int_equal(mkfifo("m.json", 0600), 0);
    assert_refused(job, NULL,
                   "job.json:1:11: model: can't read m.json: it is no regular file\n"
                   "job.json:3:37: seed: must be an integer from 0 to 9223372036854775807, not -1\n");
    assert_int_equal(unlink("m.json"), 0);
    write_text("m.json", "{\"class_name\": \"Sequential\",\n\"config\": {");
    assert_refused(job, NULL,
                   "job.json:3:37: seed: must be an integer from 0 to 9223372036854775807, not -1\n"
                   "m.json:2:12: the JSON ends too early: the file seems to be cut short\n");
    write_text("m.json", "[]");
    assert_refused(job, NULL,
                   "job.json:3:37: seed: must be an integer from 0 to 9223372036854775807, not -1\n"
                   "m.json:1:1: must be an object ({...}), not a list\n");
    assert_int_equal(unlink("m.json"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_errors_of_a_file_come_at_once_sorted),
        cmocka_unit_test(what_is_not_there_yet_is_said_so),
        cmocka_unit_test(keys_of_another_place_are_pointed_to),
        cmocka_unit_test(objects_must_be_objects),
        cmocka_unit_test(columns_count_characters),
        cmocka_unit_test(names_must_fit_into_file_names),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(flags_stand_in_for_positions),
        cmocka_unit_test(a_named_flag_is_named),
        cmocka_unit_test(an_empty_data_folder_is_refused),
        cmocka_unit_test(files_that_cannot_be_a_job_are_refused),
        cmocka_unit_test(a_model_file_is_checked_too),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
