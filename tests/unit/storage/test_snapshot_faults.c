/* Whatever call of a save fails, wherever the process dies or the power goes: a usable snapshot is there, the one whose
 * save was said to be done or a newer one, and never a wrong one. */
#include "snapshot_rig.h"

#include <sys/wait.h>

#include "faults.h"

static struct rig_refusals refusals;

enum outcome { OUTCOME_REFUSED, OUTCOME_PUBLISHED, OUTCOME_DONE };

/* Steps 10 and 20 are there; 30 is saved, and the others are removed. */
static enum outcome save_and_prune(struct weir_error *err)
{
    struct weir_snapshot_info info = rig_info(3, 30);
    size_t removed;
    if (!rig_try(&info, 2, NULL, err))
        return OUTCOME_REFUSED;
    return weir_snapshot_prune(folder, HASH, 1, &removed, err) ? OUTCOME_DONE : OUTCOME_PUBLISHED;
}

static void prepare(void)
{
    folder_files(true);
    rig_save_step(3, 10);
    rig_save_step(3, 20);
}

/* The same without faults: how many calls it makes, and after which of them the snapshot was said to exist. */
static void count_calls(int *published, int *all)
{
    struct weir_error err;
    size_t removed;
    struct weir_snapshot_info info = rig_info(3, 30);
    prepare();
    faults.armed = true;
    faults.kind = FAULT_NONE;
    faults.count = faults.file_count = 0;
    assert_true(rig_try(&info, 2, NULL, &err));
    *published = faults.count;
    assert_true(weir_snapshot_prune(folder, HASH, 1, &removed, &err));
    *all = faults.count;
    faults.armed = false;
}

/* Runs it in a process of its own, with a fault at call `at`; nothing is left of it but the folder. */
static void run_child(enum fault_kind kind, int at)
{
    prepare();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct weir_error err;
        faults.armed = true;
        faults.kind = kind;
        faults.at = at;
        faults.count = faults.file_count = 0;
        save_and_prune(&err);
        fault_lose_power(kind == FAULT_POWER_NAMES_STAY); /* right behind the last call */
        _exit(FAULT_EXIT);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == FAULT_EXIT);
}

/* The step of the snapshot that is found, whole and right; 0 if there is none. */
static uint64_t find_step(void)
{
    struct weir_snapshot *snapshot = rig_find(HASH, &refusals);
    if (!snapshot)
        return 0;
    uint64_t step = weir_snapshot_info(snapshot)->step;
    rig_check(snapshot, step);
    weir_snapshot_close(snapshot);
    return step;
}

/* The next save goes on from whatever was left, and nothing but it remains. */
static void save_again(void)
{
    struct weir_error err;
    uint64_t generation;
    size_t removed;
    assert_true(weir_snapshot_next_generation(folder, HASH, &generation, &err));
    assert_int_equal(generation, 4);
    rig_save_step(generation, 5);
    assert_true(weir_snapshot_prune(folder, HASH, 1, &removed, &err));
    assert_int_equal(folder_files(false), 3);
    rig_found(4, 5, &refusals);
}

/* How often what must be there was not, over all calls at which that kind of fault can come. */
static int count_losses(enum fault_kind kind)
{
    int published, all, losses = 0;
    count_calls(&published, &all);
    assert_true(published > 30 && all > published + 5);
    for (int at = 1; at <= all + 1; at++) {
        run_child(kind, at);
        uint64_t step = find_step();
        /* The call `at` was not made: what was said to exist before it must be there. */
        losses += at > published ? step != 30 : step != 20 && step != 30;
        if (losses == 0)
            save_again();
    }
    return losses;
}

static void wherever_the_process_dies_a_snapshot_is_there(void **state)
{
    (void)state;
    assert_int_equal(count_losses(FAULT_DIES), 0);
}

static void wherever_the_power_goes_a_snapshot_is_there(void **state)
{
    (void)state;
    assert_int_equal(count_losses(FAULT_POWER_NAMES_STAY), 0);
    assert_int_equal(count_losses(FAULT_POWER_NAMES_GO), 0);
}

static void where_files_cannot_be_renamed_exclusively_all_that_holds_too(void **state)
{
    (void)state;
    faults.no_rename = true;
    assert_int_equal(count_losses(FAULT_DIES), 0);
    assert_int_equal(count_losses(FAULT_POWER_NAMES_STAY), 0);
    assert_int_equal(count_losses(FAULT_POWER_NAMES_GO), 0);
    faults.no_rename = false;
}

