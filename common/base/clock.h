/* Monotonic time. */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEIR_NS_PER_MS UINT64_C(1000000)
#define WEIR_NS_PER_S UINT64_C(1000000000)

static inline uint64_t weir_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_S + (uint64_t)now.tv_nsec;
}

#endif
