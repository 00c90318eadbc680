#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/live.h"

#define DRAW_EVERY_NS (WEIR_NS_PER_S / 10)
#define PLAIN_EVERY_NS (10 * WEIR_NS_PER_S)
#define MARK_EVERY_NS (3 * WEIR_NS_PER_S)
#define TEXT_BYTES WEIR_LIVE_BYTES

/* The log calls back without a context, so the process's one progress is known to this file. */
static struct {
    enum weir_progress_mode mode;
    struct weir_live live;
    struct weir_progress_pace pace;
    enum weir_progress_phase phase;
    uint64_t shown_ns;
    bool updated;
    bool tells_joined; /* `weir run` waits to hear it */
    bool tells_steps;  /* `weir chaos` does */
    struct weir_progress_mark told;
    uint64_t told_view;
} screen;

/* ---- pace */

static struct weir_progress_mark mark_of(const struct weir_progress *progress, uint64_t now_ns)
{
    uint64_t epochs_done = progress->epoch > 0 ? progress->epoch - 1 : 0;
    return (struct weir_progress_mark){
        .ns = now_ns,
        .samples = progress->samples,
        .steps = epochs_done * progress->steps_per_epoch + progress->step,
    };
}

void weir_progress_pace_add(struct weir_progress_pace *pace, const struct weir_progress *progress, uint64_t now_ns)
{
    struct weir_progress_mark mark = mark_of(progress, now_ns);
    if (progress->phase != WEIR_PROGRESS_TRAINING)
        return;
    bool went_back = mark.samples < pace->last.samples || mark.steps < pace->last.steps;
    if (!pace->started || went_back)
        *pace = (struct weir_progress_pace){true, mark, mark, mark, mark};
    if (mark.samples == pace->last.samples)
        return; /* nothing done since: this may be the word after validation */
    pace->last = mark;
    if (now_ns - pace->newer.ns >= MARK_EVERY_NS) {
        pace->older = pace->newer;
        pace->newer = mark;
    }
}

/* The next epoch's time begins, and validation is not part of the rate. */
static void pace_next_epoch(struct weir_progress_pace *pace, const struct weir_progress *progress, uint64_t now_ns)
{
    struct weir_progress_mark mark = mark_of(progress, now_ns);
    uint64_t paused_ns = now_ns - pace->last.ns;
    pace->epoch_start = mark;
    pace->older.ns += paused_ns;
    pace->newer.ns += paused_ns;
    pace->last.ns = now_ns;
}

double weir_progress_rate(const struct weir_progress_pace *pace)
{
    double seconds = (double)(pace->last.ns - pace->older.ns) / (double)WEIR_NS_PER_S;
    return seconds > 0 ? (double)(pace->last.samples - pace->older.samples) / seconds : 0;
}

double weir_progress_seconds_left(const struct weir_progress_pace *pace, const struct weir_progress *progress)
{
    uint64_t all = (uint64_t)progress->epochs * progress->steps_per_epoch;
    uint64_t done = pace->last.steps, lately = done - pace->older.steps;
    if (!pace->started || lately == 0 || all < done)
        return -1;
    double seconds = (double)(pace->last.ns - pace->older.ns) / (double)WEIR_NS_PER_S;
    return seconds * (double)(all - done) / (double)lately;
}

/* ---- lines */

struct text {
    char *bytes;
    size_t at, room;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
    if (text->at >= text->room)
        return;
    va_list args;
    va_start(args, format);
    int count = vsnprintf(text->bytes + text->at, text->room - text->at, format, args);
    va_end(args);
    if (count > 0)
        text->at += (size_t)count;
}

/* Four digits after the point, or as an exponent where they would say nothing. */
static void put_value(struct text *text, const char *name, double value)
{
    double size = fabs(value);
    bool plain = value == 0 || (size >= 0.001 && size < 1e6) || !isfinite(value);
    put(text, plain ? "%s %.4f" : "%s %.3e", name, value);
}

