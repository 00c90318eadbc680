/* libFuzzer: whatever the text, the parser of snapshots' manifests answers; and what it takes, it makes and takes
 * again, alike. The digest is put right, so that what stands before it is looked at. Run by hand:
 * build-clang/tests/fuzz_manifest -max_len=4096 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "storage/snapshot_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_digest(struct weir_text *text, const uint8_t *data, size_t size)
{
    char hex[WEIR_DIGEST_HEX];
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, data, size);
    weir_digest_end(digest, hex);
    weir_text_add_bytes(text, (const char *)data, size);
    weir_text_add(text, "\"sha256\": \"%s\"\n}\n", hex);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_text text = {0}, made, second;
    struct weir_manifest manifest, again;
    struct weir_error err;
    add_digest(&text, data, size);
    if (weir_manifest_parse(&manifest, text.bytes, text.length, &err)) {
        bool good = weir_manifest_make(&manifest.info, manifest.parts, manifest.part_count, &made, &err) &&
                    weir_manifest_parse(&again, made.bytes, made.length, &err) &&
                    weir_manifest_make(&again.info, again.parts, again.part_count, &second, &err);
        assert(good && made.length == second.length && memcmp(made.bytes, second.bytes, made.length) == 0);
        weir_manifest_free(&again);
        free(made.bytes);
        free(second.bytes);
    }
    weir_manifest_free(&manifest);
    free(text.bytes);
    return 0;
}
