#include "model/team.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "model/graph.h"
#include "protocol/tree.h"

#define NICE 5
#define BLOCK 16384 /* floats of the flat array that are added at once: 64 KiB, which is still in the cache */

/* A subtree of the sum tree: a part, which one thread computes, or the sum of two subtrees. */
struct branch {
    uint32_t first, count;       /* hosted replicas */
    struct branch *left, *right; /* NULL: a part */
    /* Of the step in progress; only for branches with rows. */
    struct branch *above; /* what this is added up in: the lowest subtree with rows on both sides; NULL: a whole node */
    float *sum;           /* flat */
    atomic_uchar *arrived; /* [blocks]: how many of its two sides are done; NULL for a part */
};

struct member {
    struct weir_team *team;
    uint32_t number;
    pthread_t thread;
    bool started;
    struct weir_compute *compute;
    uint32_t first, count; /* hosted replicas */
    struct branch **parts; /* in the order of their replicas */
    uint32_t part_count;
    struct weir_gradient_node *nodes; /* [parts], of the step */
    struct weir_replica_rows *rows;   /* [replicas], of the step */
    size_t blocks_left;               /* of the step: gradients of the blocks from this one on are final in its parts */
};

struct weir_team {
    const struct weir_model *model;
    size_t x_elements, y_elements; /* of a row */
    uint64_t flat_elements;
    size_t blocks;
    struct member *members;
    uint32_t member_count, replica_count;
    struct branch *branches, **roots, **parts;
    uint32_t branch_count, root_count, part_count;
    struct weir_gradient_node *nodes; /* of all parts */
    struct weir_replica_rows *rows;
    float **spares; /* sums that are not a node's own: one for each subtree that is no part */
    uint32_t spare_count, spares_used;
    atomic_uchar *arrived; /* all branches' */
    atomic_uint *done;     /* [blocks]: nodes whose sum is there */
    uint32_t nodes_with_rows;
    /* of the call in progress */
    const struct weir_step_input *input;
    struct weir_sums *sums;
    weir_team_work each;
    void *each_context;
    void (*work)(struct member *member);
    /* how threads are told */
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    uint64_t call;      /* locked: counts calls */
    uint32_t computing; /* locked: threads besides the caller's that are not done with it */
    bool stopping;      /* locked */
};

uint32_t weir_team_threads(uint32_t replicas, uint32_t cpus, uint32_t workers)
{
    assert(replicas > 0 && cpus > 0 && workers > 0);
    uint32_t share = cpus > workers ? cpus / workers : 1;
    return share < replicas ? share : replicas;
}

/* ---- the division */

/* Into how many subtrees more the replicas [first, first + count) of a subtree fall if they are cut before `at`. */
static uint32_t cuts(uint32_t first, uint32_t count, uint32_t at)
{
    uint32_t more = 0;
    while (at > first && at < first + count) {
        uint32_t left = weir_tree_left(count);
        more++;
        if (at <= first + left) {
            count = left;
        } else {
            first += left;
            count -= left;
        }
    }
    return more;
}

static uint32_t cuts_of_all(const struct weir_team_config *config, uint32_t at)
{
    uint32_t more = 0;
    for (uint32_t n = 0; n < config->node_count; n++)
        more += cuts(config->nodes[n].first_replica, config->nodes[n].replica_count, at);
    return more;
}

/* Runs of replicas, none longer than it must be: replicas have the same number of rows, give or take one. Where there
 * is a choice, the boundary that cuts the tree least, since each cut costs a gradient and its addition. */
static void divide(struct weir_team *team, const struct weir_team_config *config)
{
    uint32_t threads = config->threads, all = config->replica_count, longest = (all + threads - 1) / threads;
    uint32_t first = 0;
    for (uint32_t m = 0; m < threads; m++) {
        uint32_t after = threads - 1 - m; /* threads that need one replica at least, and take `longest` at most */
        uint32_t least = all - first > after * longest ? all - after * longest : first + 1;
        uint32_t most = first + longest < all - after ? first + longest : all - after;
        uint32_t end = least;
        for (uint32_t at = end + 1; at <= most; at++)
            if (cuts_of_all(config, at) < cuts_of_all(config, end))
                end = at;
        team->members[m] = (struct member){
            .team = team, .number = m, .first = first, .count = end - first, .rows = team->rows + first};
        first = end;
    }
    assert(first == all);
}

