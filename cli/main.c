/* The program `weir`: finds the command and hands over to it. */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "cli/commands.h"
#include "cli/start.h"
#include "cli/title.h"

static int print_and_free(char *text)
{
    fputs(text, stdout);
    free(text);
    return fflush(stdout) == 0 ? WEIR_EXIT_DONE : WEIR_EXIT_FAILED;
}

static int wrong_use(const struct weir_error *err)
{
    fprintf(stderr, "weir: %s\n", err->text);
    return WEIR_EXIT_WRONG_USE;
}

/* gRPC and oneDNN: as of the build, since only one library may call each. */
static int print_version(void)
{
    printf("weir %s\ngRPC core %s, oneDNN %s, libuv %s, jansson %s\nbackends: cpu\n", WEIR_VERSION, WEIR_GRPC_VERSION,
           WEIR_DNNL_VERSION, uv_version_string(), jansson_version_str());
    return fflush(stdout) == 0 ? WEIR_EXIT_DONE : WEIR_EXIT_FAILED;
}

static int help_command(const struct weir_options *options)
{
    enum weir_command command;
    struct weir_error err;
    if (!options->argument)
        return print_and_free(weir_options_overview());
    if (strcmp(options->argument, "job") == 0)
        return print_and_free(weir_job_help());
    if (weir_options_command(options->argument, &command))
        return print_and_free(weir_options_help(command));
    weir_options_unknown_command(options->argument, &err);
    return wrong_use(&err);
}

static int carry_out(const struct weir_options *options)
{
    if (options->help)
        return print_and_free(weir_options_help(options->command));
    switch (options->command) {
    case WEIR_COMMAND_RUN:
        return weir_run_command(options);
    case WEIR_COMMAND_START:
        return weir_start_command(options);
    case WEIR_COMMAND_CHECK:
        return weir_check_command(options);
    case WEIR_COMMAND_CHAOS:
        return weir_chaos_command(options);
    case WEIR_COMMAND_HELP:
        return help_command(options);
    case WEIR_COMMANDS:
        break;
    }
    return WEIR_EXIT_WRONG_USE;
}

/* A job must not die because nobody reads its progress any more, and what is opened later must not become the standard
 * output of a process that was started without one. */
static void secure_standard_files(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of that write */
    int fd;
    do
        fd = open("/dev/null", O_RDWR); /* gets the lowest number that is free */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* gRPC never listens again once an accept failed for want of files; the usual soft limit is for programs with select.
 */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    secure_standard_files();
    raise_file_limit();
    argv = weir_title_init(argc, argv);
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_and_free(weir_options_overview());
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    struct weir_options options;
    struct weir_error err;
    bool ok = weir_options_parse(&options, argc - 1, argv + 1, &err);
    int status = ok ? carry_out(&options) : wrong_use(&err);
    weir_options_free(&options);
    return status;
}
