/* The code that protoc-c generates from proto/weir.proto reads what we write, field by field, and we read what it
 * writes. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir.pb-c.h"

/* Our bytes as the generated code reads them; what it writes from that is ours again, byte by byte. */
static Weir__Frame *read_by_generated(const struct weir_message_body *body, Weir__Frame__BodyCase expected)
{
    uint8_t *ours;
    size_t bytes = weir_wire_encode(body, 0, &ours);
    Weir__Frame *frame = weir__frame__unpack(NULL, bytes, ours);
    assert_non_null(frame);
    assert_int_equal(frame->body_case, expected);
    assert_int_equal(weir__frame__get_packed_size(frame), bytes);
    uint8_t *theirs = malloc(bytes);
    weir__frame__pack(frame, theirs);
    assert_memory_equal(theirs, ours, bytes);
    struct weir_slice slice = {theirs, bytes};
    struct weir_wire_frame again;
    struct weir_error err = {""};
    if (!weir_wire_decode(&slice, 1, &again, &err))
        fail_msg("%s", err.text);
    uint8_t *third;
    assert_int_equal(weir_wire_encode(&again.body, 0, &third), bytes);
    assert_memory_equal(third, ours, bytes);
    weir_wire_frame_free(&again);
    free(third);
    free(theirs);
    free(ours);
    return frame;
}

#define DONE(frame) weir__frame__free_unpacked(frame, NULL)
#define SAME(a, b) assert_true((a) == (b))

static void hello(void **state)
{
    (void)state;
    const struct weir_held held[2] = {{1, 2, {3, 4}}, {5, UINT64_MAX, {0, 6}}};
    struct weir_message_body body = {
        .type = WEIR_HELLO,
        .hello = {WEIR_NODE_OBSERVER, 2, 3, 4, 5, "hash", "avx512", "a:1", "{}", 6, 7, true, held, 2, 8, 9},
    };
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_HELLO);
    const Weir__Hello *h = frame->hello;
    SAME(h->role, WEIR__ROLE__ROLE_OBSERVER);
    SAME(h->train_samples, 8);
    SAME(h->validation_samples, 9);
    SAME(h->index, 2);
    SAME(h->incarnation, 3);
    SAME(h->generation, 4);
    SAME(h->view, 5);
    assert_string_equal(h->job_hash, "hash");
    assert_string_equal(h->numerics, "avx512");
    assert_string_equal(h->address, "a:1");
    assert_string_equal(h->canonical, "{}");
    SAME(h->record->step, 6);
    SAME(h->record->round, 7);
    SAME(h->n_held, 2);
    SAME(h->held[0]->chunk, 1);
    SAME(h->held[0]->version, 2);
    SAME(h->held[0]->chain->term, 3);
    SAME(h->held[0]->chain->count, 4);
    SAME(h->held[1]->version, UINT64_MAX);
    SAME(h->held[1]->chain->count, 6);
    DONE(frame);
}

static void hello_tells_no_record_from_record_zero(void **state)
{
    (void)state;
    struct weir_message_body body = {.type = WEIR_HELLO, .hello = {.role = WEIR_NODE_CHIEF, .has_record = true}};
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_HELLO);
    SAME(frame->hello->role, WEIR__ROLE__ROLE_CHIEF);
    assert_non_null(frame->hello->record);
    DONE(frame);
    body.hello.has_record = false;
    frame = read_by_generated(&body, WEIR__FRAME__BODY_HELLO);
    assert_null(frame->hello->record);
    DONE(frame);
}

