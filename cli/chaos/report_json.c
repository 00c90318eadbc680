#include <jansson.h>
#include <stdlib.h>

#include "chaos/report.h"

/* A time, or null for what was not seen. */
static json_t *time_or_null(double seconds)
{
    return seconds >= 0 ? json_real(seconds) : json_null();
}

static json_t *integer(uint64_t value)
{
    return json_integer(value < INT64_MAX ? (json_int_t)value : INT64_MAX);
}

static json_t *text(const char *value)
{
    json_t *string = json_string(value);
    return string ? string : json_string("?"); /* not UTF-8 */
}

static json_t *run_json(const struct weir_chaos_seen *seen, double steps_per_s)
{
    json_t *run = json_object();
    json_object_set_new(run, "done", json_boolean(seen->done));
    json_object_set_new(run, "digest", text(seen->summary.digest));
    json_object_set_new(run, "state_digest", text(seen->summary.state_digest));
    json_object_set_new(run, "steps", integer(seen->summary.steps));
    json_object_set_new(run, "steps_per_s", json_real(steps_per_s));
    json_object_set_new(run, "replicas_computed", integer(seen->summary.replicas_computed));
    json_object_set_new(run, "chunks_applied", integer(seen->summary.chunks_applied));
    return run;
}

static json_t *checks_json(const struct weir_chaos_verdict *verdict)
{
    json_t *checks = json_array();
    for (int i = 0; i < WEIR_CHAOS_CHECKS; i++) {
        json_t *check = json_object();
        json_object_set_new(check, "check", text(verdict->checks[i].name));
        json_object_set_new(check, "result", text(weir_chaos_result_names[verdict->checks[i].result]));
        json_object_set_new(check, "text", text(verdict->checks[i].text));
        json_array_append_new(checks, check);
    }
    return checks;
}

static json_t *fault_json(const struct weir_chaos_report *report, size_t i)
{
    const struct weir_chaos_fault *fault = &report->plan[i];
    const struct weir_chaos_hit *hit = &report->disturbed->hits[i];
    const struct weir_chaos_recovery *times = &report->verdict->recoveries[i];
    char name[32], what[160];
    weir_chaos_node_name(report->scenario, fault->node, name, sizeof name);
    weir_chaos_describe(report->scenario, fault, what, sizeof what);
    json_t *object = json_object();
    json_object_set_new(object, "kind", text(weir_chaos_kinds[fault->kind].name));
    json_object_set_new(object, "node", text(name));
    json_object_set_new(object, "text", text(what));
    json_object_set_new(object, "fired", json_boolean(hit->fired));
    json_object_set_new(object, "in_step", hit->fired ? integer(hit->done + 1) : json_null());
    json_object_set_new(object, "at_s", time_or_null(times->at_s));
    json_object_set_new(object, "detected_s", time_or_null(times->detected_s));
    json_object_set_new(object, "view_s", time_or_null(times->view_s));
    json_object_set_new(object, "step_s", time_or_null(times->step_s));
    json_object_set_new(object, "pause_s", time_or_null(times->pause_s));
    return object;
}

static json_t *kinds_json(const struct weir_chaos_verdict *verdict)
{
    json_t *kinds = json_object();
    for (int k = 0; k < WEIR_CHAOS_KINDS; k++) {
        const struct weir_chaos_kind_times *times = &verdict->kinds[k];
        if (times->count == 0)
            continue;
        json_t *kind = json_object();
        json_object_set_new(kind, "fired", integer(times->count));
        json_object_set_new(kind, "detected", integer(times->detected));
        json_object_set_new(kind, "step_median_s", time_or_null(times->step_median_s));
        json_object_set_new(kind, "step_worst_s", time_or_null(times->step_worst_s));
        json_object_set_new(kind, "pause_median_s", time_or_null(times->pause_median_s));
        json_object_set_new(kind, "pause_worst_s", time_or_null(times->pause_worst_s));
        json_object_set_new(kinds, weir_chaos_kinds[k].name, kind);
    }
    return kinds;
}

void weir_chaos_report_json(const struct weir_chaos_report *report, struct weir_text *out)
{
    const struct weir_chaos_verdict *verdict = report->verdict;
    json_t *root = json_object(), *faults = json_array();
    json_object_set_new(root, "scenario", text(report->scenario->name));
    json_object_set_new(root, "job", text(report->job));
    json_object_set_new(root, "seed", integer(report->seed));
    json_object_set_new(root, "workers", integer(report->scenario->workers));
    json_object_set_new(root, "ps", integer(report->scenario->ps));
    json_object_set_new(root, "passed", json_boolean(verdict->passed));
    json_object_set_new(root, "checks", checks_json(verdict));
    json_object_set_new(root, "steps_lost", integer(verdict->steps_lost));
    json_object_set_new(root, "replicas_computed_again", integer(verdict->computed_again));
    json_object_set_new(root, "undisturbed_step_s", json_real(verdict->undisturbed_step_s));
    json_object_set_new(root, "undisturbed", run_json(report->undisturbed, verdict->undisturbed_rate));
    json_object_set_new(root, "disturbed", run_json(report->disturbed, verdict->disturbed_rate));
    for (size_t i = 0; i < verdict->count; i++)
        json_array_append_new(faults, fault_json(report, i));
    json_object_set_new(root, "faults", faults);
    json_object_set_new(root, "kinds", kinds_json(verdict));
    char *dumped = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    weir_text_add(out, "%s\n", dumped ? dumped : "{}");
    free(dumped);
    json_decref(root);
}
