/* The nodes of graphs: what they are, and replacing what they do. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static struct fake_node *check_node(weir__cu_node node)
{
    struct fake_node *n = node;

    if (!n || !n->op)
        fake_misuse("something that is no node is used as one");
    return n;
}

/* The number of the node, which is one of the graph that the executable one was made of. */
static ptrdiff_t find_node(const struct fake_graph *x, weir__cu_node node)
{
    const struct fake_body *origin = x->origin;
    ptrdiff_t at = origin ? check_node(node) - origin->nodes : -1;

    if (!origin || !origin->is_known || at < 0 || at >= origin->nnodes)
        fake_misuse("a node is named that the executable graph was not made of");
    return at;
}

int cuGraphGetNodes(weir__cu_graph graph, weir__cu_node *nodes, size_t *n)
{
    struct fake_body *body;

    FAKE_CALL_IN_CONTEXT();
    body = ((struct fake_graph *)fake_check(graph, FAKE_GRAPH))->body;
    for (int i = 0; nodes && i < body->nnodes && (size_t)i < *n; i++)
        nodes[i] = &body->nodes[i];
    if (!nodes || *n > (size_t)body->nnodes)
        *n = (size_t)body->nnodes;
    return 0;
}

int cuGraphNodeGetType(weir__cu_node node, int *type)
{
    FAKE_CALL_IN_CONTEXT();
    switch (check_node(node)->op->kind) {
    case FAKE_OP_KERNEL:
    case FAKE_OP_PRODUCT:
        *type = CU_NODE_KERNEL;
        break;
    case FAKE_OP_RECORD:
        *type = CU_NODE_EVENT_RECORD;
        break;
    default:
        *type = -1;
    }
    return 0;
}

int cuGraphNodeGetDependencies_v2(weir__cu_node node, weir__cu_node *before, uint64_t *edges,
                                  size_t *n)
{
    struct fake_node *self;
    ptrdiff_t at;

    FAKE_CALL_IN_CONTEXT();
    self = check_node(node);
    at = self->number;
    if (before && *n < (size_t)self->before.n)
        return FAKE_INVALID;
    for (int i = 0; before && i < self->before.n; i++) {
        before[i] = self - at + self->before.nodes[i];
        edges[i] = 0;
    }
    *n = (size_t)self->before.n;
    return 0;
}

