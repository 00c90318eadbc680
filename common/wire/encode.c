#include "wire/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "wire/fields.h"
#include "wire/store.h"

#define VARINT_BYTES 10
#define PAYLOAD_TAG (WEIR_WIRE_PAYLOAD_FIELD << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)

#define COPY(field) to->field = from->field
#define TEXT(field, max) to->field = text(store, from->field, max)

/* A text longer than the reader takes is cut, before a character: better a short reason than none. protobuf-c's
 * structures have no const; packing only reads them. */
static char *text(struct weir_wire_store *store, const char *from, size_t max)
{
    size_t bytes = from ? strlen(from) : 0;
    if (bytes <= max)
        return (char *)from;
    for (bytes = max; bytes && ((unsigned char)from[bytes] & 0xc0) == 0x80;)
        bytes--;
    char *cut = weir_wire_store_take(store, bytes + 1);
    memcpy(cut, from, bytes);
    cut[bytes] = 0;
    return cut;
}

/* protobuf-c leaves out a double that equals 0, so -0.0, too. But bits count here: that one goes as a field that the
 * structure doesn't know. */
static void keep_minus_zeros(struct weir_wire_store *store, ProtobufCMessage *message)
{
    static const uint8_t minus_zero[8] = {[7] = 0x80};
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (field->type != PROTOBUF_C_TYPE_DOUBLE || field->label == PROTOBUF_C_LABEL_REPEATED ||
            memcmp((char *)message + field->offset, minus_zero, sizeof minus_zero) != 0)
            continue;
        if (!message->unknown_fields)
            message->unknown_fields =
                weir_wire_store_take(store, descriptor->n_fields * sizeof *message->unknown_fields);
        message->unknown_fields[message->n_unknown_fields++] = (ProtobufCMessageUnknownField){
            .tag = field->id,
            .wire_type = PROTOBUF_C_WIRE_TYPE_64BIT,
            .len = sizeof minus_zero,
            .data = (uint8_t *)minus_zero,
        };
    }
}

/* Zeros at the end need not be sent. */
static size_t metric_count(const double *metrics)
{
    const double zero = 0;
    size_t count = WEIR_METRIC_SUMS;
    while (count && memcmp(&metrics[count - 1], &zero, sizeof zero) == 0)
        count--;
    return count;
}

/* A part that says nothing is not sent. */
static Weir__Chain *make_chain(struct weir_wire_store *store, const struct weir_chain *from)
{
    Weir__Chain *to = weir_wire_store_take(store, sizeof *to);
    weir__chain__init(to);
    WEIR_WIRE_CHAIN(COPY);
    return weir__chain__get_packed_size(to) ? to : NULL;
}

static Weir__Totals *make_totals(struct weir_wire_store *store, const struct weir_totals *from)
{
    Weir__Totals *to = weir_wire_store_take(store, sizeof *to);
    weir__totals__init(to);
    WEIR_WIRE_TOTALS(COPY);
    to->metrics = (double *)from->metrics;
    to->n_metrics = metric_count(from->metrics);
    keep_minus_zeros(store, &to->base);
    return weir__totals__get_packed_size(to) ? to : NULL;
}

static Weir__Held *make_held(struct weir_wire_store *store, const struct weir_held *from)
{
    Weir__Held *to = weir_wire_store_take(store, sizeof *to);
    weir__held__init(to);
    WEIR_WIRE_HELD(COPY);
    to->chain = make_chain(store, &from->chain);
    return to;
}

static void put_hello(struct weir_wire_store *store, const struct weir_hello *from, Weir__Hello *to)
{
    weir__hello__init(to);
    WEIR_WIRE_HELLO(COPY);
    WEIR_WIRE_HELLO_TEXTS(TEXT);
    to->role = (Weir__Role)(from->role + 1);
    if (from->has_record) {
        to->record = weir_wire_store_take(store, sizeof *to->record);
        weir__record_name__init(to->record);
        to->record->step = from->record_step;
        to->record->round = from->record_round;
    }
    to->n_held = from->held_count;
    to->held = weir_wire_store_take(store, to->n_held * sizeof(Weir__Held *));
    for (size_t i = 0; i < to->n_held; i++)
        to->held[i] = make_held(store, &from->held[i]);
}

