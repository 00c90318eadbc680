/* `weir chaos`: the same job twice on a cluster behind a relay, undisturbed and with faults, and the report. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "chaos/drive.h"
#include "chaos/report.h"
#include "cli/commands.h"
#include "cli/live.h"
#include "cli/local.h"
#include "storage/storage_file.h"

#define GRACE_MS 3000
#define STOP_MS 5000
#define FIRST_LIMIT_S 600.0 /* of the undisturbed run */
#define LIMIT_LEAST_S 60.0
#define LIMIT_TIMES 10 /* the disturbed run may take so many times as long as the undisturbed one */
#define PATH_BYTES 4096

/* One run of the cluster. */
struct run {
    const struct weir_chaos_scenario *scenario;
    const struct weir_run_terms *terms;
    struct weir_local local;
    struct weir_relay *relay;
    struct weir_chaos_driver *driver;
    struct weir_chaos_seen *seen;
    FILE *log; /* NULL: not wanted */
    bool joined;
};

/* ---- what the cluster says */

static void take_output(void *context, size_t child, const char *bytes, size_t count)
{
    struct run *run = context;
    if (child == WEIR_LOCAL_CHIEF)
        weir_text_add_bytes(&run->seen->result, bytes, count);
}

static void take_line(void *context, size_t child, const char *line, size_t count)
{
    struct run *run = context;
    uint64_t a, b, ns;
    if (weir_live_is_joined(line, count))
        run->joined = true;
    else if (weir_live_is_step(line, count, &a, &b, &ns))
        weir_chaos_see_step(run->seen, a, b, ns);
    else if (weir_live_is_view(line, count, &a, &ns))
        weir_chaos_see_view(run->seen, a, ns);
    else {
        weir_chaos_see_line(run->seen, run->scenario, (uint32_t)child, line, count, weir_clock_ns());
        if (run->log)
            fprintf(run->log, "%s: %.*s\n", run->local.roles[child].name, (int)count, line);
    }
}

static void take_note(void *context, const char *text)
{
    (void)context;
    weir_log_info("%s", text);
}

static bool have_joined(void *context)
{
    return ((struct run *)context)->joined;
}

static bool can_do_without(void *context, size_t child)
{
    const struct run *run = context;
    (void)child;
    return weir_local_enough_workers(&run->local, run->terms->min_workers);
}

static void begun(void *context, struct weir_group *group)
{
    weir_chaos_driver_begun(((struct run *)context)->driver, group);
}

static void ended(void *context, struct weir_group *group, size_t child, const struct weir_child_end *end)
{
    weir_chaos_driver_ended(((struct run *)context)->driver, group, child, end);
}

static void alarm_rings(void *context, struct weir_group *group)
{
    weir_chaos_driver_alarm(((struct run *)context)->driver, group);
}

/* ---- one run */

/* Puts the relay between all processes: each is told the relay's ports for the others, and listens at its own. */
static bool put_relay_between(struct run *run, struct weir_error *err)
{
    uint32_t nodes = weir_chaos_nodes(run->scenario);
    run->relay = weir_relay_new(nodes, run->local.ports, err);
    if (!run->relay)
        return false;
    uint16_t *ports = weir_alloc(nodes, sizeof *ports, "ports");
    for (uint32_t self = 0; self < nodes; self++) {
        for (uint32_t other = 0; other < nodes; other++)
            ports[other] = other == self ? run->local.ports[self] : weir_relay_port(run->relay, self, other);
        weir_local_route(&run->local, self, ports);
    }
    free(ports);
    return true;
}

static bool run_group(struct run *run, bool *interrupted, struct weir_error *err)
{
    struct weir_group_options group = {
        .children = run->local.children,
        .count = run->local.count,
        .grace_ms = run->terms->lease_ms + GRACE_MS,
        .stop_ms = STOP_MS,
        .joined = have_joined,
        .can_do_without = can_do_without,
        .output = take_output,
        .line = take_line,
        .note = take_note,
        .begun = begun,
        .ended = ended,
        .alarm = alarm_rings,
        .context = run,
    };
    unsigned signals = 0;
    run->seen->began_ns = weir_clock_ns();
    bool ok = weir_group_run(&group, run->local.ends, &signals, err);
    run->seen->ended_ns = weir_clock_ns();
    *interrupted = signals > 0;
    return ok;
}

