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

/* A node waits until `position` of `stream` is over. */
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
    struct weir__text notes; /* what automatic streams expect to gain, a line for each */

    /* sync.c: waits of node v are syncs[sync_first[v] .. sync_first[v+1]-1]; the caller's
     * stream waits at the end for joins[0 .. njoins-1]. */
    int *sync_first;
    struct weir__sync *syncs;
    int nsyncs;
    struct weir__sync *joins;
    int njoins;

    /* super.c: by live node, the first node of the launch it is part of */
    int *leader;
    bool *chunked; /* fuse.c: by leader: its nodes run piece by piece */
    int64_t
        *rows; /* fuse.c: by leader, if a piece is some rows: how many they have in common; or 0 */
    bool *absorbs; /* fuse.c: by leader: its last node makes what the others give as it reads it */
    int8_t *slot;  /* fuse.c: by value: where a chunked launch keeps it, and nobody else; or -1 */

    /* cores.c: by node, the limit that scopes and the graph set; 0 where they set none */
    weir_cores *limit;

    /* memory.c: bytes of each value in the arena; -1 if it has none there (inputs,
     * constants, outputs, values nobody needs). Scratch of node v: scratch[v]. */
    int64_t *offset;         /* by value */
    int64_t *scratch_offset; /* by node */
    int64_t *scratch_size;
    size_t arena_bytes, lower_bound;
};

/* Mode max-autotune: weir may run nodes in another way than the program issued them. */
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
/* A count among the options of a super kernel; 0 if it is not there. */
int weir__super_count(const struct weir__super_kernel *k, const char *key);
/* Before streams are assigned: puts nodes on one stream where stream-fusion asks for it. */
void weir__super_fuse_streams(weir_graph *g);
weir_status weir__pass_cores(struct weir__compile *c); /* cores.c */
/* The limits of a whole graph from "24|48"; NULL sets none.
 * returns  WEIR_ERANGE naming what the device has. */
weir_status weir__graph_cores(const weir_graph *g, const char *text, weir_cores *out);
weir_status weir__pass_memory(struct weir__compile *c); /* memory.c */
/* What node v needs for the most cores that it may ever get. */
int64_t weir__scratch_bytes(const struct weir__compile *c, int v);
/* check.c: re-proves by other means that every edge is ordered and that values which
 * share bytes are never alive at once. returns WEIR_EINTERNAL with what is wrong. */
weir_status weir__pass_check(const struct weir__compile *c);
/* join.c: whether nodes, of which the slots are given, can be one launch on a device that compiles
 * its kernels. */
bool weir__nodes_join(const struct weir__compile *c, const int *nodes, int n);
/* Whether the node's result needs memory: it does unless one launch keeps it for itself. */
static inline bool weir__node_is_kept(const struct weir__compile *c, const struct weir__node *n)
{
    return !n->nout || c->slot[n->out[0].value] < 0;
}
/* Its element i is at position i of what the node gives. */
static inline bool weir__operand_is_flat(const struct weir__operand *o, const struct weir__node *n)
{
    const struct weir__view *whole = &weir__node_result(n)->view;

    return o->view.ndim == whole->ndim && weir__view_is_contiguous(&o->view) &&
           !memcmp(o->view.shape, whole->shape, (size_t)whole->ndim * sizeof *whole->shape);
}
/* fuse.c: which nodes may become one launch, memory permitting: before[v], 0 so far, is how many
 * nodes right before v on its stream it ends a run with; less than 0 in a run by rows. */
void weir__fuse_runs(const struct weir__compile *c, int *before);
/* fuse.c: elementwise chains of what is left, once memory is placed; on the host they run piece by
 * piece, of so many elements: with a few operands it fits the first-level cache. */
#define WEIR__PIECE 2048
/* Limits of what a launch keeps for itself: this many values at once; of a launch by rows this many
 * bytes of a row. */
#define WEIR__FUSE_SLOTS 16
#define WEIR__ROW_SLOT ((int64_t)1 << 17)
/* absorb.c: how many nodes right before v on its stream become one launch with v, which makes their
 * results itself. */
#define WEIR__ABSORBED_MOST 2
int weir__absorbed_before(const struct weir__compile *c, int v);
weir_status weir__pass_fuse(struct weir__compile *c);
/* Whether launches that run piece by piece and have a node with changed[] may still: sizes are
 * others than when they were decided. */
weir_status weir__fuse_holds(struct weir__compile *c, const bool *changed, bool *holds);
void weir__compile_fini(struct weir__compile *c);

static inline int weir__node_at(const struct weir__compile *c, int stream, int position)
{
    return c->order[c->streams[stream].first + position];
}

/* Whether everything in node a is over before node b starts, by stream order and
 * syncs. reach.c: O(nodes x streams) bytes, built once per compile. */
struct weir__reach {
    int nstreams;
    int *clock; /* clock[v * nstreams + s]: positions of s below this are over before v */
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

/* The value lives in the arena: made by a live node, no output. */
bool weir__value_in_arena(const struct weir__compile *c, int value);

#endif
