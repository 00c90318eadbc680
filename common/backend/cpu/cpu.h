/* The CPU as a backend: oneDNN's products and convolutions, and own code for the rest. One thread per context; no
 * OpenMP team is formed. */
#ifndef WEIR_CPU_CPU_H
#define WEIR_CPU_CPU_H

#include "backend/backend.h"

const struct weir_backend *weir_backend_cpu(void);

#endif
