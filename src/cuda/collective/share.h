/* GPU memory that is shared with other processes of the host. */
#ifndef WEIR_CUDA_COLLECTIVE_SHARE_H
#define WEIR_CUDA_COLLECTIVE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/procs/share.h"

struct weir__cuda;

/* Allocates memory that other processes can open; NULL on failure. */
void *weir__cuda_share_map(struct weir__cuda *dev, size_t size);
/* Frees it; false if the address is not from weir__cuda_share_map. */
bool weir__cuda_share_unmap(struct weir__cuda *dev, void *address);
/* Called when the device closes; it is in no group any more. */
void weir__cuda_share_close(struct weir__cuda *dev);

extern const struct weir__sharing weir__cuda_sharing;

#endif
