/* One line at the bottom of a terminal that is drawn again and again, and lines above it that stay.
 *
 * Whoever owns a terminal writes to it only through this, so that nothing mixes. A process whose standard error is a
 * pipe to `weir run` relays instead: it writes frames, each a line that starts with WEIR_LIVE_FRAME, and the parent,
 * the one owner of the terminal, shows them (weir_live_take_frame).
 *
 * Any thread; each call writes once.
 */
#ifndef WEIR_CLI_LIVE_H
#define WEIR_CLI_LIVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_LIVE_FRAME '\x1e' /* ASCII's record separator */
#define WEIR_LIVE_BYTES 512

struct weir_live {
    pthread_mutex_t lock;
    int fd;
    bool relay;                 /* fd is a pipe to the owner of the terminal */
    char text[WEIR_LIVE_BYTES]; /* the live line; "" for none */
};

void weir_live_init(struct weir_live *live, int fd, bool relay);
/* Takes the live line off the screen. */
void weir_live_end(struct weir_live *live);

/* Draws `text` (fields with two blanks or a comma between; those that don't fit are left out) as the live line; "" for
 * none. */
void weir_live_set(struct weir_live *live, const char *text);
/* Writes a line that stays, above the live line; for the owner of the terminal. */
void weir_live_print(struct weir_live *live, const char *text, size_t count);
/* Writes or relays a line that stays, without the fields that don't fit. At most WEIR_LIVE_BYTES. */
void weir_live_print_fields(struct weir_live *live, const char *text);

/* For writers of their own: takes the live line off and keeps the lock; puts it back and gives the lock back. */
void weir_live_hide(struct weir_live *live);
void weir_live_show(struct weir_live *live);

/* True if the line (without newline) was a frame: then it has been shown. */
bool weir_live_take_frame(struct weir_live *live, const char *line, size_t count);

/* The frame by which the chief tells `weir run` that all roles have joined, and what knows it (line without newline).
 */
void weir_live_tell_joined(int fd);
bool weir_live_is_joined(const char *line, size_t count);

/* The frames by which the chief tells `weir chaos` of each step that is done, with the samples that counted so far, and
 * of each new view; `ns` as weir_clock_ns has it. What knows them fills in the numbers. */
void weir_live_tell_step(int fd, uint64_t step, uint64_t samples, uint64_t ns);
bool weir_live_is_step(const char *line, size_t count, uint64_t *step, uint64_t *samples, uint64_t *ns);
void weir_live_tell_view(int fd, uint64_t number, uint64_t ns);
bool weir_live_is_view(const char *line, size_t count, uint64_t *number, uint64_t *ns);

/* Cuts `text` (fields with two blanks or a comma between) to at most `width` columns: at the last field that fits, or,
 * if none does, in the middle of it. */
void weir_live_fit(char *text, size_t width);

/* True if `fd` is a terminal that can take a line back. */
bool weir_live_possible(int fd);

#endif