/* Without a sync these tests fail: they would notice one that is missing. */
static void a_sync_that_is_left_out_loses_snapshots(void **state)
{
    (void)state;
    faults.file_sync_lies = true;
    assert_true(count_losses(FAULT_POWER_NAMES_STAY) > 0);
    faults.file_sync_lies = false;
    faults.folder_sync_lies = true;
    assert_true(count_losses(FAULT_POWER_NAMES_GO) > 0);
    faults.folder_sync_lies = false;
}

/* Whoever looks while another process saves and removes finds one at every moment, and never an older one than before.
 */
static void one_is_found_while_others_come_and_go(void **state)
{
    (void)state;
    uint64_t seen = 1, looks = 0;
    folder_files(true);
    rig_save_step(3, 1);
    fflush(NULL);
    pid_t child = fork();
    for (uint64_t step = 2; child == 0 && step <= 300; step++) {
        struct weir_snapshot_info info = rig_info(3, step);
        struct weir_error err;
        size_t removed;
        if (!rig_try(&info, 2, NULL, &err) || !weir_snapshot_prune(folder, HASH, 1, &removed, &err))
            _exit(1);
    }
    if (child == 0)
        _exit(FAULT_EXIT);
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        uint64_t step = find_step();
        assert_true(step >= seen);
        assert_int_equal(refusals.count, 0);
        seen = step;
        looks++;
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == FAULT_EXIT);
    assert_int_equal(find_step(), 300);
    assert_true(looks > 0);
}

/* Two chiefs that each believe to be the only one. */
static void of_two_at_once_one_publishes_each_step(void **state)
{
    (void)state;
    pid_t children[2];
    folder_files(true);
    fflush(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        children[i] = fork();
        for (uint64_t step = 1; children[i] == 0 && step <= 40; step++) {
            struct weir_snapshot_info info = rig_info(3, step);
            struct weir_error err;
            char name[64];
            info.replicas = 1 + i;
            snprintf(name, sizeof name, "won-%d-%d", (int)step, (int)i);
            char path[PATH_BYTES];
            if (rig_try(&info, 1, NULL, &err))
                write_bytes(in_folder(name, path), "", 0);
        }
        if (children[i] == 0)
            _exit(FAULT_EXIT);
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == FAULT_EXIT);
    }
    struct weir_snapshot_list list;
    struct weir_error err;
    assert_true(weir_snapshot_list(folder, &list, &err));
    assert_int_equal(list.count, 40);
    for (size_t i = 0; i < list.count; i++) {
        char name[64], path[PATH_BYTES];
        struct weir_snapshot *snapshot = weir_snapshot_open(folder, list.entries[i].name, &err);
        assert_non_null(snapshot);
        uint32_t winner = weir_snapshot_info(snapshot)->replicas - 1;
        for (uint32_t w = 0; w < 2; w++) {
            snprintf(name, sizeof name, "won-%d-%d", (int)list.entries[i].step, (int)w);
            assert_int_equal(access(in_folder(name, path), F_OK) == 0, w == winner);
        }
        weir_snapshot_close(snapshot);
    }
    weir_snapshot_list_free(&list);
    folder_files(true);
}

static void assert_failed_well(enum outcome outcome, const struct weir_error *err)
{
    uint64_t step = find_step();
    assert_true(step == 30 || (outcome == OUTCOME_REFUSED && step == 20));
    if (outcome != OUTCOME_DONE && !strstr(err->text, folder))
        fail_msg("\"%s\" does not name the folder", err->text);
}

static void whatever_call_fails_is_told_and_leaves_a_snapshot(void **state)
{
    (void)state;
    int published, all, told = 0;
    count_calls(&published, &all);
    for (int at = 1; at <= all; at++) {
        struct weir_error err = {.text = ""};
        prepare();
        faults.armed = true;
        faults.kind = FAULT_FAILS;
        faults.at = at;
        faults.error = at % 2 ? EIO : ENOSPC;
        faults.count = faults.file_count = 0;
        enum outcome outcome = save_and_prune(&err);
        faults.armed = false;
        told += outcome != OUTCOME_DONE;
        assert_failed_well(outcome, &err);
        if (outcome == OUTCOME_REFUSED && !strstr(err.text, strerror(faults.error)))
            fail_msg("\"%s\" does not say why", err.text);
        save_again();
    }
    assert_true(told > published - 5);
}

