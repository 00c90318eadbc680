/* A process on a pseudo-terminal, and what a person would see there. For tests, after cmocka's headers. */
#ifndef WEIR_TEST_CLI_SCREEN_H
#define WEIR_TEST_CLI_SCREEN_H

#include <errno.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS 4096
#define COLUMNS_MAX 256

/* ---- a terminal: \r, \n, ESC [ K and letters; it begins a new line after the last column, as terminals do */

struct screen {
    char rows[ROWS][COLUMNS_MAX + 1];
    size_t row, column, columns;
    int status; /* as of waitpid */
};

static inline void screen_put(struct screen *screen, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i];
        if (c == '\r') {
            screen->column = 0;
        } else if (c == '\n') {
            screen->row++; /* the terminal's driver makes \r\n of it */
        } else if (c == '\x1b') {
            assert_true(i + 2 < count);
            assert_memory_equal(bytes + i, "\x1b[K", 3);
            memset(screen->rows[screen->row] + screen->column, 0, COLUMNS_MAX - screen->column);
            i += 2;
        } else {
            if (screen->column == screen->columns) {
                screen->column = 0;
                screen->row++;
            }
            screen->rows[screen->row][screen->column++] = c;
        }
        assert_true(screen->row < ROWS);
    }
}

/* ---- a process on a pseudo-terminal */

/* Runs `play` in a child whose standard files are a terminal of that width, and shows what it writes. The caller frees
 * the screen. */
static inline struct screen *show(int (*play)(void), unsigned short columns)
{
    struct screen *screen = calloc(1, sizeof *screen);
    assert_non_null(screen);
    screen->columns = columns;
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    int master, status;
    fflush(NULL);
    pid_t child = forkpty(&master, NULL, NULL, &size);
    assert_true(child >= 0);
    if (child == 0) {
        status = play();
        fflush(NULL);
        _exit(status);
    }
    static char bytes[1 << 20];
    size_t count = 0;
    for (ssize_t got = 1; got > 0 && count < sizeof bytes; count += (size_t)(got > 0 ? got : 0))
        got = read(master, bytes + count, sizeof bytes - count);
    close(master);
    assert_int_equal(waitpid(child, &status, 0), child);
    screen->status = status;
    screen_put(screen, bytes, count);
    return screen;
}

#endif
