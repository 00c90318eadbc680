#include "chaos/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "chaos/scenario_table.h"
#include "config/file.h"
#include "config/suggest.h"

#define SHOW_BYTES 96
#define RESTART_S 0.1 /* as `weir run` starts a worker again the first time */
#define SWARM_KINDS                                                                                                    \
    (1u << WEIR_CHAOS_STOP | 1u << WEIR_CHAOS_RESTART | 1u << WEIR_CHAOS_PARTITION | 1u << WEIR_CHAOS_DELAY |          \
     1u << WEIR_CHAOS_BANDWIDTH | 1u << WEIR_CHAOS_RESET | 1u << WEIR_CHAOS_SLOW_CPU)

static bool read_table(int table, const struct weir_node *node, void *into, struct weir_report *report)
{
    return weir_rows_read(weir_chaos_tables[table].rows, weir_chaos_tables[table].count, node, into, report);
}

static bool given(const struct weir_node *node, const char *key)
{
    const struct weir_node *child = weir_node_child(node, key);
    return child && !json_is_null(child->value);
}

/* ---- whom a fault hits */

static uint32_t count_of(const struct weir_chaos_scenario *scenario, enum weir_role role)
{
    return role == WEIR_CHIEF ? 1 : role == WEIR_PS ? scenario->ps : scenario->workers;
}

static bool parse_target(const char *text, struct weir_chaos_target *target)
{
    *target = (struct weir_chaos_target){0};
    if (strcmp(text, "*") == 0) {
        target->any_role = target->any_index = true;
        return true;
    }
    for (int role = WEIR_CHIEF; role <= WEIR_WORKER; role++) {
        size_t length = strlen(weir_role_names[role]);
        uint64_t index = 0;
        if (strncmp(text, weir_role_names[role], length) != 0 || text[length] != '/')
            continue;
        target->role = (enum weir_role)role;
        target->any_index = strcmp(text + length + 1, "*") == 0;
        if (!target->any_index && !weir_number_parse(text + length + 1, 0, UINT32_MAX, &index))
            return false;
        target->index = (uint32_t)index;
        return true;
    }
    return false;
}

static void read_target(const struct weir_chaos_scenario *scenario, const struct weir_node *node,
                        struct weir_chaos_target *target, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    const char *text = json_string_value(node->value);
    if (!text || !parse_target(text, target)) {
        weir_report_value(report, node,
                          "must be a process as in \"worker/1\", \"ps/0\" or \"chief/0\", or one that the seed "
                          "chooses, \"worker/*\", \"ps/*\" or \"*\"; not %s",
                          weir_show(node->value, shown, sizeof shown));
        return;
    }
    uint32_t count = count_of(scenario, target->role);
    if (!target->any_index && target->index >= count)
        weir_report_value(report, node, "there is no %s: the cluster has %u %s%s, and indexes begin at 0", text, count,
                          weir_role_names[target->role], count == 1 || target->role == WEIR_PS ? "" : "s");
}

/* ---- faults */

static void check_uses(const struct weir_chaos_entry *entry, const struct weir_node *node, struct weir_report *report)
{
    unsigned kind = 1u << entry->kind;
    const char *name = weir_chaos_kinds[entry->kind].name;
    for (size_t i = 0; i < weir_chaos_use_count; i++) {
        const struct weir_chaos_use *use = &weir_chaos_uses[i];
        bool is_there = given(node, use->key);
        if (is_there && !(use->allowed & kind))
            weir_report_key(report, weir_node_child(node, use->key), "a fault of the kind \"%s\" has no such key",
                            name);
        else if (!is_there && use->required & kind)
            weir_report_child(report, node, use->key, "required for the kind \"%s\", but missing", name);
    }
}

