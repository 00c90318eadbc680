/* Decimal numbers in text that somebody else wrote. */
#ifndef WEIR_BASE_NUMBER_H
#define WEIR_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads `text`, which must be digits to its end (no sign, no blanks), as a number in [min, max]. False, with *number as
 * it was, for anything else. */
bool weir_number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number);

#endif
