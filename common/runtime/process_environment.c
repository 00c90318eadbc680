#include "runtime/process_environment.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

extern char **environ;

char **weir_process_environment(const char *const *own, char *lifeline)
{
    size_t own_count = 0, inherited = 0, at = 0;
    while (own && own[own_count])
        own_count++;
    while (environ[inherited])
        inherited++;
    char **merged = weir_alloc(inherited + own_count + 2, sizeof *merged, "a child's environment");
    for (size_t i = 0; i < inherited; i++) {
        bool replaced = false;
        for (size_t j = 0; j < own_count && !replaced; j++) {
            size_t name = strcspn(own[j], "=");
            replaced = strncmp(environ[i], own[j], name) == 0 && environ[i][name] == '=';
        }
        if (!replaced)
            merged[at++] = environ[i];
    }
    for (size_t j = 0; j < own_count; j++)
        if (strchr(own[j], '='))
            merged[at++] = (char *)own[j]; /* uv_spawn only reads it */
    merged[at] = lifeline;
    return merged;
}
