#include "models.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "model/team.h"
#include "protocol/tree.h"

#define REPLICAS_MAX 9
#define NODES_MAX 8
#define MANY_BLOCKS 80000 /* floats: so many are not told of all at once */
#define POISON 0xff       /* NaN, for every float that is not written */

#define RELU_600 DENSE("\"units\": 600, \"activation\": \"relu\"")
#define TANH_130 DENSE("\"units\": 130, \"activation\": \"tanh\"")
#define WIDE_MLP MODEL("7, 5", FLATTEN ", " RELU_600 ", " DROPOUT ", " TANH_130 ", " HEAD)

#define POOLED_LAYERS_1 RESCALING ", " GELU_CONV ", " LAYER("MaxPooling2D", "") ", " DROPOUT ", " BARE_CONV ", "
#define POOLED_LAYERS_2 AVERAGE ", " FLATTEN ", " RELU_33 ", " DROPOUT ", " SOFTMAX_HEAD
#define POOLED_CNN MODEL("11, 10, 3", POOLED_LAYERS_1 POOLED_LAYERS_2)

/* What a worker hosts, as some steps see it. */
struct hosted {
    uint32_t first, count, of; /* replicas */
    struct weir_gradient_node nodes[NODES_MAX];
    uint32_t node_count;
    struct weir_replica_rows rows[REPLICAS_MAX];
    uint32_t ids[REPLICAS_MAX], row0[REPLICAS_MAX];
};

static struct hosted host(uint32_t first, uint32_t count, uint32_t of)
{
    struct hosted h = {.first = first, .count = count, .of = of};
    struct weir_tree_node names[REPLICAS_MAX];
    uint32_t list[REPLICAS_MAX];
    for (uint32_t r = 0; r < count; r++)
        list[r] = first + r;
    h.node_count = (uint32_t)weir_tree_cover(of, list, count, names);
    assert_true(h.node_count <= NODES_MAX);
    for (uint32_t n = 0; n < h.node_count; n++) {
        assert_true(weir_tree_range(of, names[n], &h.nodes[n].first_replica, &h.nodes[n].replica_count));
        h.nodes[n].first_replica -= first;
    }
    return h;
}

/* The rows of a global batch that are hosted. */
static void take_batch(struct hosted *h, uint32_t batch)
{
    uint32_t first_row = h->first * batch / h->of;
    for (uint32_t r = 0; r < h->count; r++) {
        uint32_t id = h->first + r, row = id * batch / h->of;
        h->ids[r] = id;
        h->row0[r] = row;
        h->rows[r] = (struct weir_replica_rows){row - first_row, (id + 1) * batch / h->of - row};
    }
}

/* One step's results, and whether what was ready was final. */
struct outcome {
    struct weir_gradient_node nodes[NODES_MAX];
    struct weir_sums sums[REPLICAS_MAX];
    uint64_t ready; /* gradients from here on are */
    uint32_t ready_count;
    const struct outcome *expected; /* NULL: this is it */
    uint32_t node_count;
    uint64_t flat;
    bool final;
};

static bool same(const struct outcome *outcome, uint64_t from, uint64_t to)
{
    for (uint32_t n = 0; n < outcome->node_count; n++) {
        const struct weir_gradient_node *node = &outcome->nodes[n], *expected = &outcome->expected->nodes[n];
        if (node->empty != expected->empty ||
            memcmp(node->gradient + from, expected->gradient + from, (to - from) * sizeof(float)) != 0)
            return false;
    }
    return true;
}

static void on_ready(void *context, uint64_t offset)
{
    struct outcome *outcome = context;
    outcome->final =
        outcome->final && offset <= outcome->ready && (!outcome->expected || same(outcome, offset, outcome->ready));
    outcome->ready = offset;
    outcome->ready_count++;
}

static struct outcome outcome_new(const struct fixture *f, const struct hosted *h)
{
    struct outcome outcome = {.node_count = h->node_count, .flat = f->flat};
    for (uint32_t n = 0; n < h->node_count; n++)
        outcome.nodes[n].gradient = weir_alloc_tensor(f->flat * sizeof(float), "test");
    return outcome;
}

static void outcome_free(struct outcome *outcome)
{
    for (uint32_t n = 0; n < outcome->node_count; n++)
        free(outcome->nodes[n].gradient);
}

