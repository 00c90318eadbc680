/* Where the roles of a local cluster listen, and what they are told about it. */
#ifndef WEIR_CLI_PORTS_H
#define WEIR_CLI_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

/* Fills ports[count] with different ports that are free on 127.0.0.1 at this moment. */
bool weir_ports_find(uint16_t *ports, size_t count, struct weir_error *err);

/* TF_CONFIG for one role of a cluster on 127.0.0.1: one chief at ports[0], then `ps` parameter servers, then `workers`
 * workers. As "TF_CONFIG=...", for an environment; the caller frees it. */
char *weir_ports_tf_config(const uint16_t *ports, uint32_t ps, uint32_t workers, enum weir_role role, uint32_t index);

#endif
