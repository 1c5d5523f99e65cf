/* Captures and graphs. A graph runs its nodes in any order that its edges allow. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

void fake_add_to_set(struct fake_set *set, const struct fake_set *more)
{
    for (int i = 0; i < more->n; i++) {
        bool has = false;

        for (int k = 0; k < set->n && !has; k++)
            has = set->nodes[k] == more->nodes[i];
        if (has)
            continue;
        if (!(set->nodes = realloc(set->nodes, (size_t)(set->n + 1) * sizeof *set->nodes)))
            abort();
        set->nodes[set->n++] = more->nodes[i];
    }
}

void fake_put_body(struct fake_body *body)
{
    if (!body || --body->refs)
        return;
    for (int i = 0; i < body->nnodes; i++) {
        fake_free_op(body->nodes[i].op);
        free(body->nodes[i].before.nodes);
    }
    free(body->nodes);
    free(body);
}

void fake_put_run(struct fake_run *run)
{
    for (int i = 0; i < run->body->nnodes; i++)
        fake_put_point(run->points[i]);
    free(run->points);
    fake_put_body(run->body);
}

static void run_node(const struct fake_run *run, int i)
{
    if (!run->points[i]) {
        fake_run_op(run->body->nodes[i].op);
        return;
    }
    pthread_mutex_lock(&fake_lock);
    fake_pass_point(run->points[i]);
    pthread_mutex_unlock(&fake_lock);
}

/* Without the lock: the command that runs it keeps the body, which never changes. */
void fake_run_graph(const struct fake_run *run)
{
    const struct fake_body *body = run->body;
    bool *over = calloc((size_t)body->nnodes + 1, sizeof *over);

    if (!over)
        abort();
    for (int left = body->nnodes; left; left--) {
        int chosen = -1;
        unsigned n = 0;

        for (int i = 0; i < body->nnodes; i++) {
            const struct fake_set *before = &body->nodes[i].before;
            bool due = !over[i];

            for (int k = 0; k < before->n && due; k++)
                due = over[before->nodes[k]];
            if (due && fake_random() % ++n == 0)
                chosen = i;
        }
        if (!atomic_load(&fake_lost))
            run_node(run, chosen);
        over[chosen] = true;
    }
    free(over);
}

/* ---- kinds of edges ---- */

static _Atomic int early_edges, full_edges; /* of the graph that was made last */

void fake_edges(int *early, int *full)
{
    *early = early_edges;
    *full = full_edges;
}

static bool is_early(const struct fake_op *op)
{
    return op->kind == FAKE_OP_KERNEL && op->u.kernel.early;
}

bool fake_is_record(const struct fake_node *node)
{
    return node->op->kind == FAKE_OP_RECORD;
}

/* Those to events are of no matter to the rest. */
static void count_edges(const struct fake_body *body)
{
    early_edges = full_edges = 0;
    for (int i = 0; i < body->nnodes; i++) {
        const struct fake_set *before = &body->nodes[i].before;

        if (fake_is_record(&body->nodes[i]))
            continue;
        for (int k = 0; k < before->n; k++) {
            int from = body->nodes[before->nodes[k]].op->kind;
            bool early =
                is_early(body->nodes[i].op) && (from == FAKE_OP_KERNEL || from == FAKE_OP_PRODUCT);

            early_edges += early;
            full_edges += !early;
        }
    }
}

/* ---- what was launched ---- */

static char launched[4096]; /* under the lock */

/* The node's number among those that are no events. */
static int number_of(const struct fake_body *body, int node)
{
    int n = 0;

    if (fake_is_record(&body->nodes[node]))
        fake_misuse("a node comes after an event");
    for (int i = 0; i < node; i++)
        n += !fake_is_record(&body->nodes[i]);
    return n;
}

