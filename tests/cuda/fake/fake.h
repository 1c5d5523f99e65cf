/* The internals of the fake GPU. One lock guards everything; kernels and functions of the host run
 * without it. */
#ifndef TESTS_CUDA_FAKE_FAKE_H
#define TESTS_CUDA_FAKE_FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "control.h"
#include "cuda/api.h"
#include "emulate/emulate.h"
#include "weir/launch.h"

#define FAKE_MEMORY ((size_t)4 << 30)

/* The functions of the three libraries, as weir's tables have them. */
#define FAKE_DECLARE(symbol, name, params) __attribute__((visibility("default"))) int symbol params;
WEIR__CU_SYMBOLS(FAKE_DECLARE)
WEIR__NVRTC_SYMBOLS(FAKE_DECLARE)
WEIR__CUBLASLT_SYMBOLS(FAKE_DECLARE)
#undef FAKE_DECLARE

enum {
    FAKE_DEVICES = 2,
    FAKE_CORES = 132,
    FAKE_NODES = 1 << 16,
    FAKE_INVALID = 1,
    FAKE_NO_CONTEXT = 201,
    FAKE_BAD_HANDLE = 400,
    FAKE_NOT_FOUND = 500,
    FAKE_NOT_READY = 600,
    FAKE_ILLEGAL_ADDRESS = 700,
    FAKE_CAPTURE_UNJOINED = 904,
    FAKE_CAPTURE_ISOLATION = 905,
    FAKE_GRAPH_CHANGED = 910,
};

/* ---- calls.c ---- */

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed; /* something is over, or there is something to do */
extern _Atomic int fake_lost;       /* the code that every call gives from now on, or 0 */

int fake_major(void); /* of the compute capability */
/* Counts the call; its code if it is the one to fail, or the GPU is lost. */
int fake_enter(const char *symbol);
/* The same where a context must be current. */
int fake_enter_context(const char *symbol);
_Noreturn void fake_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FAKE_CALL()                       \
    do {                                  \
        int code_ = fake_enter(__func__); \
        if (code_)                        \
            return code_;                 \
    } while (0)
#define FAKE_CALL_IN_CONTEXT()                    \
    do {                                          \
        int code_ = fake_enter_context(__func__); \
        if (code_)                                \
            return code_;                         \
    } while (0)

/* The same, unless a stream says which context is meant. */
#define FAKE_CALL_ON(stream)                                                        \
    do {                                                                            \
        int code_ = (stream) ? fake_enter(__func__) : fake_enter_context(__func__); \
        if (code_)                                                                  \
            return code_;                                                           \
    } while (0)

enum fake_kind {
    FAKE_CONTEXT,
    FAKE_GREEN,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_GRAPH,
    FAKE_EXEC,
    FAKE_PINNED,
    FAKE_ALLOCATION,
    FAKE_RESERVATION,
    FAKE_HANDLE,
    FAKE_MAPPING,
    FAKE_PROGRAM,
    FAKE_LT,
    FAKE_KINDS,
};

/* First in every object. */
struct fake_object {
    enum fake_kind kind;
    uint32_t magic;
};

/* Zeroed and counted. */
void *fake_new(enum fake_kind kind, size_t size);
/* The object; anything else is misuse. */
void *fake_check(void *object, enum fake_kind kind);
/* No longer counted, and no handle any more. The memory stays. */
void fake_forget(void *object);
void fake_count(enum fake_kind kind, int n); /* of things that are no objects */

struct fake_context {
    int device, retained;
    struct fake_stream *default_stream;
};
struct fake_context *fake_current(void);

/* ---- memory.c ---- */

/* The current context's GPU reaches what is there, or it is misuse. */
void fake_check_reach(weir__cu_address address);
bool fake_is_device_memory(uintptr_t address);
/* All that a kernel may touch that was queued when so many blocks had been given, until the next
 * call; on the thread that runs streams. */
const struct emu_range *fake_ranges(int *n, uint64_t at);

/* ---- blocks.c ---- */
void fake_give_block(const void *address, size_t size); /* see control.h */
/* The rest is called under the lock. */
uint64_t fake_blocks_given(void);
bool fake_has_blocks(uintptr_t first, size_t size, uint64_t at);
int fake_blocks(struct emu_range *out, uint64_t at); /* NULL: how many */

/* ---- engine.c: commands and streams ---- */

struct fake_range {
    unsigned first, count;
};

/* The cores of a green context: runs of neighbours. */
struct fake_cores {
    struct fake_range runs[32];
    int nruns;
};

struct fake_product;
struct fake_body;

/* A point that an event stood for when it was recorded. */
struct fake_point {
    int refs;
    bool over;
    double ms;
};

/* A launch of a graph: its records have points by node. */
struct fake_run {
    struct fake_body *body;
    struct fake_point **points;
};

struct fake_op {
    struct fake_op *next;
    int sharers; /* graphs that have the node as well */
    enum {
        FAKE_OP_KERNEL,
        FAKE_OP_COPY,
        FAKE_OP_FILL,
        FAKE_OP_HOST,
        FAKE_OP_PRODUCT,
        FAKE_OP_RECORD,
        FAKE_OP_WAIT,
        FAKE_OP_WRITE,
        FAKE_OP_WAIT_VALUE,
        FAKE_OP_GRAPH,
    } kind;
    union {
        struct {
            char text[64];
            const struct fake_module *function;
            struct emu_module *module; /* NULL for a function */
            void *params[3];           /* copies, in one piece */
            unsigned blocks, threads, shared;
            unsigned cluster;        /* blocks */
            uint64_t given;          /* blocks of memory, when it was queued */
            bool early;              /* its edges from kernels are programmatic */
            struct fake_cores cores; /* that it may use */
        } kernel;
        struct {
            void *to;
            const void *from;
            size_t size;
            unsigned char value;
        } bytes; /* of a copy or fill */
        struct {
            weir__cu_host_fn fn;
            void *user;
        } host;
        struct fake_product *product;
        struct {
            struct fake_point *point;
            struct fake_event *event; /* of a node, which has no point */
        } mark;                       /* of a record or wait */
        struct {
            _Atomic uint64_t *address;
            uint64_t value;
        } word;
        struct fake_run graph;
    } u;
};