static struct weir_step_input input_of(const struct fixture *f, const struct hosted *h, struct outcome *outcome)
{
    for (uint32_t n = 0; n < h->node_count; n++) {
        float *gradient = outcome->nodes[n].gradient;
        memset(gradient, POISON, f->flat * sizeof *gradient);
        outcome->nodes[n] = h->nodes[n];
        outcome->nodes[n].gradient = gradient;
    }
    memset(outcome->sums, POISON, sizeof outcome->sums);
    outcome->ready = f->flat;
    outcome->ready_count = 0;
    outcome->final = true;
    return (struct weir_step_input){.step = 3,
                                    .seed = 5,
                                    .weights = f->weights,
                                    .x = f->x,
                                    .y = f->y,
                                    .replicas = h->rows,
                                    .replica_ids = h->ids,
                                    .replica_row0 = h->row0,
                                    .replica_count = h->count,
                                    .loss_scale = 1.0f / 64,
                                    .nodes = outcome->nodes,
                                    .node_count = h->node_count,
                                    .ready = on_ready,
                                    .ready_context = outcome};
}

static struct weir_team *team_new(const struct fixture *f, const struct hosted *h, uint32_t threads)
{
    struct weir_error err;
    struct weir_team_config config = {.model = f->model,
                                      .job = &f->job,
                                      .nodes = h->nodes,
                                      .node_count = h->node_count,
                                      .replica_count = h->count,
                                      .replica_rows = (TEST_BATCH + h->of - 1) / h->of,
                                      .threads = threads};
    struct weir_team *team = weir_team_new(&config, &err);
    if (!team)
        fail_msg("%s", err.text);
    return team;
}

/* ---- the bits of a step */

static const uint32_t batches[] = {64, 37, 64, 9, 5, 2, 1, 0, 64};
#define BATCHES (sizeof batches / sizeof batches[0])

static void compare(const struct outcome *outcome, const struct hosted *h, uint32_t threads, uint32_t batch)
{
    char where[128];
    snprintf(where, sizeof where, "replicas %u+%u of %u, %u threads, batch %u", h->first, h->count, h->of, threads,
             batch);
    if (!same(outcome, 0, outcome->flat))
        fail_msg("%s: other gradients than on one thread", where);
    if (memcmp(outcome->sums, outcome->expected->sums, sizeof outcome->sums) != 0)
        fail_msg("%s: other sums than on one thread", where);
    if (!outcome->final)
        fail_msg("%s: a gradient was called ready before it was, or again", where);
    if (outcome->ready != 0 || (batch == TEST_BATCH && outcome->flat > MANY_BLOCKS && outcome->ready_count < 3))
        fail_msg("%s: told %u times that gradients are ready, at last from %llu on", where, outcome->ready_count,
                 (unsigned long long)outcome->ready);
}

/* All batches, one after the other, with the same team: what one leaves behind must not matter to the next. */
static void compare_threads(const struct fixture *f, struct hosted *h, const struct outcome *expected, uint32_t threads)
{
    struct weir_team *team = team_new(f, h, threads);
    struct outcome outcome = outcome_new(f, h);
    for (size_t b = 0; b < BATCHES; b++) {
        take_batch(h, batches[b]);
        struct weir_step_input input = input_of(f, h, &outcome);
        outcome.expected = &expected[b];
        weir_team_step(team, &input, outcome.sums);
        compare(&outcome, h, threads, batches[b]);
    }
    outcome_free(&outcome);
    weir_team_free(team);
}

static void check_hosted(const struct fixture *f, uint32_t first, uint32_t count, uint32_t of)
{
    struct hosted h = host(first, count, of);
    struct outcome expected[BATCHES];
    struct weir_error err;
    struct weir_compute *compute = weir_compute_new(f->model, &f->job, TEST_BATCH, &err);
    assert_non_null(compute);
    for (size_t b = 0; b < BATCHES; b++) {
        take_batch(&h, batches[b]);
        expected[b] = outcome_new(f, &h);
        struct weir_step_input input = input_of(f, &h, &expected[b]);
        weir_compute_step(compute, &input, expected[b].sums);
        assert_true(expected[b].final && expected[b].ready == 0);
    }
    for (uint32_t threads = 1; threads <= 5 && threads <= count; threads++)
        compare_threads(f, &h, expected, threads);
    for (size_t b = 0; b < BATCHES; b++)
        outcome_free(&expected[b]);
    weir_compute_free(compute);
}

static void check_model(const char *model, bool from_logits)
{
    struct fixture f;
    fixture_open(&f, model, from_logits);
    for (uint32_t count = 1; count <= REPLICAS_MAX; count++) {
        check_hosted(&f, 0, count, count);                 /* one node */
        check_hosted(&f, 3, count, count + 3 + count % 3); /* several, some of them cut */
    }
    fixture_close(&f);
}

static void dense_layers_have_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    check_model(MLP, true);
    check_model(WIDE_MLP, true);
}

static void convolutions_have_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    check_model(POOLED_CNN, false);
}

static void fused_convolutions_have_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    check_model(CNN, true);
}

/* ---- each replica */