/* "add 132 < 0; product < 0 1": what each node is, its cores, and those before it. */
static void note_launch(const struct fake_body *body)
{
    size_t at = 0, size = sizeof launched;

    launched[0] = 0;
    for (int i = 0; i < body->nnodes && at < size; i++) {
        const struct fake_node *node = &body->nodes[i];
        char clusters[32] = "";

        if (fake_is_record(node))
            continue;
        if (node->op->kind == FAKE_OP_KERNEL && node->op->u.kernel.cluster > 1)
            snprintf(clusters, sizeof clusters, " in clusters of %u", node->op->u.kernel.cluster);
        if (node->op->kind == FAKE_OP_KERNEL)
            at += (size_t)snprintf(launched + at, size - at, "%s %u of %d+%u%s%s",
                                   node->op->u.kernel.text, node->op->u.kernel.blocks,
                                   node->op->u.kernel.cores.nruns,
                                   node->op->u.kernel.cores.runs[0].count,
                                   is_early(node->op) ? " early" : "", clusters);
        else
            at += (size_t)snprintf(launched + at, size - at, "%d", (int)node->op->kind);
        for (int k = 0; k < node->before.n && at < size; k++)
            at += (size_t)snprintf(launched + at, size - at, "%s%d", k ? " " : " < ",
                                   number_of(body, node->before.nodes[k]));
        if (at < size)
            at += (size_t)snprintf(launched + at, size - at, "; ");
    }
}

void fake_launched(char *text, size_t size)
{
    pthread_mutex_lock(&fake_lock);
    snprintf(text, size, "%s", launched);
    pthread_mutex_unlock(&fake_lock);
}

/* ---- capturing; under the lock ---- */

int fake_capture_op(struct fake_stream *s, struct fake_op *op)
{
    struct fake_body *body = s->capture->body;
    struct fake_set self = {&body->nnodes, 1};
    struct fake_node *node;

    if (op->kind == FAKE_OP_WRITE || op->kind == FAKE_OP_WAIT_VALUE || op->kind == FAKE_OP_GRAPH)
        fake_misuse("a command that weir's graphs do not have is captured");
    if (!body->nodes && !(body->nodes = malloc(FAKE_NODES * sizeof *body->nodes)))
        abort(); /* they do not move: a handle is an address */
    if (body->nnodes == FAKE_NODES)
        fake_misuse("a graph has more than %d nodes", FAKE_NODES);
    node = &body->nodes[body->nnodes];
    *node = (struct fake_node){.op = op, .number = body->nnodes, .before = s->before};
    s->before = (struct fake_set){NULL, 0};
    fake_add_to_set(&s->before, &self);
    body->nnodes++;
    return 0;
}

void fake_capture_record(struct fake_stream *s, struct fake_event *e)
{
    e->capture = s->capture->number;
    fake_add_to_set(&e->before, &s->before);
}

int fake_capture_wait(struct fake_stream *s, struct fake_event *e)
{
    struct fake_capture *capture = fake_find_capture(e->capture);

    if (!capture || (s->capture && s->capture != capture))
        return FAKE_CAPTURE_ISOLATION;
    s->capture = capture;
    fake_add_to_set(&s->before, &e->before);
    return 0;
}

