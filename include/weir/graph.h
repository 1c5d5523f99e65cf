/* Graphs: operators captured, built or loaded once, compiled for a device, and run
 * many times at almost no cost.
 *
 *     weir_graph_create(dev, &g);
 *     weir_graph_input(g, "x", WEIR_F32, 2, shape, &x);    a tensor without bytes
 *     weir_graph_begin(g);                                 this thread captures
 *     weir_matmul(x, w, &y);                               w has bytes: a constant
 *     weir_graph_end(g);
 *     weir_graph_output(g, "y", y);
 *     weir_graph_compile(g, NULL, &plan);
 *     weir_plan_run(plan, stream, inputs, 1, outputs, 1);  asynchronous
 *
 * Every edge that crosses streams is synchronised by weir. A plan begins after what
 * is queued on the caller's stream and ends joined to it.
 */
#ifndef WEIR_GRAPH_H
#define WEIR_GRAPH_H

#include "comm.h"
#include "ops.h"
#include "scope.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_graph weir_graph;
typedef struct weir_plan weir_plan;

/* An empty graph for `dev`.
 * threads  one at a time per graph, for all of these. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_create(weir_device *dev, weir_graph **out);
/* Tensors made by the graph must be released before or after, as is convenient. A graph that
 * this thread captures is left first; one that another thread captures must not be destroyed. */
WEIR_API void weir_graph_destroy(weir_graph *graph);

/* A tensor that gets its bytes at each run. Sizes of -1 are dynamic: decided at run. While
 * the graph is built a dynamic size fits another dynamic one and broadcasts with 1; which
 * sizes go together is checked at run. Views of what depends on one are made again for the
 * run's sizes by the calls that made them: slice with negative ends and reshape with -1
 * follow a size, numbers computed from what the tensor shows meanwhile do not.
 * returns  WEIR_EINVAL for a name in use. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_input(weir_graph *graph, const char *name,
                                                    weir_dtype dtype, int ndim,
                                                    const int64_t *shape, weir_tensor **out);

/* Where nodes that are added from now on come from, for people: `module` begins their names
 * ("model.layers.3.mlp/MatMul_12"), which traces, listings, advice and errors show, and `source`,
 * such as "model.py:40", is the attribute "_source" of files. NULL: nowhere, as at first. returns
 * WEIR_ENOMEM. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_describe(weir_graph *graph, const char *module,
                                                       const char *source);

/* ---- named sizes ---- */

/* A named size is a number that stands for a size which each run decides, or for an expression of
 * such sizes. It is given in the place of a number: to weir_graph_input as a size, to slice,
 * reshape and expand of the graph's tensors, as a size of what weir_host_run gives, and to
 * weir_graph_size_expr. Meanwhile the graph is built as if
 * it were `example`, at least 0. A run takes its value from the first input that has it as a size,
 * and checks the others. Numbers of one graph mean nothing in another.
 * returns  WEIR_ERANGE for an example out of 0..2^39, or more than 2^20 sizes. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_size(weir_graph *graph, int64_t example,
                                                   int64_t *size);

typedef enum weir_size_op {
    WEIR_SIZE_ADD,
    WEIR_SIZE_MUL,
    WEIR_SIZE_FLOOR_DIV, /* towards minus infinity */
    WEIR_SIZE_MOD,       /* of that division */
    WEIR_SIZE_MIN,
    WEIR_SIZE_MAX,
} weir_size_op;

/* A size computed of two, each a number or a named size.
 * returns  WEIR_EINVAL for a division by 0 in the examples; WEIR_ERANGE as above. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_size_expr(weir_graph *graph, weir_size_op op,
                                                        int64_t a, int64_t b, int64_t *size);

/* Operators of this thread on tensors of the graph's device become nodes until end.
 * returns  WEIR_ESTATE if this thread captures already, or the graph is being captured
 *          by another thread; from end if this thread does not capture this graph. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_begin(weir_graph *graph);
WEIR_API WEIR_MUST_USE weir_status weir_graph_end(weir_graph *graph);

/* The graph this thread captures, or NULL. */
WEIR_API weir_graph *weir_graph_current(void);

/* Names a result. A tensor may have several names: each is a result of its own.
 * returns  WEIR_EINVAL if the tensor is not of this graph or the name is in use. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_output(weir_graph *graph, const char *name,
                                                     weir_tensor *tensor);

/* ---- building without capture ---- */

typedef enum weir_attr_kind {
    WEIR_ATTR_INT,
    WEIR_ATTR_FLOAT,
    WEIR_ATTR_BOOL,
    WEIR_ATTR_STRING,
    WEIR_ATTR_INTS,
} weir_attr_kind;

typedef struct weir_attr {
    const char *name;
    weir_attr_kind kind;
    union {
        int64_t i;
        double f;
        bool b;
        const char *s;
        struct {
            const int64_t *data;
            size_t count;
        } ints;
    } value;
} weir_attr;

