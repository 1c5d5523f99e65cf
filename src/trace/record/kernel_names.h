#ifndef WEIR_TRACE_RECORD_KERNEL_NAMES_H
#define WEIR_TRACE_RECORD_KERNEL_NAMES_H

#include <stdbool.h>

/* The kernel moves data between devices, as its name tells: of NCCL, HCCL, NVSHMEM or DeepEP, or a
 * collective by its common name. */
bool weir__trace_is_comm(const char *name);

/* A kernel's name as people say it: no return type, namespaces, parameters, and one template
 * argument (short_name.c). Other names stay. What is to be grouped is grouped by it. */
enum { WEIR__SHORT_NAME = 56 };
struct weir__short_name {
    char text[512];
};
struct weir__short_name weir__plain_name(const char *name);
/* At most WEIR__SHORT_NAME bytes of a name, without its middle. */
struct weir__short_name weir__cut_name(const char *name);
/* Both. */
struct weir__short_name weir__shorten_name(const char *name);

#endif
