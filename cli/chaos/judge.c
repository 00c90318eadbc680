#include "chaos/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A line of the chief's log has the time at which it was read here, a view the chief's own: so much later at most. */
#define READ_LATE_NS UINT64_C(50000000)

struct case_of {
    const struct weir_chaos_scenario *scenario;
    const struct weir_chaos_fault *plan;
    const struct weir_chaos_seen *calm, *hurt;
    struct weir_chaos_verdict *verdict;
};

static void find(struct case_of *c, int number, const char *name, enum weir_chaos_result result, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

static void find(struct case_of *c, int number, const char *name, enum weir_chaos_result result, const char *format,
                 ...)
{
    struct weir_chaos_check *check = &c->verdict->checks[number];
    va_list args;
    check->name = name;
    check->result = result;
    va_start(args, format);
    vsnprintf(check->text, sizeof check->text, format, args);
    va_end(args);
}

static enum weir_chaos_result good_if(bool good)
{
    return good ? WEIR_CHAOS_GOOD : WEIR_CHAOS_BAD;
}

/* ---- checks */

static void check_end(struct case_of *c)
{
    const struct weir_chaos_seen *hurt = c->hurt;
    const char *how = hurt->done        ? "the job came to its end"
                      : hurt->timed_out ? "the job did not end within the time limit"
                                        : "the job failed";
    find(c, WEIR_CHAOS_CHECK_END, "end", good_if(hurt->done), "%s", how);
    size_t fired = 0;
    for (size_t i = 0; i < hurt->hit_count; i++)
        fired += hurt->hits[i].fired;
    find(c, WEIR_CHAOS_CHECK_FIRED, "faults", good_if(fired == hurt->hit_count), "%zu of %zu fired%s", fired,
         hurt->hit_count, fired < hurt->hit_count ? "; the job was over before the others" : "");
    char name[32] = "";
    if (hurt->end_count)
        weir_chaos_node_name(c->scenario, hurt->ends[0].node, name, sizeof name);
    if (hurt->end_count)
        find(c, WEIR_CHAOS_CHECK_ENDS, "processes", WEIR_CHAOS_BAD,
             "%zu ended that no fault had ended; first %s, with %s", hurt->end_count, name, hurt->ends[0].how);
    else
        find(c, WEIR_CHAOS_CHECK_ENDS, "processes", WEIR_CHAOS_GOOD, "none ended but by a fault");
}

static void check_digest(struct case_of *c, int number, const char *name, const char *calm, const char *hurt)
{
    if (!c->hurt->done)
        find(c, number, name, WEIR_CHAOS_UNKNOWN, "the job has no result");
    else if (strcmp(calm, hurt) == 0)
        find(c, number, name, WEIR_CHAOS_GOOD, "equal: %.16s...", hurt);
    else
        find(c, number, name, WEIR_CHAOS_BAD, "differs: %.16s... undisturbed, %.16s... disturbed", calm, hurt);
}

static void check_steps(struct case_of *c)
{
    const struct weir_chaos_seen *hurt = c->hurt;
    uint64_t lost = 0;
    for (size_t i = 1; i < hurt->step_count; i++)
        if (hurt->steps[i].step < hurt->steps[i - 1].step)
            lost += hurt->steps[i - 1].step - hurt->steps[i].step;
    c->verdict->steps_lost = lost;
    if (!hurt->done)
        find(c, WEIR_CHAOS_CHECK_STEPS, "steps", lost ? WEIR_CHAOS_BAD : WEIR_CHAOS_UNKNOWN,
             "%" PRIu64 " lost until the job failed", lost);
    else
        find(c, WEIR_CHAOS_CHECK_STEPS, "steps", good_if(lost == 0 && hurt->summary.steps == c->calm->summary.steps),
             "%" PRIu64 " lost; %" PRIu64 " done, %" PRIu64 " undisturbed", lost, hurt->summary.steps,
             c->calm->summary.steps);
}

/* The samples that counted, step by step: a gradient that counts twice, or not at all, shows here. */
static void check_samples(struct case_of *c)
{
    const struct weir_chaos_seen *calm = c->calm, *hurt = c->hurt;
    uint64_t compared = 0, wrong = 0, first = 0;
    for (size_t i = 0, j = 0; i < hurt->step_count; i++) {
        if (j > 0 && calm->steps[j - 1].step >= hurt->steps[i].step)
            j = 0; /* it went back */
        while (j < calm->step_count && calm->steps[j].step < hurt->steps[i].step)
            j++;
        if (j == calm->step_count || calm->steps[j].step != hurt->steps[i].step || hurt->steps[i].step == 0)
            continue;
        compared++;
        if (calm->steps[j].samples == hurt->steps[i].samples)
            continue;
        first = wrong++ ? first : hurt->steps[i].step;
    }
    if (wrong)
        find(c, WEIR_CHAOS_CHECK_SAMPLES, "gradients", WEIR_CHAOS_BAD,
             "after %" PRIu64 " of %" PRIu64 " steps another number of samples had counted; first after step %" PRIu64,
             wrong, compared, first);
    else if (compared == 0)
        find(c, WEIR_CHAOS_CHECK_SAMPLES, "gradients", WEIR_CHAOS_UNKNOWN, "no step was seen in both runs");
    else
        find(c, WEIR_CHAOS_CHECK_SAMPLES, "gradients", WEIR_CHAOS_GOOD,
             "each counted once: equal samples after all of %" PRIu64 " steps", compared);
}

static bool lost_counters(const struct case_of *c, enum weir_role role)
{
    uint32_t first = weir_chaos_node(c->scenario, role, 0);
    uint32_t count = role == WEIR_PS ? c->scenario->ps : c->scenario->workers;
    for (size_t i = 0; i < c->hurt->hit_count; i++) {
        const struct weir_chaos_fault *fault = &c->plan[i];
        if (weir_chaos_ends_process(fault) && fault->node >= first && fault->node < first + count)
            return true;
    }
    return false;
}

static void check_chunks(struct case_of *c)
{
    uint64_t calm = c->calm->summary.chunks_applied, hurt = c->hurt->summary.chunks_applied;
    if (!c->hurt->done)
        find(c, WEIR_CHAOS_CHECK_CHUNKS, "chunks", WEIR_CHAOS_UNKNOWN, "the job has no result");
    else if (lost_counters(c, WEIR_PS))
        find(c, WEIR_CHAOS_CHECK_CHUNKS, "chunks", WEIR_CHAOS_UNKNOWN,
             "a ps was ended, and its counters with it; the state's digest speaks for them");
    else
        find(c, WEIR_CHAOS_CHECK_CHUNKS, "chunks", good_if(calm == hurt),
             "%" PRIu64 " times a chunk was applied, %" PRIu64 " undisturbed", hurt, calm);
    uint64_t needed = c->hurt->summary.steps * c->hurt->summary.replicas;
    uint64_t computed = c->hurt->summary.replicas_computed;
    c->verdict->computed_again = computed > needed ? computed - needed : 0;
}

/* ---- times */

static double seconds(uint64_t from, uint64_t to)
{
    return (double)(to - from) / 1e9;
}

/* When the next fault fires, or the run ends. */
static uint64_t until(const struct case_of *c, size_t i)
{
    uint64_t end = c->hurt->ended_ns;
    for (size_t j = 0; j < c->hurt->hit_count; j++) {
        const struct weir_chaos_hit *other = &c->hurt->hits[j];
        if (other->fired && other->ns > c->hurt->hits[i].ns && other->ns < end)
            end = other->ns;
    }
    return end;
}

/* When the process is hit again, after the fault was over: from then on, that it is lost says nothing of this fault,
 * which the chief may not have noticed at all (it ended a process that had not joined yet, say). */
static uint64_t until_hit_again(const struct case_of *c, size_t i)
{
    const struct weir_chaos_hit *hit = &c->hurt->hits[i];
    uint64_t end = c->hurt->ended_ns;
    for (size_t j = 0; j < c->hurt->hit_count; j++) {
        const struct weir_chaos_hit *other = &c->hurt->hits[j];
        bool again = other->fired && c->plan[j].node == c->plan[i].node && hit->over_ns && other->ns > hit->over_ns;
        if (again && other->ns < end)
            end = other->ns;
    }
    return end;
}

static uint64_t first_lost(const struct case_of *c, size_t i, uint64_t end)
{
    const struct weir_chaos_fault *fault = &c->plan[i];
    for (size_t w = 0; w < c->hurt->word_count; w++) {
        const struct weir_chaos_word *word = &c->hurt->words[w];
        bool meant = word->node == fault->node || word->node == fault->peer;
        if (word->lost && meant && word->ns >= c->hurt->hits[i].ns && word->ns <= end)
            return word->ns;
    }
    return 0;
}

static uint64_t first_view(const struct case_of *c, uint64_t begin, uint64_t end)
{
    for (size_t v = 0; v < c->hurt->view_count; v++)
        if (c->hurt->views[v].ns >= begin && c->hurt->views[v].ns <= end)
            return c->hurt->views[v].ns;
    return 0;
}

/* The longest part of [begin, end] without a step done, the one in progress at `begin` counted from `begin`. */
static uint64_t longest_pause(const struct case_of *c, uint64_t begin, uint64_t end)
{
    uint64_t longest = 0, last = begin;
    for (size_t s = 0; s < c->hurt->step_count && last < end; s++) {
        uint64_t ns = c->hurt->steps[s].ns;
        if (ns <= begin)
            continue;
        longest = ns - last > longest ? ns - last : longest;
        last = ns;
    }
    if (!c->hurt->done && last < end && end - last > longest)
        longest = end - last; /* it never went on */
    return longest;
}

static struct weir_chaos_recovery recover(const struct case_of *c, size_t i)
{
    struct weir_chaos_recovery times = {-1, -1, -1, -1, -1};
    const struct weir_chaos_seen *hurt = c->hurt;
    const struct weir_chaos_hit *hit = &hurt->hits[i];
    if (!hit->fired || hurt->step_count == 0)
        return times;
    uint64_t end = until(c, i), lost = first_lost(c, i, until_hit_again(c, i));
    uint64_t early = lost > hit->ns + READ_LATE_NS ? lost - READ_LATE_NS : hit->ns;
    uint64_t view = lost ? first_view(c, early, hurt->ended_ns) : 0;
    lost = view && view < lost ? view : lost;
    uint64_t from = view ? view : lost ? lost : hit->ns;
    times.at_s = hit->ns > hurt->steps[0].ns ? seconds(hurt->steps[0].ns, hit->ns) : 0;
    if (lost)
        times.detected_s = seconds(hit->ns, lost);
    if (view)
        times.view_s = seconds(hit->ns, view);
    for (size_t s = 0; s < hurt->step_count && times.step_s < 0; s++)
        if (hurt->steps[s].ns > from)
            times.step_s = seconds(hit->ns, hurt->steps[s].ns);
    double pause = (double)longest_pause(c, hit->ns, end) / 1e9 - c->verdict->undisturbed_step_s;
    times.pause_s = pause > 0 ? pause : 0;
    return times;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void sort_out(double *values, size_t count, double *median, double *worst)
{
    qsort(values, count, sizeof *values, by_value);
    *median = count ? values[count / 2] : -1;
    *worst = count ? values[count - 1] : -1;
}

static void sum_up(struct case_of *c, int kind)
{
    struct weir_chaos_kind_times *times = &c->verdict->kinds[kind];
    double *steps = weir_alloc(c->hurt->hit_count + 1, sizeof *steps, "times");
    double *pauses = weir_alloc(c->hurt->hit_count + 1, sizeof *pauses, "times");
    size_t step_count = 0, pause_count = 0;
    for (size_t i = 0; i < c->hurt->hit_count; i++) {
        const struct weir_chaos_recovery *one = &c->verdict->recoveries[i];
        if ((int)c->plan[i].kind != kind || !c->hurt->hits[i].fired)
            continue;
        times->count++;
        times->detected += one->detected_s >= 0;
        if (one->step_s >= 0)
            steps[step_count++] = one->step_s;
        if (one->pause_s >= 0)
            pauses[pause_count++] = one->pause_s;
    }
    sort_out(steps, step_count, &times->step_median_s, &times->step_worst_s);
    sort_out(pauses, pause_count, &times->pause_median_s, &times->pause_worst_s);
    free(steps);
    free(pauses);
}

static double rate(const struct weir_chaos_seen *seen)
{
    if (seen->step_count < 2)
        return 0;
    const struct weir_chaos_step *first = &seen->steps[0], *last = &seen->steps[seen->step_count - 1];
    return last->ns > first->ns ? (double)(last->step - first->step) / seconds(first->ns, last->ns) : 0;
}

void weir_chaos_judge(const struct weir_chaos_scenario *scenario, const struct weir_chaos_fault *plan,
                      const struct weir_chaos_seen *undisturbed, const struct weir_chaos_seen *disturbed,
                      struct weir_chaos_verdict *verdict)
{
    *verdict = (struct weir_chaos_verdict){.count = disturbed->hit_count};
    struct case_of c = {scenario, plan, undisturbed, disturbed, verdict};
    verdict->undisturbed_step_s = (double)weir_chaos_median_step(undisturbed) / 1e9;
    verdict->undisturbed_rate = rate(undisturbed);
    verdict->disturbed_rate = rate(disturbed);
    check_end(&c);
    check_digest(&c, WEIR_CHAOS_CHECK_DIGEST, "digest", undisturbed->summary.digest, disturbed->summary.digest);
    check_digest(&c, WEIR_CHAOS_CHECK_STATE, "state", undisturbed->summary.state_digest,
                 disturbed->summary.state_digest);
    check_steps(&c);
    check_samples(&c);
    check_chunks(&c);
    verdict->passed = true;
    for (int i = 0; i < WEIR_CHAOS_CHECKS; i++)
        verdict->passed = verdict->passed && verdict->checks[i].result != WEIR_CHAOS_BAD;
    verdict->recoveries = weir_alloc(verdict->count + 1, sizeof *verdict->recoveries, "times");
    for (size_t i = 0; i < verdict->count; i++)
        verdict->recoveries[i] = recover(&c, i);
    for (int kind = 0; kind < WEIR_CHAOS_KINDS; kind++)
        sum_up(&c, kind);
}

void weir_chaos_verdict_free(struct weir_chaos_verdict *verdict)
{
    free(verdict->recoveries);
    *verdict = (struct weir_chaos_verdict){0};
}
