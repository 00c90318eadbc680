/* One message of each type against its bytes, which Google's protobuf for Python wrote from proto/weir.proto with the
 * same values: a wire that two programs agree on. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Encoded, `body` is `hex`; and what that decodes to is the same once more, so that no field was lost either way. */
static void expect(const struct weir_message_body *body, const char *hex)
{
    uint8_t *header;
    size_t bytes = weir_wire_encode(body, 0, &header);
    for (int way = 0; way < 2; way++) {
        char text[600] = "";
        assert_true(2 * bytes < sizeof text);
        for (size_t i = 0; i < bytes; i++)
            snprintf(text + 2 * i, 3, "%02x", header[i]);
        assert_string_equal(text, hex);
        if (way == 1)
            break;
        struct weir_slice slice = {header, bytes};
        struct weir_wire_frame frame;
        struct weir_error err;
        if (!weir_wire_decode(&slice, 1, &frame, &err))
            fail_msg("%s", err.text);
        free(header); /* nothing points into what was received */
        bytes = weir_wire_encode(&frame.body, 0, &header);
        weir_wire_frame_free(&frame);
    }
    free(header);
}

#define EXPECT(message, member, hex, ...)                                                                              \
    do {                                                                                                               \
        struct weir_message_body body = {.type = message, .member = __VA_ARGS__};                                      \
        expect(&body, hex);                                                                                            \
    } while (0)

static void hello(void **state)
{
    (void)state;
    const struct weir_held held[2] = {{1, 2, {3, 4}}, {5, UINT64_MAX, {0, 6}}};
    EXPECT(WEIR_HELLO, hello,
           "0a4b080410021803200428053204686173683a066176783531324203613a314a027b7d5204080610075a0a080110021a0408"
           "0310045a11080510ffffffffffffffffff011a021006600868ac02",
           {WEIR_NODE_OBSERVER, 2, 3, 4, 5, "hash", "avx512", "a:1", "{}", 6, 7, true, held, 2, 8, 300});
}

static void hello_tells_no_record_from_record_zero(void **state)
{
    (void)state;
    EXPECT(WEIR_HELLO, hello, "0a0408015200", {.role = WEIR_NODE_CHIEF, .has_record = true});
    EXPECT(WEIR_HELLO, hello, "0a020801", {.role = WEIR_NODE_CHIEF});
}

static void view(void **state)
{
    (void)state;
    const struct weir_view_node nodes[2] = {{WEIR_NODE_PS, 1, 2, "n:3"}, {WEIR_NODE_WORKER, 4, 5, ""}};
    const struct weir_view_chunk chunks[1] = {{6, 10, WEIR_NO_SERVER, 7, {8, 9}}};
    const uint32_t hosts[3] = {300, 0, 2};
    const uint64_t shape[3] = {2, 1u << 30, 3};
    const struct weir_view_variable variables[1] = {{"dense/kernel", 10, 11, shape, 3}};
    const char *const slots[2] = {"m", "v"};
    EXPECT(WEIR_VIEW, view,
           "127908141015181620032a03776879300338184019481a520b08021001180222036e3a3352060803100418055a0c08061007"
           "1a0408081009200b6204ac0200026a1b0a0c64656e73652f6b65726e656c100a180b22070280808080040372016d72017678"
           "1b80011c8a010a08011a0408031004280390011d98011e",
           {.generation = 20,
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
            .record = {1, WEIR_NO_SERVER, 2, 0, {3, 4}},
            .hosts = hosts,
            .variables = variables,
            .variable_count = 1,
            .slots = slots,
            .slot_count = 2,
            .train_samples = 27,
            .validation_samples = 28,
            .complete_step = 29,
            .complete_round = 30});
}

static void heartbeat_and_refused(void **state)
{
    (void)state;
    EXPECT(WEIR_HEARTBEAT, heartbeat,
           "1a3508011002180122036572722a04776169743003390000000000001240400548065007580860096a036e756d700a780180010b880"
           "10c",
           {1, 2, true, "err", "wait", 3, 4.5, 5, 6, 7, 8, 9, 10, "num", true, 11, 12});
    EXPECT(WEIR_REFUSED, refused, "22040a026e6f", {"no", false});
    EXPECT(WEIR_REFUSED, refused, "22060a026e6f1001", {"no", true});
}

static void contribution_and_seal(void **state)
{
    (void)state;
    EXPECT(WEIR_CONTRIBUTION, contribution, "2a0c080110021803200428053001", {1, 2, 3, 4, 5, true});
    EXPECT(WEIR_SEAL, seal,
           "322c080110021803200429000000000000504031000000000000d03f3a1000000000000000000000000000001c40",
           {1, 2, 3, 4, 64, 0.25, {0, 7, 0}});
}

static void chunks_and_versions(void **state)
{
    (void)state;
    const double squares[2] = {0.5, 0};
    EXPECT(WEIR_FETCH, fetch, "3a0f080110ffffffffffffffffff011803", {1, WEIR_NEWEST, 3});
    EXPECT(WEIR_COVERED, covered, "420408011002", {1, 2});
    EXPECT(WEIR_WEIGHTS, weights, "4a0e0801100218032204080410052801", {1, 2, 3, {4, 5}, true});
    EXPECT(WEIR_GONE, gone, "520408011002", {1, 2});
    EXPECT(WEIR_PARTIAL, partial, "5a180801100218032210000000000000e03f0000000000000000", {1, 2, 3, squares, 2});
}

static void forward_ack_and_full(void **state)
{
    (void)state;
    EXPECT(WEIR_FORWARD, forward, "6a0c080110021803220408041005", {1, 2, 3, {4, 5}});
    EXPECT(WEIR_ACK, ack, "72170801100218ffffffffffffffffff0120032a0408041005", {1, 2, WEIR_NO_VERSION, 3, {4, 5}});
    EXPECT(WEIR_FULL, full, "8a010e080110ffffffff0f1a0408021003", {1, WEIR_CHUNK_RECORD, {2, 3}});
}

static void record(void **state)
{
    (void)state;
    const double norms[2] = {0.5, 1};
    EXPECT(WEIR_RECORD, record,
           "62ec0108011002180320032804300539000000000000e03f41000000000000d03f4a10000000000000e03f000000000000f0"
           "3f521c09000000000000f03f1100000000000000401a0800000000000008405a240900000000000010401100000000000014"
           "401a1000000000000000000000000000001840621c090000000000001c401100000000000020401a0800000000000022406a"
           "540900000000000024401100000000000026401a400000000000000000000000000000000000000000000000000000000000"
           "0000000000000000000000000000000000000000000000000000000000000000002840700d7801",
           {.generation = 1,
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
            .last_epoch = 13,
            .skip = true});
}

static void a_payload_is_announced_last(void **state)
{
    (void)state;
    const struct weir_message_body body = {.type = WEIR_COVERED, .covered = {1, 2}};
    uint8_t *header;
    assert_int_equal(weir_wire_encode(&body, 300, &header), 9);
    assert_memory_equal(header, "\x42\x04\x08\x01\x10\x02\x7a\xac\x02", 9);
    free(header);
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
        cmocka_unit_test(forward_ack_and_full),
        cmocka_unit_test(record),
        cmocka_unit_test(a_payload_is_announced_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
