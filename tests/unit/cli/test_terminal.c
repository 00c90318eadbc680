/* What a person sees: the bytes that go to a terminal, shown by a small terminal of our own.
 *
 * `unit_cli_test_terminal demo` plays three epochs in half a minute, for a look at it. */
#include "cli/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/live.h"
#include "screen.h"

#define S WEIR_NS_PER_S
#define MS WEIR_NS_PER_MS
#define LOGGERS 4
#define LOG_LINES 200

static struct weir_progress at(uint32_t epoch, uint64_t step)
{
    return (struct weir_progress){
        .phase = WEIR_PROGRESS_TRAINING,
        .epoch = epoch,
        .epochs = 3,
        .step = step,
        .steps_per_epoch = 938,
        .samples = ((epoch - 1) * 938 + step) * 64,
        .values = {{"loss", 2.3 / (double)(epoch + step / 938.0)}, {"accuracy", 0.9 - 0.5 / (double)(step + 1)}},
        .value_count = 2,
    };
}

static void end_epoch(uint32_t epoch, uint64_t now_ns)
{
    struct weir_progress progress = at(epoch, 938);
    progress.epoch_ended = true;
    progress.values[2] = (struct weir_progress_value){"val_loss", 0.31};
    progress.values[3] = (struct weir_progress_value){"val_accuracy", 0.89};
    progress.value_count = 4;
    weir_progress_update(&progress, now_ns);
}

static int play_three_epochs(void)
{
    weir_log_setup(WEIR_LOG_INFO, false, "chief");
    weir_progress_start(weir_live_possible(STDERR_FILENO) ? WEIR_PROGRESS_LIVE : WEIR_PROGRESS_PLAIN);
    struct weir_progress waits = {.phase = WEIR_PROGRESS_WAITING,
                                  .waiting = "waiting for worker/1 at 127.0.0.1:2345: connection refused"};
    uint64_t now_ns = S;
    weir_progress_update(&waits, now_ns);
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        for (uint64_t step = 0; step <= 938; step++, now_ns += 5 * MS) {
            struct weir_progress progress = at(epoch, step);
            weir_progress_update(&progress, now_ns);
            if (epoch == 2 && step == 469)
                weir_log_warning("worker/1 is slow");
        }
        end_epoch(epoch, now_ns);
    }
    weir_progress_end();
    return 0;
}

static void what_stays_on_the_screen_are_epochs_and_log_lines(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    struct screen *screen = show(play_three_epochs, 120);
    assert_int_equal(screen->row, 4);
    assert_string_equal(
        screen->rows[0],
        "epoch 1/3: loss 1.1500, accuracy 0.8995, val_loss 0.3100, val_accuracy 0.8900, 12800 samples/s, 4.7 s");
    assert_non_null(strstr(screen->rows[1], "Z chief warning: worker/1 is slow"));
    assert_memory_equal(screen->rows[2], "epoch 2/3: ", 11);
    assert_memory_equal(screen->rows[3], "epoch 3/3: ", 11);
    assert_string_equal(screen->rows[4], ""); /* the live line is gone */
    free(screen);
}

/* 100 epochs of 20 ms: five of them between two drawings. The live line is left as it is. */
static int play_short_epochs(void)
{
    weir_progress_start(WEIR_PROGRESS_LIVE);
    uint64_t now_ns = S;
    for (uint32_t epoch = 1; epoch <= 100; epoch++) {
        for (uint64_t step = 0; step <= 938; step += 134, now_ns += 2 * MS) {
            struct weir_progress progress = at(epoch, step);
            weir_progress_update(&progress, now_ns);
        }
        end_epoch(epoch, now_ns);
    }
    return 0;
}

static void the_live_line_goes_on_when_epochs_are_short(void **state)
{
    (void)state;
    struct screen *screen = show(play_short_epochs, 120);
    unsigned epoch = 0;
    assert_int_equal(screen->row, 100); /* the epochs' lines are above it */
    assert_int_equal(sscanf(screen->rows[100], "epoch %u/3  ", &epoch), 1);
    assert_in_range(epoch, 90, 100);
    free(screen);
}

