/* A plan: what passes decided, and copies of the program that run it.
 *
 * An instance has an arena for the intermediates and a program whose kernels point into
 * it and at the inputs and outputs of its last run. Runs with the same bindings on the same stream
 * follow each other on one instance, unchanged. For other bindings an idle instance is patched. If
 * patching takes long on the device, they get an instance of their own, up to a few.
 */
#ifndef WEIR_GRAPH_PLAN_PLAN_H
#define WEIR_GRAPH_PLAN_PLAN_H

#include "comm/comm.h"
#include "graph/pass/compile.h"
#include "graph/pass/stages.h"

#define WEIR__MAX_INSTANCES 8
#define WEIR__MAX_CHANNELS 32

/* Several nodes as one kernel: their phases run one after the other, or piece by piece. */
struct weir__fused {
    int n;
    uint32_t pieces; /* for chunked launches: all nodes run on a piece, then on the next */
    int64_t rows;    /* for launches by rows: the number of rows; else 0 */
    int64_t piece;   /* rows or elements of a piece */
    size_t slot_bytes;
    /* for absorbing launches: the last part's kernel, which does the work of all parts */
    weir_status (*absorbing)(const void *args, const void *const *makers, int n,
                             const weir_block *block);
    struct weir__fused_part {
        weir_kernel_fn fn;
        uint32_t blocks, phases;
        unsigned char *args;
        uint32_t args_size, args_room;
        /* For chunked launches: operands in the block's own memory. */
        void (*place)(void *args, int operand, char *data);
        int nprivate;
        struct {
            int8_t operand, slot;
            int64_t step;   /* bytes of an element or a row of the value */
            int64_t offset; /* offset of the operand's first byte in the value */
        } private[4];
    } parts[];
};

struct weir__instance {
    weir_buffer *arena; /* NULL if the plan needs none */
    struct weir__program *program;
    struct weir__fused **fused; /* by leader, for launches of several nodes */
    char **bound;               /* addresses of inputs, then outputs, in the program */
    weir_cores *limits;         /* by lane: limits when the kernels were prepared */
    bool *stale;                /* by leader: to be prepared again because sizes changed */
    bool is_stale;              /* any of `stale` is set */
    struct weir__mark last;     /* mark after its last run; stream NULL if it never ran */
    struct weir__clock last_clock;
    bool is_half_bound; /* preparing its kernels failed half way */
    bool has_run;       /* it has run before, with any bindings */
};

/* A collective of the plan: its channel, an index into plan->channels, and its number among the
 * plan's calls there. */
struct weir__collective_slot {
    int place; /* -1: no collective */
    uint64_t call;
};

/* Calls that a run makes on one channel as one rank. */
struct weir__plan_channel {
    struct weir__channel *channel;
    weir_rank *rank; /* the plan holds one use of its group */
    uint64_t calls;
};

/* An operand of a live node that is a constant which programs outside can reach. */
struct weir__constant_use {
    const char *first, *end, *most_end; /* most_end: the largest of this use and those before it */
    const struct weir__operand *operand;
    const struct weir__node *node;
    bool writes;
};

struct weir_plan {
    weir_device *dev;
    weir_graph *graph; /* owned by the plan */
    /* dynamic.c: plans by shapes, if the graph has dynamic inputs; the fields below are then
     * unused. */
    struct weir__dynamic *dynamic;
    struct weir__compile c;
    weir_stream **streams; /* by lane; [0] is the caller's, NULL here */
    weir_stream *stand_in; /* used by a lane whose stream is the caller's */
    /* If crossing between streams would cost more than running side by side gains, all nodes run in
     * program order on the caller's stream. Later work on the other streams is ordered after the
     * run. */
    bool merged;
    int nlanes;          /* 1 if merged */
    int *item;           /* by node: index among the items of its lane */
    int *slot_of;        /* by value: index in bound[]; -1 if it is not bound */
    int *touch_first;    /* by index in bound[], plus one entry: start of its launches in
                          * touch_launches[] */
    int *touch_launches; /* first nodes of the launches that read or write it */
    struct weir__constant_use *uses; /* run_overlap.c: sorted by address */
    int nuses;
    bool writes_constants;                                 /* one of the uses is a write */
    struct weir__instance *instances[WEIR__MAX_INSTANCES]; /* (L) the last used one is at the end */
    int ninstances;
    bool frugal; /* (L) memory was short for an optional instance: make no more */
    struct weir__collective_slot *slots; /* by node */
    struct weir__plan_channel *channels;
    int nchannels, cap_channels;
    int64_t *literal_at;           /* literals.c, by value: offset behind the arena; -1: none */
    size_t literal_bytes;          /* bytes of all these literals */
    struct weir__elastic *elastic; /* resize.c: for a plan that can be resized, else NULL */
    weir_cores *frozen;            /* by lane: the limits of static kernels */
    bool warned;                   /* (L) that limits do not apply to static kernels */
    struct weir__leftover leftover;
};

/* compile.c: a plan for a graph without dynamic sizes. Takes over the graph, also on an error. */
weir_status weir__plan_make(weir_graph *graph, const weir_compile_options *options,
                            weir_plan **out);
/* The same without folding; folding itself uses it. */
weir_status weir__plan_build(weir_graph *graph, const weir_compile_options *options,
                             struct weir__stages *stages, weir_plan **out);
