/* Graphs: operators captured, built or loaded once, compiled for a device, and then run
 * many times with little overhead.
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
 * Every edge that crosses streams is synchronised by weir. A plan begins after what is queued on
 * the caller's stream; what is queued there later runs after the plan.
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
/* Tensors of the graph may be released before or after it. If this thread captures the graph, the
 * capture ends first. A graph that another thread captures must not be destroyed. */
WEIR_API void weir_graph_destroy(weir_graph *graph);

/* A tensor that gets its bytes at each run. A size of -1 is dynamic: each run decides it. While
 * the graph is built, a dynamic size matches any other dynamic size and broadcasts with 1; the run
 * checks which sizes must be equal. For each run, weir repeats the calls that made views of such
 * tensors, with the run's sizes. A slice with negative ends and a reshape with -1 therefore follow
 * the size. Numbers that the program computed from weir_tensor_shape while it built the graph do
 * not.
 * returns  WEIR_EINVAL for a name in use. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_input(weir_graph *graph, const char *name,
                                                    weir_dtype dtype, int ndim,
                                                    const int64_t *shape, weir_tensor **out);

/* Describes where the nodes added from now on come from. `module` becomes the prefix of their names
 * ("model.layers.3.mlp/MatMul_12"), which traces, listings, advice and errors show. `source`, such
 * as "model.py:40", becomes the attribute "_source" in files. NULL: no description, the default.
 * returns  WEIR_ENOMEM. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_describe(weir_graph *graph, const char *module,
                                                       const char *source);

/* ---- named sizes ---- */

/* A named size is a number that stands for a size that each run decides, or for an expression of
 * such sizes. Pass it in place of a number: as a size to weir_graph_input, to slice, reshape and
 * expand of the graph's tensors, as a size of an output of weir_host_run, and to
 * weir_graph_size_expr. The graph is built as if the size were `example`. A run takes the value
 * from the first input that has the named size, and checks that the other inputs agree. A named
 * size is valid in its own graph only.
 * returns  WEIR_ERANGE for an example outside 0..2^39, or more than 2^20 named sizes. */
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

/* A size computed from two others, each a plain number or a named size.
 * returns  WEIR_EINVAL for a division by 0 in the examples; WEIR_ERANGE as above. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_size_expr(weir_graph *graph, weir_size_op op,
                                                        int64_t a, int64_t b, int64_t *size);

/* Between begin and end, operators that this thread calls on tensors of the graph's device become
 * nodes of the graph.
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
    WEIR_COMPILE_MAX_AUTOTUNE,    /* "max-autotune": all passes; chains of short operators are one
                                   * launch, and streams that are too short to gain from running side
                                   * by side run one after the other */
    WEIR_COMPILE_REDUCE_OVERHEAD, /* "reduce-overhead": operators run as they were issued */
    WEIR_COMPILE_EAGER,           /* "eager": the same */
} weir_compile_mode;

typedef enum weir_stream_placement {
    WEIR_STREAMS_EXPLICIT, /* "explicit": streams as labels say */
    WEIR_STREAMS_AUTO,     /* "auto": operators without a label get a stream too, where that is
                            * expected to save time. On a modelled device the model also chooses the
                            * order of independent operators and core limits for operators without
                            * one; the plan is predicted to take no longer than on one stream */
    WEIR_STREAMS_SIBLINGS, /* "siblings": products that read the same result, and the operators that
                            * follow only one of them, run side by side on up to four streams,
                            * whether or not that is expected to save time: for callers who
                            * measure */
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
    bool single_stream;      /* one stream for all; a graph with stream labels is refused */
    bool static_kernels;     /* tiling is fixed at compile time: later core limits do not change
                              * it */
    const char *cores;       /* "24|48": limits of the whole graph, cube and vector; -1 keeps the
                              * device's limit, NULL keeps both */
    const char *dump_dir;    /* an existing directory. Each pass writes its result there:
                              * weir_PID_planN_KK_PASS.pbtxt, or .txt after the last pass that
                              * leaves a graph. NULL: $WEIR_GRAPH_DUMP, if set; "": no dump */
    weir_rank *const *ranks; /* for collectives from a file or weir_graph_add: a collective that
                              * names a group runs as the rank of that group listed here; a Kernel
                              * node with `collective` runs as the first rank listed. Without a rank
                              * a collective runs alone */
    size_t nranks;
} weir_compile_options;

/* Compiles the graph as it is now; later changes of the graph do not affect the plan.
 * returns  WEIR_EINVAL for an unknown mode, or for a written constant whose memory another constant
 *          shares (views of one tensor may share it); WEIR_ECONFLICT for
 *          single_stream against a label, with both names; WEIR_EOOM for the arena;
 *          WEIR_EIO for a dump that cannot be written;
 *          WEIR_ESHAPE for a node that does not follow the graph's dynamic sizes.
 * threads  any. */
WEIR_API WEIR_MUST_USE weir_status weir_graph_compile(weir_graph *graph,
                                                      const weir_compile_options *options,
                                                      weir_plan **out);
/* Waits until the plan's last runs have completed; a wait hook cannot interrupt this. A plan that
 * is stuck past the device's op_timeout is freed when the device closes. NULL is fine.
 * threads  one, while no thread queues a run of the plan. */
WEIR_API void weir_plan_destroy(weir_plan *plan);

/* A plan of a graph with dynamic inputs keeps at most this many compiled plans, each with room for
 * somewhat larger sizes. A run with new shapes resizes a plan that has room for them and is idle
 * (on `cuda` it need not be idle). Shapes that are used again get a compiled plan of their own;
 * such runs allocate nothing. If the cache is full, compiling waits for the last run of the least
 * recently used plan and frees that plan. These plans use one stream beside those that labels name.
 * Streams "auto" applies only if ENABLE_DYNAMIC_SHAPE_MULTI_STREAM is exactly 1 when the graph is
 * compiled. */
