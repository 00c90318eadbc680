/* Whatever a folder holds: no crash, no wrong element, no memory that the files do not back. Manifests are given a
 * right digest again after they were changed, as somebody would who means harm. */
#include "snapshot_rig.h"

#include <sys/mman.h>

#include "base/random.h"
#include "storage/snapshot_manifest.h"

#define ROUNDS 20000
#define TEXT_BYTES 8192
#define TAIL 79 /* "sha256": "...", and what follows to the end */

static const char *const pieces[] = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     "\"",
                                     ":",
                                     ",",
                                     "0",
                                     "1",
                                     "-1",
                                     "1e9",
                                     "16",
                                     "4096",
                                     "null",
                                     "\\",
                                     "/",
                                     "\\u0000",
                                     "\n",
                                     "../",
                                     "\xff",
                                     "[]",
                                     "{}",
                                     "18446744073709551615",
                                     "99999999999999999999",
                                     "4294967295",
                                     "144115188075855871"};

static struct weir_random_key dice_key;
static uint64_t dice_count;

static uint32_t roll(size_t sides)
{
    uint32_t out[4];
    weir_random_block(dice_key, dice_count++, 0, out);
    return out[0] % (uint32_t)sides;
}

static void replace_run(char *text, size_t *length, size_t at, size_t removed, const char *with, size_t count)
{
    if (*length - removed + count >= TEXT_BYTES)
        return;
    memmove(text + at + count, text + at + removed, *length - at - removed);
    memcpy(text + at, with, count);
    *length += count - removed;
}

/* Bytes changed, runs cut out or doubled, pieces thrown in, numbers replaced. */
static size_t mutate(char *text, size_t length)
{
    for (uint32_t i = 0, count = 1 + roll(3); i < count && length > 1; i++) {
        size_t at = roll(length), run = 1 + roll(length - at < 20 ? length - at : 20);
        const char *piece = pieces[roll(sizeof pieces / sizeof *pieces)];
        char copy[32];
        memcpy(copy, text + at, run);
        switch (roll(5)) {
        case 0:
            text[at] = (char)(text[at] ^ 1 << roll(8));
            break;
        case 1:
            replace_run(text, &length, at, run, "", 0);
            break;
        case 2:
            replace_run(text, &length, at, 0, copy, run);
            break;
        case 3:
            replace_run(text, &length, at, roll(2) * run, piece, strlen(piece));
            break;
        default: /* the next number */
            while (at < length && (text[at] < '0' || text[at] > '9'))
                at++;
            for (run = 0; at + run < length && text[at + run] >= '0' && text[at + run] <= '9';)
                run++;
            piece = pieces[roll(2) ? 7 + roll(2) : 22 + roll(4)];
            if (run > 0 && run < 24)
                replace_run(text, &length, at, run, piece, strlen(piece));
        }
    }
    return length;
}

static size_t add_digest(char *text, size_t length)
{
    char hex[WEIR_DIGEST_HEX];
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, text, length);
    weir_digest_end(digest, hex);
    return length + (size_t)snprintf(text + length, TAIL + 1, "\"sha256\": \"%s\"\n}\n", hex);
}

static size_t sample(char *text, char path[PATH_BYTES])
{
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_snapshot_info info = rig_info(0, 10);
    folder_files(true);
    rig_save(&info, 2, name);
    return read_bytes(in_folder(name, path), text, TEXT_BYTES);
}

/* The text at the end of memory that may be read: a byte too far is a crash, in every build. */
static bool parse_guarded(const char *text, size_t length, struct weir_manifest *manifest, struct weir_error *err)
{
    static char *guarded;
    size_t room = TEXT_BYTES + 4096;
    if (!guarded) {
        guarded = mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(guarded != MAP_FAILED);
        assert_int_equal(mprotect(guarded + room, 4096, PROT_NONE), 0);
    }
    memcpy(guarded + room - length, text, length);
    return weir_manifest_parse(manifest, guarded + room - length, length, err);
}

