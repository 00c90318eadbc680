#include "storage/snapshot_name.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "base/number.h"

#define PREFIX_DIGITS (WEIR_SNAPSHOT_PREFIX_BYTES - 1)
#define MANIFEST_END ".json"
#define PART_END ".safetensors"
#define LEFTOVER_MARK ".part-" /* what storage_file.c appends to the name of a file that it is writing */

/* ---- one name */

/* Padded, so that a listing by name is in order as long as numbers have no more digits. */
void weir_snapshot_name_manifest(char name[WEIR_SNAPSHOT_NAME_BYTES], const char *hash, uint64_t generation,
                                 uint64_t step)
{
    snprintf(name, WEIR_SNAPSHOT_NAME_BYTES, "%.*s-g%06" PRIu64 "-s%012" PRIu64 MANIFEST_END, PREFIX_DIGITS, hash,
             generation, step);
}

void weir_snapshot_name_part(char name[WEIR_SNAPSHOT_NAME_BYTES], const char *hash, uint64_t generation, uint64_t step,
                             uint32_t first_chunk, uint64_t attempt)
{
    snprintf(name, WEIR_SNAPSHOT_NAME_BYTES, "%.*s-g%06" PRIu64 "-s%012" PRIu64 "-c%06" PRIu32 "-%016" PRIx64 PART_END,
             PREFIX_DIGITS, hash, generation, step, first_chunk, attempt);
}

uint64_t weir_snapshot_draw(void)
{
    uint64_t number = 0;
    ssize_t got = getrandom(&number, sizeof number, 0);
    assert(got == sizeof number);
    return number;
}

static bool is_hex(const char *text, size_t count)
{
    return strspn(text, "0123456789abcdef") >= count;
}

/* Takes "MARK<digits>"; false if it is not there. */
static bool take_number(const char **at, const char *mark, uint64_t max, uint64_t *number)
{
    char digits[24];
    size_t marked = strlen(mark);
    if (strncmp(*at, mark, marked) != 0)
        return false;
    size_t count = strspn(*at + marked, "0123456789");
    if (count >= sizeof digits)
        return false;
    memcpy(digits, *at + marked, count);
    digits[count] = '\0';
    *at += marked + count;
    return weir_number_parse(digits, 0, max, number);
}

/* The end of the name of a part, behind the step: "-c000017-0123456789abcdef.safetensors". */
static bool take_part(const char **at, uint64_t *chunk, const char **attempt)
{
    if (!take_number(at, "-c", UINT32_MAX, chunk) || **at != '-' || !is_hex(*at + 1, 16))
        return false;
    *attempt = *at + 1;
    *at += 17;
    return strncmp(*at, PART_END, strlen(PART_END)) == 0;
}

static bool is_leftover(const char *at)
{
    uint64_t number;
    return take_number(&at, LEFTOVER_MARK, UINT64_MAX, &number) && take_number(&at, "-", UINT64_MAX, &number) && !*at;
}

bool weir_snapshot_name_parse(const char *name, struct weir_snapshot_file *file)
{
    *file = (struct weir_snapshot_file){0};
    if (strlen(name) >= sizeof file->name || !is_hex(name, PREFIX_DIGITS))
        return false;
    memcpy(file->name, name, strlen(name) + 1);
    memcpy(file->prefix, name, PREFIX_DIGITS);
    const char *at = name + PREFIX_DIGITS, *attempt;
    uint64_t chunk;
    if (!take_number(&at, "-g", UINT64_MAX, &file->generation) || !take_number(&at, "-s", UINT64_MAX, &file->step))
        return false;
    char written[WEIR_SNAPSHOT_NAME_BYTES]; /* as weir would: there is one spelling only */
    if (strncmp(at, MANIFEST_END, strlen(MANIFEST_END)) == 0) {
        file->kind = WEIR_SNAPSHOT_MANIFEST;
        weir_snapshot_name_manifest(written, name, file->generation, file->step);
    } else if (take_part(&at, &chunk, &attempt)) {
        uint64_t number = 0;
        for (size_t i = 0; i < 16; i++)
            number = number << 4 | (uint64_t)(attempt[i] <= '9' ? attempt[i] - '0' : attempt[i] - 'a' + 10);
        file->kind = WEIR_SNAPSHOT_PART;
        weir_snapshot_name_part(written, name, file->generation, file->step, (uint32_t)chunk, number);
    } else {
        return false;
    }
    size_t length = strlen(written);
    if (strncmp(name, written, length) != 0)
        return false;
    if (!name[length])
        return true;
    file->kind = WEIR_SNAPSHOT_LEFTOVER;
    return is_leftover(name + length);
}

bool weir_snapshot_name_of_job(const struct weir_snapshot_file *file, const char *hash)
{
    return strncmp(file->prefix, hash, PREFIX_DIGITS) == 0;
}

char *weir_snapshot_path(const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = weir_alloc(bytes, 1, "a path");
    snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

int weir_snapshot_order(uint64_t a_generation, uint64_t a_step, uint64_t b_generation, uint64_t b_step)
{
    if (a_generation != b_generation)
        return a_generation < b_generation ? -1 : 1;
    return a_step < b_step ? -1 : a_step > b_step;
}

/* ---- all names */

struct seen {
    struct weir_snapshot_file *files;
    size_t count, room;
};

static void add(struct seen *seen, const struct weir_snapshot_file *file)
{
    if (seen->count == seen->room) {
        size_t room = seen->room ? 2 * seen->room : 64;
        struct weir_snapshot_file *larger = weir_alloc(room, sizeof *larger, "a folder's files");
        if (seen->count)
            memcpy(larger, seen->files, seen->count * sizeof *larger);
        free(seen->files);
        seen->files = larger;
        seen->room = room;
    }
    seen->files[seen->count++] = *file;
}

static bool fail(const char *folder, struct weir_error *err)
{
    return weir_error_set(err, "cannot read the folder %s: %s; check the path and who may read it", folder,
                          strerror(errno));
}

static bool read_names(const char *folder, DIR *entries, struct seen *seen, struct weir_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        struct weir_snapshot_file file;
        if (!entry)
            return errno == 0 || fail(folder, err);
        if (!weir_snapshot_name_parse(entry->d_name, &file))
            continue;
        if (seen->count == WEIR_SNAPSHOT_SEEN_MAX)
            return weir_error_set(err, "%s holds more than %d files of snapshots; move some elsewhere", folder,
                                  WEIR_SNAPSHOT_SEEN_MAX);
        add(seen, &file);
    }
}

bool weir_snapshot_scan(const char *folder, struct weir_snapshot_file **files, size_t *count, struct weir_error *err)
{
    struct seen seen = {0};
    *files = NULL;
    *count = 0;
    DIR *entries = opendir(folder);
    if (!entries)
        return errno == ENOENT || fail(folder, err);
    bool done = read_names(folder, entries, &seen, err);
    closedir(entries);
    if (!done) {
        free(seen.files);
        return false;
    }
    *files = seen.files;
    *count = seen.count;
    return true;
}
