/* Guesses at operands and numbers that an operator takes. */
#include "conformance/graph/programs_maker.h"

#include <math.h>

/* A value that is there, recent ones more often. */
static int any(struct maker *m)
{
    int n = m->p->nvalues;

    return rng_chance(&m->rng, 55) && n > 6 ? n - 1 - below(m, 6) : below(m, n);
}

static bool is_float(const struct maker *m, int v)
{
    return weir_dtype_is_float(weir_tensor_dtype(m->values[v]));
}

static int any_float(struct maker *m)
{
    int v = any(m);

    for (int i = 0; i < 8 && !is_float(m, v); i++)
        v = any(m);
    return v;
}

static int any_whole(struct maker *m)
{
    int v = any(m);

    for (int i = 0; i < 8 && is_float(m, v); i++)
        v = any(m);
    return v;
}

static bool spreads(const weir_tensor *x, const weir_tensor *y)
{
    int shift = weir_tensor_ndim(x) - weir_tensor_ndim(y);

    for (int d = 0; d < weir_tensor_ndim(y) && shift >= 0; d++)
        if (weir_tensor_shape(y)[d] != 1 &&
            weir_tensor_shape(y)[d] != weir_tensor_shape(x)[shift + d])
            return false;
    return shift >= 0;
}

/* One of x's type, or of `type`, that broadcasts to x if there is one. */
static int like(struct maker *m, int x, int type)
{
    int start = below(m, m->p->nvalues), n = m->p->nvalues;
    weir_dtype want = type < 0 ? weir_tensor_dtype(m->values[x]) : (weir_dtype)type;

    for (int i = 0; i < n; i++) {
        int v = (start + i) % n;

        if (weir_tensor_dtype(m->values[v]) == want && spreads(m->values[x], m->values[v]) &&
            (v != x || rng_chance(&m->rng, 30)))
            return v;
    }
    return x;
}

/* A value of the type with the size at the dim, counted from the end; any if there is none. */
static int sized(struct maker *m, int type, int dim, int64_t size, int ndim)
{
    int start = below(m, m->p->nvalues), n = m->p->nvalues;

    for (int i = 0; i < n; i++) {
        int v = (start + i) % n, nd = weir_tensor_ndim(m->values[v]);

        if ((type < 0 || (int)weir_tensor_dtype(m->values[v]) == type) && nd >= dim &&
            (!ndim || nd == ndim) && weir_tensor_shape(m->values[v])[nd - dim] == size)
            return v;
    }
    return any(m);
}

static int any_dim(struct maker *m, int v)
{
    int n = weir_tensor_ndim(m->values[v]);

    return n ? below(m, n) - (rng_chance(&m->rng, 30) ? n : 0) : 0;
}

static int64_t size_at(const struct maker *m, int v, int dim) /* from the end: 1 is the last */
{
    int n = weir_tensor_ndim(m->values[v]);

    return n >= dim ? weir_tensor_shape(m->values[v])[n - dim] : 1;
}

/* Indices go up to here. */
static int64_t last_index(const struct maker *m, int v, int64_t dim)
{
    int n = weir_tensor_ndim(m->values[v]);

    dim += dim < 0 ? n : 0;
    if (n && dim < n && !weir_tensor_shape(m->values[v])[dim])
        return -1;
    return m->p->open || dim >= n ? 0 : weir_tensor_shape(m->values[v])[dim] - 1;
}

static double small(struct maker *m)
{
    static const double numbers[] = {-2, -1, 0, 1, 2, 3};
    static const double extremes[] = {NAN,   INFINITY,   -INFINITY,   -0.0,   0x1p-149,   3.4e38,
                                      127,   128,        -129,        255,    256,        0.5,
                                      65520, 2147483647, -2147483648, 0x1p63, -0x1p63,    1e-310,
                                      -0.5,  31,         32,          7,      0x1p53 - 1, 63};

    if (m->p->extreme && rng_chance(&m->rng, 40))
        return extremes[below(m, countof(extremes))];
    return numbers[below(m, 6)];
}

