/* The model that judges. It computes what a job must come to, step by step and in one place, from nothing but the job:
 * it shares no code with the cores, not even the sum tree.
 *
 * A gradient is a hash of (step, replica, chunk, all weights that it was computed with): a torn pull, a lost or
 * doubled contribution, or another shape of the sum makes another number, and every version after it too.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct model_record {
    enum weir_order order;
    uint64_t epoch, iterations, last_epoch;
    struct weir_totals train, validation, last_train, last_validation;
    bool skip;
    double scale, norms[MAX_CHUNKS + 2];
    size_t norm_count;
};

struct reference {
    struct sim_config config;
    uint64_t weights[MAX_STEPS + 2][MAX_CHUNKS];
    struct model_record records[MAX_STEPS + 2][MAX_ROUNDS];
};

uint64_t reference_initial(uint32_t chunk)
{
    return sim_hash(1, chunk, 0);
}

uint64_t reference_all(const uint64_t *weights, uint32_t chunks)
{
    uint64_t all = 7;
    for (uint32_t c = 0; c < chunks; c++)
        all = sim_hash(all, weights[c], c);
    return all;
}

static uint64_t leaf(uint64_t step, uint32_t replica, uint32_t chunk, uint64_t all_weights)
{
    return sim_hash(step << 8 | replica, chunk, all_weights) | 1;
}

uint64_t reference_add(uint64_t a, uint64_t b)
{
    return sim_hash(a, b, 2) | 1;
}

uint64_t reference_apply(uint64_t weights, uint64_t sum, const struct weir_record *record, double scale)
{
    uint64_t bits;
    memcpy(&bits, &scale, sizeof bits);
    return sim_hash(weights, sum, sim_hash(record->iterations, bits, 3));
}

static uint32_t batch_of(const struct sim_config *config, uint64_t step)
{
    uint32_t in_epoch = (uint32_t)(step % config->steps_per_epoch);
    uint32_t left = config->samples - in_epoch * config->batch;
    return left < config->batch ? left : config->batch;
}

static uint32_t samples_of(const struct sim_config *config, uint64_t step, uint32_t replica)
{
    uint64_t b = batch_of(config, step), n = config->replicas;
    return (uint32_t)((replica + 1) * b / n - replica * b / n);
}

bool reference_empty(const struct sim_config *config, uint64_t step, uint32_t replica)
{
    return samples_of(config, step, replica) == 0;
}

uint64_t reference_slot(uint64_t weights, uint32_t slot)
{
    return sim_hash(weights, slot, 17);
}

uint32_t reference_root(uint32_t replicas)
{
    uint32_t level = 0;
    while (UINT32_C(1) << level < replicas)
        level++;
    return level;
}

uint64_t reference_replicas(uint32_t replicas, uint32_t level, uint32_t index)
{
    if (level == 0)
        return index < replicas ? UINT64_C(1) << index : 0;
    return reference_replicas(replicas, level - 1, 2 * index) | reference_replicas(replicas, level - 1, 2 * index + 1);
}

uint64_t reference_gradient(const struct sim_config *config, uint64_t step, uint32_t chunk, uint64_t all_weights,
                            uint32_t level, uint32_t index)
{
    if (level == 0)
        return index < config->replicas && !reference_empty(config, step, index) ? leaf(step, index, chunk, all_weights)
                                                                                 : SUM_OF_NOTHING;
    uint64_t a = reference_gradient(config, step, chunk, all_weights, level - 1, 2 * index);
    uint64_t b = reference_gradient(config, step, chunk, all_weights, level - 1, 2 * index + 1);
    return a && b ? reference_add(a, b) : a ? a : b;
}

/* What a replica seals: 0 samples, 1 loss, 2... metrics. Any doubles will do: they must only be added in one order. */
double reference_number(uint64_t all_weights, uint64_t step, uint32_t round, uint32_t replica, uint32_t what)
{
    uint64_t h = sim_hash(all_weights, step << 16 | (uint64_t)round << 8 | replica, what);
    return (double)(h >> 11) * 0x1p-53;
}

