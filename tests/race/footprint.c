/* Strided boxes of bytes against sets of bytes. */
#include "check/race/footprint.h"

#include <stdlib.h>

#include "harness/test.h"

enum { SPACE = 512, BASE = 4096 };

struct box {
    struct weir__footprint f;
    bool bytes[SPACE];
    int64_t shape[4], stride[4];
    int ndim, elem, at;
};

static void touch(struct box *b, int dim, int at)
{
    if (dim == b->ndim) {
        for (int i = 0; i < b->elem; i++)
            b->bytes[at + i] = true;
        return;
    }
    for (int i = 0; i < b->shape[dim]; i++)
        touch(b, dim + 1, at + i * (int)b->stride[dim] * b->elem);
}

static struct box random_box(unsigned *seed)
{
    for (;;) {
        struct box b = {.ndim = rand_r(seed) % 4, .elem = 1 << rand_r(seed) % 4};
        int64_t end;

        b.at = rand_r(seed) % (SPACE / 2);
        end = b.at + b.elem;
        for (int d = 0; d < b.ndim; d++) {
            b.shape[d] = rand_r(seed) % 6 ? 1 + rand_r(seed) % 5 : 0;
            if (rand_r(seed) % 3)
                b.shape[d] = 1 + rand_r(seed) % 5;
            b.stride[d] = rand_r(seed) % 12;
            end += b.shape[d] ? (b.shape[d] - 1) * b.stride[d] * b.elem : 0;
        }
        if (end > SPACE)
            continue;
        weir__footprint_init(&b.f, BASE + (uintptr_t)b.at, (uint32_t)b.elem, b.ndim, b.shape,
                             b.stride);
        touch(&b, 0, b.at);
        return b;
    }
}

TEST(footprint, overlap_and_cover_agree_with_sets_of_bytes)
{
    unsigned seed = 1;
    int overlapping = 0, covering = 0;

    for (int i = 0; i < 200000 / TEST_SLOWDOWN; i++) {
        struct box a = random_box(&seed), b = random_box(&seed);
        bool share = false, inside = true;

        for (int k = 0; k < SPACE; k++) {
            share |= a.bytes[k] && b.bytes[k];
            inside &= !b.bytes[k] || a.bytes[k];
            if (b.bytes[k])
                CHECK(BASE + (uintptr_t)k >= b.f.first && BASE + (uintptr_t)k < b.f.end);
        }
        test_note("pair %d", i);
        CHECK_EQ(weir__footprint_overlaps(&a.f, &b.f), share);
        CHECK_EQ(weir__footprint_overlaps(&b.f, &a.f), share);
        if (b.f.first != b.f.end && weir__footprint_covers(&a.f, &b.f)) {
            CHECK(inside);
            covering++;
        }
        overlapping += share;
    }
    CHECK_GT(overlapping, 1000);
    CHECK_GT(covering, 100);
}

/* The two halves of a matrix of many columns: disjoint, and told so at once. */
TEST(footprint, halves_of_a_large_matrix_do_not_overlap)
{
    struct weir__footprint left, right, column, odd;

    weir__footprint_init(&left, BASE, 4, 2, (int64_t[]){100000, 2048}, (int64_t[]){4096, 1});
    weir__footprint_init(&right, BASE + 4 * 2048, 4, 2, (int64_t[]){100000, 2048},
                         (int64_t[]){4096, 1});
    weir__footprint_init(&column, BASE + 4 * 2047, 4, 1, (int64_t[]){100000}, (int64_t[]){4096});
    weir__footprint_init(&odd, BASE + 4, 4, 2, (int64_t[]){100000, 2048}, (int64_t[]){4096, 2});
    CHECK(!weir__footprint_overlaps(&left, &right));
    CHECK(weir__footprint_overlaps(&left, &column));
    CHECK(!weir__footprint_overlaps(&right, &column));
    CHECK(weir__footprint_overlaps(&odd, &column));
    CHECK(weir__footprint_overlaps(&odd, &right));
}
