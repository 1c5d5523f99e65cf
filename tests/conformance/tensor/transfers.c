/* Bytes between host, tensors, streams and devices; text; DLPack. */
#include "conformance/conformance.h"

#include <stdatomic.h>
#include <stdlib.h>

static weir_tensor *iota(weir_stream *s, int64_t n)
{
    weir_tensor *t;

    CHECK_OK(weir_arange(s, WEIR_I32, n, 0, 1, &t));
    return t;
}

static void check_iota(weir_tensor *t, int64_t scale)
{
    struct array a;

    download(t, &a);
    for (int64_t i = 0; i < array_numel(&a); i++)
        CHECK_EQ((int64_t)a.at[i], i * scale);
    array_free(&a);
}

CONFORMANCE(transfers, every_type_and_size_comes_back_as_it_went)
{
    static const int64_t sizes[] = {0, 1, 7, 255, 256, 257, 1023, 1025, 70000};

    for (int type = 0; type < WEIR_DTYPE_COUNT; type++)
        for (size_t i = 0; i < countof(sizes); i++) {
            struct rng rng = rng_make("transfers", i);
            size_t size = (size_t)sizes[i] * weir_dtype_size((weir_dtype)type);
            unsigned char *sent = malloc(size + 1), *got;
            weir_tensor *t;

            test_note("%s, %lld elements", weir_dtype_name((weir_dtype)type), (long long)sizes[i]);
            CHECK(sent);
            for (size_t b = 0; b < size; b++)
                sent[b] = (unsigned char)rng_next(&rng) & (type == WEIR_BOOL ? 1 : 255);
            CHECK_OK(weir_tensor_from(weir_stream_default(dev), (weir_dtype)type, 1, &sizes[i],
                                      sent, &t));
            got = read_bytes(t, NULL);
            CHECK_MEM_EQ(got, sent, size);
            free(got);
            free(sent);
            weir_tensor_release(t);
        }
}

CONFORMANCE(transfers, a_write_takes_the_bytes_before_it_returns)
{
    int32_t data[20000];
    int64_t n = countof(data);
    weir_tensor *t;

    for (int round = 0; round < 20; round++) {
        for (int64_t i = 0; i < n; i++)
            data[i] = (int32_t)(i * round);
        CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I32, 1, &n, data, &t));
        memset(data, 0xee, sizeof data);
        check_iota(t, round);
        weir_tensor_release(t);
    }
}

CONFORMANCE(transfers, async_copies_run_in_stream_order)
{
    int32_t in[3000], out[3000];
    int64_t n = countof(in);
    weir_stream *s = new_stream(dev);
    weir_tensor *t, *twice;

    for (int64_t i = 0; i < n; i++)
        in[i] = (int32_t)i;
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_tensor_empty(s, WEIR_I32, 1, &n, &t));
    CHECK_OK(weir_tensor_write_async(t, in, sizeof in));
    CHECK_OK(weir_mul_scalar(t, 2, &twice));
    CHECK_OK(weir_tensor_read_async(twice, out, sizeof out));
    weir_tensor_release(t);
    weir_tensor_release(twice);
    CHECK_OK(weir_stream_sync(s));
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(out[i], 2 * i);
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    CHECK_OK(weir_stream_destroy(s));
}

CONFORMANCE(transfers, tensors_copy_between_views_and_devices)
{
    weir_device *other = open_another();
    weir_device *to[] = {dev, other};

    for (int k = 0; k < 2; k++) {
        struct rng rng = rng_make("copy", (uint64_t)k);
        weir_tensor *src, *flat = iota(weir_stream_default(dev), 600), *dst;
        int64_t shape[] = {10, 20, 3};

        test_note("to %s device", k ? "another" : "the same");
        CHECK_OK(weir_tensor_reshape(flat, 3, shape, &src));
        weir_tensor_release(flat);
        dst = make_view(weir_stream_default(to[k]), WEIR_I32, 3, shape, LAYOUT_BOTH, &rng, NULL);
        CHECK_OK(weir_tensor_copy(dst, src));
        weir_tensor_release(src);
        check_iota(dst, 1);
        weir_tensor_release(dst);
    }
    CHECK_OK(weir_device_close(other));
}

