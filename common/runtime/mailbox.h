/* What actors tell each other: events with everything that they point at, in the order of sending. */
#ifndef WEIR_RUNTIME_MAILBOX_H
#define WEIR_RUNTIME_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "protocol/core.h"

struct weir_actor;

struct weir_letter {
    struct weir_letter *next;
    struct weir_actor *to;
    struct weir_event event; /* its pointers point into the letter or at `numbers` */
    struct weir_message_body body;
    double *numbers; /* owned, and what follows */
    char *text;
    uint32_t *replicas;           /* the event's replicas, or the view's hosts */
    struct weir_view_node *nodes; /* a view's, and its chunks */
    struct weir_view_chunk *chunks;
};

struct weir_mailbox {
    pthread_mutex_t lock;
    struct weir_letter *first, **last;
    bool closed; /* letters that come now are thrown away */
};

void weir_mailbox_init(struct weir_mailbox *mailbox);
void weir_mailbox_destroy(struct weir_mailbox *mailbox);
/* Copies the event. True if the mailbox was empty: its owner may have to be woken. Any thread. */
bool weir_mailbox_put(struct weir_mailbox *mailbox, struct weir_actor *to, const struct weir_event *event);
/* All letters that are there, oldest first; free each with weir_letter_free. */
struct weir_letter *weir_mailbox_take(struct weir_mailbox *mailbox);
/* Throws away what is there and what will come. */
void weir_mailbox_close(struct weir_mailbox *mailbox);
void weir_letter_free(struct weir_letter *letter);

#endif
