#ifndef WEIR_TRACE_RECORD_KERNEL_NAMES_H
#define WEIR_TRACE_RECORD_KERNEL_NAMES_H

#include <stdbool.h>

/* The kernel moves data between devices, as its name tells: of NCCL, HCCL, NVSHMEM or DeepEP, or a
 * collective by its common name. */
bool weir__trace_is_comm(const char *name);

/* A kernel's name as people say it, at most WEIR__SHORT_NAME bytes: no return type, namespaces,
 * parameters, and one template argument (short_name.c). Other names are only cut. */
enum { WEIR__SHORT_NAME = 56 };
struct weir__short_name {
    char text[512];
};
struct weir__short_name weir__shorten_name(const char *name);

#endif
