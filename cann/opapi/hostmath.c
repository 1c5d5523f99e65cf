/* Elementwise functions on the host engine, on contiguous arrays. */
#include "hostmath.h"

struct map_params {
    int fn;
    weir_dtype dtype;
    int64_t n;
};

/* Giles' approximation, then two steps of Newton's method. */
static double erf_inverse(double x)
{
    double w, y;

    if (!(fabs(x) < 1))
        return fabs(x) == 1 ? x * INFINITY : NAN;
    w = -log((1 - x) * (1 + x));
    y = w < 5 ? 1.50140941 + (w - 2.5) * (0.246640727 + (w - 2.5) * -0.00417768164)
              : 2.83297682 + (sqrt(w) - 3) * (1.00167406 + (sqrt(w) - 3) * 0.00943887047);
    y *= x;
    for (int i = 0; i < 4; i++)
        y -= (erf(y) - x) / (1.1283791670955126 * exp(-y * y));
    return y;
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

static float sinc_f(float x)
{
    return (float)sinc((double)x);
}

/* The result has the sign of the divisor, as in Python. */
static double remainder_f(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t remainder_i(int64_t a, int64_t b)
{
    int64_t r = b == 0 || b == -1 ? 0 : a % b;

    return r && (r < 0) != (b < 0) ? r + b : r;
}

/* As in PyTorch: (a - remainder) / b, rounded. */
static double floor_divide_f(double a, double b)
{
    double r, q, f;

    if (b == 0)
        return a / b;
    r = fmod(a, b);
    q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}

static int64_t floor_divide_i(int64_t a, int64_t b)
{
    int64_t q;

    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    q = a / b;
    return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t trunc_divide_i(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;

    while (y) {
        uint64_t r = x % y;

        x = y;
        y = r;
    }
    return (int64_t)x;
}

static weir_status run_unary(const struct host *h)
{
    const struct map_params *p = h->params;
    const float *fx = h->in[0];
    const double *dx = h->in[0];
    float *fy = h->out[0];
    double *dy = h->out[0];

    switch ((enum math_unary)p->fn) {
#define CASE(name, f, d)                         \
    case MATH_##name:                            \
        if (p->dtype == WEIR_F32)                \
            for (int64_t i = 0; i < p->n; i++) { \
                float x = fx[i];                 \
                fy[i] = f;                       \
            }                                    \
        else                                     \
            for (int64_t i = 0; i < p->n; i++) { \
                double x = dx[i];                \
                dy[i] = d;                       \
            }                                    \
        break;
        MATH_UNARY(CASE)
#undef CASE
    }
    return WEIR_OK;
}

static weir_status run_binary(const struct host *h)
{
    const struct map_params *p = h->params;

    switch ((enum math_binary)p->fn) {
#define LOOP(type, expr)                           \
    {                                              \
        const type *pa = h->in[0], *pb = h->in[1]; \
        type *po = h->out[0];                      \
        for (int64_t i = 0; i < p->n; i++) {       \
            type a = pa[i], b = pb[i];             \
            po[i] = (type)(expr);                  \
            (void)a;                               \
            (void)b;                               \
        }                                          \
    }
#define CASE(name, f, i)               \
    case MATH_##name:                  \
        if (p->dtype == WEIR_F32)      \
            LOOP(float, f)             \
        else if (p->dtype == WEIR_F64) \
            LOOP(double, f)            \
        else                           \
            LOOP(int64_t, i)           \
        break;
        MATH_BINARY(CASE)
#undef CASE
#undef LOOP
    }
    return WEIR_OK;
}

static const char *const unary_names[] = {
#define NAME(name, f, d) #name,
    MATH_UNARY(NAME)
#undef NAME
};
static const char *const binary_names[] = {
#define NAME(name, f, i) #name,
    MATH_BINARY(NAME)
#undef NAME
};

tensor *math1(struct call *c, enum math_unary fn, tensor *x)
{
    struct map_params p = {(int)fn, WEIR_F32, 0};

    x = wide(c, x);
    if (!x)
        return NULL;
    p.dtype = type(x);
    p.n = numel(x);
    return host_like(c, unary_names[fn], run_unary, &p, sizeof p, &x, 1, x, type(x));
}

void broadcast(struct call *c, tensor **a, tensor **b)
{
    int64_t to[MAX_DIMS];
    int n = rank(*a) > rank(*b) ? rank(*a) : rank(*b);

    if (c->err || !*a || !*b)
        return;
    for (int i = 0; i < n; i++) {
        int ia = i - (n - rank(*a)), ib = i - (n - rank(*b));
        int64_t sa = ia < 0 ? 1 : shape(*a)[ia], sb = ib < 0 ? 1 : shape(*b)[ib];

        to[i] = sa == 1 ? sb : sa;
    }
    *a = expand(c, *a, n, to);
    *b = expand(c, *b, n, to);
}

tensor *math2(struct call *c, enum math_binary fn, tensor *a, tensor *b)
{
    struct map_params p = {(int)fn, WEIR_I64, 0};
    weir_dtype t = promoted(type(a), type(b)), back = t;
    tensor *both[2];

    if (c->err || !a || !b)
        return NULL;
    if (weir_dtype_is_float(t))
        p.dtype = back = t == WEIR_F64 ? t : WEIR_F32;
    else if (fn == MATH_ATAN2)
        p.dtype = back = WEIR_F32;
    a = cast(c, a, p.dtype);
    b = cast(c, b, p.dtype);
    broadcast(c, &a, &b);
    both[0] = a;
    both[1] = b;
    if (!a || !b)
        return NULL;
    p.n = numel(a);
    return cast(c, host_like(c, binary_names[fn], run_binary, &p, sizeof p, both, 2, a, p.dtype),
                back);
}