double reference_square(const struct sim_config *config, uint64_t sum, uint64_t step, uint32_t piece)
{
    uint64_t h = sim_hash(sum, piece, 5);
    if (config->nonfinite && step % 3 == 1 && piece == 0)
        return 1e308 * 1e308;
    return (double)(h >> 11) * 0x1p-53;
}

/* Adds numbers pairwise, level by level; who is alone goes up as it is. */
static double add_levels(double *number, uint32_t n)
{
    if (n == 0)
        return 0;
    for (; n > 1; n = (n + 1) / 2) {
        for (uint32_t i = 0; i + 1 < n; i += 2)
            number[i / 2] = number[i] + number[i + 1];
        if (n % 2)
            number[n / 2] = number[n - 1];
    }
    return number[0];
}

static void add_round(const struct sim_config *config, uint64_t all, uint64_t step, uint32_t round,
                      struct weir_totals *totals)
{
    double *to[2 + WEIR_METRIC_SUMS] = {&totals->samples, &totals->loss};
    for (uint32_t m = 0; m < WEIR_METRIC_SUMS; m++)
        to[2 + m] = &totals->metrics[m];
    for (uint32_t what = 0; what < 2 + WEIR_METRIC_SUMS; what++) {
        double number[MAX_REPLICAS];
        for (uint32_t r = 0; r < config->replicas; r++)
            number[r] = reference_number(all, step, round, r, what);
        *to[what] += add_levels(number, config->replicas);
    }
}

static double clip_factor(double square)
{
    double root = __builtin_sqrt(square);
    return root > 0.5 ? 0.5 / root : 1;
}

/* The verdict on a step whose sums are given. */
static void judge(const struct reference *reference, const struct weir_schedule_piece *pieces, uint32_t piece_count,
                  const uint64_t *sums, uint64_t step, struct model_record *next)
{
    double by_variable[MAX_CHUNKS + 2] = {0};
    uint32_t variables = pieces[piece_count - 1].variable + 1;
    for (uint32_t v = 0, i = 0; v < variables; v++) {
        double number[MAX_CHUNKS * 2];
        uint32_t n = 0;
        for (; i < piece_count && pieces[i].variable == v; i++) {
            uint32_t within = i > 0 && pieces[i - 1].chunk == pieces[i].chunk;
            number[n++] = reference_square(&reference->config, sums[pieces[i].chunk], step, within);
        }
        by_variable[v] = add_levels(number, n);
    }
    double copy[MAX_CHUNKS + 2];
    memcpy(copy, by_variable, sizeof copy);
    double all = add_levels(copy, variables);
    next->skip = !(all < 1e300);
    if (next->skip)
        return;
    if (reference->config.gate == WEIR_GATE_GLOBAL_CLIPNORM)
        next->scale = clip_factor(all);
    if (reference->config.gate == WEIR_GATE_CLIPNORM)
        next->norm_count = variables;
    for (uint32_t v = 0; v < variables; v++)
        next->norms[v] = clip_factor(by_variable[v]);
}

static double chunk_scale(const struct reference *reference, const struct weir_schedule_piece *pieces,
                          uint32_t piece_count, const struct model_record *verdict, uint32_t chunk)
{
    if (reference->config.gate != WEIR_GATE_CLIPNORM)
        return verdict->scale;
    double scale = 0;
    for (uint32_t i = 0, n = 1; i < piece_count; i++)
        if (pieces[i].chunk == chunk)
            scale += verdict->norms[pieces[i].variable] * n++;
    return scale;
}

