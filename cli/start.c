/* `weir start`, and the roles of `weir run` in one process: reads job and TF_CONFIG, makes the agents, waits for their
 * end. */
#include "cli/start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/agent.h"
#include "cli/commands.h"
#include "cli/result.h"
#include "cli/title.h"
#include "runtime/process.h"

#define HANDSHAKE_MS 10000
#define LEAVE_S 1 /* for the end of threads, after a failure */
#define SERVER_MEMORY_BYTES ((uint64_t)32 << 20)

/* ---- who is who */

static void name_member(struct weir_member *member, enum weir_node_role role, const char *role_name, uint32_t index,
                        const char *address)
{
    member->role = role;
    member->index = index;
    member->address = address;
    snprintf(member->name, sizeof member->name, "%s/%u at %s", role_name, index, address);
}

static uint32_t name_members(struct weir_process *process, enum weir_role role, enum weir_node_role node_role,
                             struct weir_member **members, const char ***names)
{
    const struct weir_cluster *cluster = &process->cluster;
    uint32_t count = 0;
    *members = weir_arena_take(&process->arena, weir_cluster_count(cluster, role), sizeof **members);
    *names = weir_arena_take(&process->arena, weir_cluster_count(cluster, role), sizeof **names);
    for (size_t i = 0; i < cluster->task_count; i++) {
        const struct weir_task *task = &cluster->tasks[i];
        if (task->role != role)
            continue;
        name_member(&(*members)[count], node_role, weir_role_names[role], task->index, task->address);
        (*names)[count] = (*members)[count].name;
        count++;
    }
    return count;
}

static void name_cluster(struct weir_process *process)
{
    process->server_count = name_members(process, WEIR_PS, WEIR_NODE_PS, &process->servers, &process->server_names);
    process->worker_count =
        name_members(process, WEIR_WORKER, WEIR_NODE_WORKER, &process->workers, &process->worker_names);
    const struct weir_task *chief = weir_cluster_find(&process->cluster, WEIR_CHIEF, 0);
    name_member(&process->chief, WEIR_NODE_CHIEF, "chief", 0, chief ? chief->address : process->workers[0].address);
}

/* Inside one process addresses are only names. */
static void name_local(struct weir_process *process)
{
    process->local = true;
    process->server_count = process->worker_count = 1;
    process->servers = weir_arena_take(&process->arena, 1, sizeof *process->servers);
    process->workers = weir_arena_take(&process->arena, 1, sizeof *process->workers);
    name_member(&process->chief, WEIR_NODE_CHIEF, "chief", 0, "127.0.0.1:2222");
    name_member(&process->servers[0], WEIR_NODE_PS, "ps", 0, "127.0.0.1:2222");
    name_member(&process->workers[0], WEIR_NODE_WORKER, "worker", 0, "127.0.0.1:2222");
    process->server_names = weir_arena_take(&process->arena, 1, sizeof(char *));
    process->worker_names = weir_arena_take(&process->arena, 1, sizeof(char *));
    process->server_names[0] = process->servers[0].name;
    process->worker_names[0] = process->workers[0].name;
}

static uint32_t position_of(const struct weir_member *members, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i].index == index)
            return i;
    return 0;
}

/* ---- the job */

