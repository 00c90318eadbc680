/* SHA-256 (FIPS 180-4), by OpenSSL's libcrypto. */
#ifndef WEIR_BASE_DIGEST_H
#define WEIR_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define WEIR_DIGEST_BYTES 32
#define WEIR_DIGEST_HEX (2 * WEIR_DIGEST_BYTES + 1)

struct weir_digest; /* a hash in progress; one owner */

struct weir_digest *weir_digest_new(void);
void weir_digest_add(struct weir_digest *digest, const void *bytes, size_t count);
/* Writes the hash as lower-case hexadecimal with its zero byte, and frees `digest`. */
void weir_digest_end(struct weir_digest *digest, char hex[WEIR_DIGEST_HEX]);

#endif
