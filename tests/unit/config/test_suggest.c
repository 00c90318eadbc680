#include "support.h"

#include "config/suggest.h"

static const char *nearest(const char *wrong, const char *const *names)
{
    static struct weir_suggest suggest;
    weir_suggest_start(&suggest, wrong);
    for (; *names; names++)
        weir_suggest_offer(&suggest, *names, *names);
    return suggest.best;
}

static const char *const keys[] = {"epochs", "batch_size", "learning_rate", "momentum", "ps", "shuffle", "seed", NULL};

static void slips_of_the_finger_are_found(void **state)
{
    (void)state;
    assert_string_equal(nearest("epoch", keys), "epochs");
    assert_string_equal(nearest("epohcs", keys), "epochs");
    assert_string_equal(nearest("Epochs", keys), "epochs");
    assert_string_equal(nearest("batchsize", keys), "batch_size");
    assert_string_equal(nearest("sed", keys), "seed");
}

static void parts_and_initials_are_found(void **state)
{
    (void)state;
    assert_string_equal(nearest("batch", keys), "batch_size");
    assert_string_equal(nearest("momen", keys), "momentum");
    assert_string_equal(nearest("lr", keys), "learning_rate");
    assert_string_equal(nearest("ps_hosts", keys), "ps");
}

static void what_is_like_nothing_gets_no_suggestion(void **state)
{
    (void)state;
    assert_string_equal(nearest("verbose", keys), "");
    assert_string_equal(nearest("", keys), "");
    assert_string_equal(nearest("x", keys), "");
    assert_string_equal(nearest("xx", keys), "");
}

/* Beyond the table of distances nothing is compared, so no length can overrun it. */
static void long_names_are_harmless(void **state)
{
    (void)state;
    char name[1000];
    for (size_t length = 50; length < 80; length++) {
        memset(name, 'e', length);
        name[length] = '\0';
        const char *const names[] = {name, "epochs", NULL};
        assert_string_equal(nearest(name, names), length < WEIR_SUGGEST_BYTES ? name : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slips_of_the_finger_are_found),
        cmocka_unit_test(parts_and_initials_are_found),
        cmocka_unit_test(what_is_like_nothing_gets_no_suggestion),
        cmocka_unit_test(long_names_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
