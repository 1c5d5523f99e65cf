/* Wrapped memory: released exactly once, and only after its last use. */
#include "helpers.h"

#include "dlpack_abi.h"

enum { N = 256 };

struct lender {
    float values[N];
    atomic_int released;
    atomic_int users; /* kernels that have not ended */
    int64_t shape[1];
    DLManagedTensor legacy;
    DLManagedTensorVersioned versioned;
};

static void give_back(void *user)
{
    struct lender *l = user;

    CHECK_EQ(atomic_load(&l->users), 0);
    CHECK_EQ(atomic_fetch_add(&l->released, 1), 0);
}

static void delete_legacy(DLManagedTensor *self)
{
    give_back(self->manager_ctx);
}
static void delete_versioned(DLManagedTensorVersioned *self)
{
    give_back(self->manager_ctx);
}

static DLTensor describe(struct lender *l)
{
    DLTensor d = {.data = l->values, .ndim = 1, .shape = l->shape};

    l->shape[0] = N;
    d.device.type = kDLCPU;
    d.dtype.code = kDLFloat;
    d.dtype.bits = 32;
    d.dtype.lanes = 1;
    return d;
}

static DLManagedTensorVersioned describe_versioned(struct lender *l)
{
    return (DLManagedTensorVersioned){
        .version = {1, 0},
        .manager_ctx = l,
        .deleter = delete_versioned,
        .dl_tensor = describe(l),
    };
}

enum form { WRAP, LEGACY, VERSIONED, FORMS };

static weir_tensor *lend(weir_stream *s, struct lender *l, enum form form)
{
    weir_tensor *t = NULL;

    for (int i = 0; i < N; i++)
        l->values[i] = (float)i;
    switch (form) {
    case WRAP:
        CHECK_OK(
            weir_tensor_wrap(s, WEIR_F32, 1, (int64_t[]){N}, NULL, l->values, give_back, l, &t));
        break;
    case LEGACY:
        l->legacy = (DLManagedTensor){describe(l), l, delete_legacy};
        CHECK_OK(weir_tensor_from_dlpack(s, &l->legacy, &t));
        break;
    default:
        l->versioned = describe_versioned(l);
        CHECK_OK(weir_tensor_from_dlpack_versioned(s, &l->versioned, &t));
    }
    CHECK_PTR_EQ(weir_tensor_data(t), l->values);
    return t;
}

struct use {
    struct lender *lender;
    struct gate *gate;
};

static weir_status use_kernel(const void *args, const weir_block *block)
{
    const struct use *u = args;

    if (u->gate)
        gate_kernel(&u->gate, block);
    CHECK_EQ(atomic_load(&u->lender->released), 0);
    atomic_fetch_sub(&u->lender->users, 1);
    return WEIR_OK;
}

static void use_tensor(weir_stream *s, struct lender *l, weir_tensor *t, struct gate *g)
{
    struct use u = {l, g};

    atomic_fetch_add(&l->users, 1);
    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "use",
                                                  .fn = use_kernel,
                                                  .args = &u,
                                                  .args_size = sizeof u,
                                                  .tensors = &t,
                                                  .ntensors = 1}));
}

TEST(wrapped, wrapped_memory_is_released_at_once_if_it_was_not_used)
{
    weir_device *dev = open_device("cpu");

    for (int form = 0; form < FORMS; form++) {
        struct lender l = {.released = 0};
        weir_tensor *t = lend(weir_stream_default(dev), &l, (enum form)form);

        weir_tensor_retain(t);
        weir_tensor_release(t);
        CHECK_EQ(atomic_load(&l.released), 0);
        weir_tensor_release(t);
        CHECK_EQ(atomic_load(&l.released), 1);
    }
    CHECK_OK(weir_device_close(dev));
}

TEST(wrapped, wrapped_memory_is_released_after_the_last_use_on_any_stream)
{
    for (int form = 0; form < FORMS; form++)
        for (int last = 0; last < 3; last++) {
            weir_device *dev = open_device("cpu:cores=6,threads=6");
            weir_stream *s[3] = {weir_stream_default(dev), new_stream(dev, 0), new_stream(dev, 0)};
            struct lender l = {.released = 0};
            struct gate g[3] = {{0}, {0}, {0}};
            weir_tensor *t = lend(s[0], &l, (enum form)form), *view;

            test_note("form %d, stream %d is last", form, last);
            CHECK_OK(weir_tensor_slice(t, 0, 10, 20, 1, &view));
            use_tensor(s[0], &l, t, &g[0]);
            use_tensor(s[1], &l, view, &g[1]);
            use_tensor(s[2], &l, t, &g[2]);
            weir_tensor_release(t);
            weir_tensor_release(view);
            for (int i = 0; i < 3; i++)
                if (i != last) {
                    open_gate(&g[i]);
                    CHECK_OK(weir_stream_sync(s[i]));
                }
            CHECK_EQ(atomic_load(&l.released), 0);
            CHECK_OK(weir_memory_empty_cache(dev));
            CHECK_EQ(atomic_load(&l.released), 0);
            open_gate(&g[last]);
            CHECK_OK(weir_device_sync(dev));
            CHECK_EQ(atomic_load(&l.released), 1);
            CHECK_OK(weir_device_close(dev));
            CHECK_EQ(atomic_load(&l.released), 1);
        }
}

