#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/log.h"

#define CACHE_LINE ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)

static void no_memory(size_t bytes, const char *what)
{
    weir_log_error(
        "no memory for %s (%.1f MiB); give the machine more, or use a smaller model or batch, or more servers", what,
        (double)bytes / (1 << 20));
    _exit(EXIT_FAILURE); /* at once: other threads still run, and some of them wait for this one */
}

void *weir_alloc(size_t count, size_t size, const char *what)
{
    size_t bytes;
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory)
        no_memory(__builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes, what);
    return memory;
}

void *weir_alloc_tensor(size_t bytes, const char *what)
{
    void *memory;
    if (posix_memalign(&memory, bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE, bytes ? bytes : 1))
        no_memory(bytes, what);
    if (bytes >= HUGE_PAGE)
        madvise(memory, bytes, MADV_HUGEPAGE); /* only advice: without huge pages it works, slower */
    return memset(memory, 0, bytes);
}

uint64_t weir_memory_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
}

char *weir_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(weir_alloc(bytes, 1, "a string"), text, bytes);
}

#ifdef __SSE2__
void weir_copy_past_caches(void *to, const void *from, size_t bytes)
{
    char *out = to;
    const char *in = from;
    size_t head = -(uintptr_t)out % sizeof(__m128i);
    head = head < bytes ? head : bytes;
    memcpy(out, in, head);
    size_t lines = (bytes - head) / CACHE_LINE;
    for (out += head, in += head; lines > 0; lines--, out += CACHE_LINE, in += CACHE_LINE)
        for (size_t i = 0; i < CACHE_LINE; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(out + i), _mm_loadu_si128((const __m128i *)(in + i)));
    memcpy(out, in, (bytes - head) % CACHE_LINE);
    _mm_sfence(); /* such stores may otherwise come after later ones */
}
#else
void weir_copy_past_caches(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
