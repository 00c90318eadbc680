#include "support.h"

#include <sys/stat.h>

#include "base/log.h"

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    struct weir_job job = good_job(JOB_WITH(""), NULL);
    assert_int_equal(job.prefetch, 2);
    assert_int_equal(job.optimizer.kind, WEIR_OPTIMIZER_RMSPROP);
    assert_true(job.optimizer.learning_rate == .001 && job.optimizer.rho == .9);
    assert_int_equal(job.metric_count, 0);
    assert_int_equal(job.batch_size, 32);
    assert_int_equal(job.epochs, 1);
    assert_int_equal(job.steps_per_epoch, 0);
    assert_true(job.shuffle);
    assert_false(job.drop_remainder);
    assert_int_equal(job.seed, 0);
    assert_int_equal(job.replicas, 0);
    assert_int_equal(job.threads_per_replica, 1);
    assert_string_equal(job.strategy, "ps");
    assert_int_equal(job.chunk_bytes, 1 << 20);
    assert_int_equal(job.lanes, 0);
    assert_string_equal(job.device, "auto");
    assert_int_equal(job.start_timeout_s, 600);
    assert_int_equal(job.heartbeat_ms, 100);
    assert_int_equal(job.lease_ms, 1000);
    assert_int_equal(job.min_workers, 1);
    assert_true(job.max_restarts == 5 && job.restart_window_s == 600);
    assert_int_equal(job.log_level, WEIR_LOG_INFO);
    assert_false(job.log_json);
    assert_false(job.validation.present);
    assert_true(job.train.present);
    assert_true(job.train.scale == 0);
    assert_string_equal(job.train.format, "idx");
    weir_job_free(&job);
}

static void every_key_arrives(void **state)
{
    (void)state;
    struct weir_job job = good_job(
        "{\"name\":\"n1\",\"model\":" MODEL
        ",\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"a\",\"y\":\"b\",\"scale\":0.5},"
        "\"validation\":{\"format\":\"idx\",\"x\":\"/c\",\"y\":\"d\",\"scale\":2},\"prefetch\":7},"
        "\"compile\":{\"optimizer\":\"sgd\",\"loss\":\"mse\",\"metrics\":[\"mae\"]},"
        "\"fit\":{\"batch_size\":9,\"epochs\":8,\"steps_per_epoch\":6,\"shuffle\":false,\"drop_remainder\":true},"
        "\"seed\":9223372036854775807,\"replicas\":5,\"threads_per_replica\":1,\"strategy\":{\"name\":\"ps\"},"
        "\"placement\":{\"chunk_bytes\":4096,\"lanes\":3},\"device\":\"cpu\","
        "\"cluster\":{\"start_timeout_s\":1,\"heartbeat_ms\":20,\"lease_ms\":50,\"min_workers\":3,"
        "\"max_restarts\":0,\"restart_window_s\":60},"
        "\"log\":{\"level\":\"debug\",\"format\":\"json\"}}",
        NULL);
    assert_string_equal(job.name, "n1");
    assert_true(job.train.scale == .5 && job.validation.scale == 2 && job.validation.present);
    assert_string_equal(job.validation.x, "/c");
    assert_int_equal(job.prefetch, 7);
    assert_int_equal(job.optimizer.kind, WEIR_OPTIMIZER_SGD);
    assert_int_equal(job.metrics[0].kind, WEIR_METRIC_MEAN_ABSOLUTE_ERROR);
    assert_int_equal(job.batch_size, 9);
    assert_int_equal(job.epochs, 8);
    assert_int_equal(job.steps_per_epoch, 6);
    assert_true(!job.shuffle && job.drop_remainder);
    assert_true(job.seed == INT64_MAX);
    assert_int_equal(job.replicas, 5);
    assert_int_equal(job.threads_per_replica, 1);
    assert_string_equal(job.strategy, "ps");
    assert_int_equal(job.chunk_bytes, 4096);
    assert_int_equal(job.lanes, 3);
    assert_string_equal(job.device, "cpu");
    assert_int_equal(job.start_timeout_s, 1);
    assert_int_equal(job.heartbeat_ms, 20);
    assert_int_equal(job.lease_ms, 50);
    assert_int_equal(job.min_workers, 3);
    assert_true(job.max_restarts == 0 && job.restart_window_s == 60);
    assert_int_equal(job.log_level, WEIR_LOG_DEBUG);
    assert_true(job.log_json);
    weir_job_free(&job);
}

