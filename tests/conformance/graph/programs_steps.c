/* Steps of programs as calls. */
#include "conformance/graph/programs.h"

#include <stdlib.h>

static const char *const kind_names[KINDS] = {
    "unary",     "binary",  "scalar",  "into",     "compare",  "clamp",     "where",   "swiglu",
    "cast",      "fill",    "arange",  "copy",     "copyinto", "concat",    "matmul",  "linear",
    "attention", "reduce",  "argmax",  "softmax",  "norm",     "embedding", "gather",  "scatter",
    "sort",      "nonzero", "gating",  "rotary",   "random",   "slice",     "permute", "reshape",
    "expand",    "squeeze", "indices", "wait",     "experts",  "conv",      "grouped", "bitwise",
    "truth",     "scan",    "choice",  "expertsum"};

typedef weir_status (*unary_fn)(weir_tensor *, weir_tensor **);
typedef weir_status (*binary_fn)(weir_tensor *, weir_tensor *, weir_tensor **);
typedef weir_status (*into_fn)(weir_tensor *, weir_tensor *, weir_tensor *);
typedef weir_status (*unary_into_fn)(weir_tensor *, weir_tensor *);
typedef weir_status (*scalar_fn)(weir_tensor *, double, weir_tensor **);
typedef weir_status (*scalar_into_fn)(weir_tensor *, double, weir_tensor *);
typedef weir_status (*reduce_fn)(weir_tensor *, const int *, int, bool, weir_tensor **);

#define NAME(name) weir_##name,
#define NAME_INTO(name) weir_##name##_into,
#define NAME_SCALAR(name) weir_##name##_scalar,
#define NAME_SCALAR_INTO(name) weir_##name##_scalar_into,
static const unary_fn unary[] = {WEIR_UNARY_LIST(NAME)};
static const unary_into_fn unary_into[] = {WEIR_UNARY_LIST(NAME_INTO)};
static const binary_fn binary[] = {WEIR_BINARY_LIST(NAME)};
static const into_fn binary_into[] = {WEIR_BINARY_LIST(NAME_INTO)};
static const scalar_fn scalar[] = {WEIR_BINARY_LIST(NAME_SCALAR)};
static const scalar_into_fn scalar_into[] = {WEIR_BINARY_LIST(NAME_SCALAR_INTO)};
static const binary_fn compare[] = {WEIR_COMPARE_LIST(NAME)};
static const scalar_fn compare_scalar[] = {WEIR_COMPARE_LIST(NAME_SCALAR)};
static const reduce_fn reduce[] = {WEIR_REDUCE_LIST(NAME)};

static const binary_fn bitwise[] = {WEIR_BITWISE_LIST(NAME)};
static const scalar_fn bitwise_scalar[] = {WEIR_BITWISE_LIST(NAME_SCALAR)};
static const into_fn truth_into[] = {WEIR_COMPARE_LIST(NAME_INTO) WEIR_BITWISE_LIST(NAME_INTO)};
static const scalar_into_fn truth_scalar_into[] = {WEIR_COMPARE_LIST(NAME_SCALAR_INTO)
                                                       WEIR_BITWISE_LIST(NAME_SCALAR_INTO)};

_Static_assert(countof(unary) == UNARIES && countof(bitwise) == BITWISES &&
                   countof(binary) == BINARIES && countof(compare) == COMPARES &&
                   countof(reduce) == REDUCES,
               "programs.h counts the operators");

/* ---- running ---- */

bool step_reads_nothing(const struct step *s, weir_tensor *const *values)
{
    const weir_tensor *x = values[s->in[0]], *index = values[s->in[1]];
    int64_t dim = (s->kind == EMBEDDING && !s->which) || s->kind == EXPERT_SUM ? 0 : s->size[0];

    if ((s->kind != EMBEDDING && s->kind != GATHER && s->kind != SCATTER &&
         s->kind != EXPERT_SUM) ||
        !x || !index)
        return false;
    dim += dim < 0 ? weir_tensor_ndim(x) : 0;
    return dim >= 0 && dim < weir_tensor_ndim(x) && !weir_tensor_shape(x)[dim] &&
           weir_tensor_numel(index);
}

