/* Random messages of every type. */
#ifndef TESTS_RANDOM_BODY_H
#define TESTS_RANDOM_BODY_H

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "wire/fields.h"
#include "wire/wire.h"

struct dice {
    struct weir_random_key key;
    uint64_t counter;
    void *taken[8192]; /* memory of the body, freed together */
    size_t taken_count;
};

static inline uint32_t dice_word(struct dice *dice)
{
    uint32_t words[4];
    weir_random_block(dice->key, dice->counter++, 0, words);
    return words[0];
}

static inline uint32_t dice_below(struct dice *dice, uint32_t n)
{
    return dice_word(dice) % n;
}

/* All widths are equally likely, 0 and the largest included. */
static inline uint64_t dice_u64(struct dice *dice)
{
    uint64_t value = (uint64_t)dice_word(dice) << 32 | dice_word(dice);
    uint32_t width = dice_below(dice, 66);
    return width == 65 ? UINT64_MAX : width == 64 ? value : value & ((UINT64_C(1) << width) - 1);
}

static inline void *dice_take(struct dice *dice, size_t bytes)
{
    if (dice->taken_count == sizeof dice->taken / sizeof dice->taken[0])
        abort();
    return dice->taken[dice->taken_count++] = weir_alloc(bytes ? bytes : 1, 1, "a random message");
}

static inline void dice_free(struct dice *dice)
{
    while (dice->taken_count)
        free(dice->taken[--dice->taken_count]);
}

static inline char *dice_text(struct dice *dice, uint32_t max)
{
    uint32_t bytes = dice_below(dice, (max < 40 ? max : 40) + 1);
    char *text = dice_take(dice, bytes + 1);
    for (uint32_t i = 0; i < bytes; i++)
        text[i] = (char)(1 + dice_below(dice, 255));
    return text;
}

/* A flag, or a number with any bits: doubles, too. */
static inline void dice_number(struct dice *dice, void *at, size_t bytes)
{
    uint64_t number = dice_u64(dice);
    if (bytes == sizeof(bool))
        *(bool *)at = number & 1;
    else
        memcpy(at, &number, bytes); /* the low bytes come first */
}

#define DICE_NUMBER(field) dice_number(dice, &to->field, sizeof to->field)
#define DICE_TEXT(field, max) to->field = dice_text(dice, max)

/* Room for `size` times the 0 to 5 elements of a list, whose number is thrown. */
static inline void *dice_list(struct dice *dice, size_t *count, size_t size)
{
    *count = dice_below(dice, 6);
    void *elements = dice_take(dice, *count * size);
    memset(elements, 0, *count * size);
    return elements;
}

static inline void *dice_numbers(struct dice *dice, size_t *count, size_t size)
{
    char *numbers = dice_list(dice, count, size);
    for (size_t i = 0; i < *count; i++)
        dice_number(dice, numbers + i * size, size);
    return numbers;
}

static inline void dice_metrics(struct dice *dice, double *metrics)
{
    for (uint32_t i = dice_below(dice, WEIR_METRIC_SUMS + 1); i > 0; i--)
        dice_number(dice, &metrics[i - 1], sizeof *metrics);
}

static inline void dice_chain(struct dice *dice, struct weir_chain *to)
{
    WEIR_WIRE_CHAIN(DICE_NUMBER);
}

static inline void dice_held(struct dice *dice, struct weir_held *to)
{
    WEIR_WIRE_HELD(DICE_NUMBER);
    dice_chain(dice, &to->chain);
}

static inline void dice_hello(struct dice *dice, struct weir_hello *to)
{
    WEIR_WIRE_HELLO(DICE_NUMBER);
    WEIR_WIRE_HELLO_TEXTS(DICE_TEXT);
    to->role = (enum weir_node_role)dice_below(dice, WEIR_NODE_ROLES);
    to->has_record = dice_below(dice, 2);
    if (to->has_record)
        DICE_NUMBER(record_step), DICE_NUMBER(record_round);
    struct weir_held *held = dice_list(dice, &to->held_count, sizeof *held);
    for (size_t i = 0; i < to->held_count; i++)
        dice_held(dice, &held[i]);
    to->held = held;
}

static inline void dice_node(struct dice *dice, struct weir_view_node *to)
{
    WEIR_WIRE_VIEW_NODE(DICE_NUMBER);
    WEIR_WIRE_VIEW_NODE_TEXTS(DICE_TEXT);
    to->role = (enum weir_node_role)dice_below(dice, WEIR_NODE_ROLES);
}

static inline void dice_chunk(struct dice *dice, struct weir_view_chunk *to)
{
    WEIR_WIRE_VIEW_CHUNK(DICE_NUMBER), DICE_NUMBER(standby), DICE_NUMBER(filling);
    dice_chain(dice, &to->chain);
}

static inline void dice_variable(struct dice *dice, struct weir_view_variable *to)
{
    WEIR_WIRE_VIEW_VARIABLE(DICE_NUMBER);
    WEIR_WIRE_VIEW_VARIABLE_TEXTS(DICE_TEXT);
    to->shape = dice_numbers(dice, &to->dims, sizeof *to->shape);
}

