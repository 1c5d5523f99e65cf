/* A GPU's memory for other processes of the host. */
#ifndef WEIR_CUDA_COLLECTIVE_SHARE_H
#define WEIR_CUDA_COLLECTIVE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/procs/share.h"

struct weir__cuda;

/* Memory that others can open; NULL if there is none. */
void *weir__cuda_share_map(struct weir__cuda *dev, size_t size);
/* False if it is not such memory. */
bool weir__cuda_share_unmap(struct weir__cuda *dev, void *address);
/* The device closes; it is in no group any more. */
void weir__cuda_share_close(struct weir__cuda *dev);

extern const struct weir__sharing weir__cuda_sharing;

#endif
