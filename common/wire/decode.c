#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/body.h"
#include "wire/fields.h"

struct reading {
    struct weir_wire_store *store;
    struct weir_error *err;
    bool wrong; /* then err says why: the first cause counts, later ones are not told */
};

#define COPY(field) to->field = from->field
#define TEXT(field, max) to->field = text(r, #field, from->field, max)

static void refuse(struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct reading *r, const char *format, ...)
{
    if (r->wrong)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->err->text, sizeof r->err->text, format, args);
    va_end(args);
    r->wrong = true;
}

static const char *text(struct reading *r, const char *name, const char *from, size_t max)
{
    size_t bytes = strlen(from);
    if (bytes > max)
        refuse(r, "%s: %zu bytes, where at most %zu are allowed", name, bytes, max);
    return from;
}

static int one_of(struct reading *r, const char *name, int value, int low, int high)
{
    if (value < low || value > high)
        refuse(r, "%s: %d is none of its values (%d to %d)", name, value, low, high);
    return value;
}

static enum weir_node_role role(struct reading *r, const char *name, Weir__Role value)
{
    return (enum weir_node_role)(one_of(r, name, (int)value, 1, WEIR_NODE_ROLES) - 1);
}

static void metrics(struct reading *r, const double *from, size_t count, double *to)
{
    memset(to, 0, WEIR_METRIC_SUMS * sizeof *to);
    if (count > WEIR_METRIC_SUMS)
        refuse(r, "metrics: %zu elements, where at most %d are allowed", count, WEIR_METRIC_SUMS);
    else if (count)
        memcpy(to, from, count * sizeof *to);
}

/* Room for a list in C's form; NULL (and perhaps refused) if there is nothing to put in. */
static void *list(struct reading *r, size_t count, size_t size)
{
    if (!count)
        return NULL;
    void *elements = count <= SIZE_MAX / size ? weir_wire_store_take(r->store, count * size) : NULL;
    if (!elements)
        refuse(r, "its fields would take too much memory");
    return elements;
}

static struct weir_chain chain(const Weir__Chain *from)
{
    struct weir_chain chain = {0}, *to = &chain;
    if (from)
        WEIR_WIRE_CHAIN(COPY);
    return chain;
}

static void read_totals(struct reading *r, const Weir__Totals *from, struct weir_totals *to)
{
    if (!from)
        return;
    WEIR_WIRE_TOTALS(COPY);
    metrics(r, from->metrics, from->n_metrics, to->metrics);
}

static void read_held(const Weir__Held *from, struct weir_held *to)
{
    WEIR_WIRE_HELD(COPY);
    to->chain = chain(from->chain);
}

static void read_hello(struct reading *r, const Weir__Hello *from, struct weir_hello *to)
{
    WEIR_WIRE_HELLO(COPY);
    WEIR_WIRE_HELLO_TEXTS(TEXT);
    to->role = role(r, "role", from->role);
    to->has_record = from->record != NULL;
    if (from->record) {
        to->record_step = from->record->step;
        to->record_round = from->record->round;
    }
    struct weir_held *held = list(r, from->n_held, sizeof *held);
    for (size_t i = 0; held && i < from->n_held; i++)
        read_held(from->held[i], &held[i]);
    to->held = held;
    to->held_count = held ? from->n_held : 0;
}

static void read_node(struct reading *r, const Weir__ViewNode *from, struct weir_view_node *to)
{
    WEIR_WIRE_VIEW_NODE(COPY);
    WEIR_WIRE_VIEW_NODE_TEXTS(TEXT);
    to->role = role(r, "role of a node", from->role);
}

static void read_chunk(const Weir__ViewChunk *from, struct weir_view_chunk *to)
{
    WEIR_WIRE_VIEW_CHUNK(COPY);
    to->standby = from->standby - 1; /* WEIR_NO_SERVER for 0 */
    to->filling = from->filling - 1;
    to->chain = chain(from->chain);
}

