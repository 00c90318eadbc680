#include "base/number.h"

bool weir_number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
    uint64_t value = 0;
    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        unsigned digit = (unsigned)(*text - '0');
        if (digit > max || value > (max - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    if (value < min)
        return false;
    *number = value;
    return true;
}