static inline void dice_view(struct dice *dice, struct weir_view *to)
{
    size_t replicas;
    WEIR_WIRE_VIEW(DICE_NUMBER);
    WEIR_WIRE_VIEW_TEXTS(DICE_TEXT);
    to->state = (enum weir_view_state)(1 + dice_below(dice, WEIR_VIEW_FAILED));
    struct weir_view_node *nodes = dice_list(dice, &to->node_count, sizeof *nodes);
    for (size_t i = 0; i < to->node_count; i++)
        dice_node(dice, &nodes[i]);
    to->nodes = nodes;
    struct weir_view_chunk *chunks = dice_list(dice, &to->chunk_count, sizeof *chunks);
    for (size_t i = 0; i < to->chunk_count; i++)
        dice_chunk(dice, &chunks[i]);
    to->chunks = chunks;
    dice_chunk(dice, &to->record);
    to->hosts = dice_numbers(dice, &replicas, sizeof *to->hosts);
    to->replicas = (uint32_t)replicas;
    struct weir_view_variable *variables = dice_list(dice, &to->variable_count, sizeof *variables);
    for (size_t i = 0; i < to->variable_count; i++)
        dice_variable(dice, &variables[i]);
    to->variables = variables;
    const char **slots = dice_list(dice, &to->slot_count, sizeof *slots);
    for (size_t i = 0; i < to->slot_count; i++)
        slots[i] = dice_text(dice, WEIR_WIRE_SLOT_BYTES);
    to->slots = slots;
}

static inline void dice_heartbeat(struct dice *dice, struct weir_heartbeat *to)
{
    WEIR_WIRE_HEARTBEAT(DICE_NUMBER);
    WEIR_WIRE_HEARTBEAT_TEXTS(DICE_TEXT);
}

static inline void dice_refused(struct dice *dice, struct weir_refused *to)
{
    WEIR_WIRE_REFUSED_TEXTS(DICE_TEXT);
}

static inline void dice_contribution(struct dice *dice, struct weir_contribution *to)
{
    WEIR_WIRE_CONTRIBUTION(DICE_NUMBER);
}

static inline void dice_seal(struct dice *dice, struct weir_seal *to)
{
    WEIR_WIRE_SEAL(DICE_NUMBER);
    dice_metrics(dice, to->metrics);
}

static inline void dice_fetch(struct dice *dice, struct weir_fetch *to)
{
    WEIR_WIRE_FETCH(DICE_NUMBER);
}

static inline void dice_covered(struct dice *dice, struct weir_covered *to)
{
    WEIR_WIRE_COVERED(DICE_NUMBER);
}

static inline void dice_weights(struct dice *dice, struct weir_weights *to)
{
    WEIR_WIRE_WEIGHTS(DICE_NUMBER);
    dice_chain(dice, &to->chain);
}

static inline void dice_gone(struct dice *dice, struct weir_gone *to)
{
    WEIR_WIRE_GONE(DICE_NUMBER);
}

static inline void dice_partial(struct dice *dice, struct weir_partial *to)
{
    WEIR_WIRE_PARTIAL(DICE_NUMBER);
    to->squares = dice_numbers(dice, &to->square_count, sizeof *to->squares);
}

static inline void dice_totals(struct dice *dice, struct weir_totals *to)
{
    WEIR_WIRE_TOTALS(DICE_NUMBER);
    dice_metrics(dice, to->metrics);
}

static inline void dice_forward(struct dice *dice, struct weir_forward *to)
{
    WEIR_WIRE_FORWARD(DICE_NUMBER);
    dice_chain(dice, &to->chain);
}

static inline void dice_ack(struct dice *dice, struct weir_ack *to)
{
    WEIR_WIRE_ACK(DICE_NUMBER);
    dice_chain(dice, &to->chain);
}

static inline void dice_full(struct dice *dice, struct weir_full *to)
{
    WEIR_WIRE_FULL(DICE_NUMBER);
    dice_chain(dice, &to->chain);
}

static inline void dice_record(struct dice *dice, struct weir_record *to)
{
    WEIR_WIRE_RECORD(DICE_NUMBER);
    to->order = (enum weir_order)(1 + dice_below(dice, WEIR_ORDER_STOP));
    to->norms = dice_numbers(dice, &to->norm_count, sizeof *to->norms);
    dice_totals(dice, &to->train);
    dice_totals(dice, &to->validation);
    dice_totals(dice, &to->last_train);
    dice_totals(dice, &to->last_validation);
}

#define DICE_BODY(type, member)                                                                                        \
    case type:                                                                                                         \
        dice_##member(dice, &body.member);                                                                             \
        break

static inline struct weir_message_body dice_body(struct dice *dice, enum weir_message_type type)
{
    struct weir_message_body body = {.type = type};
    switch (type) {
        DICE_BODY(WEIR_HELLO, hello);
        DICE_BODY(WEIR_VIEW, view);
        DICE_BODY(WEIR_HEARTBEAT, heartbeat);
        DICE_BODY(WEIR_REFUSED, refused);
        DICE_BODY(WEIR_CONTRIBUTION, contribution);
        DICE_BODY(WEIR_SEAL, seal);
        DICE_BODY(WEIR_FETCH, fetch);
        DICE_BODY(WEIR_COVERED, covered);
        DICE_BODY(WEIR_WEIGHTS, weights);
        DICE_BODY(WEIR_GONE, gone);
        DICE_BODY(WEIR_PARTIAL, partial);
        DICE_BODY(WEIR_RECORD, record);
        DICE_BODY(WEIR_FORWARD, forward);
        DICE_BODY(WEIR_ACK, ack);
        DICE_BODY(WEIR_FULL, full);
    case WEIR_MESSAGE_TYPES:
        abort();
    }
    return body;
}

static inline void dice_start(struct dice *dice, uint64_t seed)
{
    dice->key = weir_random_key(seed, WEIR_RANDOM_TEST, 0, 0);
    dice->counter = 0;
    dice->taken_count = 0;
}

#endif
