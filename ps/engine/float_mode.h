/* The floating-point mode of the engine: round to nearest, denormals are zero going in and coming out. It is set on
 * entry and put back on return, so that neither bits nor speed depend on the caller's thread: with denormals, Adam's
 * decaying averages cost eight times as much. Private to the engine.
 */
#ifndef WEIR_ENGINE_FLOAT_MODE_H
#define WEIR_ENGINE_FLOAT_MODE_H

#include <stdint.h>

#ifdef __x86_64__
#include <immintrin.h>

typedef unsigned int weir_float_mode;
#define WEIR_MXCSR 0x9FC0u /* all exceptions masked, nearest, flush to zero, denormals are zero */

static inline weir_float_mode weir_float_mode_enter(void)
{
    weir_float_mode saved = _mm_getcsr();
    _mm_setcsr(WEIR_MXCSR);
    return saved;
}

static inline void weir_float_mode_leave(weir_float_mode saved)
{
    _mm_setcsr(saved);
}

/* Makes non-temporal stores visible before whatever this thread stores next. */
static inline void weir_stores_fence(void)
{
    _mm_sfence();
}

#elif defined(__aarch64__)

typedef uint64_t weir_float_mode;
#define WEIR_FPCR (UINT64_C(1) << 24) /* nearest, flush to zero for inputs and results */

static inline weir_float_mode weir_float_mode_enter(void)
{
    weir_float_mode saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(WEIR_FPCR));
    return saved;
}

static inline void weir_float_mode_leave(weir_float_mode saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(saved));
}

static inline void weir_stores_fence(void)
{
}

#else
#error "say here how this architecture flushes denormals"
#endif

#endif