/* Devices of any two kinds: there and back, between views, with more behind each step. */
CONFORMANCE(transfers, tensors_copy_to_and_from_a_cpu_device)
{
    weir_device *cpu;

    CHECK_OK(weir_device_open("cpu:cores=2", &cpu));
    for (uint64_t k = 0; k < 4; k++) {
        struct rng rng = rng_make("across", k);
        enum layout near = k & 1 ? LAYOUT_BOTH : LAYOUT_PLAIN,
                    far = k & 2 ? LAYOUT_BOTH : LAYOUT_PLAIN;
        int64_t shape[] = {10, 20, 3};
        weir_tensor *flat = iota(weir_stream_default(dev), 600), *src, *there, *back;

        CHECK_OK(weir_tensor_reshape(flat, 3, shape, &src));
        weir_tensor_release(flat);
        there = make_view(weir_stream_default(cpu), WEIR_I32, 3, shape, far, &rng, NULL);
        back = make_view(weir_stream_default(dev), WEIR_I32, 3, shape, near, &rng, NULL);
        CHECK_OK(weir_tensor_copy(there, src));
        CHECK_OK(weir_fill(src, -1)); /* after the copy */
        weir_tensor_release(src);
        CHECK_OK(weir_mul_scalar_into(there, 2, there));
        CHECK_OK(weir_tensor_copy(back, there));
        CHECK_OK(weir_fill(there, -1));
        weir_tensor_release(there);
        check_iota(back, 2);
        weir_tensor_release(back);
    }
    CHECK_OK(weir_device_close(cpu));
}

static weir_status failing_kernel(const void *args, const weir_block *block)
{
    (void)args;
    (void)block;
    return WEIR_ERANGE;
}

CONFORMANCE(transfers, an_error_of_a_cpu_device_crosses_with_the_copy)
{
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *here = iota(s, 8), *there;
    weir_device *cpu;
    weir_status st;

    CHECK_OK(weir_device_open("cpu:cores=2", &cpu));
    there = iota(weir_stream_default(cpu), 8);
    CHECK_OK(weir_launch_submit(weir_stream_default(cpu),
                                &(weir_launch){.name = "stumble", .fn = failing_kernel}));
    if (!(st = weir_tensor_copy(here, there)))
        st = weir_stream_sync(s);
    CHECK_EQ(st, WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "'stumble'");
    weir_tensor_release(here);
    weir_tensor_release(there);
    CHECK_OK(weir_device_close(cpu));
}

CONFORMANCE(transfers, a_copy_of_another_shape_or_type_shows_both)
{
    weir_tensor *a = iota(weir_stream_default(dev), 4), *b = iota(weir_stream_default(dev), 5), *c;

    CHECK_STATUS(weir_tensor_copy(a, b), WEIR_ESHAPE);
    CHECK_STR(weir_last_error(), "[4]");
    CHECK_STR(weir_last_error(), "[5]");
    CHECK_OK(weir_cast(a, WEIR_F32, &c));
    CHECK_STATUS(weir_tensor_copy(a, c), WEIR_EDTYPE);
    CHECK_STR(weir_last_error(), "f32");
    CHECK_STR(weir_last_error(), "i32");
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(c);
}

CONFORMANCE(transfers, text_shows_type_shape_values_and_shortens)
{
    int64_t shape[] = {2, 2}, one = 1;
    float values[] = {1, 2.5f, -3, 0}, number = 7;
    weir_tensor *t, *turned, *scalar, *empty, *longer = iota(weir_stream_default(dev), 5000);
    char *text;

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 2, shape, values, &t));
    CHECK((text = weir_tensor_format(t)));
    CHECK_STR(text, "f32[2, 2]");
    CHECK_STR(text, "[[1, 2.5],\n");
    free(text);
    CHECK_OK(weir_tensor_transpose(t, 0, 1, &turned));
    CHECK((text = weir_tensor_format(turned)));
    CHECK_STR(text, "[[1, -3],\n");
    free(text);
    CHECK((text = weir_tensor_format(longer)));
    CHECK_STR(text, "[0, 1, 2, ...");
    CHECK_STR(text, "4999]");
    CHECK_LT(strlen(text), 200);
    free(text);
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 0, NULL, &number, &scalar));
    CHECK((text = weir_tensor_format(scalar)));
    CHECK_STR(text, "7");
    free(text);
    one = 0;
    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_BOOL, 1, &one, &empty));
    CHECK((text = weir_tensor_format(empty)));
    CHECK_STR(text, "bool[0]");
    CHECK_STR(text, "[]");
    free(text);
    weir_tensor_release(t);
    weir_tensor_release(turned);
    weir_tensor_release(scalar);
    weir_tensor_release(empty);
    weir_tensor_release(longer);
}

