/* The fields that are called alike in protocol/message.h and in the code that protoc-c makes of proto/weir.proto. What
 * only needs to be copied stands here once, for both directions, as operands of a comma; everything else is in encode.c
 * and decode.c. Private to wire/.
 */
#ifndef WEIR_WIRE_FIELDS_H
#define WEIR_WIRE_FIELDS_H

#include "protocol/message.h"
#include "weir.pb-c.h"

#define WEIR_WIRE_PAYLOAD_FIELD 15 /* of Frame */

/* Numbers and flags. */
#define WEIR_WIRE_CHAIN(F) F(term), F(count)
#define WEIR_WIRE_HELLO(F) F(index), F(incarnation), F(generation), F(view), F(train_samples), F(validation_samples)
#define WEIR_WIRE_HELD(F) F(chunk), F(version)
#define WEIR_WIRE_VIEW(F)                                                                                              \
    F(generation), F(term), F(number), F(replicas), F(lanes), F(chunk_elements), F(flat_elements), F(train_samples),   \
        F(validation_samples), F(complete_step), F(complete_round)
#define WEIR_WIRE_VIEW_NODE(F) F(index), F(incarnation)
#define WEIR_WIRE_VIEW_CHUNK(F) F(primary), F(lane)
#define WEIR_WIRE_VIEW_VARIABLE(F) F(offset), F(elements)
#define WEIR_WIRE_HEARTBEAT(F)                                                                                         \
    F(incarnation), F(step), F(leaving), F(pid), F(cpu_s), F(peak_rss_bytes), F(sent_bytes), F(received_bytes),        \
        F(replicas_computed), F(chunks_applied), F(copied_bytes), F(drained), F(drained_step), F(drained_round)
#define WEIR_WIRE_CONTRIBUTION(F) F(generation), F(step), F(chunk), F(level), F(index), F(empty)
#define WEIR_WIRE_SEAL(F) F(generation), F(step), F(round), F(replica), F(samples), F(loss)
#define WEIR_WIRE_FETCH(F) F(chunk), F(version), F(part)
#define WEIR_WIRE_COVERED(F) F(step), F(chunk)
#define WEIR_WIRE_WEIGHTS(F) F(chunk), F(version), F(part), F(whole)
#define WEIR_WIRE_GONE(F) F(chunk), F(newest)
#define WEIR_WIRE_PARTIAL(F) F(generation), F(step), F(chunk)
#define WEIR_WIRE_FORWARD(F) F(generation), F(step), F(chunk)
#define WEIR_WIRE_ACK(F) F(generation), F(chunk), F(version), F(round)
#define WEIR_WIRE_FULL(F) F(generation), F(chunk)
#define WEIR_WIRE_TOTALS(F) F(samples), F(loss)
#define WEIR_WIRE_RECORD(F)                                                                                            \
    F(generation), F(step), F(round), F(epoch), F(iterations), F(learning_rate), F(scale), F(last_epoch), F(skip)

/* Texts, and the most bytes that one may have, its zero byte aside. */
#define WEIR_WIRE_HELLO_TEXTS(F)                                                                                       \
    F(job_hash, WEIR_HASH_TEXT - 1), F(numerics, 1023), F(address, 511), F(canonical, (size_t)4 << 20)
#define WEIR_WIRE_VIEW_TEXTS(F) F(reason, 4095)
#define WEIR_WIRE_VIEW_NODE_TEXTS(F) F(address, 511)
#define WEIR_WIRE_VIEW_VARIABLE_TEXTS(F) F(name, 1023)
#define WEIR_WIRE_HEARTBEAT_TEXTS(F) F(error, 4095), F(waiting, 1023), F(numerics, 1023)
#define WEIR_WIRE_REFUSED_TEXTS(F) F(reason, 4095)

#define WEIR_WIRE_SLOT_BYTES 255 /* of a slot's name */
#define WEIR_WIRE_DIMS_MAX 16    /* of a variable's shape */

#endif
