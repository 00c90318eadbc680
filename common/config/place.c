/* Where the values of a JSON text stand, by jsmn, which tells positions but takes much for JSON that is none: it only
 * gets what jansson has accepted, or the beginning of it. */
#include "config/tree.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS /* without them, closing brackets cost quadratic time */
#include <jsmn.h>

struct tokens {
    jsmntok_t *at;
    size_t count;
};

/* All tokens up to `length`; `partial`: the text may break off there. */
static bool tokenize(const char *text, size_t length, bool partial, struct tokens *tokens)
{
    *tokens = (struct tokens){0};
    if (length > INT_MAX / 2)
        return false;
    jsmn_parser parser;
    jsmn_init(&parser);
    int count = jsmn_parse(&parser, text, length, NULL, 0);
    if (count < 0)
        return false;
    tokens->at = weir_alloc((size_t)count + 1, sizeof *tokens->at, "JSON positions");
    jsmn_init(&parser);
    int rc = jsmn_parse(&parser, text, length, tokens->at, (unsigned)count + 1);
    if (rc == count || (partial && rc == JSMN_ERROR_PART)) {
        tokens->count = parser.toknext;
        return true;
    }
    free(tokens->at);
    tokens->at = NULL;
    return false;
}

static size_t start_of(const jsmntok_t *token)
{
    return (size_t)token->start - (token->type == JSMN_STRING ? 1 : 0); /* jsmn leaves the quote out */
}

/* Token *next is the node's value; both know their members in the order of the text. False if they don't match. */
static bool place(struct weir_node *node, const struct tokens *tokens, size_t *next)
{
    if (*next >= tokens->count)
        return false;
    node->value_at = start_of(&tokens->at[(*next)++]);
    if (!node->key)
        node->key_at = node->value_at;
    for (struct weir_node *child = node->first; child; child = child->next) {
        if (child->key) {
            if (*next >= tokens->count || tokens->at[*next].type != JSMN_STRING)
                return false;
            child->key_at = start_of(&tokens->at[(*next)++]);
        }
        if (!place(child, tokens, next))
            return false;
    }
    return true;
}

bool weir_tree_place(struct weir_node *root, const char *text, size_t length)
{
    struct tokens tokens;
    if (!tokenize(text, length, false, &tokens))
        return false;
    size_t next = 0;
    bool whole = place(root, &tokens, &next) && next == tokens.count;
    free(tokens.at);
    return whole;
}

static bool is_key(const struct tokens *tokens, int token)
{
    int parent = tokens->at[token].parent;
    return tokens->at[token].type == JSMN_STRING && parent >= 0 && tokens->at[parent].type == JSMN_OBJECT;
}

static bool same_bytes(const char *text, const jsmntok_t *a, const jsmntok_t *b)
{
    size_t length = (size_t)(a->end - a->start);
    return b->end - b->start == a->end - a->start && memcmp(text + a->start, text + b->start, length) == 0;
}

/* The dotted name of a key: the keys above it, and the numbers in lists. */
static void name_of(const struct tokens *tokens, const char *text, int token, char *name, size_t name_bytes)
{
    name[0] = '\0';
    int parent = tokens->at[token].parent;
    if (parent >= 0)
        name_of(tokens, text, parent, name, name_bytes);
    size_t length = strlen(name);
    const jsmntok_t *t = &tokens->at[token];
    if (is_key(tokens, token)) {
        snprintf(name + length, name_bytes - length, "%s%.*s", length ? "." : "", t->end - t->start, text + t->start);
    } else if (parent >= 0 && tokens->at[parent].type == JSMN_ARRAY) {
        size_t index = 0;
        for (int i = parent + 1; i < token; i++)
            index += tokens->at[i].parent == parent;
        snprintf(name + length, name_bytes - length, "[%zu]", index);
    }
}

bool weir_tree_twice(const char *text, size_t length, size_t end, size_t *second_at, size_t *first_at, char *name,
                     size_t name_bytes)
{
    struct tokens tokens;
    if (end > length || !tokenize(text, end, true, &tokens))
        return false;
    int second = (int)tokens.count - 1, first = -1;
    if (second >= 0 && is_key(&tokens, second))
        for (int i = tokens.at[second].parent + 1; i < second && first < 0; i++)
            if (is_key(&tokens, i) && tokens.at[i].parent == tokens.at[second].parent &&
                same_bytes(text, &tokens.at[i], &tokens.at[second]))
                first = i;
    if (first >= 0) {
        *second_at = start_of(&tokens.at[second]);
        *first_at = start_of(&tokens.at[first]);
        name_of(&tokens, text, second, name, name_bytes);
    }
    free(tokens.at);
    return first >= 0;
}
