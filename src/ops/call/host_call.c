/* HostCall: a function of the program as an operator. There is one row per number of outputs, since
 * a row has a fixed number. */
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "ops/call/registry.h"
#include "tensor/size.h"

struct host_params {
    char what[64];
    weir_dtype dtypes[WEIR_HOST_MAX_OUT];
    int64_t ndims[WEIR_HOST_MAX_OUT];
    int64_t shapes[WEIR_HOST_MAX_OUT * WEIR_MAX_DIMS]; /* WEIR_MAX_DIMS for each */
    int64_t names[WEIR_HOST_MAX_OUT * WEIR_MAX_DIMS];  /* named sizes among them */
    bool is_named;                                     /* there are named sizes */
    weir_host_fn fn;                                   /* not saved in files: NULL after loading */
    void *user;
};

struct host_args {
    weir_host_fn fn;
    void *user;
    char what[sizeof((struct host_params *)NULL)->what];
    uint32_t nin, nout;
    struct host_operand {
        void *address; /* address of its first element */
        size_t bytes;  /* bytes from there to the end of its last element */
    } operands[];      /* inputs, then outputs */
};

static weir_status infer_host(struct weir__call *call)
{
    const struct host_params *p = call->params;

    for (int i = 0; i < call->nout; i++) {
        if (p->ndims[i] < 0 || p->ndims[i] > WEIR_MAX_DIMS)
            return weir__fail(WEIR_ESHAPE, "HostCall '%s': output %d has %lld dims, 0..%d fit",
                              p->what, i, (long long)p->ndims[i], WEIR_MAX_DIMS);
        call->out[i].dtype = p->dtypes[i];
        call->out[i].ndim = (int)p->ndims[i];
        for (int d = 0; d < call->out[i].ndim; d++)
            if ((call->out[i].shape[d] = p->shapes[i * WEIR_MAX_DIMS + d]) < 0)
                return weir__fail(WEIR_ESHAPE, "HostCall '%s': output %d has a negative size",
                                  p->what, i);
    }
    return WEIR_OK;
}

static bool follow_host(void *params, const int64_t *sizes)
{
    struct host_params *p = params;
    bool other = false;

    for (size_t i = 0; p->is_named && i < weir__countof(p->shapes); i++) {
        int64_t now = weir__size_value(p->names[i], sizes);

        other |= now != p->shapes[i];
        p->shapes[i] = now;
    }
    return other;
}

static double view_bytes(const struct weir__view *v)
{
    return v ? (double)weir__view_numel(v) * (double)weir_dtype_size(v->dtype) : 0;
}

static void cost_host(const struct weir__call *call, struct weir__cost *cost)
{
    for (int i = 0; i < call->nin; i++)
        cost->bytes += view_bytes(call->in[i]);
    for (int i = 0; i < call->nout; i++)
        cost->bytes += view_bytes(&call->out[i]);
}

static weir_status run_host(const void *args, const weir_block *block)
{
    const struct host_args *a = args;
    void *addresses[WEIR__OP_MAX_IN + WEIR_HOST_MAX_OUT];
    const char *sentence;
    weir_status st;

    (void)block;
    for (uint32_t i = 0; i < a->nin + a->nout; i++)
        addresses[i] = a->operands[i].address;
    st = a->fn(a->user, addresses, addresses + a->nin);
    sentence = weir__said();
    if (!st || !a->what[0])
        return st;
    /* Named by the name that the program gave: names of graph nodes are numbered. */
    return weir__fail(st, "host call '%s': %s", a->what,
                      sentence ? sentence : weir_status_text(st));
}

/* The function of a node loaded from a file: the file has its cost, for the model, but not the
 * function. */
static weir_status run_missing(void *user, void *const *in, void *const *out)
{
    (void)user;
    (void)in;
    (void)out;
    return weir_kernel_fail(
        WEIR_EUNSUPPORTED,
        "its function belongs to the program that made the graph and cannot run here");
}

static int operands_of_host(void *args, struct weir__code_operand *operands)
{
    struct host_args *a = args;
    int n = (int)(a->nin + a->nout);

    for (int i = 0; i < n; i++)
        operands[i] = (struct weir__code_operand){&a->operands[i].address, a->operands[i].bytes,
                                                  i >= (int)a->nin};
    return n;
}

static const struct weir__code host_code = {
    .kind = WEIR__CODE_HOST, .operands = operands_of_host, .fails = true};
_Static_assert(WEIR__OP_MAX_IN + WEIR_HOST_MAX_OUT <= WEIR__CODE_OPERANDS, "all operands fit");
_Static_assert(sizeof(struct host_args) +
                       (WEIR__OP_MAX_IN + WEIR_HOST_MAX_OUT) * sizeof(struct host_operand) <=
                   WEIR_ARGS_MAX,
               "all operands fit");

