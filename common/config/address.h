/* host:port, as TF_CONFIG writes addresses. */
#ifndef WEIR_CONFIG_ADDRESS_H
#define WEIR_CONFIG_ADDRESS_H

#include <stdbool.h>

/* NULL if the address is one: a name or IPv4 address, or an IPv6 address in brackets, then ':' and a port from 1 to
 * 65535. Else what is wrong with it. */
const char *weir_address_fault(const char *address);

/* Whether two addresses without a fault name the same host: by their text, not by what a name stands for. */
bool weir_address_same_host(const char *a, const char *b);

#endif
