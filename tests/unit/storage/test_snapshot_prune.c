/* What is removed and what never is. */
#include "snapshot_rig.h"

static struct rig_refusals refusals;

static size_t prune(size_t keep)
{
    struct weir_error err;
    size_t removed;
    if (!weir_snapshot_prune(folder, HASH, keep, &removed, &err))
        fail_msg("%s", err.text);
    return removed;
}

static bool holds(const char *name)
{
    char path[PATH_BYTES];
    return access(in_folder(name, path), F_OK) == 0;
}

/* "3/50 3/40 ": generation and step of each manifest, the newest first. */
static void assert_kept(const char *expected)
{
    struct weir_snapshot_list list;
    struct weir_error err;
    char text[256] = "";
    assert_true(weir_snapshot_list(folder, &list, &err));
    for (size_t i = 0; i < list.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d/%d ", (int)list.entries[i].generation,
                 (int)list.entries[i].step);
    weir_snapshot_list_free(&list);
    assert_string_equal(text, expected);
}

static void name_of(uint64_t generation, uint64_t step, char name[PATH_BYTES])
{
    snprintf(name, PATH_BYTES, "%.12s-g%06d-s%012d.json", HASH, (int)generation, (int)step);
}

static void the_newest_are_kept_whole(void **state)
{
    (void)state;
    for (int step = 10; step <= 50; step += 10)
        rig_save_step(step < 40 ? 2 : 3, (uint64_t)step);
    assert_int_equal(prune(9), 0);
    assert_int_equal(prune(3), 6);
    assert_kept("3/50 3/40 2/30 ");
    assert_int_equal(prune(3), 0);
    assert_int_equal(folder_files(false), 9);
    assert_int_equal(prune(1), 6);
    rig_found(3, 50, &refusals);
    assert_int_equal(folder_files(true), 3);
}

static void what_abandoned_attempts_left_goes_and_what_may_come_stays(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_snapshot_part old, same, later, next;
    struct weir_snapshot_info before = rig_info(1, 99), now = rig_info(2, 20), coming = rig_info(2, 21),
                              generation = rig_info(3, 1);
    char leftover[PATH_BYTES], coming_leftover[PATH_BYTES], path[PATH_BYTES];
    assert_true(rig_part(&before, 0, 2, &old, &err) && rig_part(&now, 1, 3, &same, &err) &&
                rig_part(&coming, 0, 1, &later, &err) && rig_part(&generation, 0, 1, &next, &err));
    snprintf(leftover, sizeof leftover, "%.150s.part-123-0", old.name);
    snprintf(coming_leftover, sizeof coming_leftover, "%.150s.part-9-1", later.name);
    write_bytes(in_folder(leftover, path), "x", 1);
    write_bytes(in_folder(coming_leftover, path), "x", 1);
    assert_int_equal(prune(1), 0); /* nothing is usable: nothing goes */
    rig_save_step(2, 20);
    assert_int_equal(prune(1), 3);
    assert_false(holds(old.name) || holds(same.name) || holds(leftover));
    assert_true(holds(later.name) && holds(next.name) && holds(coming_leftover));
    rig_found(2, 20, &refusals);
    folder_files(true);
}

static void other_jobs_and_other_files_are_left_alone(void **state)
{
    (void)state;
    static const char *const others[] = {
        "notes.txt",
        "0123456789ab",
        "0123456789ab-g000001-s000000000001",
        "0123456789ab-g000001-s000000000001.json.bak",
        "0123456789ab-g000001-s000000000001.json.part-1",
        "0123456789ab-g000001-s000000000001.json.part-1-x",
        "0123456789ab-g1-s1.json",
        "0123456789ab-g0000001-s000000000001.json",
        "0123456789ab-g000001-s000000000001-c000000-0123456789abcdeg.safetensors",
        "0123456789ab-g000001-s000000000001-c000000-0123456789abcdef.safetensors2",
        "0123456789AB-g000001-s000000000001.json",
        "0123456789ab-g000001-s99999999999999999999.json",
        "0123456789ab-g000001-s999999999999999999999999999.json",
    };
    char path[PATH_BYTES];
    struct weir_snapshot_info other = rig_info(1, 1);
    other.hash = OTHER_HASH;
    rig_save(&other, 2, NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        write_bytes(in_folder(others[i], path), "x", 1);
    rig_save_step(5, 10);
    rig_save_step(5, 20);
    int before = folder_files(false);
    assert_int_equal(prune(1), 3);
    assert_int_equal(folder_files(false), before - 3);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!holds(others[i]))
            fail_msg("%s is gone", others[i]);
    rig_found(5, 20, &refusals);
    assert_int_equal(refusals.count, 0);
    folder_files(true);
}

/* One that cannot be used must not push out one that can. */
static void what_is_not_usable_does_not_count(void **state)
{
    (void)state;
    char name[PATH_BYTES], path[PATH_BYTES];
    for (int step = 10; step <= 50; step += 10)
        rig_save_step(0, (uint64_t)step);
    name_of(0, 50, name); /* torn */
    assert_int_equal(truncate(in_folder(name, path), 100), 0);
    struct weir_snapshot_list list;
    struct weir_error err;
    assert_true(weir_snapshot_list(folder, &list, &err));
    struct weir_snapshot *snapshot = weir_snapshot_open(folder, list.entries[1].name, &err);
    weir_snapshot_list_free(&list);
    assert_non_null(snapshot);
    char part[PATH_BYTES];
    in_folder(weir_snapshot_part(snapshot, 1)->name, part);
    weir_snapshot_close(snapshot);
    assert_int_equal(truncate(part, 100), 0); /* of step 40 */
    assert_int_equal(prune(2), 3);
    assert_kept("0/50 0/40 0/30 0/20 ");
    rig_found(0, 30, &refusals);
    assert_int_equal(refusals.count, 2);
    assert_int_equal(folder_files(false), 12); /* their parts, too: somebody may want to see */
    rig_save_step(0, 60);
    rig_save_step(0, 70);
    prune(2);
    assert_kept("0/70 0/60 ");
    assert_int_equal(folder_files(true), 6);
}

static void a_folder_that_is_not_there_needs_no_pruning(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct weir_error err;
    size_t removed = 1;
    assert_true(weir_snapshot_prune(in_folder("missing", path), HASH, 1, &removed, &err));
    assert_int_equal(removed, 0);
    write_bytes(in_folder("file", path), "", 0);
    assert_false(weir_snapshot_prune(path, HASH, 1, &removed, &err));
    assert_non_null(strstr(err.text, path));
    folder_files(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_are_kept_whole),
        cmocka_unit_test(what_abandoned_attempts_left_goes_and_what_may_come_stays),
        cmocka_unit_test(other_jobs_and_other_files_are_left_alone),
        cmocka_unit_test(what_is_not_usable_does_not_count),
        cmocka_unit_test(a_folder_that_is_not_there_needs_no_pruning),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
