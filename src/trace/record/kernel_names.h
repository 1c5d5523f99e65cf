#ifndef WEIR_TRACE_RECORD_KERNEL_NAMES_H
#define WEIR_TRACE_RECORD_KERNEL_NAMES_H

#include <stdbool.h>

/* True if the kernel's name says that it moves data between devices: a kernel of NCCL, HCCL,
 * NVSHMEM or DeepEP, or a collective under its common name. */
bool weir__trace_is_comm(const char *name);

/* A C++ kernel's short name: without return type, namespaces and parameters, and with at most one
 * template argument (short_name.c). Other names stay as they are. Operators are grouped by it. */
enum { WEIR__SHORT_NAME = 56 };
struct weir__short_name {
    char text[512];
};
struct weir__short_name weir__plain_name(const char *name);
/* Cuts a name to at most WEIR__SHORT_NAME bytes by removing its middle. */
struct weir__short_name weir__cut_name(const char *name);
/* weir__plain_name, then weir__cut_name. */
struct weir__short_name weir__shorten_name(const char *name);

#endif
