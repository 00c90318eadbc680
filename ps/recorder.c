#include "ps/recorder.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "protocol/layout.h"
#include "protocol/tree.h"

struct seal_box {
    double samples, loss, metrics[WEIR_METRIC_SUMS];
};

struct weir_recorder {
    struct weir_recorder_config config;
    struct weir_record record;
    uint8_t state; /* enum weir_order of `record` */
    struct weir_machine_counts counts;
    uint32_t *hosts;  /* by replica: the view's */
    uint32_t primary; /* server: the view's */
    uint32_t sealed;
    bool *has_seal; /* by replica */
    struct seal_box *seals;
    uint32_t chunks, partials; /* gated jobs */
    bool *has_partial;         /* by chunk */
    uint32_t *leaders;         /* by chunk: servers, the view's */
    uint32_t *first_piece;     /* by chunk; [chunks] is the end */
    double *squares;           /* by piece */
    double *sums, *norms;      /* scratch and verdict, by variable */
    double *gathered;          /* scratch, by piece */
    double *adopted;           /* by variable: a verdict that another one made */
};

static const struct weir_transition rows[] = {
    {WEIR_ORDER_TRAIN, WEIR_ORDER_TRAIN, "a step is sealed, the epoch goes on (or the next one starts)"},
    {WEIR_ORDER_TRAIN, WEIR_ORDER_EVALUATE, "the epoch's last step is sealed and there is validation data"},
    {WEIR_ORDER_TRAIN, WEIR_ORDER_STOP, "the last step is sealed and there is no validation data"},
    {WEIR_ORDER_EVALUATE, WEIR_ORDER_EVALUATE, "a round of validation is sealed, another follows"},
    {WEIR_ORDER_EVALUATE, WEIR_ORDER_TRAIN, "the last round is sealed, the next epoch starts"},
    {WEIR_ORDER_EVALUATE, WEIR_ORDER_STOP, "the last round of the last epoch is sealed"},
};
const struct weir_machine weir_recorder_machine = {"recorder", rows, sizeof rows / sizeof rows[0]};

static bool gated(const struct weir_recorder *recorder)
{
    return recorder->config.schedule.gate != WEIR_GATE_NONE;
}

static void follow_leaders(struct weir_recorder *recorder, const struct weir_view_chunk *holders)
{
    for (uint32_t c = 0; c < recorder->chunks; c++)
        recorder->leaders[c] = holders[c].primary;
}

static void init_pieces(struct weir_recorder *recorder, struct weir_arena *arena)
{
    const struct weir_schedule *schedule = &recorder->config.schedule;
    size_t pieces = schedule->piece_count;
    recorder->chunks = pieces ? schedule->pieces[pieces - 1].chunk + 1 : 0;
    recorder->has_partial = weir_arena_take(arena, recorder->chunks, sizeof(bool));
    recorder->leaders = weir_arena_take(arena, recorder->chunks, sizeof(uint32_t));
    follow_leaders(recorder, recorder->config.holders);
    recorder->first_piece = weir_arena_take(arena, recorder->chunks + 1, sizeof(uint32_t));
    recorder->squares = weir_arena_take(arena, pieces, sizeof(double));
    recorder->gathered = weir_arena_take(arena, pieces, sizeof(double));
    recorder->sums = weir_arena_take(arena, schedule->variables, sizeof(double));
    recorder->norms = weir_arena_take(arena, schedule->variables, sizeof(double));
    recorder->adopted = weir_arena_take(arena, schedule->variables, sizeof(double));
    uint32_t chunk = 0;
    for (size_t i = 0; i < pieces; i++) {
        assert(i == 0 || schedule->pieces[i].chunk >= schedule->pieces[i - 1].chunk);
        while (chunk <= schedule->pieces[i].chunk)
            recorder->first_piece[chunk++] = (uint32_t)i;
    }
    recorder->first_piece[recorder->chunks] = (uint32_t)pieces;
}

