#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "temp_files.h"

#define SAMPLES 200u
#define WIDTH 5u
#define ROWS_MAX 8u

static struct temp_files files;
static struct weir_dataset *dataset;

/* Sample i is i in all its elements, and its label is i. */
static int begin(void **state)
{
    (void)state;
    static char x_path[128], y_path[128];
    unsigned char bytes[SAMPLES * WIDTH + 16];
    temp_files_begin(&files);
    size_t at = idx_header(bytes, 0x08, 2, (uint32_t[]){SAMPLES, WIDTH});
    for (size_t i = 0; i < SAMPLES * WIDTH; i++)
        bytes[at + i] = (unsigned char)(i / WIDTH);
    snprintf(x_path, sizeof x_path, "%s", temp_files_write(&files, "x", bytes, at + SAMPLES * WIDTH));
    at = idx_header(bytes, 0x08, 1, (uint32_t[]){SAMPLES});
    for (size_t i = 0; i < SAMPLES; i++)
        bytes[at + i] = (unsigned char)i;
    snprintf(y_path, sizeof y_path, "%s", temp_files_write(&files, "y", bytes, at + SAMPLES));
    struct weir_data_config config = {.present = true, .format = "idx", .x = x_path, .y = y_path, .scale = 1};
    struct weir_error err;
    dataset = weir_dataset_open(&config, &err);
    return dataset ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    weir_dataset_close(dataset);
    temp_files_end(&files);
    return 0;
}

/* What the callback is told, and what it was asked. */
struct script {
    uint64_t last, empty; /* steps: the last one, and one without rows */
    pthread_mutex_t lock;
    pthread_cond_t asked;
    uint64_t newest; /* step asked for */
    unsigned calls;
};

static size_t rows_of(uint64_t step)
{
    return 1 + step % ROWS_MAX;
}

static uint64_t sample_of(uint64_t step, size_t row)
{
    return (step * 31 + row * 7) % SAMPLES;
}

static size_t tell_rows(void *context, uint64_t step, uint64_t *index)
{
    struct script *script = context;
    pthread_mutex_lock(&script->lock);
    script->newest = step;
    script->calls++;
    pthread_cond_signal(&script->asked);
    pthread_mutex_unlock(&script->lock);
    if (step > script->last || step == script->empty)
        return 0;
    for (size_t row = 0; row < rows_of(step); row++)
        index[row] = sample_of(step, row);
    return rows_of(step);
}

static struct script script_to(uint64_t last)
{
    return (struct script){
        .last = last,
        .empty = UINT64_MAX,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .asked = PTHREAD_COND_INITIALIZER,
    };
}

static void assert_batch_is(struct weir_prefetch *prefetch, uint64_t step)
{
    const float *x, *y;
    size_t rows = weir_prefetch_take(prefetch, step, &x, &y);
    assert_int_equal(rows, rows_of(step));
    for (size_t row = 0; row < rows; row++) {
        float expected = (float)sample_of(step, row);
        assert_true(y[row] == expected);
        for (size_t i = 0; i < WIDTH; i++)
            assert_true(x[row * WIDTH + i] == expected);
    }
}

static void batches_come_in_order_and_whole(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth < 5; depth++) {
        struct script script = script_to(499);
        struct weir_prefetch *prefetch = weir_prefetch_start(dataset, tell_rows, &script, 0, ROWS_MAX, depth);
        for (uint64_t step = 0; step < 500; step++)
            assert_batch_is(prefetch, step);
        const float *x, *y;
        assert_int_equal(weir_prefetch_take(prefetch, 500, &x, &y), 0);
        assert_int_equal(weir_prefetch_take(prefetch, 501, &x, &y), 0);
        weir_prefetch_stop(prefetch);
    }
}

static void another_step_restarts_there(void **state)
{
    (void)state;
    struct script script = script_to(UINT64_MAX - 1);
    struct weir_prefetch *prefetch = weir_prefetch_start(dataset, tell_rows, &script, 100, ROWS_MAX, 3);
    const uint64_t steps[] = {100, 101, 50, 51, 51, 51, 52, 1000000, 0, 2, 1, 3, 4, 5, 6, 7, 0, 0};
    for (unsigned round = 0; round < 200; round++)
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
            assert_batch_is(prefetch, steps[i]);
    weir_prefetch_stop(prefetch);
}

/* The tensors taken stay as they are, whatever is gathered meanwhile. */
static void what_is_taken_is_not_overwritten(void **state)
{
    (void)state;
    struct script script = script_to(UINT64_MAX - 1);
    struct weir_prefetch *prefetch = weir_prefetch_start(dataset, tell_rows, &script, 0, ROWS_MAX, 2);
    for (uint64_t step = 0; step < 50; step++) {
        const float *x, *y;
        size_t rows = weir_prefetch_take(prefetch, step, &x, &y);
        pthread_mutex_lock(&script.lock);
        while (script.newest < step + 2) /* all that may be ahead */
            pthread_cond_wait(&script.asked, &script.lock);
        pthread_mutex_unlock(&script.lock);
        for (size_t row = 0; row < rows; row++)
            assert_true(y[row] == (float)sample_of(step, row) && x[row * WIDTH] == y[row]);
    }
    weir_prefetch_stop(prefetch);
}

static void no_more_is_gathered_than_the_depth(void **state)
{
    (void)state;
    struct script script = script_to(UINT64_MAX - 1);
    struct weir_prefetch *prefetch = weir_prefetch_start(dataset, tell_rows, &script, 0, ROWS_MAX, 3);
    assert_batch_is(prefetch, 0);
    struct timespec end; /* time to go wrong in: 20 ms */
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 20 * 1000 * 1000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&script.lock);
    while (script.newest <= 3 && pthread_cond_timedwait(&script.asked, &script.lock, &end) == 0)
        ;
    assert_true(script.newest <= 3);
    pthread_mutex_unlock(&script.lock);
    weir_prefetch_stop(prefetch);
}

/* A worker whose replicas have no samples in one step goes on with the next. */
static void a_step_without_rows_does_not_end_the_job(void **state)
{
    (void)state;
    struct script script = script_to(100);
    script.empty = 5;
    struct weir_prefetch *prefetch = weir_prefetch_start(dataset, tell_rows, &script, 0, ROWS_MAX, 3);
    const float *x, *y;
    for (uint64_t step = 0; step < 20; step++) {
        if (step == script.empty)
            assert_int_equal(weir_prefetch_take(prefetch, step, &x, &y), 0);
        else
            assert_batch_is(prefetch, step);
    }
    weir_prefetch_stop(prefetch);
}

static void stops_at_any_time(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        struct script script = script_to(round % 3 ? UINT64_MAX - 1 : 2);
        struct weir_prefetch *prefetch = weir_prefetch_start(dataset, tell_rows, &script, 0, ROWS_MAX, 1 + round % 4);
        for (uint64_t step = 0; step < round % 5 && step <= script.last; step++)
            assert_batch_is(prefetch, step);
        weir_prefetch_stop(prefetch);
    }
    weir_prefetch_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_in_order_and_whole),
        cmocka_unit_test(another_step_restarts_there),
        cmocka_unit_test(what_is_taken_is_not_overwritten),
        cmocka_unit_test(no_more_is_gathered_than_the_depth),
        cmocka_unit_test(a_step_without_rows_does_not_end_the_job),
        cmocka_unit_test(stops_at_any_time),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
