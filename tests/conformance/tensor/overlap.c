/* In-place work on views of one tensor: refused exactly where bytes are shared, right elsewhere. */
#include "conformance/conformance.h"

enum { SIDE = 6, CELLS = SIDE * SIDE };

/* A view of the square by slices with steps and a transposition, and the cells it has. */
struct picked {
    weir_tensor *view;
    int cells[CELLS], n;
};

static void pick(weir_tensor *base, struct rng *rng, const int64_t *shape, struct picked *out)
{
    weir_tensor *t = weir_tensor_retain(base), *next;
    const int64_t *stride;
    int32_t *first = weir_tensor_data(base);

    for (int d = 0; d < 2; d++) {
        int64_t most = shape[d] > 1 ? (SIDE - 1) / (shape[d] - 1) : SIDE;
        int64_t step = rng_int(rng, 1, most), reach = (shape[d] - 1) * step + 1;
        int64_t start = rng_int(rng, 0, SIDE - reach);

        CHECK_OK(weir_tensor_slice(t, d, start, start + reach, step, &next));
        weir_tensor_release(t);
        t = next;
    }
    if (shape[0] == shape[1] && rng_chance(rng, 30)) {
        CHECK_OK(weir_tensor_transpose(t, 0, 1, &next));
        weir_tensor_release(t);
        t = next;
    }
    out->view = t;
    out->n = 0;
    stride = weir_tensor_strides(t);
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            out->cells[out->n++] =
                (int)((int32_t *)weir_tensor_data(t) - first + i * stride[0] + j * stride[1]);
}

static bool share(const struct picked *a, const struct picked *b)
{
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (a->cells[i] == b->cells[j])
                return true;
    return false;
}

CONFORMANCE(overlap, views_of_one_tensor_are_refused_exactly_where_they_share_elements)
{
    struct rng rng = rng_make("overlap", 0);
    unsigned rounds = repeats(dev, 1500), disjoint = 0, shared = 0;

    for (unsigned round = 0; round < rounds; round++) {
        int64_t shape[2] = {rng_int(&rng, 1, 3), rng_int(&rng, 1, 3)}, n = CELLS;
        int32_t values[CELLS];
        struct picked to, from;
        weir_tensor *flat, *base;
        bool same;
        weir_status st;

        CHECK_OK(weir_arange(weir_stream_default(dev), WEIR_I32, n, 0, 1, &flat));
        CHECK_OK(weir_tensor_reshape(flat, 2, (int64_t[]){SIDE, SIDE}, &base));
        pick(base, &rng, shape, &to);
        pick(base, &rng, shape, &from);
        test_note("round %u", round);
        same = !memcmp(to.cells, from.cells, (size_t)to.n * sizeof *to.cells);
        st = round % 2 ? weir_tensor_copy(to.view, from.view)
                       : weir_add_into(to.view, from.view, to.view);
        if (share(&to, &from) && !same) {
            CHECK_EQ(st, WEIR_EINVAL);
            shared++;
        } else {
            CHECK_EQ(st, WEIR_OK);
            disjoint += !same;
            CHECK_OK(weir_tensor_read(base, values, sizeof values));
            for (int i = 0; i < to.n; i++)
                CHECK_EQ(values[to.cells[i]],
                         round % 2 ? from.cells[i] : to.cells[i] + from.cells[i]);
        }
        weir_tensor_release(to.view);
        weir_tensor_release(from.view);
        weir_tensor_release(base);
        weir_tensor_release(flat);
    }
    CHECK_GT(disjoint, rounds / 10);
    CHECK_GT(shared, rounds / 10);
}