struct weir_recorder *weir_recorder_init(struct weir_arena *arena, const struct weir_recorder_config *config)
{
    assert(config->replicas > 0 && config->replicas <= WEIR_REPLICAS_MAX);
    assert(config->schedule.steps_per_epoch > 0 && config->schedule.epochs > 0);
    struct weir_recorder *recorder = weir_arena_take(arena, 1, sizeof *recorder);
    recorder->config = *config;
    recorder->hosts = weir_arena_take(arena, config->replicas, sizeof(uint32_t));
    memcpy(recorder->hosts, config->hosts, config->replicas * sizeof(uint32_t));
    recorder->primary = config->primary;
    recorder->has_seal = weir_arena_take(arena, config->replicas, sizeof(bool));
    recorder->seals = weir_arena_take(arena, config->replicas, sizeof(struct seal_box));
    if (gated(recorder))
        init_pieces(recorder, arena);
    recorder->state = WEIR_ORDER_TRAIN;
    recorder->record = (struct weir_record){
        .generation = config->generation,
        .step = config->first_step,
        .order = WEIR_ORDER_TRAIN,
        .epoch = config->first_step / config->schedule.steps_per_epoch,
        .iterations = config->first_step,
        .learning_rate = config->schedule.learning_rate,
        .scale = 1,
    };
    return recorder;
}

const struct weir_record *weir_recorder_newest(const struct weir_recorder *recorder)
{
    return &recorder->record;
}

const struct weir_machine_counts *weir_recorder_counts(const struct weir_recorder *recorder)
{
    return &recorder->counts;
}

/* Adds this round's seals to `totals`, along the tree. */
static void add_seals(const struct weir_recorder *recorder, struct weir_totals *totals)
{
    const size_t stride = sizeof(struct seal_box) / sizeof(double);
    uint32_t replicas = recorder->config.replicas;
    totals->samples += weir_tree_sum(replicas, &recorder->seals[0].samples, stride, NULL);
    totals->loss += weir_tree_sum(replicas, &recorder->seals[0].loss, stride, NULL);
    for (size_t m = 0; m < WEIR_METRIC_SUMS; m++)
        totals->metrics[m] += weir_tree_sum(replicas, &recorder->seals[0].metrics[m], stride, NULL);
}

static bool is_finite(double x)
{
    return x - x == 0;
}

/* The squared norm of each variable: its pieces added by a fixed tree. */
static void sum_squares(struct weir_recorder *recorder)
{
    const struct weir_schedule *schedule = &recorder->config.schedule;
    size_t i = 0;
    for (uint32_t v = 0; v < schedule->variables; v++) {
        uint32_t count = 0;
        while (i < schedule->piece_count && schedule->pieces[i].variable == v)
            recorder->gathered[count++] = recorder->squares[i++];
        recorder->sums[v] = weir_tree_sum(count, recorder->gathered, 1, NULL);
    }
    assert(i == schedule->piece_count);
}

/* Keras: clipped = gradient * clip / max(norm, clip); (tf.clip_by_norm, tf.clip_by_global_norm). */
static double factor(double clip, double squares)
{
    double norm = __builtin_sqrt(squares); /* one instruction: no libm in a pure library */
    return norm > clip ? clip / norm : 1;
}

static void judge(struct weir_recorder *recorder, struct weir_record *next)
{
    const struct weir_schedule *schedule = &recorder->config.schedule;
    sum_squares(recorder);
    double all = weir_tree_sum(schedule->variables, recorder->sums, 1, NULL);
    next->skip = !is_finite(all);
    if (next->skip)
        return;
    if (schedule->gate == WEIR_GATE_GLOBAL_CLIPNORM) {
        next->scale = factor(schedule->clip, all);
        return;
    }
    for (uint32_t v = 0; v < schedule->variables; v++)
        recorder->norms[v] = factor(schedule->clip, recorder->sums[v]);
    next->norms = recorder->norms;
    next->norm_count = schedule->variables;
}

