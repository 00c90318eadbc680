/* JSON strings and numbers, as far as a safetensors header needs them (RFC 8259). Private to the library. */
#ifndef WEIR_STORAGE_JSON_TEXT_H
#define WEIR_STORAGE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

void weir_json_add_string(struct weir_text *text, const char *value); /* quoted and escaped */

/* A place in a JSON text. After a failure `wrong` says what was expected, and all further calls fail. */
struct weir_json {
    const char *begin, *at, *end;
    const char *wrong;
};

/* Takes blanks and then the punctuation mark `mark`; false (no failure) if another character stands there. */
bool weir_json_take(struct weir_json *json, char mark);
/* Takes blanks; true if the text ends there. */
bool weir_json_ended(struct weir_json *json);
/* Like take, but another character is a failure. */
bool weir_json_expect(struct weir_json *json, char mark);
/* A whole string, unescaped, 0-terminated; the caller frees it. NULL on failure: it must be UTF-8, without the
 * character 0. */
char *weir_json_string(struct weir_json *json);
/* A number without sign, fraction and exponent. */
bool weir_json_unsigned(struct weir_json *json, uint64_t *value);
bool weir_json_fail(struct weir_json *json, const char *wrong); /* the first one counts; returns false */

#endif
