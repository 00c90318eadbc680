#include <string.h>

#include "cli/options.h"

#define WORD_MAX 64

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* How many letters must be put in, left out, replaced or swapped with their neighbour to get from one word to the
 * other (the optimal string alignment distance); words are shorter than WORD_MAX. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX], a_length = strlen(a), b_length = strlen(b);
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        size_t *oldest = before;
        before = last, last = row, row = oldest;
    }
    return last[b_length];
}

const char *weir_suggest(const char *word, const char *const *candidates, size_t count)
{
    if (strlen(word) >= WORD_MAX)
        return NULL;
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 1; /* farther away is another word */
    for (size_t i = 0; i < count; i++) {
        if (strlen(candidates[i]) >= WORD_MAX)
            continue;
        size_t d = distance(word, candidates[i]);
        if (d < best_distance || (!best && d == best_distance)) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