static void a_changed_manifest_never_does_harm(void **state)
{
    (void)state;
    char text[TEXT_BYTES + TAIL + 1], whole[TEXT_BYTES], path[PATH_BYTES];
    size_t length = sample(whole, path);
    int taken = 0;
    dice_key = weir_random_key(4, WEIR_RANDOM_TEST, 60, 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct weir_manifest manifest;
        struct weir_error err = {.text = ""};
        memcpy(text, whole, length);
        size_t count = add_digest(text, mutate(text, length - TAIL));
        bool good = parse_guarded(text, count, &manifest, &err);
        taken += good;
        if (!good && !err.text[0])
            fail_msg("round %d: refused without a reason", round);
        weir_manifest_free(&manifest);
    }
    assert_in_range(taken, ROUNDS / 100, ROUNDS / 2); /* neither is everything refused, nor nothing */
}

/* Elements and clocks of what is opened can be read without harm, although they may be any. */
static void read_all(struct weir_snapshot *snapshot)
{
    struct weir_error err;
    const struct weir_snapshot_layout *layout = &weir_snapshot_info(snapshot)->layout;
    float values[FLAT];
    for (size_t row = 0; row <= layout->slot_count; row++)
        for (uint64_t first = 0; first < layout->flat_elements; first += FLAT) {
            uint64_t left = layout->flat_elements - first;
            weir_snapshot_read(snapshot, row, first, left < FLAT ? (size_t)left : FLAT, values, &err);
        }
}

/* A part's header keeps its length, so that more of it is looked at. */
static void change_header(unsigned char *part)
{
    size_t length = (size_t)part[0] + 256 * (size_t)part[1];
    for (uint32_t i = 0, count = 1 + roll(3); i < count; i++)
        part[8 + roll(length)] = (unsigned char)"0123456789,:\"cF"[roll(15)];
}

static void a_changed_folder_never_does_harm(void **state)
{
    (void)state;
    static char whole[TEXT_BYTES], text[TEXT_BYTES + TAIL + 1];
    static unsigned char part[TEXT_BYTES], changed[TEXT_BYTES];
    char path[PATH_BYTES], part_path[PATH_BYTES];
    size_t length = sample(whole, path);
    struct weir_error err;
    struct weir_snapshot *snapshot = weir_snapshot_open(folder, strrchr(path, '/') + 1, &err);
    in_folder(weir_snapshot_part(snapshot, 0)->name, part_path);
    weir_snapshot_close(snapshot);
    size_t part_bytes = read_bytes(part_path, part, sizeof part);
    int opened = 0;
    dice_key = weir_random_key(4, WEIR_RANDOM_TEST, 61, 0);
    for (int round = 0; round < 2000; round++) {
        bool of_part = roll(2);
        memcpy(text, whole, length);
        memcpy(changed, part, part_bytes);
        if (of_part)
            change_header(changed);
        write_bytes(part_path, changed, part_bytes);
        write_bytes(path, text, of_part ? length : add_digest(text, mutate(text, length - TAIL)));
        snapshot = weir_snapshot_open(folder, strrchr(path, '/') + 1, &err);
        opened += snapshot != NULL;
        if (snapshot) {
            read_all(snapshot);
            assert_false(of_part && weir_snapshot_verify(snapshot, &err) && memcmp(changed, part, part_bytes) != 0);
        }
        weir_snapshot_close(snapshot);
    }
    assert_in_range(opened, 20, 1500);
    folder_files(true);
}

