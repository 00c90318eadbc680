/* Milliseconds and GF/s of weir's dense kernels, and GF/s of dnnl_sgemm, one thread: bench_kernels [SECONDS per figure
 * [avx512|avx2|plain]]. Each figure is the fastest of many repeats. */
#include <dnnl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "cpu/gemm.h"
#include "cpu/isa.h"

struct bench {
    size_t rows, in, out;
    float *x, *w, *y, *dx, *dw, *bias;
    struct weir_row_range replicas[4];
    size_t replica_count;
    void *scratch;
};

static float *random_floats(size_t count)
{
    float *floats = weir_alloc_tensor(count * sizeof *floats, "a bench's matrix");
    uint32_t word[4] = {0};
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            weir_random_block(weir_random_key(1, WEIR_RANDOM_TEST, 0, 0), i, 0, word);
        floats[i] = weir_random_unit(word[i % 4]) - 0.5f;
    }
    return floats;
}

static struct bench bench_new(size_t rows, size_t in, size_t out, size_t replicas)
{
    struct bench b = {.rows = rows, .in = in, .out = out, .replica_count = replicas};
    b.x = random_floats(rows * in);
    b.w = random_floats(in * out);
    b.y = random_floats(rows * out);
    b.dx = random_floats(rows * in);
    b.dw = random_floats(in * out);
    b.bias = random_floats(out);
    b.scratch = weir_alloc_tensor(weir_gemm_scratch_bytes(rows, in, out), "a bench's scratch");
    for (size_t r = 0; r < replicas; r++)
        b.replicas[r] = (struct weir_row_range){(uint32_t)(rows / replicas * r), (uint32_t)(rows / replicas)};
    return b;
}

static void bench_free(struct bench *b)
{
    free(b->x);
    free(b->w);
    free(b->y);
    free(b->dx);
    free(b->dw);
    free(b->bias);
    free(b->scratch);
}

static void own_forward(struct bench *b)
{
    weir_gemm_forward(b->y, b->x, b->w, b->bias, b->rows, b->in, b->out, true, b->scratch);
}

static void own_weight(struct bench *b)
{
    weir_gemm_weight_gradient(b->dw, b->x, b->y, b->replicas, b->replica_count, b->in, b->out, NULL, b->scratch);
}

static void own_input(struct bench *b)
{
    weir_gemm_input_gradient(b->dx, b->y, b->w, b->rows, b->in, b->out, b->scratch);
}

static void sgemm_forward(struct bench *b)
{
    dnnl_dim_t rows = (dnnl_dim_t)b->rows, in = (dnnl_dim_t)b->in, out = (dnnl_dim_t)b->out;
    dnnl_sgemm('N', 'N', rows, out, in, 1, b->x, in, b->w, out, 0, b->y, out);
}

static void sgemm_weight(struct bench *b)
{
    dnnl_dim_t rows = (dnnl_dim_t)b->rows, in = (dnnl_dim_t)b->in, out = (dnnl_dim_t)b->out;
    dnnl_sgemm('T', 'N', in, out, rows, 1, b->x, in, b->y, out, 0, b->dw, out);
}

static void sgemm_input(struct bench *b)
{
    dnnl_dim_t rows = (dnnl_dim_t)b->rows, in = (dnnl_dim_t)b->in, out = (dnnl_dim_t)b->out;
    dnnl_sgemm('N', 'T', rows, in, out, 1, b->y, out, b->w, out, 0, b->dx, in);
}

static double best_ms(struct bench *b, void (*run)(struct bench *), double seconds)
{
    uint64_t best = UINT64_MAX, start = weir_clock_ns();
    run(b);
    for (int i = 0; i < 5 || weir_clock_ns() - start < (uint64_t)(seconds * 1e9); i++) {
        uint64_t before = weir_clock_ns();
        run(b);
        uint64_t took = weir_clock_ns() - before;
        best = took < best ? took : best;
    }
    return (double)best / 1e6;
}

static double gflops(const struct bench *b, double ms)
{
    return 2e-6 * (double)b->rows * (double)b->in * (double)b->out / ms;
}

static void measure(size_t rows, size_t in, size_t out, double seconds)
{
    static void (*const own[])(struct bench *) = {own_forward, own_weight, own_input};
    static void (*const sgemm[])(struct bench *) = {sgemm_forward, sgemm_weight, sgemm_input};
    struct bench b = bench_new(rows, in, out, 1);
    printf("%5zu %5zu->%-5zu", rows, in, out);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        double ms = best_ms(&b, own[i], seconds);
        printf("  %7.3f %6.1f / %6.1f", ms, gflops(&b, ms), gflops(&b, best_ms(&b, sgemm[i], seconds)));
    }
    bench_free(&b);
    b = bench_new(rows, in, out, 4);
    double ms = best_ms(&b, own_weight, seconds);
    printf("  %7.3f %6.1f\n", ms, gflops(&b, ms));
    fflush(stdout);
    bench_free(&b);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.1;
    if (!(seconds > 0 && seconds < 60)) {
        fprintf(stderr, "usage: bench_kernels [SECONDS [avx512|avx2|plain]]: SECONDS must be between 0 and 60\n");
        return 2;
    }
    if (argc > 2 && !weir_cpu_isa_set(!strcmp(argv[2], "avx512") ? WEIR_ISA_AVX512
                                      : !strcmp(argv[2], "avx2") ? WEIR_ISA_AVX2
                                                                 : WEIR_ISA_PLAIN))
        fprintf(stderr, "this processor lacks %s\n", argv[2]);
    const size_t rows[] = {16, 32, 64, 128, 256};
    const size_t layers[][2] = {{784, 512}, {512, 512}, {512, 10}, {784, 4096}, {4096, 4096}};
    printf("weir (%s): ms, GF/s / dnnl_sgemm: GF/s\n%5s %12s  %-24s  %-24s  %-24s  %s\n", weir_cpu_isa_name(), "rows",
           "in->out", "forward", "dw", "dx", "dw of 4 replicas");
    for (size_t l = 0; l < sizeof layers / sizeof layers[0]; l++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            measure(rows[r], layers[l][0], layers[l][1], seconds);
    return 0;
}
