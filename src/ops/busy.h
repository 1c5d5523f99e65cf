/* Arguments of the operator Kernel: each block keeps its core busy for a given time. */
#ifndef WEIR_OPS_BUSY_H
#define WEIR_OPS_BUSY_H

#include "comm/comm.h"

struct weir__busy {
    double ns;
    int64_t blocks;
};

/* For a Kernel that meets its peers. */
struct weir__busy_part {
    struct weir__meet meet;
    struct weir__busy busy;
};

#endif
