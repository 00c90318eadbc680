/* A JSON text as a tree of nodes that know where they come from: the values are jansson's, the positions jsmn's.
 *
 * The semantic checks walk these nodes, not jansson's objects, so that every message can name a line and column, and
 * so that a flag's value can take a key's place in the tree and be checked like any other.
 */
#ifndef WEIR_CONFIG_TREE_H
#define WEIR_CONFIG_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/report.h"

#define WEIR_DEPTH_MAX 100
#define WEIR_VALUES_MAX (4 << 20) /* in one text: a value of two bytes takes a hundred in memory */
#define WEIR_NO_OFFSET ((size_t)-1)

struct weir_node {
    struct weir_node *parent, *first, *last, *next; /* the children of an object or list, in the order of the text */
    char *key;                                      /* NULL for the root and for the elements of a list */
    size_t index;                                   /* of an element of a list */
    json_t *value; /* one reference; of an object or list only the type counts: the children say what it holds */
    size_t key_at, value_at; /* bytes from the start of the text; a pair without key: key_at = value_at */
    const char *flag;        /* the flag that it came from, which then stands for the position; NULL: from the text */
};

/* Parses a text of `length` bytes. What is wrong goes to `report`, and NULL comes back: not JSON, deeper than
 * WEIR_DEPTH_MAX, more than WEIR_VALUES_MAX values, a key that stands twice, not an object. The node is freed with
 * weir_node_free. */
struct weir_node *weir_tree_parse(const char *text, size_t length, struct weir_report *report);

/* The same checks for a text that is only kept. */
bool weir_tree_check(const char *text, size_t length, struct weir_report *report);

/* Fills key_at and value_at of a tree whose values were parsed from that text. False if the text doesn't fit. */
bool weir_tree_place(struct weir_node *root, const char *text, size_t length);
/* Of the string that ends right before `end` and is a key: where it and the equal key before it start, and the dotted
 * name. False if there is none. */
bool weir_tree_twice(const char *text, size_t length, size_t end, size_t *second_at, size_t *first_at, char *name,
                     size_t name_bytes);
/* What makes `text` too costly to parse (too deep, too many values), and where; NULL if nothing does. */
const char *weir_tree_excess(const char *text, size_t length, size_t *at);

/* A node and its children for a value, of which it takes a reference. */
struct weir_node *weir_node_new(json_t *value, const char *flag);
void weir_node_free(struct weir_node *node);
/* The child of that key, or NULL; also NULL if `node` is NULL or no object. */
struct weir_node *weir_node_child(const struct weir_node *node, const char *key);
/* Appends `child` under `key`, or puts it in the place of the one that is there. */
void weir_node_put(struct weir_node *node, const char *key, struct weir_node *child);
/* "compile.metrics[0].config"; "" for the root. */
void weir_node_name(const struct weir_node *node, char *name, size_t name_bytes);

/* A value as messages show it: "adam", 12, true, null, an object, a list; long strings are cut. */
const char *weir_show(const json_t *value, char *text, size_t text_bytes);

#endif
