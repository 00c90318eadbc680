/* TF_CONFIG, as TensorFlow and KubeFlow write it; what they take and can't work is refused here, with its place. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "config/address.h"
#include "config/suggest.h"
#include "config/tree.h"

#define TEXT_BYTES_MAX ((size_t)64 << 10)
#define INDEX_MAX 65535
#define SHOW_BYTES 96
#define ALLOWED "chief, worker, ps and evaluator"

const char *const weir_role_names[WEIR_ROLES] = {"chief", "ps", "worker", "evaluator"};

/* A task, and where it stands, for messages. */
struct placed {
    struct weir_task task;
    const struct weir_node *node;
};

struct reader {
    struct placed *tasks;
    size_t count;
    struct weir_report *report;
};

static bool find_role(const char *name, enum weir_role *role)
{
    for (int i = 0; i < WEIR_ROLES; i++)
        if (strcmp(weir_role_names[i], name) == 0) {
            *role = (enum weir_role)i;
            return true;
        }
    return false;
}

/* What to say of a name that is no role: "unknown job; did you mean "ps"? Allowed are ..." */
static void explain_role(const char *name, const char *what, char *text, size_t bytes)
{
    char phrase[SHOW_BYTES];
    struct weir_suggest suggest;
    if (strcmp(name, "master") == 0) {
        snprintf(text, bytes, "\"master\" is the old name of the chief; write \"chief\"");
        return;
    }
    weir_suggest_start(&suggest, name);
    for (int i = 0; i < WEIR_ROLES; i++)
        weir_suggest_offer(&suggest, weir_role_names[i], weir_role_names[i]);
    weir_suggest_phrase(&suggest, phrase, sizeof phrase);
    snprintf(text, bytes, "unknown %s%s %s are " ALLOWED, what, phrase[0] ? phrase : ";",
             phrase[0] ? "Allowed" : "allowed");
}

/* A decimal number without sign, space or leading zero. */
static bool parse_index(const char *text, uint32_t *index)
{
    size_t digits = strspn(text, "0123456789");
    uint32_t value = 0;
    if (digits == 0 || digits > 5 || text[digits] || (text[0] == '0' && digits > 1))
        return false;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (uint32_t)(text[i] - '0');
    *index = value;
    return value <= INDEX_MAX;
}

/* ---- the cluster's map */

static void read_address(struct reader *reader, enum weir_role role, uint32_t index, const struct weir_node *node)
{
    char shown[SHOW_BYTES];
    const char *address = json_string_value(node->value);
    const char *fault = address ? weir_address_fault(address) : NULL;
    if (!address)
        weir_report_value(reader->report, node, "must be a string host:port, not %s",
                          weir_show(node->value, shown, sizeof shown));
    else if (fault)
        weir_report_value(reader->report, node, "address %s: %s", weir_show(node->value, shown, sizeof shown), fault);
    else
        reader->tasks[reader->count++] =
            (struct placed){.task = {.role = role, .index = index, .address = weir_strdup(address)}, .node = node};
}

/* A list, where the position is the index, or an object {"index": address}, which may leave numbers out. */
static void read_tasks(struct reader *reader, enum weir_role role, const struct weir_node *node)
{
    char shown[SHOW_BYTES];
    if (!json_is_array(node->value) && !json_is_object(node->value)) {
        weir_report_value(reader->report, node, "must be a list of addresses or an object {\"index\": address}, not %s",
                          weir_show(node->value, shown, sizeof shown));
        return;
    }
    size_t count = 0;
    for (const struct weir_node *child = node->first; child; child = child->next, count++) {
        uint32_t index = (uint32_t)child->index;
        if (child->key && !parse_index(child->key, &index))
            weir_report_key(reader->report, child, "the key must be an index from 0 to %d", INDEX_MAX);
        else
            read_address(reader, role, index, child);
    }
    bool single = role == WEIR_CHIEF || role == WEIR_EVALUATOR;
    if (single && count > 1)
        weir_report_value(reader->report, node, "there can be at most one %s, not %zu", weir_role_names[role], count);
    else if (single && count == 1 && node->first->key && strcmp(node->first->key, "0") != 0)
        weir_report_key(reader->report, node->first, "the %s's index must be 0", weir_role_names[role]);
}

static int by_address(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    int order = strcasecmp(left->task.address, right->task.address);
    if (order)
        return order;
    return left->node->value_at < right->node->value_at ? -1 : left->node->value_at > right->node->value_at;
}

static int by_role(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    if (left->task.role != right->task.role)
        return left->task.role < right->task.role ? -1 : 1;
    return left->task.index < right->task.index ? -1 : left->task.index > right->task.index;
}

