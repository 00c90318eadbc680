/* What one actor tells another arrives whole, and owes nothing to who told it. */
#include "runtime/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define REPLICAS 3

/* A view of which every number that an actor may ask for differs from the others; it is gone when this returns. */
static void post_a_view(struct weir_mailbox *mailbox)
{
    char address[] = "127.0.0.1:1", reason[] = "a reason", slot[] = "m";
    struct weir_view_node nodes[2] = {{WEIR_NODE_CHIEF, 0, 11, address}, {WEIR_NODE_WORKER, 1, 12, address}};
    struct weir_view_chunk chunks[1] = {{.primary = 13, .chain = {.term = 14, .count = 15}}};
    uint32_t hosts[REPLICAS] = {16, 17, 18};
    const char *slots[1] = {slot};
    struct weir_message_body body = {
        .type = WEIR_VIEW,
        .view = {.generation = 1,
                 .term = 2,
                 .number = 3,
                 .state = WEIR_VIEW_RUNNING,
                 .reason = reason,
                 .replicas = REPLICAS,
                 .lanes = 4,
                 .chunk_elements = 5,
                 .flat_elements = 6,
                 .nodes = nodes,
                 .node_count = 2,
                 .chunks = chunks,
                 .chunk_count = 1,
                 .record = {.primary = 19, .chain = {.term = 20, .count = 21}},
                 .hosts = hosts,
                 .slots = slots,
                 .slot_count = 1,
                 .train_samples = 7,
                 .validation_samples = 8,
                 .complete_step = 9,
                 .complete_round = 10},
    };
    struct weir_event event = {.kind = WEIR_ON_VIEW, .body = &body, .text = ""};
    assert_true(weir_mailbox_put(mailbox, NULL, &event));
    memset(address, '?', sizeof address - 1);
    memset(nodes, 0xff, sizeof nodes);
    memset(chunks, 0xff, sizeof chunks);
    memset(hosts, 0xff, sizeof hosts);
    memset(&body, 0xff, sizeof body);
}

static void a_view_arrives_with_all_that_it_says(void **state)
{
    (void)state;
    struct weir_mailbox mailbox;
    weir_mailbox_init(&mailbox);
    post_a_view(&mailbox);
    struct weir_letter *letter = weir_mailbox_take(&mailbox);
    assert_non_null(letter);
    const struct weir_view *view = &letter->event.body->view;
    assert_int_equal(letter->event.body->type, WEIR_VIEW);
    assert_true(view->generation == 1 && view->term == 2 && view->number == 3 && view->state == WEIR_VIEW_RUNNING);
    assert_true(view->replicas == REPLICAS && view->lanes == 4);
    assert_true(view->chunk_elements == 5 && view->flat_elements == 6);
    assert_true(view->train_samples == 7 && view->validation_samples == 8);
    assert_true(view->complete_step == 9 && view->complete_round == 10);
    assert_true(view->node_count == 2 && view->nodes[0].incarnation == 11 && view->nodes[1].incarnation == 12);
    assert_true(view->chunk_count == 1 && view->chunks[0].primary == 13 && view->chunks[0].chain.count == 15);
    assert_true(view->hosts[0] == 16 && view->hosts[2] == 18);
    assert_true(view->record.primary == 19 && view->record.chain.count == 21);
    weir_letter_free(letter);
    weir_mailbox_destroy(&mailbox);
}

/* Texts, variables and slots are the chief's, and no actor asks for them: they are not there, rather than dangle. */
static void of_a_view_nothing_points_at_its_sender(void **state)
{
    (void)state;
    struct weir_mailbox mailbox;
    weir_mailbox_init(&mailbox);
    post_a_view(&mailbox);
    struct weir_letter *letter = weir_mailbox_take(&mailbox);
    const struct weir_view *view = &letter->event.body->view;
    assert_string_equal(view->reason, "");
    assert_string_equal(view->nodes[1].address, "");
    assert_true(view->slot_count == 0 && !view->slots && view->variable_count == 0 && !view->variables);
    weir_letter_free(letter);
    weir_mailbox_destroy(&mailbox);
}

static void letters_come_in_their_order_and_only_the_first_wakes(void **state)
{
    (void)state;
    struct weir_mailbox mailbox;
    weir_mailbox_init(&mailbox);
    for (uint32_t i = 0; i < 3; i++) {
        char text[] = {(char)('a' + i), '\0'};
        struct weir_event event = {.kind = WEIR_ON_WAITING, .lane = i, .round = 7 + i, .step = 9 + i, .text = text};
        assert_true(weir_mailbox_put(&mailbox, NULL, &event) == (i == 0));
    }
    struct weir_letter *letter = weir_mailbox_take(&mailbox), *next;
    for (uint32_t i = 0; i < 3; i++, letter = next) {
        const char text[] = {(char)('a' + i), '\0'};
        assert_non_null(letter);
        assert_true(letter->event.lane == i && letter->event.round == 7 + i && letter->event.step == 9 + i);
        assert_string_equal(letter->event.text, text);
        next = letter->next;
        weir_letter_free(letter);
    }
    assert_null(letter);
    assert_null(weir_mailbox_take(&mailbox));
    weir_mailbox_destroy(&mailbox);
}

static void a_closed_mailbox_takes_nothing(void **state)
{
    (void)state;
    struct weir_mailbox mailbox;
    struct weir_event event = {.kind = WEIR_ON_FAILED, .text = "late"};
    weir_mailbox_init(&mailbox);
    assert_true(weir_mailbox_put(&mailbox, NULL, &event));
    weir_mailbox_close(&mailbox);
    assert_false(weir_mailbox_put(&mailbox, NULL, &event));
    assert_null(weir_mailbox_take(&mailbox));
    weir_mailbox_destroy(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_arrives_with_all_that_it_says),
        cmocka_unit_test(of_a_view_nothing_points_at_its_sender),
        cmocka_unit_test(letters_come_in_their_order_and_only_the_first_wakes),
        cmocka_unit_test(a_closed_mailbox_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