static void fill_view(struct maker *m, struct step *s)
{
    int v = s->in[0] = any(m), n = weir_tensor_ndim(m->values[v]);
    const int64_t *shape = weir_tensor_shape(m->values[v]);

    s->nin = s->nout = 1;
    switch ((enum kind)s->kind) {
    case SLICE: {
        int dim = any_dim(m, v);
        int64_t size = n ? shape[dim < 0 ? dim + n : dim] : 1;

        s->size[0] = dim;
        s->size[1] = rng_chance(&m->rng, 40) ? 0 : rng_int(&m->rng, -size, size);
        s->size[2] = rng_chance(&m->rng, 50) ? INT64_MAX : rng_int(&m->rng, -size, size);
        s->size[3] = rng_chance(&m->rng, 70) ? 1 : rng_int(&m->rng, 2, 3);
        break;
    }
    case PERMUTE:
        if ((s->which = below(m, 2))) {
            s->size[0] = any_dim(m, v);
            s->size[1] = any_dim(m, v);
        } else {
            for (int i = 0; i < n && i < 4; i++) {
                int j = below(m, i + 1);

                s->size[i] = s->size[j];
                s->size[j] = i;
            }
        }
        break;
    case RESHAPE:
        switch (below(m, 4)) {
        case 0:
            s->which = 1;
            s->size[0] = -1;
            break;
        case 1:
            s->which = 2;
            s->size[0] = -1;
            s->size[1] = n ? shape[n - 1] : 1;
            break;
        case 2:
            s->which = 3;
            s->size[0] = n ? shape[0] : 1;
            s->size[1] = -1;
            s->size[2] = rng_int(&m->rng, 1, 4);
            break;
        default:
            s->which = 2;
            s->size[0] = m->sizes[below(m, 4)];
            s->size[1] = -1;
        }
        break;
    case EXPAND:
        s->which = n < 4 ? n + below(m, 2) : n;
        for (int i = 0; i < s->which; i++)
            s->size[i] = i < s->which - n ? 1 + below(m, 3)
                         : shape[i - (s->which - n)] == 1 && rng_chance(&m->rng, 60)
                             ? m->sizes[below(m, 4)]
                             : -1;
        break;
    default: /* SQUEEZE */
        s->which = below(m, 2);
        s->size[0] = s->which ? any_dim(m, v) : below(m, n + 1);
    }
}