static void refuse_shared_addresses(struct reader *reader)
{
    qsort(reader->tasks, reader->count, sizeof *reader->tasks, by_address);
    for (size_t i = 1; i < reader->count; i++) {
        const struct placed *before = &reader->tasks[i - 1], *task = &reader->tasks[i];
        char shown[SHOW_BYTES];
        if (strcasecmp(before->task.address, task->task.address) == 0)
            weir_report_value(reader->report, task->node, "address %s is that of %s %" PRIu32 " too",
                              weir_show(task->node->value, shown, sizeof shown), weir_role_names[before->task.role],
                              before->task.index);
    }
    qsort(reader->tasks, reader->count, sizeof *reader->tasks, by_role);
}

static bool has_role(const struct reader *reader, enum weir_role role)
{
    for (size_t i = 0; i < reader->count; i++)
        if (reader->tasks[i].task.role == role)
            return true;
    return false;
}

/* Whether the map says anything of the role, be it right or wrong. */
static bool tells(const struct weir_node *map, enum weir_role role)
{
    const struct weir_node *job = weir_node_child(map, weir_role_names[role]);
    return job && (job->first || (!json_is_array(job->value) && !json_is_object(job->value)));
}

static void read_map(struct reader *reader, const struct weir_node *map)
{
    char text[256];
    size_t most = 0;
    bool unknown = false;
    for (const struct weir_node *job = map->first; job; job = job->next)
        for (const struct weir_node *child = job->first; child; child = child->next)
            most++;
    reader->tasks = weir_alloc(most, sizeof *reader->tasks, "the cluster's tasks");
    for (const struct weir_node *job = map->first; job; job = job->next) {
        enum weir_role role;
        if (find_role(job->key, &role)) {
            read_tasks(reader, role, job);
        } else {
            explain_role(job->key, "job", text, sizeof text);
            weir_report_key(reader->report, job, "%s", text);
            unknown = true;
        }
    }
    refuse_shared_addresses(reader);
    if (unknown)
        return; /* what seems to be missing stands there under another name */
    if (!tells(map, WEIR_WORKER))
        weir_report_value(reader->report, map, "there is no worker; a job needs at least one");
    if (!tells(map, WEIR_PS))
        weir_report_value(reader->report, map,
                          "there is no ps; training without parameter servers (all-reduce) is not there yet");
}

/* ---- this process's task */

static bool read_type(const struct weir_node *type, enum weir_role *role, struct weir_report *report)
{
    char text[256];
    const char *name = json_string_value(type->value);
    if (!name) {
        weir_report_value(report, type, "must be a string, not %s", weir_show(type->value, text, sizeof text));
        return false;
    }
    if (find_role(name, role))
        return true;
    char what[SHOW_BYTES + 16], shown[SHOW_BYTES];
    snprintf(what, sizeof what, "type %s", weir_show(type->value, shown, sizeof shown));
    explain_role(name, what, text, sizeof text);
    weir_report_value(report, type, "%s", text);
    return false;
}

static bool read_index(const struct weir_node *node, uint32_t *index, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    *index = 0;
    if (!node)
        return true;
    if (json_is_integer(node->value) && json_integer_value(node->value) >= 0 &&
        json_integer_value(node->value) <= INDEX_MAX) {
        *index = (uint32_t)json_integer_value(node->value);
        return true;
    }
    if (json_is_string(node->value) && parse_index(json_string_value(node->value), index))
        return true;
    weir_report_value(report, node, "must be an integer from 0 to %d, not %s", INDEX_MAX,
                      weir_show(node->value, shown, sizeof shown));
    return false;
}

/* An evaluator may stand outside of the map: it serves nothing, so nobody needs its address. */
static void check_member(const struct reader *reader, const struct weir_node *task, enum weir_role role, uint32_t index)
{
    const struct weir_node *type = weir_node_child(task, "type"), *at = weir_node_child(task, "index");
    uint32_t largest = 0;
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->tasks[i].task.role == role && reader->tasks[i].task.index == index)
            return;
        if (reader->tasks[i].task.role == role)
            largest = reader->tasks[i].task.index; /* they are sorted */
    }
    if (role == WEIR_EVALUATOR && index > 0)
        weir_report_value(reader->report, at, "there can be at most one evaluator, so its index is 0, not %" PRIu32,
                          index);
    if (reader->report->count > 0 || role == WEIR_EVALUATOR)
        return; /* the entry may only be missing because it is wrong */
    if (!has_role(reader, role))
        weir_report_value(reader->report, type, "the cluster has no %s", weir_role_names[role]);
    else
        weir_report_value(reader->report, at ? at : task,
                          "%s %" PRIu32 " is not in the cluster; the largest index there is %" PRIu32,
                          weir_role_names[role], index, largest);
}

static void read_task(struct weir_cluster *cluster, const struct reader *reader, const struct weir_node *task)
{
    char shown[SHOW_BYTES];
    if (!json_is_object(task->value)) {
        weir_report_value(reader->report, task, "must be an object, not %s",
                          weir_show(task->value, shown, sizeof shown));
        return;
    }
    const struct weir_node *type = weir_node_child(task, "type");
    if (!type)
        weir_report_child(reader->report, task, "type", "required, but missing; allowed are " ALLOWED);
    bool typed = type && read_type(type, &cluster->self_role, reader->report);
    bool indexed = read_index(weir_node_child(task, "index"), &cluster->self_index, reader->report);
    if (typed && indexed)
        check_member(reader, task, cluster->self_role, cluster->self_index);
}