static bool load_model(struct weir_process *process, struct weir_error *err)
{
    struct weir_job *job = &process->job;
    process->model =
        weir_model_parse(job->model_json, job->model_bytes, job->model_path ? job->model_path : job->path, err);
    if (!process->model)
        return false;
    process->variable_count = weir_model_variables(process->model, &process->variables);
    process->flat_elements = weir_model_flat_elements(process->model);
    if (process->variable_count == 0)
        return weir_error_set(err, WEIR_NOTHING_TO_TRAIN, job->model_path ? job->model_path : job->path);
    process->replicas = job->replicas ? job->replicas : process->worker_count;
    if (process->replicas > WEIR_REPLICAS_MAX)
        return weir_error_set(err, WEIR_TOO_MANY_REPLICAS, job->path, process->replicas, WEIR_REPLICAS_MAX);
    if (job->min_workers > process->worker_count)
        return weir_error_set(err, WEIR_TOO_FEW_WORKERS, job->path, job->min_workers, process->worker_count);
    process->lanes = job->lanes ? job->lanes : 1;
    process->layout = weir_layout_make(process->flat_elements, job->chunk_bytes / (uint32_t)sizeof(float),
                                       process->server_count, process->lanes);
    double gib = 1 << 30, needs = (double)weir_process_model_bytes(process), has = (double)weir_memory_of_machine();
    if (needs > has)
        return weir_error_set(err,
                              "%s: model: its weights, gradients and optimizer state need %.1f GiB in this process, "
                              "but this machine has %.1f GiB; use a smaller model, or more servers",
                              job->model_path ? job->model_path : job->path, needs / gib, has / gib);
    if (process->local)
        process->weights = weir_alloc_tensor((size_t)process->flat_elements * sizeof(float), "the weights");
    return true;
}

static int print_problems(const struct weir_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        fprintf(stderr, "weir: %s\n", problems->lines[i]);
    return WEIR_EXIT_WRONG_USE;
}

/* Reads all that the user wrote; 0, or an exit status. */
static int read_input(struct weir_process *process, bool local)
{
    const struct weir_options *options = process->options;
    struct weir_problems problems = {0};
    const char *text = local ? NULL : getenv("TF_CONFIG");
    weir_cluster_parse(&process->cluster, text, &problems);
    weir_job_load(&process->job, options->argument, options->overrides, options->override_count, options->data_dir,
                  &problems);
    int code = problems.count ? print_problems(&problems) : 0;
    weir_problems_free(&problems);
    if (code)
        return code;
    if (process->cluster.present && process->cluster.self_role == WEIR_EVALUATOR) {
        fprintf(stderr,
                "weir: TF_CONFIG: task.type is evaluator, a role that this version does not play yet; leave the "
                "evaluator out: validation runs on the workers after each epoch\n");
        return WEIR_EXIT_WRONG_USE;
    }
    if (process->cluster.present)
        name_cluster(process);
    else
        name_local(process);
    return 0;
}

/* ---- agents */

static bool add_agent(struct weir_process *process, struct weir_agent *agent)
{
    if (agent)
        process->agents[process->agent_count++] = agent;
    return agent != NULL;
}

static bool plays_chief(const struct weir_process *process)
{
    const struct weir_cluster *cluster = &process->cluster;
    bool first_worker =
        !process->local && cluster->self_role == WEIR_WORKER && cluster->self_index == process->workers[0].index;
    return process->local || cluster->self_role == WEIR_CHIEF || (cluster->chief_in_worker_0 && first_worker);
}

/* The roles that this process plays, and who takes calls on which channel. */
static bool make_agents(struct weir_process *process, struct weir_server_options *server, struct weir_error *err)
{
    const struct weir_cluster *cluster = &process->cluster;
    uint32_t self = cluster->self_index;
    bool ps = process->local || cluster->self_role == WEIR_PS;
    bool worker = process->local || cluster->self_role == WEIR_WORKER;
    if (plays_chief(process)) {
        struct weir_agent *agent = weir_agent_chief_new(process);
        add_agent(process, agent);
        server->pollers[WEIR_CHANNEL_CONTROL] = weir_agent_chief_poller(agent);
    }
    if (ps) {
        struct weir_agent *agent =
            weir_agent_ps_new(process, position_of(process->servers, process->server_count, self));
        add_agent(process, agent);
        for (uint32_t l = 0; l < process->lanes; l++)
            server->pollers[WEIR_CHANNEL_LANE(l)] = weir_agent_ps_poller(agent, l);
    }
    if (!worker)
        return true;
    return add_agent(process,
                     weir_agent_worker_new(process, position_of(process->workers, process->worker_count, self), err));
}

/* What a server may have to keep: the control streams' messages, and from each worker, on each lane, contributions as
 * far as its credit goes, twice (sent again after a reset), but no more than its gradients of this server's chunks. */
