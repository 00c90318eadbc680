/* Memory that is there or the process ends: weir sizes its memory at start, and says what it could not get, in the log,
 * and exits with 1. */
#ifndef WEIR_BASE_MEMORY_H
#define WEIR_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed; `what` names it in the message when there is none. Free with free(). */
void *weir_alloc(size_t count, size_t size, const char *what);

/* Zeroed, at a multiple of 64 bytes (of 2 MiB, with huge pages advised, from 4 MiB on). Free with free(). */
void *weir_alloc_tensor(size_t bytes, const char *what);

/* The physical memory of this machine in bytes; UINT64_MAX if the system does not tell. */
uint64_t weir_memory_of_machine(void);

/* memcpy for what is larger than the caches and not read soon: the copy goes to memory past them, where the processor
 * can. Other threads see it once they are told, as with memcpy. The two may not overlap. */
void weir_copy_past_caches(void *to, const void *from, size_t bytes);

/* A copy of the text. Free with free(). */
char *weir_strdup(const char *text);

#endif