static void view(void **state)
{
    (void)state;
    const struct weir_view_node nodes[2] = {{WEIR_NODE_PS, 1, 2, "n:3"}, {WEIR_NODE_WORKER, 4, 5, ""}};
    const struct weir_view_chunk chunks[1] = {{6, 7, {8, 9}}};
    const uint32_t hosts[3] = {300, 0, 2};
    const uint64_t shape[3] = {2, 1u << 30, 3};
    const struct weir_view_variable variables[1] = {{"dense/kernel", 10, 11, shape, 3}};
    const char *const slots[2] = {"m", "v"};
    struct weir_message_body body = {
        .type = WEIR_VIEW,
        .view = {.generation = 20,
                 .term = 21,
                 .number = 22,
                 .state = WEIR_VIEW_FAILED,
                 .reason = "why",
                 .replicas = 3,
                 .lanes = 24,
                 .chunk_elements = 25,
                 .flat_elements = 26,
                 .nodes = nodes,
                 .node_count = 2,
                 .chunks = chunks,
                 .chunk_count = 1,
                 .hosts = hosts,
                 .variables = variables,
                 .variable_count = 1,
                 .slots = slots,
                 .slot_count = 2},
    };
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_VIEW);
    const Weir__View *v = frame->view;
    SAME(v->generation, 20);
    SAME(v->term, 21);
    SAME(v->number, 22);
    SAME(v->state, WEIR__VIEW_STATE__VIEW_STATE_FAILED);
    assert_string_equal(v->reason, "why");
    SAME(v->replicas, 3);
    SAME(v->lanes, 24);
    SAME(v->chunk_elements, 25);
    SAME(v->flat_elements, 26);
    SAME(v->n_nodes, 2);
    SAME(v->nodes[0]->role, WEIR__ROLE__ROLE_PS);
    SAME(v->nodes[0]->index, 1);
    SAME(v->nodes[0]->incarnation, 2);
    assert_string_equal(v->nodes[0]->address, "n:3");
    SAME(v->nodes[1]->role, WEIR__ROLE__ROLE_WORKER);
    SAME(v->n_chunks, 1);
    SAME(v->chunks[0]->primary, 6);
    SAME(v->chunks[0]->lane, 7);
    SAME(v->chunks[0]->chain->term, 8);
    SAME(v->n_hosts, 3);
    SAME(v->hosts[0], 300);
    SAME(v->hosts[2], 2);
    SAME(v->n_variables, 1);
    assert_string_equal(v->variables[0]->name, "dense/kernel");
    SAME(v->variables[0]->offset, 10);
    SAME(v->variables[0]->elements, 11);
    SAME(v->variables[0]->n_shape, 3);
    SAME(v->variables[0]->shape[1], 1u << 30);
    SAME(v->n_slots, 2);
    assert_string_equal(v->slots[1], "v");
    DONE(frame);
}

static void heartbeat_and_refused(void **state)
{
    (void)state;
    struct weir_message_body body = {
        .type = WEIR_HEARTBEAT,
        .heartbeat = {1, 2, true, "err", "wait", 3, 4.5, 5, 6, 7, 8, 9, "num"},
    };
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_HEARTBEAT);
    const Weir__Heartbeat *h = frame->heartbeat;
    SAME(h->incarnation, 1);
    SAME(h->step, 2);
    SAME(h->leaving, 1);
    assert_string_equal(h->error, "err");
    assert_string_equal(h->waiting, "wait");
    SAME(h->pid, 3);
    SAME(h->cpu_s, 4.5);
    SAME(h->peak_rss_bytes, 5);
    SAME(h->sent_bytes, 6);
    SAME(h->received_bytes, 7);
    SAME(h->replicas_computed, 8);
    SAME(h->chunks_applied, 9);
    assert_string_equal(h->numerics, "num");
    DONE(frame);
    body = (struct weir_message_body){.type = WEIR_REFUSED, .refused = {"no"}};
    frame = read_by_generated(&body, WEIR__FRAME__BODY_REFUSED);
    assert_string_equal(frame->refused->reason, "no");
    DONE(frame);
}

static void contribution_and_seal(void **state)
{
    (void)state;
    struct weir_message_body body = {.type = WEIR_CONTRIBUTION, .contribution = {1, 2, 3, 4, 5, true}};
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_CONTRIBUTION);
    SAME(frame->contribution->generation, 1);
    SAME(frame->contribution->step, 2);
    SAME(frame->contribution->chunk, 3);
    SAME(frame->contribution->level, 4);
    SAME(frame->contribution->index, 5);
    SAME(frame->contribution->empty, 1);
    DONE(frame);
    body = (struct weir_message_body){.type = WEIR_SEAL, .seal = {1, 2, 3, 4, 64, 0.25, {0, 7, 0}}};
    frame = read_by_generated(&body, WEIR__FRAME__BODY_SEAL);
    SAME(frame->seal->generation, 1);
    SAME(frame->seal->step, 2);
    SAME(frame->seal->round, 3);
    SAME(frame->seal->replica, 4);
    SAME(frame->seal->samples, 64);
    SAME(frame->seal->loss, 0.25);
    SAME(frame->seal->n_metrics, 2);
    SAME(frame->seal->metrics[1], 7);
    DONE(frame);
}

