/* Optimizer, loss and metrics as Keras names and serialises them (keras.io/api, Keras 3; the forms of Keras 2 too). */
#ifndef WEIR_CONFIG_KERAS_H
#define WEIR_CONFIG_KERAS_H

#include "config/row.h"

/* A class of Keras that weir knows. */
struct weir_keras_class {
    const char *name;            /* CamelCase */
    int kind;                    /* in the enum of its family */
    int loss_kind;               /* of a metric that is a loss's mean */
    const char *also[3];         /* other names; the first is the function's, which is also a metric's default name */
    const struct weir_row *rows; /* of its config; offsets into the family's struct */
    size_t row_count;
};

struct weir_keras_family {
    const char *what; /* "optimizer" */
    const struct weir_keras_class *classes;
    size_t class_count;
    bool any_case;                  /* names are found whatever their case */
    const char *const *unsupported; /* Keras's other classes, up to a NULL */
    const struct weir_row *neutral; /* keys that every class of the family has and that say nothing here */
    size_t neutral_count;
};

extern const struct weir_keras_family weir_keras_optimizers, weir_keras_losses, weir_keras_metrics;

void weir_keras_read_optimizer(const struct weir_node *node, struct weir_optimizer_config *optimizer,
                               struct weir_report *report);
void weir_keras_read_loss(const struct weir_node *node, struct weir_loss_config *loss, struct weir_report *report);
/* At most WEIR_METRICS_MAX. */
void weir_keras_read_metrics(const struct weir_node *node, struct weir_metric_config *metrics, size_t *count,
                             struct weir_report *report);

const struct weir_keras_class *weir_keras_optimizer_class(const struct weir_optimizer_config *optimizer);
const struct weir_keras_class *weir_keras_loss_class(const struct weir_loss_config *loss);
const struct weir_keras_class *weir_keras_metric_class(const struct weir_metric_config *metric);

#endif
