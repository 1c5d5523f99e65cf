/* Rotary position embeddings: x * cos + turned(x) * sin. */
#include "run.h"

/* Mode 0 rotates halves, 1 pairs, 2 quarters. */
static tensor *turned(struct call *c, tensor *x, int64_t mode)
{
    int last = rank(x) - 1;
    int64_t n = size(x, last), to[MAX_DIMS + 1];
    tensor *both[4];

    if (c->err || !x)
        return NULL;
    if (mode == 0) {
        both[0] = op_neg(c, slice(c, x, last, n / 2, n, 1));
        both[1] = slice(c, x, last, 0, n / 2, 1);
        return concat(c, both, 2, last);
    }
    if (mode == 1) {
        both[0] = unsqueeze(c, op_neg(c, slice(c, x, last, 1, n, 2)), -1);
        both[1] = unsqueeze(c, slice(c, x, last, 0, n, 2), -1);
        memcpy(to, shape(x), (size_t)rank(x) * sizeof *to);
        return reshape(c, concat(c, both, 2, last + 1), rank(x), to);
    }
    if (mode == 2) {
        int64_t f = n / 4;

        both[0] = op_neg(c, slice(c, x, last, f, 2 * f, 1));
        both[1] = slice(c, x, last, 0, f, 1);
        both[2] = op_neg(c, slice(c, x, last, 3 * f, n, 1));
        both[3] = slice(c, x, last, 2 * f, 3 * f, 1);
        return concat(c, both, 4, last);
    }
    return call_fail(c, "rotary mode %lld is not supported", (long long)mode);
}

static tensor *rotated(struct call *c, tensor *x, tensor *cosines, tensor *sines, int64_t mode)
{
    x = wide(c, x);
    return op_add(c, op_mul(c, x, wide(c, cosines)), op_mul(c, turned(c, x, mode), wide(c, sines)));
}

/* x, cos, sin, mode [, rotation matrix], out */
void run_rotary(struct call *c)
{
    if (c->row->count > 5 && given(c, 4) && numel(in(c, 4))) {
        (void)call_fail(c, "a rotation matrix is not supported");
        return;
    }
    give(c, rotated(c, in(c, 0), in(c, 1), in(c, 2), integer(c, 3)));
}

/* x, cos, sin, out: pairs */
void run_interleave_rope(struct call *c)
{
    give(c, rotated(c, in(c, 0), in(c, 1), in(c, 2), 1));
}

/* query, key (both written), cos, sin, layout [, mode] */
static void apply_rotary(struct call *c, int64_t mode)
{
    tensor *cosines = in(c, 2), *sines = in(c, 3);

    put(c, 0, rotated(c, in(c, 0), cosines, sines, mode));
    put(c, 1, rotated(c, in(c, 1), cosines, sines, mode));
}

void run_apply_rotary(struct call *c)
{
    apply_rotary(c, 0);
}

void run_apply_rotary_mode(struct call *c)
{
    apply_rotary(c, text_is(c, 5, "interleave") ? 1 : text_is(c, 5, "quarter") ? 2 : 0);
}

/* grad, cos, sin, x, mode, dx, dcos, dsin */
void run_rotary_grad(struct call *c)
{
    tensor *g = wide(c, in(c, 0)), *cosines = wide(c, in(c, 1)), *sines = wide(c, in(c, 2));
    int64_t mode = integer(c, 4);

    /* turned(turned(x)) is -x, so the gradient of `turned` is -turned */
    put(c, 5, op_sub(c, op_mul(c, g, cosines), turned(c, op_mul(c, g, sines), mode)));
    if (given(c, 3) && given(c, 6) && numel(in(c, 6))) {
        tensor *x = wide(c, in(c, 3)), *dc = op_mul(c, g, x),
               *ds = op_mul(c, g, turned(c, x, mode));
        int dims[MAX_DIMS], n = 0;

        for (int i = 0; i < rank(g) && !c->err; i++)
            if (size(cosines, i) == 1 && size(g, i) != 1)
                dims[n++] = i;
        put(c, 6, n ? op_sum(c, dc, dims, n, true) : dc);
        put(c, 7, n ? op_sum(c, ds, dims, n, true) : ds);
    }
}
