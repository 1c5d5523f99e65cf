/* Core limits on real cores. */
#include "gpu.h"

TEST(cuda_cores, limits_come_in_multiples_of_what_the_gpu_can_give)
{
    weir_device *dev = open_gpu("cuda:0");
    weir_stream *s;
    weir_device_props p;

    weir_device_get_props(dev, &p, sizeof p);
    CHECK_OK(weir_stream_create(dev, NULL, &s));
    CHECK_EQ(weir_stream_get_limit(s).cube, p.cores.cube);
    CHECK_OK(weir_stream_set_limit(s, (weir_cores){20, 1}));
    CHECK_EQ(weir_stream_get_limit(s).cube, 16);
    CHECK_EQ(weir_stream_get_limit(s).vector, 8);
    CHECK_STATUS(weir_stream_set_limit(s, (weir_cores){p.cores.cube + 1, -1}), WEIR_ERANGE);
    CHECK_LE(weir_stream_get_limit(s).cube, 20);
    weir_stream_reset_limit(s);
    CHECK_EQ(weir_stream_get_limit(s).cube, p.cores.cube);
    CHECK_OK(weir_stream_destroy(s));
    CHECK_OK(weir_device_close(dev));
}

/* Every block says which core it is on, and stays long enough for all to be there at once. */
static const char where_text[] = "extern \"C\" __global__ void where(int *out)\n"
                                 "{\n"
                                 "    unsigned core;\n"
                                 "    long long began = clock64();\n"
                                 "    asm(\"mov.u32 %0, %%smid;\" : \"=r\"(core));\n"
                                 "    if (threadIdx.x == 0)\n"
                                 "        out[blockIdx.x] = core;\n"
                                 "    while (clock64() - began < 200000)\n"
                                 "        ;\n"
                                 "}\n";

enum { BLOCKS = 1024, MOST_CORES = 1024 };

static void where_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    (void)args;
    (void)phase;
    (void)cores;
    l->grid = BLOCKS;
    l->threads = 1024;
}

static const struct weir__code where_code = {
    .text = "where", .source = where_text, .shape = where_shape};

static int count_cores(weir_tensor *t, bool *used)
{
    int cores[BLOCKS], n = 0;

    CHECK_OK(weir_tensor_read(t, cores, sizeof cores));
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cores[i] >= 0 && cores[i] < MOST_CORES);
        n += !used[cores[i]];
        used[cores[i]] = true;
    }
    return n;
}

TEST(cuda_cores, streams_whose_limits_fit_beside_each_other_share_no_core)
{
    static const int limits[][2] = {{64, 64}, {96, 32}, {8, 104}, {16, 16}};
    weir_device *dev = open_gpu("cuda:0");
    weir_device_props p;

    weir_device_get_props(dev, &p, sizeof p);
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        bool used[2][MOST_CORES] = {{false}};
        weir_stream *s[2];
        weir_tensor *t[2];

        if (limits[k][0] + limits[k][1] > p.cores.cube)
            continue;
        for (int i = 0; i < 2; i++) {
            void *address;

            CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
            CHECK_OK(weir_stream_set_limit(s[i], (weir_cores){limits[k][i], limits[k][i]}));
            t[i] = gpu_tensor(s[i], WEIR_I32, BLOCKS, -1);
            address = weir_tensor_data(t[i]);
            CHECK_OK(gpu_submit(s[i], &where_code, "where", &address, sizeof address, t[i]));
        }
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weir_stream_sync(s[i]));
            CHECK_OK(weir_stream_set_current(s[i]));
            CHECK_EQ(count_cores(t[i], used[i]), limits[k][i]);
            weir_tensor_release(t[i]);
            CHECK_OK(weir_stream_destroy(s[i]));
        }
        for (int i = 0; i < MOST_CORES; i++) {
            test_note("limits %d and %d, core %d", limits[k][0], limits[k][1], i);
            CHECK(!(used[0][i] && used[1][i]));
        }
    }
    CHECK_OK(weir_device_close(dev));
}

/* A limit of one operator keeps the stream's order. */
TEST(cuda_cores, operators_with_limits_of_their_own_run_in_stream_order)
{
    const struct fake_control *fake;
    weir_device *dev = open_either("cuda:0", &fake);
    const int64_t n = fake ? 1 << 14 : 1 << 20;
    weir_tensor *x = gpu_tensor(weir_stream_default(dev), WEIR_F32, n, 1);
    float first;

    for (int i = 0; i < 20; i++) {
        CHECK_OK(weir_scope_push_cores((weir_cores){8 + 8 * (i % 3), 8 + 8 * (i % 3)}));
        CHECK_OK(weir_add_into(x, x, x));
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
        CHECK_OK(weir_mul_scalar_into(x, 0.5, x));
    }
    weir_tensor *one;
    CHECK_OK(weir_tensor_slice(x, 0, -1, n, 1, &one));
    CHECK_OK(weir_tensor_read(one, &first, sizeof first));
    CHECK_NEAR(first, 1, 0);
    weir_tensor_release(one);
    weir_tensor_release(x);
    CHECK_OK(weir_device_close(dev));
}
