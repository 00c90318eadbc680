#include <stdio.h>

#include "cli/start.h"

/* Holds the place of the roles until they are there. */
static int not_there(const struct weir_options *options)
{
    fprintf(stderr, "weir: %s: this build has no roles yet\n", options->argument);
    return 1;
}

int weir_start_command(const struct weir_options *options)
{
    return not_there(options);
}

int weir_start_local(const struct weir_options *options)
{
    return not_there(options);
}