static void chunks_and_versions(void **state)
{
    (void)state;
    struct weir_message_body body = {.type = WEIR_FETCH, .fetch = {1, WEIR_NEWEST, 3}};
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_FETCH);
    SAME(frame->fetch->chunk, 1);
    SAME(frame->fetch->version, UINT64_MAX);
    SAME(frame->fetch->part, 3);
    DONE(frame);
    body = (struct weir_message_body){.type = WEIR_COVERED, .covered = {1, 2}};
    frame = read_by_generated(&body, WEIR__FRAME__BODY_COVERED);
    SAME(frame->covered->step, 1);
    SAME(frame->covered->chunk, 2);
    DONE(frame);
    body = (struct weir_message_body){.type = WEIR_WEIGHTS, .weights = {1, 2, 3, {4, 5}}};
    frame = read_by_generated(&body, WEIR__FRAME__BODY_WEIGHTS);
    SAME(frame->weights->chunk, 1);
    SAME(frame->weights->version, 2);
    SAME(frame->weights->part, 3);
    SAME(frame->weights->chain->term, 4);
    SAME(frame->weights->chain->count, 5);
    DONE(frame);
    body = (struct weir_message_body){.type = WEIR_GONE, .gone = {1, 2}};
    frame = read_by_generated(&body, WEIR__FRAME__BODY_GONE);
    SAME(frame->gone->chunk, 1);
    SAME(frame->gone->newest, 2);
    DONE(frame);
    const double squares[2] = {0.5, 0};
    body = (struct weir_message_body){.type = WEIR_PARTIAL, .partial = {1, 2, 3, squares, 2}};
    frame = read_by_generated(&body, WEIR__FRAME__BODY_PARTIAL);
    SAME(frame->partial->generation, 1);
    SAME(frame->partial->step, 2);
    SAME(frame->partial->chunk, 3);
    SAME(frame->partial->n_squares, 2);
    SAME(frame->partial->squares[0], 0.5);
    DONE(frame);
}

static void record(void **state)
{
    (void)state;
    const double norms[2] = {0.5, 1};
    struct weir_message_body body = {
        .type = WEIR_RECORD,
        .record = {.generation = 1,
                   .step = 2,
                   .round = 3,
                   .order = WEIR_ORDER_STOP,
                   .epoch = 4,
                   .iterations = 5,
                   .learning_rate = 0.5,
                   .scale = 0.25,
                   .norms = norms,
                   .norm_count = 2,
                   .train = {1, 2, {3}},
                   .validation = {4, 5, {0, 6}},
                   .last_train = {7, 8, {9}},
                   .last_validation = {10, 11, {[WEIR_METRIC_SUMS - 1] = 12}},
                   .last_epoch = 13},
    };
    Weir__Frame *frame = read_by_generated(&body, WEIR__FRAME__BODY_RECORD);
    const Weir__Record *r = frame->record;
    SAME(r->generation, 1);
    SAME(r->step, 2);
    SAME(r->round, 3);
    SAME(r->order, WEIR__ORDER__ORDER_STOP);
    SAME(r->epoch, 4);
    SAME(r->iterations, 5);
    SAME(r->learning_rate, 0.5);
    SAME(r->scale, 0.25);
    SAME(r->n_norms, 2);
    SAME(r->norms[0], 0.5);
    SAME(r->train->samples, 1);
    SAME(r->train->loss, 2);
    SAME(r->train->metrics[0], 3);
    SAME(r->validation->metrics[1], 6);
    SAME(r->last_train->samples, 7);
    SAME(r->last_validation->n_metrics, WEIR_METRIC_SUMS);
    SAME(r->last_validation->metrics[WEIR_METRIC_SUMS - 1], 12);
    SAME(r->last_epoch, 13);
    DONE(frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello),
        cmocka_unit_test(hello_tells_no_record_from_record_zero),
        cmocka_unit_test(view),
        cmocka_unit_test(heartbeat_and_refused),
        cmocka_unit_test(contribution_and_seal),
        cmocka_unit_test(chunks_and_versions),
        cmocka_unit_test(record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
