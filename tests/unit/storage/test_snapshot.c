/* Snapshots: what is written is read, by whatever ranges; what is not whole or another's is refused. */
#include "snapshot_rig.h"

static struct rig_refusals refusals;

static void assert_says(const char *text, const char *a, const char *b)
{
    if (!strstr(text, a) || !strstr(text, b))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", text, a, b);
}

/* A file of the folder whose name ends so (and that is no leftover); the last by name. */
static void find_file(const char *end, char path[PATH_BYTES])
{
    char found[256] = "";
    DIR *entries = opendir(folder);
    for (struct dirent *entry; (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name);
        if (length > strlen(end) && strcmp(entry->d_name + length - strlen(end), end) == 0 &&
            strcmp(entry->d_name, found) > 0)
            snprintf(found, sizeof found, "%s", entry->d_name);
    }
    closedir(entries);
    assert_true(found[0]);
    in_folder(found, path);
}

static void damage(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(byte ^ 1, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void what_is_saved_is_read_by_any_range(void **state)
{
    (void)state;
    for (uint32_t servers = 1; servers <= 5; servers++)
        for (uint32_t chunk_elements = 9; chunk_elements <= 81; chunk_elements += 18) {
            struct weir_snapshot_info info = rig_info(2, servers * 100 + chunk_elements);
            info.layout.chunk_elements = chunk_elements;
            uint32_t chunks = (FLAT + chunk_elements - 1) / chunk_elements;
            rig_save(&info, servers < chunks ? servers : chunks, NULL);
            rig_found(2, info.step, &refusals);
            assert_int_equal(refusals.count, 0);
        }
    folder_files(true);
}

static void a_snapshot_tells_all_that_it_was_told(void **state)
{
    (void)state;
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_error err;
    struct weir_snapshot_info info = rig_info(7, UINT64_MAX);
    info.job = "a \"job\" \xC3\xA9";
    rig_save(&info, 2, name);
    struct weir_snapshot *snapshot = weir_snapshot_open(folder, name, &err);
    assert_non_null(snapshot);
    assert_string_equal(weir_snapshot_name(snapshot), name);
    const struct weir_snapshot_info *found = weir_snapshot_info(snapshot);
    assert_string_equal(found->job, info.job);
    assert_string_equal(found->hash, HASH);
    assert_string_equal(found->canonical, info.canonical);
    assert_true(found->generation == 7 && found->step == UINT64_MAX && found->replicas == REPLICAS);
    assert_int_equal(found->record_bytes, sizeof rig_record);
    assert_memory_equal(found->record, rig_record, sizeof rig_record);
    assert_int_equal(found->layout.variable_count, 3);
    for (size_t v = 0; v < 3; v++) {
        const struct weir_view_variable *a = &found->layout.variables[v], *b = &rig_variables[v];
        assert_string_equal(a->name, b->name);
        assert_true(a->offset == b->offset && a->elements == b->elements && a->dims == b->dims);
        for (size_t d = 0; d < a->dims; d++)
            assert_int_equal(a->shape[d], b->shape[d]);
    }
    assert_int_equal(found->layout.slot_count, 2);
    assert_string_equal(found->layout.slots[1], "velocity");
    assert_int_equal(weir_snapshot_part_count(snapshot), 2);
    assert_true(weir_snapshot_verify(snapshot, &err));
    weir_snapshot_close(snapshot);
    weir_snapshot_close(NULL);
    assert_int_equal(folder_files(true), 3);
}

/* Byte for byte what docs/snapshots.md says, so that other programs can read it. */
static void a_manifest_is_what_the_format_says(void **state)
{
    (void)state;
    char name[WEIR_SNAPSHOT_NAME_BYTES], path[PATH_BYTES], hex[WEIR_DIGEST_HEX], expected[4096], text[4096] = "";
    struct weir_error err;
    struct weir_snapshot_part part;
    struct weir_snapshot_info info = rig_info(3, 1200);
    assert_true(rig_part(&info, 0, 1, &part, &err));
    assert_true(weir_snapshot_publish(folder, &info, &part, 1, name, &err));
    assert_string_equal(name, "0123456789ab-g000003-s000000001200.json");
    assert_int_equal(strncmp(part.name, "0123456789ab-g000003-s000000001200-c000000-", 43), 0);
    int length =
        snprintf(expected, sizeof expected,
                 "{\n\"format\": \"weir-snapshot\",\n\"version\": 1,\n\"job\": \"small\",\n\"hash\": \"" HASH "\",\n"
                 "\"generation\": 3,\n\"step\": 1200,\n\"replicas\": 3,\n\"flat_elements\": 80,\n"
                 "\"chunk_elements\": 16,\n\"clocks\": 0,\n\"slots\": [\"momentum\", \"velocity\"],\n\"variables\": [\n"
                 " {\"name\": \"dense/kernel\", \"offset\": 0, \"shape\": [7, 5]},\n"
                 " {\"name\": \"dense/b\xC3\xAF\\\"as\", \"offset\": 48, \"shape\": [5]},\n"
                 " {\"name\": \"scale\", \"offset\": 64, \"shape\": []}],\n\"parts\": [\n"
                 " {\"name\": \"%s\", \"bytes\": %d, \"sha256\": \"%s\"}],\n"
                 "\"keys\": \"{\\\"fit.epochs\\\":1}\\u000a{\\\"seed\\\":0}\\u000a\",\n\"record\": \"0800ff10\",\n",
                 part.name, (int)part.bytes, part.sha256);
    struct weir_digest *digest = weir_digest_new();
    weir_digest_add(digest, expected, (size_t)length);
    weir_digest_end(digest, hex);
    length += snprintf(expected + length, sizeof expected - (size_t)length, "\"sha256\": \"%s\"\n}\n", hex);
    assert_int_equal(read_bytes(in_folder(name, path), text, sizeof text - 1), length);
    assert_string_equal(text, expected);
    folder_files(true);
}

static void clocks_come_back(void **state)
{
    (void)state;
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_error err;
    struct weir_snapshot_info info = rig_info(0, 9);
    info.layout.clocks = true;
    rig_save(&info, 2, name);
    struct weir_snapshot *snapshot = weir_snapshot_open(folder, name, &err);
    assert_non_null(snapshot);
    for (uint32_t c = 0; c < 5; c++) {
        uint64_t clocks[REPLICAS];
        assert_true(weir_snapshot_read_clocks(snapshot, c, clocks, &err));
        for (size_t r = 0; r < REPLICAS; r++)
            assert_true(clocks[r] == rig_clock(9, c, r));
    }
    rig_check(snapshot, 9);
    weir_snapshot_close(snapshot);
    assert_null(rig_find(HASH, &refusals)); /* a job without clocks cannot go on from it */
    assert_says(refusals.text, name, "clocks");
    folder_files(true);
}

static int open_files(void)
{
    int count = 0;
    DIR *entries = opendir("/proc/self/fd");
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

/* More than a process may have open at once, as some systems limit it. */
static void many_parts_are_read_with_few_files_open(void **state)
{
    (void)state;
    struct weir_snapshot_info info = rig_info(0, 9);
    info.layout.chunk_elements = 1;
    rig_save(&info, FLAT, NULL);
    int before = open_files();
    struct weir_snapshot *snapshot = rig_find(HASH, &refusals);
    assert_non_null(snapshot);
    assert_int_equal(weir_snapshot_part_count(snapshot), FLAT);
    rig_check(snapshot, 9);
    assert_in_range(open_files() - before, 1, 64);
    weir_snapshot_close(snapshot);
    assert_int_equal(open_files(), before);
    folder_files(true);
}

static void generation_counts_before_step(void **state)
{
    (void)state;
    rig_save_step(1, 900);
    rig_save_step(2, 50);
    rig_save_step(2, 60);
    rig_save_step(10, 7);
    rig_found(10, 7, &refusals);
    struct weir_snapshot_list list;
    struct weir_error err;
    assert_true(weir_snapshot_list(folder, &list, &err));
    const uint64_t expected[][2] = {{10, 7}, {2, 60}, {2, 50}, {1, 900}};
    assert_int_equal(list.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(list.entries[i].generation == expected[i][0] && list.entries[i].step == expected[i][1]);
    weir_snapshot_list_free(&list);
    folder_files(true);
}

static void only_above_every_manifest_that_is_there(void **state)
{
    (void)state;
    static const uint64_t late[][2] = {{2, 50}, {2, 49}, {1, 900}};
    struct weir_error err;
    rig_save_step(2, 50);
    for (size_t i = 0; i < 3; i++) {
        struct weir_snapshot_info info = rig_info(late[i][0], late[i][1]);
        assert_false(rig_try(&info, 2, NULL, &err));
        assert_says(err.text, folder, "is not older");
    }
    struct weir_snapshot_info other = rig_info(1, 1); /* another job's are no obstacle */
    other.hash = OTHER_HASH;
    rig_save(&other, 1, NULL);
    rig_found(2, 50, &refusals);
    folder_files(true);
}

static void a_part_that_is_not_as_reported_is_refused(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    struct weir_snapshot_part parts[2], changed[2], of_step_6 = {.bytes = 0};
    struct weir_snapshot_info info = rig_info(0, 5), later = rig_info(0, 6);
    assert_true(rig_part(&info, 0, 2, &parts[0], &err) && rig_part(&info, 1, 2, &parts[1], &err) &&
                rig_part(&later, 1, 2, &of_step_6, &err));
    assert_false(weir_snapshot_publish(folder, &info, parts, 1, NULL, &err));
    assert_says(err.text, "chunk 1", "none of its parts");
    assert_false(weir_snapshot_publish(folder, &info, parts, 0, NULL, &err));
    memcpy(changed, parts, sizeof parts);
    changed[1] = of_step_6;
    assert_false(weir_snapshot_publish(folder, &info, changed, 2, NULL, &err));
    assert_says(err.text, folder, "another snapshot's");
    changed[1] = parts[1];
    changed[1].bytes++;
    assert_false(weir_snapshot_publish(folder, &info, changed, 2, NULL, &err));
    assert_says(err.text, parts[1].name, "bytes");
    changed[1].bytes--;
    snprintf(changed[1].name, sizeof changed[1].name, "../%.100s", parts[1].name);
    assert_false(weir_snapshot_publish(folder, &info, changed, 2, NULL, &err));
    assert_says(err.text, folder, "none that weir gives");
    unlink(in_folder(parts[1].name, path));
    assert_false(weir_snapshot_publish(folder, &info, parts, 2, NULL, &err));
    assert_says(err.text, path, "No such file");
    assert_null(rig_find(HASH, &refusals));
    assert_int_equal(refusals.count, 0); /* nothing of all this made one exist */
    folder_files(true);
}

/* A new primary writes what the lost one had not reported; it may write some of it twice. */
static void parts_may_overlap(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_snapshot_part parts[3];
    struct weir_snapshot_info info = rig_info(0, 5);
    assert_true(rig_part(&info, 0, 2, &parts[0], &err) && rig_part(&info, 3, 1, &parts[1], &err) &&
                rig_part(&info, 1, 4, &parts[2], &err));
    assert_true(weir_snapshot_publish(folder, &info, parts, 3, NULL, &err));
    rig_found(0, 5, &refusals);
    folder_files(true);
}

static void a_torn_or_damaged_one_is_named_and_the_next_older_taken(void **state)
{
    (void)state;
    char path[PATH_BYTES], name[WEIR_SNAPSHOT_NAME_BYTES];
    struct stat status;
    for (int harm = 0; harm < 7; harm++) {
        struct weir_snapshot_info info = rig_info(0, 20);
        rig_save_step(0, 10);
        rig_save(&info, 2, name);
        find_file(harm < 3 ? ".json" : ".safetensors", path);
        assert_non_null(strstr(path, "s000000000020"));
        assert_int_equal(stat(path, &status), 0);
        if (harm == 0 || harm == 3)
            damage(path, status.st_size / 2);
        else if (harm == 1 || harm == 4)
            assert_int_equal(truncate(path, status.st_size - 1), 0);
        else if (harm == 2 || harm == 5)
            assert_int_equal(truncate(path, 0), 0);
        else
            assert_int_equal(unlink(path), 0);
        rig_found(0, 10, &refusals);
        assert_int_equal(refusals.count, 1);
        assert_says(refusals.text, name, harm < 3 ? folder : path);
        folder_files(true);
    }
}

/* The digest that the manifest has is the only witness of a bit that changed in the data. */
static void every_bit_of_the_data_counts(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct stat status;
    struct weir_error err;
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_snapshot_info info = rig_info(0, 20);
    rig_save(&info, 1, name);
    find_file(".safetensors", path);
    assert_int_equal(stat(path, &status), 0);
    for (long at = status.st_size - 1; at > status.st_size - 960; at -= 37) {
        damage(path, at);
        struct weir_snapshot *snapshot = weir_snapshot_open(folder, name, &err);
        assert_non_null(snapshot);
        assert_false(weir_snapshot_verify(snapshot, &err));
        assert_says(err.text, path, "damaged");
        weir_snapshot_close(snapshot);
        damage(path, at);
    }
    rig_found(0, 20, &refusals);
    folder_files(true);
}

static void another_jobs_or_models_is_refused_with_what_differs(void **state)
{
    (void)state;
    struct weir_snapshot_info info = rig_info(0, 30);
    char name[WEIR_SNAPSHOT_NAME_BYTES];
    rig_save_step(0, 10);
    info.hash = OTHER_HASH;
    info.canonical = "{\"fit.epochs\":2}\n{\"seed\":0}\n";
    rig_save(&info, 2, name);
    rig_found(0, 10, &refusals);
    assert_int_equal(refusals.count, 1);
    assert_says(refusals.text, name, "fit.epochs: 1 here, 2 there");
    info = rig_info(0, 40);
    info.layout.slot_count = 1;
    rig_save(&info, 2, NULL);
    rig_found(0, 10, &refusals);
    assert_says(refusals.text, "optimizer slots", "s000000000040.json");
    struct weir_view_variable variables[3];
    memcpy(variables, rig_variables, sizeof variables);
    variables[2].offset = 65;
    info = rig_info(0, 50);
    info.layout.variables = variables;
    rig_save(&info, 2, NULL);
    rig_found(0, 10, &refusals);
    assert_says(refusals.text, "\"scale\"", "s000000000050.json");
    folder_files(true);
}

static void one_that_was_renamed_is_refused(void **state)
{
    (void)state;
    char path[PATH_BYTES], other[PATH_BYTES], name[WEIR_SNAPSHOT_NAME_BYTES];
    struct weir_snapshot_info info = rig_info(0, 20);
    rig_save(&info, 2, name);
    snprintf(other, sizeof other, "%.150s", name);
    char *digit = strstr(other, "20.json");
    assert_non_null(digit);
    *digit = '9';
    char renamed[PATH_BYTES];
    assert_int_equal(rename(in_folder(name, path), in_folder(other, renamed)), 0);
    assert_null(rig_find(HASH, &refusals));
    assert_says(refusals.text, name, "renamed");
    folder_files(true);
}

static void a_folder_without_snapshots_or_none_at_all_holds_none(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    struct weir_snapshot_list list;
    uint64_t generation = 5;
    assert_null(rig_find(HASH, &refusals));
    write_bytes(in_folder("model.json", path), "{}", 2);
    write_bytes(in_folder("0123456789ab-g1-s2.json", path), "{}", 2); /* not as weir writes numbers */
    assert_null(rig_find(HASH, &refusals));
    assert_int_equal(refusals.count, 0);
    assert_true(weir_snapshot_list(in_folder("missing", path), &list, &err));
    assert_int_equal(list.count, 0);
    weir_snapshot_list_free(&list);
    assert_true(weir_snapshot_next_generation(path, HASH, &generation, &err));
    assert_int_equal(generation, 0);
    assert_false(weir_snapshot_list(in_folder("model.json", path), &list, &err));
    assert_says(err.text, path, "directory");
    assert_null(weir_snapshot_open(folder, "../model.json", &err));
    folder_files(true);
}

static void a_generation_that_left_anything_is_not_used_again(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_snapshot_part part;
    uint64_t generation;
    struct weir_snapshot_info info = rig_info(4, 1), other = rig_info(9, 1);
    rig_save_step(2, 50);
    assert_true(weir_snapshot_next_generation(folder, HASH, &generation, &err));
    assert_int_equal(generation, 3);
    assert_true(rig_part(&info, 0, 2, &part, &err));
    other.hash = OTHER_HASH;
    rig_save(&other, 1, NULL);
    assert_true(weir_snapshot_next_generation(folder, HASH, &generation, &err));
    assert_int_equal(generation, 5);
    folder_files(true);
}

static void whether_a_folder_can_be_written_is_said_at_the_start(void **state)
{
    (void)state;
    char path[PATH_BYTES], inner[PATH_BYTES];
    struct weir_error err;
    assert_true(weir_snapshot_folder_check(folder, &err));
    assert_true(weir_snapshot_folder_check(in_folder("new", path), &err));
    assert_int_equal(rmdir(path), 0); /* it was made, and nothing in it */
    assert_false(weir_snapshot_folder_check(in_folder("missing/new", inner), &err));
    assert_says(err.text, inner, "No such file");
    write_bytes(in_folder("file", path), "", 0);
    assert_false(weir_snapshot_folder_check(path, &err));
    assert_says(err.text, path, "Not a directory");
    assert_false(weir_snapshot_folder_check("/proc/snapshots", &err));
    assert_says(err.text, "/proc/snapshots", "cannot make");
    folder_files(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_is_read_by_any_range),
        cmocka_unit_test(a_snapshot_tells_all_that_it_was_told),
        cmocka_unit_test(a_manifest_is_what_the_format_says),
        cmocka_unit_test(clocks_come_back),
        cmocka_unit_test(many_parts_are_read_with_few_files_open),
        cmocka_unit_test(generation_counts_before_step),
        cmocka_unit_test(only_above_every_manifest_that_is_there),
        cmocka_unit_test(a_part_that_is_not_as_reported_is_refused),
        cmocka_unit_test(parts_may_overlap),
        cmocka_unit_test(a_torn_or_damaged_one_is_named_and_the_next_older_taken),
        cmocka_unit_test(every_bit_of_the_data_counts),
        cmocka_unit_test(another_jobs_or_models_is_refused_with_what_differs),
        cmocka_unit_test(one_that_was_renamed_is_refused),
        cmocka_unit_test(a_folder_without_snapshots_or_none_at_all_holds_none),
        cmocka_unit_test(a_generation_that_left_anything_is_not_used_again),
        cmocka_unit_test(whether_a_folder_can_be_written_is_said_at_the_start),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
