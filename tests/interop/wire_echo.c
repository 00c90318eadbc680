/* A server for test_wire.py: decodes each frame, encodes it anew and sends it back, payload included. Prints its port,
 * then why each stream ended; ends when its input does. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "transport/transport.h"
#include "wire/wire.h"

#define LIMIT ((size_t)4 << 20)

static void *wait_for_end_of_input(void *poller)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    weir_poller_wake(poller);
    return NULL;
}

static void give_back(void *message)
{
    weir_message_unref(message);
}

static void answer(struct weir_stream *stream, struct weir_message *message)
{
    size_t count = weir_message_slices(message, NULL, 0);
    struct weir_slice *slices = weir_alloc(2 * count + 1, sizeof *slices, "slices"), *payload = slices + count;
    weir_message_slices(message, slices, count);
    struct weir_wire_frame frame;
    struct weir_error err;
    if (!weir_wire_decode(slices, count, &frame, &err)) {
        weir_stream_close(stream, err.text);
        weir_message_unref(message);
    } else {
        uint8_t *header;
        size_t header_bytes = weir_wire_encode(&frame.body, frame.payload_bytes, &header);
        const struct weir_outgoing outgoing = {
            .header = header,
            .header_bytes = header_bytes,
            .payload = payload,
            .payload_count = weir_wire_cut(slices, count, frame.payload_offset, frame.payload_bytes, payload),
            .release = give_back,
            .release_context = message,
        };
        weir_stream_send(stream, &outgoing);
        free(header);
        weir_wire_frame_free(&frame);
    }
    free(slices);
}

int main(void)
{
    struct weir_transport *transport = weir_transport_grpc();
    struct weir_poller *poller = weir_poller_new(transport);
    struct weir_server_options options = {.address = "127.0.0.1:0", .message_limit_bytes = LIMIT};
    for (int channel = 0; channel < WEIR_CHANNELS_MAX - 1; channel++)
        options.pollers[channel] = poller;
    struct weir_error err;
    struct weir_server *server = weir_server_start(transport, &options, &err);
    pthread_t thread;
    if (!server || pthread_create(&thread, NULL, wait_for_end_of_input, poller))
        return 1;
    printf("%u\n", weir_server_port(server));
    fflush(stdout);
    struct weir_transport_event event;
    size_t streams = 0;
    for (bool ending = false; !ending || streams;) {
        weir_poller_wait(poller, UINT64_MAX, &event);
        if (event.type == WEIR_EVENT_ACCEPTED)
            streams++;
        if (event.type == WEIR_EVENT_MESSAGE)
            answer(event.stream, event.message);
        if (event.type == WEIR_EVENT_CLOSED) {
            printf("closed: %s\n", event.reason);
            fflush(stdout);
            weir_stream_free(event.stream);
            streams--;
        }
        if (event.type == WEIR_EVENT_WOKEN) {
            ending = true;
            weir_server_stop(server);
        }
    }
    pthread_join(thread, NULL);
    weir_poller_free(poller);
    weir_transport_free(transport);
    return 0;
}