static int play_one_moment(void)
{
    struct weir_live live;
    weir_live_init(&live, STDERR_FILENO, false);
    weir_live_set(&live, "epoch 2/5  431/938  loss 0.2731  accuracy 0.9012  24390 samples/s  1:02 left");
    return 0;
}

static void the_live_line_never_wraps(void **state)
{
    (void)state;
    for (unsigned short columns = 1; columns < 100; columns++) {
        struct screen *screen = show(play_one_moment, columns);
        assert_int_equal(screen->row, 0);
        assert_true(strlen(screen->rows[0]) < columns || columns == 1);
        free(screen);
    }
}

static void *log_lines(void *unused)
{
    (void)unused;
    for (int i = 0; i < LOG_LINES; i++)
        weir_log_info("a line of the log");
    return NULL;
}

/* `late`: progress ends while they still log. */
static int play_with_loggers(bool late)
{
    weir_log_setup(WEIR_LOG_INFO, false, "chief");
    weir_progress_start(WEIR_PROGRESS_LIVE);
    pthread_t loggers[LOGGERS];
    for (int i = 0; i < LOGGERS; i++)
        pthread_create(&loggers[i], NULL, log_lines, NULL);
    for (uint64_t step = 0; step < 938; step++) {
        struct weir_progress progress = at(1, step);
        weir_progress_update(&progress, S + step * 100 * MS);
    }
    if (late)
        weir_progress_end();
    for (int i = 0; i < LOGGERS; i++)
        pthread_join(loggers[i], NULL);
    if (!late)
        weir_progress_end();
    return 0;
}

static int play_and_end_last(void)
{
    return play_with_loggers(false);
}

static int play_and_end_first(void)
{
    return play_with_loggers(true);
}

/* Four threads log while the line is drawn: every log line stands alone in its row. */
static void log_lines_of_all_threads_keep_clear_of_the_live_line(void **state)
{
    (void)state;
    int (*const plays[])(void) = {play_and_end_last, play_and_end_first};
    for (int i = 0; i < 10; i++) {
        struct screen *screen = show(plays[i % 2], 120);
        assert_int_equal(screen->row, LOGGERS * LOG_LINES);
        for (size_t row = 0; row < screen->row; row++)
            assert_string_equal(screen->rows[row] + strlen("2026-01-01T00:00:00.000Z "),
                                "chief info: a line of the log");
        free(screen);
    }
}

static void a_dumb_terminal_gets_no_live_line(void **state)
{
    (void)state;
    setenv("TERM", "dumb", 1);
    struct screen *screen = show(play_three_epochs, 120);
    assert_non_null(strstr(screen->rows[0], "chief info: waiting for worker/1 at 127.0.0.1:2345: connection refused"));
    assert_non_null(strstr(screen->rows[1], "chief info: epoch 1/3: loss 1.1500"));
    setenv("TERM", "xterm", 1);
    free(screen);
}

/* ---- the demo */

static void wait_until(uint64_t now_ns)
{
    while (weir_clock_ns() < now_ns)
        ;
}

static int demo(void)
{
    weir_log_setup(WEIR_LOG_INFO, false, "chief");
    weir_progress_start(weir_progress_choose(false));
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        for (uint64_t step = 0; step <= 938; step++) {
            wait_until(weir_clock_ns() + 10 * MS);
            struct weir_progress progress = at(epoch, step);
            progress.phase = step > 900 ? WEIR_PROGRESS_VALIDATING : WEIR_PROGRESS_TRAINING;
            weir_progress_update(&progress, weir_clock_ns());
            if (step % 400 == 399)
                weir_log_info("worker/1 joined");
        }
        end_epoch(epoch, weir_clock_ns());
    }
    weir_progress_end();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "demo") == 0)
        return demo();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stays_on_the_screen_are_epochs_and_log_lines),
        cmocka_unit_test(the_live_line_goes_on_when_epochs_are_short),
        cmocka_unit_test(the_live_line_never_wraps),
        cmocka_unit_test(log_lines_of_all_threads_keep_clear_of_the_live_line),
        cmocka_unit_test(a_dumb_terminal_gets_no_live_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
