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
    REFUSED("\x2a\x02\x08\x80", "contribution: generation: cut off");
    REFUSED("\x2a\x06\x18\x80\x80\x80\x80\x10", "contribution: chunk: 4294967296 does not fit");
    REFUSED("\x2a\x02\x0a\x00", "contribution: generation: wire type 2");
    REFUSED("\x2a\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00", "more than 64 bits");
    REFUSED("\x0a\x00", "hello: role: 0 is none");
    REFUSED("\x0a\x02\x08\x05", "hello: role: 5 is none of its values (1 to 4)");
    REFUSED("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "role: 18446744073709551615 is none");
    REFUSED("\x12\x02\x20\x04", "view: state: 4 is none");
    REFUSED("\x62\x02\x20\x09", "record: order: 9");
    REFUSED("\x22\x03\x0a\x01\x00", "refused: reason: a zero byte");
    REFUSED("\x12\x04\x20\x01\x30\x02", "view: hosts: 0 elements, but 2 are announced");
    REFUSED("\x12\x08\x20\x01\x52\x04\x08\x01\x18\x80", "view: nodes: [0]: ");
    REFUSED("\x32\x0b\x3a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00", "seal: metrics: [1]: cut off");
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
    assert_non_null(strstr(err.text, "seal: metrics: more than 8"));

    char many[2 * 65];
    for (int i = 0; i < 65; i++)
        memcpy(many + 2 * i, "\x70", 2); /* field 14, which is unknown: 0 */
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
    assert_non_null(strstr(err.text, "field number 0"));
    free(message);
}

static void other_orders_and_unknown_fields_are_understood(void **state)
{
    (void)state;
    /* payload, unknown 14 (varint) and 16 (fixed32), contribution {unknown 9: "xy", chunk 3 twice (the last counts)} */
    const char text[] = "\x7a\x04wxyz\x70\x05\x85\x01\x01\x02\x03\x04\x2a\x08\x4a\x02xy\x18\x01\x18\x03";
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
        cmocka_unit_test(other_orders_and_unknown_fields_are_understood),
        cmocka_unit_test(numbers_are_read_packed_or_not),
        cmocka_unit_test(what_is_absent_is_zero_and_empty),
        cmocka_unit_test(minus_zero_and_nan_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
