/* What the decoder refuses, what it says then, and what it takes though we would not write it. Bytes by hand. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"

static struct weir_wire_frame frame;
static struct weir_error err;

static bool decode(const void *bytes, size_t count)
{
    struct weir_slice slice = {bytes, count};
    err.text[0] = 0;
    return weir_wire_decode(&slice, 1, &frame, &err);
}

#define DECODE(message) decode(message, sizeof message - 1)
#define REFUSED(message, what)                                                                                         \
    do {                                                                                                               \
        assert_false(DECODE(message));                                                                                 \
        if (!strstr(err.text, what))                                                                                   \
            fail_msg("\"%s\" does not say \"%s\"", err.text, what);                                                    \
    } while (0)

static void errors_name_field_and_cause(void **state)
{
    (void)state;
    REFUSED("", "no body");
    REFUSED("\xff", "cut off");
    REFUSED("\x0b", "wire type 3"); /* a group */
    REFUSED("\x02\x00", "field number 0");
    REFUSED("\x28\x01", "does not suit"); /* contribution as a varint */
    REFUSED("\x2a\x05\x08", "5 bytes announced, 1 left");
    REFUSED("\x2a\x02\x08\x80", "contribution: torn");
    REFUSED("\x2a\x02\x0a\x00", "contribution: torn, or not what proto/weir.proto says"); /* a text as generation */
    REFUSED("\x70\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "more than 64 bits");
    REFUSED("\x0a\x00", "hello: role: 0 is none");
    REFUSED("\x0a\x02\x08\x05", "hello: role: 5 is none of its values (1 to 4)");
    REFUSED("\x12\x02\x20\x04", "view: state: 4 is none");
    REFUSED("\x62\x02\x20\x09", "record: order: 9");
    REFUSED("\x12\x04\x20\x01\x30\x02", "view: hosts: 0 elements, but there are 2 replicas");
    REFUSED("\x12\x06\x20\x01\x52\x02\x08\x09", "view: role of a node: 9 is none");
    REFUSED("\x12\x08\x20\x01\x52\x04\x08\x01\x18\x80", "view: torn");
    REFUSED("\x32\x0b\x3a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00", "seal: torn");
    REFUSED("\x2a\x00\x2a\x00", "two bodies, contribution and contribution");
    REFUSED("\x2a\x00\x7a\x00\x7a\x00", "two payloads");
}

static void too_long_texts_and_lists_are_refused(void **state)
{
    (void)state;
    char hash[2 + 2 + 2 + 65];
    memcpy(hash, "\x0a\x45\x08\x02\x32\x41", 6);
    memset(hash + 6, 'f', 65);
    assert_false(decode(hash, sizeof hash));
    assert_non_null(strstr(err.text, "hello: job_hash: 65 bytes, where at most 64"));

    char metrics[4 + 9 * 8] = "\x32\x4a\x3a\x48";
    assert_false(decode(metrics, sizeof metrics));
    assert_non_null(strstr(err.text, "seal: metrics: 9 elements"));

    char many[3 * 65];
    for (int i = 0; i < 65; i++)
        memcpy(many + 3 * i, "\x90\x01", 3); /* field 18, which is unknown: 0 */
    assert_false(decode(many, sizeof many));
    assert_non_null(strstr(err.text, "more than 64 fields"));
}

static void a_body_over_its_limit_is_refused_before_it_is_read(void **state)
{
    (void)state;
    size_t bytes = WEIR_WIRE_HEADER_MAX + 1;
    uint8_t *message = weir_alloc(bytes + 4, 1, "test");
    memcpy(message, "\x2a\x81\x80\x40", 4); /* contribution of 1 MiB + 1 */
    assert_false(decode(message, bytes + 4));
    assert_non_null(strstr(err.text, "contribution of 1048577 bytes; at most 1048576"));
    message[0] = 0x0a; /* the same as hello is read, and refused for what it says */
    assert_false(decode(message, bytes + 4));
    assert_non_null(strstr(err.text, "hello: "));
    free(message);
}

/* Two bytes on the wire, a structure in memory: what the memory is for is in wire.h. */
static void a_list_that_would_take_too_much_memory_is_refused(void **state)
{
    (void)state;
    const size_t count = 100000;
    uint8_t *message = weir_alloc(2 * count + 6, 1, "test");
    memcpy(message, "\x12\xc2\x9a\x0c\x20\x01", 6); /* view of 200002 bytes: state 1, empty variables */
    for (size_t i = 0; i < count; i++)
        memcpy(message + 6 + 2 * i, "\x6a\x00", 2);
    assert_false(decode(message, 2 * count + 6));
    assert_non_null(
        strstr(err.text, "view: torn, or not what proto/weir.proto says, or more fields than 200002 bytes"));
    free(message);
}

