/* The emulator finds what is wrong with a kernel: sources with a barrier taken out, an index that
 * is one too large and the like are run, and each must be found. */
#include "gpu.h"

static weir_tensor *random_tensor(weir_device *dev, weir_dtype dtype, int ndim,
                                  const int64_t *shape)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, ndim, shape, &t));
    CHECK_OK(weir_random_uniform(t, 1, -1, 1));
    return t;
}

static void turn(weir_device *dev)
{
    weir_tensor *x = random_tensor(dev, WEIR_F32, 2, (int64_t[]){40, 70}), *turned, *out;

    CHECK_OK(weir_tensor_transpose(x, 0, 1, &turned));
    CHECK_OK(weir_copy(turned, &out));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_tensor_release(turned);
    weir_tensor_release(out);
}

static void soften(weir_device *dev)
{
    weir_tensor *x = random_tensor(dev, WEIR_F32, 2, (int64_t[]){3, 301}), *out;

    CHECK_OK(weir_softmax(x, 1, &out));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_tensor_release(out);
}

static void sort_long(weir_device *dev)
{
    weir_tensor *x = random_tensor(dev, WEIR_F16, 1, (int64_t[]){20000}), *values, *indices;

    CHECK_OK(weir_sort(x, 0, false, &values, &indices));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_tensor_release(values);
    weir_tensor_release(indices);
}

static void join(weir_device *dev)
{
    weir_tensor *xs[] = {random_tensor(dev, WEIR_F32, 2, (int64_t[]){5, 3}),
                         random_tensor(dev, WEIR_F32, 2, (int64_t[]){5, 4})};
    weir_tensor *out;

    CHECK_OK(weir_concat(xs, 2, 1, &out));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(xs[0]);
    weir_tensor_release(xs[1]);
    weir_tensor_release(out);
}

static void attend(weir_device *dev, weir_dtype dtype, int64_t queries, int64_t keys)
{
    weir_tensor *q = random_tensor(dev, dtype, 3, (int64_t[]){2, queries, 64});
    weir_tensor *k = random_tensor(dev, dtype, 3, (int64_t[]){2, keys, 64}), *out;

    CHECK_OK(weir_attention(q, k, k, NULL, NULL, &out));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(q);
    weir_tensor_release(k);
    weir_tensor_release(out);
}

static void attend_few(weir_device *dev)
{
    attend(dev, WEIR_F16, 1, 600);
}

/* More parts than a cluster has blocks: they count. */
static void attend_longer(weir_device *dev)
{
    attend(dev, WEIR_F16, 1, 2000);
}

static void attend_many(weir_device *dev)
{
    attend(dev, WEIR_F16, 200, 600);
}

static void attend_wide(weir_device *dev)
{
    attend(dev, WEIR_F32, 40, 70);
    attend(dev, WEIR_F32, 40, 40);
    attend(dev, WEIR_F32, 2, 90); /* warps with keys of their own */
}

static void order_experts(weir_device *dev)
{
    weir_tensor *x, *out[3];

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_I32, 1, (int64_t[]){1500}, &x));
    CHECK_OK(weir_fill(x, 3));
    CHECK_OK(weir_expert_order(x, 40, 1, &out[0], &out[1], &out[2]));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    for (int i = 0; i < 3; i++)
        weir_tensor_release(out[i]);
}

