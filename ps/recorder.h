/* The recorder: makes the record of the next (step, round) from its predecessor and all Seals (and Partials) of it.
 *
 * It runs on lane 0 of the first parameter server, and is told Seals and Partials by that lane, duplicates and old ones
 * included. It tells every new record to all lanes of its process; lane 0 sends it on. The arithmetic is a pure
 * function of what was sealed: totals are added along the sum tree in double, so that the record's bits do not depend
 * on who hosted what.
 */
#ifndef WEIR_PS_RECORDER_H
#define WEIR_PS_RECORDER_H

#include "base/arena.h"
#include "protocol/core.h"
#include "protocol/machine.h"
#include "protocol/schedule.h"

struct weir_recorder;

struct weir_recorder_config {
    uint64_t generation;
    uint32_t replicas, servers;
    const uint32_t *hosts; /* by replica: the worker that computes it, for the first view */
    const char *chief_name;
    const char *const *worker_names, *const *server_names; /* "ps/1 at 127.0.0.1:2222" */
    struct weir_schedule schedule;                         /* its arrays outlive the recorder */
    uint64_t first_step;                                   /* 0, or where a resumed job goes on */
};

/* Most actions of one step. */
#define WEIR_RECORDER_ACTIONS_MAX 4

struct weir_recorder *weir_recorder_init(struct weir_arena *arena, const struct weir_recorder_config *config);

/* Events: ON_START (tells the first record), ON_SEAL, ON_PARTIAL, ON_VIEW. Actions: TELL ON_RECORD to all lanes. */
void weir_recorder_step(struct weir_recorder *recorder, const struct weir_event *event, struct weir_actions *actions);

/* Whose Seal or Partial it waits for, and its step, as protocol/wait.h says; "" after the last record. */
uint64_t weir_recorder_waiting(const struct weir_recorder *recorder, char *text, size_t bytes);

const struct weir_record *weir_recorder_newest(const struct weir_recorder *recorder);

extern const struct weir_machine weir_recorder_machine;
const struct weir_machine_counts *weir_recorder_counts(const struct weir_recorder *recorder);

#endif
