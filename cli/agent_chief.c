/* The chief: its core on the control thread, what it shows while training goes on, and the result. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "chief/chief.h"
#include "cli/agent.h"
#include "cli/progress.h"
#include "cli/result.h"
#include "cli/summary.h"
#include "engine/engine.h"

#define OBSERVERS 8

struct agent_chief {
    struct weir_agent agent;
    struct weir_process *process;
    struct weir_arena arena;
    struct weir_thread *thread;
    struct weir_actor actor;
    struct weir_view_variable *variables;
    uint64_t (*shapes)[WEIR_DIMS_MAX];
    const char *slots[WEIR_SLOTS_MAX];
    size_t slot_count;
    float *parts[WEIR_RESULT_PARTS_MAX]; /* flat: weights, slots */
    struct weir_result result;
    struct weir_record record; /* the newest */
    bool has_record, showing;
    struct weir_schedule schedule;
    bool has_schedule;
    uint64_t epoch_samples; /* that an epoch trains on */
    uint64_t trained_ns, began_ns;
    char val_names[1 + WEIR_METRICS_MAX][80];
    char waiting[1100];
    bool held_up; /* the job, when it was waiting */
};

/* ---- what is shown */

static size_t add_totals(const struct agent_chief *chief, const struct weir_totals *totals, bool validation,
                         struct weir_progress_value *values)
{
    const struct weir_job *job = &chief->process->job;
    if (totals->samples <= 0)
        return 0;
    values[0] = (struct weir_progress_value){validation ? chief->val_names[0] : "loss", totals->loss / totals->samples};
    for (size_t m = 0; m < job->metric_count; m++)
        values[1 + m] = (struct weir_progress_value){validation ? chief->val_names[1 + m] : job->metrics[m].name,
                                                     totals->metrics[m] / totals->samples};
    return 1 + job->metric_count;
}

static uint64_t samples_so_far(const struct agent_chief *chief, const struct weir_record *record)
{
    return record->step / chief->schedule.steps_per_epoch * chief->epoch_samples + (uint64_t)record->train.samples;
}

static void show_record(struct agent_chief *chief, const struct weir_record *record)
{
    uint64_t now = weir_clock_ns();
    uint32_t steps = chief->schedule.steps_per_epoch;
    bool had_epoch = chief->has_record && chief->record.last_train.samples > 0;
    bool validated = record->last_validation.samples > 0 || chief->schedule.validation_rounds == 0;
    bool complete = record->last_train.samples > 0 && validated && record->order != WEIR_ORDER_EVALUATE;
    bool new_epoch = complete && (!had_epoch || record->last_epoch != chief->record.last_epoch ||
                                  chief->record.order == WEIR_ORDER_EVALUATE);
    if (!chief->has_record)
        chief->began_ns = now;
    if (record->order == WEIR_ORDER_STOP)
        chief->trained_ns = now;
    struct weir_progress progress = {
        .phase = record->order == WEIR_ORDER_EVALUATE ? WEIR_PROGRESS_VALIDATING : WEIR_PROGRESS_TRAINING,
        .epochs = chief->schedule.epochs,
        .steps_per_epoch = steps,
        .samples = samples_so_far(chief, record),
    };
    if (new_epoch) {
        progress.epoch = (uint32_t)record->last_epoch + 1;
        progress.step = steps;
        progress.epoch_ended = true;
        progress.value_count = add_totals(chief, &record->last_train, false, progress.values);
        progress.value_count +=
            add_totals(chief, &record->last_validation, true, progress.values + progress.value_count);
        weir_progress_update(&progress, now);
        progress.epoch_ended = false;
    }
    if (record->order == WEIR_ORDER_STOP)
        return;
    bool after_epoch = record->order == WEIR_ORDER_EVALUATE;
    progress.epoch = (uint32_t)record->epoch + 1;
    progress.step = after_epoch ? steps : record->step - record->epoch * steps;
    progress.value_count =
        add_totals(chief, after_epoch ? &record->last_train : &record->train, false, progress.values);
    weir_progress_update(&progress, now);
}

static void show(struct agent_chief *chief, const struct weir_action *action)
{
    if (!action->has_body && !action->text[0]) {
        if (chief->held_up)
            weir_log_info("no longer %s", chief->waiting);
        return;
    }
    if (!action->has_body) {
        char *text = chief->waiting;
        chief->held_up = chief->has_record; /* before, all are waited for, and training says that they have come */
        snprintf(text, sizeof chief->waiting, "waiting for %s", action->text);
        struct weir_progress progress = {.phase = WEIR_PROGRESS_WAITING, .waiting = text};
        weir_progress_update(&progress, weir_clock_ns());
        return;
    }
    const struct weir_record *record = &action->body.record;
    show_record(chief, record);
    chief->record = *record;
    chief->record.norms = NULL;
    chief->record.norm_count = 0;
    chief->has_record = true;
}

