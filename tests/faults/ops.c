/* Fails every allocation of every operator. */
#include "inject.h"

enum { REPEATS = 300, MAX_OUT = 3 };

static const char spec[] = "cpu:cores=2,threads=1";

/* What the operators are tried on, beside the world's f32[4, 6] tensors. */
enum {
    INDEX,
    MASK,
    LINE,
    IMAGE,
    WEIGHT,
    ROW,
    RIGHT,
    SINES,
    HEADS,
    OUT,
    TRUTH,
    VIEW,
    SQUARE,
    WHOLE
};

static weir_tensor *make(struct world *w, weir_dtype dtype, int ndim, const int64_t *shape)
{
    static const int64_t zeros[256];
    weir_tensor *t;

    CHECK_OK(weir_tensor_from(w->s, dtype, ndim, shape, zeros, &t));
    return t;
}

static void prepare(struct world *w)
{
    w->extra[INDEX] = make(w, WEIR_I64, 2, (int64_t[]){4, 6});
    w->extra[MASK] = make(w, WEIR_BOOL, 2, (int64_t[]){4, 6});
    w->extra[LINE] = make(w, WEIR_I64, 1, (int64_t[]){3});
    w->extra[IMAGE] = make(w, WEIR_F32, 4, (int64_t[]){1, 2, 5, 5});
    w->extra[WEIGHT] = make(w, WEIR_F32, 4, (int64_t[]){3, 2, 3, 3});
    w->extra[ROW] = make(w, WEIR_F32, 1, (int64_t[]){6});
    w->extra[RIGHT] = make(w, WEIR_F32, 2, (int64_t[]){6, 3});
    w->extra[SINES] = make(w, WEIR_F32, 2, (int64_t[]){4, 3});
    w->extra[HEADS] = make(w, WEIR_F32, 3, (int64_t[]){4, 1, 6});
    w->extra[SQUARE] = make(w, WEIR_F32, 2, (int64_t[]){6, 6});
    w->extra[OUT] = make(w, WEIR_F32, 2, (int64_t[]){4, 6});
    w->extra[TRUTH] = make(w, WEIR_BOOL, 2, (int64_t[]){4, 6});
    w->extra[WHOLE] = make(w, WEIR_I64, 2, (int64_t[]){4, 6});
    CHECK_OK(weir_tensor_transpose(w->tensors[2], 0, 1, &w->extra[VIEW]));
    CHECK_OK(weir_device_sync(w->dev));
}

/* Nothing of s runs until the call is over, so that its queue must grow. */
static void prepare_held(struct world *w)
{
    prepare(w);
    submit_gate(w->s, &w->gate);
}

typedef weir_status (*op_fn)(struct world *w, weir_tensor **out);

#define X w->tensors[0]
#define Y w->tensors[1]
#define E(name) w->extra[name]
#define OP(name, expression)                                         \
    static weir_status op_##name(struct world *w, weir_tensor **out) \
    {                                                                \
        (void)out;                                                   \
        return expression;                                           \
    }

