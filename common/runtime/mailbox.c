#include "runtime/mailbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void weir_mailbox_init(struct weir_mailbox *mailbox)
{
    pthread_mutex_init(&mailbox->lock, NULL);
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    mailbox->closed = false;
}

void weir_mailbox_destroy(struct weir_mailbox *mailbox)
{
    weir_mailbox_close(mailbox);
    pthread_mutex_destroy(&mailbox->lock);
}

static void *copy(const void *from, size_t count, size_t size)
{
    return count ? memcpy(weir_alloc(count, size, "what is told to an actor"), from, count * size) : NULL;
}

/* All of a view but the texts, variables and slots: no actor asks for those. */
static void copy_view(struct weir_letter *letter, const struct weir_view *view)
{
    struct weir_view *own = &letter->body.view;
    *own = *view;
    own->reason = "";
    own->variables = NULL;
    own->slots = NULL;
    own->variable_count = own->slot_count = 0;
    own->hosts = letter->replicas = copy(view->hosts, view->replicas, sizeof(uint32_t));
    own->nodes = letter->nodes = copy(view->nodes, view->node_count, sizeof *letter->nodes);
    own->chunks = letter->chunks = copy(view->chunks, view->chunk_count, sizeof *letter->chunks);
    for (size_t n = 0; n < view->node_count; n++)
        letter->nodes[n].address = "";
}

static struct weir_letter *copy_letter(struct weir_actor *to, const struct weir_event *event)
{
    struct weir_letter *letter = weir_alloc(1, sizeof *letter, "an event told to an actor");
    letter->to = to;
    letter->event = *event;
    letter->text = event->text && event->text[0] ? weir_strdup(event->text) : NULL;
    letter->event.text = letter->text ? letter->text : "";
    if (event->number_count) {
        letter->numbers = copy(event->numbers, event->number_count, sizeof(double));
        letter->event.numbers = letter->numbers;
    }
    if (event->replica_count) {
        letter->replicas = copy(event->replicas, event->replica_count, sizeof(uint32_t));
        letter->event.replicas = letter->replicas;
    }
    if (!event->body)
        return letter;
    letter->body = *event->body;
    letter->event.body = &letter->body;
    if (letter->body.type == WEIR_RECORD) {
        letter->numbers = copy(letter->body.record.norms, letter->body.record.norm_count, sizeof(double));
        letter->body.record.norms = letter->numbers;
    } else if (letter->body.type == WEIR_PARTIAL) {
        letter->numbers = copy(letter->body.partial.squares, letter->body.partial.square_count, sizeof(double));
        letter->body.partial.squares = letter->numbers;
    } else if (letter->body.type == WEIR_VIEW) {
        copy_view(letter, &event->body->view);
    }
    return letter;
}

void weir_letter_free(struct weir_letter *letter)
{
    free(letter->numbers);
    free(letter->text);
    free(letter->replicas);
    free(letter->nodes);
    free(letter->chunks);
    free(letter);
}

bool weir_mailbox_put(struct weir_mailbox *mailbox, struct weir_actor *to, const struct weir_event *event)
{
    struct weir_letter *letter = copy_letter(to, event);
    pthread_mutex_lock(&mailbox->lock);
    bool closed = mailbox->closed, was_empty = !mailbox->first;
    if (!closed) {
        *mailbox->last = letter;
        mailbox->last = &letter->next;
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (closed)
        weir_letter_free(letter);
    return was_empty && !closed;
}

struct weir_letter *weir_mailbox_take(struct weir_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct weir_letter *letters = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    pthread_mutex_unlock(&mailbox->lock);
    return letters;
}

void weir_mailbox_close(struct weir_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->closed = true;
    pthread_mutex_unlock(&mailbox->lock);
    for (struct weir_letter *letter = weir_mailbox_take(mailbox), *next; letter; letter = next) {
        next = letter->next;
        weir_letter_free(letter);
    }
}
