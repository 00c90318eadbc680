#include "wire/table.h"

#define NUMBER(s, n, k, m)                                                                                             \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_##k, .offset = offsetof(struct s, m)                                \
    }
#define STRING(s, n, m, limit)                                                                                         \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_STRING, .offset = offsetof(struct s, m), .max = limit               \
    }
#define ENUM(s, n, m, first, last, above)                                                                              \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_ENUM, .offset = offsetof(struct s, m), .low = first, .high = last,  \
        .bias = above                                                                                                  \
    }
#define PART(s, n, m, table)                                                                                           \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_PART, .offset = offsetof(struct s, m), .part = &table               \
    }
#define ARRAY(s, n, m, limit)                                                                                          \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_ARRAY, .offset = offsetof(struct s, m), .max = limit                \
    }
#define LIST(s, n, k, m, counter, limit, table)                                                                        \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_LIST, .element = WEIR_WIRE_##k, .offset = offsetof(struct s, m),    \
        .count = offsetof(struct s, counter), .max = limit, .part = table                                              \
    }
#define SIZED(s, n, k, m, counter)                                                                                     \
    {                                                                                                                  \
        .name = #m, .number = n, .kind = WEIR_WIRE_SIZED, .element = WEIR_WIRE_##k, .offset = offsetof(struct s, m),   \
        .count = offsetof(struct s, counter)                                                                           \
    }
#define ROLE(s, n, m) ENUM(s, n, m, 1, WEIR_NODE_ROLES, 1)
#define TABLE(s, rows)                                                                                                 \
    {                                                                                                                  \
        .name = &#s[sizeof "weir_" - 1], .bytes = sizeof(struct s), .fields = rows,                                    \
        .field_count = sizeof rows / sizeof rows[0]                                                                    \
    }

static const struct weir_wire_field chain_fields[] = {
    NUMBER(weir_chain, 1, U64, term),
    NUMBER(weir_chain, 2, U64, count),
};
static const struct weir_wire_table chain_table = TABLE(weir_chain, chain_fields);

static const struct weir_wire_field held_fields[] = {
    NUMBER(weir_held, 1, U32, chunk),
    NUMBER(weir_held, 2, U64, version),
    PART(weir_held, 3, chain, chain_table),
};
static const struct weir_wire_table held_table = TABLE(weir_held, held_fields);

/* RecordName has no structure of its own: its fields stand in Hello's. */
static const struct weir_wire_field record_name_fields[] = {
    NUMBER(weir_hello, 1, U64, record_step),
    NUMBER(weir_hello, 2, U32, record_round),
};
static const struct weir_wire_table record_name_table = TABLE(weir_hello, record_name_fields);

static const struct weir_wire_field hello_fields[] = {
    ROLE(weir_hello, 1, role),
    NUMBER(weir_hello, 2, U32, index),
    NUMBER(weir_hello, 3, U64, incarnation),
    NUMBER(weir_hello, 4, U64, generation),
    NUMBER(weir_hello, 5, U64, view),
    STRING(weir_hello, 6, job_hash, WEIR_HASH_TEXT - 1),
    STRING(weir_hello, 7, numerics, 1023),
    STRING(weir_hello, 8, address, 511),
    STRING(weir_hello, 9, canonical, 4u << 20),
    {.name = "record",
     .number = 10,
     .kind = WEIR_WIRE_PART,
     .count = offsetof(struct weir_hello, has_record),
     .part = &record_name_table},
    LIST(weir_hello, 11, PART, held, held_count, 0, &held_table),
    NUMBER(weir_hello, 12, U64, train_samples),
    NUMBER(weir_hello, 13, U64, validation_samples),
};
static const struct weir_wire_table hello_table = TABLE(weir_hello, hello_fields);

static const struct weir_wire_field node_fields[] = {
    ROLE(weir_view_node, 1, role),
    NUMBER(weir_view_node, 2, U32, index),
    NUMBER(weir_view_node, 3, U64, incarnation),
    STRING(weir_view_node, 4, address, 511),
};
static const struct weir_wire_table node_table = TABLE(weir_view_node, node_fields);

static const struct weir_wire_field chunk_fields[] = {
    NUMBER(weir_view_chunk, 1, U32, primary),
    NUMBER(weir_view_chunk, 2, U32, lane),
    PART(weir_view_chunk, 3, chain, chain_table),
};
static const struct weir_wire_table chunk_table = TABLE(weir_view_chunk, chunk_fields);

