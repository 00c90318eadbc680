#include "config/keras.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/suggest.h"

#define SHOW_BYTES 96

/* What a value of compile names: its class, and the node of its config if it has one. */
struct choice {
    const struct weir_keras_class *class;
    const struct weir_node *config;
    const char *written; /* the name as it stands there, if it is a plain one; else NULL */
};

static bool same_name(const struct weir_keras_family *family, const char *a, const char *b)
{
    return a && b && (family->any_case ? strcasecmp(a, b) == 0 : strcmp(a, b) == 0);
}

static const struct weir_keras_class *find_class(const struct weir_keras_family *family, const char *name)
{
    for (size_t i = 0; i < family->class_count; i++) {
        const struct weir_keras_class *class = &family->classes[i];
        bool found = same_name(family, class->name, name);
        for (size_t j = 0; j < 3; j++)
            found = found || same_name(family, class->also[j], name);
        if (found)
            return class;
    }
    return NULL;
}

static void refuse_class(const struct weir_keras_family *family, const struct weir_node *node,
                         struct weir_report *report)
{
    const char *name = json_string_value(node->value);
    char shown[SHOW_BYTES], phrase[SHOW_BYTES], list[512] = "";
    weir_show(node->value, shown, sizeof shown);
    size_t at = 0;
    for (size_t i = 0; i < family->class_count && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", family->classes[i].name);
    for (const char *const *other = family->unsupported; *other; other++)
        if (same_name(family, *other, name)) {
            weir_report_value(report, node, "%s %s is not supported by this version; there are %s", family->what, shown,
                              list);
            return;
        }
    struct weir_suggest suggest;
    weir_suggest_start(&suggest, name);
    for (size_t i = 0; i < family->class_count; i++) {
        weir_suggest_offer(&suggest, family->classes[i].name, family->classes[i].name);
        for (size_t j = 0; j < 3 && family->classes[i].also[j]; j++)
            weir_suggest_offer(&suggest, family->classes[i].also[j], family->classes[i].also[j]);
    }
    weir_suggest_phrase(&suggest, phrase, sizeof phrase);
    if (phrase[0])
        weir_report_value(report, node, "unknown %s %s%s", family->what, shown, phrase);
    else
        weir_report_value(report, node, "unknown %s %s; there are %s", family->what, shown, list);
}

/* A name by itself. */
static bool choose_name(const struct weir_keras_family *family, const struct weir_node *node, struct choice *choice,
                        struct weir_report *report)
{
    choice->written = json_string_value(node->value);
    choice->class = find_class(family, choice->written);
    if (!choice->class)
        refuse_class(family, node, report);
    return choice->class != NULL;
}

static void check_envelope(const struct weir_node *node, struct weir_report *report)
{
    static const char *const known[] = {"class_name",      "config",       "module",
                                        "registered_name", "build_config", "shared_object_id"};
    const size_t count = sizeof known / sizeof known[0];
    for (const struct weir_node *child = node->first; child; child = child->next) {
        size_t i = 0;
        while (i < count && strcmp(known[i], child->key) != 0)
            i++;
        if (i < count || json_is_null(child->value))
            continue;
        struct weir_suggest suggest;
        char phrase[SHOW_BYTES];
        weir_suggest_start(&suggest, child->key);
        for (i = 0; i < count; i++)
            weir_suggest_offer(&suggest, known[i], known[i]);
        weir_suggest_phrase(&suggest, phrase, sizeof phrase);
        weir_report_key(report, child, "unknown key%s",
                        phrase[0] ? phrase : "; the keys here are class_name and config");
    }
}

/* {class_name, config}, as Keras serialises an object; of a function, config is its name. */
static bool choose_object(const struct weir_keras_family *family, const struct weir_node *node, struct choice *choice,
                          struct weir_report *report)
{
    char shown[SHOW_BYTES];
    check_envelope(node, report);
    const struct weir_node *name = weir_node_child(node, "class_name"), *config = weir_node_child(node, "config");
    if (!name) {
        weir_report_child(report, node, "class_name", "required, but missing");
        return false;
    }
    if (!json_is_string(name->value)) {
        weir_report_value(report, name, "must be a string, not %s", weir_show(name->value, shown, sizeof shown));
        return false;
    }
    if (strcmp(json_string_value(name->value), "function") == 0 && config && json_is_string(config->value))
        return choose_name(family, config, choice, report);
    if (config && !json_is_object(config->value) && !json_is_null(config->value)) {
        weir_report_value(report, config, "must be an object, not %s", weir_show(config->value, shown, sizeof shown));
        return false;
    }
    choice->config = config && json_is_object(config->value) ? config : NULL;
    bool chosen = choose_name(family, name, choice, report);
    choice->written = NULL;
    return chosen;
}

static bool choose(const struct weir_keras_family *family, const struct weir_node *node, struct choice *choice,
                   struct weir_report *report)
{
    *choice = (struct choice){0};
    char shown[SHOW_BYTES];
    if (json_is_string(node->value))
        return choose_name(family, node, choice, report);
    if (json_is_object(node->value))
        return choose_object(family, node, choice, report);
    weir_report_value(report, node, "must be the name of a Keras %s or {\"class_name\": ..., \"config\": ...}, not %s",
                      family->what, weir_show(node->value, shown, sizeof shown));
    return false;
}

static const struct weir_row *find_row(const struct weir_row *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void refuse_key(const struct weir_keras_class *class, const struct weir_node *node, struct weir_report *report)
{
    struct weir_suggest suggest;
    char phrase[SHOW_BYTES];
    weir_suggest_start(&suggest, node->key);
    for (size_t i = 0; i < class->row_count; i++)
        weir_suggest_offer(&suggest, class->rows[i].name, class->rows[i].name);
    weir_suggest_phrase(&suggest, phrase, sizeof phrase);
    if (phrase[0])
        weir_report_key(report, node, "unknown key%s", phrase);
    else
        weir_report_key(report, node, "unknown key; %s has no such setting", class->name);
}

static bool is_schedule(const struct weir_row *row, const struct weir_node *node, struct weir_report *report)
{
    if (strcmp(row->name, "learning_rate") != 0 || !json_is_object(node->value))
        return false;
    weir_report_value(report, node, "a learning-rate schedule is not supported yet; give a number > 0");
    return true;
}

/* Fills the struct from the config's keys, and from the defaults where there are none. */
static void read_config(const struct weir_keras_family *family, const struct choice *choice, void *into,
                        struct weir_report *report)
{
    const struct weir_keras_class *class = choice->class;
    for (size_t i = 0; i < class->row_count; i++)
        weir_row_read_initial(&class->rows[i], into);
    if (!choice->config)
        return;
    for (const struct weir_node *child = choice->config->first; child; child = child->next) {
        const struct weir_row *row = find_row(class->rows, class->row_count, child->key);
        if (!row)
            row = find_row(family->neutral, family->neutral_count, child->key);
        if (!row && json_is_null(child->value))
            continue; /* newer versions of Keras write null for settings that were not made */
        if (!row)
            refuse_key(class, child, report);
        else if (!is_schedule(row, child, report))
            weir_row_read(row, child, into, report);
    }
}

static void check_clipping(const struct weir_node *config, struct weir_report *report)
{
    static const char *const ways[] = {"clipnorm", "global_clipnorm", "clipvalue"};
    const struct weir_node *first = NULL;
    for (const struct weir_node *child = config ? config->first : NULL; child; child = child->next)
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            if (strcmp(child->key, ways[i]) != 0 || json_is_null(child->value))
                continue;
            if (first)
                weir_report_key(report, child,
                                "only one of clipnorm, global_clipnorm and clipvalue can be set; \"%s\" is",
                                first->key);
            else
                first = child;
        }
}

void weir_keras_read_optimizer(const struct weir_node *node, struct weir_optimizer_config *optimizer,
                               struct weir_report *report)
{
    struct choice choice;
    if (!choose(&weir_keras_optimizers, node, &choice, report))
        return;
    optimizer->kind = (enum weir_optimizer_kind)choice.class->kind;
    read_config(&weir_keras_optimizers, &choice, optimizer, report);
    check_clipping(choice.config, report);
}

void weir_keras_read_loss(const struct weir_node *node, struct weir_loss_config *loss, struct weir_report *report)
{
    struct choice choice;
    if (!choose(&weir_keras_losses, node, &choice, report))
        return;
    loss->kind = (enum weir_loss_kind)choice.class->kind;
    read_config(&weir_keras_losses, &choice, loss, report);
}

/* compile() takes "accuracy" and "acc" in any case; other names only as they are. */
static bool is_accuracy(const char *name)
{
    return strcasecmp(name, "accuracy") == 0 || strcasecmp(name, "acc") == 0;
}

/* The name under which the metric is reported, made unique as Keras does: "mse", "mse_1". */
static bool name_metric(struct weir_metric_config *metrics, size_t number, const struct choice *choice,
                        const struct weir_node *node, struct weir_report *report)
{
    const struct weir_node *given = choice->config ? weir_node_child(choice->config, "name") : NULL;
    const char *name = choice->written ? choice->written : choice->class->also[0];
    if (given && !json_is_null(given->value)) {
        name = json_string_value(given->value);
        if (!name || !name[0] || strlen(name) >= sizeof metrics->name - 4) {
            weir_report_value(report, given, "must be a string of 1 to %zu bytes", sizeof metrics->name - 5);
            return false;
        }
    }
    assert(strlen(name) < sizeof metrics->name - 4);
    if (strcmp(name, "loss") == 0) {
        weir_report_value(report, given ? given : node, "\"loss\" is the name of the loss itself; choose another");
        return false;
    }
    char *to = metrics[number].name;
    snprintf(to, sizeof metrics->name, "%s", name);
    for (size_t i = 0, suffix = 1; i < number; i++)
        if (strcmp(metrics[i].name, to) == 0) {
            snprintf(to, sizeof metrics->name, "%.58s_%zu", name, suffix++);
            i = (size_t)-1; /* the new name must differ from all, too */
        }
    return true;
}

static bool read_metric(const struct weir_node *node, struct weir_metric_config *metrics, size_t number,
                        struct weir_report *report)
{
    struct weir_metric_config *metric = &metrics[number];
    struct choice choice = {0};
    if (json_is_string(node->value) && is_accuracy(json_string_value(node->value))) {
        choice.class = &weir_keras_metrics.classes[0];
        choice.written = json_string_value(node->value);
    } else if (!choose(&weir_keras_metrics, node, &choice, report)) {
        return false;
    }
    if (choice.class->kind == WEIR_METRIC_ACCURACY && !choice.written) {
        weir_report_value(report, node, "no class of Keras that weir knows; write \"accuracy\" alone, as a string");
        return false;
    }
    *metric = (struct weir_metric_config){.kind = (enum weir_metric_kind)choice.class->kind, .threshold = .5};
    metric->loss.kind = (enum weir_loss_kind)choice.class->loss_kind;
    read_config(&weir_keras_metrics, &choice, metric, report);
    return name_metric(metrics, number, &choice, node, report);
}

void weir_keras_read_metrics(const struct weir_node *node, struct weir_metric_config *metrics, size_t *count,
                             struct weir_report *report)
{
    char shown[SHOW_BYTES];
    *count = 0;
    if (json_is_null(node->value))
        return;
    if (!json_is_array(node->value)) {
        weir_report_value(report, node, "must be a list ([...]), not %s", weir_show(node->value, shown, sizeof shown));
        return;
    }
    for (const struct weir_node *child = node->first; child; child = child->next) {
        if (*count == WEIR_METRICS_MAX) {
            weir_report_value(report, child, "at most %d metrics are supported", WEIR_METRICS_MAX);
            return;
        }
        if (read_metric(child, metrics, *count, report))
            ++*count;
    }
}

static const struct weir_keras_class *class_of(const struct weir_keras_family *family, int kind, int loss_kind)
{
    size_t i = 0;
    while (i < family->class_count - 1 &&
           (family->classes[i].kind != kind || family->classes[i].loss_kind != loss_kind))
        i++;
    assert(family->classes[i].kind == kind);
    return &family->classes[i];
}

const struct weir_keras_class *weir_keras_optimizer_class(const struct weir_optimizer_config *optimizer)
{
    return class_of(&weir_keras_optimizers, (int)optimizer->kind, 0);
}

const struct weir_keras_class *weir_keras_loss_class(const struct weir_loss_config *loss)
{
    return class_of(&weir_keras_losses, (int)loss->kind, 0);
}

const struct weir_keras_class *weir_keras_metric_class(const struct weir_metric_config *metric)
{
    int loss_kind = metric->kind == WEIR_METRIC_LOSS_MEAN ? (int)metric->loss.kind : 0;
    return class_of(&weir_keras_metrics, (int)metric->kind, loss_kind);
}