static enum weir_order after_validation(const struct weir_recorder *recorder, uint64_t step)
{
    return step == weir_schedule_steps(&recorder->config.schedule) ? WEIR_ORDER_STOP : WEIR_ORDER_TRAIN;
}

static void next_step(struct weir_recorder *recorder, struct weir_record *next)
{
    const struct weir_schedule *schedule = &recorder->config.schedule;
    next->step++;
    next->round = 0;
    next->scale = 1;
    next->skip = false;
    next->norms = NULL;
    next->norm_count = 0;
    if (gated(recorder))
        judge(recorder, next);
    if (!next->skip)
        next->iterations++;
    add_seals(recorder, &next->train);
    if (next->step % schedule->steps_per_epoch != 0)
        return;
    next->last_train = next->train;
    next->last_epoch = next->epoch;
    next->train = (struct weir_totals){0};
    next->validation = (struct weir_totals){0};
    if (schedule->validation_rounds > 0) {
        next->order = WEIR_ORDER_EVALUATE;
        return;
    }
    next->order = after_validation(recorder, next->step);
    next->epoch += next->order == WEIR_ORDER_TRAIN;
}

static void next_round(struct weir_recorder *recorder, struct weir_record *next)
{
    next->round++;
    add_seals(recorder, &next->validation);
    if (next->round < recorder->config.schedule.validation_rounds)
        return;
    next->last_validation = next->validation;
    next->order = after_validation(recorder, next->step);
    next->epoch += next->order == WEIR_ORDER_TRAIN;
}

static void tell(struct weir_recorder *recorder, struct weir_actions *actions)
{
    struct weir_action *action = weir_actions_tell(actions, WEIR_ACTOR_LANE, 0, WEIR_ON_RECORD);
    action->has_body = true;
    action->body.type = WEIR_RECORD;
    action->body.record = recorder->record;
}

static bool makes_records(const struct weir_recorder *recorder)
{
    return recorder->primary == recorder->config.self;
}

/* All that was sealed is of a record that is over. */
static void begin_record(struct weir_recorder *recorder, const struct weir_record *record)
{
    recorder->record = *record;
    recorder->sealed = 0;
    memset(recorder->has_seal, 0, recorder->config.replicas * sizeof(bool));
    recorder->partials = 0;
    if (gated(recorder))
        memset(recorder->has_partial, 0, recorder->chunks * sizeof(bool));
}

static void advance(struct weir_recorder *recorder, struct weir_actions *actions)
{
    bool training = recorder->record.order == WEIR_ORDER_TRAIN;
    if (!makes_records(recorder) || recorder->sealed < recorder->config.replicas)
        return;
    if (training && gated(recorder) && recorder->partials < recorder->chunks)
        return;
    struct weir_record next = recorder->record;
    if (training)
        next_step(recorder, &next);
    else
        next_round(recorder, &next);
    weir_machine_move(&weir_recorder_machine, &recorder->counts, &recorder->state, (uint8_t)next.order);
    begin_record(recorder, &next);
    tell(recorder, actions);
}

static void on_seal(struct weir_recorder *recorder, const struct weir_seal *seal)
{
    const struct weir_record *record = &recorder->record;
    if (record->order == WEIR_ORDER_STOP || seal->generation != record->generation)
        return;
    if (seal->step != record->step || seal->round != record->round)
        return; /* sent again, for a record that is made: the sender gets that record */
    if (seal->replica >= recorder->config.replicas || recorder->has_seal[seal->replica])
        return;
    recorder->has_seal[seal->replica] = true;
    recorder->sealed++;
    struct seal_box *box = &recorder->seals[seal->replica];
    box->samples = seal->samples;
    box->loss = seal->loss;
    memcpy(box->metrics, seal->metrics, sizeof box->metrics);
}

