/* A plan: what passes decided, and copies of the program that run it.
 *
 * An instance has an arena for the intermediates and a program whose kernels point into
 * it and at the inputs and outputs of its last run. Runs with the same bindings on the
 * same stream follow each other on one instance without a touch; other bindings are
 * patched into an instance that is not running.
 */
#ifndef WEIR_GRAPH_PLAN_H
#define WEIR_GRAPH_PLAN_H

#include "graph/compile.h"
#include "graph/stages.h"

#define WEIR__MAX_INSTANCES 8

/* Several nodes as one kernel: their phases one after the other, or piece by piece. */
struct weir__fused {
    int n;
    uint32_t pieces; /* of chunked ones: all of them on a piece, then on the next */
    struct weir__fused_part {
        weir_kernel_fn fn;
        uint32_t blocks, phases;
        unsigned char *args;
        uint32_t args_size;
        /* Operands that live in the block's own memory, in chunked ones. */
        void (*place)(void *args, int operand, char *data, const weir_block *block);
        int nprivate;
        struct {
            int8_t operand, slot;
        } private[4];
    } parts[];
};

struct weir__instance {
    weir_buffer *arena; /* NULL if the plan needs none */
    struct weir__program *program;
    struct weir__fused **fused; /* by node: of leaders of several */
    char **bound;               /* addresses of inputs, then outputs, in the program */
    weir_cores *limits;         /* by lane: in force when the kernels were prepared */
    struct weir__mark last;     /* after its last run; stream NULL if it never ran */
    struct weir__clock last_clock;
};

struct weir_plan {
    weir_device *dev;
    weir_graph *graph; /* the plan's own */
    /* dynamic.c: plans by shapes, if the graph has dynamic inputs; then nothing that follows
     * is filled. */
    struct weir__dynamic *dynamic;
    struct weir__compile c;
    weir_stream **streams; /* by lane; [0] is the caller's, NULL here */
    weir_stream *stand_in; /* for a lane whose stream is the caller's */
    /* Where crossing between streams would cost more than running side by side gains, all
     * nodes run in program order on the caller's stream. Whoever uses the others later
     * finds them ordered after the run. */
    bool merged;
    int nlanes;     /* 1 if merged */
    int *item;      /* by node: its place among the items of its lane */
    int *slot_of;   /* by value: its place in bound[]; -1 if it is not bound */
    bool *external; /* by node: it touches an input or an output */
    struct weir__instance *instances[WEIR__MAX_INSTANCES]; /* (L) */
    int ninstances;
    bool warned; /* (L) that limits do not reach static kernels */
};

/* compile.c: a plan for a graph that is not dynamic, which is the plan's from now on, also
 * on an error. */
weir_status weir__plan_make(weir_graph *graph, const weir_compile_options *options,
                            weir_plan **out);
/* The same without folding: what folding itself runs. */
weir_status weir__plan_build(weir_graph *graph, const weir_compile_options *options,
                             struct weir__stages *stages, weir_plan **out);
/* fold.c: nodes that compute the same at every run give way to constants. */
weir_status weir__graph_fold(weir_graph *g);
/* run.c: that the stream is the plan's device's, and that the inputs fit. */
weir_status weir__plan_check_inputs(const weir_plan *plan, const weir_stream *stream,
                                    weir_tensor *const *inputs, size_t ninputs, size_t noutputs);
/* list.c: of a plan that is not dynamic. */
void weir__plan_list(const weir_plan *plan, struct weir__text *text);

/* plan.c: fills plan->item. */
void weir__plan_number_items(weir_plan *plan);
/* An instance with these bindings; NULL with the error set. (L) */
struct weir__instance *weir__instance_make(weir_plan *plan, char *const *bound,
                                           const weir_cores *limits);
void weir__instance_free(weir_plan *plan, struct weir__instance *inst);
/* Prepares the kernels again for other bindings or limits; `all` of them, or those that
 * touch inputs and outputs. Nothing runs the instance. (L) */
weir_status weir__instance_rebind(weir_plan *plan, struct weir__instance *inst, char *const *bound,
                                  const weir_cores *limits, bool all);

/* run_race.c: tells the race checker, while it is on, what a run on `caller` touches: before
 * it is queued (returns WEIR_ERACE in error mode) and after. (L) */
weir_status weir__plan_race(const weir_plan *plan, weir_stream *caller, weir_tensor *const *inputs,
                            weir_tensor *const *outputs, bool queued);

#endif