static struct member *member_of(struct weir_team *team, uint32_t replica)
{
    struct member *member = team->members;
    while (replica >= member->first + member->count)
        member++;
    return member;
}

/* The subtree with these replicas, cut down to parts. */
static struct branch *grow(struct weir_team *team, uint32_t first, uint32_t count)
{
    struct branch *branch = &team->branches[team->branch_count++];
    struct member *member = member_of(team, first);
    *branch = (struct branch){.first = first, .count = count};
    if (first + count <= member->first + member->count) {
        if (member->part_count++ == 0) {
            member->parts = team->parts + team->part_count;
            member->nodes = team->nodes + team->part_count;
        }
        team->parts[team->part_count++] = branch;
        return branch;
    }
    uint32_t left = weir_tree_left(count);
    team->spare_count++;
    branch->left = grow(team, first, left);
    branch->right = grow(team, first + left, count - left);
    return branch;
}

static void grow_all(struct weir_team *team, const struct weir_team_config *config)
{
    size_t most = config->replica_count; /* of parts; so there are fewer sums of two */
    team->branches = weir_alloc(2 * most, sizeof *team->branches, "a team's subtrees");
    team->parts = weir_alloc(most, sizeof *team->parts, "a team's parts");
    team->nodes = weir_alloc(most, sizeof *team->nodes, "a team's parts");
    team->roots = weir_alloc(config->node_count, sizeof *team->roots, "a team's nodes");
    team->root_count = config->node_count;
    for (uint32_t n = 0; n < config->node_count; n++)
        team->roots[n] = grow(team, config->nodes[n].first_replica, config->nodes[n].replica_count);
    team->arrived = weir_alloc(team->spare_count * team->blocks, sizeof *team->arrived, "a team's progress");
    team->done = weir_alloc(team->blocks, sizeof *team->done, "a team's progress");
    atomic_uchar *arrived = team->arrived;
    for (uint32_t b = 0; b < team->branch_count; b++)
        if (team->branches[b].left) {
            team->branches[b].arrived = arrived;
            arrived += team->blocks;
        }
}

/* ---- a step */

static bool has_rows(const struct weir_team *team, const struct branch *branch)
{
    const struct weir_replica_rows *first = &team->input->replicas[branch->first], *last = first + branch->count - 1;
    return last->first + last->count > first->first;
}

/* Decides where a branch with rows is summed, and with it what lies below. A side without rows passes the other one
 * through, which then writes where the sum belongs: nothing is added, nothing copied. */
static void place(struct weir_team *team, struct branch *branch, struct branch *above, float *sum)
{
    branch->above = above;
    branch->sum = sum;
    if (!branch->left)
        return;
    bool left = has_rows(team, branch->left), right = has_rows(team, branch->right);
    if (left && right) {
        place(team, branch->left, branch, sum);
        place(team, branch->right, branch, team->spares[team->spares_used++]);
    } else {
        place(team, left ? branch->left : branch->right, above, sum);
    }
}

static void prepare(struct weir_team *team)
{
    team->spares_used = team->nodes_with_rows = 0;
    for (uint32_t n = 0; n < team->root_count; n++) {
        struct weir_gradient_node *node = &team->input->nodes[n];
        assert(node->first_replica == team->roots[n]->first && node->replica_count == team->roots[n]->count);
        node->empty = !has_rows(team, team->roots[n]);
        team->nodes_with_rows += !node->empty;
        if (!node->empty)
            place(team, team->roots[n], NULL, node->gradient);
    }
    for (size_t i = 0; i < team->spare_count * team->blocks; i++)
        atomic_store_explicit(&team->arrived[i], 0, memory_order_relaxed);
    for (size_t i = 0; i < team->blocks; i++)
        atomic_store_explicit(&team->done[i], 0, memory_order_relaxed);
}

/* A part has the gradients of a block: adds them up the tree, as far as the other sides are there, too. Whoever comes
 * first leaves the sum to the other, which sees what it wrote (release, acquire). */
