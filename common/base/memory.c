#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_LINE ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)

static void no_memory(size_t bytes, const char *what)
{
    fprintf(stderr, "weir: no memory for %s (%zu bytes); give the machine more, or use a smaller model or batch\n",
            what, bytes);
    abort();
}

void *weir_alloc(size_t count, size_t size, const char *what)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory)
        no_memory(count * size, what);
    return memory;
}

void *weir_alloc_tensor(size_t bytes, const char *what)
{
    size_t align = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    size_t rounded = (bytes + align - 1) / align * align;
    void *memory = aligned_alloc(align, rounded ? rounded : align);
    if (!memory)
        no_memory(bytes, what);
    if (align == HUGE_PAGE)
        madvise(memory, rounded, MADV_HUGEPAGE); /* only advice: without huge pages it works, slower */
    memset(memory, 0, rounded ? rounded : align);
    return memory;
}

char *weir_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(weir_alloc(bytes, 1, "a string"), text, bytes);
}