static void read_variable(struct reading *r, const Weir__ViewVariable *from, struct weir_view_variable *to)
{
    WEIR_WIRE_VIEW_VARIABLE(COPY);
    WEIR_WIRE_VIEW_VARIABLE_TEXTS(TEXT);
    if (from->n_shape > WEIR_WIRE_DIMS_MAX)
        refuse(r, "shape of %.100s: %zu dimensions, where at most %d are allowed", from->name, from->n_shape,
               WEIR_WIRE_DIMS_MAX);
    to->shape = from->shape;
    to->dims = from->n_shape;
}

static void read_view_lists(struct reading *r, const Weir__View *from, struct weir_view *to)
{
    struct weir_view_node *nodes = list(r, from->n_nodes, sizeof *nodes);
    for (size_t i = 0; nodes && i < from->n_nodes; i++)
        read_node(r, from->nodes[i], &nodes[i]);
    struct weir_view_chunk *chunks = list(r, from->n_chunks, sizeof *chunks);
    for (size_t i = 0; chunks && i < from->n_chunks; i++)
        read_chunk(from->chunks[i], &chunks[i]);
    struct weir_view_variable *variables = list(r, from->n_variables, sizeof *variables);
    for (size_t i = 0; variables && i < from->n_variables; i++)
        read_variable(r, from->variables[i], &variables[i]);
    to->nodes = nodes;
    to->node_count = from->n_nodes;
    to->chunks = chunks;
    to->chunk_count = from->n_chunks;
    to->variables = variables;
    to->variable_count = from->n_variables;
}

static void read_view(struct reading *r, const Weir__View *from, struct weir_view *to)
{
    WEIR_WIRE_VIEW(COPY);
    WEIR_WIRE_VIEW_TEXTS(TEXT);
    to->state = (enum weir_view_state)one_of(r, "state", (int)from->state, WEIR_VIEW_RUNNING, WEIR_VIEW_FAILED);
    read_view_lists(r, from, to);
    to->record = (struct weir_view_chunk){.standby = WEIR_NO_SERVER, .filling = WEIR_NO_SERVER};
    if (from->record)
        read_chunk(from->record, &to->record);
    if (from->n_hosts != from->replicas)
        refuse(r, "hosts: %zu elements, but there are %u replicas", from->n_hosts, from->replicas);
    to->hosts = from->hosts;
    for (size_t i = 0; i < from->n_slots; i++)
        text(r, "slots", from->slots[i], WEIR_WIRE_SLOT_BYTES);
    to->slots = (const char *const *)from->slots;
    to->slot_count = from->n_slots;
}

static void read_heartbeat(struct reading *r, const Weir__Heartbeat *from, struct weir_heartbeat *to)
{
    WEIR_WIRE_HEARTBEAT(COPY);
    WEIR_WIRE_HEARTBEAT_TEXTS(TEXT);
}

static void read_refused(struct reading *r, const Weir__Refused *from, struct weir_refused *to)
{
    to->again = from->again;
    WEIR_WIRE_REFUSED_TEXTS(TEXT);
}

static void read_contribution(struct reading *r, const Weir__Contribution *from, struct weir_contribution *to)
{
    (void)r;
    WEIR_WIRE_CONTRIBUTION(COPY);
}

static void read_seal(struct reading *r, const Weir__Seal *from, struct weir_seal *to)
{
    WEIR_WIRE_SEAL(COPY);
    metrics(r, from->metrics, from->n_metrics, to->metrics);
}

static void read_fetch(struct reading *r, const Weir__Fetch *from, struct weir_fetch *to)
{
    (void)r;
    WEIR_WIRE_FETCH(COPY);
}

static void read_covered(struct reading *r, const Weir__Covered *from, struct weir_covered *to)
{
    (void)r;
    WEIR_WIRE_COVERED(COPY);
}

static void read_weights(struct reading *r, const Weir__Weights *from, struct weir_weights *to)
{
    (void)r;
    WEIR_WIRE_WEIGHTS(COPY);
    to->chain = chain(from->chain);
}

static void read_gone(struct reading *r, const Weir__Gone *from, struct weir_gone *to)
{
    (void)r;
    WEIR_WIRE_GONE(COPY);
}

static void read_partial(struct reading *r, const Weir__Partial *from, struct weir_partial *to)
{
    (void)r;
    WEIR_WIRE_PARTIAL(COPY);
    to->squares = from->squares;
    to->square_count = from->n_squares;
}

