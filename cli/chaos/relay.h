/* A network that can be broken: a TCP relay between the processes of a cluster on 127.0.0.1.
 *
 * Each process is told, for each other one, a port of the relay's instead of the other's own; what it sends there goes
 * on to the other. So each pair can be cut, slowed or reset, each way by itself, without root and without a word in the
 * programs. What a cut holds back arrives when it is over, as TCP would send it again; a connection that is made during
 * a cut comes about when it is over. One thread of its own does the work; calls may come from any thread.
 */
#ifndef WEIR_CHAOS_RELAY_H
#define WEIR_CHAOS_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct weir_relay;

/* What happens to what one process sends another; all zero: nothing. */
struct weir_relay_rule {
    bool cut;
    double delay_ms, jitter_ms; /* each piece waits for the first and a random part of the second; order stays */
    double bytes_per_s;         /* 0: no limit */
};

/* Listens for each pair of `nodes` processes whose own ports are `ports`. NULL, and why, if that can't be. */
struct weir_relay *weir_relay_new(uint32_t nodes, const uint16_t *ports, struct weir_error *err);
/* Closes everything and waits for the thread. NULL is allowed. */
void weir_relay_free(struct weir_relay *relay);

/* Where process `from` reaches `to`. */
uint16_t weir_relay_port(const struct weir_relay *relay, uint32_t from, uint32_t to);
/* From now on for all connections, in the one direction. */
void weir_relay_set(struct weir_relay *relay, uint32_t from, uint32_t to, const struct weir_relay_rule *rule);
/* Breaks all connections between the two, whoever made them, by a reset. */
void weir_relay_reset(struct weir_relay *relay, uint32_t a, uint32_t b);
/* Bytes that went from one to the other so far. */
uint64_t weir_relay_bytes(struct weir_relay *relay, uint32_t from, uint32_t to);

#endif
