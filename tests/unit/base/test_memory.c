#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"

static void a_copy_past_caches_is_a_copy_at_every_offset_and_size(void **state)
{
    (void)state;
    unsigned char from[400], to[400];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + 1);
    for (size_t offset = 0; offset < 17; offset++)
        for (size_t source = 0; source < 5; source++)
            for (size_t bytes = 0; bytes < 300; bytes++) {
                memset(to, 0, sizeof to);
                weir_copy_past_caches(to + offset, from + source, bytes);
                assert_memory_equal(to + offset, from + source, bytes);
                for (size_t i = 0; i < sizeof to; i++)
                    if (i < offset || i >= offset + bytes)
                        assert_int_equal(to[i], 0);
            }
}

/* What a child that asks for too much writes. */
static void ask_for_too_much(bool tensor, char *text, size_t room)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        weir_log_setup(WEIR_LOG_INFO, false, "worker/3");
        if (tensor)
            weir_alloc_tensor((size_t)1 << 60, "a gradient");
        else
            weir_alloc(SIZE_MAX / 2, 3, "a gradient");
        _exit(0);
    }
    close(ends[1]);
    ssize_t bytes = read(ends[0], text, room - 1);
    close(ends[0]);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void without_memory_the_process_says_what_for_and_exits_1(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators end the process themselves */
#endif
    for (int tensor = 0; tensor < 2; tensor++) {
        char text[1024];
        ask_for_too_much(tensor, text, sizeof text);
        assert_non_null(strstr(text, "worker/3 error: no memory for a gradient ("));
        assert_true(!tensor || strstr(text, "(1099511627776.0 MiB)"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_past_caches_is_a_copy_at_every_offset_and_size),
        cmocka_unit_test(without_memory_the_process_says_what_for_and_exits_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
