/* Writes the nodes of a model's graph; flops and bytes of products and row operations. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/estimate/layer.h"

/* Microseconds of a node with the die to itself. */
static double alone_us(const struct weir__layer_writer *w, const struct weir__layer_node *n)
{
    struct weir__model model = {.profile = *w->p, .overhead = true};
    bool vector = !strcmp(n->engine, "vector"), mix = !strcmp(n->engine, "mix");
    weir_engine engine = vector ? WEIR_ENGINE_VECTOR : mix ? WEIR_ENGINE_MIX : WEIR_ENGINE_CUBE;
    unsigned all = (unsigned)(vector ? w->p->vector_cores : w->p->cube_cores);
    unsigned limit = vector ? w->vector : w->cube;
    struct weir__load load = {.engine = engine,
                              .blocks = all,
                              .cores = limit ? limit : all,
                              .bytes = n->bytes,
                              .in_graph = true};
    struct weir__sim_limits limits;
    struct weir__sim_op op;

    load.flops = weir__model_flops(
        &model, engine, &(struct weir__flops){n->flops, n->dtype, ceil(n->m), n->n, n->k});
    weir__model_op(&model, &load, &op);
    weir__model_limits(&model, &limits);
    return (double)(op.launch_ps + weir__sim_alone(&limits, &op)) / 1e6;
}

void weir__layer_emit(struct weir__layer_writer *w, const char *name,
                      const struct weir__layer_node *n, const char *first, const char *second)
{
    struct weir__text *t = w->out;
    double blocks = strcmp(n->engine, "vector") ? w->p->cube_cores : w->p->vector_cores;

    weir__text_add(t, "node {\n  name: \"%s\"\n  op: \"Kernel\"\n", name);
    if (first && *first)
        weir__text_add(t, "  input: \"^%s\"\n", first);
    if (second && *second)
        weir__text_add(t, "  input: \"^%s\"\n", second);
    if (n->us > 0 || (n->collective && strcmp(n->engine, "vector") != 0))
        blocks = 1;
    if (n->cores)
        blocks = n->cores;
    if (n->collective)
        w->since_us = 0;
    else if (n->flops > 0)
        w->since_us += alone_us(w, n);
#define ATTR(key, kind, format, value) \
    weir__text_add(t, "  attr { key: \"" key "\" value { " kind ": " format " } }\n", value)
    ATTR("engine", "s", "\"%s\"", n->engine);
    ATTR("blocks", "i", "%.0f", blocks);
    ATTR("bytes", "i", "%.0f", n->bytes);
    if (n->us > 0)
        ATTR("us", "f", "%.6g", n->us);
    if (n->flops > 0) {
        ATTR("flops", "f", "%.6e", n->flops);
        ATTR("dtype", "s", "\"%s\"", n->dtype);
    }
    if (n->k > 0) {
        ATTR("m", "i", "%.0f", ceil(n->m));
        ATTR("n", "i", "%.0f", n->n);
        ATTR("k", "i", "%.0f", n->k);
    }
    if (n->collective) {
        ATTR("collective", "s", "\"%s\"", n->collective);
        ATTR("class", "s", "\"%s\"", "mc2");
        ATTR("ranks", "i", "%u", n->ranks);
        if (n->uneven > 1)
            ATTR("uneven", "f", "%.4g", n->uneven);
        if (n->net_bytes > 0)
            ATTR("net_bytes", "f", "%.6e", n->net_bytes);
    }
    if (w->stream)
        ATTR("_user_stream_label", "s", "\"%s\"", w->stream);
    if (w->cube && strcmp(n->engine, "sdma") != 0) {
        ATTR("_op_aicore_num", "i", "%u", w->cube);
        ATTR("_op_vectorcore_num", "i", "%u", w->vector);
    }
#undef ATTR
    weir__text_add(t, "}\n");
}

double weir__layer_weight_bytes(const struct weir__deploy *d)
{
    return d->quant == WEIR__QUANT_BF16 ? 2 : d->quant == WEIR__QUANT_W4A8 ? 0.5 : 1;
}

const char *weir__layer_product_type(const struct weir__deploy *d)
{
    return d->quant == WEIR__QUANT_BF16 ? "bf16" : d->quant == WEIR__QUANT_F8 ? "f8" : "i8";
}

struct weir__layer_node weir__layer_product(const struct weir__layer_writer *w, double rows,
                                            double k, double n, double copies)
{
    return (struct weir__layer_node){
        .engine = "cube",
        .dtype = weir__layer_product_type(w->d),
        .flops = 2 * rows * k * n,
        .bytes = copies * k * n * weir__layer_weight_bytes(w->d) + 2 * rows * (k + n),
        .m = copies > 1 ? rows / copies : rows,
        .n = n,
        .k = k,
    };
}

struct weir__layer_node weir__layer_half_product(const struct weir__layer_writer *w, double rows,
                                                 double k, double n, double copies)
{
    struct weir__deploy half = *w->d;
    struct weir__layer_writer plain = *w;

    half.quant = WEIR__QUANT_BF16;
    plain.d = &half;
    return weir__layer_product(&plain, rows, k, n, copies);
}

struct weir__layer_node weir__layer_rowwise(double rows, double values)
{
    return (struct weir__layer_node){
        .engine = "vector", .dtype = "f32", .flops = 4 * rows * values, .bytes = 2 * rows * values};
}

void weir__layer_name(char *name, const char *prefix, const char *part)
{
    snprintf(name, WEIR__LAYER_NAME, "%.23s.%.31s", prefix, part);
}

void weir__layer_step(struct weir__layer_writer *w, const char *prefix, const char *part,
                      const struct weir__layer_node *n, char *last)
{
    char name[WEIR__LAYER_NAME];

    weir__layer_name(name, prefix, part);
    weir__layer_emit(w, name, n, last, NULL);
    strcpy(last, name);
}

void weir__layer_quantise(struct weir__layer_writer *w, const char *prefix, const char *part,
                          double rows, double values, char *last)
{
    struct weir__layer_node n = weir__layer_rowwise(rows, 1.5 * values);

    if (w->d->quant != WEIR__QUANT_BF16)
        weir__layer_step(w, prefix, part, &n, last);
}
