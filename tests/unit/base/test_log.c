#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"

/* What `text` becomes as a line of the log, without its newline. */
static void logged(const char *text, bool json, char *line, size_t room)
{
    int pipe_ends[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipe_ends), 0);
    assert_true(dup2(pipe_ends[1], STDERR_FILENO) >= 0);
    weir_log_setup(WEIR_LOG_INFO, json, "test");
    weir_log_info("%s", text);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    ssize_t bytes = read(pipe_ends[0], line, room - 1);
    assert_true(bytes > 0);
    line[bytes] = '\0';
    assert_int_equal(line[bytes - 1], '\n');
    line[bytes - 1] = '\0';
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    close(saved);
}

static void a_line_is_one_line_whatever_a_peer_says(void **state)
{
    (void)state;
    static const char forged[] = "shape of \x1b]0;x\x07\n2026-01-01T00:00:00.000Z chief/0 error: forged\r\x7f";
    for (int json = 0; json <= 1; json++) {
        char line[1024];
        logged(forged, json, line, sizeof line);
        for (const char *c = line; *c; c++)
            assert_true(*c >= ' ' && *c != 0x7f);
        assert_non_null(strstr(line, "shape of ?]0;x??2026-01-01T00:00:00.000Z chief/0 error: forged??"));
    }
}

static void an_error_is_one_line_whatever_a_peer_says(void **state)
{
    (void)state;
    struct weir_error err;
    weir_error_set(&err, "shape of %s", "\x1b[31m\n");
    weir_error_wrap(&err, "in %s", "\n");
    assert_string_equal(err.text, "in ?: shape of ?[31m?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_line_whatever_a_peer_says),
        cmocka_unit_test(an_error_is_one_line_whatever_a_peer_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
