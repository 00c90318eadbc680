/* The recorder: makes the record of the next (step, round) from its predecessor and all Seals (and Partials) of it.
 *
 * It runs beside lane 0 of a parameter server, and is told Seals and Partials by that lane, duplicates and old ones
 * included. It tells every new record to lane 0, which sends it on. The arithmetic is a pure function of what was
 * sealed: totals are added along the sum tree in double, so that the record's bits do not depend on who hosted what.
 *
 * In a replicated job every server has one, and that of the server that the view names makes the records. The others
 * keep what they are told: one that takes over goes on from the newest record that its lane 0 was sent, with the Seals
 * and Partials of the step, which are sent again to it.
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
    uint32_t replicas;
    const uint32_t *hosts; /* by replica: the worker that computes it, for the first view */
    const char *chief_name;
    const char *const *worker_names, *const *server_names; /* "ps/1 at 127.0.0.1:2222" */
    struct weir_schedule schedule;                         /* its arrays outlive the recorder */
    uint64_t first_step;                                   /* 0, or where a resumed job goes on */
    uint32_t self, primary;                /* servers: its own, and the one that makes the records in the first view */
    const struct weir_view_chunk *holders; /* by chunk: of the first view */
};

/* Most actions of one step. */
#define WEIR_RECORDER_ACTIONS_MAX 4

struct weir_recorder *weir_recorder_init(struct weir_arena *arena, const struct weir_recorder_config *config);

/* Events: ON_START (tells the first record), ON_SEAL, ON_PARTIAL, ON_RECORD (another server's), ON_VIEW. Actions: TELL
 * ON_RECORD to lane 0. */
void weir_recorder_step(struct weir_recorder *recorder, const struct weir_event *event, struct weir_actions *actions);

/* Whose Seal or Partial it waits for, and its step, as protocol/wait.h says; "" after the last record. */
uint64_t weir_recorder_waiting(const struct weir_recorder *recorder, char *text, size_t bytes);

const struct weir_record *weir_recorder_newest(const struct weir_recorder *recorder);

extern const struct weir_machine weir_recorder_machine;
const struct weir_machine_counts *weir_recorder_counts(const struct weir_recorder *recorder);

#endif
