/* How training goes, for the one who watches: a live line on a terminal, else now and then a line in the log.
 *
 * The mode is chosen once, by where standard error goes:
 *   LIVE   a terminal: one line, drawn at most ten times per second, and one line per epoch that stays above it.
 *   RELAY  a pipe to `weir run`, which owns the terminal and has set WEIR_PROGRESS=relay: the same two kinds of lines
 *          as frames of cli/live.h, which the parent shows.
 *   PLAIN  anything else: log lines (info), one per epoch and between them at most one every ten seconds.
 *   QUIET  nothing.
 * In a child of `weir run`, which sets WEIR_PROGRESS for its chief, the first update of a training tells it by a frame
 * that all roles have joined, in every mode. With WEIR_PROGRESS=steps, which `weir chaos` sets, the mode is PLAIN, and
 * frames tell of each step and each view besides.
 *
 * One progress per process: start before other threads log, then updates and end on one thread at a time; log lines of
 * any thread keep clear of the live line.
 */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_PROGRESS_VALUES_MAX 16

enum weir_progress_mode { WEIR_PROGRESS_QUIET, WEIR_PROGRESS_PLAIN, WEIR_PROGRESS_LIVE, WEIR_PROGRESS_RELAY };

enum weir_progress_phase { WEIR_PROGRESS_WAITING, WEIR_PROGRESS_TRAINING, WEIR_PROGRESS_VALIDATING };

struct weir_progress_value {
    const char *name; /* "loss", "accuracy", "val_loss" */
    double value;
};

/* Names and texts are read during the call only. */
struct weir_progress {
    enum weir_progress_phase phase;
    const char *waiting;            /* WAITING: "waiting for worker/1 at 127.0.0.1:2345: connection refused" */
    uint32_t epoch, epochs;         /* the epoch counts from 1 */
    uint64_t step, steps_per_epoch; /* steps done in this epoch; a first update at step 0 starts the clock */
    uint64_t samples;               /* that this run has trained on so far, in all epochs */
    bool epoch_ended;               /* exactly one update per epoch has it, after validation, if there is one */
    struct weir_progress_value values[WEIR_PROGRESS_VALUES_MAX]; /* of the epoch so far: loss first */
    size_t value_count;
};

enum weir_progress_mode weir_progress_choose(bool quiet);

void weir_progress_start(enum weir_progress_mode mode);
/* Call it as often as you like. `now_ns` of weir_clock_ns(). */
void weir_progress_update(const struct weir_progress *progress, uint64_t now_ns);
/* A view goes out that has this number. */
void weir_progress_view(uint64_t number);
/* Takes the live line off. Without a start, or again: nothing. */
void weir_progress_end(void);

/* ---- pure parts */

struct weir_progress_mark {
    uint64_t ns, samples, steps; /* steps of the whole job */
};

/* From what rates are reckoned; zeroed at first. */
struct weir_progress_pace {
    bool started;
    struct weir_progress_mark older, newer; /* the rate is that since `older`, 3 to 6 s ago */
    struct weir_progress_mark epoch_start;
    struct weir_progress_mark last; /* the latest update while training */
};

void weir_progress_pace_add(struct weir_progress_pace *pace, const struct weir_progress *progress, uint64_t now_ns);
/* Samples per second of late; 0 if not known yet. */
double weir_progress_rate(const struct weir_progress_pace *pace);
/* Seconds to the end of the last epoch at this pace, validation not reckoned; -1 if not known yet. */
double weir_progress_seconds_left(const struct weir_progress_pace *pace, const struct weir_progress *progress);

/* The live line: "epoch 2/5  431/938  loss 0.2731  accuracy 0.9012  24390 samples/s  1:02 left". */
void weir_progress_format(const struct weir_progress *progress, const struct weir_progress_pace *pace, char *text,
                          size_t text_bytes);
/* The epoch's line: "epoch 2/5: loss 0.2731, accuracy 0.9012, 24390 samples/s, 12.3 s". */
void weir_progress_format_epoch(const struct weir_progress *progress, const struct weir_progress_pace *pace,
                                uint64_t now_ns, char *text, size_t text_bytes);

#endif