#define UNARY(name)               \
    OP(name, weir_##name(X, out)) \
    OP(name##_into, weir_##name##_into(X, E(OUT)))
WEIR_UNARY_LIST(UNARY)

#define BINARY(name)                                   \
    OP(name, weir_##name(X, Y, out))                   \
    OP(name##_into, weir_##name##_into(X, Y, E(OUT)))  \
    OP(name##_scalar, weir_##name##_scalar(X, 2, out)) \
    OP(name##_scalar_into, weir_##name##_scalar_into(X, 2, E(OUT)))
WEIR_BINARY_LIST(BINARY)

#define BITWISE(name)                                                 \
    OP(name, weir_##name(E(INDEX), E(INDEX), out))                    \
    OP(name##_into, weir_##name##_into(E(INDEX), E(INDEX), E(WHOLE))) \
    OP(name##_scalar, weir_##name##_scalar(E(INDEX), 2, out))         \
    OP(name##_scalar_into, weir_##name##_scalar_into(E(INDEX), 2, E(WHOLE)))
WEIR_BITWISE_LIST(BITWISE)
OP(bitwise_not, weir_bitwise_not(E(INDEX), out))
OP(bitwise_not_into, weir_bitwise_not_into(E(INDEX), E(WHOLE)))

#define COMPARE(name)                                   \
    OP(name, weir_##name(X, Y, out))                    \
    OP(name##_into, weir_##name##_into(X, Y, E(TRUTH))) \
    OP(name##_scalar, weir_##name##_scalar(X, 2, out))  \
    OP(name##_scalar_into, weir_##name##_scalar_into(X, 2, E(TRUTH)))
WEIR_COMPARE_LIST(COMPARE)

#define REDUCE(name) OP(name, weir_##name(X, (int[]){0}, 1, true, out))
WEIR_REDUCE_LIST(REDUCE)

OP(clamp, weir_clamp(X, 0, 1, out))
OP(where, weir_where(E(MASK), X, Y, out))
OP(swiglu, weir_swiglu(X, -1, out))
OP(cast, weir_cast(X, WEIR_F16, out))
OP(fill, weir_fill(E(OUT), 3))
OP(arange, weir_arange(w->s, WEIR_I64, 100, 0, 1, out))
OP(copy, weir_copy(E(VIEW), out))
OP(contiguous, weir_contiguous(E(VIEW), out))
OP(copy_into, weir_copy_into(X, E(OUT)))
OP(concat, weir_concat(w->tensors, WORLD_TENSORS, 0, out))
OP(matmul, weir_matmul(X, E(RIGHT), out))
OP(matmul_transposed, weir_matmul(X, E(VIEW), out))
OP(matmul_into, weir_matmul_into(X, E(SQUARE), E(OUT)))
OP(matmul_bias, weir_matmul_bias(E(VIEW), X, E(ROW), out))
OP(linear, weir_linear(X, Y, NULL, out))
OP(grouped_matmul, weir_grouped_matmul(X, E(RIGHT), E(LINE), NULL, out))
OP(conv2d, weir_conv2d(E(IMAGE), E(WEIGHT), NULL, NULL, out))
OP(attention, weir_attention(X, Y, w->tensors[2], NULL, NULL, out))
OP(argmax, weir_argmax(X, 1, false, out))
OP(softmax, weir_softmax(X, 1, out))
OP(softmax_outer, weir_softmax(X, 0, out))
OP(cumsum, weir_cumsum(X, 0, out))
OP(cumprod, weir_cumprod(X, 1, out))
OP(cummax, weir_cummax(X, 1, &out[0], &out[1]))
OP(cummin, weir_cummin(X, 0, NULL, &out[1]))
OP(layer_norm, weir_layer_norm(X, E(ROW), E(ROW), 1e-5, out))
OP(rms_norm, weir_rms_norm(X, E(ROW), 1e-5, out))
OP(embedding, weir_embedding(X, E(INDEX), out))
OP(gather, weir_gather(X, 0, E(INDEX), out))
OP(index_select, weir_index_select(X, 1, E(LINE), out))
OP(scatter_add, weir_scatter_add(E(OUT), 0, E(INDEX), X))
OP(scatter, weir_scatter(E(OUT), 0, E(INDEX), X))
OP(topk, weir_topk(X, 2, 1, true, &out[0], &out[1]))
OP(topk_values, weir_topk(X, 2, 1, true, &out[0], NULL))
OP(sort, weir_sort(X, 1, false, &out[0], &out[1]))
OP(sort_indices, weir_sort(X, 0, true, NULL, &out[1]))
OP(argsort, weir_argsort(X, 1, true, out))
OP(moe_gating, weir_moe_gating(X, 2, true, &out[0], &out[1]))
OP(expert_choice,
   weir_expert_choice(X, E(ROW), &(weir_expert_choice_options){.k = 2}, &out[0], &out[1]))
OP(expert_order, weir_expert_order(E(LINE), 2, 1, &out[0], &out[1], &out[2]))
OP(expert_sum, weir_expert_sum(X, E(INDEX), NULL, out))
OP(rotary, weir_rotary(E(HEADS), E(SINES), E(SINES), true, out))
OP(random_uniform, weir_random_uniform(E(OUT), 1, 0, 1))
OP(random_normal, weir_random_normal(E(OUT), 1, 0, 1))
OP(nonzero, weir_nonzero(X, out))

static const struct row {
    const char *name;
    op_fn fn;
    bool waits; /* for its result, so that the stream must go on */
} rows[] = {
#define ROW2(name) {#name, op_##name, false}, {#name "_into", op_##name##_into, false},
#define ROW4(name)                                          \
    ROW2(name){#name "_scalar", op_##name##_scalar, false}, \
        {#name "_scalar_into", op_##name##_scalar_into, false},
#define ROW1(name) {#name, op_##name, false},
    WEIR_UNARY_LIST(ROW2) ROW2(bitwise_not) WEIR_BINARY_LIST(ROW4) WEIR_BITWISE_LIST(ROW4)
        WEIR_COMPARE_LIST(ROW4) WEIR_REDUCE_LIST(ROW1) ROW1(clamp) ROW1(where) ROW1(swiglu) ROW1(
            cast) ROW1(fill) ROW1(arange) ROW1(copy) ROW1(contiguous) ROW1(copy_into) ROW1(concat)
            ROW1(matmul) ROW1(matmul_transposed) ROW1(matmul_into) ROW1(matmul_bias) ROW1(linear)
                ROW1(grouped_matmul) ROW1(conv2d) ROW1(attention) ROW1(argmax) ROW1(softmax)
                    ROW1(softmax_outer) ROW1(cumsum) ROW1(cumprod) ROW1(cummax) ROW1(cummin)
                        ROW1(layer_norm) ROW1(rms_norm) ROW1(embedding) ROW1(gather)
                            ROW1(index_select) ROW1(scatter_add) ROW1(scatter) ROW1(topk)
                                ROW1(topk_values) ROW1(sort) ROW1(sort_indices) ROW1(argsort)
                                    ROW1(moe_gating) ROW1(expert_choice) ROW1(expert_order)
                                        ROW1(expert_sum) ROW1(rotary) ROW1(random_uniform)
                                            ROW1(random_normal){"nonzero", op_nonzero, true},
};

static op_fn current;

/* Once, or often enough to need another piece of queue; every time it is all or nothing. */
static weir_status run_op(struct world *w, int repeats)
{
    weir_status st = WEIR_OK;

    for (int i = 0; i < repeats && !st; i++) {
        weir_tensor *out[MAX_OUT] = {NULL};

        st = current(w, out);
        for (int k = 0; k < MAX_OUT; k++) {
            CHECK(!st || !out[k]);
            weir_tensor_release(out[k]);
        }
    }
    return st;
}

static weir_status run_once(struct world *w)
{
    return run_op(w, 1);
}
static weir_status run_often(struct world *w)
{
    return run_op(w, REPEATS);
}

TEST_TIMEOUT(faults, operators_survive_any_failed_allocation, 120)
{
    inject_install();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        current = rows[i].fn;
        inject_each_in(rows[i].name, spec, prepare, run_once);
    }
}

TEST_TIMEOUT(faults, operators_on_a_full_queue_survive_any_failed_allocation, 240)
{
    inject_install();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += TEST_THREADS_WATCHED ? 4 : 1) {
        current = rows[i].fn;
        if (!rows[i].waits)
            CHECK_GT(inject_each_in(rows[i].name, spec, prepare_held, run_often), 0);
    }
}

/* With too little device memory each operator says so, and the next thing works. */
TEST(faults, operators_report_missing_device_memory_and_the_next_call_works)
{
    inject_install();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_device *dev = open_device("cpu:cores=2,threads=1,memory=32k");
        struct world w = {.dev = dev, .s = weir_stream_default(dev)};
        weir_buffer *rest[64];
        int n = 0;
        size_t allocated;
        weir_status st;

        test_note("%s", rows[i].name);
        for (int t = 0; t < WORLD_TENSORS; t++)
            w.tensors[t] = make(&w, WEIR_F32, 2, (int64_t[]){4, 6});
        prepare(&w);
        while (!weir_buffer_alloc(w.s, 512, &rest[n]))
            n++;
        allocated = stats_of(dev).allocated;
        current = rows[i].fn;
        st = run_once(&w);
        if (st)
            CHECK_EQ(st, WEIR_EOOM);
        CHECK_EQ(stats_of(dev).allocated, allocated);
        while (n)
            weir_buffer_free(rest[--n]);
        CHECK_OK(run_once(&w));
        CHECK_OK(weir_device_sync(dev));
        for (int t = 0; t < WORLD_TENSORS; t++)
            weir_tensor_release(w.tensors[t]);
        for (int t = 0; t < WORLD_EXTRA; t++)
            weir_tensor_release(w.extra[t]);
        CHECK_OK(weir_device_close(dev));
        CHECK_EQ(inject_live(), 0);
    }
}
