#include "config/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RESEMBLES 3 /* the score of a name that shares words, next to one that differs in so many letters */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Insertions, deletions, replacements and swaps of neighbours that lead from a to b (optimal string alignment); upper
 * and lower case are the same. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][WEIR_SUGGEST_BYTES];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        above[j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(above[j], row[j - 1]) + 1;
            row[j] = least(row[j], above[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        unsigned *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_length];
}

/* "batch" and "batch_size", "ps_hosts" and "ps": one starts with the other, up to the end of a word. */
static bool starts_with_word(const char *text, const char *start)
{
    size_t length = strlen(start);
    return strncasecmp(text, start, length) == 0 && text[length] == '_';
}

/* "conf" and "config". */
static bool is_cut(const char *text, const char *whole)
{
    size_t length = strlen(text);
    return length > 2 && strncasecmp(whole, text, length) == 0;
}

/* "lr" and "learning_rate". */
static bool initials_of(const char *initials, const char *name)
{
    size_t words = 0;
    for (size_t i = 0; name[i]; i++)
        if (i == 0 || name[i - 1] == '_')
            if (initials[words] == '\0' || !same_letter(initials[words++], name[i]))
                return false;
    return words > 1 && initials[words] == '\0';
}

void weir_suggest_start(struct weir_suggest *suggest, const char *wrong)
{
    *suggest = (struct weir_suggest){.wrong = wrong, .score = UINT_MAX};
}

void weir_suggest_offer(struct weir_suggest *suggest, const char *name, const char *shown)
{
    size_t wrong_length = strlen(suggest->wrong), length = strlen(name);
    if (wrong_length == 0 || wrong_length >= WEIR_SUGGEST_BYTES || length >= WEIR_SUGGEST_BYTES)
        return;
    unsigned score = edit_distance(suggest->wrong, wrong_length, name, length);
    unsigned limit = (unsigned)(wrong_length < 3 ? 1 : wrong_length / 3);
    if (score > limit || score >= length)
        score = UINT_MAX;
    if (starts_with_word(suggest->wrong, name) || starts_with_word(name, suggest->wrong) ||
        is_cut(suggest->wrong, name) || initials_of(suggest->wrong, name))
        score = least(score, RESEMBLES);
    if (score < suggest->score) {
        suggest->score = score;
        snprintf(suggest->best, sizeof suggest->best, "%s", shown);
    }
}

void weir_suggest_phrase(const struct weir_suggest *suggest, char *text, size_t text_bytes)
{
    if (suggest->best[0])
        snprintf(text, text_bytes, "; did you mean \"%s\"?", suggest->best);
    else
        text[0] = '\0';
}