/* Adds a node by its operator's name ("MatMul"), with the scopes open on this thread.
 * `name` may be NULL. Absent optional inputs are NULL. New tensors go to out[].
 * returns  WEIR_EINVAL naming an unknown operator or attribute. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_add(weir_graph *graph, const char *op,
                                                  const char *name, const weir_attr *attrs,
                                                  size_t nattrs, weir_tensor *const *in, int nin,
                                                  weir_tensor **out, int nout);

/* ---- files ---- */

/* Reads a graph file (pbtxt). `where` names it in messages; the text need not end in 0.
 * returns  WEIR_EPARSE with line and column. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_load(weir_device *dev, const char *text, size_t size,
                                                   const char *where, weir_graph **out);
WEIR_API WEIR_MUST_USE weir_status weir_graph_load_file(weir_device *dev, const char *path,
                                                        weir_graph **out);

/* The graph as pbtxt or as Graphviz. Free with free(). NULL when out of memory. */
WEIR_API char *weir_graph_dump(const weir_graph *graph);
WEIR_API char *weir_graph_dot(const weir_graph *graph);

WEIR_API size_t weir_graph_node_count(const weir_graph *graph);
WEIR_API size_t weir_graph_input_count(const weir_graph *graph);
WEIR_API size_t weir_graph_output_count(const weir_graph *graph);

/* ---- compiling ---- */

typedef enum weir_compile_mode {
    WEIR_COMPILE_MAX_AUTOTUNE,    /* "max-autotune": all passes; elementwise chains are fused, and
                                   * streams that are too short to gain from running side by side
                                   * run one after the other */
    WEIR_COMPILE_REDUCE_OVERHEAD, /* "reduce-overhead": as issued */
    WEIR_COMPILE_EAGER,           /* "eager": the same */
} weir_compile_mode;

typedef enum weir_stream_placement {
    WEIR_STREAMS_EXPLICIT, /* "explicit": as labels say */
    WEIR_STREAMS_AUTO,     /* "auto": what has no label is placed as well */
} weir_stream_placement;

/* From the names above; NULL means the first.
 * returns  WEIR_EINVAL naming the unknown word and the known ones. */
WEIR_API WEIR_MUST_USE weir_status weir_compile_mode_parse(const char *name,
                                                           weir_compile_mode *out);
WEIR_API WEIR_MUST_USE weir_status weir_stream_placement_parse(const char *name,
                                                               weir_stream_placement *out);

typedef struct weir_compile_options {
    size_t size; /* sizeof, or 0 for the fields of version 0.1 */
    weir_compile_mode mode;
    weir_stream_placement streams;
    bool single_stream;      /* refuses labels */
    bool static_kernels;     /* tiling is frozen: later core limits do not reach it */
    const char *cores;       /* "24|48": limits of the whole graph, cube and vector; -1 keeps the
                              * device's, NULL both of them */
    const char *dump_dir;    /* an existing directory for what each pass leaves, a file per pass:
                              * weir_PID_planN_KK_PASS.pbtxt, or .txt once it is no graph any more;
                              * what a pass found is the file before. NULL: the environment's
                              * WEIR_GRAPH_DUMP, if it is set; "": nowhere */
    weir_rank *const *ranks; /* whom collectives that were not captured are run as: those of a
                              * group's name as its rank here, and Kernel nodes with a
                              * `collective` as the first one; without any, those run alone */
    size_t nranks;
} weir_compile_options;

/* A plan for the graph as it is now; later changes of the graph do not reach it.
 * returns  WEIR_EINVAL for a mode that there is not; WEIR_ECONFLICT for
 *          single_stream against a label, with both names; WEIR_EOOM for the arena;
 *          WEIR_EIO for a dump that cannot be written;
 *          WEIR_ESHAPE for a node that does not follow the graph's dynamic sizes.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_compile(weir_graph *graph,
                                                      const weir_compile_options *options,
                                                      weir_plan **out);
/* Waits until the plan's last runs are over; no weir_wait_hook_set ends that. A plan that is
 * stuck past the device's op_timeout is freed when the device closes. NULL is fine.
 * threads  one, with no run of the plan being queued. */
WEIR_API void weir_plan_destroy(weir_plan *plan);

/* A plan of a graph with dynamic inputs keeps at most this many compiled plans. Each is made with
 * room for somewhat larger sizes and serves all that fit: a run with new shapes has a plan that no
 * run needs at the moment take them on (on `cuda` it compiles), one with shapes that come again
 * gets a plan of its own, and then allocates nothing. Compiling gives up the least recently used
 * plan, waiting for its last run to be over. Such plans run on one stream beside those that labels
 * name; streams "auto" counts only if ENABLE_DYNAMIC_SHAPE_MULTI_STREAM is exactly 1 when the graph
 * is compiled. */
#define WEIR_PLAN_SHAPE_SETS 16