/* ---- the result */

static void store(struct agent_chief *chief, const struct weir_action *action)
{
    const struct weir_process *process = chief->process;
    struct weir_payload *payload = weir_payload_of(action->payload);
    float **part = &chief->parts[action->part];
    if (!*part)
        *part = weir_alloc_tensor((size_t)process->flat_elements * sizeof(float), "the result");
    weir_payload_read(payload, *part + weir_layout_first(&process->layout, action->chunk), false);
    weir_payload_free(payload);
}

static void finish(struct agent_chief *chief)
{
    struct weir_process *process = chief->process;
    struct weir_error err = {.text = ""};
    struct weir_result *result = &chief->result;
    result->variables = process->variables;
    result->variable_count = process->variable_count;
    result->parts = 1 + chief->slot_count;
    for (size_t p = 0; p < result->parts; p++)
        result->part[p] = chief->parts[p];
    weir_result_digest(result, &chief->record);
    if (process->options->weights)
        weir_result_write_weights(result, process->options->weights, process->job.hash, &err);
    struct weir_event event = {.kind = WEIR_ON_RESULTS, .text = err.text};
    weir_post(&chief->actor, &event);
}

static struct weir_summary_role role_of(const struct weir_member *member, const struct weir_heartbeat *heartbeat,
                                        const char *role)
{
    return (struct weir_summary_role){
        .role = role,
        .index = member->index,
        .pid = heartbeat->pid,
        .cpu_s = heartbeat->cpu_s,
        .peak_rss_bytes = heartbeat->peak_rss_bytes,
        .sent_bytes = heartbeat->sent_bytes,
        .received_bytes = heartbeat->received_bytes,
        .replicas_computed = heartbeat->replicas_computed,
        .chunks_applied = heartbeat->chunks_applied,
        .copied_bytes = heartbeat->copied_bytes,
    };
}

static size_t fill_roles(const struct agent_chief *chief, struct weir_summary_role *roles)
{
    const struct weir_process *process = chief->process;
    struct weir_heartbeat own = {.error = ""};
    size_t count = 0;
    weir_process_measure(process, &own);
    if (process->local || process->cluster.chief_in_worker_0) /* the same process plays another role, which counts it */
        own.replicas_computed = own.chunks_applied = own.copied_bytes = 0;
    roles[count++] = role_of(&process->chief, &own, "chief");
    for (uint32_t k = 0; k < process->server_count; k++)
        roles[count++] = role_of(&process->servers[k], weir_chief_member(chief->actor.core, k), "ps");
    for (uint32_t w = 0; w < process->worker_count; w++)
        roles[count++] =
            role_of(&process->workers[w], weir_chief_member(chief->actor.core, process->server_count + w), "worker");
    return count;
}

static size_t fill_values(const struct weir_process *process, const struct weir_totals *totals,
                          struct weir_summary_value *values)
{
    for (size_t m = 0; m < process->job.metric_count; m++)
        values[m] = (struct weir_summary_value){process->job.metrics[m].name, totals->metrics[m] / totals->samples};
    return process->job.metric_count;
}

static bool report(struct agent_chief *chief, struct weir_error *err)
{
    const struct weir_process *process = chief->process;
    const struct weir_record *record = &chief->record;
    struct weir_summary_value metrics[WEIR_METRICS_MAX], validation[WEIR_METRICS_MAX];
    struct weir_summary_role *roles =
        weir_alloc(1 + (size_t)process->server_count + process->worker_count, sizeof *roles, "the summary");
    bool validated = record->last_validation.samples > 0;
    double seconds = (double)(chief->trained_ns - chief->began_ns) / 1e9;
    struct weir_summary summary = {
        .job = process->job.name,
        .hash = process->job.hash,
        .strategy = process->job.strategy,
        .replicas = process->replicas,
        .workers = process->worker_count,
        .ps = process->server_count,
        .steps = record->step,
        .epochs = chief->schedule.epochs,
        .loss = record->last_train.loss / record->last_train.samples,
        .metrics = metrics,
        .metric_count = fill_values(process, &record->last_train, metrics),
        .validated = validated,
        .validation_loss = validated ? record->last_validation.loss / record->last_validation.samples : 0,
        .validation_metrics = validation,
        .validation_metric_count = validated ? fill_values(process, &record->last_validation, validation) : 0,
        .seconds = seconds,
        .samples_per_s = seconds > 0 ? (double)samples_so_far(chief, record) / seconds : 0,
        .digest = chief->result.digest,
        .state_digest = chief->result.state_digest,
        .reproducible = weir_chief_same_numerics(chief->actor.core),
        .generation = record->generation,
        .views = 2,
        .roles = roles,
        .role_count = fill_roles(chief, roles),
    };
    bool ok = !process->options->summary || weir_summary_write(&summary, process->options->summary, err);
    if (ok && (!process->options->quiet || process->options->json) &&
        !weir_summary_print(&summary, process->options->json, stdout))
        ok = weir_error_set(err, "the result could not be written to standard output");
    free(roles);
    return ok;
}