static void on_partial(struct weir_recorder *recorder, const struct weir_partial *partial)
{
    if (partial->generation != recorder->record.generation || partial->step != recorder->record.step)
        return;
    if (recorder->record.order != WEIR_ORDER_TRAIN)
        return; /* the step before the first one after validation: its record is made */
    if (partial->chunk >= recorder->chunks || recorder->has_partial[partial->chunk])
        return;
    uint32_t first = recorder->first_piece[partial->chunk], end = recorder->first_piece[partial->chunk + 1];
    if (partial->square_count != end - first)
        return;
    recorder->has_partial[partial->chunk] = true;
    recorder->partials++;
    memcpy(recorder->squares + first, partial->squares, partial->square_count * sizeof(double));
}

/* Another server's. */
static void adopt(struct weir_recorder *recorder, const struct weir_record *record)
{
    const struct weir_record *own = &recorder->record;
    bool newer = own->step < record->step || (own->step == record->step && own->round < record->round);
    if (!newer || record->norm_count > recorder->config.schedule.variables)
        return;
    struct weir_record next = *record;
    if (record->norm_count)
        memcpy(recorder->adopted, record->norms, record->norm_count * sizeof(double));
    next.norms = record->norm_count ? recorder->adopted : NULL;
    recorder->state = (uint8_t)record->order;
    begin_record(recorder, &next);
}

static void on_view(struct weir_recorder *recorder, const struct weir_view *view, struct weir_actions *actions)
{
    bool made = makes_records(recorder);
    memcpy(recorder->hosts, view->hosts, recorder->config.replicas * sizeof(uint32_t));
    recorder->primary = view->record.primary;
    follow_leaders(recorder, view->chunks);
    if (!makes_records(recorder) || made)
        return;
    tell(recorder, actions); /* nobody may have told the first one */
    advance(recorder, actions);
}

void weir_recorder_step(struct weir_recorder *recorder, const struct weir_event *event, struct weir_actions *actions)
{
    switch (event->kind) {
    case WEIR_ON_START:
        if (makes_records(recorder))
            tell(recorder, actions);
        break;
    case WEIR_ON_RECORD:
        adopt(recorder, &event->body->record);
        break;
    case WEIR_ON_SEAL:
        on_seal(recorder, &event->body->seal);
        advance(recorder, actions);
        break;
    case WEIR_ON_PARTIAL:
        on_partial(recorder, &event->body->partial);
        advance(recorder, actions);
        break;
    case WEIR_ON_VIEW:
        on_view(recorder, &event->body->view, actions);
        break;
    default:
        assert(!"an event that the recorder does not have");
    }
}

uint64_t weir_recorder_waiting(const struct weir_recorder *recorder, char *text, size_t bytes)
{
    const struct weir_recorder_config *config = &recorder->config;
    const struct weir_record *record = &recorder->record;
    text[0] = '\0';
    if (record->order == WEIR_ORDER_STOP || !makes_records(recorder))
        return 0;
    for (uint32_t r = 0; r < config->replicas; r++) {
        if (recorder->has_seal[r])
            continue;
        uint32_t worker = recorder->hosts[r];
        const char *name = worker == WEIR_NO_HOST ? config->chief_name : config->worker_names[worker];
        if (worker == WEIR_NO_HOST)
            snprintf(text, bytes, "%s: a worker that computes step %llu (replica %u)", name,
                     (unsigned long long)record->step, r);
        else if (record->order == WEIR_ORDER_EVALUATE)
            snprintf(text, bytes, "%s: round %u of the validation after step %llu (replica %u)", name, record->round,
                     (unsigned long long)record->step, r);
        else
            snprintf(text, bytes, "%s: the loss of step %llu (replica %u)", name, (unsigned long long)record->step, r);
        return record->step;
    }
    for (uint32_t c = 0; gated(recorder) && record->order == WEIR_ORDER_TRAIN && c < recorder->chunks; c++)
        if (recorder->leaders[c] != config->self &&
            !recorder->has_partial[c]) { /* own lanes say what theirs wait for */
            snprintf(text, bytes, "%s: the norm of the gradient of step %llu (chunk %u)",
                     config->server_names[recorder->leaders[c]], (unsigned long long)record->step, c);
            return record->step;
        }
    return 0;
}