/* Queues one run behind what is on `stream`; what is queued on it afterwards sees the
 * results. Inputs and outputs are in the order they were named; an output entry of NULL
 * gets a new tensor. What a run writes shares memory with nothing else it is given.
 * A run is one piece of work of `stream`. An operator of it that fails, on whichever of the plan's
 * streams, puts `stream` in error, from this run on, and nothing else. The other streams give the
 * run their order and their cores, not their errors: an error that work of your own has left on one
 * of them neither stops the run nor is lost by it.
 * returns  WEIR_ESHAPE or WEIR_EDTYPE before anything is queued, naming the input, or the
 *          node that the sizes of dynamic inputs do not fit; WEIR_EINVAL for an output in the
 *          memory of an input or of another output, naming both. If a GPU's driver fails half-way
 *          the streams are in error, and groups that the plan will not come to are broken.
 * threads  any, also several at once on several streams. */
WEIR_API WEIR_MUST_USE weir_status weir_plan_run(weir_plan *plan, weir_stream *stream,
                                                 weir_tensor *const *inputs, size_t ninputs,
                                                 weir_tensor **outputs, size_t noutputs);

/* The same, and waits for the run to be over. A run of a few microseconds is done by the calling
 * thread itself where the device has its threads on the host, which is quicker than to hand it
 * over and be told.
 * returns  also what weir_stream_sync returns; the run may then still go on.
 * threads  any; those that call at the same time wait for others to run it. */
WEIR_API WEIR_MUST_USE weir_status weir_plan_call(weir_plan *plan, weir_stream *stream,
                                                  weir_tensor *const *inputs, size_t ninputs,
                                                  weir_tensor **outputs, size_t noutputs);

typedef struct weir_plan_stats {
    size_t nodes;
    size_t launches; /* what they run as: super kernels count once */
    size_t streams;
    size_t syncs;       /* cross-stream waits in the plan */
    size_t arena_bytes; /* for intermediates */
    size_t lower_bound; /* the most bytes alive at once in one order */
    size_t instances;   /* copies of the arena made for runs at the same time or on other tensors */
    /* Of a plan with dynamic inputs; what is above is then of the shapes that ran last, 0
     * before the first run. */
    size_t shape_sets;      /* plans kept, at most WEIR_PLAN_SHAPE_SETS */
    size_t shape_hits;      /* runs whose shapes were there */
    size_t shape_misses;    /* runs whose shapes were not */
    size_t shape_evictions; /* plans given up for others */
    size_t shape_resizes;   /* misses that a plan there was took on, without a compile */
} weir_plan_stats;
WEIR_API void weir_plan_get_stats(const weir_plan *plan, weir_plan_stats *out, size_t size);

/* Whether a run writes to the memory of that input, counted from 0: operators that work in place
 * do. Whoever passes a copy has to copy it back.
 * threads  any. */
WEIR_API bool weir_plan_writes_input(const weir_plan *plan, size_t input);

/* Streams as columns, syncs, bytes and cores, for people. Free with free(). */
WEIR_API char *weir_plan_list(const weir_plan *plan);

/* ---- plans in graphs of others ---- */

/* Runs of plans as parts of a CUDA graph that somebody else captures, say PyTorch: on a native
 * stream that is being captured, weir_tape_add puts a run among what the capture has so far. The
 * graph then has the addresses of that run's tensors, and memory of the tape for what lies between
 * them; other runs of the plan have nothing to do with it. A tape belongs to one graph. */
typedef struct weir_tape weir_tape;

/* threads  any.
 * returns  WEIR_EUNSUPPORTED on a device other than cuda. */
WEIR_API WEIR_MUST_USE weir_status weir_tape_create(weir_device *dev, weir_tape **out);
/* Adds a run as weir_plan_run would queue it; every output is given. The plan has run before, so
 * that what it is to be made of is chosen and loaded. It must outlive the tape, and so must the
 * memory.
 * returns  WEIR_EUNSUPPORTED for a plan with collectives, core limits or dynamic sizes; WEIR_ESTATE
 *          for one that has not run; what weir_plan_run returns. The capture is of no use then.
 * threads  one at a time. */
WEIR_API WEIR_MUST_USE weir_status weir_tape_add(weir_tape *tape, weir_plan *plan,
                                                 weir_stream *stream, weir_tensor *const *inputs,
                                                 size_t ninputs, weir_tensor *const *outputs,
                                                 size_t noutputs, void *native);
/* Around each launch of the graph on `native`: the first one has an operator that fails say so to
 * `stream`, and comes after the tape's last launch, wherever that was; with the second, `stream`
 * goes on after what `native` has.
 * returns  the error of a stream that is in error; nothing is to be launched then.
 * threads  one at a time. */
WEIR_API WEIR_MUST_USE weir_status weir_tape_begin(weir_tape *tape, weir_stream *stream,
                                                   void *native);
WEIR_API WEIR_MUST_USE weir_status weir_tape_end(weir_tape *tape, weir_stream *stream,
                                                 void *native);
/* Waits for the last launch. NULL is ignored. */
WEIR_API void weir_tape_destroy(weir_tape *tape);

#ifdef __cplusplus
}
#endif
#endif