static void end(struct agent_chief *chief, const struct weir_action *action)
{
    struct weir_error err;
    weir_progress_end();
    int code = action->code;
    const char *why = action->text;
    if (code == 0 && !report(chief, &err)) {
        code = 1;
        why = err.text;
    }
    weir_process_agent_done(chief->process, code, why);
}

/* ---- the actor */

static void perform(void *context, const struct weir_action *action)
{
    struct agent_chief *chief = context;
    switch (action->kind) {
    case WEIR_DO_STORE:
        store(chief, action);
        break;
    case WEIR_DO_PROGRESS:
        show(chief, action);
        break;
    case WEIR_DO_SAY:
        weir_log_warning("%s", action->text);
        break;
    case WEIR_DO_RESULTS:
        finish(chief);
        break;
    case WEIR_DO_STOP:
        end(chief, action);
        break;
    default:
        assert(!"an action that the chief does not have");
    }
}

/* The view that goes out says how much data there is: from then on the schedule is known here, too. */
static void outgoing(void *context, struct weir_message_body *body, struct weir_attachment *attachment)
{
    struct agent_chief *chief = context;
    (void)attachment;
    if (body->type == WEIR_VIEW)
        weir_progress_view(body->view.number);
    if (body->type != WEIR_VIEW || chief->has_schedule || body->view.state != WEIR_VIEW_RUNNING)
        return;
    struct weir_process *process = chief->process;
    chief->schedule = weir_process_schedule(process, body->view.train_samples, body->view.validation_samples);
    struct weir_walk walk = weir_process_walk(process, body->view.train_samples);
    chief->epoch_samples = weir_walk_epoch_samples(&walk);
    chief->has_schedule = true;
    if (!weir_chief_same_numerics(chief->actor.core))
        weir_log_warning("the nodes' processors or libraries differ: the result can't be reproduced bit by bit");
    weir_log_info("%s: %u epochs of %u steps, %u samples each; %u replicas on %u workers, %u ps, %u chunks",
                  process->job.name, chief->schedule.epochs, chief->schedule.steps_per_epoch, process->job.batch_size,
                  process->replicas, process->worker_count, process->server_count, process->layout.chunks);
}

static bool admit(void *context, const struct weir_hello *hello, uint32_t *peer, char *reason, size_t bytes,
                  bool *again)
{
    const struct agent_chief *chief = context;
    const char *text;
    bool job_differs;
    *again = false;
    if (weir_chief_admit(chief->actor.core, hello, peer, &text, &job_differs))
        return true;
    char keys[768] = "";
    if (job_differs)
        weir_job_differences(chief->process->job.canonical, hello->canonical, keys, sizeof keys);
    snprintf(reason, bytes, "%s refuses %s/%u: %s%s%s", chief->process->chief.name,
             hello->role == WEIR_NODE_PS       ? "ps"
             : hello->role == WEIR_NODE_WORKER ? "worker"
                                               : "node",
             hello->index, text, keys[0] ? ": " : "", keys);
    return false;
}

static const char *address(void *context, uint32_t peer, uint32_t *channel)
{
    const struct weir_process *process = ((struct agent_chief *)context)->process;
    uint32_t s = peer - process->server_count - process->worker_count;
    *channel = WEIR_CHANNEL_LANE(s % process->lanes);
    return process->servers[s / process->lanes].address;
}

static void step(void *core, const struct weir_event *event, struct weir_actions *actions)
{
    weir_chief_step(core, event, actions);
}

static uint64_t deadline(const void *core)
{
    return weir_chief_deadline(core);
}

/* ---- the agent */

static bool start(void *self, struct weir_error *err)
{
    struct agent_chief *chief = self;
    weir_progress_start(weir_progress_choose(chief->process->options->quiet));
    return weir_thread_start(chief->thread, err);
}

static void fail(void *self, const char *why)
{
    struct weir_event event = {.kind = WEIR_ON_FAILED, .text = why};
    weir_post(&((struct agent_chief *)self)->actor, &event);
}

static void stop(void *self)
{
    weir_thread_stop(((struct agent_chief *)self)->thread);
}

static void join(void *self)
{
    struct agent_chief *chief = self;
    weir_thread_join(chief->thread);
    weir_thread_free(chief->thread);
    weir_progress_end();
}