void maker_guess(struct maker *m, struct step *s)
{
    int x = any(m), y;

    s->nin = 1;
    s->nout = 1;
    switch ((enum kind)s->kind) {
    case UNARY:
        s->which = below(m, UNARIES);
        x = rng_chance(&m->rng, 80) ? any_float(m) : x;
        break;
    case BINARY:
        s->which = below(m, BINARIES);
        s->in[1] = like(m, x, -1);
        s->nin = 2;
        break;
    case SCALAR:
        s->which = below(m, BINARIES);
        s->real[0] = small(m);
        break;
    case INTO:
        s->nout = 0;
        s->nin = 2 + below(m, 2);
        s->which = below(m, 7);
        s->size[0] = below(m, 2);
        s->real[0] = small(m);
        s->in[1] = like(m, x, -1);
        s->in[2] = like(m, x, -1);
        break;
    case COMPARE:
        s->which = below(m, COMPARES);
        s->nin = 1 + below(m, 2);
        s->real[0] = small(m);
        s->in[1] = like(m, x, -1);
        break;
    case CLAMP:
        s->real[0] = m->p->extreme ? small(m) : -1.5;
        s->real[1] = m->p->extreme ? small(m) : 2.5;
        break;
    case WHERE:
        s->in[1] = x;
        s->in[2] = like(m, x, -1);
        x = like(m, x, WEIR_BOOL);
        s->nin = 3;
        break;
    case SWIGLU:
        x = any_float(m);
        s->size[0] = any_dim(m, x);
        break;
    case CAST:
        s->which = (int)types[rng_chance(&m->rng, 70) ? below(m, 4) : below(m, countof(types))];
        break;
    case FILL:
        s->nout = 0;
        s->real[0] = m->p->extreme ? small(m) : below(m, 3);
        break;
    case ARANGE:
        s->nin = 0;
        s->which = (int)types[below(m, 6)];
        s->size[0] = m->sizes[below(m, 4)];
        s->real[0] = below(m, 4);
        s->real[1] = 1 + below(m, 2);
        break;
    case COPY:
        s->which = below(m, 2);
        break;
    case COPY_INTO:
        s->nout = 0;
        s->nin = 2;
        s->in[1] = like(m, x, -1);
        break;
    case CONCAT:
        s->nin = 1 + below(m, 3);
        s->size[0] = any_dim(m, x);
        s->in[1] = like(m, x, -1);
        s->in[2] = like(m, x, -1);
        break;
    case MATMUL:
        x = any_float(m);
        s->in[1] = y = sized(m, (int)weir_tensor_dtype(m->values[x]), 2, size_at(m, x, 1), 0);
        s->nin = 2;
        if (rng_chance(&m->rng, 25)) {
            s->nin = 3;
            s->in[2] = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, y, 1), 1);
        } else if (rng_chance(&m->rng, 10)) {
            s->which = 2;
            s->nin = 3;
            s->nout = 0;
            s->in[2] = y;
            s->in[1] = x;
            x = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, y, 1), 0);
        }
        break;
    case LINEAR:
        x = any_float(m);
        s->in[1] = y = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, x, 1), 2);
        s->nin = 2;
        if (rng_chance(&m->rng, 40)) {
            s->nin = 3;
            s->in[2] = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, y, 2), 1);
        }
        break;
    case ATTENTION:
        x = any_float(m);
        s->in[1] = y = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, x, 1),
                             weir_tensor_ndim(m->values[x]));
        s->in[2] = rng_chance(&m->rng, 50)
                       ? y
                       : sized(m, (int)weir_tensor_dtype(m->values[x]), 2, size_at(m, y, 2),
                               weir_tensor_ndim(m->values[x]));
        s->nin = 3;
        if (rng_chance(&m->rng, 30)) {
            s->nin = 4;
            s->in[3] =
                sized(m, rng_chance(&m->rng, 50) ? WEIR_BOOL : (int)weir_tensor_dtype(m->values[x]),
                      1, size_at(m, y, 2), 0);
        }
        s->which = below(m, 4);
        break;
    case REDUCE:
        s->which = below(m, REDUCES);
        s->size[0] = any_dim(m, x);
        s->size[1] = any_dim(m, x);
        s->size[2] = rng_chance(&m->rng, 60) ? 1 : below(m, 3);
        s->size[3] = rng_chance(&m->rng, 60);
        break;
    case ARGMAX:
    case SOFTMAX:
        s->size[0] = any_dim(m, x);
        s->size[1] = below(m, 2);
        break;
    case NORM:
        x = any_float(m);
        s->which = below(m, 2);
        s->nin = 1 + below(m, 2 + s->which);
        s->in[1] = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, x, 1), 1);
        s->in[2] = sized(m, (int)weir_tensor_dtype(m->values[x]), 1, size_at(m, x, 1), 1);
        break;
    case EMBEDDING:
        s->which = below(m, 2);
        s->in[1] = like(m, x, rng_chance(&m->rng, 50) ? WEIR_I64 : WEIR_I32);
        s->size[0] = any_dim(m, x);
        s->size[4] = last_index(m, x, s->kind == EMBEDDING && !s->which ? 0 : s->size[0]);
        s->nin = 2;
        break;
    case GATHER:
        s->in[1] = like(m, x, rng_chance(&m->rng, 50) ? WEIR_I64 : WEIR_I32);
        s->size[0] = any_dim(m, x);
        s->size[4] = last_index(m, x, s->kind == EMBEDDING && !s->which ? 0 : s->size[0]);
        s->nin = 2;
        break;
    case SCATTER:
        s->nout = 0;
        s->which = below(m, 2);
        s->in[1] = like(m, x, rng_chance(&m->rng, 50) ? WEIR_I64 : WEIR_I32);
        s->in[2] = like(m, x, -1);
        s->size[0] = any_dim(m, x);
        s->size[4] = last_index(m, x, s->size[0]);
        s->nin = 3;
        break;
    case SORT:
        s->which = below(m, 3);
        s->nout = s->which == 2 ? 1 : 2;
        s->size[0] = any_dim(m, x);
        s->size[1] = 1 + below(m, 3);
        s->size[2] = below(m, 2);
        break;
    case NONZERO:
        s->nout = 2;
        break;
    case GATING:
        x = sized(m, WEIR_F32, 1, m->sizes[below(m, 4)], 2);
        s->which = below(m, 2);
        s->size[0] = 1 + below(m, 2);
        s->nout = 2;
        break;
    case ROTARY:
        x = any_float(m);
        s->in[1] =
            sized(m, rng_chance(&m->rng, 50) ? WEIR_F32 : (int)weir_tensor_dtype(m->values[x]), 1,
                  size_at(m, x, 1) / 2, 2);
        s->in[2] = s->in[1];
        s->which = below(m, 2);
        s->nin = 3;
        break;
    case RANDOM:
        s->nout = 0;
        s->which = below(m, 2);
        s->size[0] = below(m, 1000);
        s->real[0] = 0;
        break;
    case INDICES:
        s->size[0] = m->sizes[below(m, 4)] - 1;
        s->which = below(m, 2);
        break;
    case WAIT:
        s->nout = 0;
        s->nin = 2;
        s->in[1] = any(m);
        break;
    case EXPERTS:
        x = sized(m, WEIR_I32, 1, size_at(m, x, 1), 1);
        s->size[0] = 8;
        s->size[1] = 1 + below(m, 2);
        s->which = below(m, 2);
        s->nout = 2;
        break;
    case CONV:
        x = sized(m, WEIR_F32, 1, m->sizes[below(m, 4)], 4);
        s->in[1] = sized(m, WEIR_F32, 3, size_at(m, x, 3), 4);
        s->nin = 2;
        s->size[0] = below(m, 3);
        s->size[1] = below(m, 3);
        s->size[2] = below(m, 3);
        s->size[3] = below(m, 3);
        s->which = below(m, 3) | below(m, 3) << 2 | below(m, 3) << 4;
        if (rng_chance(&m->rng, 30)) {
            s->nin = 3;
            s->in[2] = sized(m, WEIR_F32, 1, size_at(m, s->in[1], 4), 1);
        }
        break;
    case BITWISE:
        s->which = below(m, BITWISES + 1);
        x = rng_chance(&m->rng, 90) ? any_whole(m) : x;
        s->in[1] = like(m, x, -1);
        s->nin = s->which == BITWISES ? 1 : 1 + below(m, 2);
        s->real[0] = small(m);
        break;
    case TRUTH_INTO:
        s->nout = 0;
        s->which = below(m, COMPARES + BITWISES + 1);
        x = s->which < COMPARES ? like(m, x, WEIR_BOOL) : any_whole(m);
        s->in[1] = like(m, x, s->which < COMPARES ? (int)types[below(m, countof(types))] : -1);
        s->in[2] = like(m, s->in[1], -1);
        s->nin = s->which == COMPARES + BITWISES ? 2 : 2 + below(m, 2);
        s->real[0] = small(m);
        break;
    case SCAN:
        s->which = below(m, SCANS);
        s->size[0] = any_dim(m, x);
        s->nout = s->which < 2 ? 1 : 2;
        break;
    case CHOICE:
        x = any_float(m);
        s->which = below(m, 8);
        s->size[0] = 1 + below(m, 3);
        s->size[1] = below(m, 3);
        s->size[2] = below(m, 3);
        s->size[3] = below(m, 3);
        s->real[0] = -(double)below(m, 2);
        s->real[1] = 1e-20;
        s->nin = 1 + below(m, 2);
        s->in[1] = sized(m, rng_chance(&m->rng, 50) ? WEIR_F32 : (int)types[below(m, 4)], 1,
                         size_at(m, x, 1), 1);
        s->nout = 2;
        break;
    case EXPERT_SUM:
        x = any_float(m);
        s->in[1] =
            sized(m, rng_chance(&m->rng, 50) ? WEIR_I64 : WEIR_I32, 1, m->sizes[below(m, 4)], 2);
        s->in[2] =
            sized(m, rng_chance(&m->rng, 50) ? WEIR_F32 : (int)weir_tensor_dtype(m->values[x]), 1,
                  size_at(m, s->in[1], 1), 2);
        s->nin = 2 + below(m, 2);
        s->size[4] = last_index(m, x, 0);
        break;
    case GROUPED:
        x = any_float(m);
        s->in[1] = sized(m, (int)weir_tensor_dtype(m->values[x]), 2, size_at(m, x, 1), 3);
        s->in[2] = sized(m, WEIR_I64, 1, size_at(m, s->in[1], 3), 1);
        s->size[4] = m->p->open ? 0 : size_at(m, x, 2); /* whichever size the groups divide */
        if (s->size[4] > size_at(m, x, 1))
            s->size[4] = size_at(m, x, 1);
        if (s->size[4] > size_at(m, s->in[1], 1))
            s->size[4] = size_at(m, s->in[1], 1);
        s->nin = 3;
        break;
    default:
        fill_view(m, s);
        return;
    }
    s->in[0] = x;
}