static weir_status run_index(const struct step *s, weir_tensor *const *x, weir_tensor **out)
{
    weir_tensor *index;
    weir_status st = weir_clamp(x[1], 0, (double)s->size[4], &index);
    int dim = (int)s->size[0];

    if (st)
        return st;
    if (s->kind == EMBEDDING)
        st = s->which ? weir_index_select(x[0], dim, index, out) : weir_embedding(x[0], index, out);
    else if (s->kind == GATHER)
        st = weir_gather(x[0], dim, index, out);
    else
        st = (s->which ? weir_scatter : weir_scatter_add)(x[0], dim, index, x[2]);
    weir_tensor_release(index);
    return st;
}

static weir_status run_scan(const struct step *s, weir_tensor *x, weir_tensor **out)
{
    int dim = (int)s->size[0];

    switch (s->which) {
    case 0:
        return weir_cumsum(x, dim, &out[0]);
    case 1:
        return weir_cumprod(x, dim, &out[0]);
    case 2:
        return weir_cummax(x, dim, &out[0], &out[1]);
    default:
        return weir_cummin(x, dim, &out[0], &out[1]);
    }
}

static weir_status run_choice(const struct step *s, weir_tensor *const *x, weir_tensor **out)
{
    return weir_expert_choice(x[0], s->nin > 1 ? x[1] : NULL,
                              &(weir_expert_choice_options){.k = s->size[0],
                                                            .groups = s->size[1],
                                                            .group_k = s->size[2],
                                                            .sigmoid = s->which & 1,
                                                            .best_two = s->which & 2,
                                                            .renormalise = s->which & 4,
                                                            .outside = s->real[0],
                                                            .eps = s->real[1],
                                                            .scale = (double)s->size[3]},
                              &out[0], &out[1]);
}

static weir_status run_expert_sum(const struct step *s, weir_tensor *const *x, weir_tensor **out)
{
    weir_tensor *places;
    weir_status st = weir_clamp(x[1], 0, (double)s->size[4], &places);

    if (st)
        return st;
    st = weir_expert_sum(x[0], places, s->nin > 2 ? x[2] : NULL, out);
    weir_tensor_release(places);
    return st;
}

