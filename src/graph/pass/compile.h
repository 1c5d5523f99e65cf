/* From a graph to a plan: the state that passes work on, in this order:
 *
 *   fold → live → streams → sync → super → cores → memory → check → fuse → plan
 *
 * Each pass has one file and one job, reads what earlier ones decided and writes its
 * own part. Positions count from 0 within a stream, in program order.
 */
#ifndef WEIR_GRAPH_PASS_COMPILE_H
#define WEIR_GRAPH_PASS_COMPILE_H

#include <string.h>

#include "graph/build/graph.h"

/* A node waits until `position` of `stream` has completed. */
struct weir__sync {
    int stream, position;
};

struct weir__compile {
    const weir_graph *g;
    weir_compile_options options;
    struct weir__edges edges;
    bool *live; /* by node: false if nothing needs its result; such nodes have no stream */

    /* streams.c: stream 0 is the caller's; the others are tagged streams. */
    int nstreams;
    struct weir__plan_stream {
        const char *tag; /* NULL for the caller's */
        int priority;
        int first; /* its nodes are order[first .. first+nnodes-1] */
        int nnodes;
    } * streams;
    int *stream, *position;  /* by node; -1 where not live */
    int *order;              /* live nodes by stream, then position */
    struct weir__text notes; /* what automatic streams are expected to gain, one line each */

    /* sync.c: waits of node v are syncs[sync_first[v] .. sync_first[v+1]-1]; the caller's
     * stream waits at the end for joins[0 .. njoins-1]. */
    int *sync_first;
    struct weir__sync *syncs;
    int nsyncs;
    struct weir__sync *joins;
    int njoins;

    /* super.c: by live node, the first node of the launch that it belongs to */
    int *leader;
    bool *chunked; /* fuse.c: by leader: its nodes run piece by piece */
    int64_t *rows; /* fuse.c: by leader, for a launch by rows: the number of rows its members have
                    * in common; else 0 */
    bool *absorbs; /* fuse.c: by leader: its last node computes the other nodes' results as it reads
                    * them */
    int8_t *slot;  /* fuse.c: by value: the slot in which a chunked launch keeps a value that only
                    * it uses; else -1 */

    /* cores.c: by node, the limit from scopes and the graph; 0: no limit */
    weir_cores *limit;

    /* memory.c: offset of each value in the arena; -1 if it is not there (inputs, constants,
     * outputs, values that nobody needs). Scratch of node v: scratch_offset[v]. */
    int64_t *offset;         /* by value */
    int64_t *scratch_offset; /* by node */
    int64_t *scratch_size;
    size_t arena_bytes, lower_bound;
};

/* Mode max-autotune: weir may run nodes differently from how the program issued them. */
static inline bool weir__is_autotuned(const weir_compile_options *options)
{
    return options->mode == WEIR_COMPILE_MAX_AUTOTUNE;
}

weir_status weir__pass_live(struct weir__compile *c);    /* live.c */
weir_status weir__pass_streams(struct weir__compile *c); /* streams.c */
/* returns  WEIR_ECONFLICT for single_stream against a label, with both names. */
weir_status weir__streams_check(const weir_graph *g, const weir_compile_options *options);
weir_status weir__pass_sync(struct weir__compile *c);  /* sync.c */
weir_status weir__pass_super(struct weir__compile *c); /* super.c */
/* A count among the options of a super kernel; 0 if the option is absent. */
int weir__super_count(const struct weir__super_kernel *k, const char *key);
/* Before streams are assigned: puts nodes on one stream where stream-fusion asks for it. */
void weir__super_fuse_streams(weir_graph *g);
weir_status weir__pass_cores(struct weir__compile *c); /* cores.c */
/* The limits of a whole graph from "24|48"; NULL sets no limit.
 * returns  WEIR_ERANGE naming the device's counts. */
