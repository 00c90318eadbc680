/* libFuzzer: whatever the bytes, in whatever slices, the decoder answers; and what it takes, it can write and read
 * again. Run by hand: build-clang/tests/fuzz_wire -max_len=4096 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    size_t cut = data[0] % size; /* the first byte says where the slices are cut */
    const struct weir_slice slices[3] = {{data + 1, cut}, {data, 0}, {data + 1 + cut, size - 1 - cut}};
    struct weir_wire_frame frame, again;
    struct weir_error err;
    if (!weir_wire_decode(slices, 3, &frame, &err))
        return 0;
    assert(frame.payload_offset + frame.payload_bytes <= size);
    uint8_t *header, *second;
    size_t bytes = weir_wire_encode(&frame.body, 0, &header);
    const struct weir_slice whole = {header, bytes};
    bool good = weir_wire_decode(&whole, 1, &again, &err);
    assert(good);
    size_t second_bytes = weir_wire_encode(&again.body, 0, &second);
    assert(second_bytes == bytes && !memcmp(header, second, bytes));
    weir_wire_frame_free(&frame);
    weir_wire_frame_free(&again);
    free(header);
    free(second);
    return 0;
}