static weir_status run_bare(const struct step *s, weir_device *dev, weir_tensor *const *x,
                            weir_tensor **out)
{
    int64_t n = s->size[0];

    switch ((enum kind)s->kind) {
    case UNARY:
        return unary[s->which](x[0], out);
    case BINARY:
        return binary[s->which](x[0], x[1], out);
    case SCALAR:
        return scalar[s->which](x[0], s->real[0], out);
    case INTO:
        if (s->nin == 3)
            return binary_into[s->which](x[1], x[2], x[0]);
        return n ? scalar_into[s->which](x[1], s->real[0], x[0]) : unary_into[s->which](x[1], x[0]);
    case COMPARE:
        return s->nin == 2 ? compare[s->which](x[0], x[1], out)
                           : compare_scalar[s->which](x[0], s->real[0], out);
    case CLAMP:
        return weir_clamp(x[0], s->real[0], s->real[1], out);
    case WHERE:
        return weir_where(x[0], x[1], x[2], out);
    case SWIGLU:
        return weir_swiglu(x[0], (int)n, out);
    case CAST:
        return weir_cast(x[0], (weir_dtype)s->which, out);
    case FILL:
        return weir_fill(x[0], s->real[0]);
    case ARANGE:
        return weir_arange(weir_stream_current(dev), (weir_dtype)s->which, n, s->real[0],
                           s->real[1], out);
    case COPY:
        return s->which ? weir_contiguous(x[0], out) : weir_copy(x[0], out);
    case COPY_INTO:
        return weir_copy_into(x[1], x[0]);
    case CONCAT:
        return weir_concat(x, s->nin, (int)n, out);
    case MATMUL:
        if (s->which == 2)
            return weir_matmul_into(x[1], x[2], x[0]);
        return s->nin == 3 ? weir_matmul_bias(x[0], x[1], x[2], out) : weir_matmul(x[0], x[1], out);
    case LINEAR:
        return weir_linear(x[0], x[1], s->nin == 3 ? x[2] : NULL, out);
    case ATTENTION:
        return weir_attention(
            x[0], x[1], x[2], s->nin == 4 ? x[3] : NULL,
            &(weir_attention_options){.causal = s->which & 1, .rows_first = s->which & 2}, out);
    case REDUCE:
        return reduce[s->which](x[0], (int[]){(int)n, (int)s->size[1]}, (int)s->size[2], s->size[3],
                                out);
    case ARGMAX:
        return weir_argmax(x[0], (int)n, s->size[1], out);
    case SOFTMAX:
        return weir_softmax(x[0], (int)n, out);
    case NORM:
        if (s->which == 0)
            return weir_rms_norm(x[0], s->nin > 1 ? x[1] : NULL, 1e-5, out);
        return weir_layer_norm(x[0], s->nin > 1 ? x[1] : NULL, s->nin > 2 ? x[2] : NULL, 1e-5, out);
    case EMBEDDING:
    case GATHER:
    case SCATTER:
        return run_index(s, x, out);
    case SORT:
        if (s->which == 0)
            return weir_topk(x[0], s->size[1], (int)n, s->size[2], &out[0], &out[1]);
        if (s->which == 1)
            return weir_sort(x[0], (int)n, s->size[2], &out[0], &out[1]);
        return weir_argsort(x[0], (int)n, s->size[2], &out[0]);
    case NONZERO:
        return weir_nonzero_padded(x[0], &out[0], &out[1]);
    case GATING:
        return weir_moe_gating(x[0], n, s->which, &out[0], &out[1]);
    case ROTARY:
        return weir_rotary(x[0], x[1], x[2], s->which, out);
    case RANDOM:
        return (s->which ? weir_random_normal : weir_random_uniform)(x[0], (uint64_t)n, s->real[0],
                                                                     s->real[0] + 3);
    case SLICE:
        return weir_tensor_slice(x[0], (int)n, s->size[1], s->size[2], s->size[3], out);
    case PERMUTE:
        if (s->which)
            return weir_tensor_transpose(x[0], (int)n, (int)s->size[1], out);
        return weir_tensor_permute(
            x[0], (int[]){(int)n, (int)s->size[1], (int)s->size[2], (int)s->size[3]}, out);
    case RESHAPE:
        return weir_tensor_reshape(x[0], s->which, s->size, out);
    case EXPAND:
        return weir_tensor_expand(x[0], s->which, s->size, out);
    case SQUEEZE:
        return (s->which ? weir_tensor_squeeze : weir_tensor_unsqueeze)(x[0], (int)n, out);
    case INDICES: { /* whole numbers 0..n */
        weir_tensor *bounded;
        weir_status st = weir_clamp(x[0], 0, (double)n, &bounded);

        if (!st) {
            st = weir_cast(bounded, s->which ? WEIR_I64 : WEIR_I32, out);
            weir_tensor_release(bounded);
        }
        return st;
    }
    case WAIT:
        return weir_wait_tensor(x[0], x[1]);
    case EXPERTS: {
        weir_tensor *made[3], *bounded;
        weir_status st = weir_clamp(x[0], 0, (double)n - 1, &bounded);

        if (st)
            return st;
        if (!(st = weir_expert_order(bounded, n, s->size[1], &made[0], &made[1], &made[2]))) {
            out[0] = made[s->which];
            out[1] = made[2];
            weir_tensor_release(made[1 - s->which]);
        }
        weir_tensor_release(bounded);
        return st;
    }
    case CONV:
        return weir_conv2d(x[0], x[1], s->nin > 2 ? x[2] : NULL,
                           &(weir_conv2d_options){.padding = {s->size[1], s->size[2]},
                                                  .stride = {s->size[0], s->size[3]},
                                                  .dilation = {s->which & 3, s->which >> 2 & 3},
                                                  .groups = s->which >> 4},
                           out);
    case GROUPED: { /* ends that grow */
        weir_tensor *bounded, *sorted;
        weir_status st = weir_clamp(x[2], 0, (double)s->size[4], &bounded);

        if (st)
            return st;
        if (!(st = weir_sort(bounded, 0, false, &sorted, NULL))) {
            st = weir_grouped_matmul(x[0], x[1], sorted, NULL, out);
            weir_tensor_release(sorted);
        }
        weir_tensor_release(bounded);
        return st;
    }
    case BITWISE:
        if (s->which == BITWISES)
            return weir_bitwise_not(x[0], out);
        return s->nin == 2 ? bitwise[s->which](x[0], x[1], out)
                           : bitwise_scalar[s->which](x[0], s->real[0], out);
    case TRUTH_INTO:
        if (s->which == COMPARES + BITWISES)
            return weir_bitwise_not_into(x[1], x[0]);
        return s->nin == 3 ? truth_into[s->which](x[1], x[2], x[0])
                           : truth_scalar_into[s->which](x[1], s->real[0], x[0]);
    case SCAN:
        return run_scan(s, x[0], out);
    case CHOICE:
        return run_choice(s, x, out);
    case EXPERT_SUM:
        return run_expert_sum(s, x, out);
    case KINDS:
        break;
    }
    return WEIR_EINVAL;
}

