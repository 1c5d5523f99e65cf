/* Named sizes: free ones, which a run's inputs decide, and expressions of them. */
#include "tensor/size.h"

#include "graph/build/graph.h"

/* Plans have room for sizes rounded up to a multiple of about an eighth of the size. */
enum { ROOM_SHARE = 8, ROOM_LEAST = 8 };

/* Compiling tries every dynamic graph with this size: what does not fit it was built from the
 * stand-in size alone. */
#define TRIAL_SIZE (2 * WEIR__DYNAMIC_SIZE)

static weir_status add_size(weir_graph *g, const struct weir__named_size *size, int64_t example,
                            int64_t *out)
{
    if (g->nsizes == WEIR__SIZE_MAX || example <= -WEIR__SIZE_LIMIT || example >= WEIR__SIZE_LIMIT)
        return weir__fail(WEIR_ERANGE,
                          "size %lld cannot be named size %d of a graph: sizes are below 2^39, and "
                          "a graph has at most %d named sizes",
                          (long long)example, g->nsizes, WEIR__SIZE_MAX);
    if (!weir__grow(&g->sizes, g->nsizes, &g->cap_sizes, sizeof *g->sizes))
        return weir__fail_nomem("naming a size of a graph");
    *out = weir__size_name(g->nsizes, example);
    g->sizes[g->nsizes++] = *size;
    return WEIR_OK;
}

weir_status weir_graph_size(weir_graph *g, int64_t example, int64_t *size)
{
    WEIR__NEED(g, "graph");
    WEIR__NEED(size, "size");
    if (example < 0)
        return weir__fail(WEIR_ERANGE, "a size is at least 0, not %lld", (long long)example);
    return add_size(g, &(struct weir__named_size){.is_free = true}, example, size);
}

/* returns  WEIR_EINVAL for a division by 0, WEIR_ERANGE for a result that is not a valid size. */
static weir_status compute(weir_size_op op, int64_t a, int64_t b, int64_t *out)
{
    bool overflows = false;
    int64_t quotient;

    if ((op == WEIR_SIZE_FLOOR_DIV || op == WEIR_SIZE_MOD) && !b)
        return weir__fail(WEIR_EINVAL, "the size %lld divided by 0", (long long)a);
    switch (op) {
    case WEIR_SIZE_ADD:
        overflows = __builtin_add_overflow(a, b, out);
        break;
    case WEIR_SIZE_MUL:
        overflows = __builtin_mul_overflow(a, b, out);
        break;
    case WEIR_SIZE_FLOOR_DIV:
    case WEIR_SIZE_MOD:
        quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));
        *out = op == WEIR_SIZE_MOD ? a - quotient * b : quotient;
        break;
    case WEIR_SIZE_MIN:
        *out = weir__min(a, b);
        break;
    case WEIR_SIZE_MAX:
        *out = weir__max(a, b);
        break;
    }
    if (overflows || *out <= -WEIR__SIZE_LIMIT || *out >= WEIR__SIZE_LIMIT)
        return weir__fail(WEIR_ERANGE, "a size computed of %lld and %lld is not below 2^39",
                          (long long)a, (long long)b);
    return WEIR_OK;
}

static bool is_known(const weir_graph *g, int64_t n)
{
    return !weir__size_is_named(n) || weir__size_index(n) < g->nsizes;
}

weir_status weir_graph_size_expr(weir_graph *g, weir_size_op op, int64_t a, int64_t b,
                                 int64_t *size)
{
    int64_t example;
    weir_status st;

    WEIR__NEED(g, "graph");
    WEIR__NEED(size, "size");
    if (op > WEIR_SIZE_MAX)
        return weir__fail(WEIR_EINVAL, "size operation %d is out of range: 0..%d", (int)op,
                          WEIR_SIZE_MAX);
    if (!is_known(g, a) || !is_known(g, b))
        return weir__fail(WEIR_EINVAL, "the named size belongs to another graph");
    if ((st = compute(op, weir__size_value(a, NULL), weir__size_value(b, NULL), &example)))
        return st;
    return add_size(g, &(struct weir__named_size){.op = op, .a = a, .b = b}, example, size);
}

weir_status weir__sizes_use(weir_graph *g, int input, int dim, int64_t size)
{
    if (!is_known(g, size))
        return weir__fail(WEIR_EINVAL, "the named size belongs to another graph");
    if (!weir__grow(&g->size_uses, g->nsize_uses, &g->cap_size_uses, sizeof *g->size_uses))
        return weir__fail_nomem("allocating the sizes of a graph's input");
    g->size_uses[g->nsize_uses++] = (struct weir__size_use){input, dim, size};
    return WEIR_OK;
}

