#include "chaos/observe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define LINE_BYTES 2048
#define LAST_BYTES 4096

/* Room for one more: arrays double. */
static void *grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1) || (count == 0 && array))
        return array;
    void *larger = weir_alloc(count ? 2 * count : 1, size, "observations");
    if (count)
        memcpy(larger, array, count * size);
    free(array);
    return larger;
}

void weir_chaos_see_step(struct weir_chaos_seen *seen, uint64_t step, uint64_t samples, uint64_t ns)
{
    seen->steps = grow(seen->steps, seen->step_count, sizeof *seen->steps);
    seen->steps[seen->step_count++] = (struct weir_chaos_step){step, samples, ns};
}

void weir_chaos_see_view(struct weir_chaos_seen *seen, uint64_t number, uint64_t ns)
{
    seen->views = grow(seen->views, seen->view_count, sizeof *seen->views);
    seen->views[seen->view_count++] = (struct weir_chaos_view){number, ns};
}

void weir_chaos_see_end(struct weir_chaos_seen *seen, uint32_t node, const char *how, uint64_t ns)
{
    seen->ends = grow(seen->ends, seen->end_count, sizeof *seen->ends);
    struct weir_chaos_end *end = &seen->ends[seen->end_count++];
    *end = (struct weir_chaos_end){.ns = ns, .node = node};
    snprintf(end->how, sizeof end->how, "%s", how);
}

static void see_word(struct weir_chaos_seen *seen, const struct weir_chaos_scenario *scenario, const char *text,
                     uint64_t ns)
{
    for (uint32_t node = 0; node < weir_chaos_nodes(scenario); node++) {
        char name[32], lost[48], at[48];
        weir_chaos_node_name(scenario, node, name, sizeof name);
        snprintf(lost, sizeof lost, "lost %s at ", name);
        snprintf(at, sizeof at, " %s at ", name);
        const char *is_named = strstr(text, at);
        bool is_lost = strstr(text, lost) || (is_named && strstr(is_named, " is drained;"));
        if (!is_lost && !(is_named && strstr(is_named, " is back;")))
            continue;
        seen->words = grow(seen->words, seen->word_count, sizeof *seen->words);
        seen->words[seen->word_count++] = (struct weir_chaos_word){ns, node, is_lost};
    }
}

void weir_chaos_see_line(struct weir_chaos_seen *seen, const struct weir_chaos_scenario *scenario, uint32_t from,
                         const char *line, size_t count, uint64_t ns)
{
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(count < sizeof text ? count : sizeof text - 1), line);
    if (from == weir_chaos_node(scenario, WEIR_CHIEF, 0))
        see_word(seen, scenario, text, ns);
    if (strstr(text, " error: ") || strstr(text, "weir: ") || strstr(text, "\"level\":\"error\""))
        if (seen->last.length < LAST_BYTES)
            weir_text_add(&seen->last, "%s\n", text);
}

static bool copy_digest(const json_t *root, const char *key, char *digest)
{
    const char *text = json_string_value(json_object_get(root, key));
    snprintf(digest, WEIR_DIGEST_HEX, "%s", text ? text : "");
    return strlen(digest) == WEIR_DIGEST_HEX - 1;
}

static uint64_t whole(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

bool weir_chaos_see_summary(struct weir_chaos_seen *seen, struct weir_error *err)
{
    struct weir_chaos_summary *summary = &seen->summary;
    json_error_t error;
    json_t *root = seen->result.length ? json_loadb(seen->result.bytes, seen->result.length, 0, &error) : NULL;
    if (!root)
        return weir_error_set(err, "the chief printed no summary");
    size_t index;
    json_t *role;
    seen->done =
        copy_digest(root, "digest", summary->digest) && copy_digest(root, "state_digest", summary->state_digest);
    summary->steps = whole(root, "steps");
    summary->replicas = whole(root, "replicas");
    summary->seconds = json_number_value(json_object_get(root, "seconds"));
    summary->samples_per_s = json_number_value(json_object_get(root, "samples_per_s"));
    json_array_foreach(json_object_get(root, "roles"), index, role)
    {
        summary->replicas_computed += whole(role, "replicas_computed");
        summary->chunks_applied += whole(role, "chunks_applied");
    }
    json_decref(root);
    return seen->done || weir_error_set(err, "the chief's summary has no digests");
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

uint64_t weir_chaos_median_step(const struct weir_chaos_seen *seen)
{
    if (seen->step_count < 2)
        return 0;
    size_t count = seen->step_count - 1;
    uint64_t *gaps = weir_alloc(count, sizeof *gaps, "times of steps");
    for (size_t i = 0; i < count; i++)
        gaps[i] = seen->steps[i + 1].ns - seen->steps[i].ns;
    qsort(gaps, count, sizeof *gaps, by_value);
    uint64_t median = gaps[count / 2];
    free(gaps);
    return median;
}

void weir_chaos_seen_free(struct weir_chaos_seen *seen)
{
    free(seen->steps);
    free(seen->views);
    free(seen->words);
    free(seen->ends);
    free(seen->hits);
    free(seen->result.bytes);
    free(seen->last.bytes);
    *seen = (struct weir_chaos_seen){0};
}
