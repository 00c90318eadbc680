#include "cli/live.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

#define ERASE "\r\x1b[K" /* to the line's start, and clear it */
#define WIDTH_UNKNOWN 80
#define JOINED 'j'
#define STEP 's'
#define VIEW 'v'
#define NUMBERS_BYTES 80

static void write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nowhere to report it */
        bytes += written;
        count -= (size_t)written;
    }
}

static size_t terminal_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH_UNKNOWN;
}

bool weir_live_possible(int fd)
{
    const char *kind = getenv("TERM");
    return isatty(fd) && kind && *kind && strcmp(kind, "dumb") != 0;
}

void weir_live_init(struct weir_live *live, int fd, bool relay)
{
    *live = (struct weir_live){.fd = fd, .relay = relay};
    pthread_mutex_init(&live->lock, NULL);
}

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80; /* UTF-8 */
}

void weir_live_fit(char *text, size_t width)
{
    size_t columns = 0, at = 0, field_end = 0;
    for (; text[at]; at++) {
        if (is_inside_character(text[at]))
            continue;
        bool blanks = at > 0 && text[at] == ' ' && text[at + 1] == ' ' && text[at - 1] != ' ';
        if (blanks || (text[at] == ',' && text[at + 1] == ' '))
            field_end = at;
        if (columns == width)
            break;
        columns++;
    }
    if (text[at])
        text[field_end > 0 ? field_end : at] = '\0';
}

/* The live line as it stands in `text`, over what is there. Needs the lock. */
static void draw(struct weir_live *live)
{
    char line[WEIR_LIVE_BYTES], bytes[WEIR_LIVE_BYTES + 16];
    if (!*live->text)
        return;
    snprintf(line, sizeof line, "%s", live->text);
    weir_live_fit(line, terminal_width(live->fd) - 1); /* in the last column some terminals begin a new line */
    int count = snprintf(bytes, sizeof bytes, ERASE "%s", line);
    write_all(live->fd, bytes, (size_t)count);
}

static void erase(struct weir_live *live)
{
    if (*live->text)
        write_all(live->fd, ERASE, strlen(ERASE));
}

static void relay(struct weir_live *live, char kind, const char *text, size_t count)
{
    char frame[WEIR_LIVE_BYTES + 8];
    int bytes = snprintf(frame, sizeof frame, "%c%c%.*s", WEIR_LIVE_FRAME, kind,
                         (int)(count < WEIR_LIVE_BYTES - 1 ? count : WEIR_LIVE_BYTES - 1), text);
    weir_text_disarm(frame + 1, (size_t)bytes - 1);
    frame[bytes] = '\n';
    write_all(live->fd, frame, (size_t)bytes + 1); /* less than PIPE_BUF: it does not mix with other threads' lines */
}

void weir_live_tell_joined(int fd)
{
    static const char frame[] = {WEIR_LIVE_FRAME, JOINED, '\n'};
    write_all(fd, frame, sizeof frame);
}

bool weir_live_is_joined(const char *line, size_t count)
{
    return count == 2 && line[0] == WEIR_LIVE_FRAME && line[1] == JOINED;
}

static void tell_numbers(int fd, char kind, const uint64_t *numbers, size_t count)
{
    char frame[NUMBERS_BYTES + 4];
    size_t at = (size_t)snprintf(frame, sizeof frame, "%c%c", WEIR_LIVE_FRAME, kind);
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(frame + at, sizeof frame - at, "%s%" PRIu64, i ? " " : "", numbers[i]);
    frame[at] = '\n';
    write_all(fd, frame, at + 1);
}

static bool read_numbers(const char *line, size_t bytes, char kind, uint64_t *numbers, size_t count)
{
    char text[NUMBERS_BYTES], *rest = NULL;
    if (bytes < 3 || bytes - 2 >= sizeof text || line[0] != WEIR_LIVE_FRAME || line[1] != kind)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)bytes - 2, line + 2);
    const char *word = strtok_r(text, " ", &rest);
    for (size_t i = 0; i < count; i++, word = strtok_r(NULL, " ", &rest))
        if (!word || !weir_number_parse(word, 0, UINT64_MAX, &numbers[i]))
            return false;
    return !word;
}

void weir_live_tell_step(int fd, uint64_t step, uint64_t samples, uint64_t ns)
{
    const uint64_t numbers[] = {step, samples, ns};
    tell_numbers(fd, STEP, numbers, 3);
}

bool weir_live_is_step(const char *line, size_t count, uint64_t *step, uint64_t *samples, uint64_t *ns)
{
    uint64_t numbers[3];
    if (!read_numbers(line, count, STEP, numbers, 3))
        return false;
    *step = numbers[0];
    *samples = numbers[1];
    *ns = numbers[2];
    return true;
}

void weir_live_tell_view(int fd, uint64_t number, uint64_t ns)
{
    const uint64_t numbers[] = {number, ns};
    tell_numbers(fd, VIEW, numbers, 2);
}

bool weir_live_is_view(const char *line, size_t count, uint64_t *number, uint64_t *ns)
{
    uint64_t numbers[2];
    if (!read_numbers(line, count, VIEW, numbers, 2))
        return false;
    *number = numbers[0];
    *ns = numbers[1];
    return true;
}

void weir_live_set(struct weir_live *live, const char *text)
{
    pthread_mutex_lock(&live->lock);
    if (live->relay) {
        relay(live, 'l', text, strlen(text));
    } else {
        if (!*text)
            erase(live);
        snprintf(live->text, sizeof live->text, "%s", text);
        weir_text_disarm(live->text, strlen(live->text));
        draw(live);
    }
    pthread_mutex_unlock(&live->lock);
}

void weir_live_hide(struct weir_live *live)
{
    pthread_mutex_lock(&live->lock);
    if (!live->relay)
        erase(live);
}

void weir_live_show(struct weir_live *live)
{
    if (!live->relay)
        draw(live);
    pthread_mutex_unlock(&live->lock);
}

static void print(struct weir_live *live, const char *text, size_t count)
{
    char *line = weir_alloc(count + 1, 1, "a line for the terminal");
    memcpy(line, text, count);
    weir_text_disarm(line, count);
    line[count] = '\n';
    erase(live);
    write_all(live->fd, line, count + 1);
    draw(live);
    free(line);
}

void weir_live_print(struct weir_live *live, const char *text, size_t count)
{
    pthread_mutex_lock(&live->lock);
    print(live, text, count);
    pthread_mutex_unlock(&live->lock);
}

void weir_live_print_fields(struct weir_live *live, const char *text)
{
    char line[WEIR_LIVE_BYTES];
    pthread_mutex_lock(&live->lock);
    snprintf(line, sizeof line, "%s", text);
    if (live->relay) {
        relay(live, 'p', line, strlen(line));
    } else {
        weir_live_fit(line, terminal_width(live->fd) - 1);
        print(live, line, strlen(line));
    }
    pthread_mutex_unlock(&live->lock);
}

void weir_live_end(struct weir_live *live)
{
    weir_live_set(live, "");
    pthread_mutex_destroy(&live->lock);
}

bool weir_live_take_frame(struct weir_live *live, const char *line, size_t count)
{
    if (count < 2 || line[0] != WEIR_LIVE_FRAME)
        return false;
    char text[WEIR_LIVE_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(count - 2 < sizeof text ? count - 2 : sizeof text - 1), line + 2);
    if (line[1] == 'p')
        weir_live_print_fields(live, text);
    else
        weir_live_set(live, text);
    return true;
}
