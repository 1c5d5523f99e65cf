#include "graph/build/random_graph.h"

#include "harness/test.h"

#include <stdio.h>

struct maker {
    weir_graph *g;
    const struct random_graph_options *o;
    struct rng r;
    int labels[64], nlabels;
    _Alignas(max_align_t) unsigned char params[256];
};

struct random_graph_options random_graph_defaults(uint64_t seed, int nodes, int streams)
{
    return (struct random_graph_options){
        .seed = seed,
        .nodes = nodes,
        .streams = streams,
        .in_place = 20,
        .views = 25,
        .control = 10,
        .marks = 10,
    };
}

/* ---- operands ---- */

static struct weir__operand whole(const struct maker *m, int value)
{
    struct weir__operand operand = {.value = value, .view = m->g->values[value].view};

    operand.view.data = NULL;
    return operand;
}

static void transpose(struct weir__view *v)
{
    int64_t size = v->shape[0], stride = v->stride[0];

    v->shape[0] = v->shape[1];
    v->stride[0] = v->stride[1];
    v->shape[1] = size;
    v->stride[1] = stride;
}

static void slice(struct maker *m, struct weir__view *v)
{
    int dim = rng_below(&m->r, v->ndim);
    int64_t half = v->shape[dim] / 2, first = 0;

    if (!half)
        return;
    if (rng_percent(&m->r, 30)) { /* every second one */
        first = rng_below(&m->r, 2) * v->stride[dim];
        v->stride[dim] *= 2;
    } else if (rng_percent(&m->r, 50)) {
        first = half * v->stride[dim];
    }
    v->data = (char *)((intptr_t)v->data + (intptr_t)(first * (int64_t)sizeof(float)));
    v->shape[dim] = half;
}

static struct weir__operand pick(struct maker *m, int value)
{
    struct weir__operand operand = whole(m, value);

    if (!rng_percent(&m->r, m->o->views))
        return operand;
    if (rng_percent(&m->r, 40))
        transpose(&operand.view);
    if (rng_percent(&m->r, 60))
        slice(m, &operand.view);
    return operand;
}

static int any_value(struct maker *m)
{
    /* Mostly recent ones, so that graphs are deep as well as wide. */
    int n = m->g->nvalues, back = rng_percent(&m->r, 60) && n > 8 ? 8 : n;

    return n - 1 - rng_below(&m->r, back);
}

static struct weir__operand any_operand(struct maker *m)
{
    return pick(m, any_value(m));
}

/* An operand that `accept` takes against `a`, or `otherwise`. */
static struct weir__operand matching(struct maker *m, const struct weir__operand *a,
                                     bool (*accept)(const struct weir__view *a,
                                                    const struct weir__view *b),
                                     const struct weir__operand *otherwise)
{
    for (int i = 0; i < 6; i++) {
        struct weir__operand b = any_operand(m);

        if (accept(&a->view, &b.view))
            return b;
    }
    return *otherwise;
}

static bool broadcasts_to(const struct weir__view *a, const struct weir__view *b)
{
    return (b->shape[0] == a->shape[0] || b->shape[0] == 1) &&
           (b->shape[1] == a->shape[1] || b->shape[1] == 1);
}

static bool multiplies(const struct weir__view *a, const struct weir__view *b)
{
    return a->shape[1] == b->shape[0];
}

/* A value that may be written and is not among the inputs; -1 if none was found. */
static int writable(struct maker *m, const struct weir__operand *in, int nin)
{
    for (int tries = 0; tries < 6; tries++) {
        int value = any_value(m);
        enum weir__value_kind kind = m->g->values[value].kind;
        bool free = kind == WEIR__VALUE_NODE || (kind == WEIR__VALUE_INPUT && m->o->write_inputs);

        for (int i = 0; i < nin; i++)
            free = free && in[i].value != value;
        if (free)
            return value;
    }
    return -1;
}

/* ---- parameters: rows keep their structs to themselves, so by name ---- */

static void set(struct maker *m, const struct weir__op *op, const char *name, double value)
{
    for (size_t i = 0; i < op->nfields; i++) {
        void *at = m->params + op->fields[i].offset;

        if (strcmp(op->fields[i].name, name))
            continue;
        if (op->fields[i].kind == WEIR__FIELD_INT)
            *(int64_t *)at = (int64_t)value;
        else if (op->fields[i].kind == WEIR__FIELD_BOOL)
            *(bool *)at = value != 0;
        else
            *(double *)at = value;
        return;
    }
    FAIL("%s has no parameter %s", op->name, name);
}

static const struct weir__op *row(struct maker *m, const char *name)
{
    const struct weir__op *op = weir__op_find(name);

    CHECK(op != NULL);
    CHECK_LE(op->params_size, sizeof m->params);
    memset(m->params, 0, sizeof m->params);
    return op;
}

