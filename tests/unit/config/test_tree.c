#include "support.h"

#include "base/random.h"
#include "config/tree.h"

static struct weir_node *parse(const char *text, struct weir_problems *problems)
{
    struct weir_report report;
    weir_report_open(&report, "t", text, strlen(text));
    struct weir_node *root = weir_tree_parse(text, strlen(text), &report);
    assert_int_equal(weir_report_close(&report, problems), root != NULL);
    return root;
}

static void assert_text_refused(const char *text, const char *expected)
{
    struct weir_problems problems = {0};
    assert_null(parse(text, &problems));
    assert_lines(&problems, expected);
    weir_problems_free(&problems);
}

/* The text at a position, parsed by itself, is the value: jansson judges what jsmn said. */
static void check_places(const struct weir_node *node, const char *text)
{
    size_t length = strlen(text);
    assert_in_range(node->value_at, 0, length - 1);
    json_t *value =
        json_loadb(text + node->value_at, length - node->value_at, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(value);
    assert_true(json_equal(value, node->value));
    json_decref(value);
    if (node->key) {
        json_t *key =
            json_loadb(text + node->key_at, length - node->key_at, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
        assert_string_equal(json_string_value(key), node->key);
        json_decref(key);
    }
    for (const struct weir_node *child = node->first; child; child = child->next)
        check_places(child, text);
}

struct dice {
    struct weir_random_key key;
    uint64_t count;
};

static uint32_t roll(struct dice *dice, uint32_t sides)
{
    uint32_t out[4];
    weir_random_block(dice->key, dice->count++, 0, out);
    return out[0] % sides;
}

static void print_space(struct dice *dice, FILE *out)
{
    static const char *const spaces[] = {"", "", " ", "\n", "\t \r\n"};
    fputs(spaces[roll(dice, 5)], out);
}

static void print_random(struct dice *dice, unsigned depth, FILE *out)
{
    static const char *const scalars[] = {"0",    "-1.5e3",      "true",           "false",  "null",
                                          "\"\"", "\"a\\\"]}\"", "\"\\u00e9:,{\"", "\"é☃\"", "123456"};
    print_space(dice, out);
    uint32_t kind = depth == 0 ? 0 : depth > 5 ? 2 : roll(dice, 4);
    if (kind >= 2) {
        fputs(scalars[roll(dice, 10)], out);
    } else {
        fputc("{["[kind], out);
        for (uint32_t i = 0, count = roll(dice, 5); i < count; i++) {
            fputs(i ? "," : "", out);
            print_space(dice, out);
            if (kind == 0)
                fprintf(out, "\"k%u\\\\é\"", i);
            if (kind == 0) {
                print_space(dice, out);
                fputc(':', out);
            }
            print_random(dice, depth + 1, out);
        }
        print_space(dice, out);
        fputc("}]"[kind], out);
    }
    print_space(dice, out);
}

static void every_position_is_that_of_its_value(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct dice dice = {.key = weir_random_key(seed, WEIR_RANDOM_TEST, 0, 0)};
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        print_random(&dice, 0, out);
        fclose(out);
        struct weir_problems problems = {0};
        struct weir_node *root = parse(text, &problems);
        assert_non_null(root);
        check_places(root, text);
        weir_node_free(root);
        free(text);
    }
}

static void what_is_no_json_is_shown_with_its_place(void **state)
{
    (void)state;
    assert_text_refused("{\n  \"a\": 1,\n  \"b\": tru\n}", "t:3:10: not JSON: invalid token near 'tru'\n");
    assert_text_refused("{'a':1}", "t:1:2: not JSON: string or '}' expected near '''\n");
    assert_text_refused("{\"a\":1} x", "t:1:9: not JSON: end of file expected near 'x'\n");
    assert_text_refused("{\"a\":1e999}", "t:1:10: not JSON: real number overflow near '1e999'\n");
    assert_text_refused("{\"a\":NaN}", "t:1:8: not JSON: invalid token near 'NaN'\n");
    assert_text_refused("{\"a\":\n[1,\n2", "t:3:2: the JSON ends too early: the file seems to be cut short\n");
    assert_text_refused(" \n [1]", "t:2:2: must be an object ({...}), not a list\n");
    assert_text_refused("\"x\"", "t:1:1: must be an object ({...}), not \"x\"\n");
}

static void a_key_that_stands_twice_is_refused(void **state)
{
    (void)state;
    assert_text_refused("{\"fit\": {\"epochs\": 1,\n \"x\": {\"epochs\": 1},\n \"epochs\": 2}}",
                        "t:3:2: fit.epochs: stands twice, first in line 1; remove one\n");
    assert_text_refused("{\"a\":[{\"x\":1},{\"b\":2,\n\"c\":{},\"b\":3}]}",
                        "t:2:8: a[1].b: stands twice, first in line 1; remove one\n");
}

/* {"a":[[...]]} of so many levels in all. */
static void nest(char *text, size_t depth)
{
    size_t lists = depth - 1;
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', lists);
    memset(text + 5 + lists, ']', lists);
    memcpy(text + 5 + 2 * lists, "}", 2);
}

static void depth_is_limited(void **state)
{
    (void)state;
    char text[512];
    struct weir_problems problems = {0};
    nest(text, WEIR_DEPTH_MAX);
    weir_node_free(parse(text, &problems));
    assert_int_equal(problems.count, 0);
    nest(text, WEIR_DEPTH_MAX + 1);
    assert_text_refused(text, "t:1:105: objects and lists are nested deeper than 100\n");
    char *deep = malloc(1000001);
    memset(deep, '[', 1000000);
    deep[1000000] = '\0';
    assert_text_refused(deep, "t:1:101: objects and lists are nested deeper than 100\n");
    free(deep);
}

/* Brackets within strings are no depth. */
static void strings_have_no_depth(void **state)
{
    (void)state;
    char text[512] = "{\"a\":\"\\\"", *at = text + strlen(text);
    memset(at, '[', 200);
    memcpy(at + 200, "\"}", 3);
    struct weir_problems problems = {0};
    struct weir_node *root = parse(text, &problems);
    assert_non_null(root);
    weir_node_free(root);
}

static void names_and_values_cannot_act_on_the_terminal(void **state)
{
    (void)state;
    struct weir_problems problems = {0};
    const char *text = "{\"\\u001b[31m\": \"\\u009b\\u0007\"}";
    struct weir_report report;
    weir_report_open(&report, "t", text, strlen(text));
    struct weir_node *root = weir_tree_parse(text, strlen(text), &report);
    char shown[80];
    weir_report_value(&report, root->first, "not %s", weir_show(root->first->value, shown, sizeof shown));
    weir_report_close(&report, &problems);
    assert_lines(&problems, "t:1:16: ?[31m: not \"???\"\n");
    weir_problems_free(&problems);
    weir_node_free(root);
}

/* A hostile text can't fill the screen or the memory with messages. */
static void messages_are_limited(void **state)
{
    (void)state;
    struct weir_problems problems = {0};
    struct weir_report report;
    weir_report_open(&report, "t", "", 0);
    for (int i = 0; i < WEIR_REPORT_MAX + 7; i++)
        weir_report_offset(&report, 0, "problem %d", i);
    assert_false(weir_report_close(&report, &problems));
    assert_int_equal(problems.count, WEIR_REPORT_MAX + 1);
    assert_string_equal(problems.lines[WEIR_REPORT_MAX], "t: 7 problems more; these are the first ones found");
    weir_problems_free(&problems);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_is_that_of_its_value),
        cmocka_unit_test(what_is_no_json_is_shown_with_its_place),
        cmocka_unit_test(a_key_that_stands_twice_is_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(strings_have_no_depth),
        cmocka_unit_test(names_and_values_cannot_act_on_the_terminal),
        cmocka_unit_test(messages_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