/* fold.c: replaces nodes that compute the same in every run by constants. */
weir_status weir__graph_fold(weir_graph *g);
/* literals.c: finds the literals for which each instance has its own bytes. */
weir_status weir__plan_find_literals(weir_plan *plan);
/* run_check.c: checks that the stream belongs to the plan's device, that the numbers of tensors
 * match the plan's, and that the inputs and the given outputs fit. */
weir_status weir__plan_check_inputs(const weir_plan *plan, const weir_stream *stream,
                                    weir_tensor *const *inputs, size_t ninputs,
                                    weir_tensor *const *outputs, size_t noutputs);
/* Checks the outputs that are given. */
weir_status weir__plan_check_outputs(const weir_plan *plan, weir_tensor *const *outputs);
/* weir_plan_run; with `help` the calling thread, which is about to wait, may work on the run. */
weir_status weir__plan_run(weir_plan *plan, weir_stream *stream, weir_tensor *const *inputs,
                           size_t ninputs, weir_tensor **outputs, size_t noutputs, bool help);
/* list.c: lists a plan that is not dynamic. */
void weir__plan_list(const weir_plan *plan, struct weir__text *text);
/* collective_slots.c: finds the channel and number of each of the plan's collectives, in program
 * order. */
weir_status weir__plan_find_slots(weir_plan *plan, weir_rank *const *ranks, size_t nranks);
void weir__plan_drop_slots(weir_plan *plan);
/* Gives the first number of a run's calls on each channel; `take` advances the channels once the
 * run is queued. (L) */
weir_status weir__plan_tickets(const weir_plan *plan, uint64_t *tickets);
void weir__plan_take_tickets(weir_plan *plan);
/* Fills the rendezvous of a prepared collective. */
void weir__plan_fill_meet(const weir_plan *plan, int node, struct weir__meet *meet);

/* The memory that a prepared kernel points to. */
struct weir__prepared {
    struct weir__work work;
    struct weir__call call;
    const struct weir__view *ins[WEIR__OP_MAX_IN];
    struct weir__view in[WEIR__OP_MAX_IN], out[WEIR__OP_MAX_OUT];
};

/* plan.c: the kernel of node v, which points into *p. */
weir_status weir__plan_prepare(const weir_plan *plan, const struct weir__instance *inst, int v,
                               struct weir__prepared *p, struct weir__kernel *kernel);
/* fused.c: the same for a launch of n > 1 nodes. */
weir_status weir__plan_prepare_fused(const weir_plan *plan, struct weir__instance *inst, int leader,
                                     int n, struct weir__prepared *p, struct weir__kernel *kernel);
void weir__fused_free(struct weir__fused *fused);

/* plan.c: fills plan->item. */
void weir__plan_number_items(weir_plan *plan);
/* resize.c: the plan can be resized from now on, as long as values fit into their present room. */
weir_status weir__plan_make_elastic(weir_plan *plan);
void weir__plan_free_elastic(weir_plan *plan);
/* Gives the plan's graph other input sizes, in place; no pass runs again. Requires
 * weir__plan_may_change, and that no thread queues a run meanwhile. *fits is false if the passes'
 * decisions do not hold for these sizes; then, and on an error, the plan must be destroyed. returns
 * the error that a compile for these sizes would have. */
weir_status weir__plan_resize(weir_plan *plan, const int64_t *const *sizes, bool *fits);
/* Whether inputs of these sizes are at most as large as those that the plan was made with. */
bool weir__plan_has_room(const weir_plan *plan, const int64_t *const *sizes);
/* run.c: whether its kernels may be replaced: its runs have completed or do not read them any
 * more. */
bool weir__plan_may_change(weir_plan *plan);

/* An instance with these bindings; NULL with the error set. (L) */
struct weir__instance *weir__instance_make(weir_plan *plan, char *const *bound,
                                           const weir_cores *limits);
void weir__instance_free(weir_plan *plan, struct weir__instance *inst);
/* Prepares kernels again for other bindings or limits: `all` of them, or those that access inputs
 * and outputs. No run may use the instance. (L) */
weir_status weir__instance_rebind(weir_plan *plan, struct weir__instance *inst, char *const *bound,
                                  const weir_cores *limits, bool all);

/* run_overlap.c: fills plan->uses.
 * returns  WEIR_EINVAL if the plan writes a constant whose memory another constant shares. */
weir_status weir__plan_find_constants(weir_plan *plan);
/* Updates the addresses in plan->uses after views have changed. */
void weir__plan_measure_constants(weir_plan *plan);
/* Returns WEIR_EINVAL, with both names, if the run would write memory that is also bound to another
 * input or output or belongs to a constant, or if it is bound to a constant that it writes. `bound`
 * has the inputs' addresses, then the outputs'. (L) */
weir_status weir__plan_check_overlap(const weir_plan *plan, char *const *bound);

/* run_race.c: tells the race checker, while it is on, what a run on `caller` accesses: once before
 * the run is queued (returns WEIR_ERACE in error mode) and once after. (L) */
weir_status weir__plan_race(const weir_plan *plan, weir_stream *caller, weir_tensor *const *inputs,
                            weir_tensor *const *outputs, bool queued);
/* After the run is joined: tells it which calls of collectives the run made, numbered from the
 * tickets. (L) */
void weir__plan_race_calls(const weir_plan *plan, weir_stream *caller, const uint64_t *tickets);

#endif
