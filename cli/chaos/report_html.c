/* One page: the verdict, a time line of steps per second with the faults on it, and the tables. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "chaos/report.h"

#define WIDTH 1100
#define HEIGHT 300
#define LEFT 60
#define RIGHT 20
#define TOP 20
#define BOTTOM 40
#define BINS 110
#define TICKS 10
#define LABELS_MAX 40 /* of faults: more would only hide each other */

struct chart {
    double seconds; /* from the first step to the last, of the longer run */
    double top;     /* steps per second */
};

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1140px;margin:2em auto;padding:0 1em;color:#1d2733}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #dde3ea;text-align:right}"
    "td.l,th.l{text-align:left}.good{color:#137a3e}.bad{color:#b3261e;font-weight:600}.unknown{color:#8a6d00}"
    "svg{width:100%;height:auto;background:#fbfcfd;border:1px solid #dde3ea}svg text{font:11px "
    "sans-serif;fill:#55606e}";

/* Text of others, so that it is only text. */
static void put_escaped(struct weir_text *out, const char *value)
{
    for (const char *c = value; *c; c++) {
        if (*c == '<' || *c == '>' || *c == '&' || *c == '"')
            weir_text_add(out, "&#%d;", *c);
        else
            weir_text_add_bytes(out, c, 1);
    }
}

static double seconds_of(const struct weir_chaos_seen *seen, uint64_t ns)
{
    return seen->step_count && ns > seen->steps[0].ns ? (double)(ns - seen->steps[0].ns) / 1e9 : 0;
}

static double length_of(const struct weir_chaos_seen *seen)
{
    return seen->step_count ? seconds_of(seen, seen->steps[seen->step_count - 1].ns) : 0;
}

/* Steps per second in each of BINS equal parts of the chart. */
static double *rates_of(const struct weir_chaos_seen *seen, const struct chart *chart)
{
    double *rates = weir_alloc(BINS, sizeof *rates, "a time line"), bin_s = chart->seconds / BINS;
    for (size_t i = 1; i < seen->step_count; i++) {
        double bin = seconds_of(seen, seen->steps[i].ns) / bin_s;
        if (seen->steps[i].step > seen->steps[i - 1].step)
            rates[bin < BINS ? (size_t)bin : BINS - 1] +=
                (double)(seen->steps[i].step - seen->steps[i - 1].step) / bin_s;
    }
    return rates;
}

static double x_of(const struct chart *chart, double seconds)
{
    double part = seconds / chart->seconds;
    return LEFT + (WIDTH - LEFT - RIGHT) * (part < 1 ? part : 1);
}

static double y_of(const struct chart *chart, double rate)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / chart->top;
}

static void put_line(struct weir_text *out, const struct chart *chart, const double *rates, double end_s,
                     const char *colour)
{
    weir_text_add(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"", colour);
    for (int i = 0; i < BINS && i * chart->seconds / BINS < end_s; i++)
        weir_text_add(out, "%.1f,%.1f ", x_of(chart, (i + 0.5) * chart->seconds / BINS), y_of(chart, rates[i]));
    weir_text_add(out, "\"/>\n");
}

static void put_axes(struct weir_text *out, const struct chart *chart)
{
    for (int i = 0; i <= TICKS; i++) {
        double x = x_of(chart, chart->seconds * i / TICKS), y = y_of(chart, chart->top * i / TICKS);
        weir_text_add(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g s</text>", x, HEIGHT - BOTTOM + 16,
                      chart->seconds * i / TICKS);
        if (i % 2 == 0)
            weir_text_add(out,
                          "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e6ebf0\"/>"
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n",
                          LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, chart->top * i / TICKS);
    }
    weir_text_add(out, "<text x=\"%d\" y=\"%d\">steps/s</text>\n", LEFT - 50, TOP - 6);
}

static void put_mark(struct weir_text *out, const struct weir_chaos_report *report, const struct chart *chart, size_t i)
{
    const struct weir_chaos_hit *hit = &report->disturbed->hits[i];
    char what[160];
    if (!hit->fired)
        return;
    weir_chaos_describe(report->scenario, &report->plan[i], what, sizeof what);
    double from = x_of(chart, seconds_of(report->disturbed, hit->ns));
    double to = hit->over_ns ? x_of(chart, seconds_of(report->disturbed, hit->over_ns)) : from;
    weir_text_add(out, "<g><title>%zu: ", i + 1);
    put_escaped(out, what);
    weir_text_add(out,
                  "</title><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#b3261e\" "
                  "fill-opacity=\"0.12\"/><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#b3261e\" "
                  "stroke-width=\"1.2\"/>",
                  from, TOP, to - from, HEIGHT - TOP - BOTTOM, from, from, TOP, HEIGHT - BOTTOM);
    if (report->verdict->count <= LABELS_MAX)
        weir_text_add(out, "<text x=\"%.1f\" y=\"%d\">%zu</text>", from + 2, TOP + 10 + 11 * (int)(i % 3), i + 1);
    weir_text_add(out, "</g>\n");
}