/* ---- nodes ---- */

static struct weir__marks marks(struct maker *m)
{
    int label = rng_below(&m->r, m->nlabels);
    struct weir__marks marks = {
        .stream = m->labels[label],
        .priority = label % 4 - 2,
        .super_kernel = -1,
    };

    if (!label)
        marks.priority = 0;
    if (rng_percent(&m->r, m->o->marks))
        marks.limit.cube = 1 + rng_below(&m->r, 2);
    if (rng_percent(&m->r, m->o->marks))
        marks.limit.vector = 1 + rng_below(&m->r, 2);
    if (rng_percent(&m->r, m->o->marks)) {
        marks.super_kernel = weir__graph_super_kernel(m->g, rng_percent(&m->r, 50) ? "sk0" : "sk1",
                                                      "stream-fusion=1");
        CHECK_GE(marks.super_kernel, 0);
    }
    marks.never_timeout = rng_percent(&m->r, m->o->marks);
    return marks;
}

static void add(struct maker *m, const struct weir__op *op, const struct weir__operand *in, int nin,
                const struct weir__operand *into)
{
    struct weir__marks where = marks(m);
    int control = 0, ncontrol = 0, node;

    if (m->g->nnodes && rng_percent(&m->r, m->o->control)) {
        control = rng_below(&m->r, m->g->nnodes);
        ncontrol = 1;
    }
    CHECK_OK(weir__graph_add_node(m->g, op, NULL, m->params, in, nin, into, &where, &control,
                                  ncontrol, &node));
}

static void add_unary(struct maker *m, const char *name)
{
    struct weir__operand in = any_operand(m);

    add(m, row(m, name), &in, 1, NULL);
}

static void add_in_place(struct maker *m)
{
    int value = writable(m, NULL, 0);
    struct weir__operand in[2];
    const struct weir__op *op;

    if (value < 0) {
        add_unary(m, "Relu");
        return;
    }
    in[0] = pick(m, value);
    switch (rng_below(&m->r, 4)) {
    case 0:
        op = row(m, "Fill");
        set(m, op, "value", rng_below(&m->r, 100) / 8.0);
        add(m, op, in, 1, NULL);
        break;
    case 1:
        op = row(m, "RandomUniform");
        set(m, op, "seed", rng_below(&m->r, 1 << 20));
        set(m, op, "high", 1);
        add(m, op, in, 1, NULL);
        break;
    default:
        op = row(m, "CopyInto");
        in[1] = matching(m, &in[0], broadcasts_to, &in[0]);
        if (in[1].value == in[0].value)
            in[1] = in[0]; /* the same elements or none: never some of them */
        add(m, op, in, 2, NULL);
    }
}

static void add_binary(struct maker *m, const char *name)
{
    struct weir__operand in[2], into;
    int target = -1;

    in[0] = any_operand(m);
    in[1] = matching(m, &in[0], broadcasts_to, &in[0]);
    if (rng_percent(&m->r, m->o->in_place) && (target = writable(m, in, 2)) >= 0) {
        into = pick(m, target);
        if (into.view.shape[0] != in[0].view.shape[0] || into.view.shape[1] != in[0].view.shape[1])
            target = -1;
    }
    add(m, row(m, name), in, 2, target < 0 ? NULL : &into);
}

static void add_matmul(struct maker *m)
{
    struct weir__operand in[2], turned;

    in[0] = turned = any_operand(m);
    transpose(&turned.view);
    in[1] = matching(m, &in[0], multiplies, &turned);
    add(m, row(m, "MatMul"), in, 2, NULL);
}

static void add_scalar(struct maker *m)
{
    struct weir__operand in = any_operand(m);
    const struct weir__op *op = row(m, "Mul");

    set(m, op, "value", 0.25 + rng_below(&m->r, 8) / 8.0);
    add(m, op, &in, 1, NULL);
}

static void add_along_dim(struct maker *m, const char *name)
{
    struct weir__operand in = any_operand(m);
    const struct weir__op *op = row(m, name);

    if (!strcmp(name, "Sum")) {
        set(m, op, "dims", rng_below(&m->r, 2));
        set(m, op, "ndims", 1);
        set(m, op, "keepdim", 1);
    } else {
        set(m, op, "dim", rng_below(&m->r, 2) - 2);
    }
    add(m, op, &in, 1, NULL);
}

/* Bounded by the last dim's mean square, so chains of matmul do not run off. The weight
 * is absent: optional operands are part of the game. */
