/* `weir run` with roles that only play: this program is also its children's, and WEIR_TEST_PLAY names the piece. */
#include "cli/commands.h"
#include "cli/live.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "cli/ports.h"
#include "cli/progress.h"
#include "runtime/process.h"
#include "screen.h"
#include "tell.h"

#define LINES 300

static char folder[] = "/tmp/weir-run-XXXXXX";

/* ---- the players: a role each, told by TF_CONFIG as a real one */

static char role_name[32];
static struct weir_cluster cluster;

static bool is_role(const char *name)
{
    return strcmp(role_name, name) == 0;
}

/* Blocks until the player that took the baton first has died. */
static void wait_for_the_end_of_another(void)
{
    struct pollfd none = {.fd = -1};
    while (access("baton-taken", F_OK) != 0)
        poll(&none, 1, 5);
    int baton = open("baton", O_RDWR | O_CREAT, 0600);
    flock(baton, LOCK_EX);
}

static void take_the_baton(void)
{
    int baton = open("baton", O_RDWR | O_CREAT, 0600);
    flock(baton, LOCK_EX);
    close(open("baton-taken", O_RDWR | O_CREAT, 0600));
}

static int play_good(void)
{
    fprintf(stderr, "%s of %zu at %s\n", role_name, cluster.task_count,
            weir_cluster_find(&cluster, cluster.self_role, cluster.self_index)->address);
    printf(is_role("chief/0") ? "the result\n" : "%s out of turn\n", role_name);
    return 0;
}

/* Blocks until the run has said or passed on these words. */
static void wait_for_words(const char *words)
{
    struct pollfd none = {.fd = -1};
    char text[65536] = "";
    while (!strstr(text, words)) {
        poll(&none, 1, 5);
        read_back("err", text, sizeof text);
    }
}

/* The line comes after the frame, so who reads it in what the run passed on knows that the run has read that, too. */
static void say_that_all_have_joined(void)
{
    weir_live_tell_joined(STDERR_FILENO);
    fprintf(stderr, "all are there\n");
}

static int play_death(void)
{
    if (is_role("chief/0"))
        say_that_all_have_joined();
    if (is_role("ps/0")) {
        wait_for_words("all are there");
        take_the_baton();
        raise(SIGKILL);
    }
    wait_for_the_end_of_another();
    return 1;
}

/* worker/1 fails once the job has begun, in a way that stays. */
static int fail_for_good(void)
{
    if (is_role("chief/0"))
        say_that_all_have_joined();
    wait_for_words("all are there");
    return is_role("worker/1") ? 2 : 0;
}

static int play_a_loss(void)
{
    int status = fail_for_good();
    if (status == 0)
        wait_for_words("it is not started again");
    if (is_role("chief/0"))
        printf("the result\n");
    return status;
}

/* And later the others fail for a reason of their own. */
static int play_a_loss_and_a_failure(void)
{
    int status = fail_for_good();
    if (status == 0)
        wait_for_words("it is not started again");
    return status ? status : 1;
}

static int play_a_loss_too_many(void)
{
    int status = fail_for_good();
    while (status == 0)
        pause();
    return status;
}

/* Nobody else would ever miss worker/1. */
static int play_early_death(void)
{
    if (is_role("worker/1"))
        return 1;
    for (;;)
        pause();
}

/* All find the same fault, and the first that ends stops the others. */
static int play_wrong_use(void)
{
    return 2;
}

static int play_lines(void)
{
    weir_log_setup(WEIR_LOG_INFO, false, role_name);
    if (!is_role("chief/0")) {
        for (int i = 0; i < LINES; i++)
            weir_log_info("line %d", i);
        return 0;
    }
    weir_progress_start(weir_progress_choose(false));
    struct weir_progress progress = {.phase = WEIR_PROGRESS_TRAINING,
                                     .epoch = 1,
                                     .epochs = 1,
                                     .steps_per_epoch = LINES,
                                     .values = {{"loss", 1}},
                                     .value_count = 1};
    for (uint64_t i = 1; i <= LINES; i++) {
        progress.step = progress.samples = i;
        progress.epoch_ended = i == LINES;
        weir_progress_update(&progress, i * 200000000);
    }
    weir_progress_end();
    printf("the result\n");
    return 0;
}

/* Leaves a file behind so that the test knows that it got SIGTERM, and not SIGINT. */
static int play_until_told(void)
{
    sigset_t signals;
    int got;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    fprintf(stderr, "ready\n");
    sigwait(&signals, &got);
    return 143;
}