static const struct weir_wire_field variable_fields[] = {
    STRING(weir_view_variable, 1, name, 1023),
    NUMBER(weir_view_variable, 2, U64, offset),
    NUMBER(weir_view_variable, 3, U64, elements),
    LIST(weir_view_variable, 4, U64, shape, dims, 16, NULL),
};
static const struct weir_wire_table variable_table = TABLE(weir_view_variable, variable_fields);

static const struct weir_wire_field view_fields[] = {
    NUMBER(weir_view, 1, U64, generation),
    NUMBER(weir_view, 2, U64, term),
    NUMBER(weir_view, 3, U64, number),
    ENUM(weir_view, 4, state, WEIR_VIEW_RUNNING, WEIR_VIEW_FAILED, 0),
    STRING(weir_view, 5, reason, 4095),
    NUMBER(weir_view, 6, U32, replicas),
    NUMBER(weir_view, 7, U32, lanes),
    NUMBER(weir_view, 8, U32, chunk_elements),
    NUMBER(weir_view, 9, U64, flat_elements),
    LIST(weir_view, 10, PART, nodes, node_count, 0, &node_table),
    LIST(weir_view, 11, PART, chunks, chunk_count, 0, &chunk_table),
    SIZED(weir_view, 12, U32, hosts, replicas),
    LIST(weir_view, 13, PART, variables, variable_count, 0, &variable_table),
    LIST(weir_view, 14, STRING, slots, slot_count, 0, NULL),
    NUMBER(weir_view, 15, U64, train_samples),
    NUMBER(weir_view, 16, U64, validation_samples),
};
static const struct weir_wire_table view_table = TABLE(weir_view, view_fields);

static const struct weir_wire_field heartbeat_fields[] = {
    NUMBER(weir_heartbeat, 1, U64, incarnation),        NUMBER(weir_heartbeat, 2, U64, step),
    NUMBER(weir_heartbeat, 3, BOOL, leaving),           STRING(weir_heartbeat, 4, error, 4095),
    STRING(weir_heartbeat, 5, waiting, 1023),           NUMBER(weir_heartbeat, 6, U64, pid),
    NUMBER(weir_heartbeat, 7, DOUBLE, cpu_s),           NUMBER(weir_heartbeat, 8, U64, peak_rss_bytes),
    NUMBER(weir_heartbeat, 9, U64, sent_bytes),         NUMBER(weir_heartbeat, 10, U64, received_bytes),
    NUMBER(weir_heartbeat, 11, U64, replicas_computed), NUMBER(weir_heartbeat, 12, U64, chunks_applied),
    STRING(weir_heartbeat, 13, numerics, 1023),
};
static const struct weir_wire_table heartbeat_table = TABLE(weir_heartbeat, heartbeat_fields);

static const struct weir_wire_field refused_fields[] = {
    STRING(weir_refused, 1, reason, 4095),
};
static const struct weir_wire_table refused_table = TABLE(weir_refused, refused_fields);

static const struct weir_wire_field contribution_fields[] = {
    NUMBER(weir_contribution, 1, U64, generation), NUMBER(weir_contribution, 2, U64, step),
    NUMBER(weir_contribution, 3, U32, chunk),      NUMBER(weir_contribution, 4, U32, level),
    NUMBER(weir_contribution, 5, U32, index),      NUMBER(weir_contribution, 6, BOOL, empty),
};
static const struct weir_wire_table contribution_table = TABLE(weir_contribution, contribution_fields);

static const struct weir_wire_field seal_fields[] = {
    NUMBER(weir_seal, 1, U64, generation),
    NUMBER(weir_seal, 2, U64, step),
    NUMBER(weir_seal, 3, U32, round),
    NUMBER(weir_seal, 4, U32, replica),
    NUMBER(weir_seal, 5, DOUBLE, samples),
    NUMBER(weir_seal, 6, DOUBLE, loss),
    ARRAY(weir_seal, 7, metrics, WEIR_METRIC_SUMS),
};
static const struct weir_wire_table seal_table = TABLE(weir_seal, seal_fields);

