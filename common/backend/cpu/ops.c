/* The CPU backend's table, its context and the state of its thread. */
#include "cpu/cpu.h"
#include "cpu/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/memory.h"
#include "cpu/isa.h"

extern void omp_set_num_threads(int threads); /* of the OpenMP runtime under oneDNN; omp.h belongs to the compiler */

static const struct weir_op_class *const classes[WEIR_OP_KINDS] = {
    [WEIR_OP_DENSE] = &weir_cpu_dense,
    [WEIR_OP_CONV2D] = &weir_cpu_conv2d,
    [WEIR_OP_CONV2D_GLOBAL_MAX] = &weir_cpu_conv1_global_max,
    [WEIR_OP_MAX_POOL2D] = &weir_cpu_max_pool2d,
    [WEIR_OP_AVERAGE_POOL2D] = &weir_cpu_average_pool2d,
    [WEIR_OP_GLOBAL_MAX_POOL] = &weir_cpu_global_max_pool,
    [WEIR_OP_GLOBAL_AVERAGE_POOL] = &weir_cpu_global_average_pool,
    [WEIR_OP_ACTIVATION] = &weir_cpu_activation,
    [WEIR_OP_SOFTMAX] = &weir_cpu_softmax,
    [WEIR_OP_DROPOUT] = &weir_cpu_dropout,
    [WEIR_OP_SCALE] = &weir_cpu_scale,
};

bool weir_cpu_dnnl_error(struct weir_error *err, const char *call, dnnl_status_t status)
{
    return weir_error_set(err, "oneDNN refuses %s: %s", call,
                          status == dnnl_out_of_memory       ? "out of memory"
                          : status == dnnl_invalid_arguments ? "invalid arguments"
                          : status == dnnl_unimplemented     ? "not implemented for these sizes"
                                                             : "runtime error");
}

/* A new thread starts with OMP_NUM_THREADS threads and slow denormals, whoever it is; so this runs at every step. */
static void begin(struct weir_backend_context *context)
{
    (void)context;
    omp_set_num_threads(1);
#if defined(__x86_64__)
    const unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
    _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
#endif
}

static void context_free(struct weir_backend_context *context)
{
    if (!context)
        return;
    dnnl_stream_destroy(context->stream);
    dnnl_engine_destroy(context->engine);
    free(context->scratch);
    free(context->tree);
    free(context);
}

static struct weir_backend_context *context_new(struct weir_error *err)
{
    struct weir_backend_context *context = weir_alloc(1, sizeof *context, "a CPU context");
    begin(context); /* primitives are planned for the number of threads at their making */
    dnnl_status_t status = dnnl_engine_create(&context->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&context->stream, context->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        weir_cpu_dnnl_error(err, "engine and stream", status);
        context_free(context);
        return NULL;
    }
    context->tree = weir_alloc(WEIR_TREE_LEVELS * WEIR_TREE_TILE, sizeof(float), "sums"); /* appears when touched */
    return context;
}

void weir_cpu_reserve(struct weir_backend_context *context, size_t bytes)
{
    if (bytes <= context->scratch_bytes)
        return;
    free(context->scratch);
    context->scratch = weir_alloc_tensor(bytes, "an operation's scratch");
    context->scratch_bytes = bytes;
}

struct weir_op *weir_cpu_op_make(struct weir_backend_context *context, const struct weir_op_desc *desc,
                                 uint32_t max_rows, struct weir_error *err)
{
    (void)err;
    struct weir_op *op = weir_alloc(1, sizeof *op, "an operation");
    *op = (struct weir_op){classes[desc->kind], context, *desc, max_rows};
    return op;
}

static struct weir_op *op_new(struct weir_backend_context *context, const struct weir_op_desc *desc, uint32_t max_rows,
                              struct weir_error *err)
{
    bool one_channel = desc->kind == WEIR_OP_CONV2D && weir_cpu_conv1_supports(desc);
    const struct weir_op_class *class = one_channel ? &weir_cpu_conv1 : classes[desc->kind];
    return class->make(context, desc, max_rows, err);
}

static void op_free(struct weir_op *op)
{
    if (!op)
        return;
    if (op->class->destroy)
        op->class->destroy(op);
    else
        free(op);
}

static bool supports(const struct weir_op_desc *desc)
{
    return desc->kind == WEIR_OP_CONV2D_GLOBAL_MAX ? weir_cpu_conv1_supports(desc) : classes[desc->kind] != NULL;
}

static void forward(struct weir_op *op, const struct weir_op_pass *pass)
{
    op->class->forward(op, pass);
}

static void backward(struct weir_op *op, const struct weir_op_pass *pass)
{
    op->class->backward(op, pass);
}

/* ---- fingerprint */

/* fp32 results of oneDNN are equal over all kinds of AVX-512, so these share a name. */
static const char *isa_name(void)
{
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
        return "sse4.1";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx2_vnni:
        return "avx2";
    case dnnl_cpu_isa_avx512_core:
    case dnnl_cpu_isa_avx512_core_vnni:
    case dnnl_cpu_isa_avx512_core_bf16:
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512";
    default:
        return "generic";
    }
}

static long cache_kib(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? bytes / 1024 : 0;
}

static void fingerprint(char *text, size_t bytes)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, bytes, "cpu %s oneDNN %d.%d.%d %s l1 %ldK l2 %ldK l3 %ldK", weir_cpu_isa_name(), version->major,
             version->minor, version->patch, isa_name(), cache_kib(_SC_LEVEL1_DCACHE_SIZE),
             cache_kib(_SC_LEVEL2_CACHE_SIZE), cache_kib(_SC_LEVEL3_CACHE_SIZE));
}

const struct weir_backend *weir_backend_cpu(void)
{
    static const struct weir_backend backend = {
        .name = "cpu",
        .context_new = context_new,
        .context_free = context_free,
        .begin = begin,
        .supports = supports,
        .op_new = op_new,
        .op_free = op_free,
        .forward = forward,
        .backward = backward,
        .loss = weir_cpu_loss,
        .add = weir_cpu_add,
        .fingerprint = fingerprint,
    };
    return &backend;
}
