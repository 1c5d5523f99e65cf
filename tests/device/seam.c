/* The seam to drivers: a driver with its own operators gets each operator's name and operands. */
#include "helpers.h"

#include <string.h>

#include "device/device.h"
#include "device/op.h"

/* ---- a driver in the null device's place, with a library of operators ---- */

enum { MOST = 16 };

/* What was handed over, in order; copies of its own. */
static struct seen {
    char name[32];
    struct weir__call *call;
} submitted[MOST];
static int nsubmitted;
static const struct weir__driver *null_driver;
static struct weir__driver library_driver;

static const struct weir__op_field *field(const struct weir__op *op, const char *name)
{
    for (size_t i = 0; i < op->nfields; i++)
        if (!strcmp(op->fields[i].name, name))
            return &op->fields[i];
    FAIL("%s has no parameter '%s'", op->name, name);
}

static double scalar(const struct weir__call *call, const char *name)
{
    const struct weir__op_field *f = field(call->op, name);
    const char *at = (const char *)call->params + f->offset;

    CHECK(f->kind == WEIR__FIELD_INT || f->kind == WEIR__FIELD_FLOAT);
    return f->kind == WEIR__FIELD_INT ? (double)*(const int64_t *)(const void *)at
                                      : *(const double *)(const void *)at;
}

/* The library: a name, tensors and scalars. Rows of f32, of any strides. */
static void lib_scale(const struct weir__call *call)
{
    const struct weir__view *x = call->in[0], *y = &call->out[0];
    double value = scalar(call, "value");

    for (int64_t i = 0; i < y->shape[0]; i++)
        for (int64_t k = 0; k < y->shape[1]; k++)
            ((float *)(void *)y->data)[i * y->stride[0] + k * y->stride[1]] =
                (float)value * ((float *)(void *)x->data)[i * x->stride[0] + k * x->stride[1]];
}

static void lib_add(const struct weir__call *call)
{
    const struct weir__view *a = call->in[0], *b = call->in[1], *y = &call->out[0];

    for (int64_t i = 0; i < y->shape[0]; i++)
        for (int64_t k = 0; k < y->shape[1]; k++)
            ((float *)(void *)y->data)[i * y->stride[0] + k * y->stride[1]] =
                ((float *)(void *)a->data)[i * a->stride[0] + k * a->stride[1]] +
                ((float *)(void *)b->data)[i * b->stride[0] + k * b->stride[1]];
}

static void run_by_name(const struct weir__call *call)
{
    static const struct {
        const char *name;
        void (*run)(const struct weir__call *call);
    } table[] = {{"Mul", lib_scale}, {"Add", lib_add}};

    for (size_t i = 0; i < weir__countof(table); i++)
        if (!strcmp(table[i].name, call->op->name))
            table[i].run(call);
}

static weir_status submit(weir_stream *s, const struct weir__kernel *k)
{
    if (k->call) {
        CHECK(!k->fn && !k->code && !k->args_size); /* nobody prepared weir's own kernels */
        CHECK_LT(nsubmitted, MOST);
        snprintf(submitted[nsubmitted].name, sizeof submitted->name, "%s", k->name);
        CHECK(submitted[nsubmitted].call = weir__call_copy(k->call));
        run_by_name(submitted[nsubmitted++].call);
    }
    return null_driver->submit(s, k);
}

struct weir__program {
    struct weir__program *null_one;
    int n;
    struct weir__call *calls[MOST];
    int lane[MOST], item[MOST];
};

static weir_status make(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                        struct weir__program **out)
{
    struct weir__program *p = weir__calloc(1, sizeof *p);

    CHECK(p);
    for (int i = 0; i < nlanes; i++)
        for (int k = 0; k < lanes[i].nitems; k++)
            if (!lanes[i].items[k].is_wait) {
                CHECK_LT(p->n, MOST);
                p->lane[p->n] = i;
                p->item[p->n] = k;
                CHECK(p->calls[p->n++] = weir__call_copy(lanes[i].items[k].kernel.call));
            }
    *out = p;
    return null_driver->plans->make(dev, lanes, nlanes, &p->null_one);
}

static void free_program(struct weir__program *p)
{
    for (int i = 0; p && i < p->n; i++)
        weir__free(p->calls[i]);
    if (p)
        null_driver->plans->free(p->null_one);
    weir__free(p);
}

static weir_status run(struct weir__program *p, weir_stream *const *streams,
                       const uint64_t *tickets, int ntickets)
{
    for (int i = 0; i < p->n; i++)
        run_by_name(p->calls[i]);
    return null_driver->plans->run(p->null_one, streams, tickets, ntickets);
}