/* Replaces the first `from` in the manifest, gives it a digest, and opens it. */
static void assert_refused(const char *from, const char *to, const char *says)
{
    static char text[TEXT_BYTES + TAIL + 1];
    char path[PATH_BYTES];
    struct weir_error err;
    size_t length = sample(text, path) - TAIL;
    text[length] = '\0';
    char *at = strstr(text, from);
    assert_non_null(at);
    replace_run(text, &length, (size_t)(at - text), strlen(from), to, strlen(to));
    write_bytes(path, text, add_digest(text, length));
    struct weir_snapshot *snapshot = weir_snapshot_open(folder, strrchr(path, '/') + 1, &err);
    if (snapshot)
        fail_msg("%s in place of %s was taken", to, from);
    if (!strstr(err.text, says) || !strstr(err.text, path))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    folder_files(true);
}

static void each_lie_of_a_manifest_is_told(void **state)
{
    (void)state;
    assert_refused("\"version\": 1", "\"version\": 2", "version");
    assert_refused("weir-snapshot", "weir-snapshop", "format");
    assert_refused("\"step\"", "\"stop\"", "another key");
    assert_refused("\"step\": 10", "\"step\": 11", "another snapshot's");
    assert_refused("\"replicas\": 3", "\"replicas\": 0", "out of its range");
    assert_refused("\"hash\": \"0123456789a", "\"hash\": \"0123456789b", "another snapshot's");
    assert_refused("\"hash\": \"0123456789abcdef", "\"hash\": \"0123456789abcdee",
                   "no part of generation 0, step 10 of this job");
    assert_refused("\"small\"", "\"sm\\u001ball\"", "control character");
    assert_refused("{\"name\": \"0123", "{\"name\": \"../../0123", "none that weir gives");
    assert_refused("\"record\": \"0", "\"record\": \"", "whole number of bytes");
    assert_refused("\"offset\": 48", "\"offset\": 34", "out of its range");
    assert_refused("\"offset\": 64", "\"offset\": 80", "behind the end");
    assert_refused("[7, 5]", "[4294967296, 4294967296, 5]", "too large");
    assert_refused("[7, 5]", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "16 dimensions");
}

/* What it describes must be there in bytes before memory is taken for it. */
static void a_manifest_that_claims_much_takes_no_memory(void **state)
{
    (void)state;
    assert_refused("\"flat_elements\": 80", "\"flat_elements\": 99999999999", "too many chunks");
    assert_refused("\"flat_elements\": 80", "\"flat_elements\": 60000000", "too few");
    assert_refused("\"flat_elements\": 80", "\"flat_elements\": 144115188075855872", "out of its range");
    assert_refused("\"chunk_elements\": 16", "\"chunk_elements\": 4294967295", "another shape");
}

/* A record, a job's keys, names: of any length that is allowed, and a manifest that would not be read is not written.
 */
static void what_would_not_be_read_is_not_written(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_snapshot_part part;
    struct weir_snapshot_info info = rig_info(0, 10), other;
    assert_true(rig_part(&info, 0, 1, &part, &err));
    other = info;
    other.record_bytes = WEIR_SNAPSHOT_RECORD_BYTES_MAX + 1;
    unsigned char *record = calloc(1, other.record_bytes);
    other.record = record;
    assert_false(weir_snapshot_publish(folder, &other, &part, 1, NULL, &err));
    other.record_bytes--;
    if (!weir_snapshot_publish(folder, &other, &part, 1, NULL, &err))
        fail_msg("%s", err.text);
    free(record);
    folder_files(true);
    assert_true(rig_part(&info, 0, 1, &part, &err));
    other = info;
    other.job = "a\nb";
    assert_false(weir_snapshot_publish(folder, &other, &part, 1, NULL, &err));
    assert_non_null(strstr(err.text, "control character"));
    other = info;
    other.replicas = 0;
    assert_false(weir_snapshot_publish(folder, &other, &part, 1, NULL, &err));
    assert_int_equal(folder_files(true), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_manifest_never_does_harm),
        cmocka_unit_test(a_changed_folder_never_does_harm),
        cmocka_unit_test(each_lie_of_a_manifest_is_told),
        cmocka_unit_test(a_manifest_that_claims_much_takes_no_memory),
        cmocka_unit_test(what_would_not_be_read_is_not_written),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
