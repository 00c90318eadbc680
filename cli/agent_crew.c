#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/agent_compute.h"

static size_t product(const size_t *shape, size_t dims)
{
    size_t n = 1;
    for (size_t i = 0; i < dims; i++)
        n *= shape[i];
    return n;
}

static void take_scratch(struct weir_crew *crew, const struct weir_agent_compute *compute)
{
    size_t shape[4], rows = compute->piece_rows;
    crew->ids = weir_alloc(crew->count, sizeof *crew->ids, "a worker");
    crew->row0 = weir_alloc(crew->count, sizeof *crew->row0, "a worker");
    crew->rows = weir_alloc(crew->count, sizeof *crew->rows, "a worker");
    crew->sums = weir_alloc(crew->count, sizeof *crew->sums, "a worker");
    crew->names = weir_alloc(crew->count, sizeof *crew->names, "a worker");
    crew->nodes = weir_alloc(crew->count, sizeof *crew->nodes, "a worker");
    if (!compute->validation)
        return;
    crew->index = weir_alloc(crew->threads * rows, sizeof *crew->index, "a worker");
    crew->x_floats = rows * product(shape, weir_dataset_x_shape(compute->validation, shape));
    crew->y_floats = rows * product(shape, weir_dataset_y_shape(compute->validation, shape));
    crew->x = weir_alloc_tensor(crew->threads * crew->x_floats * sizeof(float), "validation samples");
    crew->y = weir_alloc_tensor(crew->threads * crew->y_floats * sizeof(float), "validation labels");
}

static void set_ranges(struct weir_crew *crew, uint32_t replicas)
{
    for (uint32_t n = 0, at = 0; n < crew->node_count; n++) {
        uint32_t first, count;
        weir_tree_range(replicas, crew->names[n], &first, &count);
        crew->nodes[n] = (struct weir_gradient_node){.first_replica = at, .replica_count = count};
        at += count;
    }
}

static bool make_team(struct weir_crew *crew, const struct weir_agent_compute *compute, struct weir_error *err)
{
    struct weir_team_config config = {
        .model = compute->process->model,
        .job = &compute->process->job,
        .nodes = crew->nodes,
        .node_count = crew->node_count,
        .replica_count = crew->count,
        .replica_rows = compute->piece_rows,
        .threads = crew->threads,
        .held_bytes = weir_process_model_bytes(compute->process),
    };
    crew->team = weir_team_new(&config, err);
    return crew->team != NULL;
}

struct weir_crew *weir_crew_new(const struct weir_agent_compute *compute, const uint32_t *replicas, uint32_t count,
                                struct weir_error *err)
{
    struct weir_crew *crew = weir_alloc(1, sizeof *crew, "a worker");
    crew->count = count;
    crew->threads =
        weir_team_threads(count, weir_process_cpus(), weir_process_workers_here(compute->process, compute->position));
    take_scratch(crew, compute);
    memcpy(crew->ids, replicas, count * sizeof *crew->ids);
    crew->node_count = (uint32_t)weir_tree_cover(compute->process->replicas, replicas, count, crew->names);
    set_ranges(crew, compute->process->replicas);
    if (make_team(crew, compute, err))
        return crew;
    weir_crew_free(crew);
    return NULL;
}

void weir_crew_free(struct weir_crew *crew)
{
    if (!crew)
        return;
    weir_prefetch_stop(crew->prefetch);
    weir_team_free(crew->team);
    free(crew->ids);
    free(crew->row0);
    free(crew->rows);
    free(crew->sums);
    free(crew->names);
    free(crew->nodes);
    free(crew->index);
    free(crew->x);
    free(crew->y);
    free(crew);
}

bool weir_crew_is_of(const struct weir_crew *crew, const uint32_t *replicas, uint32_t count)
{
    return crew && crew->count == count && memcmp(crew->ids, replicas, count * sizeof *replicas) == 0;
}

uint32_t weir_crew_rows(struct weir_crew *crew, const struct weir_agent_compute *compute, uint32_t batch)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < crew->count; i++) {
        uint32_t count;
        weir_walk_replica(&compute->walk, batch, crew->ids[i], &crew->row0[i], &count);
        crew->rows[i] = (struct weir_replica_rows){at, count};
        at += count;
    }
    return at;
}
