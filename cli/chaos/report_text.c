#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "chaos/report.h"

#define FAULTS_SHOWN 40 /* of more, only the sums */

const char *const weir_chaos_result_names[] = {"good", "bad", "unknown"};

/* "0.123 s", or "-" for what was not seen. */
static const char *show(double seconds, char *text, size_t bytes)
{
    if (seconds < 0)
        snprintf(text, bytes, "-");
    else
        snprintf(text, bytes, "%.3f", seconds);
    return text;
}

static void put_fault(const struct weir_chaos_report *report, size_t i, struct weir_text *out)
{
    const struct weir_chaos_recovery *times = &report->verdict->recoveries[i];
    const struct weir_chaos_hit *hit = &report->disturbed->hits[i];
    char what[160], at[24], found[24], view[24], step[24], pause[24];
    weir_chaos_describe(report->scenario, &report->plan[i], what, sizeof what);
    if (!hit->fired)
        snprintf(at, sizeof at, "never");
    else
        snprintf(at, sizeof at, "%" PRIu64, hit->done + 1);
    weir_text_add(out, "  %8s  %9s %9s %9s %9s  %s\n", at, show(times->detected_s, found, sizeof found),
                  show(times->view_s, view, sizeof view), show(times->step_s, step, sizeof step),
                  show(times->pause_s, pause, sizeof pause), what);
}

static void put_kind(const struct weir_chaos_report *report, int kind, struct weir_text *out)
{
    const struct weir_chaos_kind_times *times = &report->verdict->kinds[kind];
    char median[24], worst[24], pause_median[24], pause_worst[24];
    if (times->count == 0)
        return;
    weir_text_add(out, "  %-10s %5zu %9zu  %9s %9s  %9s %9s\n", weir_chaos_kinds[kind].name, times->count,
                  times->detected, show(times->step_median_s, median, sizeof median),
                  show(times->step_worst_s, worst, sizeof worst),
                  show(times->pause_median_s, pause_median, sizeof pause_median),
                  show(times->pause_worst_s, pause_worst, sizeof pause_worst));
}

void weir_chaos_report_text(const struct weir_chaos_report *report, struct weir_text *out)
{
    const struct weir_chaos_verdict *verdict = report->verdict;
    weir_text_add(out, "%s: %s, %u workers, %u ps, seed %" PRIu64 "\n", report->scenario->name, report->job,
                  report->scenario->workers, report->scenario->ps, report->seed);
    for (int i = 0; i < WEIR_CHAOS_CHECKS; i++)
        weir_text_add(out, "  %-7s  %-10s %s\n", weir_chaos_result_names[verdict->checks[i].result],
                      verdict->checks[i].name, verdict->checks[i].text);
    weir_text_add(out, "steps/s: %.1f undisturbed, %.1f disturbed (%.0f %%); a step took %.1f ms\n",
                  verdict->undisturbed_rate, verdict->disturbed_rate,
                  verdict->undisturbed_rate > 0 ? 100 * verdict->disturbed_rate / verdict->undisturbed_rate : 0,
                  1000 * verdict->undisturbed_step_s);
    weir_text_add(out, "\nseconds since the fault: detected, new view, first step done after it; longest pause\n");
    weir_text_add(out, "  %8s  %9s %9s %9s %9s\n", "in step", "detected", "view", "step", "pause");
    for (size_t i = 0; i < verdict->count && i < FAULTS_SHOWN; i++)
        put_fault(report, i, out);
    if (verdict->count > FAULTS_SHOWN)
        weir_text_add(out, "  and %zu more (--json lists all)\n", verdict->count - FAULTS_SHOWN);
    weir_text_add(out, "\n  %-10s %5s %9s  %9s %9s  %9s %9s\n", "kind", "fired", "detected", "step, med", "worst",
                  "pause,med", "worst");
    for (int kind = 0; kind < WEIR_CHAOS_KINDS; kind++)
        put_kind(report, kind, out);
    if (report->disturbed->last.length && !report->disturbed->done)
        weir_text_add(out, "\nlast errors:\n%s", report->disturbed->last.bytes);
    weir_text_add(out, "\n%s\n", verdict->passed ? "nothing was lost" : "FAILED");
}