int cuStreamBeginCapture_v2(weir__cu_stream stream, int mode)
{
    static uint64_t number;
    struct fake_stream *s;

    FAKE_CALL_IN_CONTEXT();
    if (mode != CU_CAPTURE_RELAXED)
        return FAKE_INVALID;
    pthread_mutex_lock(&fake_lock);
    s = fake_stream(stream);
    if (s->capture)
        fake_misuse("a stream is captured twice");
    s->capture = calloc(1, sizeof *s->capture);
    if (!s->capture || !(s->capture->body = calloc(1, sizeof *s->capture->body)))
        abort();
    s->capture->number = ++number;
    s->capture->body->refs = 1;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* Whether the nodes in the set come after every other. */
static bool has_all(const struct fake_body *body, const struct fake_set *last)
{
    bool *seen = calloc((size_t)body->nnodes + 1, sizeof *seen), all = true;

    if (!seen)
        abort();
    for (int i = 0; i < last->n; i++)
        seen[last->nodes[i]] = true;
    for (int i = body->nnodes - 1; i >= 0; i--) {
        all &= seen[i];
        for (int k = 0; k < body->nodes[i].before.n && seen[i]; k++)
            seen[body->nodes[i].before.nodes[k]] = true;
    }
    free(seen);
    return all;
}

int cuStreamEndCapture(weir__cu_stream stream, weir__cu_graph *graph)
{
    int code = fake_enter_context(__func__);
    struct fake_capture *capture;
    struct fake_stream *s;
    struct fake_graph *g;

    *graph = NULL;
    pthread_mutex_lock(&fake_lock);
    s = fake_stream(stream);
    if (!(capture = s->capture))
        fake_misuse("a capture ends that has not begun");
    if (!code && !has_all(capture->body, &s->before))
        code = FAKE_CAPTURE_UNJOINED;
    if (!code) {
        g = fake_new(FAKE_GRAPH, sizeof *g);
        g->body = capture->body;
        g->body->is_known = true;
        *graph = g;
    } else {
        fake_put_body(capture->body);
    }
    fake_leave_capture(capture);
    free(capture);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* ---- graphs ---- */

int cuGraphDestroy(weir__cu_graph graph)
{
    int code = fake_enter_context(__func__);
    struct fake_graph *g = fake_check(graph, FAKE_GRAPH);

    pthread_mutex_lock(&fake_lock);
    g->body->is_known = false;
    fake_put_body(g->body);
    pthread_mutex_unlock(&fake_lock);
    fake_forget(g);
    free(g);
    return code;
}

/* An executable graph is another holder of the same nodes, which no one changes. */
int cuGraphInstantiateWithFlags(weir__cu_exec *exec, weir__cu_graph graph, uint64_t flags)
{
    const struct fake_graph *g;
    struct fake_graph *x;

    (void)flags;
    FAKE_CALL_IN_CONTEXT();
    g = fake_check(graph, FAKE_GRAPH);
    x = fake_new(FAKE_EXEC, sizeof *x);
    pthread_mutex_lock(&fake_lock);
    x->body = x->origin = g->body;
    x->body->refs += 2;
    if (!(x->events = calloc((size_t)x->body->nnodes + 1, sizeof *x->events)))
        abort();
    for (int i = 0; i < x->body->nnodes; i++)
        if (fake_is_record(&x->body->nodes[i]))
            x->events[i] = x->body->nodes[i].op->u.mark.event;
    count_edges(x->body);
    pthread_mutex_unlock(&fake_lock);
    *exec = x;
    return 0;
}

int cuGraphExecDestroy(weir__cu_exec exec)
{
    int code = fake_enter_context(__func__);
    struct fake_graph *x = fake_check(exec, FAKE_EXEC);

    pthread_mutex_lock(&fake_lock);
    fake_put_body(x->body);
    fake_put_body(x->origin);
    pthread_mutex_unlock(&fake_lock);
    fake_forget(x);
    free(x->events);
    free(x);
    return code;
}

static bool is_alike(const struct fake_body *a, const struct fake_body *b)
{
    bool alike = a->nnodes == b->nnodes;

    for (int i = 0; i < a->nnodes && alike; i++) {
        const struct fake_node *x = &a->nodes[i], *y = &b->nodes[i];

        alike = x->op->kind == y->op->kind && !fake_is_record(x) && x->before.n == y->before.n &&
                is_early(x->op) == is_early(y->op);
        for (int k = 0; k < x->before.n && alike; k++)
            alike = x->before.nodes[k] == y->before.nodes[k];
    }
    return alike;
}

/* Launches that are queued keep what the graph was. */
int cuGraphExecUpdate_v2(weir__cu_exec exec, weir__cu_graph graph, struct weir__cu_update *result)
{
    struct fake_graph *x, *g;
    int code = 0;

    FAKE_CALL_IN_CONTEXT();
    x = fake_check(exec, FAKE_EXEC);
    g = fake_check(graph, FAKE_GRAPH);
    memset(result, 0, sizeof *result);
    pthread_mutex_lock(&fake_lock);
    if (is_alike(x->body, g->body)) {
        fake_put_body(x->body);
        fake_put_body(x->origin);
        x->body = g->body;
        x->origin = NULL;
        x->body->refs++;
    } else {
        code = FAKE_GRAPH_CHANGED;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static struct fake_point **make_points(const struct fake_graph *x)
{
    struct fake_point **points = calloc((size_t)x->body->nnodes + 1, sizeof *points);

    if (!points)
        abort();
    for (int i = 0; i < x->body->nnodes; i++)
        if (x->events[i])
            points[i] = fake_new_point(fake_check(x->events[i], FAKE_EVENT));
    return points;
}

int cuGraphLaunch(weir__cu_exec exec, weir__cu_stream stream)
{
    struct fake_op op = {.kind = FAKE_OP_GRAPH};
    const struct fake_graph *x;
    int code;

    FAKE_CALL_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    x = fake_check(exec, FAKE_EXEC);
    op.u.graph = (struct fake_run){x->body, make_points(x)};
    x->body->refs++;
    note_launch(x->body);
    code = fake_queue(fake_stream(stream), &op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
