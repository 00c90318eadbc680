/* What the messages of a lane cost to write and to read, in nanoseconds of one core. bench_wire [ROUNDS] */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/number.h"
#include "wire/wire.h"

static void measure(const char *name, const struct weir_message_body *body, uint64_t payload_bytes, uint64_t rounds)
{
    uint8_t *header;
    uint64_t start = weir_clock_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        weir_wire_encode(body, payload_bytes, &header);
        free(header);
    }
    uint64_t encoded = weir_clock_ns();
    size_t bytes = weir_wire_encode(body, payload_bytes, &header);
    static const uint8_t payload[1 << 20];
    const struct weir_slice slices[2] = {{header, bytes}, {payload, payload_bytes}};
    uint64_t middle = weir_clock_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        struct weir_wire_frame frame;
        struct weir_error err;
        if (!weir_wire_decode(slices, payload_bytes ? 2 : 1, &frame, &err)) {
            fprintf(stderr, "%s: %s\n", name, err.text);
            break;
        }
        weir_wire_frame_free(&frame);
    }
    uint64_t decoded = weir_clock_ns();
    free(header);
    printf("%-12s %4zu bytes  encode %5.0f ns  decode %5.0f ns\n", name, bytes,
           (double)(encoded - start) / (double)rounds, (double)(decoded - middle) / (double)rounds);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 200000;
    if (argc > 1 && !weir_number_parse(argv[1], 1, 1000000000, &rounds)) {
        fprintf(stderr, "bench_wire: \"%s\" is not a whole number from 1 to 1000000000\n", argv[1]);
        return 2;
    }
    const struct weir_totals totals = {1000, 700.5, {900}};
    const struct weir_message_body bodies[] = {
        {.type = WEIR_CONTRIBUTION, .contribution = {0, 12345, 77, 1, 2, false}},
        {.type = WEIR_WEIGHTS, .weights = {77, 12346, 0, {1, 3}, false}},
        {.type = WEIR_COVERED, .covered = {12345, 77}},
        {.type = WEIR_FETCH, .fetch = {77, WEIR_NEWEST, 0}},
        {.type = WEIR_SEAL, .seal = {0, 12345, 0, 3, 16, 12.5, {14}}},
        {.type = WEIR_RECORD,
         .record = {0, 12345, 0, WEIR_ORDER_TRAIN, 3, 12345, 0.001, 1, NULL, 0, totals, totals, totals, totals, 2,
                    false}},
    };
    const char *const names[] = {"contribution", "weights", "covered", "fetch", "seal", "record"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        measure(names[i], &bodies[i], i < 2 ? 1 << 20 : 0, rounds);
    return 0;
}
