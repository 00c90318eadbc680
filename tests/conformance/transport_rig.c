#include "transport_rig.h"

struct weir_transport *transport;
bool is_grpc;

static uint64_t in_ms(uint32_t ms)
{
    return weir_clock_ns() + ms * WEIR_NS_PER_MS;
}

void rig_start_server(struct rig *rig, const char *address, size_t limit)
{
    struct weir_server_options options = {
        .address = address,
        .message_limit_bytes = limit,
        .handshake_timeout_ms = 300,
    };
    for (int channel = 0; channel < WEIR_CHANNELS_MAX - 1; channel++) /* the last one is not served */
        options.pollers[channel] = rig->pollers[SERVER];
    struct weir_error err = {""};
    rig->server = weir_server_start(transport, &options, &err);
    if (!rig->server)
        fail_msg("%s", err.text);
    const char *colon = strrchr(address, ':');
    snprintf(rig->address, sizeof rig->address, "%.*s:%u", (int)(colon - address), address,
             weir_server_port(rig->server));
}

void rig_start(struct rig *rig)
{
    memset(rig, 0, sizeof *rig);
    for (int who = 0; who < 2; who++) {
        rig->pollers[who] = weir_poller_new(transport);
        rig->stash[who] = weir_alloc(STASH, sizeof *rig->stash[who], "events");
    }
    rig_start_server(rig, "127.0.0.1:0", LIMIT);
}

void rig_stop(struct rig *rig)
{
    if (rig->server)
        weir_server_stop(rig->server);
    for (int who = 0; who < 2; who++) {
        assert_int_equal(rig->stash_count[who], 0);
        weir_poller_free(rig->pollers[who]);
        free(rig->stash[who]);
    }
}

static void put_by(struct rig *rig, int who, const struct weir_transport_event *event)
{
    assert_true(rig->stash_count[who] < STASH);
    rig->stash[who][(rig->stash_first[who] + rig->stash_count[who]++) % STASH] = *event;
}

enum weir_transport_event_type rig_next(struct rig *rig, int who, uint32_t timeout_ms,
                                        struct weir_transport_event *event)
{
    uint64_t deadline = in_ms(timeout_ms);
    if (rig->stash_count[who]) {
        *event = rig->stash[who][rig->stash_first[who]];
        rig->stash_first[who] = (rig->stash_first[who] + 1) % STASH;
        rig->stash_count[who]--;
        return event->type;
    }
    for (;;) {
        weir_poller_wait(rig->pollers[who], 0, event);
        if (event->type != WEIR_EVENT_NONE)
            return event->type;
        weir_poller_wait(rig->pollers[!who], 0, event);
        if (event->type != WEIR_EVENT_NONE) {
            put_by(rig, !who, event);
            continue;
        }
        if (weir_clock_ns() >= deadline)
            return event->type = WEIR_EVENT_NONE;
        weir_poller_wait(rig->pollers[who], in_ms(1), event);
        if (event->type != WEIR_EVENT_NONE)
            return event->type;
    }
}

static const char *const names[] = {"NONE", "WOKEN", "ACCEPTED", "OPENED", "MESSAGE", "SENT", "CLOSED"};

struct weir_transport_event rig_expect(struct rig *rig, int who, enum weir_transport_event_type type)
{
    struct weir_transport_event event;
    while (rig_next(rig, who, PATIENCE_MS, &event) == WEIR_EVENT_SENT && type != WEIR_EVENT_SENT)
        rig->sent[who]++;
    if (event.type != type)
        fail_msg("%s instead of %s (%s)", names[event.type], names[type], event.reason);
    return event;
}

void rig_open(struct rig *rig, uint32_t channel, struct weir_stream *ends[2])
{
    ends[CLIENT] = weir_stream_connect(rig->pollers[CLIENT], rig->address, channel, LIMIT, PATIENCE_MS);
    struct weir_transport_event event = rig_expect(rig, SERVER, WEIR_EVENT_ACCEPTED);
    assert_int_equal(event.channel, channel);
    assert_ptr_equal(event.server, rig->server);
    assert_true(strlen(weir_stream_peer(event.stream)) > 0);
    ends[SERVER] = event.stream;
    event = rig_expect(rig, CLIENT, WEIR_EVENT_OPENED);
    assert_ptr_equal(event.stream, ends[CLIENT]);
}