/* Strides are never negative, so the last element is the farthest. */
static struct host_operand operand_of(const struct weir__view *v)
{
    int64_t last = 0;

    if (!v)
        return (struct host_operand){NULL, 0};
    for (int d = 0; d < v->ndim; d++) {
        if (!v->shape[d])
            return (struct host_operand){v->data, 0};
        last += (v->shape[d] - 1) * v->stride[d];
    }
    return (struct host_operand){v->data, (size_t)(last + 1) * weir_dtype_size(v->dtype)};
}

static weir_status prepare_host(const struct weir__call *call, struct weir__work *work)
{
    const struct host_params *p = call->params;
    struct host_args *a = (struct host_args *)work->args;

    a->fn = p->fn ? p->fn : run_missing;
    a->user = p->user;
    memcpy(a->what, p->what, sizeof a->what);
    a->nin = (uint32_t)call->nin;
    a->nout = (uint32_t)call->nout;
    for (int i = 0; i < call->nin; i++)
        a->operands[i] = operand_of(call->in[i]);
    for (int i = 0; i < call->nout; i++)
        a->operands[call->nin + i] = operand_of(&call->out[i]);
    work->args_size = sizeof *a + (size_t)(call->nin + call->nout) * sizeof *a->operands;
    work->fn = run_host;
    work->code = &host_code;
    return WEIR_OK;
}

#define FIELD(name, kind, count)                                             \
    {                                                                        \
#name, WEIR__FIELD_##kind, offsetof(struct host_params, name), count \
    }
#define ROW(row, text, n)                                              \
    static const struct weir__op_field row##_fields[] = {              \
        FIELD(what, STRING, sizeof((struct host_params *)NULL)->what), \
        FIELD(dtypes, DTYPE, n),                                       \
        FIELD(ndims, INT, n),                                          \
        FIELD(shapes, INT, (n)*WEIR_MAX_DIMS),                         \
    };                                                                 \
    const struct weir__op weir__op_##row = {                           \
        .name = text,                                                  \
        .summary = "a function of the program, with " #n " output(s)", \
        .engine = WEIR_ENGINE_HOST,                                    \
        .flags = WEIR__OP_IGNORES_LIMIT,                               \
        .nin_min = 1,                                                  \
        .nin_max = WEIR__OP_MAX_IN,                                    \
        .nout = n,                                                     \
        .params_size = sizeof(struct host_params),                     \
        .fields = row##_fields,                                        \
        .nfields = weir__countof(row##_fields),                        \
        .infer = infer_host,                                           \
        .follow = follow_host,                                         \
        .cost = cost_host,                                             \
        .prepare = prepare_host,                                       \
    };
ROW(host_call, "HostCall", 1)
ROW(host_call2, "HostCall2", 2)
ROW(host_call3, "HostCall3", 3)
ROW(host_call4, "HostCall4", 4)

weir_status weir_host_run(const weir_host_call *given, weir_tensor *const *in, int nin,
                          weir_tensor **out)
{
    WEIR__NEED(given, "call");
    WEIR__NEED(in, "in");
    WEIR__NEED(out, "out");

    static const struct weir__op *const rows[WEIR_HOST_MAX_OUT] = {
        &weir__op_host_call, &weir__op_host_call2, &weir__op_host_call3, &weir__op_host_call4};
    weir_host_call own, *call = &own;
    struct host_params p = {0};
    weir_status st = WEIR__TAKE(&own, given, "a host call");

    if (st)
        return st;
    p.fn = call->fn;
    p.user = call->user;
    if (call->nout < 1 || call->nout > WEIR_HOST_MAX_OUT || !call->fn)
        return weir__fail(WEIR_EINVAL, "host call '%s': it needs a function and 1..%d outputs",
                          call->name ? call->name : "", WEIR_HOST_MAX_OUT);
    snprintf(p.what, sizeof p.what, "%s", call->name ? call->name : "");
    for (int i = 0; i < call->nout; i++) {
        p.dtypes[i] = call->out[i].dtype;
        p.ndims[i] = call->out[i].ndim;
        for (int d = 0; d < call->out[i].ndim && d < WEIR_MAX_DIMS; d++) {
            p.names[i * WEIR_MAX_DIMS + d] = call->out[i].shape[d];
            p.is_named |= weir__size_is_named(call->out[i].shape[d]);
            p.shapes[i * WEIR_MAX_DIMS + d] = weir__size_value(call->out[i].shape[d], NULL);
        }
    }
    return weir__op_run(rows[call->nout - 1], &p, in, nin, out);
}
