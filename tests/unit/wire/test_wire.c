#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "random_body.h"

#define PAYLOAD 37

static struct dice dice;

/* Decodes `bytes` cut into slices of random lengths, each in memory of its own length, so that asan sees any step
 * beyond. */
static bool decode_cut(const uint8_t *bytes, size_t count, struct weir_wire_frame *frame, struct weir_error *err)
{
    struct weir_slice slices[64] = {{NULL, 0}};
    size_t used = 0, slice_count = 0;
    while (used < count && slice_count < 63) {
        size_t here = dice_below(&dice, 4) ? dice_below(&dice, (uint32_t)(count - used) + 1) : dice_below(&dice, 3);
        if (slice_count == 62 || here > count - used)
            here = count - used;
        uint8_t *copy = malloc(here ? here : 1);
        if (here)
            memcpy(copy, bytes + used, here);
        slices[slice_count++] = (struct weir_slice){copy, here};
        used += here;
    }
    bool good = weir_wire_decode(slices, slice_count, frame, err);
    for (size_t i = 0; i < slice_count; i++)
        free((void *)slices[i].bytes);
    return good;
}

/* A message of `type` with its payload, as it stands on the wire. */
static uint8_t *make_message(enum weir_message_type type, size_t payload, size_t *bytes)
{
    struct weir_message_body body = dice_body(&dice, type);
    uint8_t *header;
    size_t header_bytes = weir_wire_encode(&body, payload, &header);
    uint8_t *message = calloc(header_bytes + payload, 1);
    memcpy(message, header, header_bytes);
    for (size_t i = 0; i < payload; i++)
        message[header_bytes + i] = (uint8_t)(i * 7 + 1);
    free(header);
    *bytes = header_bytes + payload;
    return message;
}

/* Decoding and encoding again gives the same bytes: with test_known.c, which shows that each field is in them, nothing
 * is lost. */
static void messages_of_every_type_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        for (uint32_t type = WEIR_HELLO; type < WEIR_MESSAGE_TYPES; type++) {
            if (!weir_message_exists(type))
                continue;
            dice_start(&dice, seed * 100 + type);
            size_t payload = dice_below(&dice, 3) ? PAYLOAD : 0, bytes;
            uint8_t *message = make_message(type, payload, &bytes);
            struct weir_wire_frame frame;
            struct weir_error err = {""};
            if (!decode_cut(message, bytes, &frame, &err))
                fail_msg("type %u, seed %llu: %s", type, (unsigned long long)seed, err.text);
            assert_int_equal(frame.body.type, type);
            assert_int_equal(frame.payload_bytes, payload);
            if (payload)
                assert_int_equal(frame.payload_offset, bytes - payload);
            uint8_t *again;
            assert_int_equal(weir_wire_encode(&frame.body, payload, &again), bytes - payload);
            assert_memory_equal(again, message, bytes - payload);
            weir_wire_frame_free(&frame);
            free(again);
            free(message);
            dice_free(&dice);
        }
    }
}

/* A torn message is refused, or (torn between the frame's fields) is a smaller message: never more than was there. */
static void every_truncation_is_handled(void **state)
{
    (void)state;
    for (uint32_t type = WEIR_HELLO; type < WEIR_MESSAGE_TYPES; type++) {
        if (!weir_message_exists(type))
            continue;
        dice_start(&dice, type);
        size_t bytes;
        uint8_t *message = make_message(type, PAYLOAD, &bytes);
        for (size_t cut = 0; cut < bytes; cut++) {
            struct weir_wire_frame frame;
            struct weir_error err = {""};
            if (decode_cut(message, cut, &frame, &err)) {
                assert_int_equal(frame.payload_bytes, 0);
                weir_wire_frame_free(&frame);
            } else {
                assert_true(strlen(err.text) > 0);
            }
        }
        free(message);
        dice_free(&dice);
    }
}

static void every_corrupt_byte_is_handled(void **state)
{
    (void)state;
    for (uint32_t type = WEIR_HELLO; type < WEIR_MESSAGE_TYPES; type++) {
        if (!weir_message_exists(type))
            continue;
        dice_start(&dice, 1000 + type);
        size_t bytes;
        uint8_t *message = make_message(type, PAYLOAD, &bytes);
        for (size_t at = 0; at < bytes - PAYLOAD; at++) {
            uint8_t good = message[at];
            for (int value = 0; value < 256; value += 1 + (int)dice_below(&dice, 3)) {
                message[at] = (uint8_t)value;
                struct weir_wire_frame frame;
                struct weir_error err = {""};
                if (decode_cut(message, bytes, &frame, &err)) {
                    assert_true(frame.payload_offset + frame.payload_bytes <= bytes);
                    weir_wire_frame_free(&frame);
                } else {
                    assert_true(strlen(err.text) > 0);
                }
            }
            message[at] = good;
        }
        free(message);
        dice_free(&dice);
    }
}

static void random_bytes_are_handled(void **state)
{
    (void)state;
    dice_start(&dice, 7);
    for (int round = 0; round < 100000; round++) {
        uint8_t bytes[48];
        size_t count = dice_below(&dice, sizeof bytes + 1);
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)dice_word(&dice);
        if (count > 2 && dice_below(&dice, 2)) { /* a body whose length is right, so that its inside is read */
            bytes[0] = (uint8_t)((1 + dice_below(&dice, 12)) << 3 | 2);
            bytes[1] = (uint8_t)(count - 2);
        }
        struct weir_wire_frame frame;
        struct weir_error err = {""};
        if (decode_cut(bytes, count, &frame, &err))
            weir_wire_frame_free(&frame);
    }
}