static void arrive(struct member *member, const struct branch *part, size_t block)
{
    struct weir_team *team = member->team;
    uint64_t from = (uint64_t)block * BLOCK, left = team->flat_elements - from;
    size_t count = left < BLOCK ? (size_t)left : BLOCK;
    for (const struct branch *at = part->above; at; at = at->above) {
        if (atomic_fetch_add_explicit(&at->arrived[block], 1, memory_order_acq_rel) == 0)
            return;
        weir_compute_add(member->compute, at->left->sum + from, at->right->sum + from, count);
    }
    uint32_t before = atomic_fetch_add_explicit(&team->done[block], 1, memory_order_acq_rel);
    if (before + 1 == team->nodes_with_rows && team->input->ready)
        team->input->ready(team->input->ready_context, from);
}

/* Gradients from `offset` on are final in a member's parts; it reads the weights there no more. How often members are
 * told, and of which offsets, may differ; so they count in blocks of the flat array, from the last to the first.
 *
 * The team's `ready` is called when every node has its sum of the block, so after every thread with rows came here with
 * it: none still reads the weights. The calls come one after the other, offsets falling, because the one that calls is
 * itself a thread with rows: it takes the next block only after the call has returned, and without it the next block's
 * sums can't be complete. */
static void on_ready(void *context, uint64_t offset)
{
    struct member *member = context;
    while (member->blocks_left > 0 && (uint64_t)(member->blocks_left - 1) * BLOCK >= offset) {
        member->blocks_left--;
        for (uint32_t p = 0; p < member->part_count; p++)
            if (has_rows(member->team, member->parts[p]))
                arrive(member, member->parts[p], member->blocks_left);
    }
}

static void step_member(struct member *member)
{
    const struct weir_team *team = member->team;
    struct weir_step_input input = *team->input;
    uint32_t row = input.replicas[member->first].first;
    for (uint32_t r = 0; r < member->count; r++) {
        const struct weir_replica_rows *replica = &team->input->replicas[member->first + r];
        member->rows[r] = (struct weir_replica_rows){replica->first - row, replica->count};
    }
    for (uint32_t p = 0; p < member->part_count; p++) {
        const struct branch *part = member->parts[p];
        member->nodes[p] = (struct weir_gradient_node){part->first - member->first, part->count, part->sum, false};
    }
    member->blocks_left = team->blocks;
    input.x += row * team->x_elements;
    input.y += row * team->y_elements;
    input.replicas = member->rows;
    input.replica_ids += member->first;
    input.replica_row0 += member->first;
    input.replica_count = member->count;
    input.nodes = member->nodes;
    input.node_count = member->part_count;
    input.ready = on_ready;
    input.ready_context = member;
    weir_compute_step(member->compute, &input, team->sums + member->first);
}

static void each_member(struct member *member)
{
    const struct weir_team *team = member->team;
    for (uint32_t r = 0; r < member->count; r++)
        team->each(team->each_context, member->compute, member->number, member->first + r);
}

/* ---- the threads */

void weir_team_enter(uint32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "compute/%u", number);
    pthread_setname_np(pthread_self(), name);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}