static void check_moment(const struct weir_node *node, struct weir_report *report)
{
    bool by_time = given(node, "at_s"), by_step = given(node, "at_step");
    bool every_s = given(node, "every_s"), every_steps = given(node, "every_steps");
    if (by_time == by_step)
        weir_report_value(report, node, "needs one of at_s and at_step: %s", by_time ? "it has both" : "it has none");
    if (by_time != by_step && (by_time ? every_steps : every_s))
        weir_report_key(report, weir_node_child(node, by_time ? "every_steps" : "every_s"), "goes with %s, not with %s",
                        by_time ? "at_step" : "at_s", by_time ? "at_s" : "at_step");
    if (given(node, "times") && !every_s && !every_steps)
        weir_report_key(report, weir_node_child(node, "times"), "needs every_s or every_steps: how far apart");
    else if (!given(node, "times") && (every_s || every_steps))
        weir_report_key(report, weir_node_child(node, every_s ? "every_s" : "every_steps"), "needs times: how many");
}

static bool same_process(const struct weir_chaos_target *a, const struct weir_chaos_target *b)
{
    return !a->any_index && !b->any_index && a->role == b->role && a->index == b->index;
}

static void read_entry(const struct weir_chaos_scenario *scenario, const struct weir_node *node,
                       struct weir_chaos_entry *entry, struct weir_report *report)
{
    if (!read_table(WEIR_CHAOS_OF_FAULT, node, entry, report))
        return;
    const struct weir_node *peer = weir_node_child(node, "peer");
    read_target(scenario, weir_node_child(node, "node"), &entry->node, report);
    if (entry->peer_text)
        read_target(scenario, peer, &entry->peer, report);
    else
        entry->peer.none = true;
    check_uses(entry, node, report);
    check_moment(node, report);
    if (!entry->peer.none && same_process(&entry->node, &entry->peer))
        weir_report_value(report, peer, "is the node itself");
    if (entry->kind == WEIR_CHAOS_RESTART && entry->after_s == 0)
        entry->after_s = RESTART_S;
}

static bool is_list(const struct weir_node *node, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    if (!json_is_array(node->value))
        weir_report_value(report, node, "must be a list ([...]), not %s", weir_show(node->value, shown, sizeof shown));
    return json_is_array(node->value);
}

static void read_entries(struct weir_chaos_scenario *scenario, const struct weir_node *list, struct weir_report *report)
{
    uint64_t singles = scenario->swarm.faults;
    size_t count = list->last ? list->last->index + 1 : 0;
    if (count > WEIR_CHAOS_FAULTS_MAX) {
        weir_report_value(report, list, "%zu faults are more than %d", count, WEIR_CHAOS_FAULTS_MAX);
        return;
    }
    scenario->entries = weir_alloc(count + 1, sizeof *scenario->entries, "faults");
    for (const struct weir_node *node = list->first; node; node = node->next) {
        struct weir_chaos_entry *entry = &scenario->entries[scenario->entry_count++];
        read_entry(scenario, node, entry, report);
        singles += entry->times;
    }
    if (singles > WEIR_CHAOS_FAULTS_MAX)
        weir_report_value(report, list, "%llu faults, each counted as often as it comes, are more than %d",
                          (unsigned long long)singles, WEIR_CHAOS_FAULTS_MAX);
}

/* ---- the swarm */

static void read_kinds(struct weir_chaos_swarm *swarm, const struct weir_node *list, struct weir_report *report)
{
    struct one {
        int kind;
    } one = {0};
    const struct weir_row row = {
        .name = "kinds", .type = WEIR_ROW_PICK, .size = sizeof one.kind, .choices = weir_chaos_kinds};
    swarm->kinds = 0;
    for (const struct weir_node *node = list->first; node; node = node->next) {
        weir_row_read(&row, node, &one, report);
        swarm->kinds |= 1u << one.kind;
    }
    if (!list->first)
        weir_report_value(report, list, "is empty; leave it out for all that a worker survives");
}

static void read_swarm(struct weir_chaos_scenario *scenario, const struct weir_node *node, struct weir_report *report)
{
    struct weir_chaos_swarm *swarm = &scenario->swarm;
    if (!read_table(WEIR_CHAOS_OF_SWARM, node, swarm, report))
        return;
    const struct weir_node *kinds = weir_node_child(node, "kinds"), *nodes = weir_node_child(node, "nodes");
    swarm->kinds = SWARM_KINDS;
    if (kinds && is_list(kinds, report))
        read_kinds(swarm, kinds, report);
    bool has_nodes = nodes && is_list(nodes, report) && nodes->first;
    swarm->node_count = has_nodes ? nodes->last->index + 1 : 1;
    swarm->nodes = weir_alloc(swarm->node_count, sizeof *swarm->nodes, "a swarm's nodes");
    if (!has_nodes)
        swarm->nodes[0] = (struct weir_chaos_target){.role = WEIR_WORKER, .any_index = true};
    for (const struct weir_node *child = has_nodes ? nodes->first : NULL; child; child = child->next)
        read_target(scenario, child, &swarm->nodes[child->index], report);
}

