/* Rows that go to one place each: an index that is the same for a whole row, as of tokens and their
 * experts, gives the bits of an index for every element. Pieces side by side give those of copies.
 */
#include "conformance/conformance.h"

static weir_tensor *random_tensor(weir_device *dev, weir_dtype dtype, int ndim,
                                  const int64_t *shape, uint64_t seed, double low, double high)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(weir_stream_default(dev), dtype, ndim, shape, &t));
    CHECK_OK(weir_random_uniform(t, seed, low, high));
    return t;
}

struct rows {
    int64_t outer, limit, n, inner;
    int64_t from; /* the first column that is used: rows then begin at odd addresses */
};

static void check_scatter(weir_device *dev, const struct rows *r, weir_dtype dtype,
                          weir_dtype index_type, bool adds)
{
    int64_t wide = r->inner + r->from, target_shape[] = {r->outer, r->limit, wide},
            source_shape[] = {r->outer, r->n, wide}, index_shape[] = {r->outer, r->n, 1},
            all[] = {r->outer, r->n, r->inner};
    weir_tensor *x = random_tensor(dev, dtype, 3, target_shape, 1, 0, 5), *y, *index, *full,
                *spread;
    weir_tensor *source = random_tensor(dev, dtype, 3, source_shape, 2, 0, 5), *views[3];

    test_note("%s, index %s, %s, %lld x %lld to %lld rows of %lld", weir_dtype_name(dtype),
              weir_dtype_name(index_type), adds ? "added" : "put", (long long)r->outer,
              (long long)r->n, (long long)r->limit, (long long)r->inner);
    index = random_tensor(dev, index_type, 3, index_shape, 3, 0, (double)r->limit);
    CHECK_OK(weir_copy(x, &y));
    CHECK_OK(weir_tensor_expand(index, 3, all, &spread));
    CHECK_OK(weir_copy(spread, &full));
    CHECK_OK(weir_tensor_slice(x, 2, r->from, wide, 1, &views[0]));
    CHECK_OK(weir_tensor_slice(y, 2, r->from, wide, 1, &views[1]));
    CHECK_OK(weir_tensor_slice(source, 2, r->from, wide, 1, &views[2]));
    CHECK_OK(adds ? weir_scatter_add(views[0], 1, spread, views[2])
                  : weir_scatter(views[0], 1, spread, views[2]));
    CHECK_OK(adds ? weir_scatter_add(views[1], 1, full, views[2])
                  : weir_scatter(views[1], 1, full, views[2]));
    check_same(x, y);
    for (int i = 0; i < 3; i++)
        weir_tensor_release(views[i]);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(index);
    weir_tensor_release(full);
    weir_tensor_release(spread);
    weir_tensor_release(source);
}

CONFORMANCE(exact, rows_scattered_by_one_index_each_are_those_of_an_index_for_every_element)
{
    static const struct rows shapes[] = {
        {1, 7, 40, 64, 0},  {2, 50, 9, 64, 0}, {1, 3, 1500, 48, 0}, {1, 1100, 1060, 1024, 0},
        {3, 5, 20, 33, 0},  {1, 6, 30, 64, 3}, {1, 2, 5, 2500, 0},  {1, 1, 12, 40, 0},
        {12, 1, 30, 64, 0}, {5, 1, 7, 33, 0},  {4, 1, 9, 64, 3},
    };
    static const weir_dtype types[] = {WEIR_BF16, WEIR_F32, WEIR_I8, WEIR_F16,
                                       WEIR_I64,  WEIR_F64, WEIR_I32};

    for (size_t i = 0; i < countof(shapes); i++)
        for (size_t t = 0; t < countof(types); t++)
            if ((!is_fake(dev) && !TEST_THREADS_WATCHED) || (i + t) % 5 == 0)
                check_scatter(dev, &shapes[i], types[t], i % 2 ? WEIR_I32 : WEIR_I64, (i + t) % 2);
}

CONFORMANCE(exact, pieces_side_by_side_are_the_bytes_of_copies)
{
    static const struct {
        int ndim, dim;
        int64_t shape[4], sizes[3];
        int64_t from; /* of the pieces' last dim */
    } cases[] = {
        {4, 3, {1, 5, 16, 0}, {128, 64, 64}, 0}, /* heads of latent attention */
        {4, 3, {2, 3, 4, 0}, {8, 3, 5}, 0},      {3, 1, {3, 0, 24}, {4, 1, 7}, 0},
        {2, 0, {0, 40}, {3, 9, 2}, 0},           {3, 2, {4, 5, 0}, {16, 8, 8}, 1},
        {4, 1, {2, 0, 3, 16}, {2, 1, 4}, 8},     {1, 0, {0}, {5, 64, 16}, 0},
        {3, 0, {0, 7, 9}, {2, 1, 1}, 4},
    };
    static const weir_dtype types[] = {WEIR_BF16, WEIR_F32, WEIR_U8, WEIR_I64};

    for (size_t i = 0; i < countof(cases); i++)
        for (size_t t = 0; t < countof(types); t++) {
            weir_tensor *whole[3], *pieces[3], *out, *part, *copy;
            int last = cases[i].ndim - 1;
            int64_t at = 0;

            test_note("case %zu, %s", i, weir_dtype_name(types[t]));
            for (int p = 0; p < 3; p++) {
                int64_t shape[4];

                memcpy(shape, cases[i].shape, sizeof shape);
                shape[cases[i].dim] = cases[i].sizes[p];
                shape[last] += cases[i].from;
                whole[p] = random_tensor(dev, types[t], cases[i].ndim, shape, (uint64_t)p, 0, 100);
                CHECK_OK(
                    weir_tensor_slice(whole[p], last, cases[i].from, shape[last], 1, &pieces[p]));
            }
            CHECK_OK(weir_concat(pieces, 3, cases[i].dim, &out));
            for (int p = 0; p < 3; p++) {
                CHECK_OK(
                    weir_tensor_slice(out, cases[i].dim, at, at + cases[i].sizes[p], 1, &part));
                CHECK_OK(weir_copy(part, &copy));
                check_same(copy, pieces[p]);
                at += cases[i].sizes[p];
                weir_tensor_release(part);
                weir_tensor_release(copy);
                weir_tensor_release(whole[p]);
                weir_tensor_release(pieces[p]);
            }
            weir_tensor_release(out);
        }
}