weir_status weir__graph_cores(const weir_graph *g, const char *text, weir_cores *out);
weir_status weir__pass_memory(struct weir__compile *c); /* memory.c */
/* The scratch bytes that node v needs with the largest number of cores it may ever get. */
int64_t weir__scratch_bytes(const struct weir__compile *c, int v);
/* check.c: re-proves by another method that every edge is ordered and that values which share bytes
 * are never alive at once. returns WEIR_EINTERNAL with what is wrong. */
weir_status weir__pass_check(const struct weir__compile *c);
/* join.c: whether the nodes, whose slots are assigned, can be one launch on a device that compiles
 * its kernels. */
bool weir__nodes_join(const struct weir__compile *c, const int *nodes, int n);
/* Whether the node's result needs memory: false if its launch keeps the result in a slot. */
static inline bool weir__node_is_kept(const struct weir__compile *c, const struct weir__node *n)
{
    return !n->nout || c->slot[n->out[0].value] < 0;
}
/* Whether element i of the operand is at the position of element i of the node's result. */
static inline bool weir__operand_is_flat(const struct weir__operand *o, const struct weir__node *n)
{
    const struct weir__view *whole = &weir__node_result(n)->view;

    return o->view.ndim == whole->ndim && weir__view_is_contiguous(&o->view) &&
           !memcmp(o->view.shape, whole->shape, (size_t)whole->ndim * sizeof *whole->shape);
}
/* fuse.c: which nodes may become one launch if memory allows. before[v], initially 0, becomes the
 * number of nodes right before v on its stream that form a launch which v ends; negative for a
 * launch by rows. */
void weir__fuse_runs(const struct weir__compile *c, int *before);
/* fuse.c: fuses elementwise chains among the remaining nodes, after memory is placed. On the host
 * they run in pieces of this many elements: with a few operands a piece fits the first-level
 * cache. */
#define WEIR__PIECE 2048
/* Limits on the values that a launch keeps for itself: this many values at once; in a launch by
 * rows this many bytes of a row. */
#define WEIR__FUSE_SLOTS 16
#define WEIR__ROW_SLOT ((int64_t)1 << 17)
/* absorb.c: the number of nodes right before v on its stream that become one launch with v, which
 * computes their results itself. */
#define WEIR__ABSORBED_MOST 2
int weir__absorbed_before(const struct weir__compile *c, int v);
weir_status weir__pass_fuse(struct weir__compile *c);
/* Sets *holds if launches that run piece by piece and contain a node with changed[] are still
 * possible with the new sizes. */
weir_status weir__fuse_holds(struct weir__compile *c, const bool *changed, bool *holds);
void weir__compile_fini(struct weir__compile *c);

static inline int weir__node_at(const struct weir__compile *c, int stream, int position)
{
    return c->order[c->streams[stream].first + position];
}

/* Whether everything in node a completes before node b starts, by stream order and syncs. reach.c:
 * O(nodes x streams) bytes, built once per compile. */
struct weir__reach {
    int nstreams;
    int *clock; /* clock[v * nstreams + s]: positions of s below this complete before v starts */
};
weir_status weir__reach_init(struct weir__reach *r, const struct weir__compile *c);
void weir__reach_fini(struct weir__reach *r);
static inline void weir__reach_max(int *clock, const int *other, int nstreams)
{
    for (int s = 0; s < nstreams; s++)
        if (clock[s] < other[s])
            clock[s] = other[s];
}
static inline const int *weir__reach_clock(const struct weir__reach *r, int v)
{
    return r->clock + (size_t)v * (size_t)r->nstreams;
}
static inline bool weir__reach_before(const struct weir__reach *r, const struct weir__compile *c,
                                      int a, int b)
{
    return c->position[a] < weir__reach_clock(r, b)[c->stream[a]];
}

/* Whether the value is in the arena: a live node makes it and it is not an output. */
bool weir__value_in_arena(const struct weir__compile *c, int value);

#endif