int cuStreamGetCaptureInfo_v3(weir__cu_stream stream, int *status, uint64_t *id,
                              weir__cu_graph *graph, const weir__cu_node **last, const void **edges,
                              size_t *n)
{
    static _Thread_local weir__cu_node node; /* until the next */
    static _Thread_local struct fake_graph known;
    const struct fake_stream *s;

    FAKE_CALL_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    s = fake_stream(stream);
    *status = s->capture != NULL;
    *edges = NULL;
    *last = NULL;
    *n = 0;
    *graph = NULL;
    if (s->capture) {
        *id = s->capture->number;
        known = (struct fake_graph){.object = s->object, .body = s->capture->body};
        known.object.kind = FAKE_GRAPH; /* in all else as valid as the stream's */
        *graph = &known;
        *n = (size_t)s->before.n;
        if (*n == 1) {
            node = &s->capture->body->nodes[s->before.nodes[0]];
            *last = &node;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* Products are kernels of the library. The parameters are the node's own. */
int cuGraphKernelNodeGetParams_v2(weir__cu_node node, struct weir__cu_node_kernel *kernel)
{
    struct fake_op *op;

    FAKE_CALL_IN_CONTEXT();
    op = check_node(node)->op;
    memset(kernel, 0, sizeof *kernel);
    kernel->grid[0] = kernel->grid[1] = kernel->grid[2] = 1;
    kernel->block[0] = kernel->block[1] = kernel->block[2] = 1;
    if (op->kind == FAKE_OP_PRODUCT) {
        kernel->function = fake_product_function(op->u.product);
        kernel->params = (void **)op->u.product;
    } else if (op->kind == FAKE_OP_KERNEL) {
        kernel->function = (weir__cu_function)(uintptr_t)op->u.kernel.function;
        kernel->params = op->u.kernel.params;
        kernel->grid[0] = op->u.kernel.blocks;
        kernel->block[0] = op->u.kernel.threads;
        kernel->shared = op->u.kernel.shared;
    } else {
        return FAKE_INVALID;
    }
    return 0;
}

int cuGraphKernelNodeGetAttribute(weir__cu_node node, int id, union weir__cu_launch_value *value)
{
    const struct fake_op *op;

    FAKE_CALL_IN_CONTEXT();
    op = check_node(node)->op;
    if (id != CU_LAUNCH_CLUSTER || (op->kind != FAKE_OP_KERNEL && op->kind != FAKE_OP_PRODUCT))
        return FAKE_INVALID;
    memset(value, 0, sizeof *value);
    if (op->kind == FAKE_OP_KERNEL && op->u.kernel.cluster > 1) {
        value->cluster[0] = op->u.kernel.cluster;
        value->cluster[1] = value->cluster[2] = 1;
    }
    return 0;
}

/* The node with another command; edges, attributes and cores stay. NULL if it is refused. */
static struct fake_op *replace(const struct fake_op *old, const struct weir__cu_node_kernel *kernel)
{
    const struct weir__cu_launch how = {
        .grid = {kernel->grid[0], kernel->grid[1], kernel->grid[2]},
        .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
        .shared = kernel->shared};
    struct fake_op *op = calloc(1, sizeof *op);

    if (!op)
        abort();
    op->kind = old->kind;
    if (old->kind == FAKE_OP_PRODUCT) {
        if (kernel->function != fake_product_function(old->u.product))
            fake_misuse("a product is replaced by one with other attributes");
        op->u.product = fake_copy_product((const struct fake_product *)kernel->params);
        return op;
    }
    if (fake_kernel_op(fake_check(kernel->function, FAKE_MODULE), &how, old->u.kernel.early,
                       old->u.kernel.cluster, kernel->params, op)) {
        free(op);
        return NULL;
    }
    op->u.kernel.given = fake_blocks_given();
    op->u.kernel.cores = old->u.kernel.cores;
    return op;
}

/* Launches that are queued keep what the graph was: the executable graph gets nodes of its own. */
int cuGraphExecKernelNodeSetParams_v2(weir__cu_exec exec, weir__cu_node node,
                                      const struct weir__cu_node_kernel *kernel)
{
    struct fake_body *body;
    struct fake_graph *x;
    struct fake_op *op;
    ptrdiff_t at;

    FAKE_CALL_IN_CONTEXT();
    x = fake_check(exec, FAKE_EXEC);
    at = find_node(x, node);
    pthread_mutex_lock(&fake_lock);
    if ((op = replace(x->body->nodes[at].op, kernel))) {
        if (!(body = calloc(1, sizeof *body)) ||
            !(body->nodes = calloc((size_t)x->body->nnodes + 1, sizeof *body->nodes)))
            abort();
        body->refs = 1;
        body->nnodes = x->body->nnodes;
        for (int i = 0; i < body->nnodes; i++) {
            body->nodes[i].op = i == at ? op : x->body->nodes[i].op;
            body->nodes[i].op->sharers += i != at;
            fake_add_to_set(&body->nodes[i].before, &x->body->nodes[i].before);
        }
        fake_put_body(x->body);
        x->body = body;
    }
    pthread_mutex_unlock(&fake_lock);
    return op ? 0 : FAKE_INVALID;
}

int cuGraphEventRecordNodeGetEvent(weir__cu_node node, weir__cu_event *event)
{
    FAKE_CALL_IN_CONTEXT();
    if (!fake_is_record(check_node(node)))
        return FAKE_INVALID;
    *event = ((struct fake_node *)node)->op->u.mark.event;
    return 0;
}

int cuGraphExecEventRecordNodeSetEvent(weir__cu_exec exec, weir__cu_node node, weir__cu_event event)
{
    const struct fake_graph *x;
    ptrdiff_t at;

    FAKE_CALL_IN_CONTEXT();
    x = fake_check(exec, FAKE_EXEC);
    at = find_node(x, node);
    if (!fake_is_record(node))
        fake_misuse("an event is set of a node that has none");
    pthread_mutex_lock(&fake_lock);
    x->events[at] = fake_check(event, FAKE_EVENT);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}