static int play(void)
{
    static const struct {
        const char *name;
        int (*play)(void);
    } pieces[] = {{"good", play_good},
                  {"death", play_death},
                  {"early death", play_early_death},
                  {"wrong use", play_wrong_use},
                  {"lines", play_lines},
                  {"until told", play_until_told},
                  {"a loss", play_a_loss},
                  {"a loss too many", play_a_loss_too_many},
                  {"a loss and a failure", play_a_loss_and_a_failure}};
    const char *piece = getenv("WEIR_TEST_PLAY");
    struct weir_problems problems = {0};
    if (!piece || !weir_lifeline_watch() || !weir_cluster_parse(&cluster, getenv("TF_CONFIG"), &problems))
        return 99;
    snprintf(role_name, sizeof role_name, "%s/%u", weir_role_names[cluster.self_role], cluster.self_index);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (strcmp(pieces[i].name, piece) == 0) {
            int status = pieces[i].play();
            fflush(NULL);
            return status;
        }
    return 99;
}

/* ---- the tests */

static char command_line[256]; /* for the child on the terminal */

static int run_it(void)
{
    return obey(command_line, weir_run_command);
}

static void prepare(const char *piece)
{
    setenv("WEIR_TEST_PLAY", piece, 1);
    unlink("baton");
    unlink("baton-taken");
}

static struct told *play_run(const char *piece, const char *line)
{
    prepare(piece);
    return tell(line, weir_run_command);
}

static void a_good_job_gives_the_chiefs_result_only(void **state)
{
    (void)state;
    struct told *told = play_run("good", "run job.json --workers 2 --ps 3");
    assert_int_equal(told->status, 0);
    assert_string_equal(told->out, "the result\n");
    const char *const roles[] = {"chief/0", "ps/0", "ps/1", "ps/2", "worker/0", "worker/1"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s of 6 at 127.0.0.1:", roles[i]);
        assert_says(told->err, line);
    }
    assert_says(told->err, "worker/1 out of turn\n");
    free(told);
}

static void ports_follow_the_first_one(void **state)
{
    (void)state;
    struct told *told = play_run("good", "run job.json --ps 2 --port 2222");
    assert_int_equal(told->status, 0);
    assert_says(told->err, "chief/0 of 4 at 127.0.0.1:2222\n");
    assert_says(told->err, "ps/0 of 4 at 127.0.0.1:2223\n");
    assert_says(told->err, "ps/1 of 4 at 127.0.0.1:2224\n");
    assert_says(told->err, "worker/0 of 4 at 127.0.0.1:2225\n");
    free(told);
}

static void who_failed_first_is_named(void **state)
{
    (void)state;
    struct told *told = play_run("death", "run job.json --workers 2 --ps 1");
    assert_int_equal(told->status, 1);
    assert_says(told->err, "the job failed: ps/0 ended with signal 9 (Killed), and then 3 more failed");
    assert_says(told->err, "run warning: worker/1 ended with exit status 1");
    assert_string_equal(told->out, "");
    free(told);
}

static void who_fails_before_all_have_joined_ends_the_run_at_once(void **state)
{
    (void)state;
    struct told *told = play_run("early death", "run job.json --workers 2 --ps 1");
    assert_int_equal(told->status, 1);
    assert_says(told->err, "the job failed: worker/1 ended with exit status 1");
    assert_null(strstr(told->err, "still running"));
    free(told);
}

static void the_job_goes_on_without_a_worker_that_is_given_up(void **state)
{
    (void)state;
    struct told *told = play_run("a loss", "run job.json --workers 2 --ps 1");
    assert_int_equal(told->status, 0);
    assert_says(told->err, "run warning: worker/1 ended with exit status 2, which another start does not mend: it is "
                           "not started again");
    assert_null(strstr(told->err, "fail"));
    assert_string_equal(told->out, "the result\n");
    free(told);
}

static void who_was_given_up_before_is_not_the_cause(void **state)
{
    (void)state;
    struct told *told = play_run("a loss and a failure", "run job.json --workers 2 --ps 1");
    assert_int_equal(told->status, 1);
    assert_says(told->err, "worker/1 ended with exit status 2, which another start does not mend");
    assert_says(told->err, "the job failed: ");
    assert_null(strstr(told->err, "the job failed: worker/1"));
    free(told);
}

/* Nobody waits for workers that nobody will start. */
static void with_too_few_workers_left_the_job_ends(void **state)
{
    (void)state;
    struct told *told = play_run("a loss too many", "run job.json --workers 2 --ps 1 --set cluster.min_workers=2 "
                                                    "--set cluster.lease_ms=200");
    assert_int_equal(told->status, 2);
    assert_says(told->err, "run error: the job can't go on: of 2 workers, 1 can still be there, and "
                           "cluster.min_workers is 2");
    assert_says(told->err, "the job failed: worker/1 ended with exit status 2");
    assert_string_equal(told->out, "");
    free(told);
}

static void wrong_use_that_a_role_finds_is_the_runs(void **state)
{
    (void)state;
    struct told *told = play_run("wrong use", "run job.json --workers 1");
    assert_int_equal(told->status, 2);
    free(told);
}

