/* What `weir chaos` found, as text for people, as JSON, and as one HTML page that needs nothing from elsewhere. */
#ifndef WEIR_CHAOS_REPORT_H
#define WEIR_CHAOS_REPORT_H

#include "base/text.h"
#include "chaos/judge.h"

struct weir_chaos_report {
    const struct weir_chaos_scenario *scenario;
    const char *job; /* the path */
    uint64_t seed;
    const struct weir_chaos_fault *plan; /* as many as disturbed->hit_count */
    const struct weir_chaos_seen *undisturbed, *disturbed;
    const struct weir_chaos_verdict *verdict;
};

/* Each appends to `out`. */
void weir_chaos_report_text(const struct weir_chaos_report *report, struct weir_text *out);
void weir_chaos_report_json(const struct weir_chaos_report *report, struct weir_text *out);
void weir_chaos_report_html(const struct weir_chaos_report *report, struct weir_text *out);

/* "good", "bad", "unknown", as the JSON has it. */
extern const char *const weir_chaos_result_names[];

#endif