static weir_status update(struct weir__program *p, int lane, int item,
                          const struct weir__kernel *kernel)
{
    for (int i = 0; i < p->n; i++)
        if (p->lane[i] == lane && p->item[i] == item) {
            weir__free(p->calls[i]);
            CHECK(p->calls[i] = weir__call_copy(kernel->call));
        }
    return null_driver->plans->update(p->null_one, lane, item, kernel);
}

static weir_device *open_library(void)
{
    static const struct weir__driver_plans plans = {
        .make = make, .free = free_program, .run = run, .update = update};
    weir_device *dev = open_device("null");

    null_driver = dev->driver;
    library_driver = *null_driver;
    library_driver.submit = submit;
    library_driver.plans = &plans;
    dev->driver = &library_driver;
    return dev;
}

static void forget(void)
{
    while (nsubmitted)
        weir__free(submitted[--nsubmitted].call);
}

/* ---- tests ---- */

static void check_view(const struct weir__view *v, const weir_tensor *t)
{
    CHECK_PTR_EQ(v->data, weir_tensor_data(t));
    CHECK_EQ(v->dtype, weir_tensor_dtype(t));
    CHECK_EQ(v->ndim, weir_tensor_ndim(t));
    for (int d = 0; d < v->ndim; d++) {
        CHECK_EQ(v->shape[d], weir_tensor_shape(t)[d]);
        CHECK_EQ(v->stride[d], weir_tensor_strides(t)[d]);
    }
}

TEST(seam, an_eager_operator_crosses_with_its_name_tensors_and_scalars)
{
    weir_device *dev = open_library();
    weir_stream *s = weir_stream_current(dev);
    weir_tensor *x, *turned, *y, *norm;
    const struct weir__call *call;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){3, 5}, &x));
    CHECK_OK(weir_tensor_permute(x, (int[]){1, 0}, &turned));
    CHECK_OK(weir_softmax(turned, -1, &y));
    CHECK_OK(weir_layer_norm(x, NULL, NULL, 1e-3, &norm));
    CHECK_EQ(nsubmitted, 2);

    call = submitted[0].call;
    CHECK_STR_EQ(call->op->name, "Softmax");
    CHECK_STR_EQ(submitted[0].name, "Softmax");
    CHECK_EQ(call->nin, 1);
    CHECK_EQ(call->nout, 1);
    check_view(call->in[0], turned); /* as the user has it: no copy was made */
    check_view(&call->out[0], y);
    CHECK_NEAR(scalar(call, "dim"), -1, 0);

    call = submitted[1].call;
    CHECK_STR_EQ(call->op->name, "LayerNorm");
    check_view(call->in[0], x);
    CHECK(!call->in[1] && !call->in[2]); /* what is absent is NULL */
    check_view(&call->out[0], norm);
    CHECK_NEAR(scalar(call, "eps"), 1e-3, 0);

    weir_tensor_release(x);
    weir_tensor_release(turned);
    weir_tensor_release(y);
    weir_tensor_release(norm);
    forget();
    CHECK_OK(weir_device_close(dev));
}

/* y = 3 * x + x */
static weir_plan *make_plan(weir_device *dev)
{
    weir_tensor *x, *three, *y;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 2, (int64_t[]){2, 2}, &x));
    CHECK_OK(weir_mul_scalar(x, 3, &three));
    CHECK_OK(weir_add(three, x, &y));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(three);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

TEST(seam, a_driver_with_a_library_of_operators_runs_eager_work_and_plans)
{
    weir_device *dev = open_library();
    weir_stream *s = weir_stream_current(dev);
    weir_plan *plan = make_plan(dev);
    weir_tensor *x, *three, *eager;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){2, 2}, &x));
    for (int i = 0; i < 4; i++)
        ((float *)weir_tensor_data(x))[i] = (float)i;
    CHECK_OK(weir_mul_scalar(x, 3, &three));
    CHECK_OK(weir_add(three, x, &eager));
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(((float *)weir_tensor_data(eager))[i], 4 * i, 0);

    /* Each operator by itself, nothing fused; other tensors are patched into the program. */
    for (int round = 0; round < 3; round++) {
        weir_tensor *in, *y = NULL;

        CHECK_OK(weir_tensor_empty(s, WEIR_F32, 2, (int64_t[]){2, 2}, &in));
        for (int i = 0; i < 4; i++)
            ((float *)weir_tensor_data(in))[i] = (float)(i + round);
        CHECK_OK(weir_plan_run(plan, s, &in, 1, &y, 1));
        CHECK_OK(weir_stream_sync(s));
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(((float *)weir_tensor_data(y))[i], 4 * (i + round), 0);
        weir_tensor_release(in);
        weir_tensor_release(y);
    }
    weir_plan_destroy(plan);
    weir_tensor_release(x);
    weir_tensor_release(three);
    weir_tensor_release(eager);
    forget();
    CHECK_OK(weir_device_close(dev));
}
