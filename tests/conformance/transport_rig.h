/* Two pollers, driven by one thread, with a server between them: what the transport's conformance tests stand on. */
#ifndef TESTS_TRANSPORT_RIG_H
#define TESTS_TRANSPORT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "transport/transport.h"

#define MIB ((size_t)1 << 20)
#define LIMIT (8 * MIB)    /* message limit unless a test says otherwise */
#define PATIENCE_MS 20000u /* how long an event may take before the test fails */
#define STASH 8192

enum { CLIENT, SERVER };

extern struct weir_transport *transport; /* under test */
extern bool is_grpc;

struct rig {
    struct weir_poller *pollers[2];
    struct weir_server *server;
    char address[64];
    struct weir_transport_event *stash[2]; /* events of the poller that was not asked */
    size_t stash_first[2], stash_count[2];
    unsigned sent[2]; /* SENT events that were passed over */
};

void rig_start(struct rig *rig);
void rig_start_server(struct rig *rig, const char *address, size_t limit);
/* All streams must be freed; the server may be stopped already (rig->server NULL). */
void rig_stop(struct rig *rig);
/* The next event of a poller, WEIR_EVENT_NONE after `timeout_ms`. Keeps the other poller going. */
enum weir_transport_event_type rig_next(struct rig *rig, int who, uint32_t timeout_ms,
                                        struct weir_transport_event *event);
/* The next event, which must be of `type`; counts and passes over SENT unless that is asked for. */
struct weir_transport_event rig_expect(struct rig *rig, int who, enum weir_transport_event_type type);
/* A client's stream and its other end. */
void rig_open(struct rig *rig, uint32_t channel, struct weir_stream *ends[2]);
/* Closes one end without a word; frees both. */
void rig_close(struct rig *rig, struct weir_stream *ends[2]);
/* Takes events until CLOSED of `stream` (others of it are dropped); checks that `reason` is part of its reason
 * ("": it must be empty; NULL: any, but not empty). */
void rig_expect_closed(struct rig *rig, int who, struct weir_stream *stream, const char *reason);

/* Bytes that know whether they were given back. */
struct parcel {
    uint8_t *bytes;
    size_t count;
    atomic_uint released;
};
void parcel_fill(struct parcel *parcel, size_t count, uint32_t seed);
/* Waits until it was given back, and sees that it was once; frees. */
void parcel_check(struct parcel *parcel, struct rig *rig);
/* Sends header (a text) and parcel, the payload cut in `cuts` slices. */
void parcel_send(struct weir_stream *stream, const char *header, struct parcel *parcel, size_t cuts);
/* True if the message is header and parcel. */
bool parcel_arrived(const struct weir_message *message, const char *header, const struct parcel *parcel);

void send_text(struct weir_stream *stream, const char *text);
/* The message's bytes as a text of at most 255. */
const char *text_of(const struct weir_message *message, char text[256]);

int transport_message_tests(void);
int transport_end_tests(void);
int transport_connect_tests(void);
int transport_poller_tests(void);
int transport_network_tests(const char *program); /* gRPC only */
int transport_child(const char *address);         /* the process that transport_network_tests kills */

#endif
