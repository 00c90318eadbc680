/* What all agents of a process share: who is who, how much there is to do, and when all is over. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/agent.h"
#include "cli/commands.h"
#include "engine/engine.h"
#include "config/address.h"
#include "engine/store.h"

/* Batches of one round of validation: long enough to hide its round trip, short enough to be no pause. */
#define VALIDATION_BATCHES 16

/* Partly received chunks that a server may have to keep per lane and worker: enough to hide a round trip. */
#define CREDIT_BYTES ((uint64_t)32 << 20)
#define CREDIT_LEAST 8

#define LARGE_BYTES ((uint64_t)32 << 20)

#define MESSAGE_SLACK_BYTES (64u << 10)
#define HELD_CHUNK_BYTES 20 /* the most that a Hello says of one chunk: its number and version */

struct weir_hello weir_process_hello(const struct weir_process *process, enum weir_node_role role, uint32_t index)
{
    return (struct weir_hello){
        .role = role,
        .index = index,
        .incarnation = process->incarnation,
        .job_hash = process->job.hash,
        .numerics = process->numerics,
        .address = "",
        .canonical = process->job.canonical,
    };
}

/* The most memory that this process had; the kernel's ru_maxrss counts its parent's before exec, too. */
static uint64_t peak_rss_bytes(const struct rusage *usage)
{
    char line[128];
    unsigned long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %lu kB", &kib) != 1)
        ;
    if (status)
        fclose(status);
    return 1024 * (kib ? (uint64_t)kib : (uint64_t)usage->ru_maxrss);
}

void weir_process_measure(const struct weir_process *process, struct weir_heartbeat *heartbeat)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    heartbeat->pid = (uint64_t)getpid();
    heartbeat->cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    heartbeat->peak_rss_bytes = peak_rss_bytes(&usage);
    weir_transport_bytes(process->transport, &heartbeat->sent_bytes, &heartbeat->received_bytes);
    heartbeat->replicas_computed = atomic_load(&process->replicas_computed);
    heartbeat->chunks_applied = atomic_load(&process->chunks_applied);
    heartbeat->copied_bytes = atomic_load(&process->copied_bytes);
}

uint32_t weir_process_workers_here(const struct weir_process *process, uint32_t position)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < process->worker_count; w++)
        count += weir_address_same_host(process->workers[w].address, process->workers[position].address);
    return count;
}

static uint64_t optimizer_slots(const struct weir_process *process)
{
    struct weir_engine *engine = weir_engine_new(&process->job.optimizer, WEIR_ISA_PLAIN);
    uint64_t slots = weir_engine_slots(engine);
    weir_engine_free(engine);
    return slots;
}

uint64_t weir_process_model_bytes(const struct weir_process *process)
{
    const struct weir_cluster *cluster = &process->cluster;
    uint64_t flat = process->flat_elements * sizeof(float), state = 1 + optimizer_slots(process);
    bool chief_too = cluster->chief_in_worker_0 && cluster->self_index == process->workers[0].index;
    if (process->local) /* weights in place, one set of gradients, and the chief's result */
        return flat * (state + 1 + state);
    if (cluster->self_role == WEIR_CHIEF)
        return flat * state;
    if (cluster->self_role == WEIR_PS) /* two versions */
        return flat / process->server_count * (1 + state);
    return flat * (2 + 1 + (chief_too ? state : 0));
}

uint32_t weir_process_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* a machine with more CPUs than the set has room for */
    return online > 0 ? (uint32_t)online : 1;
}

uint64_t weir_process_lease_ns(const struct weir_process *process)
{
    return process->job.lease_ms * WEIR_NS_PER_MS;
}