/* From the n-th write on there is no room; when there is again, nothing is in the way. */
static void a_full_disk_leaves_the_older_snapshot_and_no_rubbish(void **state)
{
    (void)state;
    struct weir_error err;
    char path[PATH_BYTES];
    struct weir_snapshot_info info = rig_info(3, 30);
    prepare();
    int before = folder_files(false);
    faults.armed = true;
    faults.kind = FAULT_FAILS;
    faults.at = 4;
    faults.error = ENOSPC;
    faults.count = faults.file_count = 0;
    assert_false(rig_try(&info, 2, NULL, &err));
    faults.armed = false;
    assert_non_null(strstr(err.text, "make room"));
    assert_non_null(strstr(err.text, in_folder("", path)));
    assert_int_equal(folder_files(false), before);
    assert_int_equal(find_step(), 20);
    rig_save_step(3, 30);
    assert_int_equal(find_step(), 30);
}

static void writes_that_are_cut_short_are_gone_on_with(void **state)
{
    (void)state;
    struct weir_error err;
    struct weir_snapshot_info info = rig_info(3, 30);
    folder_files(true);
    faults = (__typeof__(faults)){.armed = true, .stutters = true};
    assert_true(rig_try(&info, 2, NULL, &err));
    faults = (__typeof__(faults)){0};
    rig_found(3, 30, &refusals);
}

/* A file system that can give a file its name in no way that spares another one is found out before training starts. */
static void a_folder_where_a_snapshot_could_not_be_made_is_refused_at_the_start(void **state)
{
    (void)state;
    struct weir_error err;
    folder_files(true);
    faults = (__typeof__(faults)){.armed = true, .no_rename = true};
    assert_true(weir_snapshot_folder_check(folder, &err));
    int calls = faults.count, passed = 0;
    assert_int_equal(folder_files(false), 0);
    for (int at = 1; at <= calls; at++) {
        faults = (__typeof__(faults)){
            .armed = true, .no_rename = true, .kind = FAULT_FAILS, .at = at, .error = at % 2 ? EPERM : ENOSPC};
        bool good = weir_snapshot_folder_check(folder, &err);
        if (!good && (!strstr(err.text, folder) || !strstr(err.text, strerror(faults.error))))
            fail_msg("\"%s\" does not say where and why", err.text);
        passed += good;
    }
    faults = (__typeof__(faults)){0};
    assert_int_equal(passed, 2); /* where only a file of the trial could not be removed */
    assert_int_equal(folder_files(true), 2);
}

/* The order of it all: data before names, parts before the manifest, the manifest before the end of the older ones. */
static void what_is_done_is_done_in_this_order(void **state)
{
    (void)state;
    static const char part[] = "create part\nwrite part\nsync part\nclose part\nrename part\nsync folder\n";
    static const char rest[] = "read part\n"
                               "create manifest\nwrite manifest\nsync manifest\nclose manifest\nrename manifest\n"
                               "sync folder\n"
                               "read manifest\n"
                               "sync folder\nremove manifest\nsync folder\nremove part\n";
    char expected[1024];
    int published, all;
    faults.trace[0] = '\0';
    count_calls(&published, &all);
    snprintf(expected, sizeof expected, "%s%s%s", part, part, rest);
    assert_string_equal(faults.trace, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_done_is_done_in_this_order),
        cmocka_unit_test(wherever_the_process_dies_a_snapshot_is_there),
        cmocka_unit_test(wherever_the_power_goes_a_snapshot_is_there),
        cmocka_unit_test(where_files_cannot_be_renamed_exclusively_all_that_holds_too),
        cmocka_unit_test(a_sync_that_is_left_out_loses_snapshots),
        cmocka_unit_test(whatever_call_fails_is_told_and_leaves_a_snapshot),
        cmocka_unit_test(a_full_disk_leaves_the_older_snapshot_and_no_rubbish),
        cmocka_unit_test(one_is_found_while_others_come_and_go),
        cmocka_unit_test(of_two_at_once_one_publishes_each_step),
        cmocka_unit_test(a_folder_where_a_snapshot_could_not_be_made_is_refused_at_the_start),
        cmocka_unit_test(writes_that_are_cut_short_are_gone_on_with),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
