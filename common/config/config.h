/* The configuration of a process: the job file, TF_CONFIG and the command line's flags, checked once and then const.
 *
 * docs/job.md lists the keys; `weir help job` prints them from the table in job_table.c that also parses them.
 */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"

/* ---- what is wrong, all of it at once */

struct weir_problems {
    size_t count;
    char **lines; /* "job.json:7:14: compile.optimizer.config.lr: unknown key; did you mean "learning_rate"?" */
};

void weir_problems_add(struct weir_problems *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weir_problems_free(struct weir_problems *problems);

/* ---- optimizer, loss, metrics (names and defaults are Keras's) */

enum weir_optimizer_kind {
    WEIR_OPTIMIZER_SGD, /* with momentum and nesterov */
    WEIR_OPTIMIZER_ADAM,
    WEIR_OPTIMIZER_ADAMW,
    WEIR_OPTIMIZER_ADAGRAD,
    WEIR_OPTIMIZER_RMSPROP,
    WEIR_OPTIMIZER_FTRL,
};

/* Keys that an optimizer does not have are 0. */
struct weir_optimizer_config {
    enum weir_optimizer_kind kind;
    double learning_rate;
    double momentum; /* SGD, RMSprop */
    bool nesterov;
    double beta_1, beta_2; /* Adam, AdamW */
    bool amsgrad;
    double epsilon;
    double weight_decay;               /* decoupled; 0 for none */
    double rho;                        /* RMSprop */
    bool centered;                     /* RMSprop */
    double initial_accumulator_value;  /* Adagrad, FTRL */
    double learning_rate_power;        /* FTRL */
    double l1_regularization_strength; /* FTRL */
    double l2_regularization_strength;
    double l2_shrinkage_regularization_strength;
    double beta;
    double clipnorm, global_clipnorm, clipvalue; /* at most one > 0; 0 for none */
};

enum weir_loss_kind {
    WEIR_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    WEIR_LOSS_CATEGORICAL_CROSSENTROPY,
    WEIR_LOSS_BINARY_CROSSENTROPY,
    WEIR_LOSS_MEAN_SQUARED_ERROR,
};

struct weir_loss_config {
    enum weir_loss_kind kind;
    bool from_logits;
    double label_smoothing;
};

enum weir_metric_kind {
    WEIR_METRIC_BINARY_ACCURACY, /* "accuracy" is resolved by the loss and the output's width, as Keras does */
    WEIR_METRIC_CATEGORICAL_ACCURACY,
    WEIR_METRIC_SPARSE_CATEGORICAL_ACCURACY,
    WEIR_METRIC_ACCURACY, /* not yet resolved: the model resolves it */
    WEIR_METRIC_MEAN_SQUARED_ERROR,
    WEIR_METRIC_MEAN_ABSOLUTE_ERROR,
    WEIR_METRIC_LOSS_MEAN, /* a loss's name used as a metric: its mean */
};

struct weir_metric_config {
    enum weir_metric_kind kind;
    struct weir_loss_config loss; /* WEIR_METRIC_LOSS_MEAN */
    double threshold;             /* binary accuracy, .5 */
    char name[64];                /* as Keras reports it: "accuracy" */
};

#define WEIR_METRICS_MAX 8

/* ---- the job */

struct weir_data_config {
    bool present;
    char format[16]; /* "idx" */
    char *x, *y;     /* paths, made absolute or relative to the current folder */
    double scale;    /* 0: by the type of the data (1/255 for bytes, else 1) */
};

struct weir_job {
    char *path; /* of the job file; messages name it */
    char *name;
    char *model_path;   /* NULL if the model stands in the job file itself */
    char *model_json;   /* the architecture file's text, or the object printed again; model_bytes long, 0-terminated */
    size_t model_bytes; /* <= 64 MiB */
    struct weir_data_config train, validation;
    uint32_t prefetch;
    struct weir_optimizer_config optimizer;
    struct weir_loss_config loss;
    struct weir_metric_config metrics[WEIR_METRICS_MAX];
    size_t metric_count;
    uint32_t batch_size, epochs;
    uint32_t steps_per_epoch; /* 0: the whole set */
    bool shuffle, drop_remainder;
    uint64_t seed;
    uint32_t replicas; /* 0: the number of workers, decided by the chief */
    uint32_t threads_per_replica;
    char strategy[32];
    uint32_t chunk_bytes; /* a multiple of 4096, 4 KiB to 4 MiB */
    uint32_t lanes;       /* 0: by the number of cores */
    char device[16];
    uint32_t start_timeout_s, heartbeat_ms, lease_ms, min_workers, max_restarts, restart_window_s;
    int log_level; /* enum weir_log_level */
    bool log_json;
    char hash[WEIR_DIGEST_HEX]; /* SHA-256 of `canonical` and the model's bytes */
    char *canonical; /* the job as one line of JSON per key ({"fit.epochs":1}), sorted, defaults filled in, without
                        name, paths, cluster, log; with "model": the SHA-256 of the model's bytes. Two jobs' lines can
                        be compared key by key. */
};

/* One --set KEY=VALUE or named flag; KEY is a dotted path, VALUE JSON or a bare word (then a string). */
struct weir_override {
    const char *key;
    const char *value;
    const char *flag; /* as the user wrote it, for messages: "--epochs" or "--set" */
};

/* Reads, checks and freezes a job. All problems are added, then false is returned. `data_dir` (or NULL): look for the
 * job's data files by name there. Free with weir_job_free, also after false. */
bool weir_job_load(struct weir_job *job, const char *path, const struct weir_override *overrides, size_t override_count,
                   const char *data_dir, struct weir_problems *problems);
void weir_job_free(struct weir_job *job);

/* Writes the keys in which two canonical texts differ, with both values, as one line of text ("fit.batch_size: 64
 * here, 32 there; seed: ..."), cut to fit. "" if they are equal. */
void weir_job_differences(const char *here, const char *there, char *text, size_t text_bytes);

/* The key that a named flag sets ("--epochs": "fit.epochs"), or NULL: these flags are short for --set. */
const char *weir_job_flag_key(const char *flag);

/* Prints the table of keys (key, default, meaning): `weir help job`. The caller frees the text. */
char *weir_job_help(void);

/* ---- TF_CONFIG */

enum weir_role { WEIR_CHIEF, WEIR_PS, WEIR_WORKER, WEIR_EVALUATOR, WEIR_ROLES };

extern const char *const weir_role_names[WEIR_ROLES]; /* "chief", "ps", "worker", "evaluator" */

struct weir_task {
    enum weir_role role;
    uint32_t index; /* the key in TF_CONFIG: ids are the keys, not positions */
    char *address;  /* host:port */
};

struct weir_cluster {
    bool present;            /* false: TF_CONFIG unset: one process plays all roles */
    struct weir_task *tasks; /* sorted by role, then index; without evaluators that are not in the map */
    size_t task_count;
    enum weir_role self_role;
    uint32_t self_index;
    bool chief_in_worker_0; /* no chief in the cluster: the worker with the lowest index runs it too */
};

/* `text` is TF_CONFIG's value, or NULL when unset. Problems as in weir_job_load; they start with "TF_CONFIG:". */
bool weir_cluster_parse(struct weir_cluster *cluster, const char *text, struct weir_problems *problems);
void weir_cluster_free(struct weir_cluster *cluster);
size_t weir_cluster_count(const struct weir_cluster *cluster, enum weir_role role);
/* The task, or NULL. */
const struct weir_task *weir_cluster_find(const struct weir_cluster *cluster, enum weir_role role, uint32_t index);

#endif