#define WEIR_PLAN_SHAPE_SETS 16

/* Queues one run behind the work on `stream`; work queued on `stream` afterwards sees the results.
 * Inputs and outputs are in the order they were named; an output entry of NULL gets a new tensor.
 * Memory that a run writes (outputs, and inputs and constants that operators update in place) must
 * not be shared with its other inputs, outputs and constants.
 * Errors: a run counts as one piece of work of `stream`. If one of its operators fails, on any of
 * the plan's streams, then `stream` alone is in error, from this run on. The plan's other streams
 * order the run and limit its cores, but exchange no errors with it: an earlier error on one of
 * them does not stop the run, and stays there.
 * returns  WEIR_ESHAPE or WEIR_EDTYPE before anything is queued, naming the input, or the
 *          node that the sizes of dynamic inputs do not fit; WEIR_EINVAL for memory that is
 *          written and shared, naming both tensors. If a GPU's driver fails while the
 *          run is being queued, its streams are in error and the groups whose collectives had not
 *          been queued yet are broken.
 * threads  any, also several at once on several streams. */
WEIR_API WEIR_MUST_USE weir_status weir_plan_run(weir_plan *plan, weir_stream *stream,
                                                 weir_tensor *const *inputs, size_t ninputs,
                                                 weir_tensor **outputs, size_t noutputs);

/* As weir_plan_run, and waits until the run completes. On devices that run on host threads, the
 * calling thread executes a run of a few microseconds itself, which is quicker than waking a
 * worker.
 * returns  also the errors of weir_stream_sync; the run may then still be in progress.
 * threads  any; of several concurrent callers only one executes runs itself. */
WEIR_API WEIR_MUST_USE weir_status weir_plan_call(weir_plan *plan, weir_stream *stream,
                                                  weir_tensor *const *inputs, size_t ninputs,
                                                  weir_tensor **outputs, size_t noutputs);

typedef struct weir_plan_stats {
    size_t nodes;
    size_t launches; /* a super kernel counts once */
    size_t streams;
    size_t syncs;       /* cross-stream waits in the plan */
    size_t arena_bytes; /* for intermediates */
    size_t lower_bound; /* the most bytes alive at once in one order */
    size_t instances;   /* copies of the arena made for runs at the same time or on other tensors */
    /* For a plan with dynamic inputs. The fields above then describe the shapes that ran last; they
     * are 0 before the first run. */
    size_t shape_sets;      /* compiled plans kept, at most WEIR_PLAN_SHAPE_SETS */
    size_t shape_hits;      /* runs with shapes of a kept plan */
    size_t shape_misses;    /* runs with other shapes */
    size_t shape_evictions; /* plans freed to make room */
    size_t shape_resizes;   /* misses served by resizing a kept plan instead of compiling */
} weir_plan_stats;
WEIR_API void weir_plan_get_stats(const weir_plan *plan, weir_plan_stats *out, size_t size);

/* One launch of a plan. Bytes are counted once for each operand that is not kept in registers or in
 * a block's memory; for an operator that reads part of an operand, only that part counts. */
typedef struct weir_launch_info {
    const char *name; /* name of its first node; valid as long as the plan */
    const char *op;   /* operator of that node */
    size_t nodes;
    uint64_t bytes_read, bytes_written;
} weir_launch_info;
/* Fills at most `max` launches, in the order of the program, and returns how many there are; 0 for
 * a plan with dynamic inputs.
 * threads  any. */
WEIR_API size_t weir_plan_list_launches(const weir_plan *plan, weir_launch_info *out, size_t size,
                                        size_t max);

/* Whether a run writes to the memory of input number `input` (from 0), because an operator works on
 * it in place. A caller that passes a copy of its data must then copy it back.
 * threads  any. */
WEIR_API bool weir_plan_writes_input(const weir_plan *plan, size_t input);

/* A listing for people: streams as columns, syncs, bytes and cores. Free with free(). */
WEIR_API char *weir_plan_list(const weir_plan *plan);

/* ---- plans inside CUDA graphs of other libraries ---- */

/* A tape puts runs of plans into a CUDA graph that another library, say PyTorch, captures.
 * weir_tape_add adds a run to the capture of a native stream. The CUDA graph keeps the addresses of
 * that run's tensors; the tape owns the memory of its intermediates. Other runs of the plan are not
 * affected. A tape belongs to one CUDA graph. */
typedef struct weir_tape weir_tape;

/* threads  any.
 * returns  WEIR_EUNSUPPORTED on a device other than cuda. */
WEIR_API WEIR_MUST_USE weir_status weir_tape_create(weir_device *dev, weir_tape **out);
/* Adds the run that weir_plan_run would queue; no entry of `outputs` may be NULL. The plan must
 * have run before, so that its kernels are chosen and loaded. The plan and the tensors' memory must
 * outlive the tape.
 * returns  WEIR_EUNSUPPORTED for a plan with collectives, core limits or dynamic sizes; WEIR_ESTATE
 *          for one that has not run; what weir_plan_run returns. Discard the capture on an error.
 * threads  one at a time. */
WEIR_API WEIR_MUST_USE weir_status weir_tape_add(weir_tape *tape, weir_plan *plan,
                                                 weir_stream *stream, weir_tensor *const *inputs,
                                                 size_t ninputs, weir_tensor *const *outputs,
                                                 size_t noutputs, void *native);
/* Call begin before and end after each launch of the CUDA graph on `native`. begin makes `stream`
 * receive the errors of the launch's operators, and orders the launch after the tape's previous
 * one. end orders everything queued later on `stream` after the launch.
 * returns  the stream's error if it is in error; do not launch then.
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