struct visits {
    const struct fixture *f;
    const struct weir_compute *of_thread[REPLICAS_MAX];
    uint32_t thread[REPLICAS_MAX];
    atomic_uint count[REPLICAS_MAX];
    struct weir_sums sums[REPLICAS_MAX];
};

static void visit(void *context, struct weir_compute *compute, uint32_t thread, uint32_t replica)
{
    struct visits *visits = context;
    const struct fixture *f = visits->f;
    visits->thread[replica] = thread;
    visits->of_thread[replica] = compute;
    atomic_fetch_add(&visits->count[replica], 1);
    weir_compute_evaluate(compute, f->weights, f->x + 5 * replica * f->x_elements, f->y + 5 * replica, 5,
                          &visits->sums[replica]);
}

static void check_each(const struct fixture *f, uint32_t count, uint32_t threads, struct visits *visits)
{
    struct hosted h = host(0, count, count);
    struct weir_team *team = team_new(f, &h, threads);
    uint32_t load[REPLICAS_MAX] = {0};
    *visits = (struct visits){.f = f};
    weir_team_each(team, visit, visits);
    for (uint32_t r = 0; r < count; r++) {
        assert_int_equal(atomic_load(&visits->count[r]), 1);
        assert_true(visits->thread[r] < threads);
        load[visits->thread[r]]++;
        for (uint32_t before = 0; before < r; before++)
            assert_int_equal(visits->thread[before] == visits->thread[r],
                             visits->of_thread[before] == visits->of_thread[r]);
    }
    for (uint32_t t = 0; t < threads; t++) /* none idle, none with more than it must have */
        assert_true(load[t] > 0 && load[t] <= (count + threads - 1) / threads);
    weir_team_free(team);
}

static void each_replica_is_done_once_and_threads_share_them_evenly(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, MLP, true);
    for (uint32_t count = 1; count <= REPLICAS_MAX; count++) {
        struct visits alone, shared;
        check_each(&f, count, 1, &alone);
        for (uint32_t threads = 2; threads <= count; threads++) {
            check_each(&f, count, threads, &shared);
            assert_memory_equal(shared.sums, alone.sums, sizeof alone.sums);
        }
    }
    fixture_close(&f);
}

/* ---- the rest of the contract */

static void a_worker_takes_its_share_of_the_cpus(void **state)
{
    (void)state;
    static const struct {
        uint32_t replicas, cpus, workers, threads;
    } rule[] = {
        {4, 2, 1, 2},                                  /* as many as there are CPUs */
        {1, 8, 1, 1},                                  /* a replica is computed by one thread */
        {4, 1, 1, 1},      {4, 2, 2, 1}, {4, 2, 3, 1}, /* never none */
        {4, 8, 2, 4},      {4, 8, 3, 2},               /* the workers of a host share its CPUs */
        {1024, 64, 1, 64},
    };
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++)
        assert_int_equal(weir_team_threads(rule[i].replicas, rule[i].cpus, rule[i].workers), rule[i].threads);
}

static void what_no_machine_has_room_for_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct weir_error err = {""};
    fixture_open(&f, DEEP_CNN, false);
    struct hosted h = host(0, 3, 3);
    struct weir_team_config config = {f.model, &f.job, h.nodes, h.node_count, 3, 1000000000, 2, 0};
    assert_null(weir_team_new(&config, &err));
    assert_non_null(strstr(err.text, "model.json: the activations of 3000000000 samples"));
    assert_non_null(strstr(err.text, "2 threads"));
    assert_non_null(strstr(err.text, "use a smaller fit.batch_size"));
    config.replica_rows = 1;
    config.held_bytes = UINT64_C(1) << 60;
    assert_null(weir_team_new(&config, &err));
    assert_non_null(strstr(err.text, "besides 1073741824.0 GiB for the model's parameters"));
    fixture_close(&f);
}

/* With a stack larger than any address space, threads can't be made. */
static void a_thread_that_cannot_start_is_named(void **state)
{
    (void)state;
    struct fixture f;
    struct weir_error err = {""};
    pthread_attr_t usual, vast;
    fixture_open(&f, MLP, true);
    struct hosted h = host(0, 3, 3);
    struct weir_team_config config = {f.model, &f.job, h.nodes, h.node_count, 3, 8, 2, 0};
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    struct weir_team *team = weir_team_new(&config, &err);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_null(team);
    assert_non_null(strstr(err.text, "thread compute/1 could not be started: "));
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&vast);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_takes_its_share_of_the_cpus),
        cmocka_unit_test(dense_layers_have_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(convolutions_have_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(fused_convolutions_have_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(each_replica_is_done_once_and_threads_share_them_evenly),
        cmocka_unit_test(what_no_machine_has_room_for_is_refused),
        cmocka_unit_test(a_thread_that_cannot_start_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