/* Computes the free sizes from the first inputs that have them, then the expressions. */
static weir_status evaluate(const weir_graph *g, const int64_t *const *inputs, int64_t *values)
{
    for (int i = 0; i < g->nsizes; i++)
        values[i] = -1;
    for (int i = g->nsize_uses - 1; i >= 0; i--) { /* backwards, so that the first input wins */
        const struct weir__size_use *u = &g->size_uses[i];

        if (g->sizes[weir__size_index(u->size)].is_free)
            values[weir__size_index(u->size)] = inputs[u->input][u->dim];
    }
    for (int i = 0; i < g->nsizes; i++) {
        const struct weir__named_size *s = &g->sizes[i];
        weir_status st;

        if (s->is_free && values[i] < 0)
            return weir__fail(WEIR_EINVAL,
                              "named size %d of the graph is not the size of any input", i);
        if (!s->is_free && (st = compute(s->op, weir__size_value(s->a, values),
                                         weir__size_value(s->b, values), &values[i])))
            return st;
    }
    return WEIR_OK;
}

weir_status weir__sizes_at(const weir_graph *g, const int64_t *const *inputs, int64_t *values)
{
    weir_status st = evaluate(g, inputs, values);

    for (int i = 0; i < g->nsize_uses && !st; i++) {
        const struct weir__size_use *u = &g->size_uses[i];
        int64_t want = weir__size_value(u->size, values), have = inputs[u->input][u->dim];

        if (have != want)
            st = weir__fail(
                WEIR_ESHAPE, "input '%s' has %lld in dim %d, but the other inputs make it %lld",
                g->values[g->inputs[u->input]].name, (long long)have, u->dim, (long long)want);
    }
    return st;
}

static int64_t with_room(int64_t n)
{
    int64_t step = ROOM_LEAST;

    while (step * 2 * ROOM_SHARE <= n)
        step *= 2;
    return n < 2 ? n : weir__div_up(n, step) * step;
}

weir_status weir__sizes_with_room(const weir_graph *from, const int64_t *const *inputs,
                                  int64_t (*larger)[WEIR_MAX_DIMS])
{
    size_t n = (size_t)from->nsizes + 1;
    int64_t *values = weir__malloc(n * sizeof *values);
    const int64_t **sizes = weir__malloc(((size_t)from->ninputs + 1) * sizeof *sizes);
    weir_status st =
        values && sizes ? WEIR_OK : weir__fail_nomem("allocating the sizes of a graph");

    for (int i = 0; i < from->ninputs && !st; i++) {
        const struct weir__value *v = &from->values[from->inputs[i]];

        for (int d = 0; d < v->view.ndim; d++)
            larger[i][d] = v->dynamic & 1u << d ? with_room(inputs[i][d]) : inputs[i][d];
        sizes[i] = larger[i];
    }
    if (!st)
        st = evaluate(from, sizes, values);
    for (int i = 0; i < from->nsize_uses && !st; i++) {
        const struct weir__size_use *u = &from->size_uses[i];

        larger[u->input][u->dim] = weir__size_value(u->size, values);
    }
    weir__free(values);
    weir__free(sizes);
    return st;
}

weir_status weir__graph_of_examples(const weir_graph *g, weir_graph **out)
{
    const int64_t **sizes = weir__malloc(((size_t)g->ninputs + 1) * sizeof *sizes);
    weir_status st;

    *out = NULL;
    if (!sizes)
        return weir__fail_nomem("allocating the sizes of a graph");
    for (int i = 0; i < g->ninputs; i++)
        sizes[i] = g->values[g->inputs[i]].view.shape;
    st = weir__graph_specialise(g, sizes, out);
    weir__free(sizes);
    return st;
}

weir_status weir__graph_try_sizes(const weir_graph *g)
{
    size_t n = (size_t)g->ninputs;
    int64_t(*shapes)[WEIR_MAX_DIMS] = weir__calloc(n, sizeof *shapes);
    const int64_t **sizes = weir__calloc(n, sizeof *sizes);
    weir_graph *tried = NULL;
    weir_status st;

    if (!shapes || !sizes) {
        st = weir__fail_nomem("allocating the inputs of a graph");
    } else {
        for (size_t i = 0; i < n; i++) {
            struct weir__view v = weir__input_view(&g->values[g->inputs[i]]);

            for (int k = 0; k < v.ndim; k++)
                shapes[i][k] = v.shape[k] < 0 ? TRIAL_SIZE : v.shape[k];
            sizes[i] = shapes[i];
        }
        st = weir__graph_specialise(g, sizes, &tried);
    }
    weir_graph_destroy(tried);
    weir__free(shapes);
    weir__free(sizes);
    return st ? weir__fail(st, "the graph does not follow its dynamic sizes: %s", weir_last_error())
              : WEIR_OK;
}