/* Numbers of nodes. */
struct fake_set {
    int *nodes, n;
};

struct fake_node {
    struct fake_op *op;
    int number;
    struct fake_set before;
};

/* Nodes in an order that keeps to their edges. */
struct fake_body {
    int refs;
    bool is_known; /* by its nodes: the graph that they are of is not destroyed */
    struct fake_node *nodes;
    int nnodes;
};

struct fake_graph {
    struct fake_object object;
    struct fake_body *body;
    struct fake_body *origin; /* of an executable one: of the graph that it was made of; NULL after
                               * an update, when its nodes have no names any more */
    struct fake_event **events; /* of an executable one: those that its nodes record */
};

struct fake_capture {
    uint64_t number;
    struct fake_body *body;
};

struct fake_stream {
    struct fake_object object;
    struct fake_stream *next;
    struct fake_context *context;
    struct fake_cores cores;
    struct fake_op *ops, **end;
    bool running, destroyed;
    struct fake_capture *capture;
    struct fake_set before; /* of its next node */
};

struct fake_event {
    struct fake_object object;
    struct fake_context *context;
    bool timed;
    struct fake_point *point; /* of the last record, */
    uint64_t capture;         /* or the number of the capture it was in, */
    struct fake_set before;   /* and the nodes before it there */
};

/* Of the current context; without cores, all of them. */
struct fake_stream *fake_new_stream(const struct fake_cores *cores);
/* The stream, or the current context's own for NULL; of the current context, or it is misuse. */
struct fake_stream *fake_stream(weir__cu_stream handle);
/* Of any context: some calls do without a current one. */
struct fake_stream *fake_any_stream(weir__cu_stream handle);
/* Queues the command, or makes it a node of the stream's capture. Takes it over. */
int fake_queue(struct fake_stream *s, const struct fake_op *op);
void fake_free_op(struct fake_op *op);
/* On the thread that runs streams, without the lock. */
void fake_run_op(struct fake_op *op);
/* Gives every queued command up, as the GPU is lost. */
void fake_lose(int code);
void fake_hold(bool held);
/* Until nothing is queued in the current context. */
void fake_await_idle(void);
bool fake_is_engine(void);
double fake_ms(void);
/* Whatever runs has taken so much longer, as far as events tell. */
void fake_skip_ms(int ms);
unsigned fake_random(void);

/* The capture of that number; NULL if it is over. */
struct fake_capture *fake_find_capture(uint64_t number);
/* Streams that are in the capture are so no more. */
void fake_leave_capture(const struct fake_capture *capture);

/* ---- events.c; under the lock ---- */
void fake_put_point(struct fake_point *p);
/* A stream is there. */
void fake_pass_point(struct fake_point *p);
/* The event is recorded again: what a command has of it. */
struct fake_point *fake_new_point(struct fake_event *e);

/* ---- graph.c ---- */
bool fake_is_record(const struct fake_node *node);
void fake_add_to_set(struct fake_set *set, const struct fake_set *more);
/* One holder less; under the lock. */
void fake_put_body(struct fake_body *body);
int fake_capture_op(struct fake_stream *s, struct fake_op *op);
void fake_capture_record(struct fake_stream *s, struct fake_event *e);
int fake_capture_wait(struct fake_stream *s, struct fake_event *e);
void fake_run_graph(const struct fake_run *run);
void fake_put_run(struct fake_run *run);
void fake_edges(int *early, int *full);
void fake_launched(char *text, size_t size);

/* ---- compile.c, kernels.c, products.c ---- */
bool fake_waits(const char *text); /* see control.h */
void fake_mutate(const char *file, const char *old, const char *new_text);
struct fake_module {
    struct fake_object object;
    char text[64];
    struct emu_module *module; /* NULL for a function */
    unsigned shared;           /* bytes that a launch may ask for */
    bool waits;                /* for earlier kernels, first of all */
};
/* 0, or the code that the GPU is lost with. */
int fake_run_kernel(const struct fake_op *op);
/* The text's kernel is a function here: it is not compiled. */
bool fake_is_function(const char *text);
void fake_run_product(const struct fake_product *p);
/* A name for what the library launches for it: the same for another one of the same sizes. */
weir__cu_function fake_product_function(const struct fake_product *p);
struct fake_product *fake_copy_product(const struct fake_product *p);
/* The command of a launch; FAKE_INVALID if it is refused. */
int fake_kernel_op(const struct fake_module *m, const struct weir__cu_launch *how, bool early,
                   unsigned cluster, void **params, struct fake_op *op);
void fake_slow_algorithm(int algorithm);
int fake_last_algorithm(void);
/* Notes a failure of the kernel. */
void fake_report(struct weir__code_context *c, int64_t index, int64_t limit, int64_t at);

void fake_replace_kernel(const char *text, fake_kernel kernel);

#endif