static Weir__ViewNode *make_node(struct weir_wire_store *store, const struct weir_view_node *from)
{
    Weir__ViewNode *to = weir_wire_store_take(store, sizeof *to);
    weir__view_node__init(to);
    WEIR_WIRE_VIEW_NODE(COPY);
    WEIR_WIRE_VIEW_NODE_TEXTS(TEXT);
    to->role = (Weir__Role)(from->role + 1);
    return to;
}

static Weir__ViewChunk *make_chunk(struct weir_wire_store *store, const struct weir_view_chunk *from)
{
    Weir__ViewChunk *to = weir_wire_store_take(store, sizeof *to);
    weir__view_chunk__init(to);
    WEIR_WIRE_VIEW_CHUNK(COPY);
    to->standby = from->standby + 1; /* 0 for WEIR_NO_SERVER */
    to->filling = from->filling + 1;
    to->chain = make_chain(store, &from->chain);
    return to;
}

static Weir__ViewVariable *make_variable(struct weir_wire_store *store, const struct weir_view_variable *from)
{
    Weir__ViewVariable *to = weir_wire_store_take(store, sizeof *to);
    weir__view_variable__init(to);
    WEIR_WIRE_VIEW_VARIABLE(COPY);
    WEIR_WIRE_VIEW_VARIABLE_TEXTS(TEXT);
    to->shape = (uint64_t *)from->shape;
    to->n_shape = from->dims;
    return to;
}

static void put_view(struct weir_wire_store *store, const struct weir_view *from, Weir__View *to)
{
    weir__view__init(to);
    WEIR_WIRE_VIEW(COPY);
    WEIR_WIRE_VIEW_TEXTS(TEXT);
    to->state = (Weir__ViewState)from->state;
    to->n_nodes = from->node_count;
    to->nodes = weir_wire_store_take(store, to->n_nodes * sizeof(Weir__ViewNode *));
    for (size_t i = 0; i < to->n_nodes; i++)
        to->nodes[i] = make_node(store, &from->nodes[i]);
    to->n_chunks = from->chunk_count;
    to->chunks = weir_wire_store_take(store, to->n_chunks * sizeof(Weir__ViewChunk *));
    for (size_t i = 0; i < to->n_chunks; i++)
        to->chunks[i] = make_chunk(store, &from->chunks[i]);
    to->record = make_chunk(store, &from->record);
    if (weir__view_chunk__get_packed_size(to->record) == 0)
        to->record = NULL;
    to->hosts = (uint32_t *)from->hosts;
    to->n_hosts = from->hosts ? from->replicas : 0;
    to->n_variables = from->variable_count;
    to->variables = weir_wire_store_take(store, to->n_variables * sizeof(Weir__ViewVariable *));
    for (size_t i = 0; i < to->n_variables; i++)
        to->variables[i] = make_variable(store, &from->variables[i]);
    to->n_slots = from->slot_count;
    to->slots = weir_wire_store_take(store, to->n_slots * sizeof(char *));
    for (size_t i = 0; i < to->n_slots; i++)
        to->slots[i] = text(store, from->slots[i], WEIR_WIRE_SLOT_BYTES);
}

static void put_heartbeat(struct weir_wire_store *store, const struct weir_heartbeat *from, Weir__Heartbeat *to)
{
    weir__heartbeat__init(to);
    WEIR_WIRE_HEARTBEAT(COPY);
    WEIR_WIRE_HEARTBEAT_TEXTS(TEXT);
    keep_minus_zeros(store, &to->base);
}

static void put_refused(struct weir_wire_store *store, const struct weir_refused *from, Weir__Refused *to)
{
    weir__refused__init(to);
    to->again = from->again;
    WEIR_WIRE_REFUSED_TEXTS(TEXT);
}

static void put_contribution(struct weir_wire_store *store, const struct weir_contribution *from,
                             Weir__Contribution *to)
{
    (void)store;
    weir__contribution__init(to);
    WEIR_WIRE_CONTRIBUTION(COPY);
}

static void put_seal(struct weir_wire_store *store, const struct weir_seal *from, Weir__Seal *to)
{
    weir__seal__init(to);
    WEIR_WIRE_SEAL(COPY);
    to->metrics = (double *)from->metrics;
    to->n_metrics = metric_count(from->metrics);
    keep_minus_zeros(store, &to->base);
}

