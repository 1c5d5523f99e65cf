/* oneDNN (the 2.x C interface): matmul, convolution and addition.
 *
 * Forms: "plain" computes on row-major data. "reorders counted" lets oneDNN
 * choose its layouts and counts the time of the reorders. The form with layouts
 * chosen beforehand is printed too, but no target compares with it. */
#include "../products.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_STEPS = 5, MAX_ARGS = 3 };

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void check(dnnl_status_t status, const char *what)
{
    if (!status)
        return;
    fprintf(stderr, "peer_onednn: %s: oneDNN status %d\n", what, (int)status);
    exit(1);
}

static void start(const struct bench *b)
{
    omp_set_num_threads(b->threads);
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
}

static dnnl_memory_desc_t plain_desc(int ndims, const dnnl_dims_t dims)
{
    static const dnnl_format_tag_t tags[] = {0, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};
    dnnl_memory_desc_t md;

    check(dnnl_memory_desc_init_by_tag(&md, ndims, dims, dnnl_f32, tags[ndims]), "desc");
    return md;
}

static dnnl_memory_desc_t any_desc(int ndims, const dnnl_dims_t dims)
{
    dnnl_memory_desc_t md;

    check(dnnl_memory_desc_init_by_tag(&md, ndims, dims, dnnl_f32, dnnl_format_tag_any), "desc");
    return md;
}

static dnnl_memory_t make_memory(const dnnl_memory_desc_t *md)
{
    size_t bytes = dnnl_memory_desc_get_size(md);
    dnnl_memory_t mem;
    void *data;

    check(dnnl_memory_create(&mem, md, engine, DNNL_MEMORY_ALLOCATE), "memory");
    check(dnnl_memory_get_data_handle(mem, &data), "data");
    if (md->data_type == dnnl_f32)
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            ((float *)data)[i] = (float)(i % 13) - 6;
    else /* small numbers in both types of 16 bits */
        for (size_t i = 0; i < bytes / sizeof(uint16_t); i++)
            ((uint16_t *)data)[i] = (uint16_t)(0x3c00 + i % 13);
    return mem;
}

/* The primitives that one sample executes, in order. */
struct work {
    struct step {
        dnnl_primitive_t primitive;
        dnnl_exec_arg_t args[MAX_ARGS];
        int nargs;
    } steps[MAX_STEPS];
    int nsteps;
    double amount; /* flops or bytes */
};

static struct step *add_step(struct work *w, dnnl_primitive_desc_t pd)
{
    struct step *s = &w->steps[w->nsteps++];

    check(dnnl_primitive_create(&s->primitive, pd), "primitive");
    return s;
}

static void add_arg(struct step *s, int index, dnnl_memory_t mem)
{
    s->args[s->nargs++] = (dnnl_exec_arg_t){index, mem};
}

static void add_reorder(struct work *w, dnnl_memory_t from, dnnl_memory_t to)
{
    const dnnl_memory_desc_t *from_md, *to_md;
    dnnl_primitive_desc_t pd;
    struct step *s;

    check(dnnl_memory_get_memory_desc(from, &from_md), "desc");
    check(dnnl_memory_get_memory_desc(to, &to_md), "desc");
    check(dnnl_reorder_primitive_desc_create(&pd, from_md, engine, to_md, engine, NULL), "reorder");
    s = add_step(w, pd);
    add_arg(s, DNNL_ARG_FROM, from);
    add_arg(s, DNNL_ARG_TO, to);
}

static double once(void *ctx)
{
    const struct work *w = ctx;
    double begin = bench_now_ns();

    for (int i = 0; i < w->nsteps; i++)
        check(dnnl_primitive_execute(w->steps[i].primitive, stream, w->steps[i].nargs,
                                     w->steps[i].args),
              "execute");
    check(dnnl_stream_wait(stream), "wait");
    return w->amount / (bench_now_ns() - begin);
}

/* A primitive of two inputs and one output whose layouts it chose itself, with
 * the reorders from and to plain ones where asked. */
static void measure_own_layout(const struct bench *b, const char *subject, const void *op_desc,
                               const dnnl_memory_desc_t plain[3], const struct bench_product *what,
                               bool reorders)
{
    static const int arg[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    static const dnnl_query_t query[3] = {dnnl_query_src_md, dnnl_query_weights_md,
                                          dnnl_query_dst_md};
    struct work w = {.amount = what->amount};
    dnnl_primitive_desc_t pd;
    dnnl_memory_t own[3], user[3];
    struct step *s;
    bool moves[3];

    check(dnnl_primitive_desc_create(&pd, op_desc, NULL, engine, NULL), subject);
    for (int i = 0; i < 3; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, query[i], 0);

        own[i] = make_memory(md);
        user[i] = make_memory(&plain[i]);
        moves[i] = reorders && !dnnl_memory_desc_equal(md, &plain[i]);
    }
    for (int i = 0; i < 2; i++)
        if (moves[i])
            add_reorder(&w, user[i], own[i]);
    s = add_step(&w, pd);
    for (int i = 0; i < 3; i++)
        add_arg(s, arg[i], own[i]);
    if (moves[2])
        add_reorder(&w, own[2], user[2]);
    bench_product_sample(b, subject, what, once, &w);
}