/* Runs the cluster once; true if it could be run at all, however the job ended. */
static bool run_once(struct run *run, const struct weir_options *options, const struct weir_chaos_fault *plan,
                     size_t count, double limit_s, bool *interrupted, struct weir_error *err)
{
    bool ok = weir_local_init(&run->local, options, "steps", &run->terms->restarts, err) && put_relay_between(run, err);
    if (ok) {
        run->driver = weir_chaos_driver_new(run->scenario, plan, count, limit_s, run->relay, run->seen);
        ok = run_group(run, interrupted, err);
        weir_chaos_driver_free(run->driver);
    }
    weir_relay_free(run->relay);
    weir_local_free(&run->local);
    struct weir_error none;
    if (ok)
        weir_chaos_see_summary(run->seen, &none);
    return ok;
}

/* ---- files */

static FILE *open_log(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    if (!folder)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file)
        weir_log_warning("%s can't be written: %s", path, strerror(errno));
    else
        setvbuf(file, NULL, _IOLBF, 0); /* a run can be watched */
    return file;
}

static bool save(const char *folder, const char *name, const struct weir_text *text, struct weir_error *err)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const struct weir_slice slice = {text->bytes, text->length};
    return weir_file_save(path, &slice, 1, err);
}

static bool make_folder(const char *folder, struct weir_error *err)
{
    struct stat status;
    if (mkdir(folder, 0777) == 0 || (errno == EEXIST && stat(folder, &status) == 0 && S_ISDIR(status.st_mode)))
        return true;
    return weir_error_set(err, "--out: the folder %s can't be made: %s", folder, strerror(errno));
}

/* ---- the report */

static int tell(const struct weir_options *options, const struct weir_chaos_report *report)
{
    struct weir_text text = {0}, json = {0}, html = {0};
    struct weir_error err;
    weir_chaos_report_text(report, &text);
    weir_chaos_report_json(report, &json);
    fputs(options->json ? json.bytes : text.bytes, stdout);
    bool ok = fflush(stdout) == 0;
    if (!ok)
        fprintf(stderr, "weir: the report could not be written to standard output: %s\n", strerror(errno));
    if (options->out) {
        weir_chaos_report_html(report, &html);
        bool saved = save(options->out, "report.html", &html, &err) && save(options->out, "report.json", &json, &err);
        if (!saved)
            fprintf(stderr, "weir: %s\n", err.text);
        else if (!options->quiet)
            fprintf(stderr, "weir: the report is in %s/report.html\n", options->out);
        ok = ok && saved;
    }
    free(text.bytes);
    free(json.bytes);
    free(html.bytes);
    return ok && report->verdict->passed ? WEIR_EXIT_DONE : WEIR_EXIT_FAILED;
}

/* ---- the command */

struct experiment {
    const struct weir_options *options; /* of the command */
    struct weir_options job;            /* of the clusters */
    struct weir_chaos_scenario scenario;
    struct weir_run_terms terms;
    char max_restarts[16];
    uint64_t seed;
    struct weir_chaos_seen undisturbed, disturbed;
};

static bool run_part(struct experiment *e, const char *name, struct weir_chaos_seen *seen,
                     const struct weir_chaos_fault *plan, size_t count, double limit_s)
{
    char log_name[64];
    bool interrupted = false;
    struct weir_error err;
    snprintf(log_name, sizeof log_name, "%s.log", name);
    struct run run = {
        .scenario = &e->scenario, .terms = &e->terms, .seen = seen, .log = open_log(e->options->out, log_name)};
    if (!e->options->quiet)
        fprintf(stderr, "weir: %s: the %s run\n", e->scenario.name, name);
    bool ok = run_once(&run, &e->job, plan, count, limit_s, &interrupted, &err);
    if (run.log)
        fclose(run.log);
    if (!ok)
        fprintf(stderr, "weir: the cluster can't be run: %s\n", err.text);
    if (interrupted)
        fprintf(stderr, "weir: interrupted: there is no verdict\n");
    return ok && !interrupted;
}

static int judge(struct experiment *e, const struct weir_chaos_fault *plan)
{
    struct weir_chaos_verdict verdict;
    weir_chaos_judge(&e->scenario, plan, &e->undisturbed, &e->disturbed, &verdict);
    const struct weir_chaos_report report = {
        .scenario = &e->scenario,
        .job = e->job.argument,
        .seed = e->seed,
        .plan = plan,
        .undisturbed = &e->undisturbed,
        .disturbed = &e->disturbed,
        .verdict = &verdict,
    };
    int status = tell(e->options, &report);
    weir_chaos_verdict_free(&verdict);
    return status;
}

/* The chief is not to give up a worker because of what is done to it here, as many lives as the plan ends; what fails
 * by itself comes on top. Where the scenario or the command line says how many, that is meant. */