bool step_can_run(const struct step *s, weir_tensor *const *values)
{
    for (int i = 0; i < s->nin; i++)
        if (!values[s->in[i]])
            return false;
    return !s->off;
}

struct sizes sizes_of(int64_t open)
{
    return (struct sizes){{0, open, open + 1, 2 * open, open / 2}};
}

weir_status step_run(const struct step *step, weir_device *dev, const struct sizes *sizes,
                     weir_tensor **values, bool scopes)
{
    struct step with = *step, *s = &with;
    static const char *const tags[] = {NULL, "1", "2", "3", "4"};
    static const char *const fused[] = {NULL, "sk0", "sk1"};
    weir_tensor *x[4], *out[2] = {NULL, NULL};
    weir_status st;

    if (step_reads_nothing(step, values)) /* an error of the stream otherwise, which stays */
        return WEIR_ERANGE;
    for (int i = 0; i < s->nin; i++)
        x[i] = values[s->in[i]];
    for (int i = 0; i < 5; i++)
        if (s->named[i])
            s->size[i] = sizes->at[s->named[i]];
    if (s->limit.cube)
        CHECK_OK(weir_scope_push_cores(s->limit));
    if (scopes && s->stream)
        CHECK_OK(weir_scope_push_stream(tags[s->stream], s->stream - 2));
    if (scopes && s->super_kernel)
        CHECK_OK(weir_scope_push_super_kernel(fused[s->super_kernel], "stream-fusion=1"));
    st = run_bare(s, dev, x, out);
    if (scopes && s->super_kernel)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_SUPER_KERNEL));
    if (scopes && s->stream)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    if (s->limit.cube)
        CHECK_OK(weir_scope_pop(WEIR_SCOPE_CORES));
    for (int i = 0; i < s->nout && !st; i++)
        values[s->out[i]] = out[i];
    for (int i = s->nout; i < 2 && !st; i++)
        weir_tensor_release(out[i]);
    return st;
}

const char *step_text(const struct step *s)
{
    static char text[256];
    int n = snprintf(text, sizeof text, "%s/%d", kind_names[s->kind], s->which);

    for (int i = 0; i < s->nin; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " v%d", s->in[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, " (%lld %lld %lld %lld; %g %g) ->",
                  (long long)s->size[0], (long long)s->size[1], (long long)s->size[2],
                  (long long)s->size[3], s->real[0], s->real[1]);
    for (int i = 0; i < s->nout; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " v%d", s->out[i]);
    snprintf(text + n, sizeof text - (size_t)n, " stream %d super %d limit %d|%d", s->stream,
             s->super_kernel, s->limit.cube, s->limit.vector);
    return text;
}
