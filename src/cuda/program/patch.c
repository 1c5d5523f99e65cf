/* Replaces the kernels of some nodes of a plan's executable graph: a run with other addresses or
 * sizes is then one launch again, without a capture. Launches that are pending keep what the graph
 * was when they were queued.
 *
 * A node is replaced only if it is on all cores and its kernel has the same source as before: edges
 * and attributes of a node never change. The library of matrix products does not say what it
 * launches, so a product is captured again, alone, and the parameters of its kernels are copied. */
#include <string.h>

#include "cuda/program/program.h"

/* Rough times on the host, in tenths of a microsecond. */
enum { PATCH = 15, CAPTURE = 200, LAUNCH = 40 };

/* ---- while the graph is captured ---- */

/* How many blocks a cluster of the node has; 1 if there are none, 0 if that is not known. */
static int64_t blocks_of_cluster(const struct weir__cuda *dev, weir__cu_node node)
{
    union weir__cu_launch_value value = {0};

    if (!dev->gpu.clusters)
        return 1;
    if (dev->api->cu.node_attribute(node, CU_LAUNCH_CLUSTER, &value))
        return 0;
    return weir__max(value.cluster[0], 1) * weir__max(value.cluster[1], 1) *
           weir__max(value.cluster[2], 1);
}

/* Finds `count` kernel nodes, one after the other, of which this is the last. */
static void find_nodes(const struct weir__cuda *dev, weir__cu_node last, size_t count,
                       struct weir__cuda_nodes *out)
{
    const struct weir__cu *cu = &dev->api->cu;
    int type;

    out->n = 0;
    if (count > weir__countof(out->at))
        return;
    for (size_t i = 0; i < count; i++) {
        uint64_t edge;
        size_t n = 1;

        if (i && (cu->node_before(last, NULL, NULL, &n) || n != 1 ||
                  cu->node_before(last, &last, &edge, &n)))
            return;
        if (cu->node_type(last, &type) || type != CU_NODE_KERNEL ||
            !(out->clusters[i] = blocks_of_cluster(dev, last)))
            return;
        out->at[i] = last;
    }
    out->n = (int)count;
}

void weir__cuda_note_nodes(struct weir__program *p, struct weir__cuda_item *item,
                           weir__cu_stream stream, size_t *nnodes)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    const weir__cu_node *last;
    const void *edges;
    weir__cu_graph graph;
    uint64_t id;
    size_t n, before = *nnodes;
    int status;

    item->noted.n = 0;
    if (cu->capture_info(stream, &status, &id, &graph, &last, &edges, &n) || !graph ||
        cu->graph_nodes(graph, NULL, nnodes))
        *nnodes = SIZE_MAX;
    else if (before != SIZE_MAX && *nnodes > before && n == 1)
        find_nodes(p->dev, last[0], *nnodes - before, &item->noted);
}

void weir__cuda_nodes_take(struct weir__program *p, bool any)
{
    for (int i = 0; i < p->norder; i++) {
        struct weir__cuda_item *item = weir__cuda_item_at(p, p->order[i]);

        item->nodes = any ? item->noted : (struct weir__cuda_nodes){.n = 0};
        item->noted.n = 0;
        item->code = item->kernel.code;
        item->changed = false;
    }
    p->nchanged = p->npatched = 0;
}

/* ---- one node ---- */

static weir_status refuse(const struct weir__cuda_item *item)
{
    return weir__fail(WEIR_EUNSUPPORTED, "node '%s' has another kernel now", item->kernel.name);
}

/* The library chooses a kernel's attributes together with its size, so both must be the same. */
static bool is_same_kernel(const struct weir__cu_node_kernel *a,
                           const struct weir__cu_node_kernel *b)
{
    return a->function == b->function && a->kernel == b->kernel && a->shared == b->shared &&
           !memcmp(a->grid, b->grid, sizeof a->grid) &&
           !memcmp(a->block, b->block, sizeof a->block);
}

/* Copies one of the nodes that is not in *seen: the one with the same kernel. */
static weir_status copy_node(struct weir__program *p, const struct weir__cuda_item *item,
                             const weir__cu_node *nodes, int which, unsigned *seen)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    weir__cu_node to = item->nodes.at[which];
    struct weir__cu_node_kernel from, old;
    int type;

    if (cu->node_kernel(to, &old))
        return refuse(item);
    for (int i = 0; i < item->nodes.n; i++) {
        if (*seen & 1u << i)
            continue;
        if (cu->node_type(nodes[i], &type) || type != CU_NODE_KERNEL ||
            cu->node_kernel(nodes[i], &from))
            break;
        if (!is_same_kernel(&from, &old) ||
            blocks_of_cluster(p->dev, nodes[i]) != item->nodes.clusters[which])
            continue;
        *seen |= 1u << i;
        return weir__cuda_check(p->dev, cu->exec_set_kernel(p->plain.exec, to, &from), "a plan");
    }
    return refuse(item);
}

