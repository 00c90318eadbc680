/* The title of the process, as ps and top show it: `weir start job.json worker/0`.
 *
 * The kernel shows the memory in which it laid the arguments, and beyond it, if it is full, that of the environment
 * (proc(5), /proc/PID/cmdline). So both are copied away first, and the title may be as long as both.
 */
#ifndef WEIR_CLI_TITLE_H
#define WEIR_CLI_TITLE_H

/* First thing in main, before other threads: returns the arguments to use from then on, and moves the environment. They
 * live as long as the process. */
char **weir_title_init(int argc, char **argv);

/* Sets the title, cut to fit; without weir_title_init, nothing. One thread at a time. */
void weir_title_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
