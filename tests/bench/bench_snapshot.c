/* What a snapshot costs on a disk: a model's weights and one slot, by two servers' parts one after the other, against
 * the same bytes written plainly and synced; and what it takes to verify and to read it.
 * bench_snapshot FOLDER [PARAMETERS] [ROUNDS] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "storage/snapshot.h"

#define CHUNK 262144
#define SERVERS 2
#define HASH "be4c40123456789abcdef0123456789abcdef0123456789abcdef0123456789a"

static double seconds_since(uint64_t start)
{
    return (double)(weir_clock_ns() - start) / (double)WEIR_NS_PER_S;
}

static bool fail(const struct weir_error *err)
{
    fprintf(stderr, "bench_snapshot: %s\n", err->text);
    return false;
}

/* One chunk's floats stand for all: what is in them does not matter to the disk as long as it is no hole. */
static float *make_chunk(void)
{
    float *values = weir_alloc_tensor(CHUNK * sizeof *values, "a chunk");
    for (size_t i = 0; i < CHUNK; i++)
        values[i] = (float)(i * 2654435761u % 1000003) / 1000003;
    return values;
}

static bool write_part(const char *folder, const struct weir_snapshot_info *info, uint32_t server, const float *values,
                       struct weir_snapshot_part *part, struct weir_error *err)
{
    uint32_t all = (uint32_t)((info->layout.flat_elements + CHUNK - 1) / CHUNK), count = 0;
    uint32_t *chunks = weir_alloc(all, sizeof *chunks, "chunks");
    for (uint32_t c = server; c < all; c += SERVERS)
        chunks[count++] = c;
    struct weir_snapshot_writer *writer = weir_snapshot_part_begin(folder, info, chunks, count, err);
    free(chunks);
    for (uint32_t i = 0; writer && i < count; i++)
        if (!weir_snapshot_part_add(writer, (const float *const[]){values, values}, NULL, err)) {
            weir_snapshot_part_abandon(writer);
            return false;
        }
    return writer && weir_snapshot_part_finish(writer, part, err);
}

static bool write_snapshot(const char *folder, const struct weir_snapshot_info *info, const float *values, double *took)
{
    struct weir_error err;
    struct weir_snapshot_part parts[SERVERS];
    size_t removed;
    uint64_t start = weir_clock_ns();
    for (uint32_t s = 0; s < SERVERS; s++)
        if (!write_part(folder, info, s, values, &parts[s], &err))
            return fail(&err);
    if (!weir_snapshot_publish(folder, info, parts, SERVERS, NULL, &err))
        return fail(&err);
    *took = seconds_since(start);
    return weir_snapshot_prune(folder, HASH, 1, &removed, &err) || fail(&err);
}

/* The same bytes, as `dd bs=1M conv=fsync` writes them. */
static bool write_plainly(const char *folder, uint64_t bytes, const float *values, double *took)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-plain", folder);
    uint64_t start = weir_clock_ns();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    bool done = fd >= 0;
    for (uint64_t at = 0; at < bytes && done; at += CHUNK * sizeof *values)
        done = write(fd, values, CHUNK * sizeof *values) == CHUNK * sizeof *values;
    done = done && fsync(fd) == 0;
    *took = seconds_since(start);
    if (fd >= 0)
        close(fd);
    unlink(path);
    if (!done)
        perror(path);
    return done;
}

/* Finds it with all digests, and then reads every element. */
static bool read_snapshot(const char *folder, double *verified, double *read)
{
    struct weir_error err;
    struct weir_snapshot *snapshot;
    const struct weir_snapshot_wanted wanted = {.hash = HASH, .verify = true};
    uint64_t start = weir_clock_ns();
    if (!weir_snapshot_find(folder, &wanted, NULL, NULL, &snapshot, &err))
        return fail(&err);
    *verified = seconds_since(start);
    if (!snapshot)
        return false;
    float *values = weir_alloc_tensor(CHUNK * sizeof *values, "a chunk");
    bool done = true;
    start = weir_clock_ns();
    uint64_t flat = weir_snapshot_info(snapshot)->layout.flat_elements;
    for (size_t row = 0; row < 2; row++)
        for (uint64_t first = 0; first < flat && done; first += CHUNK)
            done = weir_snapshot_read(snapshot, row, first, flat - first < CHUNK ? (size_t)(flat - first) : CHUNK,
                                      values, &err);
    *read = seconds_since(start);
    free(values);
    weir_snapshot_close(snapshot);
    return done || fail(&err);
}

int main(int argc, char **argv)
{
    uint64_t parameters = 100000000, rounds = 3;
    if (argc < 2 || argc > 4 ||
        (argc > 2 && !weir_number_parse(argv[2], CHUNK * SERVERS, UINT64_C(1) << 40, &parameters)) ||
        (argc > 3 && !weir_number_parse(argv[3], 1, 1000, &rounds))) {
        fprintf(stderr, "usage: bench_snapshot FOLDER [PARAMETERS (from %d on)] [ROUNDS]\n", CHUNK * SERVERS);
        return 2;
    }
    static const char *const slots[] = {"momentum"};
    struct weir_snapshot_info info = {
        .job = "bench",
        .hash = HASH,
        .canonical = "",
        .replicas = 1,
        .layout = {.flat_elements = parameters, .chunk_elements = CHUNK, .slots = slots, .slot_count = 1}};
    uint64_t bytes = 2 * parameters * sizeof(float);
    float *values = make_chunk();
    double mb = (double)bytes / 1e6, plain, saved, verified, read;
    struct weir_error err;
    if (!weir_snapshot_folder_check(argv[1], &err) ||
        !weir_snapshot_next_generation(argv[1], HASH, &info.generation, &err))
        return !fail(&err);
    for (uint64_t round = 0; round < rounds; round++, info.step++) {
        if (!write_plainly(argv[1], bytes, values, &plain) || !write_snapshot(argv[1], &info, values, &saved) ||
            !read_snapshot(argv[1], &verified, &read))
            return 1;
        printf("%.0f MB  plain write and fsync %.0f MB/s  snapshot %.0f MB/s (%.2f of it)  verify %.0f MB/s  read %.0f "
               "MB/s\n",
               mb, mb / plain, mb / saved, plain / saved, mb / verified, mb / read);
    }
    free(values);
    return 0;
}