static void run_step(struct reference *reference, const struct weir_schedule_piece *pieces, uint32_t piece_count,
                     uint32_t chunks, uint64_t step, uint32_t round)
{
    const struct sim_config *config = &reference->config;
    const struct model_record *now = &reference->records[step][round];
    struct model_record *next = &reference->records[step + 1][0];
    uint64_t all = reference_all(reference->weights[step], chunks), sums[MAX_CHUNKS];
    for (uint32_t c = 0; c < chunks; c++)
        sums[c] = reference_gradient(config, step, c, all, reference_root(config->replicas), 0);
    *next = *now;
    next->scale = 1;
    next->skip = false;
    next->norm_count = 0;
    if (config->gate != WEIR_GATE_NONE)
        judge(reference, pieces, piece_count, sums, step, next);
    next->iterations += !next->skip;
    struct weir_record record = {.iterations = now->iterations};
    for (uint32_t c = 0; c < chunks; c++) {
        uint64_t old = reference->weights[step][c];
        reference->weights[step + 1][c] =
            next->skip ? old
                       : reference_apply(old, sums[c], &record, chunk_scale(reference, pieces, piece_count, next, c));
    }
    add_round(config, all, step, round, &next->train);
    bool last = step + 1 == (uint64_t)config->steps_per_epoch * config->epochs;
    if ((step + 1) % config->steps_per_epoch != 0)
        return;
    next->last_train = next->train;
    next->last_epoch = now->epoch;
    next->train = next->validation = (struct weir_totals){0};
    next->order = config->validation_rounds ? WEIR_ORDER_EVALUATE : last ? WEIR_ORDER_STOP : WEIR_ORDER_TRAIN;
    next->epoch += next->order == WEIR_ORDER_TRAIN;
}

static void run_validation(struct reference *reference, uint32_t chunks, uint64_t step)
{
    const struct sim_config *config = &reference->config;
    bool last = step == (uint64_t)config->steps_per_epoch * config->epochs;
    uint64_t all = reference_all(reference->weights[step], chunks);
    for (uint32_t round = 0; round < config->validation_rounds; round++) {
        struct model_record *next = &reference->records[step][round + 1];
        *next = reference->records[step][round];
        add_round(config, all, step, round, &next->validation);
        if (round + 1 < config->validation_rounds)
            continue;
        next->last_validation = next->validation;
        next->order = last ? WEIR_ORDER_STOP : WEIR_ORDER_TRAIN;
        next->epoch += !last;
    }
}

struct reference *reference_make(const struct sim_config *config, const struct weir_schedule_piece *pieces,
                                 uint32_t piece_count, uint32_t chunks)
{
    struct reference *reference = calloc(1, sizeof *reference);
    if (!reference)
        abort();
    reference->config = *config;
    for (uint32_t c = 0; c < chunks; c++)
        reference->weights[0][c] = reference_initial(c);
    reference->records[0][0] = (struct model_record){.order = WEIR_ORDER_TRAIN, .scale = 1};
    uint64_t steps = (uint64_t)config->steps_per_epoch * config->epochs;
    for (uint64_t step = 0; step < steps; step++) {
        uint32_t round = 0;
        while (reference->records[step][round].order == WEIR_ORDER_EVALUATE)
            round++;
        run_step(reference, pieces, piece_count, chunks, step, round);
        if (reference->records[step + 1][0].order == WEIR_ORDER_EVALUATE)
            run_validation(reference, chunks, step + 1);
    }
    return reference;
}

void reference_free(struct reference *reference)
{
    free(reference);
}

uint64_t reference_weights(const struct reference *reference, uint32_t chunk, uint64_t version)
{
    return reference->weights[version][chunk];
}

static bool same_totals(const struct weir_totals *a, const struct weir_totals *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool reference_has(const struct reference *reference, const struct weir_record *record)
{
    if (record->step >= MAX_STEPS + 2 || record->round >= MAX_ROUNDS)
        return false;
    const struct model_record *model = &reference->records[record->step][record->round];
    bool same = record->order == model->order && record->epoch == model->epoch &&
                record->iterations == model->iterations && same_totals(&record->train, &model->train) &&
                same_totals(&record->validation, &model->validation) &&
                same_totals(&record->last_train, &model->last_train) &&
                same_totals(&record->last_validation, &model->last_validation) &&
                record->last_epoch == model->last_epoch && record->skip == model->skip &&
                record->generation == reference->config.generation && record->learning_rate == LEARNING_RATE &&
                memcmp(&record->scale, &model->scale, sizeof(double)) == 0 && record->norm_count == model->norm_count;
    for (size_t v = 0; same && v < record->norm_count; v++)
        same = record->norms[v] == model->norms[v];
    return same;
}
