#include "cli/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/live.h"

#define S WEIR_NS_PER_S
#define MS WEIR_NS_PER_MS

/* Epochs of 100 steps of 64 samples. */
static struct weir_progress at(uint32_t epoch, uint64_t step)
{
    return (struct weir_progress){
        .phase = WEIR_PROGRESS_TRAINING,
        .epoch = epoch,
        .epochs = 5,
        .step = step,
        .steps_per_epoch = 100,
        .samples = ((epoch - 1) * 100 + step) * 64,
        .values = {{"loss", 0.27314}, {"accuracy", 0.90125}},
        .value_count = 2,
    };
}

/* ---- lines */

static void the_line_says_where_how_good_how_fast_and_how_long(void **state)
{
    (void)state;
    struct weir_progress_pace pace = {0};
    struct weir_progress start = at(1, 0), now = at(2, 50);
    char text[512];
    weir_progress_format(&start, &pace, text, sizeof text);
    assert_string_equal(text, "epoch 1/5  0/100  loss 0.2731  accuracy 0.9012"); /* no pace yet, so no guess */
    weir_progress_pace_add(&pace, &start, 10 * S);
    weir_progress_pace_add(&pace, &now, 40 * S); /* 150 steps in 30 s; 350 are left */
    weir_progress_format(&now, &pace, text, sizeof text);
    assert_string_equal(text, "epoch 2/5  50/100  loss 0.2731  accuracy 0.9012  320 samples/s  1:10 left");
    weir_progress_format_epoch(&now, &pace, 41 * S, text, sizeof text);
    assert_string_equal(text, "epoch 2/5: loss 0.2731, accuracy 0.9012, 320 samples/s, 31.0 s");
}

static void waiting_says_for_whom(void **state)
{
    (void)state;
    struct weir_progress_pace pace = {0};
    struct weir_progress progress = {.phase = WEIR_PROGRESS_WAITING,
                                     .waiting = "waiting for worker/1 at 127.0.0.1:2345: connection refused"};
    char text[512];
    weir_progress_format(&progress, &pace, text, sizeof text);
    assert_string_equal(text, "waiting for worker/1 at 127.0.0.1:2345: connection refused");
    progress = at(1, 100);
    progress.phase = WEIR_PROGRESS_VALIDATING;
    weir_progress_format(&progress, &pace, text, sizeof text);
    assert_string_equal(text, "epoch 1/5  100/100  loss 0.2731  accuracy 0.9012  validating");
}

static void odd_numbers_stay_readable(void **state)
{
    (void)state;
    struct weir_progress_pace pace = {0};
    struct weir_progress progress = at(1, 0);
    char text[512];
    progress.values[0].value = 1.5e-7;
    progress.values[1].value = NAN;
    weir_progress_format(&progress, &pace, text, sizeof text);
    assert_string_equal(text, "epoch 1/5  0/100  loss 1.500e-07  accuracy nan");
    progress.values[0].value = 3e30;
    progress.values[1].value = 0;
    weir_progress_format(&progress, &pace, text, sizeof text);
    assert_string_equal(text, "epoch 1/5  0/100  loss 3.000e+30  accuracy 0.0000");
    char tiny[8];
    weir_progress_format(&progress, &pace, tiny, sizeof tiny);
    assert_string_equal(tiny, "epoch 1");
}