static const struct weir_wire_field fetch_fields[] = {
    NUMBER(weir_fetch, 1, U32, chunk),
    NUMBER(weir_fetch, 2, U64, version),
    NUMBER(weir_fetch, 3, U32, part),
};
static const struct weir_wire_table fetch_table = TABLE(weir_fetch, fetch_fields);

static const struct weir_wire_field covered_fields[] = {
    NUMBER(weir_covered, 1, U64, step),
    NUMBER(weir_covered, 2, U32, chunk),
};
static const struct weir_wire_table covered_table = TABLE(weir_covered, covered_fields);

static const struct weir_wire_field weights_fields[] = {
    NUMBER(weir_weights, 1, U32, chunk),
    NUMBER(weir_weights, 2, U64, version),
    NUMBER(weir_weights, 3, U32, part),
    PART(weir_weights, 4, chain, chain_table),
};
static const struct weir_wire_table weights_table = TABLE(weir_weights, weights_fields);

static const struct weir_wire_field gone_fields[] = {
    NUMBER(weir_gone, 1, U32, chunk),
    NUMBER(weir_gone, 2, U64, newest),
};
static const struct weir_wire_table gone_table = TABLE(weir_gone, gone_fields);

static const struct weir_wire_field partial_fields[] = {
    NUMBER(weir_partial, 1, U64, generation),
    NUMBER(weir_partial, 2, U64, step),
    NUMBER(weir_partial, 3, U32, chunk),
    LIST(weir_partial, 4, DOUBLE, squares, square_count, 0, NULL),
};
static const struct weir_wire_table partial_table = TABLE(weir_partial, partial_fields);

static const struct weir_wire_field totals_fields[] = {
    NUMBER(weir_totals, 1, DOUBLE, samples),
    NUMBER(weir_totals, 2, DOUBLE, loss),
    ARRAY(weir_totals, 3, metrics, WEIR_METRIC_SUMS),
};
static const struct weir_wire_table totals_table = TABLE(weir_totals, totals_fields);

static const struct weir_wire_field record_fields[] = {
    NUMBER(weir_record, 1, U64, generation),
    NUMBER(weir_record, 2, U64, step),
    NUMBER(weir_record, 3, U32, round),
    ENUM(weir_record, 4, order, WEIR_ORDER_TRAIN, WEIR_ORDER_STOP, 0),
    NUMBER(weir_record, 5, U64, epoch),
    NUMBER(weir_record, 6, U64, iterations),
    NUMBER(weir_record, 7, DOUBLE, learning_rate),
    NUMBER(weir_record, 8, DOUBLE, scale),
    LIST(weir_record, 9, DOUBLE, norms, norm_count, 0, NULL),
    PART(weir_record, 10, train, totals_table),
    PART(weir_record, 11, validation, totals_table),
    PART(weir_record, 12, last_train, totals_table),
    PART(weir_record, 13, last_validation, totals_table),
    NUMBER(weir_record, 14, U64, last_epoch),
    NUMBER(weir_record, 15, BOOL, skip),
};
static const struct weir_wire_table record_table = TABLE(weir_record, record_fields);

static const struct weir_wire_table *const tables[WEIR_MESSAGE_TYPES] = {
    [WEIR_HELLO] = &hello_table,
    [WEIR_VIEW] = &view_table,
    [WEIR_HEARTBEAT] = &heartbeat_table,
    [WEIR_REFUSED] = &refused_table,
    [WEIR_CONTRIBUTION] = &contribution_table,
    [WEIR_SEAL] = &seal_table,
    [WEIR_FETCH] = &fetch_table,
    [WEIR_COVERED] = &covered_table,
    [WEIR_WEIGHTS] = &weights_table,
    [WEIR_GONE] = &gone_table,
    [WEIR_PARTIAL] = &partial_table,
    [WEIR_RECORD] = &record_table,
};

const struct weir_wire_table *weir_wire_table(uint32_t type)
{
    return type < WEIR_MESSAGE_TYPES ? tables[type] : NULL;
}

size_t weir_wire_element_bytes(const struct weir_wire_field *field)
{
    switch (field->element) {
    case WEIR_WIRE_PART:
        return field->part->bytes;
    case WEIR_WIRE_STRING:
        return sizeof(char *);
    case WEIR_WIRE_U32:
        return sizeof(uint32_t);
    case WEIR_WIRE_DOUBLE:
        return sizeof(double);
    default:
        return sizeof(uint64_t);
    }
}