static void put_duration(struct text *text, double seconds)
{
    double most = 999.0 * 24 * 3600;
    unsigned long s = (unsigned long)(seconds < most ? seconds + 0.5 : most);
    if (s >= 24 * 3600)
        put(text, "%lud %luh", s / (24 * 3600), s / 3600 % 24);
    else if (s >= 3600)
        put(text, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        put(text, "%lu:%02lu", s / 60, s % 60);
}

static void put_rate(struct text *text, const char *before, double rate)
{
    if (rate > 0)
        put(text, rate < 100 ? "%s%.1f samples/s" : "%s%.0f samples/s", before, rate);
}

static void put_training(struct text *text, const struct weir_progress *progress)
{
    put(text, "epoch %u/%u  %llu/%llu", progress->epoch, progress->epochs, (unsigned long long)progress->step,
        (unsigned long long)progress->steps_per_epoch);
    for (size_t i = 0; i < progress->value_count; i++) {
        put(text, "  ");
        put_value(text, progress->values[i].name, progress->values[i].value);
    }
}

void weir_progress_format(const struct weir_progress *progress, const struct weir_progress_pace *pace, char *text,
                          size_t text_bytes)
{
    struct text out = {.bytes = text, .room = text_bytes};
    text[0] = '\0';
    if (progress->phase == WEIR_PROGRESS_WAITING) {
        put(&out, "%s", progress->waiting ? progress->waiting : "waiting");
        return;
    }
    put_training(&out, progress);
    if (progress->phase == WEIR_PROGRESS_VALIDATING) {
        put(&out, "  validating");
        return;
    }
    put_rate(&out, "  ", weir_progress_rate(pace));
    double left = weir_progress_seconds_left(pace, progress);
    if (left >= 0) {
        put(&out, "  ");
        put_duration(&out, left);
        put(&out, " left");
    }
}

void weir_progress_format_epoch(const struct weir_progress *progress, const struct weir_progress_pace *pace,
                                uint64_t now_ns, char *text, size_t text_bytes)
{
    struct text out = {.bytes = text, .room = text_bytes};
    text[0] = '\0';
    put(&out, "epoch %u/%u:", progress->epoch, progress->epochs);
    for (size_t i = 0; i < progress->value_count; i++) {
        put(&out, i > 0 ? ", " : " ");
        put_value(&out, progress->values[i].name, progress->values[i].value);
    }
    const struct weir_progress_mark *start = &pace->epoch_start, *last = &pace->last;
    uint64_t samples = progress->samples - start->samples;
    if (last->ns > start->ns && progress->samples >= start->samples)
        put_rate(&out, ", ", (double)samples * (double)WEIR_NS_PER_S / (double)(last->ns - start->ns));
    if (pace->started)
        put(&out, ", %.1f s", (double)(now_ns - start->ns) / (double)WEIR_NS_PER_S);
}

/* ---- the screen */

enum weir_progress_mode weir_progress_choose(bool quiet)
{
    const char *told = getenv("WEIR_PROGRESS");
    if (quiet)
        return WEIR_PROGRESS_QUIET;
    if (told && strcmp(told, "relay") == 0)
        return WEIR_PROGRESS_RELAY;
    return weir_live_possible(STDERR_FILENO) ? WEIR_PROGRESS_LIVE : WEIR_PROGRESS_PLAIN;
}

static void hide_live_line(void)
{
    weir_live_hide(&screen.live);
}

static void show_live_line(void)
{
    weir_live_show(&screen.live);
}

static bool is_live(void)
{
    return screen.mode == WEIR_PROGRESS_LIVE || screen.mode == WEIR_PROGRESS_RELAY;
}

void weir_progress_start(enum weir_progress_mode mode)
{
    screen.mode = mode;
    screen.pace = (struct weir_progress_pace){0};
    screen.updated = false;
    const char *told = getenv("WEIR_PROGRESS");
    screen.tells_joined = told != NULL;
    screen.tells_steps = told && strcmp(told, "steps") == 0;
    if (!is_live())
        return;
    weir_live_init(&screen.live, STDERR_FILENO, mode == WEIR_PROGRESS_RELAY);
    weir_log_around(hide_live_line, show_live_line);
}

/* The log keeps calling: a thread may be between the two calls, with the lock, at this moment. */
void weir_progress_end(void)
{
    if (is_live())
        weir_live_set(&screen.live, "");
    screen.mode = WEIR_PROGRESS_QUIET;
}

static void show_epoch(const struct weir_progress *progress, uint64_t now_ns)
{
    char text[TEXT_BYTES];
    weir_progress_format_epoch(progress, &screen.pace, now_ns, text, sizeof text);
    if (is_live())
        weir_live_print_fields(&screen.live, text);
    else
        weir_log_info("%s", text);
}

static void show_line(const struct weir_progress *progress)
{
    char text[TEXT_BYTES];
    weir_progress_format(progress, &screen.pace, text, sizeof text);
    if (is_live())
        weir_live_set(&screen.live, text);
    else
        weir_log_info("%s", text);
}

static bool is_due(const struct weir_progress *progress, uint64_t now_ns, bool new_phase)
{
    if (is_live())
        return new_phase || now_ns - screen.shown_ns >= DRAW_EVERY_NS;
    return (new_phase && progress->phase == WEIR_PROGRESS_WAITING) || now_ns - screen.shown_ns >= PLAIN_EVERY_NS;
}

static void tell_step(const struct weir_progress *progress, uint64_t now_ns)
{
    struct weir_progress_mark mark = mark_of(progress, now_ns);
    if (progress->phase == WEIR_PROGRESS_WAITING || (mark.steps == screen.told.steps && screen.told.ns > 0))
        return;
    screen.told = mark;
    weir_live_tell_step(STDERR_FILENO, mark.steps, mark.samples, now_ns);
}

void weir_progress_view(uint64_t number)
{
    if (screen.tells_steps && number != screen.told_view)
        weir_live_tell_view(STDERR_FILENO, number, weir_clock_ns());
    screen.told_view = number;
}

void weir_progress_update(const struct weir_progress *progress, uint64_t now_ns)
{
    if (screen.tells_steps)
        tell_step(progress, now_ns);
    if (screen.tells_joined && progress->phase != WEIR_PROGRESS_WAITING) {
        screen.tells_joined = false;
        weir_live_tell_joined(STDERR_FILENO);
    }
    if (screen.mode == WEIR_PROGRESS_QUIET)
        return;
    bool new_phase = !screen.updated || progress->phase != screen.phase;
    if (!screen.updated)
        screen.shown_ns = now_ns; /* in the log, the first line of a long epoch comes after the usual time */
    screen.updated = true;
    screen.phase = progress->phase;
    weir_progress_pace_add(&screen.pace, progress, now_ns);
    if (progress->epoch_ended) {
        show_epoch(progress, now_ns);
        pace_next_epoch(&screen.pace, progress, now_ns);
        if (is_live())
            return; /* or epochs that are shorter than the time between two drawings would keep the live line still */
    } else if (is_due(progress, now_ns, new_phase)) {
        show_line(progress);
    } else {
        return;
    }
    screen.shown_ns = now_ns;
}
