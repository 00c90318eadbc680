/* Random messages of every type, made from the wire's tables. */
#ifndef TESTS_RANDOM_BODY_H
#define TESTS_RANDOM_BODY_H

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "wire/table.h"
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

static inline void dice_fields(struct dice *dice, const struct weir_wire_table *table, char *base);

static inline void dice_value(struct dice *dice, uint8_t kind, const struct weir_wire_field *field, char *at)
{
    uint64_t number = dice_u64(dice);
    uint32_t narrow = (uint32_t)number;
    char *text;
    switch (kind) {
    case WEIR_WIRE_ENUM:
        narrow = field->low + dice_below(dice, field->high - field->low + 1u) - field->bias;
        memcpy(at, &narrow, sizeof narrow);
        break;
    case WEIR_WIRE_U32:
        memcpy(at, &narrow, sizeof narrow);
        break;
    case WEIR_WIRE_BOOL:
        *(bool *)at = number & 1;
        break;
    case WEIR_WIRE_STRING:
        text = dice_text(dice, field->kind == WEIR_WIRE_STRING ? field->max : 40);
        memcpy(at, &text, sizeof text);
        break;
    case WEIR_WIRE_PART:
        dice_fields(dice, field->part, at);
        break;
    default:
        memcpy(at, &number, sizeof number); /* doubles too: any bits */
    }
}

static inline void dice_field(struct dice *dice, const struct weir_wire_field *field, char *base)
{
    char *at = base + field->offset;
    if (field->kind == WEIR_WIRE_ARRAY) {
        uint32_t count = dice_below(dice, field->max + 1);
        for (uint32_t i = 0; i < count; i++)
            dice_value(dice, WEIR_WIRE_DOUBLE, field, at + i * sizeof(double));
    } else if (field->kind == WEIR_WIRE_LIST || field->kind == WEIR_WIRE_SIZED) {
        uint32_t narrow = dice_below(dice, 6);
        size_t count = narrow, step = weir_wire_element_bytes(field);
        char *elements = dice_take(dice, count * step);
        for (size_t i = 0; i < count; i++)
            dice_value(dice, field->element, field, elements + i * step);
        memcpy(at, &elements, sizeof elements);
        if (field->kind == WEIR_WIRE_SIZED)
            memcpy(base + field->count, &narrow, sizeof narrow);
        else
            memcpy(base + field->count, &count, sizeof count);
    } else if (field->kind != WEIR_WIRE_PART || !field->count ||
               (*(bool *)(base + field->count) = dice_below(dice, 2))) {
        dice_value(dice, field->kind, field, at);
    }
}

static inline void dice_fields(struct dice *dice, const struct weir_wire_table *table, char *base)
{
    for (size_t i = 0; i < table->field_count; i++)
        dice_field(dice, &table->fields[i], base);
}

static inline struct weir_message_body dice_body(struct dice *dice, enum weir_message_type type)
{
    struct weir_message_body body = {.type = type};
    dice_fields(dice, weir_wire_table(type), (char *)&body + offsetof(struct weir_message_body, hello));
    return body;
}

static inline void dice_start(struct dice *dice, uint64_t seed)
{
    dice->key = weir_random_key(seed, WEIR_RANDOM_TEST, 0, 0);
    dice->counter = 0;
    dice->taken_count = 0;
}

#endif