/* The graph is that of the item alone. */
static weir_status copy_nodes(struct weir__program *p, const struct weir__cuda_item *item,
                              weir__cu_graph graph)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    weir__cu_node nodes[weir__countof(item->nodes.at)];
    size_t n = weir__countof(nodes);
    unsigned seen = 0;
    weir_status st = WEIR_OK;

    if (cu->graph_nodes(graph, NULL, &n) || (int)n != item->nodes.n ||
        cu->graph_nodes(graph, nodes, &n))
        return refuse(item);
    for (int i = 0; i < item->nodes.n && !st; i++)
        st = copy_node(p, item, nodes, i, &seen);
    return st;
}

static weir_status patch_product(struct weir__program *p, const struct weir__cuda_item *item,
                                 struct weir__cuda_sink *sink)
{
    const struct weir__cu *cu = &p->dev->api->cu;
    weir__cu_graph graph = NULL;
    weir_status st = WEIR_OK;
    weir__cu_result r;

    if (!p->scratch && (st = weir__cuda_new_stream(p->dev, NULL, 0, &p->scratch)))
        return st;
    if ((st =
             weir__cuda_check(p->dev, cu->capture_begin(p->scratch, CU_CAPTURE_RELAXED), "a plan")))
        return st;
    sink->stream = p->scratch;
    st = weir__cuda_issue(sink, &item->kernel);
    r = cu->capture_end(p->scratch, &graph);
    if (!st && !(st = weir__cuda_check(p->dev, r, "a plan")))
        st = copy_nodes(p, item, graph);
    if (graph)
        cu->graph_destroy(graph);
    return st;
}

static bool is_product(const struct weir__kernel *k)
{
    struct weir__product product;

    return k->code->product && k->code->product(k->args, &product);
}

static weir_status patch_item(struct weir__program *p, int lane, struct weir__cuda_item *item)
{
    struct weir__cuda_patch patch = {
        .exec = p->plain.exec, .node = item->nodes.at[0], .cluster = item->nodes.clusters[0]};
    struct weir__cuda_sink sink = weir__cuda_capture_sink(p, lane, &item->kernel);
    weir_status st;

    if (is_product(&item->kernel))
        return patch_product(p, item, &sink);
    if (item->nodes.n != 1)
        return refuse(item);
    sink.patch = &patch;
    st = weir__cuda_issue(&sink, &item->kernel);
    return st || patch.n == 1 ? st : refuse(item);
}

/* ---- all that have changed ---- */

/* Its node was captured on all cores, and a node keeps its cores. */
static bool has_limit(const struct weir__program *p, const struct weir__kernel *k)
{
    return k->engine <= WEIR_ENGINE_MIX && k->cores < p->dev->cores.total;
}

static bool pays(const struct weir__program *p)
{
    int patches = 0, launches = 0;

    for (int i = 0; i < p->norder; i++) {
        const struct weir__cuda_item *item = weir__cuda_item_at(p, p->order[i]);

        launches += item->is_wait || !item->kernel.fn ? 0 : LAUNCH;
        if (!item->changed || !item->kernel.fn)
            continue;
        if (!item->nodes.n || item->kernel.code != item->code || has_limit(p, &item->kernel)) {
            weir__log(WEIR_LOG_DEBUG, "the graph of a plan cannot follow node '%s'",
                      item->kernel.name);
            return false;
        }
        patches += is_product(&item->kernel) ? CAPTURE : PATCH;
    }
    return patches <= launches;
}

bool weir__cuda_program_patch(struct weir__program *p)
{
    weir_status st = WEIR_OK;

    if (!pays(p))
        return false;
    for (int i = 0; i < p->norder && !st; i++) {
        struct weir__cuda_item *item = weir__cuda_item_at(p, p->order[i]);

        if (item->changed && item->kernel.fn)
            st = patch_item(p, p->order[i].lane, item);
        item->changed &= st != WEIR_OK;
    }
    if (!st) {
        p->nchanged = 0;
        p->npatched++;
        return true;
    }
    weir__log(WEIR_LOG_DEBUG, "the graph of a plan cannot follow: %s", weir_last_error());
    weir__hush(); /* the graph is captured again, or its kernels are queued one by one */
    return false;
}
