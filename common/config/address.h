/* host:port, as TF_CONFIG writes addresses. */
#ifndef WEIR_CONFIG_ADDRESS_H
#define WEIR_CONFIG_ADDRESS_H

/* NULL if the address is one: a name or IPv4 address, or an IPv6 address in brackets, then ':' and a port from 1 to
 * 65535. Else what is wrong with it. */
const char *weir_address_fault(const char *address);

#endif
