/* What a child finds in its environment. Private to the library. */
#ifndef WEIR_RUNTIME_PROCESS_ENVIRONMENT_H
#define WEIR_RUNTIME_PROCESS_ENVIRONMENT_H

/* The environment of a child: pointers into the parent's list, the child's `own` (NAME=VALUE, or NAME to unset; ends
 * with NULL, or is NULL) and `lifeline`. The caller frees the array only. */
char **weir_process_environment(const char *const *own, char *lifeline);

#endif