/* ---- the whole */

/* Orchestrators add keys of their own, so unknown ones are let pass, unless they look like a slip. */
static void check_keys(const struct weir_node *node, const char *const *known, struct weir_report *report)
{
    for (const struct weir_node *child = node->first; child && json_is_object(node->value); child = child->next) {
        struct weir_suggest suggest;
        char phrase[SHOW_BYTES];
        bool found = false;
        weir_suggest_start(&suggest, child->key);
        for (const char *const *name = known; *name; name++) {
            found = found || strcmp(*name, child->key) == 0;
            weir_suggest_offer(&suggest, *name, *name);
        }
        weir_suggest_phrase(&suggest, phrase, sizeof phrase);
        if (!found && phrase[0])
            weir_report_key(report, child, "unknown key%s", phrase);
    }
}

static void check_rpc_layer(const struct weir_node *node, struct weir_report *report)
{
    char shown[SHOW_BYTES];
    if (!node || json_is_null(node->value))
        return;
    const char *layer = json_string_value(node->value);
    if (!layer || (*layer && strcmp(layer, "grpc") != 0))
        weir_report_value(report, node, "%s is not supported; roles speak \"grpc\"",
                          weir_show(node->value, shown, sizeof shown));
}

/* The tasks that are read, which the cluster then owns. An evaluator's own entry is among them only if the map has it.
 */
static void keep_tasks(struct weir_cluster *cluster, const struct reader *reader)
{
    cluster->tasks = weir_alloc(reader->count, sizeof *cluster->tasks, "the cluster's tasks");
    cluster->task_count = reader->count;
    for (size_t i = 0; i < reader->count; i++)
        cluster->tasks[i] = reader->tasks[i].task;
    cluster->chief_in_worker_0 = !has_role(reader, WEIR_CHIEF);
}

static void read_root(struct weir_cluster *cluster, const struct weir_node *root, struct weir_report *report)
{
    static const char *const root_keys[] = {"cluster", "task", "rpc_layer", "environment", NULL};
    static const char *const task_keys[] = {"type", "index", NULL};
    const struct weir_node *map = weir_node_child(root, "cluster"), *task = weir_node_child(root, "task");
    struct reader reader = {.report = report};
    char shown[SHOW_BYTES];
    check_keys(root, root_keys, report);
    check_rpc_layer(weir_node_child(root, "rpc_layer"), report);
    if (!map && !task && report->count == 0)
        return; /* as if unset: what an orchestrator gives a job of one process */
    cluster->present = true;
    if (!map)
        weir_report_child(report, root, "cluster", "required, but missing");
    else if (!json_is_object(map->value))
        weir_report_value(report, map, "must be an object, not %s", weir_show(map->value, shown, sizeof shown));
    else
        read_map(&reader, map);
    if (!task) {
        weir_report_child(report, root, "task", "required, but missing: it says which of the cluster's tasks this is");
    } else {
        check_keys(task, task_keys, report);
        read_task(cluster, &reader, task);
    }
    keep_tasks(cluster, &reader);
    free(reader.tasks);
}

bool weir_cluster_parse(struct weir_cluster *cluster, const char *text, struct weir_problems *problems)
{
    *cluster = (struct weir_cluster){0};
    if (!text)
        return true;
    size_t length = strlen(text);
    if (length == 0 || length > TEXT_BYTES_MAX) {
        weir_problems_add(problems, "TF_CONFIG: is %s",
                          length ? "larger than 64 KiB" : "set, but empty; unset it to run without a cluster");
        return false;
    }
    struct weir_report report;
    weir_report_open(&report, "TF_CONFIG", text, length);
    struct weir_node *root = weir_tree_parse(text, length, &report);
    if (root)
        read_root(cluster, root, &report);
    weir_node_free(root);
    return weir_report_close(&report, problems);
}

void weir_cluster_free(struct weir_cluster *cluster)
{
    for (size_t i = 0; i < cluster->task_count; i++)
        free(cluster->tasks[i].address);
    free(cluster->tasks);
    *cluster = (struct weir_cluster){0};
}

size_t weir_cluster_count(const struct weir_cluster *cluster, enum weir_role role)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->task_count; i++)
        count += cluster->tasks[i].role == role;
    return count;
}

const struct weir_task *weir_cluster_find(const struct weir_cluster *cluster, enum weir_role role, uint32_t index)
{
    for (size_t i = 0; i < cluster->task_count; i++)
        if (cluster->tasks[i].role == role && cluster->tasks[i].index == index)
            return &cluster->tasks[i];
    return NULL;
}
