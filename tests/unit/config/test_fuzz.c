/* Whatever is in a file, a flag or TF_CONFIG: no crash, and a text that isn't taken is explained. */
#include "support.h"

#include <sys/mman.h>

#include "base/random.h"

#define ROUNDS 3000
#define TEXT_BYTES 4096

static const char *const jobs[] = {
    JOB_WITH(""),
    JOB_WITH(",\"fit\":{\"epochs\":3,\"shuffle\":false},\"strategy\":{\"name\":\"ps\"},\"seed\":7,\"log\":{\"level\":"
             "\"debug\"}"),
    JOB_COMPILE("\"loss\":{\"class_name\":\"BinaryCrossentropy\",\"config\":{\"label_smoothing\":0.1,\"axis\":-1}},"
                "\"optimizer\":{\"class_name\":\"Adam\",\"config\":{\"learning_rate\":1e-3,\"clipnorm\":null}},"
                "\"metrics\":[\"acc\",{\"class_name\":\"BinaryAccuracy\",\"config\":{\"threshold\":0.5}}]"),
};

static const char *const clusters[] = {
    "{\"cluster\":{\"chief\":[\"a:1\"],\"worker\":[\"b:1\",\"[::1]:2\"],\"ps\":{\"0\":\"c:1\",\"5\":\"d:1\"}},"
    "\"task\":{\"type\":\"worker\",\"index\":\"1\"},\"environment\":\"cloud\"}",
    "{\"cluster\":{\"worker\":{\"3\":\"b:1\"},\"ps\":[\"c:1\"]},\"task\":{\"type\":\"evaluator\"},\"rpc_layer\":"
    "\"grpc\"}",
};

static const char *const pieces[] = {
    "{",      "}",  "[",  "]",      "\"",     ":",  ",",     "null",    "true", "-1",   "1e308",
    "1e-400", "0",  "\\", "\"a\":", "{}",     "[]", "\\u00", "\\ud800", "\xff", "\xc2", "99999999999999",
    "\"\"",   "\n", "\t", "name",   "config", "::", "."};

struct dice {
    struct weir_random_key key;
    uint64_t count;
};

static uint32_t roll(struct dice *dice, size_t sides)
{
    uint32_t out[4];
    weir_random_block(dice->key, dice->count++, 0, out);
    return out[0] % (uint32_t)sides;
}

static void splice(char *text, size_t *length, size_t at, size_t removed, const char *with, size_t with_length)
{
    if (*length - removed + with_length >= TEXT_BYTES)
        return;
    memmove(text + at + with_length, text + at + removed, *length - at - removed);
    memcpy(text + at, with, with_length);
    *length += with_length - removed;
    text[*length] = '\0';
}

/* A few changes: bytes flipped, runs cut out or doubled, pieces of JSON thrown in, the end cut off. */
static size_t mutate(struct dice *dice, char *text, size_t length)
{
    for (uint32_t i = 0, count = 1 + roll(dice, 5); i < count && length > 1; i++) {
        size_t at = roll(dice, length), run = 1 + roll(dice, length - at < 20 ? length - at : 20);
        const char *piece = pieces[roll(dice, sizeof pieces / sizeof pieces[0])];
        char copy[32];
        switch (roll(dice, 6)) {
        case 0:
            text[at] = (char)(1 + roll(dice, 255));
            break;
        case 1:
            splice(text, &length, at, run, "", 0);
            break;
        case 2:
            memcpy(copy, text + at, run);
            splice(text, &length, roll(dice, length), 0, copy, run);
            break;
        case 3:
            splice(text, &length, at, 0, piece, strlen(piece));
            break;
        case 4:
            splice(text, &length, at, run, piece, strlen(piece));
            break;
        default:
            if (roll(dice, 8) == 0)
                splice(text, &length, at, length - at, "", 0);
        }
    }
    return length;
}

static void check_problems(bool good, struct weir_problems *problems, const char *text)
{
    if (good != (problems->count == 0))
        fail_msg("%s with %zu problems: %s", good ? "taken" : "refused", problems->count, text);
    weir_problems_free(problems);
}

/* Thousands of files in memory: a disk would be the slow part. */
static void no_job_file_crashes(void **state)
{
    (void)state;
    char path[64];
    int fd = memfd_create("job", 0);
    assert_true(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct dice dice = {.key = weir_random_key(seed, WEIR_RANDOM_TEST, 1, 0)};
        char text[TEXT_BYTES];
        size_t length = (size_t)snprintf(text, sizeof text, "%s", jobs[seed % 3]);
        length = mutate(&dice, text, length);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, text, length, 0), length);
        struct weir_job job;
        struct weir_problems problems = {0};
        bool good = weir_job_load(&job, path, NULL, 0, NULL, &problems);
        check_problems(good, &problems, text);
        assert_int_equal(good, job.canonical != NULL);
        weir_job_free(&job);
    }
    close(fd);
}

static void no_tf_config_crashes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct dice dice = {.key = weir_random_key(seed, WEIR_RANDOM_TEST, 2, 0)};
        char text[TEXT_BYTES];
        size_t length = (size_t)snprintf(text, sizeof text, "%s", clusters[seed % 2]);
        mutate(&dice, text, length);
        struct weir_cluster cluster;
        struct weir_problems problems = {0};
        bool good = weir_cluster_parse(&cluster, text, &problems);
        check_problems(good, &problems, text);
        weir_cluster_free(&cluster);
    }
}

static void no_flag_crashes(void **state)
{
    (void)state;
    static const char *const keys[] = {"fit.epochs",          "compile.optimizer.config.learning_rate",
                                       "strategy.name.x",     "data",
                                       "compile.metrics",     "model",
                                       "compile.loss.config", "seed.a.b",
                                       "data.validation.x",   "a.b.c.d"};
    static const char *const values[] = {"1", "{\"class_name\":\"Adam\",\"config\":{}}", "adam", "[1,{}]", "null",
                                         "{}"};
    write_text("job.json", jobs[1]);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct dice dice = {.key = weir_random_key(seed, WEIR_RANDOM_TEST, 3, 0)};
        char key[4][TEXT_BYTES], value[4][TEXT_BYTES];
        struct weir_override overrides[4];
        size_t count = 1 + roll(&dice, 4);
        for (size_t i = 0; i < count; i++) {
            size_t key_length = (size_t)snprintf(key[i], TEXT_BYTES, "%s", keys[roll(&dice, 10)]);
            size_t value_length = (size_t)snprintf(value[i], TEXT_BYTES, "%s", values[roll(&dice, 6)]);
            if (roll(&dice, 3) == 0)
                mutate(&dice, key[i], key_length);
            if (roll(&dice, 2) == 0)
                mutate(&dice, value[i], value_length);
            overrides[i] = (struct weir_override){.key = key[i], .value = value[i], .flag = "--set"};
        }
        struct weir_job job;
        struct weir_problems problems = {0};
        bool good = weir_job_load(&job, "job.json", overrides, count, NULL, &problems);
        check_problems(good, &problems, key[0]);
        weir_job_free(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_job_file_crashes),
        cmocka_unit_test(no_tf_config_crashes),
        cmocka_unit_test(no_flag_crashes),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
