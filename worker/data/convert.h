/* Turns stored elements into scaled fp32: out[i] = (float)in[i] * scale, one fp32 product per element, so that every
 * instruction set gives the same bits.
 */
#ifndef WEIR_DATA_CONVERT_H
#define WEIR_DATA_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/idx.h"

typedef void (*weir_convert_u8)(const uint8_t *in, size_t count, float scale, float *out);

/* One implementation per instruction set. */
struct weir_convert_row {
    const char *name;
    bool (*supported)(void);
    weir_convert_u8 convert;
};

/* Best first; the last one runs everywhere. */
size_t weir_convert_rows(const struct weir_convert_row **rows);
/* The best for this machine. */
weir_convert_u8 weir_convert_u8_best(void);

/* `count` elements of any type, from element `first` on. Bytes go through `u8`. */
void weir_convert(const struct weir_idx *idx, weir_convert_u8 u8, uint64_t first, size_t count, float scale,
                  float *out);

#endif