static void flags_replace_keys_and_are_checked_like_them(void **state)
{
    (void)state;
    const char *const sets[] = {"fit.epochs=3",
                                "compile.optimizer.config.learning_rate=0.5", /* into the default's name */
                                "compile.loss.config.name=x",                 /* into a name of the file */
                                "device=cpu",
                                "name=5", /* stays text */
                                "data.validation={\"format\":\"idx\",\"x\":\"vx\",\"y\":\"vy\"}",
                                "data.validation.scale=0.25",
                                "fit.epochs=4", /* the last one counts */
                                NULL};
    struct weir_job job = good_job(JOB_WITH(",\"fit\":{\"epochs\":7}"), sets);
    assert_int_equal(job.epochs, 4);
    assert_int_equal(job.optimizer.kind, WEIR_OPTIMIZER_RMSPROP);
    assert_true(job.optimizer.learning_rate == .5 && job.optimizer.rho == .9);
    assert_int_equal(job.loss.kind, WEIR_LOSS_MEAN_SQUARED_ERROR);
    assert_string_equal(job.device, "cpu");
    assert_string_equal(job.name, "5");
    assert_true(job.validation.present && job.validation.scale == .25);
    assert_string_equal(job.validation.y, "vy");
    weir_job_free(&job);
    const char *const none[] = {"data.validation=null", NULL};
    job = good_job(JOB_WITH(""), none);
    assert_false(job.validation.present);
    weir_job_free(&job);
}

static void a_flag_may_complete_a_file(void **state)
{
    (void)state;
    const char *const sets[] = {"model=" MODEL,   "data.train.format=idx", "data.train.x=x",
                                "data.train.y=y", "compile.loss=mse",      NULL};
    struct weir_job job = good_job("{}", sets);
    assert_string_equal(job.model_json, MODEL);
    weir_job_free(&job);
}

static void named_flags_are_rows_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(weir_job_flag_key("--epochs"), "fit.epochs");
    assert_string_equal(weir_job_flag_key("--batch-size"), "fit.batch_size");
    assert_string_equal(weir_job_flag_key("--replicas"), "replicas");
    assert_string_equal(weir_job_flag_key("--seed"), "seed");
    assert_string_equal(weir_job_flag_key("--strategy"), "strategy");
    assert_string_equal(weir_job_flag_key("--device"), "device");
    assert_string_equal(weir_job_flag_key("--log-level"), "log.level");
    assert_null(weir_job_flag_key("--nonsense"));
}

static bool load_at(struct weir_job *job, const char *path, const char *data_dir)
{
    struct weir_problems problems = {0};
    bool good = weir_job_load(job, path, NULL, 0, data_dir, &problems);
    weir_problems_free(&problems);
    return good;
}

static void paths_start_at_the_job_file(void **state)
{
    (void)state;
    assert_int_equal(mkdir("my job", 0700), 0);
    write_text("my job/model.json", MODEL "\n");
    write_text(
        "my job/j.json",
        "{\"model\":\"model.json\",\"data\":{\"train\":{\"format\":\"idx\",\"x\":\"sub/x.gz\",\"y\":\"/abs/y.gz\"}},"
        "\"compile\":{\"loss\":\"mse\"}}");
    struct weir_job job;
    assert_true(load_at(&job, "my job/j.json", NULL));
    assert_string_equal(job.model_path, "my job/model.json");
    assert_string_equal(job.model_json, MODEL "\n");
    assert_int_equal(job.model_bytes, strlen(MODEL) + 1);
    assert_string_equal(job.train.x, "my job/sub/x.gz");
    assert_string_equal(job.train.y, "/abs/y.gz");
    assert_string_equal(job.name, "my_job"); /* the folder's name, made fit for file names */
    weir_job_free(&job);
    assert_true(load_at(&job, "my job/j.json", "elsewhere"));
    assert_string_equal(job.train.x, "elsewhere/x.gz");
    assert_string_equal(job.train.y, "elsewhere/y.gz");
    weir_job_free(&job);
}

static void assert_same_hash(const char *a, const char *const *sets_a, const char *b, const char *const *sets_b,
                             bool same)
{
    struct weir_job first = good_job(a, sets_a), second = good_job(b, sets_b);
    assert_int_equal(strcmp(first.hash, second.hash) == 0, same);
    char text[256];
    weir_job_differences(first.canonical, second.canonical, text, sizeof text);
    assert_int_equal(text[0] == '\0', same);
    weir_job_free(&first);
    weir_job_free(&second);
}

static void the_hash_covers_what_matters(void **state)
{
    (void)state;
    const char *const matter[] = {"fit.epochs=2",
                                  "fit.batch_size=31",
                                  "fit.steps_per_epoch=1",
                                  "fit.shuffle=false",
                                  "fit.drop_remainder=true",
                                  "seed=1",
                                  "replicas=1",
                                  "data.train.scale=1",
                                  "data.validation={\"format\":\"idx\",\"x\":\"x\",\"y\":\"y\"}",
                                  "compile.optimizer.config.learning_rate=0.0010000000474974513",
                                  "compile.optimizer=adam",
                                  "compile.loss=bce",
                                  "compile.metrics=[\"mse\"]",
                                  "placement.chunk_bytes=8192",
                                  "model={\"class_name\":\"Functional\"}"};
    for (size_t i = 0; i < sizeof matter / sizeof matter[0]; i++) {
        const char *const sets[] = {matter[i], NULL};
        assert_same_hash(JOB_WITH(""), NULL, JOB_WITH(""), sets, false);
    }
}

