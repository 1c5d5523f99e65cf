/* A plan: what passes decided, and copies of the program that run it.
 *
 * An instance has an arena for the intermediates and a program whose kernels point into
 * it and at the inputs and outputs of its last run. Runs with the same bindings on the
 * same stream follow each other on one instance without a touch; other bindings are
 * patched into an instance that is not running, or, where the device takes long for that,
 * get one of their own, up to a few.
 */
#ifndef WEIR_GRAPH_PLAN_PLAN_H
#define WEIR_GRAPH_PLAN_PLAN_H

#include "comm/comm.h"
#include "graph/pass/compile.h"
#include "graph/pass/stages.h"

#define WEIR__MAX_INSTANCES 8
#define WEIR__MAX_CHANNELS 32

/* Several nodes as one kernel: their phases one after the other, or piece by piece. */
struct weir__fused {
    int n;
    uint32_t pieces; /* of chunked ones: all of them on a piece, then on the next */
    int64_t rows;    /* of those by rows: how many; else 0 */
    int64_t piece;   /* rows or elements of a piece */
    size_t slot_bytes;
    /* of absorbing ones: the last part's kernel, which does the others' work */
    weir_status (*absorbing)(const void *args, const void *const *makers, int n,
                             const weir_block *block);
    struct weir__fused_part {
        weir_kernel_fn fn;
        uint32_t blocks, phases;
        unsigned char *args;
        uint32_t args_size, args_room;
        /* Operands that live in the block's own memory, in chunked ones. */
        void (*place)(void *args, int operand, char *data);
        int nprivate;
        struct {
            int8_t operand, slot;
            int64_t step;   /* bytes of an element or a row of the value */
            int64_t offset; /* of the operand's first byte in it */
        } private[4];
    } parts[];
};

struct weir__instance {
    weir_buffer *arena; /* NULL if the plan needs none */
    struct weir__program *program;
    struct weir__fused **fused; /* by node: of leaders of several */
    char **bound;               /* addresses of inputs, then outputs, in the program */
    weir_cores *limits;         /* by lane: in force when the kernels were prepared */
    bool *stale;                /* by leader: to be prepared again, for other sizes, */
    bool is_stale;              /* and whether any is */
    struct weir__mark last;     /* after its last run; stream NULL if it never ran */
    struct weir__clock last_clock;
    bool is_half_bound; /* its kernels could not all be prepared */
    bool has_run;       /* for these or other bindings: it was worth something to somebody */
};

/* A collective of the plan: its number among those of its channel, which is one of
 * plan->channels. */
struct weir__collective_slot {
    int place; /* -1: no collective */
    uint64_t call;
};