static void add_norm(struct maker *m)
{
    struct weir__operand in[3] = {
        any_operand(m), {.value = WEIR__NO_VALUE}, {.value = WEIR__NO_VALUE}};
    const struct weir__op *op = row(m, "LayerNorm");

    set(m, op, "eps", 1e-5);
    for (int tries = 0; tries < 4 && in[2].value == WEIR__NO_VALUE; tries++) {
        struct weir__operand row0 = whole(m, any_value(m));

        if (row0.view.shape[1] == in[0].view.shape[1]) {
            row0.view.shape[0] = row0.view.shape[1];
            row0.view.stride[0] = row0.view.stride[1];
            row0.view.ndim = 1;
            in[2] = row0;
        }
    }
    add(m, op, in, 3, NULL);
}

static void add_any(struct maker *m)
{
    if (rng_percent(&m->r, m->o->in_place)) {
        add_in_place(m);
        return;
    }
    switch (rng_below(&m->r, 12)) {
    case 0:
        add_unary(m, "Relu");
        break;
    case 1:
        add_unary(m, "Tanh");
        break;
    case 2:
        add_unary(m, "Copy");
        break;
    case 3:
    case 4:
        add_binary(m, "Add");
        break;
    case 5:
        add_binary(m, "Sub");
        break;
    case 6:
        add_binary(m, "Maximum");
        break;
    case 7:
        add_scalar(m);
        break;
    case 8:
        add_along_dim(m, "Softmax");
        break;
    case 9:
        add_along_dim(m, "Sum");
        break;
    case 10:
        add_norm(m);
        break;
    default:
        add_matmul(m);
    }
}

/* ---- the ends ---- */

static void random_shape(struct maker *m, int64_t *shape)
{
    int side = m->o->side ? m->o->side : 16;

    for (int i = 0; i < 2; i++) {
        shape[i] = side;
        if (rng_percent(&m->r, 40))
            shape[i] = weir__max(1, shape[i] >> rng_below(&m->r, 3));
    }
}

static void add_inputs(struct maker *m)
{
    int n = 1 + rng_below(&m->r, 4);
    int64_t shape[2];
    weir_tensor *t;
    char name[16];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "x%d", i);
        random_shape(m, shape);
        CHECK_OK(weir_graph_input(m->g, name, WEIR_F32, 2, shape, &t));
        weir_tensor_release(t);
    }
}

static void add_constants(struct maker *m)
{
    int n = rng_below(&m->r, 3);
    struct weir__operand operand;
    int64_t shape[2];
    weir_tensor *t;

    for (int i = 0; i < n; i++) {
        random_shape(m, shape);
        CHECK_OK(weir_tensor_empty(weir_stream_default(m->g->dev), WEIR_F32, 2, shape, &t));
        CHECK_OK(weir_random_uniform(t, rng_next(&m->r) >> 1, -1, 1));
        CHECK_OK(weir__graph_operand(m->g, t, &operand));
        weir_tensor_release(t);
    }
}

/* Reads, of which writing in place is none. */
static bool *find_read(const weir_graph *g)
{
    bool *read = weir__calloc((size_t)g->nvalues, sizeof *read);

    CHECK(read != NULL);
    for (int i = 0; i < g->nnodes; i++) {
        const struct weir__node *n = &g->nodes[i];

        for (int j = n->op->flags & WEIR__OP_IN_PLACE ? 1 : 0; j < n->nin; j++)
            if (n->in[j].value != WEIR__NO_VALUE)
                read[n->in[j].value] = true;
    }
    return read;
}

static void add_outputs(struct maker *m)
{
    weir_graph *g = m->g;
    int nvalues = g->nvalues; /* naming a result may add one */
    bool *read = find_read(g);
    weir_tensor *t;
    char name[24];

    for (int v = 0; v < nvalues; v++) {
        struct weir__operand operand = whole(m, v);

        if (g->values[v].kind != WEIR__VALUE_NODE || (read[v] && !rng_percent(&m->r, 5)))
            continue;
        snprintf(name, sizeof name, "y%d", v);
        CHECK_OK(weir__graph_tensor(g, &operand, &t));
        CHECK_OK(weir_graph_output(g, name, t));
        weir_tensor_release(t);
    }
    weir__free(read);
}

weir_graph *random_graph(weir_device *dev, const struct random_graph_options *options)
{
    struct maker m = {.o = options, .r = {options->seed}};
    char label[16];

    CHECK_OK(weir_graph_create(dev, &m.g));
    m.labels[m.nlabels++] = 0;
    for (int i = 1; i < options->streams && m.nlabels < (int)weir__countof(m.labels); i++) {
        snprintf(label, sizeof label, "%d", i);
        m.labels[m.nlabels++] = weir__graph_label(m.g, label);
    }
    add_inputs(&m);
    add_constants(&m);
    while (m.g->nnodes < options->nodes)
        add_any(&m);
    add_outputs(&m);
    return m.g;
}