static void the_hash_leaves_out_where_and_how_it_is_written(void **state)
{
    (void)state;
    const char *const equal[] = {"name=other",
                                 "data.train.x=/else/where",
                                 "cluster.lease_ms=2000",
                                 "log.level=debug",
                                 "fit.epochs=1",
                                 "strategy={\"name\":\"ps\"}",
                                 "compile.optimizer=RMSprop",
                                 "compile.optimizer={\"class_name\":\"RMSprop\",\"config\":{\"rho\":0.90}}",
                                 "compile.loss=MeanSquaredError",
                                 "model={\"class_name\": \"Sequential\",\n \"config\": {}}"};
    for (size_t i = 0; i < sizeof equal / sizeof equal[0]; i++) {
        const char *const sets[] = {equal[i], NULL};
        assert_same_hash(JOB_WITH(""), NULL, JOB_WITH(""), sets, true);
    }
    const char *spaced =
        "{ \"data\": {\"train\": {\"y\":\"q\", \"x\":\"p\", \"format\":\"idx\"}},\n\n"
        "\"compile\": {\"loss\":\"mse\"}, \"model\" : {\"class_name\": \"Sequential\", \"config\": {}}}";
    assert_same_hash(JOB_WITH(""), NULL, spaced, NULL, true);
}

/* Each line is JSON of one key, sorted: other tools can read and compare it. */
static void the_canonical_text_is_sorted_lines(void **state)
{
    (void)state;
    struct weir_job job = good_job(JOB_WITH(""), NULL);
    const char *begin = "{\"compile.loss.class_name\":\"MeanSquaredError\"}\n"
                        "{\"compile.metrics\":[]}\n"
                        "{\"compile.optimizer.class_name\":\"RMSprop\"}\n"
                        "{\"compile.optimizer.config.centered\":false}\n"
                        "{\"compile.optimizer.config.clipnorm\":null}\n";
    assert_memory_equal(job.canonical, begin, strlen(begin));
    assert_non_null(strstr(job.canonical, "\n{\"compile.optimizer.config.epsilon\":1e-07}\n"));
    assert_non_null(strstr(job.canonical, "\n{\"data.validation\":null}\n"));
    assert_non_null(strstr(job.canonical, "\n{\"fit.batch_size\":32}\n"));
    assert_null(strstr(job.canonical, "x.gz"));
    weir_job_free(&job);
}

static void differences_name_the_keys(void **state)
{
    (void)state;
    const char *const sets[] = {"fit.batch_size=64", "seed=7", "compile.optimizer.config.learning_rate=1", NULL};
    struct weir_job here = good_job(JOB_WITH(""), sets), there = good_job(JOB_WITH(""), NULL);
    char text[512];
    weir_job_differences(here.canonical, there.canonical, text, sizeof text);
    assert_string_equal(text, "compile.optimizer.config.learning_rate: 1 here, 0.001 there; "
                              "fit.batch_size: 64 here, 32 there; seed: 7 here, 0 there");
    weir_job_differences(here.canonical, there.canonical, text, 20);
    assert_string_equal(text, "compile.optimizer.c");
    weir_job_differences("{\"a\":1}\n", "{\"b\":2}\n", text, sizeof text);
    assert_string_equal(text, "a: 1 here, nothing there; b: nothing here, 2 there");
    weir_job_free(&here);
    weir_job_free(&there);
}

/* The other text comes over the network. */
static void differences_survive_any_text(void **state)
{
    (void)state;
    const char *const texts[] = {"", "\n\n\n", "{\"", "{\"\":}", "\":", "{\":}", "}", "x\033[31m", "{\"a\":1}"};
    const size_t count = sizeof texts / sizeof texts[0];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            char text[64];
            weir_job_differences(texts[i], texts[j], text, sizeof text);
            assert_null(strchr(text, '\033'));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(every_key_arrives),
        cmocka_unit_test(flags_replace_keys_and_are_checked_like_them),
        cmocka_unit_test(a_flag_may_complete_a_file),
        cmocka_unit_test(named_flags_are_rows_of_the_table),
        cmocka_unit_test(paths_start_at_the_job_file),
        cmocka_unit_test(the_hash_covers_what_matters),
        cmocka_unit_test(the_hash_leaves_out_where_and_how_it_is_written),
        cmocka_unit_test(the_canonical_text_is_sorted_lines),
        cmocka_unit_test(differences_name_the_keys),
        cmocka_unit_test(differences_survive_any_text),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
