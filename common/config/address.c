#include "config/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 253 /* RFC 1035, without the length bytes */
#define LABEL_MAX 63

static bool is_port(const char *text)
{
    unsigned long port = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] || text[0] == '0')
        return false;
    for (size_t i = 0; i < digits; i++)
        port = port * 10 + (unsigned long)(text[i] - '0');
    return port <= 65535;
}

/* Letters, digits, '-' and '_' in parts with dots between them; a dot at the end is allowed. */
static bool is_host(const char *text, size_t length)
{
    size_t label = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '.' ? label == 0 : !isalnum(c) && c != '-' && c != '_')
            return false;
        label = c == '.' ? 0 : label + 1;
        if (label > LABEL_MAX)
            return false;
    }
    return length > 0 && length <= HOST_MAX;
}

/* Only digits and dots must be four numbers up to 255: "10.0.0" is no name. */
static bool is_numeric_host(const char *text, size_t length)
{
    return strspn(text, "0123456789.") >= length;
}

static bool is_ip(int family, const char *text, size_t length)
{
    char copy[INET6_ADDRSTRLEN];
    unsigned char bytes[sizeof(struct in6_addr)];
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return inet_pton(family, copy, bytes) == 1;
}

static const char *bracket_fault(const char *address)
{
    const char *end = strchr(address, ']');
    if (!end || !is_ip(AF_INET6, address + 1, (size_t)(end - address) - 1))
        return "no IPv6 address stands in the brackets";
    if (end[1] != ':')
        return "a ':' and the port must follow the brackets";
    return is_port(end + 2) ? NULL : "the port must be a number from 1 to 65535";
}

const char *weir_address_fault(const char *address)
{
    if (strstr(address, "://"))
        return "it must be host:port, without a scheme";
    if (address[0] == '[')
        return bracket_fault(address);
    const char *colon = strrchr(address, ':');
    if (!colon)
        return "it must be host:port; the port is missing";
    size_t length = (size_t)(colon - address);
    if (length == 0)
        return "it must be host:port; the host is missing";
    if (memchr(address, ':', length))
        return "an IPv6 address must stand in brackets, as in [::1]:2222";
    if (is_numeric_host(address, length) ? !is_ip(AF_INET, address, length) : !is_host(address, length))
        return "the host is no name or address";
    return is_port(colon + 1) ? NULL : "the port must be a number from 1 to 65535";
}

bool weir_address_same_host(const char *a, const char *b)
{
    const char *colon_a = strrchr(a, ':'), *colon_b = strrchr(b, ':');
    return colon_a - a == colon_b - b && strncasecmp(a, b, (size_t)(colon_a - a)) == 0;
}