static void free_all(void *self)
{
    struct agent_chief *chief = self;
    for (size_t p = 0; p < WEIR_RESULT_PARTS_MAX; p++)
        free(chief->parts[p]);
    weir_arena_free(&chief->arena);
    free(chief);
}

static void describe_variables(struct agent_chief *chief)
{
    const struct weir_process *process = chief->process;
    chief->variables = weir_arena_take(&chief->arena, process->variable_count, sizeof *chief->variables);
    chief->shapes = weir_arena_take(&chief->arena, process->variable_count, sizeof *chief->shapes);
    for (size_t v = 0; v < process->variable_count; v++) {
        const struct weir_variable *variable = &process->variables[v];
        for (size_t d = 0; d < variable->dims; d++)
            chief->shapes[v][d] = variable->shape[d];
        chief->variables[v] = (struct weir_view_variable){variable->name, variable->offset, variable->elements,
                                                          chief->shapes[v], variable->dims};
    }
    struct weir_engine *engine = weir_engine_new(&process->job.optimizer, WEIR_ISA_PLAIN);
    chief->slot_count = weir_engine_slots(engine);
    for (size_t s = 0; s < chief->slot_count; s++)
        chief->slots[s] = weir_engine_slot_name(engine, s);
    weir_engine_free(engine);
}

static const struct weir_chief_member *describe_members(struct agent_chief *chief)
{
    const struct weir_process *process = chief->process;
    struct weir_chief_member *members =
        weir_arena_take(&chief->arena, (size_t)process->server_count + process->worker_count, sizeof *members);
    for (uint32_t i = 0; i < process->server_count + process->worker_count; i++) {
        const struct weir_member *member =
            i < process->server_count ? &process->servers[i] : &process->workers[i - process->server_count];
        members[i] = (struct weir_chief_member){member->role, member->index, member->name, member->address};
    }
    return members;
}

static void make_core(struct agent_chief *chief)
{
    struct weir_process *process = chief->process;
    const struct weir_job *job = &process->job;
    struct weir_chief_config config = {
        .hello = weir_process_hello(process, WEIR_NODE_CHIEF, process->chief.index),
        .name = process->chief.name,
        .members = describe_members(chief),
        .servers = process->server_count,
        .workers = process->worker_count,
        .replicas = process->replicas,
        .min_workers = job->min_workers,
        .copies = 1,
        .restarts = {job->max_restarts, job->restart_window_s * WEIR_NS_PER_S},
        .layout = process->layout,
        .variables = chief->variables,
        .variable_count = process->variable_count,
        .slots = chief->slots,
        .slot_count = chief->slot_count,
        .start_timeout_ns = job->start_timeout_s * WEIR_NS_PER_S,
        .train_samples_min = job->drop_remainder && !job->steps_per_epoch ? job->batch_size : 1,
        .lease_ns = weir_process_lease_ns(process),
        .heartbeat_ns = job->heartbeat_ms * WEIR_NS_PER_MS,
        .observers = OBSERVERS,
        .elastic = !process->local, /* in one process nobody can come back */
    };
    config.hello.address = process->chief.address;
    chief->actor = (struct weir_actor){
        .name = "chief",
        .core = weir_chief_init(&chief->arena, &config),
        .context = chief,
        .step = step,
        .deadline = deadline,
        .actions_max = weir_chief_actions_max(&config),
        .peers = process->server_count * (1 + process->lanes) + process->worker_count + OBSERVERS,
        .admit = admit,
        .address = address,
        .outgoing = outgoing,
        .perform = perform,
        .message_limit_bytes = weir_process_message_limit(process),
    };
}

struct weir_agent *weir_agent_chief_new(struct weir_process *process)
{
    struct agent_chief *chief = weir_alloc(1, sizeof *chief, "the chief");
    chief->process = process;
    chief->agent = (struct weir_agent){process, chief, start, fail, NULL, stop, join, free_all};
    snprintf(chief->val_names[0], sizeof chief->val_names[0], "val_loss");
    for (size_t m = 0; m < process->job.metric_count; m++)
        snprintf(chief->val_names[1 + m], sizeof chief->val_names[1 + m], "val_%s", process->job.metrics[m].name);
    describe_variables(chief);
    make_core(chief);
    chief->thread = weir_thread_new(process->transport, "chief");
    weir_thread_add(chief->thread, &chief->actor);
    weir_thread_accept(chief->thread, WEIR_CHANNEL_CONTROL, &chief->actor);
    return &chief->agent;
}

struct weir_poller *weir_agent_chief_poller(struct weir_agent *agent)
{
    return weir_thread_poller(((struct agent_chief *)agent->self)->thread);
}