uint32_t weir_process_validation_rows(const struct weir_process *process)
{
    uint64_t rows = (uint64_t)process->job.batch_size * VALIDATION_BATCHES;
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

bool weir_process_large(uint64_t floats)
{
    return floats * sizeof(float) >= LARGE_BYTES;
}

uint32_t weir_process_credit(const struct weir_process *process)
{
    uint64_t credit = CREDIT_BYTES / process->job.chunk_bytes;
    return credit > CREDIT_LEAST ? (uint32_t)credit : CREDIT_LEAST;
}

size_t weir_process_message_limit(const struct weir_process *process)
{
    const struct weir_layout *layout = &process->layout;
    uint64_t held =
        layout->chunks / (layout->servers * layout->lanes) + 1; /* at most, of one lane: a Hello lists them */
    uint64_t hello = held * HELD_CHUNK_BYTES;
    uint64_t most = hello > process->job.chunk_bytes ? hello : process->job.chunk_bytes;
    return (size_t)(most + process->variable_count * sizeof(double) + MESSAGE_SLACK_BYTES);
}

uint32_t weir_job_steps_per_epoch(const struct weir_job *job, uint64_t train_samples)
{
    return job->steps_per_epoch ? job->steps_per_epoch
                                : weir_walk_steps(train_samples, job->batch_size, job->drop_remainder);
}

bool weir_job_has_steps(const struct weir_job *job, uint64_t train_samples, struct weir_error *err)
{
    if (weir_job_steps_per_epoch(job, train_samples) > 0)
        return true;
    return weir_error_set(err,
                          "%s: fit.batch_size: %u samples, but there are only %" PRIu64
                          ", and fit.drop_remainder leaves out the incomplete batch: no step is left",
                          job->path, job->batch_size, train_samples);
}

struct weir_walk weir_process_walk(const struct weir_process *process, uint64_t train_samples)
{
    return (struct weir_walk){
        .samples = train_samples,
        .batch_size = process->job.batch_size,
        .replicas = process->replicas,
        .steps_per_epoch = weir_job_steps_per_epoch(&process->job, train_samples),
        .shuffle = process->job.shuffle,
        .seed = process->job.seed,
    };
}

struct weir_schedule weir_process_schedule(struct weir_process *process, uint64_t train_samples,
                                           uint64_t validation_samples)
{
    const struct weir_job *job = &process->job;
    uint32_t rows = weir_process_validation_rows(process);
    struct weir_schedule schedule = {
        .steps_per_epoch = weir_job_steps_per_epoch(&process->job, train_samples),
        .epochs = job->epochs,
        .validation_rounds = (uint32_t)((validation_samples + rows - 1) / rows),
        .metrics = (uint32_t)job->metric_count,
        .learning_rate = job->optimizer.learning_rate,
    };
    if (job->optimizer.clipnorm > 0) {
        schedule.gate = WEIR_GATE_CLIPNORM;
        schedule.clip = job->optimizer.clipnorm;
    } else if (job->optimizer.global_clipnorm > 0) {
        schedule.gate = WEIR_GATE_GLOBAL_CLIPNORM;
        schedule.clip = job->optimizer.global_clipnorm;
    }
    return schedule;
}

size_t weir_process_pieces(const struct weir_process *process, uint32_t chunk, struct weir_piece *pieces)
{
    uint64_t begin = weir_layout_first(&process->layout, chunk);
    uint64_t end = begin + weir_layout_elements(&process->layout, chunk);
    size_t count = 0;
    for (size_t v = 0; v < process->variable_count; v++) {
        uint64_t from = process->variables[v].offset, to = from + process->variables[v].elements;
        from = from > begin ? from : begin;
        to = to < end ? to : end;
        while (from < to) {
            uint64_t block_end = (from / WEIR_PIECE_ELEMENTS + 1) * WEIR_PIECE_ELEMENTS;
            uint64_t stop = block_end < to ? block_end : to;
            if (pieces)
                pieces[count] = (struct weir_piece){(uint32_t)v, (uint32_t)(from - begin), (uint32_t)(stop - from)};
            count++;
            from = stop;
        }
    }
    return count;
}

void weir_process_agent_done(struct weir_process *process, int code, const char *why)
{
    pthread_mutex_lock(&process->lock);
    enum weir_log_level level = code == WEIR_EXIT_DRAINED ? WEIR_LOG_WARNING : WEIR_LOG_ERROR;
    if (code != 0) /* of the roles of one process, the first says why: the others would say it again */
        weir_log(process->code ? WEIR_LOG_DEBUG : level, "%s", why);
    process->done_count++;
    process->code = process->code ? process->code : code;
    pthread_mutex_unlock(&process->lock);
    uv_async_send(&process->done);
}