static void read_forward(struct reading *r, const Weir__Forward *from, struct weir_forward *to)
{
    (void)r;
    WEIR_WIRE_FORWARD(COPY);
    to->chain = chain(from->chain);
}

static void read_ack(struct reading *r, const Weir__Ack *from, struct weir_ack *to)
{
    (void)r;
    WEIR_WIRE_ACK(COPY);
    to->chain = chain(from->chain);
}

static void read_full(struct reading *r, const Weir__Full *from, struct weir_full *to)
{
    (void)r;
    WEIR_WIRE_FULL(COPY);
    to->chain = chain(from->chain);
}

static void read_record(struct reading *r, const Weir__Record *from, struct weir_record *to)
{
    WEIR_WIRE_RECORD(COPY);
    to->order = (enum weir_order)one_of(r, "order", (int)from->order, WEIR_ORDER_TRAIN, WEIR_ORDER_STOP);
    to->norms = from->norms;
    to->norm_count = from->n_norms;
    read_totals(r, from->train, &to->train);
    read_totals(r, from->validation, &to->validation);
    read_totals(r, from->last_train, &to->last_train);
    read_totals(r, from->last_validation, &to->last_validation);
}

#define BODY(type, body)                                                                                               \
    case type:                                                                                                         \
        read_##body(r, from, &to->body);                                                                               \
        return

/* `from` is of the type that to->type says. */
static void read_message(struct reading *r, const void *from, struct weir_message_body *to)
{
    switch (to->type) {
        BODY(WEIR_HELLO, hello);
        BODY(WEIR_VIEW, view);
        BODY(WEIR_HEARTBEAT, heartbeat);
        BODY(WEIR_REFUSED, refused);
        BODY(WEIR_CONTRIBUTION, contribution);
        BODY(WEIR_SEAL, seal);
        BODY(WEIR_FETCH, fetch);
        BODY(WEIR_COVERED, covered);
        BODY(WEIR_WEIGHTS, weights);
        BODY(WEIR_GONE, gone);
        BODY(WEIR_PARTIAL, partial);
        BODY(WEIR_RECORD, record);
        BODY(WEIR_FORWARD, forward);
        BODY(WEIR_ACK, ack);
        BODY(WEIR_FULL, full);
    case WEIR_MESSAGE_TYPES:
        break;
    }
    assert(!"weir.proto has a body that message.h has not");
}

static void *take(void *store, size_t bytes)
{
    return weir_wire_store_take(store, bytes);
}

/* All goes at once, with the store. */
static void leave(void *store, void *memory)
{
    (void)store;
    (void)memory;
}

const ProtobufCFieldDescriptor *weir_wire_find_body(uint32_t number)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(&weir__frame__descriptor, number);
    return field && field->type == PROTOBUF_C_TYPE_MESSAGE ? field : NULL;
}

static size_t memory_budget(size_t body_bytes)
{
    size_t bytes = WEIR_WIRE_MEMORY_LEAST + WEIR_WIRE_MEMORY_RATIO * body_bytes;
    return bytes < WEIR_WIRE_MEMORY_MAX ? bytes : WEIR_WIRE_MEMORY_MAX;
}

bool weir_wire_read_body(const ProtobufCFieldDescriptor *field, const uint8_t *bytes, size_t count,
                         struct weir_wire_frame *frame, struct weir_error *err)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = leave, .allocator_data = &frame->store};
    struct reading r = {.store = &frame->store, .err = err};
    weir_wire_store_init(&frame->store, memory_budget(count));
    memset(&frame->body, 0, sizeof frame->body);
    frame->body.type = (enum weir_message_type)field->id;
    const void *message = protobuf_c_message_unpack(field->descriptor, &allocator, count, bytes);
    if (message)
        read_message(&r, message, &frame->body);
    else
        refuse(&r, "torn, or not what proto/weir.proto says, or more fields than %zu bytes are worth", count);
    if (!r.wrong)
        return true;
    weir_wire_store_free(&frame->store);
    return weir_error_wrap(err, "%s", field->name);
}

void weir_wire_frame_free(struct weir_wire_frame *frame)
{
    weir_wire_store_free(&frame->store);
}