static void durations_have_units_that_fit(void **state)
{
    (void)state;
    static const struct {
        uint64_t step_ns;
        const char *says;
    } cases[] = {{S / 100, "0:05 left"}, {2 * S, "16:38 left"}, {60 * S, "8:19:00 left"}, {S * 3600, "20d 19h left"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_progress_pace pace = {0};
        struct weir_progress start = at(1, 0), one = at(1, 1);
        char text[512];
        weir_progress_pace_add(&pace, &start, 1);
        weir_progress_pace_add(&pace, &one, 1 + cases[i].step_ns);
        weir_progress_format(&one, &pace, text, sizeof text);
        if (!strstr(text, cases[i].says))
            fail_msg("%s: %s", cases[i].says, text);
    }
}

/* ---- pace */

/* After a change of speed, the old one is forgotten within six seconds. */
static void the_rate_is_the_one_of_late(void **state)
{
    (void)state;
    struct weir_progress_pace pace = {0};
    uint64_t now = S, step = 0;
    for (int i = 0; i < 100; i++, now += S / 10) {
        struct weir_progress progress = at(1, step++);
        weir_progress_pace_add(&pace, &progress, now);
    }
    assert_float_equal(weir_progress_rate(&pace), 640, 1);
    for (int i = 0; i < 62; i++, now += S / 10) {
        struct weir_progress progress = at(1, step += 3);
        weir_progress_pace_add(&pace, &progress, now);
    }
    assert_float_equal(weir_progress_rate(&pace), 1920, 1);
}

/* Replayed steps (a new generation) make no negative or enormous rate. */
static void going_back_starts_anew(void **state)
{
    (void)state;
    struct weir_progress_pace pace = {0};
    struct weir_progress a = at(3, 50), b = at(1, 10), c = at(1, 20);
    weir_progress_pace_add(&pace, &a, S);
    weir_progress_pace_add(&pace, &b, 2 * S);
    assert_true(weir_progress_rate(&pace) == 0);
    weir_progress_pace_add(&pace, &c, 3 * S);
    assert_float_equal(weir_progress_rate(&pace), 640, 1e-6);
}

/* ---- fitting */

static void a_narrow_terminal_loses_whole_fields(void **state)
{
    (void)state;
    const char *line = "epoch 2/5  50/100  loss 0.2731  accuracy 0.9012";
    static const struct {
        size_t width;
        const char *fits;
    } cases[] = {
        {80, "epoch 2/5  50/100  loss 0.2731  accuracy 0.9012"},
        {47, "epoch 2/5  50/100  loss 0.2731  accuracy 0.9012"},
        {46, "epoch 2/5  50/100  loss 0.2731"},
        {30, "epoch 2/5  50/100  loss 0.2731"},
        {29, "epoch 2/5  50/100"},
        {9, "epoch 2/5"},
        {8, "epoch 2/"},
        {0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s", line);
        weir_live_fit(text, cases[i].width);
        assert_string_equal(text, cases[i].fits);
    }
    char epoch[] = "epoch 2/5: loss 0.2731, accuracy 0.9012";
    weir_live_fit(epoch, 38);
    assert_string_equal(epoch, "epoch 2/5: loss 0.2731"); /* without the comma */
    char umlauts[] = "wei\xc3\x9f\xc3\x9f\xc3\x9f";
    weir_live_fit(umlauts, 5);
    assert_string_equal(umlauts, "wei\xc3\x9f\xc3\x9f"); /* columns, not bytes; no half character */
}

/* ---- what goes out */

static int saved_stderr = -1, pipe_end;

static void catch_stderr(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pipe_end = ends[0];
}

struct seen {
    char text[16384];
};

/* All that was written since the last call. */
static struct seen caught(void)
{
    struct seen seen;
    ssize_t count = read(pipe_end, seen.text, sizeof seen.text - 1);
    seen.text[count > 0 ? count : 0] = '\0';
    return seen;
}

static void let_stderr_go(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(pipe_end);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *found = strstr(text, part); found; found = strstr(found + 1, part))
        count++;
    return count;
}

static void drawing_is_at_most_ten_times_a_second(void **state)
{
    (void)state;
    catch_stderr();
    weir_progress_start(WEIR_PROGRESS_LIVE);
    for (uint64_t i = 0; i <= 1000; i++) {
        struct weir_progress progress = at(1, i / 11);
        weir_progress_update(&progress, S + i * MS);
    }
    size_t drawn = count_of(caught().text, "\r\x1b[Kepoch");
    weir_progress_end();
    bool erased = strcmp(caught().text, "\r\x1b[K") == 0;
    let_stderr_go();
    assert_int_equal(drawn, 11);
    assert_true(erased);
}

static void a_log_line_takes_the_live_line_off_and_puts_it_back(void **state)
{
    (void)state;
    catch_stderr();
    weir_log_setup(WEIR_LOG_INFO, false, "chief");
    weir_progress_start(WEIR_PROGRESS_LIVE);
    struct weir_progress progress = at(1, 1);
    weir_progress_update(&progress, S);
    caught();
    weir_log_info("hello");
    struct seen seen = caught();
    weir_progress_end();
    weir_log_info("after");
    caught();
    let_stderr_go();
    assert_memory_equal(seen.text, "\r\x1b[K2", 5); /* erased, then the date */
    assert_non_null(strstr(seen.text, "hello\n\r\x1b[Kepoch 1/5  1/100"));
}

static void each_epoch_leaves_a_line(void **state)
{
    (void)state;
    const enum weir_progress_mode modes[] = {WEIR_PROGRESS_LIVE, WEIR_PROGRESS_RELAY, WEIR_PROGRESS_PLAIN};
    const char *const lines[] = {"\nepoch 2/5: loss", "\x1epepoch 2/5: loss", "info: epoch 2/5: loss"};
    for (int m = 0; m < 3; m++) {
        catch_stderr();
        weir_log_setup(WEIR_LOG_INFO, false, "chief");
        weir_progress_start(modes[m]);
        for (uint32_t epoch = 1; epoch <= 2; epoch++) {
            struct weir_progress progress = at(epoch, 100);
            progress.epoch_ended = true;
            weir_progress_update(&progress, epoch * S);
        }
        struct seen seen = caught();
        weir_progress_end();
        let_stderr_go();
        if (count_of(seen.text, lines[m]) != 1 || count_of(seen.text, "epoch 1/5: loss") != 1)
            fail_msg("mode %d: %s", m, seen.text);
    }
}

/* A minute in the log: six lines, and none for phases that come and go. */
static void the_log_gets_a_line_every_ten_seconds(void **state)
{
    (void)state;
    catch_stderr();
    weir_log_setup(WEIR_LOG_INFO, false, "chief");
    weir_progress_start(WEIR_PROGRESS_PLAIN);
    for (uint64_t i = 0; i < 600; i++) {
        struct weir_progress progress = at(1, i / 7);
        if (i % 50 == 49)
            progress.phase = WEIR_PROGRESS_VALIDATING;
        weir_progress_update(&progress, S + i * S / 10 + 1);
    }
    size_t lines = count_of(caught().text, "\n");
    weir_progress_end();
    let_stderr_go();
    assert_int_equal(lines, 5);
}

static void who_is_waited_for_is_logged_at_once_then_seldom(void **state)
{
    (void)state;
    catch_stderr();
    weir_log_setup(WEIR_LOG_INFO, false, "chief");
    weir_progress_start(WEIR_PROGRESS_PLAIN);
    struct weir_progress progress = {.phase = WEIR_PROGRESS_WAITING, .waiting = "waiting for ps/0"};
    for (uint64_t i = 0; i < 250; i++)
        weir_progress_update(&progress, S + i * S / 10);
    size_t lines = count_of(caught().text, "waiting for ps/0\n");
    weir_progress_end();
    let_stderr_go();
    assert_int_equal(lines, 3);
}

static void quiet_is_quiet(void **state)
{
    (void)state;
    catch_stderr();
    weir_progress_start(WEIR_PROGRESS_QUIET);
    struct weir_progress progress = at(1, 1);
    progress.epoch_ended = true;
    weir_progress_update(&progress, S);
    weir_progress_end();
    size_t bytes = strlen(caught().text);
    let_stderr_go();
    assert_int_equal(bytes, 0);
    assert_int_equal(weir_progress_choose(true), WEIR_PROGRESS_QUIET);
}

/* ---- relay: what the chief writes into its pipe is what the parent shows */

static void frames_carry_the_line_to_the_parent(void **state)
{
    (void)state;
    catch_stderr();
    setenv("WEIR_PROGRESS", "relay", 1);
    enum weir_progress_mode mode = weir_progress_choose(false);
    unsetenv("WEIR_PROGRESS");
    weir_progress_start(mode);
    struct weir_progress progress = at(1, 1);
    weir_progress_update(&progress, S);
    weir_progress_end();
    struct seen frames = caught();
    struct weir_live live;
    weir_live_init(&live, STDERR_FILENO, false);
    char *rest = NULL, *first = strtok_r(frames.text, "\n", &rest), *last = strtok_r(NULL, "\n", &rest);
    bool taken = weir_live_take_frame(&live, first, strlen(first));
    struct seen drawn = caught();
    taken = taken && weir_live_take_frame(&live, last, strlen(last));
    bool erased = strcmp(caught().text, "\r\x1b[K") == 0;
    bool text_is_none = !weir_live_take_frame(&live, "epoch", 5) && !weir_live_take_frame(&live, "", 0);
    weir_live_end(&live);
    let_stderr_go();
    assert_int_equal(mode, WEIR_PROGRESS_RELAY);
    assert_true(taken);
    assert_non_null(strstr(drawn.text, "\r\x1b[Kepoch 1/5  1/100  loss 0.2731"));
    assert_true(erased);
    assert_true(text_is_none);
}

/* Peers' texts can be in a line: they must not steer the terminal. */
static void escape_sequences_of_others_do_not_reach_the_terminal(void **state)
{
    (void)state;
    catch_stderr();
    struct weir_live live;
    weir_live_init(&live, STDERR_FILENO, false);
    const char evil[] = "bad \x1b[2J\a\n name";
    weir_live_print(&live, evil, strlen(evil));
    weir_live_set(&live, evil);
    struct seen seen = caught();
    weir_live_end(&live);
    let_stderr_go();
    assert_string_equal(seen.text, "bad ?[2J?? name\n\r\x1b[Kbad ?[2J?? name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_says_where_how_good_how_fast_and_how_long),
        cmocka_unit_test(waiting_says_for_whom),
        cmocka_unit_test(odd_numbers_stay_readable),
        cmocka_unit_test(durations_have_units_that_fit),
        cmocka_unit_test(the_rate_is_the_one_of_late),
        cmocka_unit_test(going_back_starts_anew),
        cmocka_unit_test(a_narrow_terminal_loses_whole_fields),
        cmocka_unit_test(drawing_is_at_most_ten_times_a_second),
        cmocka_unit_test(a_log_line_takes_the_live_line_off_and_puts_it_back),
        cmocka_unit_test(each_epoch_leaves_a_line),
        cmocka_unit_test(the_log_gets_a_line_every_ten_seconds),
        cmocka_unit_test(who_is_waited_for_is_logged_at_once_then_seldom),
        cmocka_unit_test(quiet_is_quiet),
        cmocka_unit_test(frames_carry_the_line_to_the_parent),
        cmocka_unit_test(escape_sequences_of_others_do_not_reach_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