static size_t memory_limit(const struct weir_process *process)
{
    uint64_t gradients = process->flat_elements * sizeof(float) / process->server_count + process->job.chunk_bytes;
    uint64_t credit = (uint64_t)weir_process_credit(process) * process->job.chunk_bytes * process->lanes;
    uint64_t nodes = 2; /* a worker's replicas make one or two nodes of the sum tree, as a rule */
    return (size_t)(SERVER_MEMORY_BYTES +
                    2 * nodes * process->worker_count * (gradients < credit ? gradients : credit));
}

/* The chief and the parameter servers are connected to; a worker's own address is not used (yet). */
static bool start_server(struct weir_process *process, struct weir_server_options *server, struct weir_error *err)
{
    bool used = false;
    for (size_t c = 0; c < WEIR_CHANNELS_MAX; c++)
        used = used || server->pollers[c];
    if (!used)
        return true;
    const struct weir_task *self =
        process->local ? NULL
                       : weir_cluster_find(&process->cluster, process->cluster.self_role, process->cluster.self_index);
    server->address = self ? self->address : process->chief.address;
    server->message_limit_bytes = weir_process_message_limit(process);
    server->handshake_timeout_ms = HANDSHAKE_MS;
    uint64_t name_ms = process->job.start_timeout_s * UINT64_C(1000);
    server->name_timeout_ms = name_ms < UINT32_MAX ? (uint32_t)name_ms : UINT32_MAX;
    server->memory_limit_bytes = memory_limit(process);
    process->server = weir_server_start(process->transport, server, err);
    return process->server != NULL;
}

/* ---- the main thread */

static void stop_if_all_done(uv_async_t *async)
{
    struct weir_process *process = async->data;
    pthread_mutex_lock(&process->lock);
    bool all = process->done_count == process->agent_count;
    pthread_mutex_unlock(&process->lock);
    if (all)
        uv_stop(&process->loop);
}

/* A process that plays nothing but a worker hands over before it goes; in others, the job ends. */
static void tell_to_stop(struct weir_process *process, const char *why)
{
    struct weir_agent *only = process->agent_count == 1 ? process->agents[0] : NULL;
    if (only && only->drain) {
        weir_log_warning("%s: it goes when what it has begun is done and others have its part; once more ends it at "
                         "once",
                         why);
        only->drain(only->self, why);
        return;
    }
    for (size_t i = 0; i < process->agent_count; i++)
        process->agents[i]->fail(process->agents[i]->self, why);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct weir_process *process = handle->data;
    const char *name = number == SIGINT ? "SIGINT" : "SIGTERM";
    char text[64];
    if (process->interrupted++ > 0)
        _exit(WEIR_EXIT_FAILED); /* asked twice: at once */
    snprintf(text, sizeof text, "told to stop (%s)", name);
    tell_to_stop(process, text);
}

static void watch_signals(struct weir_process *process, bool supervised)
{
    const int numbers[2] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&process->loop, &process->signals[i]);
        process->signals[i].data = process;
        if (i == 0 || !supervised)
            uv_signal_start(&process->signals[i], on_signal, numbers[i]);
    }
}

static void close_loop(struct weir_process *process)
{
    uv_close((uv_handle_t *)&process->done, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&process->signals[i], NULL);
    uv_run(&process->loop, UV_RUN_DEFAULT);
    uv_loop_close(&process->loop);
}

static volatile sig_atomic_t code_to_leave_with;

static void exit_now(int number)
{
    (void)number;
    _exit(code_to_leave_with);
}

/* All roles have said their last word. A compute step may still take minutes and can't be broken off, so where the job
 * failed, or this worker goes, an orderly end gets a moment and no more; what is written is written, for neither the
 * log nor the result is buffered. From here on nobody reads the loop, so signals are the system's again, and another
 * Ctrl-C kills. */
static void leave_soon(struct weir_process *process, int code)
{
    for (int i = 0; i < 2; i++)
        uv_signal_stop(&process->signals[i]);
    if (code != WEIR_EXIT_DONE) {
        code_to_leave_with = code;
        signal(SIGALRM, exit_now);
        alarm(LEAVE_S);
    }
}