void rig_expect_closed(struct rig *rig, int who, struct weir_stream *stream, const char *reason)
{
    struct weir_transport_event event;
    do {
        if (rig_next(rig, who, PATIENCE_MS, &event) == WEIR_EVENT_NONE)
            fail_msg("no CLOSED (\"%s\") came", reason ? reason : "any");
        assert_ptr_equal(event.stream, stream);
        weir_message_unref(event.message);
    } while (event.type != WEIR_EVENT_CLOSED);
    if (!reason)
        assert_true(strlen(event.reason) > 0);
    else if (reason[0] ? !strstr(event.reason, reason) : event.reason[0] != 0)
        fail_msg("\"%s\" does not say \"%s\"", event.reason, reason);
}

void rig_close(struct rig *rig, struct weir_stream *ends[2])
{
    weir_stream_close(ends[CLIENT], "");
    rig_expect_closed(rig, CLIENT, ends[CLIENT], "");
    rig_expect_closed(rig, SERVER, ends[SERVER], "peer");
    weir_stream_free(ends[CLIENT]);
    weir_stream_free(ends[SERVER]);
}

/* ---- parcels */

void parcel_fill(struct parcel *parcel, size_t count, uint32_t seed)
{
    parcel->bytes = malloc(count ? count : 1);
    parcel->count = count;
    atomic_init(&parcel->released, 0);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        parcel->bytes[i] = (uint8_t)(seed >> 24);
    }
}

static void release_parcel(void *context)
{
    struct parcel *parcel = context;
    atomic_fetch_add(&parcel->released, 1);
}

void parcel_check(struct parcel *parcel, struct rig *rig)
{
    struct weir_transport_event event;
    uint64_t deadline = in_ms(PATIENCE_MS);
    while (!atomic_load(&parcel->released) && weir_clock_ns() < deadline)
        for (int who = 0; who < 2; who++) {
            weir_poller_wait(rig->pollers[who], in_ms(1), &event);
            if (event.type != WEIR_EVENT_NONE)
                put_by(rig, who, &event);
        }
    assert_int_equal(atomic_load(&parcel->released), 1);
    free(parcel->bytes);
}

void parcel_send(struct weir_stream *stream, const char *header, struct parcel *parcel, size_t cuts)
{
    struct weir_slice slices[32];
    size_t used = 0;
    for (size_t i = 0; i < cuts; i++) {
        size_t here = i + 1 == cuts ? parcel->count - used : (parcel->count - used) / (cuts - i) * (i % 3);
        if (here > parcel->count - used)
            here = parcel->count - used;
        slices[i] = (struct weir_slice){parcel->bytes + used, here};
        used += here;
    }
    const struct weir_outgoing outgoing = {
        .header = header,
        .header_bytes = strlen(header),
        .payload = slices,
        .payload_count = cuts,
        .release = release_parcel,
        .release_context = parcel,
    };
    weir_stream_send(stream, &outgoing);
}

static bool same_at(const struct weir_message *message, size_t offset, const void *bytes, size_t count)
{
    size_t slice_count = weir_message_slices(message, NULL, 0), at = 0;
    struct weir_slice *slices = calloc(slice_count + 1, sizeof *slices);
    weir_message_slices(message, slices, slice_count);
    bool same = true;
    for (size_t i = 0; i < slice_count && same; i++) {
        for (size_t b = 0; b < slices[i].count && same; b++, at++)
            if (at >= offset && at < offset + count)
                same = ((const uint8_t *)slices[i].bytes)[b] == ((const uint8_t *)bytes)[at - offset];
    }
    free(slices);
    return same && at >= offset + count;
}

bool parcel_arrived(const struct weir_message *message, const char *header, const struct parcel *parcel)
{
    size_t head = strlen(header);
    return weir_message_bytes(message) == head + parcel->count && same_at(message, 0, header, head) &&
           same_at(message, head, parcel->bytes, parcel->count);
}

void send_text(struct weir_stream *stream, const char *text)
{
    const struct weir_outgoing outgoing = {.header = text, .header_bytes = strlen(text)};
    weir_stream_send(stream, &outgoing);
}

const char *text_of(const struct weir_message *message, char text[256])
{
    struct weir_slice slices[256];
    size_t count = weir_message_slices(message, slices, 256), used = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(used + slices[i].count < 256);
        memcpy(text + used, slices[i].bytes, slices[i].count);
        used += slices[i].count;
    }
    text[used] = 0;
    return text;
}
