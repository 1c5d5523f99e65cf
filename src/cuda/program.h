/* A plan's program as this driver keeps it. */
#ifndef WEIR_CUDA_PROGRAM_H
#define WEIR_CUDA_PROGRAM_H

#include "cuda/cuda.h"

struct weir__cuda_item {
    bool is_wait;
    int lane, item; /* what is waited for */
    int height;     /* kernels from here to the end, along the longest chain */
    struct weir__kernel kernel;
    unsigned char *args;  /* the kernel's */
    weir__cu_event event; /* after it, if some other lane waits for it; while capturing */
    bool awaited;
};

struct weir__cuda_lane {
    struct weir__cuda_item *items;
    int nitems;
    void *workspace;
    int at;              /* while lining up: the next item */
    weir_stream *stream; /* of the last run, */
    uint64_t base;       /* and its last command before it */
};

struct weir__cuda_place {
    int lane, item;
};

struct weir__program {
    struct weir__program *next; /* of the device's */
    struct weir__cuda *dev;
    uint32_t id;
    int nlanes;
    bool fallible;    /* some kernel may fail */
    bool meets;       /* some are collectives: it is run node by node */
    bool stale;       /* a kernel has changed since the graph was captured */
    bool rehearsed;   /* its products have their ways, */
    uint64_t company; /* chosen under this number */
    unsigned epoch;   /* of the cores then */
    weir__cu_exec exec;
    struct weir__cuda_place *order; /* of capturing */
    int norder;
    struct weir__cuda_lane lanes[];
};

/* The program as a graph that the caller destroys. With `into` its products write there, and
 * kernels that do nothing stand for the rest. (L) */
weir_status weir__cuda_program_graph(struct weir__program *p, char *into, weir__cu_graph *out);

/* order.c: lines up the items, lane after lane. */
weir_status weir__cuda_order(struct weir__program *p);
/* The same, or the longest way first. */
void weir__cuda_line_up(struct weir__program *p, bool by_height);

/* rehearse.c: chooses the ways of the program's products and its order, once. (L) */
void weir__cuda_rehearse(struct weir__program *p);

#endif