/* Messages that say a list again and again are merged, and each time copied: bounded as well. */
static void parts_said_many_times_are_merged_within_the_memory(void **state)
{
    (void)state;
    const size_t each = 12, count = 50000;
    uint8_t *message = weir_alloc(each * count + 4, 1, "test");
    memcpy(message, "\x62\xc0\xcf\x24", 4); /* record of 600000 bytes: train, with one metric */
    for (size_t i = 0; i < count; i++)
        memcpy(message + 4 + each * i, "\x52\x0a\x1a\x08\0\0\0\0\0\0\0\x40", each);
    assert_false(decode(message, each * count + 4));
    assert_non_null(strstr(err.text, "record: torn"));
    free(message);
}

static void other_orders_and_unknown_fields_are_understood(void **state)
{
    (void)state;
    /* payload, unknown 18 (varint) and 16 (fixed32), contribution {unknown 9: "xy", chunk 3 twice (the last counts)} */
    const char text[] = "\x7a\x04wxyz\x90\x01\x05\x85\x01\x01\x02\x03\x04\x2a\x08\x4a\x02xy\x18\x01\x18\x03";
    assert_true(DECODE(text));
    assert_int_equal(frame.body.type, WEIR_CONTRIBUTION);
    assert_int_equal(frame.body.contribution.chunk, 3);
    assert_int_equal(frame.payload_offset, 2);
    assert_int_equal(frame.payload_bytes, 4);
    weir_wire_frame_free(&frame);
}

static void numbers_are_read_packed_or_not(void **state)
{
    (void)state;
    /* view: state 1, replicas 3, hosts 7, then packed {300, 5} */
    assert_true(DECODE("\x12\x0b\x20\x01\x30\x03\x60\x07\x62\x03\xac\x02\x05"));
    assert_int_equal(frame.body.view.replicas, 3);
    assert_int_equal(frame.body.view.hosts[0], 7);
    assert_int_equal(frame.body.view.hosts[1], 300);
    assert_int_equal(frame.body.view.hosts[2], 5);
    weir_wire_frame_free(&frame);
}

static void what_is_absent_is_zero_and_empty(void **state)
{
    (void)state;
    assert_true(DECODE("\x0a\x02\x08\x03"));
    const struct weir_hello *hello = &frame.body.hello;
    assert_int_equal(hello->role, WEIR_NODE_WORKER);
    assert_string_equal(hello->job_hash, "");
    assert_string_equal(hello->canonical, "");
    assert_false(hello->has_record);
    assert_int_equal(hello->held_count, 0);
    weir_wire_frame_free(&frame);
    assert_true(DECODE("\x62\x02\x20\x01"));
    assert_null(frame.body.record.norms);
    weir_wire_frame_free(&frame);
}

/* The bits of a double count: they are part of what is reproducible. */
static void minus_zero_and_nan_keep_their_bits(void **state)
{
    (void)state;
    const uint64_t bits[3] = {UINT64_C(1) << 63, UINT64_C(0x7ff8000000001234), 0};
    struct weir_message_body body = {.type = WEIR_SEAL};
    memcpy(&body.seal.loss, &bits[0], 8);
    memcpy(&body.seal.metrics[2], &bits[0], 8);
    memcpy(&body.seal.samples, &bits[1], 8);
    uint8_t *header;
    size_t bytes = weir_wire_encode(&body, 0, &header);
    assert_true(decode(header, bytes));
    assert_memory_equal(&frame.body.seal, &body.seal, sizeof body.seal);
    weir_wire_frame_free(&frame);
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_field_and_cause),
        cmocka_unit_test(too_long_texts_and_lists_are_refused),
        cmocka_unit_test(a_body_over_its_limit_is_refused_before_it_is_read),
        cmocka_unit_test(a_list_that_would_take_too_much_memory_is_refused),
        cmocka_unit_test(parts_said_many_times_are_merged_within_the_memory),
        cmocka_unit_test(other_orders_and_unknown_fields_are_understood),
        cmocka_unit_test(numbers_are_read_packed_or_not),
        cmocka_unit_test(what_is_absent_is_zero_and_empty),
        cmocka_unit_test(minus_zero_and_nan_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
