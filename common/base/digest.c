#include "base/digest.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

/* struct weir_digest is OpenSSL's EVP_MD_CTX under our name. */
static EVP_MD_CTX *context(struct weir_digest *digest)
{
    return (EVP_MD_CTX *)(void *)digest;
}

struct weir_digest *weir_digest_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL))
        abort(); /* out of memory */
    return (struct weir_digest *)(void *)ctx;
}

void weir_digest_add(struct weir_digest *digest, const void *bytes, size_t count)
{
    EVP_DigestUpdate(context(digest), bytes, count);
}

void weir_digest_end(struct weir_digest *digest, char hex[WEIR_DIGEST_HEX])
{
    unsigned char raw[WEIR_DIGEST_BYTES];
    EVP_DigestFinal_ex(context(digest), raw, NULL);
    for (int i = 0; i < WEIR_DIGEST_BYTES; i++)
        snprintf(hex + (ptrdiff_t)2 * i, 3, "%02x", raw[i]);
    EVP_MD_CTX_free(context(digest));
}
