/* weir without the computation: the same program, but a worker's gradients are zeros that are there at once. What is
 * left of a step is its exchange: push, sum, optimizer, pull. Linked in place of worker/model/compute.c.
 *
 * use: like weir; tests/bench/peers.py exchange compares it with plain TCP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model.h"

struct weir_compute {
    uint32_t rows;
};

struct weir_compute *weir_compute_new(const struct weir_model *model, const struct weir_job *job, uint32_t max_rows,
                                      struct weir_error *err)
{
    (void)model;
    (void)job;
    (void)err;
    struct weir_compute *compute = weir_alloc(1, sizeof *compute, "no compute");
    compute->rows = max_rows;
    return compute;
}

void weir_compute_free(struct weir_compute *compute)
{
    free(compute);
}

/* Gradients are as they were allocated: zeros. */
void weir_compute_step(struct weir_compute *compute, const struct weir_step_input *input, struct weir_sums *sums)
{
    (void)compute;
    for (uint32_t n = 0; n < input->node_count; n++)
        input->nodes[n].empty = false;
    for (uint32_t r = 0; r < input->replica_count; r++)
        sums[r] = (struct weir_sums){.samples = input->replicas[r].count};
    if (input->ready)
        input->ready(input->ready_context, 0);
}

void weir_compute_evaluate(struct weir_compute *compute, const float *weights, const float *x, const float *y,
                           uint32_t rows, struct weir_sums *sums)
{
    (void)compute;
    (void)weights;
    (void)x;
    (void)y;
    *sums = (struct weir_sums){.samples = rows};
}

double weir_compute_bytes(const struct weir_model *model, uint32_t max_rows)
{
    (void)model;
    (void)max_rows;
    return 0;
}

void weir_compute_add(const struct weir_compute *compute, float *to, const float *from, size_t count)
{
    (void)compute;
    (void)to;
    (void)from;
    (void)count;
}

void weir_compute_fingerprint(char *text, size_t bytes)
{
    snprintf(text, bytes, "no computation");
}