static dnnl_memory_desc_t desc_of(const struct bench_product *p, const dnnl_dims_t dims,
                                  dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    dnnl_data_type_t type = !strcmp(p->type, "f32")    ? dnnl_f32
                            : !strcmp(p->type, "bf16") ? dnnl_bf16
                                                       : dnnl_f16;

    check(dnnl_memory_desc_init_by_tag(&md, 2, dims, type, tag), "desc");
    return md;
}

/* Also a product of one row with a matrix. */
static void matmul(struct bench *b)
{
    struct bench_product p = bench_product_of(b->work);
    dnnl_dims_t square = {p.size, p.size};
    dnnl_dims_t rows = {strcmp(p.op, "matvec") ? p.size : 1, p.size};
    dnnl_memory_desc_t few = desc_of(&p, rows, dnnl_ab), plain = desc_of(&p, square, dnnl_ab);
    dnnl_memory_desc_t any = desc_of(&p, square, dnnl_format_tag_any);
    const dnnl_memory_desc_t user[3] = {few, plain, few};
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;

    start(b);
    check(dnnl_matmul_desc_init(&desc, &few, &plain, NULL, &few), "matmul");
    if (dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL)) {
        bench_skip(b, "this oneDNN has no such product on this processor");
        return;
    }
    measure_own_layout(b, "oneDNN: plain", &desc, user, &p, false);
    check(dnnl_matmul_desc_init(&desc, &few, &any, NULL, &few), "matmul");
    measure_own_layout(b, "oneDNN: reorders counted", &desc, user, &p, true);
    measure_own_layout(b, "oneDNN: packed beforehand", &desc, user, &p, false);
}

/* 10x32x32x32 with 32x32x3x3, padding 1. */
static void conv2d(struct bench *b)
{
    static const dnnl_dims_t data = {10, 32, 32, 32}, filter = {32, 32, 3, 3};
    static const dnnl_dims_t strides = {1, 1}, padding = {1, 1};
    const dnnl_memory_desc_t user[3] = {plain_desc(4, data), plain_desc(4, filter),
                                        plain_desc(4, data)};
    dnnl_memory_desc_t any_data = any_desc(4, data), any_filter = any_desc(4, filter);
    struct bench_product what = {.amount = 2.0 * 10 * 32 * 32 * 32 * 32 * 9, .unit = "GFLOP/s"};
    dnnl_convolution_desc_t desc;

    start(b);
    check(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_auto,
                                             &user[0], &user[1], NULL, &user[2], strides, padding,
                                             padding),
          "convolution");
    measure_own_layout(b, "oneDNN: plain", &desc, user, &what, false);
    check(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_auto,
                                             &any_data, &any_filter, NULL, &any_data, strides,
                                             padding, padding),
          "convolution");
    measure_own_layout(b, "oneDNN: reorders counted", &desc, user, &what, true);
    measure_own_layout(b, "oneDNN: blocked beforehand", &desc, user, &what, false);
}

static void add(struct bench *b)
{
    static const dnnl_dims_t dims = {1000, 1000};
    dnnl_memory_desc_t md = plain_desc(2, dims);
    struct work w = {.amount = 3.0 * 4 * 1000 * 1000};
    dnnl_primitive_desc_t pd;
    dnnl_binary_desc_t desc;
    struct step *s;

    start(b);
    check(dnnl_binary_desc_init(&desc, dnnl_binary_add, &md, &md, &md), "binary");
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), "binary");
    s = add_step(&w, pd);
    add_arg(s, DNNL_ARG_SRC_0, make_memory(&md));
    add_arg(s, DNNL_ARG_SRC_1, make_memory(&md));
    add_arg(s, DNNL_ARG_DST, make_memory(&md));
    bench_sample(b, "oneDNN: plain", "GB/s", 15, once, &w);
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        BENCH_MATMULS(matmul),
        BENCH_MATVECS(matmul),
        BENCH_ON_CORES("conv2d", conv2d),
        BENCH_ON_CORES("add_1000x1000", add),
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