static void allow_restarts(struct experiment *e, const struct weir_chaos_fault *plan, size_t count)
{
    static const char key[] = "cluster.max_restarts";
    struct weir_options *job = &e->job;
    for (size_t i = 0; i < job->override_count; i++)
        if (strcmp(job->overrides[i].key, key) == 0)
            return;
    snprintf(e->max_restarts, sizeof e->max_restarts, "%u",
             e->terms.restarts.most + weir_chaos_restarts_of_one(plan, count));
    job->overrides[job->override_count++] = (struct weir_override){key, e->max_restarts, "--set"};
}

static int run_both(struct experiment *e)
{
    double limit_s = e->scenario.limit_s;
    if (!run_part(e, "undisturbed", &e->undisturbed, NULL, 0, limit_s > 0 ? limit_s : FIRST_LIMIT_S))
        return WEIR_EXIT_FAILED;
    if (!e->undisturbed.done) {
        fprintf(stderr, "weir: the job fails even undisturbed; nothing can be judged\n%s",
                e->undisturbed.last.bytes ? e->undisturbed.last.bytes : "");
        return WEIR_EXIT_FAILED;
    }
    double took_s = (double)(e->undisturbed.ended_ns - e->undisturbed.began_ns) / 1e9;
    if (limit_s <= 0)
        limit_s = LIMIT_TIMES * took_s > LIMIT_LEAST_S ? LIMIT_TIMES * took_s : LIMIT_LEAST_S;
    size_t count;
    struct weir_chaos_fault *plan = weir_chaos_plan(&e->scenario, e->seed, e->undisturbed.summary.steps, &count);
    int status = WEIR_EXIT_FAILED;
    allow_restarts(e, plan, count);
    if (run_part(e, "disturbed", &e->disturbed, plan, count, limit_s))
        status = judge(e, plan);
    free(plan);
    return status;
}

/* What `weir run` would be told: the scenario's keys, then those of the command line. */
static bool fill_job(struct experiment *e, struct weir_error *err)
{
    const struct weir_chaos_scenario *scenario = &e->scenario;
    const struct weir_options *options = e->options;
    if (!options->job && !scenario->job)
        return weir_error_set(err, "%s names no job: give one by --job JOB", scenario->path);
    if (scenario->set_count + options->override_count >= WEIR_OVERRIDES_MAX) /* allow_restarts adds one */
        return weir_error_set(err, "%s: set: with those of the command line, more than %d keys", scenario->path,
                              WEIR_OVERRIDES_MAX - 1);
    e->job = (struct weir_options){
        .command = WEIR_COMMAND_RUN,
        .argument = options->job ? options->job : scenario->job,
        .data_dir = options->data_dir,
        .json = true,
        .workers = scenario->workers,
        .ps = scenario->ps,
    };
    for (size_t i = 0; i < scenario->set_count; i++)
        e->job.overrides[e->job.override_count++] = scenario->set[i];
    for (size_t i = 0; i < options->override_count; i++)
        if (strcmp(options->overrides[i].flag, "--quiet") != 0) /* what the roles say is read here */
            e->job.overrides[e->job.override_count++] = options->overrides[i];
    e->seed = options->has_seed ? options->scenario_seed : scenario->seed;
    return true;
}

static bool load_scenario(struct experiment *e)
{
    struct weir_problems problems = {0};
    bool good = weir_chaos_scenario_load(&e->scenario, e->options->argument, &problems);
    for (size_t i = 0; i < problems.count; i++)
        fprintf(stderr, "weir: %s\n", problems.lines[i]);
    weir_problems_free(&problems);
    return good;
}

int weir_chaos_command(const struct weir_options *options)
{
    struct weir_error err;
    struct experiment *e = weir_alloc(1, sizeof *e, "chaos");
    e->options = options;
    int status = WEIR_EXIT_WRONG_USE;
    if (load_scenario(e)) {
        if (!fill_job(e, &err) || (options->out && !make_folder(options->out, &err)))
            fprintf(stderr, "weir: %s\n", err.text);
        else
            status = weir_check_before_run(&e->job, &e->terms);
        if (status == WEIR_EXIT_DONE) {
            weir_log_setup(options->quiet ? WEIR_LOG_ERROR : WEIR_LOG_WARNING, false, "chaos");
            status = run_both(e);
        }
    }
    weir_chaos_seen_free(&e->undisturbed);
    weir_chaos_seen_free(&e->disturbed);
    weir_chaos_scenario_free(&e->scenario);
    free(e);
    return status;
}