static void *run(void *argument)
{
    struct member *member = argument;
    struct weir_team *team = member->team;
    uint64_t call = 0;
    weir_team_enter(member->number);
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (team->call == call && !team->stopping)
            pthread_cond_wait(&team->begun, &team->lock);
        if (team->stopping)
            break;
        call = team->call;
        pthread_mutex_unlock(&team->lock);
        team->work(member);
        pthread_mutex_lock(&team->lock);
        if (--team->computing == 0)
            pthread_cond_signal(&team->ended);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static void on_all(struct weir_team *team, void (*work)(struct member *member))
{
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->computing = team->member_count - 1;
    team->call++;
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->lock);
    work(&team->members[0]);
    pthread_mutex_lock(&team->lock);
    while (team->computing > 0)
        pthread_cond_wait(&team->ended, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void weir_team_step(struct weir_team *team, const struct weir_step_input *input, struct weir_sums *sums)
{
    assert(input->replica_count == team->replica_count && input->node_count == team->root_count);
    const struct weir_replica_rows *last = &input->replicas[input->replica_count - 1];
    if (team->member_count == 1 || last->first + last->count == 0) {
        weir_compute_step(team->members[0].compute, input, sums);
        return;
    }
    team->input = input;
    team->sums = sums;
    prepare(team);
    on_all(team, step_member);
}

void weir_team_each(struct weir_team *team, weir_team_work work, void *context)
{
    team->each = work;
    team->each_context = context;
    on_all(team, each_member);
}

/* ---- life */

/* Says so before the kernel's out-of-memory killer does. */
static bool fits_into_memory(const struct weir_team *team, const struct weir_team_config *config,
                             struct weir_error *err)
{
    double gib = 1 << 30, gradients = (double)team->spare_count * (double)team->flat_elements * sizeof(float);
    double activations = 0, held = (double)config->held_bytes, memory = (double)weir_memory_of_machine();
    for (uint32_t m = 0; m < team->member_count; m++)
        activations += weir_compute_bytes(team->model, team->members[m].count * config->replica_rows);
    if (activations + gradients + held < memory)
        return true;
    return weir_error_set(err,
                          "%s: the activations of %u samples, with %u more gradients for %u threads, need %.1f GiB, "
                          "besides %.1f GiB for the model's parameters, but this machine has %.1f GiB; use a smaller "
                          "fit.batch_size, more workers, or fewer CPUs "
                          "(taskset)",
                          team->model->path, config->replica_count * config->replica_rows, team->spare_count,
                          team->member_count, (activations + gradients) / gib, held / gib, memory / gib);
}

static bool start(struct member *member, struct weir_error *err)
{
    int code = pthread_create(&member->thread, NULL, run, member);
    if (code != 0)
        return weir_error_set(err,
                              "thread compute/%u could not be started: %s; raise the limit of processes "
                              "(ulimit -u) or let weir use fewer CPUs (taskset)",
                              member->number, strerror(code));
    member->started = true;
    return true;
}

static bool furnish(struct weir_team *team, const struct weir_team_config *config, struct weir_error *err)
{
    team->spares = weir_alloc(team->spare_count, sizeof *team->spares, "gradients of compute threads");
    for (uint32_t s = 0; s < team->spare_count; s++)
        team->spares[s] = weir_alloc_tensor((size_t)team->flat_elements * sizeof(float), "a compute thread's gradient");
    for (uint32_t m = 0; m < team->member_count; m++) {
        struct member *member = &team->members[m];
        member->compute = weir_compute_new(config->model, config->job, member->count * config->replica_rows, err);
        if (!member->compute)
            return false;
    }
    for (uint32_t m = 1; m < team->member_count; m++)
        if (!start(&team->members[m], err))
            return false;
    return true;
}

struct weir_team *weir_team_new(const struct weir_team_config *config, struct weir_error *err)
{
    assert(config->threads > 0 && config->threads <= config->replica_count);
    const struct weir_loss_desc *loss = &config->model->loss;
    struct weir_team *team = weir_alloc(1, sizeof *team, "a team");
    team->model = config->model;
    team->flat_elements = config->model->flat_elements;
    team->blocks = (size_t)((team->flat_elements + BLOCK - 1) / BLOCK);
    weir_shape_elements(&config->model->input, WEIR_ROW_ELEMENTS_MAX, &team->x_elements);
    team->y_elements = loss->positions * loss->label_width;
    team->replica_count = config->replica_count;
    team->member_count = config->threads;
    team->members = weir_alloc(config->threads, sizeof *team->members, "a team's threads");
    team->rows = weir_alloc(config->replica_count, sizeof *team->rows, "a team's replicas");
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begun, NULL);
    pthread_cond_init(&team->ended, NULL);
    divide(team, config);
    grow_all(team, config);
    if (fits_into_memory(team, config, err) && furnish(team, config, err))
        return team;
    weir_team_free(team);
    return NULL;
}

void weir_team_free(struct weir_team *team)
{
    if (!team)
        return;
    pthread_mutex_lock(&team->lock);
    team->stopping = true;
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->lock);
    for (uint32_t m = 0; m < team->member_count; m++) {
        if (team->members[m].started)
            pthread_join(team->members[m].thread, NULL);
        weir_compute_free(team->members[m].compute);
    }
    for (uint32_t s = 0; team->spares && s < team->spare_count; s++)
        free(team->spares[s]);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->begun);
    pthread_cond_destroy(&team->ended);
    free(team->spares);
    free(team->members);
    free(team->rows);
    free(team->branches);
    free(team->parts);
    free(team->nodes);
    free(team->roots);
    free(team->arrived);
    free(team->done);
    free(team);
}