static void the_payload_is_found_at_every_cut(void **state)
{
    (void)state;
    dice_start(&dice, 3);
    size_t bytes;
    uint8_t *message = make_message(WEIR_CONTRIBUTION, PAYLOAD, &bytes);
    for (size_t a = 0; a <= bytes; a++) {
        for (size_t b = a; b <= bytes; b++) {
            const struct weir_slice slices[3] = {{message, a}, {message + a, b - a}, {message + b, bytes - b}};
            struct weir_wire_frame frame;
            struct weir_error err = {""};
            assert_true(weir_wire_decode(slices, 3, &frame, &err));
            struct weir_slice out[3];
            size_t count = weir_wire_cut(slices, 3, frame.payload_offset, frame.payload_bytes, out), at = 0;
            for (size_t i = 0; i < count; i++) {
                assert_true(out[i].count > 0);
                assert_ptr_equal(out[i].bytes, message + bytes - PAYLOAD + at); /* in place, not copied */
                at += out[i].count;
            }
            assert_int_equal(at, PAYLOAD);
            weir_wire_frame_free(&frame);
        }
    }
    free(message);
    dice_free(&dice);
}

static void a_cut_beyond_the_end_is_short(void **state)
{
    (void)state;
    const struct weir_slice slices[2] = {{"abc", 3}, {"de", 2}};
    struct weir_slice out[2];
    assert_int_equal(weir_wire_cut(slices, 2, 4, 100, out), 1);
    assert_int_equal(out[0].count, 1);
    assert_int_equal(weir_wire_cut(slices, 2, 5, 1, out), 0);
    assert_int_equal(weir_wire_cut(slices, 2, 6, 1, out), 0);
    assert_int_equal(weir_wire_cut(slices, 2, 0, 0, out), 0);
}

#define CHUNKS 3000
#define VARIABLES 1000

static void a_view_of_3000_chunks_and_1000_variables_comes_back(void **state)
{
    (void)state;
    static struct weir_view_chunk chunks[CHUNKS];
    static struct weir_view_variable variables[VARIABLES];
    static char names[VARIABLES][32];
    static const uint64_t shape[2] = {1024, 3};
    for (uint32_t i = 0; i < CHUNKS; i++)
        chunks[i] =
            (struct weir_view_chunk){.primary = i % 5, .standby = i % 3 - 1, .lane = i % 8, .chain = {i, i * 3}};
    for (uint32_t i = 0; i < VARIABLES; i++) {
        snprintf(names[i], sizeof names[i], "layer_%u/kernel", i);
        variables[i] = (struct weir_view_variable){names[i], i * 3072, 3072, shape, 2};
    }
    struct weir_message_body body = {
        .type = WEIR_VIEW,
        .view = {.state = WEIR_VIEW_RUNNING,
                 .chunks = chunks,
                 .chunk_count = CHUNKS,
                 .variables = variables,
                 .variable_count = VARIABLES},
    };
    uint8_t *header;
    size_t bytes = weir_wire_encode(&body, 0, &header);
    struct weir_slice slice = {header, bytes};
    struct weir_wire_frame frame;
    struct weir_error err = {""};
    assert_true(weir_wire_decode(&slice, 1, &frame, &err));
    free(header); /* nothing points into what was received */
    const struct weir_view *view = &frame.body.view;
    assert_int_equal(view->chunk_count, CHUNKS);
    assert_int_equal(view->variable_count, VARIABLES);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(view->chunks[i].primary, i % 5);
        assert_int_equal(view->chunks[i].standby, (uint32_t)(i % 3 - 1));
        assert_int_equal(view->chunks[i].lane, i % 8);
        assert_int_equal(view->chunks[i].chain.term, i);
        assert_int_equal(view->chunks[i].chain.count, i * 3);
    }
    for (uint32_t i = 0; i < VARIABLES; i++) {
        assert_string_equal(view->variables[i].name, names[i]);
        assert_int_equal(view->variables[i].offset, i * 3072);
        assert_int_equal(view->variables[i].dims, 2);
        assert_int_equal(view->variables[i].shape[0], 1024);
    }
    weir_wire_frame_free(&frame);
}

/* A text that is too long for the reader is cut by the writer, not refused by the reader. */
static void long_reasons_are_cut(void **state)
{
    (void)state;
    static char reason[10000];
    memset(reason, 'x', sizeof reason - 1);
    struct weir_message_body body = {.type = WEIR_REFUSED, .refused = {reason, true}};
    uint8_t *header;
    struct weir_slice slice = {NULL, weir_wire_encode(&body, 0, &header)};
    slice.bytes = header;
    struct weir_wire_frame frame;
    struct weir_error err = {""};
    assert_true(weir_wire_decode(&slice, 1, &frame, &err));
    assert_int_equal(strlen(frame.body.refused.reason), 4095);
    weir_wire_frame_free(&frame);
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_every_type_come_back),
        cmocka_unit_test(every_truncation_is_handled),
        cmocka_unit_test(every_corrupt_byte_is_handled),
        cmocka_unit_test(random_bytes_are_handled),
        cmocka_unit_test(the_payload_is_found_at_every_cut),
        cmocka_unit_test(a_cut_beyond_the_end_is_short),
        cmocka_unit_test(a_view_of_3000_chunks_and_1000_variables_comes_back),
        cmocka_unit_test(long_reasons_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