static void count_release(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

CONFORMANCE(transfers, wrapped_memory_is_given_back_after_its_last_use)
{
    static atomic_int released;
    static float data[64];
    int64_t shape[] = {4, 4}, strides[] = {16, 2};
    weir_tensor *under, *t, *view, *sum;
    weir_device_props p;
    struct array a;
    void *memory = data;

    for (int i = 0; i < 64; i++)
        data[i] = (float)i;
    weir_device_get_props(dev, &p, sizeof p);
    CHECK_OK(
        weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, (int64_t[]){64}, data, &under));
    if (!(p.features & WEIR_FEATURE_HOST_MEMORY)) {
        CHECK_STATUS(weir_tensor_wrap(weir_stream_default(dev), WEIR_F32, 2, shape, strides, data,
                                      count_release, &released, &t),
                     WEIR_EUNSUPPORTED);
        CHECK_STR(weir_last_error(), "copy it to the device");
        memory = weir_tensor_data(under);
    }
    CHECK_OK(weir_tensor_wrap(weir_stream_default(dev), WEIR_F32, 2, shape, strides, memory,
                              count_release, &released, &t));
    CHECK_OK(weir_tensor_slice(t, 0, 1, 3, 1, &view));
    weir_tensor_release(t);
    CHECK_EQ(atomic_load(&released), 0);
    CHECK_OK(weir_sum(view, NULL, 0, false, &sum));
    weir_tensor_release(view);
    download(sum, &a);
    CHECK_EQ((int)a.at[0], 4 * (16 + 32) + 2 * (0 + 2 + 4 + 6));
    array_free(&a);
    weir_tensor_release(sum);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(atomic_load(&released), 1);
    weir_tensor_release(under);
}

/* DLPack's structs, as its specification lays them out. */
struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
};

struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

CONFORMANCE(transfers, dlpack_goes_out_and_comes_in_again)
{
    for (int type = 0; type < WEIR_DTYPE_COUNT; type++)
        for (int versioned = 0; versioned < 2; versioned++) {
            weir_tensor *flat = iota(weir_stream_default(dev), 60), *cast, *turned, *back, *whole;
            void *managed, *want, *got;
            size_t size;

            test_note("%s%s", weir_dtype_name((weir_dtype)type), versioned ? ", versioned" : "");
            CHECK_OK(weir_tensor_reshape(flat, 2, (int64_t[]){6, 10}, &whole));
            CHECK_OK(weir_cast(whole, (weir_dtype)type, &cast));
            CHECK_OK(weir_tensor_transpose(cast, 0, 1, &turned));
            want = read_bytes(turned, &size);
            if (versioned) {
                CHECK_OK(weir_tensor_to_dlpack_versioned(turned, &managed));
                CHECK_EQ(((struct dl_versioned *)managed)->major, 1);
                CHECK_OK(
                    weir_tensor_from_dlpack_versioned(weir_stream_default(dev), managed, &back));
            } else {
                CHECK_OK(weir_tensor_to_dlpack(turned, &managed));
                CHECK_EQ(((struct dl_managed *)managed)->tensor.ndim, 2);
                CHECK_EQ(((struct dl_managed *)managed)->tensor.strides[0], 1);
                CHECK_OK(weir_tensor_from_dlpack(weir_stream_default(dev), managed, &back));
            }
            weir_tensor_release(flat);
            weir_tensor_release(whole);
            weir_tensor_release(cast);
            weir_tensor_release(turned);
            CHECK_EQ(weir_tensor_dtype(back), type);
            got = read_bytes(back, NULL);
            CHECK_MEM_EQ(got, want, size);
            free(want);
            free(got);
            weir_tensor_release(back);
            CHECK_OK(weir_device_sync(dev));
        }
}
