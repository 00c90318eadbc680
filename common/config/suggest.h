/* "Did you mean": the one of many names that is most like a wrong one. */
#ifndef WEIR_CONFIG_SUGGEST_H
#define WEIR_CONFIG_SUGGEST_H

#include <stddef.h>

#define WEIR_SUGGEST_BYTES 64 /* longer names are like nothing */

struct weir_suggest {
    const char *wrong;
    unsigned score;                /* of the best so far; lower is better */
    char best[WEIR_SUGGEST_BYTES]; /* "" if none is near */
};

void weir_suggest_start(struct weir_suggest *suggest, const char *wrong);
/* `name` is what is compared; `shown` is what the message would say. Of equals the first one stays. */
void weir_suggest_offer(struct weir_suggest *suggest, const char *name, const char *shown);
/* Writes "; did you mean "best"?", or "" if nothing is near. */
void weir_suggest_phrase(const struct weir_suggest *suggest, char *text, size_t text_bytes);

#endif