static const struct mutant {
    void (*run)(weir_device *dev);
    int major;
    const char *file, *old, *new_text;
    const char *found; /* what the fault says; NULL: none */
} mutants[] = {
    {turn, 9, "transpose.cu", "", "", NULL},
    {turn, 9, "transpose.cu", "__syncthreads();", ";", "has not written"},
    {turn, 9, "transpose.cu", "c0 + k < t.cols", "c0 + k <= t.cols", "another block writes"},
    {turn, 9, "transpose.cu", "c0 + k < t.cols &&", "c0 + k < t.cols - 1 &&", "has not written"},
    {turn, 9, "transpose.cu", "i += gridDim.x", "i++", "another block writes"},
    {soften, 9, "kernel.cuh", "__syncthreads();", ";", "has not written"},
    {soften, 9, "kernel.cuh", "part[warp] = x;", "part[warp + 1] = x;", "has not written"},
    {soften, 9, "softmax.cu", "j < rows.n", "j <= rows.n", "no memory of the GPU"},
    {soften, 9, "kernel.cuh", "__shfl_xor_sync(~0u, x, step)",
     "(threadIdx.x % 32 ? __shfl_xor_sync(~0u, x, step) : (__syncwarp(), x))",
     "different instructions"},
    {sort_long, 9, "sort.cu", "", "", NULL},
    {sort_long, 9, "sort.cu", "        __syncwarp();\n        if (digit", "        if (digit",
     "no barrier"},
    {join, 9, "concat.cu", "", "", NULL},
    {join, 9, "concat.cu", "i < n; i +=", "i <= n; i +=", "that thread 0 of another block writes"},
    {attend_few, 9, "attention_few.cu", "", "", NULL},
    {attend_few, 9, "attention_few.cu", "        __syncwarp(); /* the", "        ; /* the",
     "no barrier"},
    {attend_few, 9, "attention_few.cu", "copies_wait<2 * STAGES - 3>();",
     "copies_wait<2 * STAGES - 2>();", "under way"},
    {attend_few, 9, "attention_few.cu", "copies_wait<2 * STAGES - 2>();",
     "copies_wait<2 * STAGES - 1>();", "under way"},
    {attend_few, 9, "attention_few.cu", "    __syncwarp(); /* the values", "    ; /* the values",
     "no barrier"},
    {attend_few, 9, "attention_parts.cuh", "    cluster_sync(); /* the", "    ; /* the",
     "has not written"},
    {attend_few, 9, "attention_parts.cuh", "    cluster_leave();", "    ;", "has ended"},
    {attend_few, 9, "attention_parts.cuh", "load_four_of((unsigned)from",
     "load_four_of((unsigned)from + 1", "no block"},
    {attend_few, 9, "attention_parts.cuh", "threadIdx.x * CLUSTER + part", "threadIdx.x + part",
     "another block writes"},
    {attend_few, 9, "attention_parts.cuh", "    cluster_leave();",
     "    __syncthreads();\n    if (threadIdx.x < COLUMNS)\n"
     "        part_of(memory)->sums[0][threadIdx.x] = 0;\n    cluster_leave();",
     "another block writes"},
    {attend_few, 9, "attention_parts.cuh", "    cluster_leave();",
     "    cluster_sync();\n    ((uint16_t *)a.out)[threadIdx.x] = 0;\n    cluster_leave();",
     "another block writes"},
    {attend_longer, 9, "attention_few.cu", "", "", NULL},
    {attend_longer, 9, "attention_few.cu", "__syncthreads(); /* the part is", "; /* the",
     "another block writes"},
    {attend_longer, 9, "attention_parts.cuh", "__threadfence(); /* a block that",
     "; /* a block that", "another block writes"},
    {attend_longer, 9, "attention_parts.cuh", "__threadfence(); /* the other", "; /* the other",
     "another block writes"},
    {attend_few, 8, "attention_few.cu", "", "", NULL},
    {attend_many, 9, "attention_groups.cuh", "", "", NULL},
    {attend_many, 9, "attention_groups.cuh", "    await_full(m.keys_full, t);", "    ;",
     "no barrier"},
    {attend_many, 9, "attention_groups.cuh", "barrier_expect(full, panels * tile_rows * 128);",
     "barrier_expect(full, panels * tile_rows * 128 + 16);", "never come"},
    {attend_many, 8, "attention_tiles.cu", "", "", NULL},
    {attend_many, 8, "attention_tiles.cu", "        __syncthreads(); /* the tile",
     "        ; /* the tile", "under way"},
    {attend_wide, 9, "attention_wide.cu", "", "", NULL},
    {attend_wide, 9, "attention_wide.cu", "        __syncthreads(); /* the keys",
     "        ; /* the keys", "under way"},
    {attend_wide, 9, "attention_wide.cu", "        __syncthreads(); /* the values",
     "        ; /* the values", "under way"},
    {attend_wide, 9, "attention_wide.cu",
     "copies_wait<HALVES - 2>();\n        __syncthreads(); /* the values",
     "__syncthreads(); /* the values", "under way"},
    {attend_wide, 9, "attention_wide.cu", "        __syncthreads(); /* the memory is now",
     "        ; /*", "no barrier"},
    {attend_wide, 9, "attention_wide.cu", "u.first_row + row < u.rows",
     "u.first_row + row <= u.rows", "another block writes"},
    {order_experts, 9, "expert_order.cu", "", "", NULL},
    {order_experts, 9, "expert_order.cu", "            __syncwarp();", "            ;",
     "no barrier"},
    {order_experts, 9, "expert_order.cu",
     "            __syncthreads();\n        }\n        if (here)", "        }\n        if (here)",
     "no barrier"},
    {order_experts, 9, "expert_order.cu", "next[e] = to + __popc(peers)", "next[e] = to", "writes"},
};

static void check_mutant(const struct fake_control *fake, const struct mutant *m)
{
    weir_device *dev;

    test_note("%s: '%s' becomes '%s'", m->file, m->old, m->new_text);
    fake->set_major(m->major);
    fake->mutate(m->file, m->old, m->new_text);
    CHECK_OK(weir_device_open("cuda:0", &dev));
    fake->catch_faults(true);
    m->run(dev);
    if (m->found)
        CHECK_STR(fake->caught(), m->found);
    else
        CHECK_STR_EQ(fake->caught(), "");
    fake->catch_faults(false);
    CHECK_OK(weir_device_close(dev));
}

/* Those of `run`; at least one of them is the source as it is. */
static void check_mutants(void (*run)(weir_device *dev))
{
    const struct fake_control *fake = use_fake();

    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++)
        if (mutants[i].run == run)
            check_mutant(fake, &mutants[i]);
}

TEST(cuda_mutants, mutants_of_a_transpose_are_found)
{
    check_mutants(turn);
}

TEST(cuda_mutants, mutants_of_a_row_softmax_are_found)
{
    check_mutants(soften);
}

TEST(cuda_mutants, mutants_of_a_long_sort_are_found)
{
    check_mutants(sort_long);
}

TEST(cuda_mutants, mutants_of_a_concatenation_are_found)
{
    check_mutants(join);
}

TEST(cuda_mutants, mutants_of_attention_with_copies_in_flight_are_found)
{
    check_mutants(attend_few);
}

TEST(cuda_mutants, mutants_of_attention_whose_parts_are_counted_are_found)
{
    check_mutants(attend_longer);
}

TEST(cuda_mutants, mutants_of_attention_with_tiles_fetched_by_the_gpu_are_found)
{
    check_mutants(attend_many);
}

TEST(cuda_mutants, mutants_of_attention_of_f32_are_found)
{
    check_mutants(attend_wide);
}

TEST(cuda_mutants, mutants_of_the_order_of_experts_are_found)
{
    check_mutants(order_experts);
}
