/* Elementwise operators on any views, into new tensors and into views. */
#include "conformance/eager/eager.h"

/* clang-format off */
#define NAMES(X)                                                                   \
    X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(bitwise_and) X(bitwise_or) \
    X(bitwise_xor) X(bitwise_left_shift) X(bitwise_right_shift)
/* clang-format on */
#define ENUM(name) OP_##name,
#define ROW(name) \
    {weir_##name, weir_##name##_into, weir_##name##_scalar, weir_##name##_scalar_into},

enum { NAMES(ENUM) OPS };

static const struct {
    weir_status (*make)(weir_tensor *, weir_tensor *, weir_tensor **);
    weir_status (*into)(weir_tensor *, weir_tensor *, weir_tensor *);
    weir_status (*scalar)(weir_tensor *, double, weir_tensor **);
    weir_status (*scalar_into)(weir_tensor *, double, weir_tensor *);
} ops[] = {NAMES(ROW)};

static int64_t shift(weir_dtype type, int64_t a, int64_t by, bool left)
{
    int64_t width = 8 * (int64_t)weir_dtype_size(type);

    if (by < 0 || by >= width)
        return left ? 0 : a < 0 ? -1 : 0;
    if (left)
        return (int64_t)((uint64_t)a << by);
    return a < 0 ? ~(~a >> by) : a >> by;
}

static int64_t compute(weir_dtype type, int op, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    int64_t made = 0;

    switch (op) {
    case OP_add:
        made = (int64_t)(x + y);
        break;
    case OP_sub:
        made = (int64_t)(x - y);
        break;
    case OP_mul:
        made = (int64_t)(x * y);
        break;
    case OP_div:
        made = !b ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
        break;
    case OP_maximum:
        made = a > b ? a : b;
        break;
    case OP_minimum:
        made = a < b ? a : b;
        break;
    case OP_bitwise_and:
        made = a & b;
        break;
    case OP_bitwise_or:
        made = a | b;
        break;
    case OP_bitwise_xor:
        made = a ^ b;
        break;
    default:
        made = shift(type, a, b, op == OP_bitwise_left_shift);
    }
    return wrap_value(type, made);
}

static int any_slot(struct machine *m)
{
    return (int)rng_int(&m->rng, 0, SLOTS - 1);
}

void do_unary(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int which = (int)rng_int(&m->rng, 0, 2);
    struct picked a;
    weir_tensor *out;

    pick_any(m, any_slot(m), DIMS, &a);
    before_read(m, a.slot);
    CHECK_OK((which == 0 ? weir_neg : which == 1 ? weir_abs : weir_bitwise_not)(a.t, &out));
    after_read(m, a.slot);
    for (int64_t i = 0; i < a.n; i++) {
        int64_t x = value_at(m, &a, i), minus = (int64_t)(0 - (uint64_t)x);

        made[i] = wrap_value(m->type, which == 0 ? minus : which == 1 ? (x < 0 ? minus : x) : ~x);
    }
    picked_free(&a);
    put_new(m, out, made);
}

void do_binary(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int op = (int)rng_int(&m->rng, 0, OPS - 1);
    struct picked a, b;
    weir_tensor *out;
    bool turned;

    pick_any(m, any_slot(m), DIMS, &a);
    if (!pick_shape(m, a.ndim, a.shape, true, &b)) {
        picked_free(&a);
        return;
    }
    turned = rng_chance(&m->rng, 50);
    before_read(m, a.slot);
    before_read(m, b.slot);
    CHECK_OK(ops[op].make(turned ? b.t : a.t, turned ? a.t : b.t, &out));
    after_read(m, a.slot);
    after_read(m, b.slot);
    for (int64_t i = 0; i < a.n; i++) {
        int64_t x = value_at(m, &a, i);
        int64_t y = m->slots[b.slot].want[broadcast_cell(&b, a.ndim, a.shape, i)];

        made[i] = turned ? compute(m->type, op, y, x) : compute(m->type, op, x, y);
    }
    picked_free(&a);
    picked_free(&b);
    put_new(m, out, made);
}

/* A view to write to; false if it is none that has its elements once. */
static bool pick_target(struct machine *m, struct picked *out)
{
    pick_any(m, any_slot(m), DIMS, out);
    if (is_plain(out))
        return true;
    picked_free(out);
    return false;
}

/* Some view that broadcasts to the target, or the target itself. */
static bool pick_source(struct machine *m, const struct picked *to, struct picked *out)
{
    if (rng_chance(&m->rng, 35)) {
        *out = *to;
        weir_tensor_retain(to->t);
        return true;
    }
    return pick_shape(m, to->ndim, to->shape, true, out);
}

static void write_values(struct machine *m, const struct picked *to, const int64_t *values)
{
    for (int64_t i = 0; i < to->n; i++)
        m->slots[to->slot].want[to->cells[i]] = values[i];
}

void do_binary_into(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int op = (int)rng_int(&m->rng, 0, OPS - 1);
    bool scalar = rng_chance(&m->rng, 30);
    int64_t with = op >= OP_bitwise_left_shift ? 3 : some_value(m);
    struct picked to, a, b;
    weir_status st;

    if (m->type == WEIR_I64 && (with == INT64_MAX || with == INT64_MIN))
        with = 5; /* no double is this */
    if (!pick_target(m, &to))
        return;
    if (!pick_source(m, &to, &a)) {
        picked_free(&to);
        return;
    }
    if (scalar || !pick_source(m, &to, &b)) {
        b = a;
        weir_tensor_retain(b.t);
    }
    before_write(m, to.slot);
    before_read(m, a.slot);
    before_read(m, b.slot);
    st = scalar ? ops[op].scalar_into(a.t, (double)with, to.t) : ops[op].into(a.t, b.t, to.t);
    if (scalar && a.n != to.n) { /* a scalar's result has the input's shape */
        CHECK(st);
    } else if (!scalar && st == WEIR_ESHAPE) {
        int64_t x = a.ndim == to.ndim, y = b.ndim == to.ndim;

        for (int d = 0; d < to.ndim && x; d++)
            x = a.shape[d] == to.shape[d];
        for (int d = 0; d < to.ndim && y; d++)
            y = b.shape[d] == to.shape[d];
        CHECK(!x && !y); /* neither has the target's shape, nor may both together */
    } else if (scalar && (a.ndim != to.ndim || st == WEIR_ESHAPE)) {
        CHECK(st);
    } else if (clash(&to, &a) || clash(&to, &b)) {
        CHECK_EQ(st, WEIR_EINVAL);
    } else {
        CHECK_OK(st);
        for (int64_t i = 0; i < to.n; i++) {
            int64_t x = m->slots[a.slot].want[broadcast_cell(&a, to.ndim, to.shape, i)];
            int64_t y = m->slots[b.slot].want[broadcast_cell(&b, to.ndim, to.shape, i)];

            made[i] = compute(m->type, op, x, scalar ? with : y);
        }
        write_values(m, &to, made);
    }
    after_read(m, a.slot);
    after_read(m, b.slot);
    after_write(m, to.slot);
    picked_free(&to);
    picked_free(&a);
    picked_free(&b);
}

void do_scalar(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int op = (int)rng_int(&m->rng, 0, OPS - 1);
    int64_t with = op >= OP_bitwise_left_shift ? rng_int(&m->rng, 0, 9) : some_value(m);
    struct picked a;
    weir_tensor *out;

    if (m->type == WEIR_I64 && (with == INT64_MAX || with == INT64_MIN))
        with = -7;
    pick_any(m, any_slot(m), DIMS, &a);
    before_read(m, a.slot);
    CHECK_OK(ops[op].scalar(a.t, (double)with, &out));
    after_read(m, a.slot);
    for (int64_t i = 0; i < a.n; i++)
        made[i] = compute(m->type, op, value_at(m, &a, i), with);
    picked_free(&a);
    put_new(m, out, made);
}

void do_copy_into(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    bool whole = rng_chance(&m->rng, 30); /* weir_tensor_copy, which broadcasts nothing */
    struct picked to, a;
    weir_status st;

    if (!pick_target(m, &to))
        return;
    if (!(whole ? pick_shape(m, to.ndim, to.shape, false, &a) : pick_source(m, &to, &a))) {
        picked_free(&to);
        return;
    }
    before_write(m, to.slot);
    before_read(m, a.slot);
    st = whole ? weir_tensor_copy(to.t, a.t) : weir_copy_into(a.t, to.t);
    if (clash(&to, &a)) {
        CHECK_EQ(st, WEIR_EINVAL);
    } else {
        CHECK_OK(st);
        for (int64_t i = 0; i < to.n; i++)
            made[i] = m->slots[a.slot].want[broadcast_cell(&a, to.ndim, to.shape, i)];
        write_values(m, &to, made);
    }
    after_read(m, a.slot);
    after_write(m, to.slot);
    picked_free(&to);
    picked_free(&a);
}

void do_fill(struct machine *m)
{
    int64_t value = rng_int(&m->rng, 0, 100);
    struct picked to;

    if (!pick_target(m, &to))
        return;
    before_write(m, to.slot);
    CHECK_OK(weir_fill(to.t, (double)value));
    for (int64_t i = 0; i < to.n; i++)
        m->slots[to.slot].want[to.cells[i]] = value;
    after_write(m, to.slot);
    if (rng_chance(&m->rng, 20)) { /* for every stream */
        CHECK_OK(weir_wait_tensor(m->slots[to.slot].t, m->slots[to.slot].t));
        if (!m->autosync)
            m->slots[to.slot].writer = -1;
    }
    picked_free(&to);
}

void do_where(struct machine *m)
{
    static _Thread_local int64_t made[MOST];
    int64_t than = rng_int(&m->rng, 0, 20);
    weir_tensor *condition, *out;
    struct picked a, b;

    pick_any(m, any_slot(m), DIMS, &a);
    if (!pick_shape(m, a.ndim, a.shape, true, &b)) {
        picked_free(&a);
        return;
    }
    before_read(m, a.slot);
    before_read(m, b.slot);
    CHECK_OK(weir_gt_scalar(a.t, (double)than, &condition));
    CHECK_OK(weir_where(condition, a.t, b.t, &out));
    weir_tensor_release(condition);
    after_read(m, a.slot);
    after_read(m, b.slot);
    for (int64_t i = 0; i < a.n; i++) {
        int64_t x = value_at(m, &a, i);

        made[i] = x > than ? x : m->slots[b.slot].want[broadcast_cell(&b, a.ndim, a.shape, i)];
    }
    picked_free(&a);
    picked_free(&b);
    put_new(m, out, made);
}