static void put_fetch(struct weir_wire_store *store, const struct weir_fetch *from, Weir__Fetch *to)
{
    (void)store;
    weir__fetch__init(to);
    WEIR_WIRE_FETCH(COPY);
}

static void put_covered(struct weir_wire_store *store, const struct weir_covered *from, Weir__Covered *to)
{
    (void)store;
    weir__covered__init(to);
    WEIR_WIRE_COVERED(COPY);
}

static void put_weights(struct weir_wire_store *store, const struct weir_weights *from, Weir__Weights *to)
{
    weir__weights__init(to);
    WEIR_WIRE_WEIGHTS(COPY);
    to->chain = make_chain(store, &from->chain);
}

static void put_gone(struct weir_wire_store *store, const struct weir_gone *from, Weir__Gone *to)
{
    (void)store;
    weir__gone__init(to);
    WEIR_WIRE_GONE(COPY);
}

static void put_partial(struct weir_wire_store *store, const struct weir_partial *from, Weir__Partial *to)
{
    (void)store;
    weir__partial__init(to);
    WEIR_WIRE_PARTIAL(COPY);
    to->squares = (double *)from->squares;
    to->n_squares = from->square_count;
}

static void put_forward(struct weir_wire_store *store, const struct weir_forward *from, Weir__Forward *to)
{
    weir__forward__init(to);
    WEIR_WIRE_FORWARD(COPY);
    to->chain = make_chain(store, &from->chain);
}

static void put_ack(struct weir_wire_store *store, const struct weir_ack *from, Weir__Ack *to)
{
    weir__ack__init(to);
    WEIR_WIRE_ACK(COPY);
    to->chain = make_chain(store, &from->chain);
}

static void put_full(struct weir_wire_store *store, const struct weir_full *from, Weir__Full *to)
{
    weir__full__init(to);
    WEIR_WIRE_FULL(COPY);
    to->chain = make_chain(store, &from->chain);
}

static void put_record(struct weir_wire_store *store, const struct weir_record *from, Weir__Record *to)
{
    weir__record__init(to);
    WEIR_WIRE_RECORD(COPY);
    to->order = (Weir__Order)from->order;
    to->norms = (double *)from->norms;
    to->n_norms = from->norm_count;
    to->train = make_totals(store, &from->train);
    to->validation = make_totals(store, &from->validation);
    to->last_train = make_totals(store, &from->last_train);
    to->last_validation = make_totals(store, &from->last_validation);
    keep_minus_zeros(store, &to->base);
}

union message {
    Weir__Hello hello;
    Weir__View view;
    Weir__Heartbeat heartbeat;
    Weir__Refused refused;
    Weir__Contribution contribution;
    Weir__Seal seal;
    Weir__Fetch fetch;
    Weir__Covered covered;
    Weir__Weights weights;
    Weir__Gone gone;
    Weir__Partial partial;
    Weir__Record record;
    Weir__Forward forward;
    Weir__Ack ack;
    Weir__Full full;
};

#define BODY(type, body)                                                                                               \
    case type:                                                                                                         \
        put_##body(store, &from->body, &to->body);                                                                     \
        return

static void put_body(struct weir_wire_store *store, const struct weir_message_body *from, union message *to)
{
    switch (from->type) {
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
    assert(!"a body of no type");
}

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t count = 0;
    for (; value > 0x7f; value >>= 7)
        out[count++] = (uint8_t)(value | 0x80);
    out[count++] = (uint8_t)value;
    return count;
}

size_t weir_wire_encode(const struct weir_message_body *body, uint64_t payload_bytes, uint8_t **header)
{
    struct weir_wire_store store;
    union message message;
    Weir__Frame frame = WEIR__FRAME__INIT;
    weir_wire_store_init(&store, SIZE_MAX);
    put_body(&store, body, &message);
    frame.body_case = (Weir__Frame__BodyCase)body->type;
    frame.hello = &message.hello; /* the frame's pointers are a union as well */
    *header = weir_alloc(weir__frame__get_packed_size(&frame) + 1 + VARINT_BYTES, 1, "a message's header");
    size_t bytes = weir__frame__pack(&frame, *header);
    weir_wire_store_free(&store);
    if (payload_bytes) {
        (*header)[bytes++] = PAYLOAD_TAG;
        bytes += put_varint(*header + bytes, payload_bytes);
    }
    return bytes;
}
