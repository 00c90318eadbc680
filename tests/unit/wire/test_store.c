#include "wire/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct weir_wire_store store;

static void little_memory_comes_from_the_structure(void **state)
{
    (void)state;
    weir_wire_store_init(&store, 0);
    for (size_t taken = 0; taken < WEIR_WIRE_STORE_FIRST; taken += 8) {
        char *memory = weir_wire_store_take(&store, 5);
        assert_ptr_equal(memory, store.first + taken);
    }
    assert_null(store.blocks.blocks);
    assert_null(weir_wire_store_take(&store, 1));
    assert_non_null(weir_wire_store_take(&store, 0));
    weir_wire_store_free(&store);
}

/* Pieces of any size, until there is no more: they lie apart, aligned, and are the budget and the first buffer at most
 * (a budget that ends within a block still gets it whole). */
static void the_budget_bounds_what_is_taken(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 40000; piece = piece * 3 + 1) {
        const size_t budget = 100000;
        size_t taken = 0;
        weir_wire_store_init(&store, budget);
        for (void *memory; (memory = weir_wire_store_take(&store, piece)); taken += piece) {
            assert_int_equal((uintptr_t)memory % 8, 0);
            memset(memory, 0xa5, piece); /* asan sees a piece that is too short */
        }
        assert_true(taken <= budget + WEIR_WIRE_STORE_FIRST + 8192);
        assert_true(taken + piece > budget / 8);
        weir_wire_store_free(&store);
    }
}

static void what_can_not_be_is_not_there(void **state)
{
    (void)state;
    weir_wire_store_init(&store, 100000);
    assert_null(weir_wire_store_take(&store, SIZE_MAX));
    assert_null(weir_wire_store_take(&store, SIZE_MAX - 7));
    assert_null(weir_wire_store_take(&store, 100001));
    assert_non_null(weir_wire_store_take(&store, 90000));
    assert_null(weir_wire_store_take(&store, 90000));
    weir_wire_store_free(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_memory_comes_from_the_structure),
        cmocka_unit_test(the_budget_bounds_what_is_taken),
        cmocka_unit_test(what_can_not_be_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
