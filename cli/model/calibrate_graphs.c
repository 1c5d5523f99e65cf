/* Builds the graphs that a calibration runs; uses only the public API. */
#include "model/calibrate.h"

static const char *const tags[] = {"calibrate:1", "calibrate:2"};

/* Replaces *y by the next tensor of a chain and releases the old one. */
static weir_status advance(enum calibration_body body, int i, weir_tensor *w, weir_tensor **y)
{
    weir_tensor *next = NULL;
    weir_status st;

    switch (body) {
    case BODY_MATMUL:
        st = weir_matmul(*y, w, &next);
        break;
    case BODY_GELU:
        st = weir_gelu(*y, &next);
        break;
    case BODY_LAYERS:
        st = i % 4 == 1   ? weir_gelu(*y, &next)
             : i % 4 == 3 ? weir_add(*y, w, &next)
                          : weir_matmul(*y, w, &next);
        break;
    default:
        st = weir_neg(*y, &next);
        break;
    }
    weir_tensor_release(*y);
    *y = next;
    return st;
}

/* Builds a chain from x on stream `tag`, or on the caller's stream if `tag` is NULL. With `hops`
 * the operators alternate between two streams. */
static weir_status chain(enum calibration_body body, bool hops, const char *tag, int nodes,
                         weir_tensor *x, weir_tensor *w, weir_tensor **y)
{
    weir_status st = WEIR_OK;

    *y = weir_tensor_retain(x);
    for (int i = 0; i < nodes && !st; i++) {
        const char *on = hops ? tags[i % 2] : tag;

        if (on && (st = weir_scope_push_stream(on, 0)))
            break;
        st = advance(body, i, w, y);
        if (on && weir_scope_pop(WEIR_SCOPE_STREAM) && !st)
            st = WEIR_ESTATE;
    }
    return st;
}

/* Builds matmul, gelu, matmul on a stream, and adds the result to *sum if that is not NULL. */
static weir_status expert(const char *tag, weir_tensor *x, weir_tensor *w, weir_tensor **sum)
{
    weir_tensor *y, *next = NULL;
    weir_status st = chain(BODY_LAYERS, false, tag, 3, x, w, &y);

    if (!st && *sum) {
        st = weir_add(*sum, y, &next);
        weir_tensor_release(*sum);
        weir_tensor_release(y);
        *sum = next;
    } else {
        *sum = y;
    }
    return st;
}

static weir_status experts(const struct calibration_graph *what, weir_tensor *x, weir_tensor *w,
                           weir_tensor **y, weir_tensor **z)
{
    weir_tensor *logits = NULL, *gate = NULL;
    weir_status st = weir_matmul(x, w, &logits);

    if (!st)
        st = weir_softmax(logits, 1, &gate);
    if (!st && what->streams > 1)
        st = expert(tags[0], x, w, z);
    for (int i = 0; i < what->nodes && !st; i++)
        st = expert(NULL, gate, w, y);
    if (logits)
        weir_tensor_release(logits);
    if (gate)
        weir_tensor_release(gate);
    return st;
}

/* Builds y = x + w; on one stream, after y, z = x w; then u = x w; on another, after z, x + w. */
static weir_status seed(weir_tensor *x, weir_tensor *w, weir_tensor **y, weir_tensor **z)
{
    weir_tensor *product = NULL, *late = NULL;
    weir_status st;

    if ((st = weir_add(x, w, y)) || (st = weir_scope_push_stream(tags[0], 0)))
        return st;
    if (!(st = weir_wait_tensor(w, *y)))
        st = weir_matmul(x, w, &product);
    if (weir_scope_pop(WEIR_SCOPE_STREAM) && !st)
        st = WEIR_ESTATE;
    if (!st)
        st = weir_matmul(x, w, z);
    if (!st && !(st = weir_scope_push_stream(tags[1], 0))) {
        if (!(st = weir_wait_tensor(w, product)))
            st = weir_add(*z, product, &late);
        if (weir_scope_pop(WEIR_SCOPE_STREAM) && !st)
            st = WEIR_ESTATE;
    }
    if (product)
        weir_tensor_release(product);
    if (late) {
        weir_tensor_release(*z);
        *z = late;
    }
    return st;
}

static weir_status capture(const struct calibration_graph *what, weir_tensor *x, weir_tensor *w,
                           weir_tensor **y, weir_tensor **z)
{
    enum calibration_body first = what->body == BODY_MIXED ? BODY_MATMUL : what->body;
    enum calibration_body second = what->body == BODY_MIXED ? BODY_GELU : what->body;
    int nodes = what->nodes / (what->streams > 1 ? 2 : 1);
    weir_status st;

    if (what->body == BODY_EXPERTS)
        return experts(what, x, w, y, z);
    if (what->body == BODY_SEED)
        return seed(x, w, y, z);
    if (what->body == BODY_HOPS)
        return chain(BODY_TINY, true, NULL, what->nodes, x, w, y);
    st = chain(first, false, what->streams > 1 ? tags[0] : NULL, nodes, x, w, y);
    if (!st && what->streams > 1)
        st = chain(second, false, tags[1], nodes, x, w, z);
    return st;
}

weir_status calibration_build(const struct calibration_graph *what, weir_device *dev,
                              weir_graph **out)
{
    const int64_t shape[2] = {what->n, what->n};
    weir_tensor *x = NULL, *w = NULL, *y = NULL, *z = NULL;
    weir_graph *g;
    weir_status st;

    *out = NULL;
    if (what->body == BODY_FILE)
        return weir_graph_load_file(dev, what->name, out);
    if ((st = weir_graph_create(dev, &g)))
        return st;
    if (what->body == BODY_SWEEP) {
        if ((st = calibration_build_sweep(what, g)))
            weir_graph_destroy(g);
        else
            *out = g;
        return st;
    }
    if (!(st = weir_graph_input(g, "x", what->dtype, 2, shape, &x)) &&
        !(st = weir_graph_input(g, "w", what->dtype, 2, shape, &w)) &&
        !(st = weir_graph_begin(g))) {
        weir_status ended;

        st = capture(what, x, w, &y, &z);
        ended = weir_graph_end(g);
        st = st ? st : ended;
    }
    if (!st)
        st = weir_graph_output(g, "y", y);
    if (!st && z)
        st = weir_graph_output(g, "z", z);
    weir_tensor *const made[] = {x, w, y, z};

    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (made[i])
            weir_tensor_release(made[i]);
    if (st)
        weir_graph_destroy(g);
    else
        *out = g;
    return st;
}