static void a_bad_job_is_told_once_and_nothing_starts(void **state)
{
    (void)state;
    struct told *told = play_run("good", "run job.json --workers 2 --set fit.epcohs=3");
    assert_int_equal(told->status, 2);
    assert_says(told->err, "fit.epcohs");
    const char *first = strstr(told->err, "fit.epcohs");
    assert_null(strstr(first + 1, "fit.epcohs"));
    assert_null(strstr(told->err, "at 127.0.0.1"));
    free(told);
}

/* The chief's live line, 300 log lines of each of three roles, one epoch and the result share a terminal. */
static void on_a_terminal_nothing_mixes(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    prepare("lines");
    snprintf(command_line, sizeof command_line, "run job.json --workers 2 --ps 1");
    struct screen *screen = show(run_it, 100);
    size_t lines = 0, others = 0;
    for (size_t i = 0; i < screen->row; i++) {
        int number, end = 0;
        char role[32];
        int read = sscanf(screen->rows[i], "%*sZ %31s info: line %d%n", role, &number, &end);
        if (read < 2)
            read = sscanf(screen->rows[i], "%*s %31s info: line %d%n", role, &number, &end);
        if (read == 2 && screen->rows[i][end] == '\0')
            lines++;
        else if (strncmp(screen->rows[i], "epoch 1/1: loss 1.0000", 22) == 0 ||
                 strcmp(screen->rows[i], "the result") == 0)
            others++;
        else
            fail_msg("row %zu: %s", i, screen->rows[i]);
    }
    assert_int_equal(screen->status, 0);
    assert_int_equal(lines, 3 * LINES);
    assert_int_equal(others, 2);
    assert_string_equal(screen->rows[screen->row], "");
    free(screen);
}

/* As the terminal does it: SIGINT to parent and children. */
static void an_interrupt_drains_all_roles(void **state)
{
    (void)state;
    prepare("until told");
    snprintf(command_line, sizeof command_line, "run job.json --workers 2 --ps 1");
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(run_it());
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    char line[256];
    int ready = 0, drained = 0;
    while (fgets(line, sizeof line, from)) {
        ready += strcmp(line, "ready\n") == 0;
        drained += strstr(line, "interrupted: stopping all roles") != NULL;
        assert_null(strstr(line, "the job failed"));
        if (ready == 4 && drained == 0)
            kill(-child, SIGINT), ready = 0;
    }
    fclose(from);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 143);
    assert_int_equal(drained, 1);
}

static void free_ports_are_all_different(void **state)
{
    (void)state;
    uint16_t ports[300];
    struct weir_error err;
    assert_true(weir_ports_find(ports, 300, &err));
    for (size_t i = 0; i < 300; i++) {
        assert_true(ports[i] >= 1024);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(ports[i], ports[j]);
    }
}

static int write_file(const char *name, const char *bytes, size_t count)
{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count)
        return -1;
    return fclose(file);
}

static int enter_folder(void **state)
{
    (void)state;
    static const char x[] = "\0\0\10\2\0\0\0\4\0\0\0\2"
                            "12345678",
                      y[] = "\0\0\10\1\0\0\0\4\0\1\0\1";
    if (!mkdtemp(folder) || chdir(folder) != 0 || write_file("x", x, sizeof x - 1) || write_file("y", y, sizeof y - 1))
        return -1;
    FILE *job = fopen("job.json", "w");
    if (!job)
        return -1;
    fprintf(job, "{\"model\": {\"class_name\": \"Sequential\", \"config\": {\"layers\": [\n"
                 "  {\"class_name\": \"InputLayer\", \"config\": {\"name\": \"i\", \"batch_shape\": [null, 2]}},\n"
                 "  {\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 2}}]}},\n"
                 " \"data\": {\"train\": {\"format\": \"idx\", \"x\": \"x\", \"y\": \"y\"}},\n"
                 " \"compile\": {\"loss\": \"sparse_categorical_crossentropy\"}}\n");
    return fclose(job);
}

static int leave_folder(void **state)
{
    (void)state;
    const char *const files[] = {"job.json", "x", "y", "out", "err", "baton", "baton-taken"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "start") == 0)
        return play();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_job_gives_the_chiefs_result_only),
        cmocka_unit_test(ports_follow_the_first_one),
        cmocka_unit_test(who_failed_first_is_named),
        cmocka_unit_test(who_fails_before_all_have_joined_ends_the_run_at_once),
        cmocka_unit_test(the_job_goes_on_without_a_worker_that_is_given_up),
        cmocka_unit_test(who_was_given_up_before_is_not_the_cause),
        cmocka_unit_test(with_too_few_workers_left_the_job_ends),
        cmocka_unit_test(wrong_use_that_a_role_finds_is_the_runs),
        cmocka_unit_test(a_bad_job_is_told_once_and_nothing_starts),
        cmocka_unit_test(on_a_terminal_nothing_mixes),
        cmocka_unit_test(an_interrupt_drains_all_roles),
        cmocka_unit_test(free_ports_are_all_different),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