/* Starts all agents and waits until all are done. Those that started are stopped and joined. */
static bool run_agents(struct weir_process *process, struct weir_error *err)
{
    size_t started = 0;
    bool ok = true;
    for (; ok && started < process->agent_count; started += ok)
        ok = process->agents[started]->start(process->agents[started]->self, err);
    if (ok)
        uv_run(&process->loop, UV_RUN_DEFAULT);
    leave_soon(process, ok ? process->code : WEIR_EXIT_FAILED);
    if (process->server)
        weir_server_stop(process->server); /* before its pollers go */
    for (size_t i = 0; i < started; i++)
        process->agents[i]->stop(process->agents[i]->self);
    for (size_t i = 0; i < started; i++)
        process->agents[i]->join(process->agents[i]->self);
    return ok;
}

static int play(struct weir_process *process, bool supervised)
{
    struct weir_error err;
    struct weir_server_options server = {0};
    process->transport = process->local ? weir_transport_loopback() : weir_transport_grpc();
    uv_loop_init(&process->loop);
    uv_async_init(&process->loop, &process->done, stop_if_all_done);
    process->done.data = process;
    bool ok = make_agents(process, &server, &err) && start_server(process, &server, &err);
    if (ok) {
        watch_signals(process, supervised); /* until here a signal ends this process: it owes nobody a word */
        ok = run_agents(process, &err);
    }
    if (!ok) {
        weir_log_error("%s", err.text);
        process->code = WEIR_EXIT_FAILED;
        _exit(WEIR_EXIT_FAILED); /* nothing was promised to anybody yet */
    }
    weir_transport_free(process->transport);
    for (size_t i = 0; i < process->agent_count; i++)
        process->agents[i]->free(process->agents[i]->self);
    close_loop(process);
    return process->code;
}

static void free_process(struct weir_process *process)
{
    if (process->model)
        weir_model_free(process->model);
    free(process->weights);
    weir_job_free(&process->job);
    weir_cluster_free(&process->cluster);
    weir_arena_free(&process->arena);
    pthread_mutex_destroy(&process->lock);
    free(process);
}

static void introduce(struct weir_process *process)
{
    const struct weir_cluster *cluster = &process->cluster;
    char role[64];
    if (cluster->present)
        snprintf(role, sizeof role, "%s/%u", weir_role_names[cluster->self_role], cluster->self_index);
    else
        snprintf(role, sizeof role, "weir");
    enum weir_log_level level = (enum weir_log_level)process->job.log_level;
    if (process->options->quiet && level > WEIR_LOG_WARNING)
        level = WEIR_LOG_WARNING;
    weir_log_setup(level, process->job.log_json, role);
    if (cluster->present)
        weir_title_set("weir start %s %s", process->options->argument, role);
}

static int start(const struct weir_options *options, bool local)
{
    struct weir_error err;
    bool supervised = weir_lifeline_watch();
    struct weir_process *process = weir_alloc(1, sizeof *process, "the process");
    process->options = options;
    pthread_mutex_init(&process->lock, NULL);
    while (process->incarnation == 0)
        if (getrandom(&process->incarnation, sizeof process->incarnation, 0) < 0 && errno != EINTR)
            process->incarnation = weir_clock_ns() ^ (uint64_t)getpid() << 32;
    weir_compute_fingerprint(process->numerics, sizeof process->numerics);
    int code = read_input(process, local);
    if (code == 0) {
        introduce(process);
        if (load_model(process, &err) &&
            (!plays_chief(process) || weir_result_check(options->weights, options->summary, &err))) {
            code = play(process, supervised);
        } else {
            fprintf(stderr, "weir: %s\n", err.text);
            code = WEIR_EXIT_WRONG_USE;
        }
    }
    free_process(process);
    return code;
}

int weir_start_command(const struct weir_options *options)
{
    return start(options, false);
}

int weir_start_local(const struct weir_options *options)
{
    return start(options, true);
}