TEST(wrapped, wrapped_memory_is_released_by_close)
{
    for (int form = 0; form < FORMS; form++) {
        weir_device *dev = open_device("cpu:deterministic=1");
        weir_stream *s1 = new_stream(dev, 0);
        struct lender l = {.released = 0};
        weir_tensor *t = lend(weir_stream_default(dev), &l, (enum form)form);

        for (int i = 0; i < 100; i++)
            use_tensor(s1, &l, t, NULL);
        weir_tensor_release(t);
        CHECK_OK(weir_stream_destroy(s1));
        CHECK_OK(weir_device_close(dev));
        CHECK_EQ(atomic_load(&l.released), 1);
    }
}

/* A release function may call the library. */
static weir_stream *again_stream;
static weir_tensor *again_tensor;

static void give_back_and_wrap_again(void *user)
{
    static float value;

    CHECK_OK(weir_tensor_wrap(again_stream, WEIR_F32, 0, NULL, NULL, &value, give_back, user,
                              &again_tensor));
}

TEST(wrapped, wrapped_memory_may_be_wrapped_again_by_its_release_function)
{
    weir_device *dev = open_device("cpu");
    struct lender l = {.released = 0};
    weir_tensor *t;

    again_stream = weir_stream_default(dev);
    CHECK_OK(weir_tensor_wrap(again_stream, WEIR_F32, 1, (int64_t[]){N}, NULL, l.values,
                              give_back_and_wrap_again, &l, &t));
    weir_tensor_release(t);
    CHECK(again_tensor);
    weir_tensor_release(again_tensor);
    CHECK_EQ(atomic_load(&l.released), 1);
    CHECK_OK(weir_device_close(dev));
}

TEST(wrapped, wrapped_memory_keeps_the_device_open)
{
    weir_device *dev = open_device("cpu");
    struct lender l = {.released = 0};
    weir_tensor *t = lend(weir_stream_default(dev), &l, WRAP);

    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);
    CHECK_STR(weir_last_error(), "1 tensor");
    CHECK_EQ(atomic_load(&l.released), 0);
    weir_tensor_release(t);
    CHECK_OK(weir_device_close(dev));
}

TEST(wrapped, memory_stays_the_callers_if_wrapping_fails)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    struct lender l = {.released = 0};
    DLManagedTensorVersioned *v = &l.versioned;
    weir_tensor *t;

    *v = describe_versioned(&l);
    v->version.major = 2;
    CHECK_STATUS(weir_tensor_from_dlpack_versioned(s, v, &t), WEIR_EUNSUPPORTED);
    CHECK(!t);
    v->version.major = 1;
    v->dl_tensor.device.type = 2;
    CHECK_STATUS(weir_tensor_from_dlpack_versioned(s, v, &t), WEIR_EDEVICE);
    v->dl_tensor.device.type = kDLCPU;
    v->dl_tensor.dtype.lanes = 4;
    CHECK_STATUS(weir_tensor_from_dlpack_versioned(s, v, &t), WEIR_EDTYPE);
    v->dl_tensor.dtype.lanes = 1;
    v->dl_tensor.ndim = 9;
    CHECK_STATUS(weir_tensor_from_dlpack_versioned(s, v, &t), WEIR_ESHAPE);
    v->dl_tensor.ndim = 1;
    v->dl_tensor.strides = (int64_t[]){-1};
    CHECK_STATUS(weir_tensor_from_dlpack_versioned(s, v, &t), WEIR_ESHAPE);
    CHECK(!t);
    CHECK_EQ(atomic_load(&l.released), 0);
    CHECK_OK(weir_device_close(dev));
}

/* ---- export ---- */

TEST(exported, exported_memory_is_kept_until_the_deleter_is_called)
{
    weir_device *dev = open_device("cpu");
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *t, *view, *back;
    float values[6] = {0, 1, 2, 3, 4, 5};
    void *managed;

    CHECK_OK(weir_tensor_from(s, WEIR_F32, 2, (int64_t[]){2, 3}, values, &t));
    CHECK_OK(weir_tensor_transpose(t, 0, 1, &view));
    CHECK_OK(weir_tensor_to_dlpack(view, &managed));
    DLManagedTensor *m = managed;

    weir_tensor_release(view);
    weir_tensor_release(t);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(m->dl_tensor.ndim, 2);
    CHECK_EQ(m->dl_tensor.shape[0], 3);
    CHECK_EQ(m->dl_tensor.strides[0], 1);
    CHECK_EQ(m->dl_tensor.strides[1], 3);
    CHECK(((float *)m->dl_tensor.data)[4] == 4);
    CHECK_STATUS(weir_device_close(dev), WEIR_EBUSY);

    CHECK_OK(weir_tensor_from_dlpack(s, managed, &back)); /* a round trip owns it */
    CHECK_OK(weir_tensor_to_dlpack_versioned(back, &managed));
    weir_tensor_release(back);
    DLManagedTensorVersioned *v = managed;

    CHECK_EQ(v->version.major, 1);
    CHECK_EQ(v->flags, 0);
    CHECK(((float *)v->dl_tensor.data)[5] == 5);
    v->deleter(v);
    CHECK_EQ(stats_of(dev).allocated, 0);
    CHECK_OK(weir_device_close(dev));
}