static void put_time_line(struct weir_text *out, const struct weir_chaos_report *report)
{
    struct chart chart = {.seconds = length_of(report->undisturbed), .top = 1};
    double other = length_of(report->disturbed);
    chart.seconds = other > chart.seconds ? other : chart.seconds;
    if (chart.seconds <= 0) {
        weir_text_add(out, "<p>No step was seen.</p>\n");
        return;
    }
    double *calm = rates_of(report->undisturbed, &chart), *hurt = rates_of(report->disturbed, &chart);
    for (int i = 0; i < BINS; i++) {
        chart.top = calm[i] > chart.top ? calm[i] : chart.top;
        chart.top = hurt[i] > chart.top ? hurt[i] : chart.top;
    }
    weir_text_add(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"steps per second over time\">\n", WIDTH,
                  HEIGHT);
    put_axes(out, &chart);
    for (size_t i = 0; i < report->verdict->count; i++)
        put_mark(out, report, &chart, i);
    put_line(out, &chart, calm, length_of(report->undisturbed), "#9aa7b5");
    put_line(out, &chart, hurt, other, "#1457a8");
    weir_text_add(out,
                  "<text x=\"%d\" y=\"%d\">seconds since the first step; blue: disturbed, grey: undisturbed, red: "
                  "faults</text></svg>\n",
                  LEFT, HEIGHT - 6);
    free(calm);
    free(hurt);
}

static void put_time(struct weir_text *out, double seconds)
{
    if (seconds < 0)
        weir_text_add(out, "<td>&ndash;</td>");
    else
        weir_text_add(out, "<td>%.3f</td>", seconds);
}

static void put_checks(struct weir_text *out, const struct weir_chaos_verdict *verdict)
{
    weir_text_add(out, "<h2>Verdict</h2>\n<table>\n");
    for (int i = 0; i < WEIR_CHAOS_CHECKS; i++) {
        const char *result = weir_chaos_result_names[verdict->checks[i].result];
        weir_text_add(out, "<tr><td class=\"l %s\">%s</td><td class=\"l\">%s</td><td class=\"l\">", result, result,
                      verdict->checks[i].name);
        put_escaped(out, verdict->checks[i].text);
        weir_text_add(out, "</td></tr>\n");
    }
    weir_text_add(out, "</table>\n");
}

static void put_faults(struct weir_text *out, const struct weir_chaos_report *report)
{
    weir_text_add(out, "<h2>Faults</h2>\n<p>Times in seconds since the fault: the chief found out that a process is "
                       "lost, a new view, the first step done after it; and the longest pause without a step, less an "
                       "undisturbed step.</p>\n<table>\n<tr><th></th><th class=\"l\">fault</th><th>at, s</th><th>in "
                       "step</th><th>detected</th><th>new view</th><th>first step</th><th>pause</th></tr>\n");
    for (size_t i = 0; i < report->verdict->count; i++) {
        const struct weir_chaos_recovery *times = &report->verdict->recoveries[i];
        const struct weir_chaos_hit *hit = &report->disturbed->hits[i];
        char what[160];
        weir_chaos_describe(report->scenario, &report->plan[i], what, sizeof what);
        weir_text_add(out, "<tr><td>%zu</td><td class=\"l\">", i + 1);
        put_escaped(out, what);
        weir_text_add(out, "</td>");
        put_time(out, times->at_s);
        if (hit->fired)
            weir_text_add(out, "<td>%" PRIu64 "</td>", hit->done + 1);
        else
            weir_text_add(out, "<td class=\"bad\">never fired</td>");
        put_time(out, times->detected_s);
        put_time(out, times->view_s);
        put_time(out, times->step_s);
        put_time(out, times->pause_s);
        weir_text_add(out, "</tr>\n");
    }
    weir_text_add(out, "</table>\n");
}

static void put_kinds(struct weir_text *out, const struct weir_chaos_verdict *verdict)
{
    weir_text_add(out,
                  "<h2>By kind</h2>\n<table>\n<tr><th class=\"l\">kind</th><th>fired</th><th>detected</th><th>first "
                  "step, median</th><th>worst</th><th>pause, median</th><th>worst</th></tr>\n");
    for (int k = 0; k < WEIR_CHAOS_KINDS; k++) {
        const struct weir_chaos_kind_times *times = &verdict->kinds[k];
        if (times->count == 0)
            continue;
        weir_text_add(out, "<tr><td class=\"l\">%s</td><td>%zu</td><td>%zu</td>", weir_chaos_kinds[k].name,
                      times->count, times->detected);
        put_time(out, times->step_median_s);
        put_time(out, times->step_worst_s);
        put_time(out, times->pause_median_s);
        put_time(out, times->pause_worst_s);
        weir_text_add(out, "</tr>\n");
    }
    weir_text_add(out, "</table>\n");
}

void weir_chaos_report_html(const struct weir_chaos_report *report, struct weir_text *out)
{
    const struct weir_chaos_verdict *verdict = report->verdict;
    const char *name = report->scenario->name;
    weir_text_add(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>weir chaos: ");
    put_escaped(out, name);
    weir_text_add(out, "</title><style>%s</style></head><body>\n<h1>", style);
    put_escaped(out, name);
    weir_text_add(out, ": <span class=\"%s\">%s</span></h1>\n<p>", verdict->passed ? "good" : "bad",
                  verdict->passed ? "nothing was lost" : "failed");
    put_escaped(out, report->job);
    weir_text_add(out,
                  ", %u workers, %u ps, seed %" PRIu64
                  ". %.1f steps/s undisturbed, %.1f disturbed; a step took %.1f ms "
                  "undisturbed. Steps lost: %" PRIu64 ".</p>\n",
                  report->scenario->workers, report->scenario->ps, report->seed, verdict->undisturbed_rate,
                  verdict->disturbed_rate, 1000 * verdict->undisturbed_step_s, verdict->steps_lost);
    put_time_line(out, report);
    put_checks(out, verdict);
    put_faults(out, report);
    put_kinds(out, verdict);
    weir_text_add(out, "</body></html>\n");
}
