/* Host memory for large results, whose pages are kept from one call to the next: memory that is
 * fresh from the system costs a page fault for each 4 KiB when it is written. It belongs to no
 * device, so a result may outlive all of them. */
#ifndef WEIRPY_RESULTS_MEMORY_H
#define WEIRPY_RESULTS_MEMORY_H

#include <stddef.h>

struct span;

/* At least `size` bytes, aligned to 4096; NULL without memory. threads  any, GIL or not. */
struct span *result_memory_take(size_t size);
void *result_memory_address(const struct span *s);
/* threads  any, GIL or not. */
void result_memory_give(struct span *s);

/* Gives the system what nobody uses. */
void result_memory_trim(void);

struct result_memory {
    size_t used;     /* bytes of results that live */
    size_t kept;     /* free bytes that may have pages */
    size_t reserved; /* bytes of the address space */
};
void result_memory_stats(struct result_memory *out);

/* Once, before all else. */
void result_memory_init(void);

#endif
