#include "storage/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* ---- writing */

void weir_json_add_string(struct weir_text *text, const char *value)
{
    weir_text_add_bytes(text, "\"", 1);
    for (const char *c = value; *c; c++) {
        char escaped[8];
        int count = 1;
        if (*c == '"' || *c == '\\')
            count = snprintf(escaped, sizeof escaped, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            count = snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*c);
        else
            escaped[0] = *c;
        weir_text_add_bytes(text, escaped, (size_t)count);
    }
    weir_text_add_bytes(text, "\"", 1);
}

/* ---- reading */

bool weir_json_fail(struct weir_json *json, const char *wrong)
{
    if (!json->wrong)
        json->wrong = wrong;
    return false;
}

static void skip_blanks(struct weir_json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
        json->at++;
}

bool weir_json_take(struct weir_json *json, char mark)
{
    skip_blanks(json);
    if (json->wrong || json->at == json->end || *json->at != mark)
        return false;
    json->at++;
    return true;
}

bool weir_json_ended(struct weir_json *json)
{
    skip_blanks(json);
    return !json->wrong && json->at == json->end;
}

bool weir_json_expect(struct weir_json *json, char mark)
{
    if (weir_json_take(json, mark))
        return true;
    return weir_json_fail(json, mark == '{'   ? "an object is expected"
                                : mark == '}' ? "a comma or } is expected"
                                : mark == '[' ? "a list is expected"
                                : mark == ']' ? "a comma or ] is expected"
                                              : "a colon is expected");
}

/* Four hexadecimal digits; -1 if they are not there. */
static int32_t take_hex(struct weir_json *json)
{
    int32_t value = 0;
    if (json->end - json->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = *json->at++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *out, uint32_t code)
{
    size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = count - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(first[count] | code);
    return count;
}

/* What stands behind a backslash, written as UTF-8; the bytes written, or 0 if it is no escape. */
static size_t take_escape(struct weir_json *json, char *out)
{
    static const char marks[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return 0;
    char c = *json->at++;
    const char *mark = c ? strchr(marks, c) : NULL;
    if (mark) {
        *out = meant[mark - marks];
        return 1;
    }
    int32_t code = c == 'u' ? take_hex(json) : -1;
    if (code >= 0xD800 && code < 0xDC00) { /* the first half of a pair */
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
            return 0;
        json->at += 2;
        int32_t low = take_hex(json);
        if (low < 0xDC00 || low > 0xDFFF)
            return 0;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return 0;
    }
    return code > 0 ? put_utf8(out, (uint32_t)code) : 0;
}

/* The length of the UTF-8 character at json->at; 0 if there is none (overlong forms and surrogates are none). */
static size_t utf8_length(const struct weir_json *json)
{
    const unsigned char *c = (const unsigned char *)json->at;
    size_t left = (size_t)(json->end - json->at);
    size_t length = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
    if (length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool beyond = (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F);
    return overlong || beyond ? 0 : length;
}

/* One character of a string, written to `out` (4 bytes at most); the bytes written, or 0. */
static size_t take_character(struct weir_json *json, char *out)
{
    if ((unsigned char)*json->at < 0x20)
        return 0;
    if (*json->at == '\\') {
        json->at++;
        return take_escape(json, out);
    }
    size_t length = utf8_length(json);
    for (size_t i = 0; i < length; i++)
        out[i] = *json->at++;
    return length;
}

char *weir_json_string(struct weir_json *json)
{
    if (!weir_json_take(json, '"')) {
        weir_json_fail(json, "a string is expected");
        return NULL;
    }
    const char *close = json->at;
    while (close < json->end && *close != '"')
        close += *close == '\\' && json->end - close > 1 ? 2 : 1;
    char *value = weir_alloc((size_t)(close - json->at) + 1, 1, "a JSON string"), *out = value;
    while (json->at < json->end && *json->at != '"') {
        size_t count = take_character(json, out);
        if (count == 0) {
            weir_json_fail(json, "a string is not closed, or holds what is no UTF-8 or no escape");
            break;
        }
        out += count;
    }
    if (json->wrong || json->at == json->end) {
        weir_json_fail(json, "a string is not closed");
        free(value);
        return NULL;
    }
    json->at++;
    return value;
}

bool weir_json_unsigned(struct weir_json *json, uint64_t *value)
{
    *value = 0;
    skip_blanks(json);
    const char *first = json->at;
    for (; !json->wrong && json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        uint64_t digit = (uint64_t)(*json->at - '0');
        if (*value > (UINT64_MAX - digit) / 10)
            return weir_json_fail(json, "a number is too large");
        *value = *value * 10 + digit;
    }
    if (json->at == first || (*first == '0' && json->at - first > 1))
        return weir_json_fail(json, "a whole number is expected");
    return !json->wrong;
}
