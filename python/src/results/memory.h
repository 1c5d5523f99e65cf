/* Host memory for large results. Its pages are kept from one call to the next: fresh memory costs a
 * page fault for each 4 KiB that is written. It belongs to no device, so a result may outlive all
 * devices. */
#ifndef WEIRPY_RESULTS_MEMORY_H
#define WEIRPY_RESULTS_MEMORY_H

#include <stddef.h>

struct span;

/* Allocates at least `size` bytes, aligned to 4096; NULL if out of memory.
 * threads  any, with or without the GIL. */
struct span *result_memory_take(size_t size);
void *result_memory_address(const struct span *s);
/* Frees the span.
 * threads  any, with or without the GIL. */
void result_memory_give(struct span *s);

/* Returns all free memory to the system. */
void result_memory_trim(void);

struct result_memory {
    size_t used;     /* bytes of live results */
    size_t kept;     /* free bytes that may have pages */
    size_t reserved; /* bytes of address space */
};
void result_memory_stats(struct result_memory *out);

/* Call once, before the other functions. */
void result_memory_init(void);

#endif