/* Calls that a run makes on one channel as one rank. */
struct weir__plan_channel {
    struct weir__channel *channel;
    weir_rank *rank; /* one use of its group is the plan's */
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
    int nlanes;          /* 1 if merged */
    int *item;           /* by node: its place among the items of its lane */
    int *slot_of;        /* by value: its place in bound[]; -1 if it is not bound */
    int *touch_first;    /* by slot in bound[], and one more: touch_launches[] from there on are */
    int *touch_launches; /* the launches, by their first node, that read or write it */
    struct weir__constant_use *uses; /* run_overlap.c: by address */
    int nuses;
    bool writes_constants;                                 /* one of the uses is a write */
    struct weir__instance *instances[WEIR__MAX_INSTANCES]; /* (L) the last used one last */
    int ninstances;
    bool frugal; /* (L) there was no memory for one that could be done without */
    struct weir__collective_slot *slots; /* by node */
    struct weir__plan_channel *channels;
    int nchannels, cap_channels;
    int64_t *literal_at;  /* literals.c, by value: where behind the arena it lies; -1: not there */
    size_t literal_bytes; /* of all of these */
    struct weir__elastic *elastic; /* resize.c: of a plan that may be given other sizes, or NULL */
    weir_cores *frozen;            /* by lane: the limits of static kernels */
    bool warned;                   /* (L) that limits do not reach static kernels */
    struct weir__leftover leftover;
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
/* literals.c: which literals each instance has bytes of its own for. */
weir_status weir__plan_find_literals(weir_plan *plan);
/* run_check.c: that the stream is the plan's device's, that there are as many tensors as the plan
 * has, and that the inputs fit; that outputs which are given do. */
weir_status weir__plan_check_inputs(const weir_plan *plan, const weir_stream *stream,
                                    weir_tensor *const *inputs, size_t ninputs,
                                    weir_tensor *const *outputs, size_t noutputs);
/* That those outputs that are given do. */
weir_status weir__plan_check_outputs(const weir_plan *plan, weir_tensor *const *outputs);
/* weir_plan_run; with `help` the calling thread, which is about to wait, may work on the run. */
weir_status weir__plan_run(weir_plan *plan, weir_stream *stream, weir_tensor *const *inputs,
                           size_t ninputs, weir_tensor **outputs, size_t noutputs, bool help);
/* list.c: of a plan that is not dynamic. */
void weir__plan_list(const weir_plan *plan, struct weir__text *text);
/* collective_slots.c: who the plan's collectives meet, in program order. */
weir_status weir__plan_find_slots(weir_plan *plan, weir_rank *const *ranks, size_t nranks);
void weir__plan_drop_slots(weir_plan *plan);
/* The numbers that a run's calls on each channel begin with; `take` them once it is queued.
 * (L) */
weir_status weir__plan_tickets(const weir_plan *plan, uint64_t *tickets);
void weir__plan_take_tickets(weir_plan *plan);
/* Fills the rendezvous of a prepared collective. */
void weir__plan_fill_meet(const weir_plan *plan, int node, struct weir__meet *meet);

/* What a prepared kernel points to. */
struct weir__prepared {
    struct weir__work work;
    struct weir__call call;
    const struct weir__view *ins[WEIR__OP_MAX_IN];
    struct weir__view in[WEIR__OP_MAX_IN], out[WEIR__OP_MAX_OUT];
};

/* plan.c: the kernel of node v, which points into *p. */
weir_status weir__plan_prepare(const weir_plan *plan, const struct weir__instance *inst, int v,
                               struct weir__prepared *p, struct weir__kernel *kernel);
/* fused.c: the same of a launch of n > 1 nodes. */
weir_status weir__plan_prepare_fused(const weir_plan *plan, struct weir__instance *inst, int leader,
                                     int n, struct weir__prepared *p, struct weir__kernel *kernel);
void weir__fused_free(struct weir__fused *fused);

/* plan.c: fills plan->item. */
void weir__plan_number_items(weir_plan *plan);
/* resize.c: the plan may be given other sizes from now on, which have room where its own have. */
weir_status weir__plan_make_elastic(weir_plan *plan);
void weir__plan_free_elastic(weir_plan *plan);
/* Gives the plan's graph other sizes of its inputs, in place, with all that was decided for it: no
 * pass runs again. Nothing runs or queues the plan. *fits is false if what was decided does not
 * hold for these sizes; then, and on an error, the plan is of no use any more. returns  the error
 * that a compile for these sizes would meet. */
weir_status weir__plan_resize(weir_plan *plan, const int64_t *const *sizes, bool *fits);
/* Whether inputs of these sizes are at most as large as those that the plan was made with. */
bool weir__plan_has_room(const weir_plan *plan, const int64_t *const *sizes);
/* run.c: whether all its runs are over. */
bool weir__plan_is_idle(weir_plan *plan);

/* An instance with these bindings; NULL with the error set. (L) */
struct weir__instance *weir__instance_make(weir_plan *plan, char *const *bound,
                                           const weir_cores *limits);
void weir__instance_free(weir_plan *plan, struct weir__instance *inst);
/* Prepares the kernels again for other bindings or limits; `all` of them, or those that
 * touch inputs and outputs. Nothing runs the instance. (L) */
weir_status weir__instance_rebind(weir_plan *plan, struct weir__instance *inst, char *const *bound,
                                  const weir_cores *limits, bool all);

/* run_overlap.c: fills plan->uses.
 * returns  WEIR_EINVAL if the plan writes a constant whose memory another constant has, too. */
weir_status weir__plan_find_constants(weir_plan *plan);
/* Their addresses, when views have changed. */
void weir__plan_measure_constants(weir_plan *plan);
/* WEIR_EINVAL, with both names, if the run would write what it is also bound to elsewhere, or what
 * is a constant's; or if it is bound to a constant that it writes. `bound` has the inputs'
 * addresses, then the outputs'. (L) */
weir_status weir__plan_check_overlap(const weir_plan *plan, char *const *bound);

/* run_race.c: tells the race checker, while it is on, what a run on `caller` touches: before
 * it is queued (returns WEIR_ERACE in error mode) and after. (L) */
weir_status weir__plan_race(const weir_plan *plan, weir_stream *caller, weir_tensor *const *inputs,
                            weir_tensor *const *outputs, bool queued);
/* And, once it is joined, which calls of collectives it made, numbered from the tickets. (L) */
void weir__plan_race_calls(const weir_plan *plan, weir_stream *caller, const uint64_t *tickets);

#endif