/* ---- the whole */

static void read_set(struct weir_chaos_scenario *scenario, const struct weir_node *node, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    if (!json_is_object(node->value)) {
        weir_report_value(report, node, "must be an object, as in {\"fit.epochs\": 2}, not %s",
                          weir_show(node->value, shown, sizeof shown));
        return;
    }
    for (const struct weir_node *child = node->first; child; child = child->next) {
        if (scenario->set_count == WEIR_CHAOS_SET_MAX) {
            weir_report_key(report, child, "more than %d keys; write a job file of your own", WEIR_CHAOS_SET_MAX);
            return;
        }
        char *text = json_dumps(child->value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
        scenario->set[scenario->set_count++] =
            (struct weir_override){.key = weir_strdup(child->key), .value = text, .flag = "--set"};
    }
}

static void read_scenario(struct weir_chaos_scenario *scenario, const struct weir_node *root,
                          struct weir_report *report)
{
    read_table(WEIR_CHAOS_OF_SCENARIO, root, scenario, report);
    const struct weir_node *cluster = weir_node_child(root, "cluster"), *set = weir_node_child(root, "set");
    const struct weir_node *swarm = weir_node_child(root, "swarm"), *faults = weir_node_child(root, "faults");
    if (!cluster || !read_table(WEIR_CHAOS_OF_CLUSTER, cluster, scenario, report))
        return; /* what hits whom can't be judged */
    if (set)
        read_set(scenario, set, report);
    if (swarm)
        read_swarm(scenario, swarm, report);
    if (faults && is_list(faults, report))
        read_entries(scenario, faults, report);
    if (!swarm && !(faults && faults->first))
        weir_report_value(report, root, "nothing is done to the cluster: give \"faults\" or a \"swarm\"");
}

/* The file's name without its ending, where the scenario has no name. */
static char *name_of(const char *path)
{
    char *name = weir_strdup(weir_path_base(path));
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    return name;
}

static void finish(struct weir_chaos_scenario *scenario)
{
    if (!scenario->name)
        scenario->name = name_of(scenario->path);
    char *job = scenario->job ? weir_path_beside(scenario->path, scenario->job) : NULL;
    free(scenario->job);
    scenario->job = job;
}

bool weir_chaos_scenario_load(struct weir_chaos_scenario *scenario, const char *path, struct weir_problems *problems)
{
    *scenario = (struct weir_chaos_scenario){.path = weir_strdup(path)};
    size_t bytes = 0;
    const char *why;
    char *text = weir_file_read(path, WEIR_JOB_BYTES_MAX, &bytes, &why);
    if (!text) {
        weir_problems_add(problems, "%s: can't read the scenario: %s", path, why);
        return false;
    }
    struct weir_report report;
    weir_report_open(&report, path, text, bytes);
    struct weir_node *root = weir_tree_parse(text, bytes, &report);
    if (root) {
        read_scenario(scenario, root, &report);
        finish(scenario);
    }
    weir_node_free(root);
    free(text);
    return weir_report_close(&report, problems);
}

void weir_chaos_scenario_free(struct weir_chaos_scenario *scenario)
{
    for (size_t i = 0; i < scenario->set_count; i++) {
        free((char *)scenario->set[i].key);
        free((char *)scenario->set[i].value);
    }
    for (size_t i = 0; i < scenario->entry_count; i++) {
        free(scenario->entries[i].node_text);
        free(scenario->entries[i].peer_text);
    }
    free(scenario->entries);
    free(scenario->swarm.nodes);
    free(scenario->path);
    free(scenario->name);
    free(scenario->job);
    *scenario = (struct weir_chaos_scenario){0};
}
